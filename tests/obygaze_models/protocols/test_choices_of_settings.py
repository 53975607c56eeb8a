"""Settings are chosen by what can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.experiments import films, planted, quick, run_on, store_of
from support.tables import models

from obygaze_features.core.errors import FixInput
from obygaze_features.store import Store
from obygaze_models.models.registry import KINDS
from obygaze_models.protocols.schema import Protocol
from obygaze_models.runner.files import Run

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
    protocol = choosing("mlp", "learning_rate.grid=[1e38, 1e37]")
    with pytest.raises(FixInput, match="training diverged"):
        run_on(tmp_path, protocol, MANIFEST, {"x": store})


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
