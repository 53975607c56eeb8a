"""How well scores follow the order of the annotation levels, EN < HN < NS < S.

Ranks are compared within films only, because the scores of two folds are of two fits. The errors of
predicted levels count the same for each level, however many clips it has.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from obygaze_features.manifest.vocabulary import LEVELS
from obygaze_models.evaluation.bootstrap import Statistics, resample
from obygaze_models.evaluation.metrics import Values, divide
from obygaze_models.evaluation.predictions import FloatArray, IntArray
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.runner.cells import Cell
from obygaze_models.protocols.runner.records import Record
from obygaze_models.protocols.schema import Protocol


def level_records(protocol: Protocol, cells: Sequence[Cell], table: ClipTable) -> Iterator[Record]:
    """Yield the record of each cell whose test clips have three or more levels."""
    groups = table.column(protocol.splits.group)
    ranks = np.array([LEVELS.index(level) if level else -1 for level in table.levels.tolist()])
    for cell in cells if protocol.report.levels else ():
        rows = np.flatnonzero(ranks[cell.universe] >= 0)
        own = ranks[cell.universe[rows]]
        if cell.share is not None or len(np.unique(own)) < 3:
            continue  # a closed form has no scores of clips
        films = np.unique(groups[cell.universe[rows]], return_inverse=True)[1]
        found = with_interval(
            _concordance(cell.mean_scores[rows], own, films), cell, protocol, films
        )
        if cell.mean_levels is not None:
            errors = np.abs(median_levels(cell.mean_levels[rows]) - own)
            of_errors = _macro_error(errors, own, films)
            found |= with_interval(of_errors, cell, protocol, films, within_unit=False)
        distances = np.abs(np.arange(len(LEVELS))[:, None] - np.unique(own))
        yield {
            "kind": "levels",
            **{key: getattr(cell, key) for key in ("model", "feature", "train", "test")},
            "n_test": len(rows),
            "n_of_level": {level: int((own == i).sum()) for i, level in enumerate(LEVELS)},
            **found,
            "blind_error": float(distances.mean(axis=1).min()),
        }


def pairs_in_order(scores: FloatArray, ranks: IntArray) -> tuple[float, float]:
    """Return pairs of clips of two levels: with scores in that order (ties are half), and all."""
    lower = ranks[:, None] < ranks
    above = (scores[:, None] < scores) + 0.5 * (scores[:, None] == scores)
    return float(above[lower].sum()), float(lower.sum())


def median_levels(probabilities: FloatArray) -> IntArray:
    """Return the first level of each row that, with all below it, has half the probability."""
    at_most = np.cumsum(probabilities, axis=1)
    found: IntArray = (at_most < at_most[:, -1:] / 2).sum(axis=1)
    return found


def _concordance(scores: FloatArray, ranks: IntArray, films: IntArray) -> Statistics:
    """Return the share of pairs within films that are in order, as a function of film weights."""
    parts = [np.flatnonzero(films == film) for film in range(films.max() + 1)]
    won, pairs = np.array([pairs_in_order(scores[part], ranks[part]) for part in parts]).T
    return lambda weights: {"concordance": divide(weights @ won, weights @ pairs)}


def _macro_error(errors: IntArray, ranks: IntArray, films: IntArray) -> Statistics:
    """Return the mean over levels of the mean error, as a function of film weights."""
    total, n = np.zeros((2, films.max() + 1, len(LEVELS)))
    np.add.at(total, (films, ranks), errors)
    np.add.at(n, (films, ranks), 1)

    def compute(weights: FloatArray) -> Values:
        return {"macro_error": np.nanmean(divide(weights @ total, weights @ n), axis=1)}

    return compute


def with_interval(
    statistics: Statistics,
    cell: Cell,
    protocol: Protocol,
    films: IntArray,
    *,
    within_unit: bool = True,
) -> Record:
    """Return each statistic of film weights with its interval over films."""
    n_films = int(films.max()) + 1
    drawn = resample(
        statistics,
        np.arange(n_films),
        n_replicates=protocol.report.replicates,
        level=protocol.report.confidence,
        seed=protocol.fit.seed,
        within_unit=within_unit,
        inflation=cell.inflation,
    )
    return {
        name: {"value": float(value[0]), "ci": [drawn[name][0].low, drawn[name][0].high]}
        for name, value in statistics(np.ones((1, n_films))).items()
    }
