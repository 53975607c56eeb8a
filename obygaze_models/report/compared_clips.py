"""Warnings where runs that are compared do not test the same clips in the same folds."""

from collections.abc import Mapping, Sequence

import numpy as np

from obygaze_features.core.console import count
from obygaze_models.evaluation.metrics import RANKING_METRICS
from obygaze_models.protocols.results.cells import CellRecord
from obygaze_models.protocols.runner.cells import Cell
from obygaze_models.protocols.runner.table import short_metric
from obygaze_models.protocols.runner.tested_cells import CellName

Records = Mapping[CellName, CellRecord]
Cells = Mapping[CellName, Cell]
BothRuns = tuple[
    CellName, CellRecord, CellRecord
]  # a cell, in the first run and another


def warnings_of_clips(
    names: Sequence[str],
    records: Sequence[Records],
    tested: Sequence[Cells],
    metric: str,
) -> list[str]:
    """Return a warning for each run that tests other clips than the first, or in other folds.

    Args:
        names: The names of the runs.
        records: The records of the cells of each run.
        tested: The cells with predictions of each run.
        metric: The metric to compare by.
    """
    warnings = []
    for position in range(1, len(names)):
        shared = [name for name in records[0] if name in records[position]]
        of_other_clips = []
        of_other_folds = []
        for name in shared:
            first = records[0][name]
            other = records[position][name]
            first_cell = tested[0].get(name)
            other_cell = tested[position].get(name)
            if not _have_same_clips(first, other, first_cell, other_cell):
                of_other_clips.append((name, first, other))
            elif not _have_same_folds(first, other, first_cell, other_cell):
                of_other_folds.append((name, first, other))
        n_cells = count(len(shared), "cell")
        if of_other_clips:
            warnings.append(
                f"{names[position]} does not test the clips of {names[0]} in "
                f"{len(of_other_clips)} of {n_cells}: {_clips_text(of_other_clips[0])}. "
                + _text_of_other_clips(of_other_clips, metric)
            )
        is_averaged = any(
            first.repeated or other.repeated for _, first, other in of_other_folds
        )
        if of_other_folds and (metric in RANKING_METRICS or is_averaged):
            warnings.append(
                f"{names[position]} tests the clips of {names[0]} in other folds in "
                f"{len(of_other_folds)} of {n_cells}: {_folds_text(of_other_folds[0])}. "
                f"{short_metric(metric)} is computed within folds, so that neither the values "
                "nor the differences are of one quantity (docs/reports.md)"
            )
    return warnings


def _text_of_other_clips(cells: Sequence[BothRuns], metric: str) -> str:
    """Return what the values and the differences of cells of other clips are."""
    differences = (
        "differences are computed on the clips that both tested with the same label"
    )
    has_one_share = all(
        first.prevalence == other.prevalence for _, first, other in cells
    )
    if metric == "auc" or has_one_share:
        return f"Their values are of other clips or labels; {differences}"
    return (
        f"{short_metric(metric)} depends on the share of positive clips, so that their values "
        f"are not of one quantity (AUC does not depend on it); {differences}"
    )


def _have_same_clips(
    first: CellRecord,
    other: CellRecord,
    first_cell: Cell | None,
    other_cell: Cell | None,
) -> bool:
    """Return whether two cells test the same clips with the same labels.

    Of a closed form, which has no predictions, only the numbers of clips are known.
    """
    if first_cell is None or other_cell is None:
        sizes = (first.n_test, first.n_positive)
        return sizes == (other.n_test, other.n_positive)
    has_same_clips = np.array_equal(first_cell.universe, other_cell.universe)
    return has_same_clips and np.array_equal(first_cell.y, other_cell.y)


def _have_same_folds(
    first: CellRecord,
    other: CellRecord,
    first_cell: Cell | None,
    other_cell: Cell | None,
) -> bool:
    """Return whether two cells divide their clips into the same sets of test clips."""
    if first_cell is None or other_cell is None:
        return _fold_sizes(first) == _fold_sizes(other)
    return _test_sets(first_cell) == _test_sets(other_cell)


def _fold_sizes(record: CellRecord) -> set[tuple[int, int]]:
    return {(fold.n_test, fold.n_positive) for fold in record.folds}


def _test_sets(cell: Cell) -> set[bytes]:
    return {test.rows.tobytes() for test in cell.tested}


def _clips_text(cell: BothRuns) -> str:
    """Return the clips of a cell in both runs."""
    (train, test, model, _), first, other = cell
    return (
        f"{model} ({train} -> {test}) has {_size_text(other)}, and in the first run "
        f"{_size_text(first)}"
    )


def _size_text(record: CellRecord) -> str:
    clips = count(record.n_test, "clip")
    return f"{clips} ({100 * record.prevalence:.1f} % positive)"


def _folds_text(cell: BothRuns) -> str:
    """Return the numbers of folds of a cell in both runs."""
    (train, test, model, _), first, other = cell
    n_first = len({fold.fold for fold in first.folds})
    n_other = len({fold.fold for fold in other.folds})
    folds = count(n_other, "fold")
    return f"{model} ({train} -> {test}) has {folds}, and in the first run {n_first}"
