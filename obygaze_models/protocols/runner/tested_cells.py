"""The cells of finished runs, read back from their predictions, so that runs can be compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.leakage import Leak
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.registry import UNTRAINED
from obygaze_models.protocols.results.cells import CellRecord
from obygaze_models.protocols.runner.cells import Cell, TestedFold
from obygaze_models.protocols.runner.records import Run

# Training task, test task, model and store.
CellName = tuple[str, str, str, str]
FoldName = tuple[str, int]  # its name, and the seed
UNKNOWN_LEAK = Leak(
    cell="",
    n_test=0,
    in_train=0,
    in_validation=0,
    in_concepts=0,
    leaked=0,
    neighbours=None,
    same_film=None,
    clips=(),
)


@dataclass(frozen=True, eq=False)
class ClipNumbers:
    """The clips that some runs tested: a number for each, and its film."""

    number_of: Mapping[str, int]
    films: NDArray[np.str_]

    @classmethod
    def of_runs(cls, runs: Sequence[Run]) -> "ClipNumbers":
        """Return the numbers of all clips with a prediction, in the order of their ids."""
        film_of: dict[str, str] = {}
        for run in runs:
            for row in run.predictions:
                film_of.setdefault(row["clip_id"], row["movie_id"])
        ids = sorted(film_of)
        films = np.array([film_of[clip] for clip in ids], dtype=np.str_)
        return cls({clip: number for number, clip in enumerate(ids)}, films)


def cells_of_run(
    run: Run, clips: ClipNumbers, further_metrics: Sequence[str] = ()
) -> dict[CellName, Cell]:
    """Return the cells and baselines of a run that have predictions; rows are numbers of clips.

    Args:
        run: A finished run.
        clips: The clips of all runs.
        further_metrics: Metrics of own code.
    """
    rows_of: dict[CellName, dict[FoldName, list[dict[str, Any]]]] = {}
    for row in run.predictions:
        name = (row["train"], row["test"], row["model"], row["feature"])
        folds = rows_of.setdefault(name, {})
        folds.setdefault((row["fold"], row["seed"]), []).append(row)
    cells = {}
    for record in (*run.cells, *run.baselines):
        name = (record.train, record.test, record.model, record.feature)
        if name in rows_of:
            cell = _cell(record, rows_of[name], clips)
            cells[name] = replace(cell, further_metrics=further_metrics)
    return cells


def _cell(
    record: CellRecord,
    rows_of_fold: Mapping[FoldName, Sequence[dict[str, Any]]],
    clips: ClipNumbers,
) -> Cell:
    n_fitted: dict[FoldName, tuple[int, int]] = {}
    for item in record.folds:
        n_fitted[item.fold, item.seed] = (item.n_train, item.n_validation)
    tested = []
    for (fold, seed), rows in rows_of_fold.items():
        n_train, n_validation = n_fitted.get((fold, seed), (0, 0))
        numbers = np.array([clips.number_of[row["clip_id"]] for row in rows])
        order = np.argsort(numbers)
        predictions = Predictions(
            np.array([row["y"] for row in rows], dtype=np.bool_),
            np.array([row["score"] for row in rows], dtype=np.float64),
            np.array([row["decision"] for row in rows], dtype=np.bool_),
        )
        tested.append(
            TestedFold(
                fold=fold,
                seed=seed,
                rows=numbers[order],
                predictions=predictions.take(order),
                n_train=n_train,
                n_validation=n_validation,
                leak=UNKNOWN_LEAK,
                are_probabilities="brier" in record.metrics,
            )
        )
    return Cell(
        train=record.train,
        test=record.test,
        model=record.model,
        feature=record.feature,
        tested=tested,
        averaged=record.repeated,
        shares_films=_shares_films(record, tested, clips),
    )


def _shares_films(
    record: CellRecord, tested: Sequence[TestedFold], clips: ClipNumbers
) -> bool:
    """Return whether clips of one film are in several test sets (see Schedule.shares_films).

    Which clips trained a single fold is not in the predictions. Where the positions of clips are
    unknown, `same_film` is None, and a model without an interval for no other reason says it.
    """
    if len({test.fold for test in tested}) == 1:
        is_without_interval = record.metrics["ap"].ends[0] is None
        is_withheld = (
            is_without_interval
            and record.kind == "cell"
            and not record.no_interval
            and record.n_films > 1
        )
        return bool(record.same_film) or is_withheld
    test_sets = {test.rows.tobytes(): test.rows for test in tested}
    films_before: set[str] = set()
    for rows in test_sets.values():
        films = set(clips.films[rows].tolist())
        if films & films_before:
            return True
        films_before |= films
    return False


def same_clips(first: Cell, second: Cell) -> tuple[Cell, Cell] | None:
    """Return two cells on the clips that both tested, with the same label; None if there is none.

    The labels of two runs differ where the annotations were changed between them.
    """
    shared = np.intersect1d(first.universe, second.universe)
    y_first = first.y[np.searchsorted(first.universe, shared)]
    y_second = second.y[np.searchsorted(second.universe, shared)]
    shared = shared[y_first == y_second]
    if not len(shared):
        return None
    return (
        first.without(np.setdiff1d(first.universe, shared)),
        second.without(np.setdiff1d(second.universe, shared)),
    )


def is_trained(cell: Cell) -> bool:
    """Return whether a cell is of a model that learns from clips."""
    return cell.model not in UNTRAINED
