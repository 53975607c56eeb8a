"""Intervals of a film from the scores of its windows, and how well they match marked segments.

Average precision is that of temporal action localisation (ActivityNet): the surest interval first
takes the free segment that it overlaps most, if their intersection over union (tIoU) is at least
`TIOUS`. Each film is a ranking of its own, because scores of different fits have different scales.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from obygaze_models.evaluation.predictions import FloatArray

TIOUS = (0.3, 0.4, 0.5, 0.6, 0.7)
WIDTHS = (1, 5, 15, 45)
GAPS = (0, 3, 15)
QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
ROUNDING_S = 1e-6


class Rule(NamedTuple):
    """How scores become intervals: windows to average, lowest score, windows to bridge."""

    width: int
    threshold: float
    gap: int


class ScoredFilm(NamedTuple):
    """Start and end of each window in seconds, its score, and the segments of each annotator."""

    times: FloatArray
    scores: FloatArray
    marked: Sequence[FloatArray]


def smooth(scores: FloatArray, width: int) -> FloatArray:
    """Return the mean of `width` windows around each one, of fewer at the ends."""
    near, inside = np.ones(width), slice(width // 2, width // 2 + len(scores))
    sums = (np.convolve(own, near)[inside] for own in (scores, np.ones(len(scores))))
    return np.divide(*sums)


def find_intervals(times: FloatArray, scores: FloatArray, rule: Rule) -> FloatArray:
    """Return start, end and mean score of each run of windows above the threshold.

    A window stands for the time around its centre, up to half a stride away.
    """
    smoothed = smooth(scores, rule.width)
    kept = np.flatnonzero(smoothed > rule.threshold)
    stride = float(np.median(np.diff(times[:, 0]))) if len(times) > 1 else float(np.ptp(times))
    centre = times.mean(axis=1)[kept]
    new = np.flatnonzero(np.diff(centre) > (rule.gap + 1) * stride + ROUNDING_S) + 1
    runs = np.split(np.arange(len(kept)), new) if len(kept) else []
    rows = [
        (centre[run[0]] - stride / 2, centre[run[-1]] + stride / 2, smoothed[kept[run]].mean())
        for run in runs
    ]
    return np.array(rows).reshape(-1, 3)


def precisions(found: FloatArray, marked: Sequence[FloatArray]) -> FloatArray:
    """Return the average precision of intervals at each of `TIOUS`, averaged over annotators."""
    found = found[np.argsort(-found[:, 2], kind="stable")]
    values = []
    for own in marked:
        start, end = np.maximum(found[:, :1], own[:, 0]), np.minimum(found[:, 1:2], own[:, 1])
        shared, lengths = np.maximum(end - start, 0), own[:, 1] - own[:, 0]
        shares = shared / (lengths + (found[:, 1] - found[:, 0])[:, None] - shared)
        values.append([_precision(shares, least) for least in TIOUS])
    return np.mean(values, axis=0) if values else np.full(len(TIOUS), np.nan)


def _precision(shares: FloatArray, least: float) -> float:
    """Return the area under the falling hull of precision over recall."""
    hits, free = np.zeros(len(shares)), np.ones(shares.shape[1])
    for row in np.flatnonzero(shares.max(axis=1) >= least):
        own = shares[row] * free
        best = own.argmax()
        if own[best] >= least:
            hits[row], free[best] = 1, 0
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    hull = np.maximum.accumulate(precision[::-1])[::-1]
    return float(hull @ hits) / len(free)


def choose_rule(films: Sequence[ScoredFilm]) -> Rule:
    """Return the rule with the highest mean precision over films."""
    best, rule = -1.0, Rule(1, np.inf, 0)
    for width in WIDTHS:
        smoothed = [smooth(film.scores, width) for film in films]
        steps = np.unique(np.quantile(np.concatenate(smoothed), QUANTILES)).tolist()
        for step, gap in product(steps, GAPS):
            found = [
                precisions(find_intervals(film.times, scores, Rule(1, step, gap)), film.marked)
                for film, scores in zip(films, smoothed, strict=True)
            ]
            if np.mean(found) > best:
                best, rule = float(np.mean(found)), Rule(width, step, gap)
    return rule


def blind_intervals(films: Sequence[ScoredFilm], times: FloatArray) -> FloatArray:
    """Return equally spaced intervals with mean length and share of segments of other films."""
    pairs = [(own[:, 1] - own[:, 0], film.times) for film in films for own in film.marked]
    length = np.concatenate([own for own, _ in pairs]).mean()
    share = sum(own.sum() for own, _ in pairs) / sum(np.ptp(own) for _, own in pairs)
    n = max(1, round(float(share * np.ptp(times) / length)))
    middle = times.min() + (np.arange(n) + 0.5) * np.ptp(times) / n
    return np.column_stack([middle - length / 2, middle + length / 2, np.ones(n)])
