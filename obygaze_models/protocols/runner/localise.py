"""When in the film: scores of all windows of films that a model has not seen, and their intervals.

In each fold, fits without some training films score the windows of these films, and on them the
rule that makes intervals of scores is chosen. The scores of the same fits on the test films are the
band around the score of the fold's own fit.

Average precision is that of temporal action localisation (ActivityNet): the surest interval first
takes the free segment that it overlaps most, if their intersection over union (tIoU) is at least
`TIOUS`. Each film is a ranking of its own, because scores of different fits have different scales.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from obygaze_features.core.console import Quiet
from obygaze_models.evaluation.bootstrap import resample, reuse_inflation
from obygaze_models.evaluation.metrics import Values
from obygaze_models.evaluation.predictions import FloatArray
from obygaze_models.models.common import FixTraining
from obygaze_models.protocols.results.cells import Estimate
from obygaze_models.protocols.results.localisation import (
    PRECISIONS,
    TIOUS,
    FilmWindows,
    Localisation,
)
from obygaze_models.protocols.runner.banks import Banks
from obygaze_models.protocols.runner.execute import FitContext
from obygaze_models.protocols.runner.models import INNER_FOLDS, fit_scorer
from obygaze_models.protocols.runner.processes import map_jobs
from obygaze_models.protocols.schedule import FoldData, Pair
from obygaze_models.protocols.schema import Protocol
from obygaze_models.protocols.splits import Split

WIDTHS = (1, 5, 15, 45)
GAPS = (0, 3, 15)
QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
ROUNDING_S = 1e-6
POINTS = 300  # of a curve in results.json


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


def localisation_records(context: FitContext) -> Iterator[Localisation]:
    """Yield the record of each cell of the models that find segments."""
    protocol = context.protocol
    banks = context.new_banks()
    models = [name for name in protocol.report.localise if name in context.models]
    for name, pair in product(models, context.schedule.pairs):
        splits = context.schedule.pairs[pair]
        jobs = [
            partial(_test_fold, context, banks, name, pair, split) for split in splits
        ]
        films: dict[str, FilmWindows] = {}
        for of_fold in map_jobs(jobs, context.n_jobs, Quiet()):
            films |= of_fold
        of_films = [film.precisions for film in films.values() if film.n_segments]
        if not of_films:
            continue
        n_sets = len({split.test.tobytes() for split in splits})
        yield Localisation(
            train=pair[0],
            test=pair[1],
            model=name,
            feature=context.feature,
            precisions=_over_films(protocol, of_films, n_sets),
            films=films,
        )


def _marked(context: FitContext, task: str) -> Mapping[str, Sequence[FloatArray]]:
    """Return start and end of the positive segments of each film, for each annotator."""
    by_film: dict[str, dict[str, list[tuple[float | None, float | None]]]]
    by_film = defaultdict(lambda: defaultdict(list))
    for row in np.flatnonzero(context.labels[task] == 1).tolist():
        clip = context.table.clips[row]
        annotator = clip.extra.get("annotator", "")
        by_film[clip.movie_id][annotator].append((clip.start_s, clip.end_s))
    marked = {}
    for film, by_annotator in by_film.items():
        marked[film] = [np.array(spans, dtype=float) for spans in by_annotator.values()]
    return marked


def _test_fold(
    context: FitContext, banks: Banks, name: str, pair: Pair, split: Split
) -> dict[str, FilmWindows]:
    """Return curves, intervals and precisions of the test films; none if there is no fit."""
    windows = context.store.films
    films = context.table.films
    seed = context.protocol.fit.seed
    data = context.fold_data(pair[0], split, seed=seed, join_validation=True)
    if data.problem or data.films is None:
        return {}
    try:
        inner_scorers, held_out = _inner_scores(context, banks, name, data)
        score = fit_scorer(context.models[name], data, banks)
    except FixTraining:
        return {}
    if not held_out:
        return {}
    rule = choose_rule(held_out)
    marked = _marked(context, pair[1])
    tested = {}
    for film in sorted({*films[split.test].tolist()} & windows.keys()):
        times, X = windows[film]
        scores = score(X)
        segments = marked.get(film, [])
        intervals = find_intervals(times, scores, rule)
        blind = blind_intervals(held_out, times)
        band = np.array([smooth(scorer(X), rule.width) for scorer in inner_scorers])
        shown = np.linspace(0, len(times) - 1, min(len(times), POINTS)).astype(int)
        tested[film] = FilmWindows(
            n_segments=sum(map(len, segments)),
            precisions=[
                precisions(intervals, segments).tolist(),
                precisions(blind, segments).tolist(),
            ],
            width=rule.width,
            threshold=rule.threshold,
            gap=rule.gap,
            intervals=_rounded(intervals),
            time_s=_rounded(times.mean(axis=1)[shown]),
            score=_rounded(smooth(scores, rule.width)[shown]),
            low=_rounded(band.min(axis=0)[shown]),
            high=_rounded(band.max(axis=0)[shown]),
        )
    return tested


def _rounded(values: FloatArray) -> list[Any]:
    rounded: list[Any] = np.round(values, 4).tolist()
    return rounded


def _inner_scores(
    context: FitContext, banks: Banks, name: str, data: FoldData
) -> tuple[list[Callable[[Any], FloatArray]], list[ScoredFilm]]:
    """Return fits without some training films, and those films with their scores."""
    from obygaze_models.models.concepts import inner_folds

    windows = context.store.films
    films = context.table.films
    marked = _marked(context, data.task)
    scorers = []
    held_out = []
    for fold in inner_folds(data.y == 1, data.films, INNER_FOLDS):
        rows = data.fit_rows[fold]
        inner_split = replace(data.split, train=data.fit_rows[~fold], validation=rows)
        inner_data = replace(data, split=inner_split, join_validation=False)
        scorer = fit_scorer(context.models[name], inner_data, banks)
        scorers.append(scorer)
        for film in sorted({*films[rows].tolist()} & marked.keys() & windows.keys()):
            times, X = windows[film]
            held_out.append(ScoredFilm(times, scorer(X), marked[film]))
    return scorers, held_out


def _over_films(
    protocol: Protocol, of_films: Sequence[Sequence[Sequence[float]]], n_sets: int
) -> dict[str, Estimate]:
    """Return mAP and precisions with intervals over films, beside the mAP of blind intervals."""
    values = np.array(of_films)
    every = np.column_stack([values.mean(axis=2), values[:, 0]])

    def statistics(weights: FloatArray) -> Values:
        means = weights @ every / weights.sum(axis=1, keepdims=True)
        return dict(zip(PRECISIONS, means.T, strict=True))

    n_reused = n_sets if n_sets > 1 else None
    drawn = resample(
        statistics,
        np.arange(len(every)),
        n_replicates=protocol.report.replicates,
        confidence=protocol.report.confidence,
        seed=protocol.fit.seed,
        within_unit=True,
        inflation=reuse_inflation(n_reused),
    )
    estimates = {}
    for name, value in zip(PRECISIONS, every.mean(axis=0), strict=True):
        interval, _ = drawn[name]
        ends = [interval.low, interval.high]
        estimates[name] = Estimate(value=float(value), ci=ends)
    return estimates


def smooth(scores: FloatArray, width: int) -> FloatArray:
    """Return the mean of `width` windows around each one, of fewer at the ends."""
    near = np.ones(width)
    inside = slice(width // 2, width // 2 + len(scores))
    sums = np.convolve(scores, near)[inside]
    n_near = np.convolve(np.ones(len(scores)), near)[inside]
    return np.asarray(sums / n_near)


def find_intervals(times: FloatArray, scores: FloatArray, rule: Rule) -> FloatArray:
    """Return start, end and mean score of each run of windows above the threshold.

    A window stands for the time around its centre, up to half a stride away.
    """
    smoothed = smooth(scores, rule.width)
    above = np.flatnonzero(smoothed > rule.threshold)
    if not len(above):
        return np.zeros((0, 3))
    stride = float(np.ptp(times))
    if len(times) > 1:
        stride = float(np.median(np.diff(times[:, 0])))
    centre = times.mean(axis=1)[above]
    starts = np.flatnonzero(np.diff(centre) > (rule.gap + 1) * stride + ROUNDING_S) + 1
    rows = []
    for run in np.split(np.arange(len(above)), starts):
        start = centre[run[0]] - stride / 2
        end = centre[run[-1]] + stride / 2
        rows.append((start, end, smoothed[above[run]].mean()))
    return np.array(rows)


def precisions(intervals: FloatArray, marked: Sequence[FloatArray]) -> FloatArray:
    """Return the average precision of intervals at each of `TIOUS`, averaged over annotators."""
    ranked = intervals[np.argsort(-intervals[:, 2], kind="stable")]
    values = []
    for segments in marked:
        start = np.maximum(ranked[:, :1], segments[:, 0])
        end = np.minimum(ranked[:, 1:2], segments[:, 1])
        shared = np.maximum(end - start, 0)
        lengths = segments[:, 1] - segments[:, 0]
        interval_lengths = (ranked[:, 1] - ranked[:, 0])[:, None]
        shares = shared / (lengths + interval_lengths - shared)
        values.append([_precision(shares, least) for least in TIOUS])
    return np.mean(values, axis=0) if values else np.full(len(TIOUS), np.nan)


def _precision(shares: FloatArray, least: float) -> float:
    """Return the area under the falling hull of precision over recall."""
    hits = np.zeros(len(shares))
    free = np.ones(shares.shape[1])
    for row in np.flatnonzero(shares.max(axis=1) >= least):
        free_shares = shares[row] * free
        best = free_shares.argmax()
        if free_shares[best] >= least:
            hits[row] = 1
            free[best] = 0
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    hull = np.maximum.accumulate(precision[::-1])[::-1]
    return float(hull @ hits) / len(free)


def choose_rule(films: Sequence[ScoredFilm]) -> Rule:
    """Return the rule with the highest mean precision over films."""
    best = -1.0
    rule = Rule(1, np.inf, 0)
    for width in WIDTHS:
        smoothed = [smooth(film.scores, width) for film in films]
        steps = np.unique(np.quantile(np.concatenate(smoothed), QUANTILES)).tolist()
        for step, gap in product(steps, GAPS):
            of_smoothed = Rule(1, step, gap)
            of_films = []
            for film, scores in zip(films, smoothed, strict=True):
                intervals = find_intervals(film.times, scores, of_smoothed)
                of_films.append(precisions(intervals, film.marked))
            if np.mean(of_films) > best:
                best = float(np.mean(of_films))
                rule = Rule(width, step, gap)
    return rule


def blind_intervals(films: Sequence[ScoredFilm], times: FloatArray) -> FloatArray:
    """Return equally spaced intervals with mean length and share of segments of other films."""
    lengths = []
    durations = []
    for film in films:
        for segments in film.marked:
            lengths.append(segments[:, 1] - segments[:, 0])
            durations.append(np.ptp(film.times))
    length = np.concatenate(lengths).mean()
    share = sum(values.sum() for values in lengths) / sum(durations)
    n = max(1, round(float(share * np.ptp(times) / length)))
    middle = times.min() + (np.arange(n) + 0.5) * np.ptp(times) / n
    return np.column_stack([middle - length / 2, middle + length / 2, np.ones(n)])
