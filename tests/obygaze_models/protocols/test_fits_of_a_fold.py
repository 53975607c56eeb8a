"""One fold of a cell: what is chosen, drawn, scored and skipped, and under which name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from obygaze_models.protocols.runner import models
from obygaze_models.protocols.runner.execute import FitContext, try_fit
from obygaze_models.protocols.runner.models import FoldFit, fit_model
from support.experiments import films, planted, quick, run_on, store_of

from obygaze_features.core.errors import FixInput
from obygaze_features.core.parts import trust
from obygaze_features.manifest.model import Manifest
from obygaze_models.models.common import FixTraining
from obygaze_models.models.concepts import ConceptBank
from obygaze_models.models.registry import BASELINES
from obygaze_models.protocols.schedule import FoldData
from obygaze_models.protocols.schema import Model
from obygaze_models.runner.inputs import gather

FILMS = films(4, 20)
ONE_CELL = (
    *('grid.train=["ENHN_S"]', 'grid.test=["ENHN_S"]', "report.contrast=[]"),
    *(
        "report.concepts=false",
        "report.compare=false",
        'grid.baselines=["all_positive"]',
    ),
)


def context_of(tmp_path: Path, *changes: str, manifest: Manifest = FILMS) -> FitContext:
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    inputs = gather(quick("honest", *ONE_CELL, *changes), manifest, "", {"s": store})
    return inputs.context(inputs.features[0])


def first_fold(context: FitContext) -> FoldData:
    pair, _, split = next(iter(context.folds))
    return context.fold_data(pair[0], split, join_validation=True)


@pytest.mark.parametrize("name", BASELINES)
def test_a_model_with_the_name_of_a_baseline_is_refused(name: str) -> None:
    """The scores of a model called `random` were replaced by the closed form of that baseline."""
    with pytest.raises(FixInput) as error:
        quick("honest", f"models.{name}.kind=ridge")
    assert "is the name of a baseline" in error.value.details[0]


def test_the_reason_of_a_fit_that_failed_names_the_concept(tmp_path: Path) -> None:
    data = first_fold(context_of(tmp_path))

    def fit_of_a_concept() -> FoldFit:
        bank = ConceptBank(concepts=["Body", "Look"])
        # No row has the second concept.
        targets = np.array([[0, 0], [1, 0], [0, 0], [1, 0]])
        bank.fit(np.eye(4), targets)
        raise AssertionError

    assert try_fit(fit_of_a_concept, data) == (
        "concept Look: rows with the concept and rows without it are both required"
    )


def test_an_inner_split_that_cannot_be_fitted_counts_for_no_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = context_of(tmp_path)
    data, banks = first_fold(context), context.new_banks()
    splits = list(models._inner_splits(data))
    assert len(splits) > 1
    good, bad = 2.0, 1.0

    def fit(option: Model, _: object, __: object, train: Any, rows: Any) -> FoldFit:
        is_first = np.array_equal(train, splits[0][0])
        if is_first and option.settings["C"] == good:
            raise FixTraining("no concept has 3 training clips with it and 3 without")
        # On the first split the bad option is perfect, on the others the good one.
        sign = 1 if is_first or option.settings["C"] == good else -1
        return FoldFit(
            None, lambda clips: sign * data.labels[clips].astype(float), found_on=rows
        )

    monkeypatch.setattr(models, "_inner_fit", fit)
    options = [Model("logistic", {"C": C}) for C in (bad, good)]
    number, found_on = models._choose(options, data, banks)
    assert number == 1
    # Vectors of every fit that was made are known to have seen its clips.
    assert set(found_on.tolist()) == {int(row) for _, rows in splits for row in rows}
    monkeypatch.setattr(models, "_inner_splits", lambda data: splits[:1])
    assert models._choose(options, data, banks)[0] == 0


def test_a_perceptron_that_diverged_is_never_chosen() -> None:
    def probe(*losses: float) -> Any:
        return SimpleNamespace(validation_loss_=list(losses), kept_epoch_=len(losses))

    assert models._loss(probe(0.5, float("nan"))) == np.inf
    assert models._loss(probe(0.5, 0.4)) == 0.4


def test_a_fold_without_a_test_clip_is_skipped_once_for_all_seeds(
    tmp_path: Path,
) -> None:
    film = FILMS.clips[0].movie_id
    clips = [replace(c, level="NS") if c.movie_id == film else c for c in FILMS]
    changes = (
        "data.view=raw",
        'grid.models=["mlp"]',
        "models.mlp.max_epochs=1",
        "models.mlp.min_epochs=1",
    )
    store = store_of(tmp_path / "s", FILMS, planted(FILMS))
    protocol = quick("honest", *ONE_CELL, *changes, "fit.seeds=3", replicates=20)
    run = run_on(tmp_path, protocol, FILMS.with_clips(clips), {"s": store})
    assert run.cells[0]["skipped"] == [
        {"fold": "fold 0", "reason": "no clip of this task is tested in it"}
    ]
    assert len(run.cells[0]["folds"]) == 9


DRAWN = """
from pathlib import Path
from sklearn.linear_model import LogisticRegression

class Drawn(LogisticRegression):
    def __init__(self, random_state=None):
        super().__init__(random_state=random_state)
    def fit(self, X, y):
        with Path(__file__).with_name("seen.txt").open("a") as seen:
            print(self.random_state, file=seen)
        return super().fit(X, y)
"""


def test_an_own_class_is_drawn_with_the_seed_of_the_protocol(tmp_path: Path) -> None:
    (tmp_path / "drawn.py").write_text(DRAWN)
    kind = f"{tmp_path / 'drawn.py'}:Drawn"
    trust([kind])
    context = context_of(
        tmp_path, f"models.d.kind={kind}", 'grid.models=["d"]', "fit.seed=7"
    )
    fit_model(context.models["d"], first_fold(context), context.new_banks())
    assert set((tmp_path / "seen.txt").read_text().split()) == {"7"}
