"""How well scores follow the levels EN < HN < NS < S, and how near they are to all annotators.

Ranks are compared within films only, because the scores of two folds are of two fits. The errors of
predicted levels count the same for each level, however many clips it has. Of clips that several
annotators labelled, the measures are those of the shared task LeWiDi 2025 (arXiv 2510.08460).
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from obygaze_features.manifest.vocabulary import LEVELS
from obygaze_models.evaluation.bootstrap import resample
from obygaze_models.evaluation.metrics import Values, divide
from obygaze_models.evaluation.predictions import FloatArray, IntArray
from obygaze_models.protocols.clips import ClipTable, other_annotators
from obygaze_models.protocols.results.cells import Estimate
from obygaze_models.protocols.results.levels import AnnotatorDistance, LevelOrder
from obygaze_models.protocols.runner.cells import Cell
from obygaze_models.protocols.schema import Protocol


def level_records(
    protocol: Protocol, cells: Sequence[Cell], table: ClipTable
) -> Iterator[LevelOrder]:
    """Yield the record of each cell whose test clips have three or more levels."""
    if not protocol.report.levels:
        return
    groups = table.column(protocol.splits.group)
    rank_of_clip = np.array(
        [LEVELS.index(level) if level else -1 for level in table.levels.tolist()]
    )
    for cell in cells:
        rows = np.flatnonzero(rank_of_clip[cell.universe] >= 0)
        ranks = rank_of_clip[cell.universe[rows]]
        if cell.share is not None or len(np.unique(ranks)) < 3:
            continue  # a closed form has no scores of clips
        films = groups[cell.universe[rows]]
        concordance = _concordance(
            cell.mean_scores[rows], ranks, films, protocol, cell.inflation
        )
        macro_error = None
        if cell.mean_levels is not None:
            errors = np.abs(median_levels(cell.mean_levels[rows]) - ranks)
            by_level = [errors[ranks == rank].mean() for rank in np.unique(ranks)]
            macro_error = float(np.mean(by_level))
        distances = np.abs(np.arange(len(LEVELS))[:, None] - np.unique(ranks))
        yield LevelOrder(
            model=cell.model,
            feature=cell.feature,
            train=cell.train,
            test=cell.test,
            n_test=len(rows),
            concordance=concordance,
            macro_error=macro_error,
            blind_error=float(distances.mean(axis=1).min()),
        )


def annotator_records(
    protocol: Protocol, cells: Sequence[Cell], table: ClipTable
) -> Iterator[AnnotatorDistance]:
    """Yield how near each cell is to the annotators of its clips, where several labelled them."""
    if not any(table.others):
        return
    names = table.column("annotator")
    for cell in cells:
        if cell.share is not None:
            continue
        of_others = other_annotators(cell.test, protocol.tasks[cell.test], table)
        of_others = of_others[cell.universe]
        is_marked = np.flatnonzero(np.isfinite(of_others))
        rows = cell.universe[is_marked]
        scores = cell.mean_scores
        is_probability = all(t.are_probabilities for t in cell.tested)
        threshold = 0.5 if is_probability else 0.0
        wrong = (scores > threshold) != cell.y
        annotators = names[cell.universe]
        errors = {
            name: float(wrong[annotators == name].mean())
            for name in np.unique(annotators)
        }
        manhattan = None
        wasserstein = None
        blind_manhattan = None
        if is_probability and len(rows):
            n_others = np.array([len(table.others[row]) for row in rows])
            labels = cell.y[is_marked] + n_others * of_others[is_marked]
            target = labels / (1 + n_others)
            distances = np.abs(scores[is_marked] - target)
            manhattan = float(2 * distances.mean())
            if cell.mean_levels is not None:
                shares = _level_shares(table, rows)
                gaps = np.cumsum(cell.mean_levels[is_marked] - shares, axis=1)
                wasserstein = float(np.abs(gaps[:, :-1]).sum(axis=1).mean())
            blind_distances = np.abs(np.median(target) - target)
            blind_manhattan = float(2 * blind_distances.mean())
        yield AnnotatorDistance(
            model=cell.model,
            feature=cell.feature,
            train=cell.train,
            test=cell.test,
            n_test=len(rows),
            errors=errors,
            manhattan=manhattan,
            wasserstein=wasserstein,
            blind_manhattan=blind_manhattan,
        )


def _level_shares(table: ClipTable, rows: IntArray) -> FloatArray:
    """Return the share of the annotators of each row that gave it each level."""
    shares = []
    for row in rows:
        clips = [table.clips[row], *table.others[row]]
        given = [clip.level for clip in clips]
        shares.append([given.count(level) / len(given) for level in LEVELS])
    return np.array(shares)


def pairs_in_order(scores: FloatArray, ranks: IntArray) -> tuple[float, float]:
    """Return pairs of clips of two levels: with scores in that order (ties are half), and all."""
    won = 0.0
    pairs = 0.0
    for rank in np.unique(ranks).tolist():
        higher = scores[ranks == rank]
        lower = np.sort(scores[ranks < rank])
        n_below = np.searchsorted(lower, higher, side="left")
        n_at_most = np.searchsorted(lower, higher, side="right")
        won += float(n_below.sum() + n_at_most.sum()) / 2
        pairs += float(len(higher) * len(lower))
    return won, pairs


def median_levels(probabilities: FloatArray) -> IntArray:
    """Return the first level of each row that, with all below it, has half the probability."""
    at_most = np.cumsum(probabilities, axis=1)
    return np.asarray((at_most < at_most[:, -1:] / 2).sum(axis=1))


def _concordance(
    scores: FloatArray,
    ranks: IntArray,
    films: NDArray[np.str_],
    protocol: Protocol,
    inflation: float,
) -> Estimate:
    """Return the share of pairs of clips within films that are in order, with its interval."""
    names = np.unique(films)
    parts = [films == film for film in names]
    counts = [pairs_in_order(scores[part], ranks[part]) for part in parts]
    won, pairs = np.array(counts).T

    def share(weights: FloatArray) -> Values:
        return {"share": divide(weights @ won, weights @ pairs)}

    drawn = resample(
        share,
        names,
        n_replicates=protocol.report.replicates,
        confidence=protocol.report.confidence,
        seed=protocol.fit.seed,
        within_unit=True,
        inflation=inflation,
    )
    interval, _ = drawn["share"]
    value = float(share(np.ones((1, len(names))))["share"][0])
    return Estimate(value=value, ci=[interval.low, interval.high])
