"""One fold of a cell: what is chosen, drawn, scored and skipped, and under which name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.experiments import films, planted, quick, run_on, store_of
from support.tables import fit_of, models

from obygaze_features.core.errors import FixInput
from obygaze_features.core.parts import trust
from obygaze_features.manifest.model import Manifest
from obygaze_models.models.common import FixTraining
from obygaze_models.models.concepts import ConceptBank
from obygaze_models.models.registry import BASELINES
from obygaze_models.protocols.schema import Model
from obygaze_models.runner import fitting
from obygaze_models.runner.fitting import FitContext, Fitted, fit_model
from obygaze_models.runner.heldout import HeldOut
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.store_run import StoreRun, store_runs

FILMS = films(4, 20)
ONE_CELL = (
    *('grid.train=["ENHN_S"]', 'grid.test=["ENHN_S"]', "report.contrast=[]"),
    *(
        "report.concepts=false",
        "report.compare=false",
        'grid.baselines=["all_positive"]',
    ),
)


def store_run(tmp_path: Path, *changes: str, manifest: Manifest = FILMS) -> StoreRun:
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    inputs = gather(quick("honest", *ONE_CELL, *changes), manifest, "", {"s": store})
    (run,) = store_runs(inputs)
    return run


def first_fold(run: StoreRun) -> tuple[HeldOut, FitContext]:
    pair, _, held = next(iter(run.every_fold))
    return held.joined(), run.context(pair[0])


@pytest.mark.parametrize("name", BASELINES)
def test_a_model_with_the_name_of_a_baseline_is_refused(name: str) -> None:
    """The scores of a model called `random` were replaced by the closed form of that baseline."""
    with pytest.raises(FixInput) as error:
        quick("honest", f"models.{name}.kind=ridge")
    assert "is the name of a baseline" in error.value.details[0]


def test_the_reason_of_a_fit_that_failed_names_the_concept() -> None:
    bank = ConceptBank(concepts=["Body", "Look"])
    # No row has the second concept.
    targets = np.array([[0, 0], [1, 0], [0, 0], [1, 0]])
    with pytest.raises(FixTraining) as raised:
        bank.fit(np.eye(4), targets)
    assert raised.value.reason == (
        "concept Look: rows with the concept and rows without it are both required"
    )


def test_an_inner_split_that_cannot_be_fitted_counts_for_no_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, context = first_fold(store_run(tmp_path))
    splits = list(fitting._inner_splits(held, context))
    assert len(splits) > 1
    good, bad = 2.0, 1.0

    def fit(option: Model, inside: HeldOut, _: FitContext) -> Fitted:
        is_first = np.array_equal(inside.train, splits[0][0])
        if is_first and option.settings["C"] == good:
            raise FixTraining("no concept has 3 training clips with it and 3 without")
        # On the first split the bad option is perfect, on the others the good one.
        sign = 1 if is_first or option.settings["C"] == good else -1
        truth = context.y_of(inside.validation)
        estimator = SimpleNamespace(decision_function=lambda X: sign * truth)
        return Fitted(estimator, 0.0, found_on=inside.validation)

    monkeypatch.setattr(fitting, "fit_model", fit)
    options = [Model("logistic", {"C": C}) for C in (bad, good)]
    number, found_on = fitting._choose(options, held, context)
    assert number == 1
    # Vectors of every fit that was made are known to have seen its clips.
    assert set(found_on.tolist()) == {int(row) for _, rows in splits for row in rows}
    monkeypatch.setattr(fitting, "_inner_splits", lambda held, context: splits[:1])
    assert fitting._choose(options, held, context)[0] == 0


def test_rows_with_the_same_features_have_one_inner_score(tmp_path: Path) -> None:
    """Those of a bottleneck were rounded in other ways, which put them in an order."""
    held, context = first_fold(store_run(tmp_path))
    features = replace(context.features, equal=np.arange(len(FILMS)) // 2)
    scores = fitting._over_inner_splits(
        held, replace(context, features=features), lambda train, rows: rows + 0.0
    ).scores
    pairs = np.unique(scores // 2)
    assert len(np.unique(scores)) == len(pairs) < len(scores)


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
    (cell,) = models(run)
    assert fit_of(run, cell)["skipped"] == {"fold 0": "no clip of this task is tested"}
    assert len(run.folds_of(cell)) == 9


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
    run = store_run(
        tmp_path, f"models.d.kind={kind}", 'grid.models=["d"]', "fit.seed=7"
    )
    fit_model(run.models["d"], *first_fold(run))
    assert set((tmp_path / "seen.txt").read_text().split()) == {"7"}
