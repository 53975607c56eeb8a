"""Which clips find the vectors of concepts whose margins train a bottleneck: by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.experiments import films, planted, quick, store_of

from obygaze_models.models.common import FixTraining
from obygaze_models.models.concepts import (
    TOLERANCES,
    _best_of_folds,
    _best_tolerances,
    _without_each_fold,
    cross_fit_parts,
)
from obygaze_models.models.examples import findable
from obygaze_models.models.lessons import Lessons, lessons_of
from obygaze_models.models.registry import build
from obygaze_models.runner.heldout import nothing_held_out
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.store_run import store_runs

FILMS = np.array(["a", "a", "b", "b", "b", "c", "c"])


def cross_folds(rows: list[int], n_folds: int, *, grouped: bool) -> list[list[int]]:
    films = FILMS if grouped else None
    everything = np.zeros((len(FILMS), 1))
    lessons = lessons_of(everything, FILMS, ["Body"], everything.astype(int), films)
    may_learn = np.isin(np.arange(len(FILMS)), rows)
    lessons = replace(lessons, may_learn=may_learn)
    groups = lessons.groups_of_concepts
    parts = cross_fit_parts(lessons.of_concepts, groups, n_folds, 3)
    return [part.tolist() for part in parts]


def test_films_stay_together_in_as_many_parts_as_there_are_films() -> None:
    assert cross_folds([0, 1, 2, 4], 5, grouped=True) == [[0, 1], [2, 4]]
    assert cross_folds([0, 2, 5, 6], 2, grouped=True) == [[0, 5, 6], [2]]
    assert cross_folds([0, 2, 5, 6], 1, grouped=True) == []


def test_without_films_parts_of_clips_have_equal_sizes() -> None:
    parts = cross_folds([0, 1, 2, 3, 4, 5, 6], 3, grouped=False)
    assert sorted(len(part) for part in parts) == [2, 2, 3]
    assert sorted(row for part in parts for row in part) == list(range(7))
    # One film has no other, but its clips have.
    assert len(cross_folds([2, 3, 4], 2, grouped=True)) == 2
    assert cross_folds([2, 3, 4], 1, grouped=False) == []


@pytest.mark.parametrize("n_films", [1, 2, 3])
def test_no_margin_is_of_a_vector_that_was_found_on_its_clip(
    tmp_path: Path, n_films: int
) -> None:
    """Where all clips are of one film, vectors are found without a part of its clips.

    Of two films, each fold trains on one. A kept model is fitted on all clips, whatever the splits.
    """
    manifest = films(n_films, 120 // n_films, seed=3, runs_on=0.2)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    splits = ["splits.kind=kfold", "splits.folds=2"] if n_films == 1 else []
    changes = ['grid.models=["pcbm-lr"]', "models.pcbm-lr.tolerance=0.1", *splits]
    inputs = gather(quick("honest", *changes), manifest, "made-up", {"x": store})
    (run,) = store_runs(inputs)
    rows = np.arange(len(manifest))
    all_folds = [nothing_held_out(run.table, rows)]
    all_folds += [held.joined() for _, _, held in run.every_fold]
    unfitted = build("pcbm-lr", run.models["pcbm-lr"].settings)
    for held in all_folds:
        lessons = run.lessons("EN_S", held)
        margins = unfitted._found(lessons)
        in_sample = margins.bank.margins(run.rows.machines.X)
        is_other = (margins.of_rows != in_sample).all(axis=1)
        assert np.flatnonzero(is_other).tolist() == lessons.of_concepts.tolist()


@dataclass
class Known:
    """Vectors whose margins are known: those of a tolerance, whatever the clips."""

    by_tolerance: dict[Any, list[list[float]]]
    C: Any = None
    against: str = "absent"

    def found_on(self, lessons: Lessons, rows: np.ndarray) -> Any:
        margins = np.array(self.by_tolerance[self.C])
        of_clips = lambda X: margins[X[:, 0].astype(int)]  # noqa: E731
        return SimpleNamespace(rows=rows.tolist(), margins=of_clips)


def six_clips() -> Lessons:
    """The examples of two concepts in six clips, of two folds of a file."""
    targets = np.array([[1, 1], [0, 0], [-1, 1], [1, 0], [1, 1], [0, 0]])
    X = np.arange(6.0)[:, None]
    lessons = lessons_of(X, targets[:, 1], ("Body", "Look"), targets, None)
    return replace(lessons, file_folds=np.array([0, 0, 0, 0, 1, 1]))


def test_f1_of_each_vector_in_the_fold_that_did_not_find_it() -> None:
    """A clip that is no example (-1) is neither right nor wrong, whatever its margin."""
    margins = [[1, 1], [1, -1], [1, 1], [-1, -1], [-1, 0], [-1, -1]]
    bank: Any = Known({None: margins})
    banks, scores = _without_each_fold(bank, six_clips())
    found_on: list[Any] = [found.rows for found in banks]
    assert found_on == [[4, 5], [0, 1, 2, 3]]
    # Body, fold 0: a hit, a false alarm, a miss; Look: two hits. Fold 1: one missed each.
    assert scores.tolist() == [[2 / 4, 1.0], [0.0, 0.0]]


def test_each_concept_has_the_tolerance_with_the_best_mean_f1() -> None:
    right = [[1, 1], [-1, -1], [-1, 1], [1, -1], [1, 1], [-1, -1]]
    wrong = [[-1, -1]] * 6
    mixed = [[right_row[0], -1] for right_row in right]
    margins: dict[Any, Any] = dict.fromkeys(TOLERANCES, wrong)
    margins[TOLERANCES[2]] = mixed
    margins[TOLERANCES[4]] = right
    bank: Any = Known(margins)
    # Body is right twice; of equal tolerances the first is taken.
    assert _best_tolerances(bank, six_clips()) == {
        "Body": TOLERANCES[2],
        "Look": TOLERANCES[4],
    }


def test_of_each_concept_the_vector_of_the_best_fold_is_taken() -> None:
    def bank(number: float) -> Any:
        return SimpleNamespace(
            coef_=np.full((2, 3), number),
            intercept_=np.full(2, number),
            C_=np.full(2, number),
            length_=np.full(2, number),
        )

    scores = np.array([[0.5, 0.2], [0.5, 0.1], [0.4, 0.7]])
    best_bank = _best_of_folds([bank(0.0), bank(1.0), bank(2.0)], scores)
    assert best_bank.coef_.tolist() == [[0.0] * 3, [2.0] * 3]
    for name in ("intercept_", "C_", "length_"):
        assert getattr(best_bank, name).tolist() == [0.0, 2.0]


def test_a_concept_needs_three_examples_of_each_kind() -> None:
    columns = [
        [1, 1, 1, 0, 0, 0, -1],
        [1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, -1],
        [1, 1, 1, 1, 0, 0, 0],
    ]
    targets = np.array(columns).T
    assert findable(targets) == [0, 3]
    with pytest.raises(FixTraining, match="no concept has 3 training clips with it"):
        findable(targets[:, 1:3])
