"""Settings are chosen by what can be compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sklearn.metrics import average_precision_score
from support.experiments import films, planted, quick, run_on, store_of
from support.tables import models

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Store
from obygaze_models.models.registry import KINDS
from obygaze_models.protocols.schema import Protocol
from obygaze_models.runner.files import Run
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.store_run import fit_model, store_runs

MANIFEST = films(4, 40, seed=3)
ONE_PAIR = (
    *('grid.train=["EN_S"]', 'grid.test=["EN_S"]', "report.contrast=[]"),
    *("report.concepts=false", "report.compare=false", "grid.baselines=[]"),
)


def choosing(kind: str, *settings: str) -> Protocol:
    """The honest protocol with one model `x`, and few fits."""
    changes = [f"models.x.kind={kind}", 'grid.models=["x"]', *ONE_PAIR]
    name = "honest"
    if KINDS[kind].reads == "frames":
        name = "honest-frames"
        changes.append("report.questions=[]")
    if kind == "mlp":
        changes += ["models.x.max_epochs=3", "models.x.min_epochs=1"]
    if KINDS[kind].head:
        changes += ["models.x.tolerance=0.1", "models.x.cross_fit=2"]
    chosen = [f"models.x.{setting}" for setting in settings]
    return quick(name, *changes, *chosen, replicates=2)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("choices")
    return store_of(folder / "s", MANIFEST, planted(MANIFEST, width=14))


def chosen_in(run: Run, setting: str) -> list[Any]:
    return [fold["chosen"][setting] for fold in run.folds_of(models(run)[0])]


def test_a_combination_that_diverges_is_not_chosen(
    store: Store, tmp_path: Path
) -> None:
    """It ended the run; now the other one has the bytes that it has alone."""
    run = run_on(
        tmp_path,
        choosing("mlp", "learning_rate.grid=[1e38, 0.001]"),
        MANIFEST,
        {"x": store},
    )
    assert chosen_in(run, "learning_rate") == [0.001] * 4
    alone = run_on(
        tmp_path, choosing("mlp", "learning_rate=0.001"), MANIFEST, {"x": store}
    )
    predictions = [
        (own.folder / "predictions.csv").read_bytes() for own in (run, alone)
    ]
    assert predictions[0] == predictions[1]


def few_positives() -> Manifest:
    """Films with one sure clip in ten."""
    clips = []
    for number, clip in enumerate(films(4, 60, seed=3)):
        level = "S" if number % 10 == 0 else "EN"
        concepts = ("Look",) if level == "S" else ()
        clips.append(replace(clip, level=level, concepts=concepts))
    return replace(MANIFEST, clips=tuple(clips))


def test_losses_with_other_weights_are_not_compared(tmp_path: Path) -> None:
    """The unweighted loss is the smaller one where few clips are positive: it was always taken."""
    manifest = few_positives()
    store = store_of(
        tmp_path / "s", manifest, planted(manifest, width=14, strength=0.7)
    )
    protocol = choosing("mlp", "class_weight.grid=['none', 'balanced']")
    inputs = gather(protocol, manifest, "", {"x": store})
    (run,) = store_runs(inputs)
    model = protocol.models["x"]
    chosen = []
    for _, _, whole in run.every_fold:
        held = whole.apart()
        rows = run.of_store.row_of[held.validation]
        for seed in range(2):
            (fit,) = fit_model(run, model, "EN_S", [held], seed)
            chosen.append(fit.chosen["class_weight"])
            precisions = {}
            losses = {}
            for weight in ("none", "balanced"):
                alone = replace(
                    model, settings={**model.settings, "class_weight": weight}
                )
                (fitted,) = fit_model(run, alone, "EN_S", [held], seed)
                scores = fitted.scores(rows)
                truth = fitted.data.y[rows]
                precisions[weight] = average_precision_score(truth, scores)
                losses[weight] = fitted.estimator.validation_loss_.min()
            assert losses["none"] < losses["balanced"]
            assert precisions[chosen[-1]] == max(precisions.values())
    assert "balanced" in chosen


def test_epochs_that_do_not_fit_are_an_error_before_the_run() -> None:
    """The error came with the first perceptron that was fitted."""
    with pytest.raises(FixInput) as error:
        quick("honest", "models.mlp.max_epochs.grid=[3, 8]")
    assert list(error.value.details) == [
        "--set models.mlp.max_epochs.grid: must be at least min_epochs"
    ]
    by_task = "{ by_task = { HN_S = 2, other = 9 } }"
    with pytest.raises(FixInput, match="not valid"):
        quick("honest", f"models.mlp.max_epochs={by_task}")
    quick("honest", f"models.mlp.max_epochs={by_task}", 'grid.train=["EN_S"]')
