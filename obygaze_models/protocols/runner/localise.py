"""When in the film: scores of all windows of films that a model has not seen, and their intervals.

In each fold, fits without some training films score the windows of these films, and on them the
rule that makes intervals of scores is chosen. The scores of the same fits on the test films are the
band around the score of the fold's own fit.

Average precision is that of temporal action localisation (ActivityNet): the surest interval first
takes the free segment that it overlaps most, if their intersection over union (tIoU) is at least
`TIOUS`. Each film is a ranking of its own, because scores of different fits have different scales.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from obygaze_features.core.console import Quiet
from obygaze_models.evaluation.bootstrap import resample, reuse_inflation
from obygaze_models.evaluation.metrics import Values
from obygaze_models.evaluation.predictions import FloatArray
from obygaze_models.models.common import FixTraining
from obygaze_models.protocols.runner.banks import Banks
from obygaze_models.protocols.runner.execute import FitContext
from obygaze_models.protocols.runner.models import INNER_FOLDS, fit_scorer
from obygaze_models.protocols.runner.processes import map_jobs
from obygaze_models.protocols.runner.records import Record
from obygaze_models.protocols.schedule import Pair
from obygaze_models.protocols.schema import Protocol
from obygaze_models.protocols.splits import Split

TIOUS = (0.3, 0.4, 0.5, 0.6, 0.7)
WIDTHS = (1, 5, 15, 45)
GAPS = (0, 3, 15)
QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
ROUNDING_S = 1e-6
POINTS = 300  # of a curve in results.json
NAMES = ("map", "blind", *map(str, TIOUS))


def localisation_records(context: FitContext) -> Iterator[Record]:
    """Yield the record of each cell of the models that find segments."""
    protocol = context.protocol
    banks = context.new_banks()
    for name in (name for name in protocol.report.localise if name in context.models):
        for pair, splits in context.schedule.pairs.items():
            jobs = [
                partial(_test_fold, context, banks, name, pair, split)
                for split in splits
            ]
            tested = map_jobs(jobs, context.n_jobs, Quiet())
            n_sets = len({split.test.tobytes() for split in splits})
            films = {film: one for own in tested for film, one in own.items()}
            facts = {
                "train": pair[0],
                "test": pair[1],
                "model": name,
                "feature": context.feature,
            }
            if found := [one for one in films.values() if one["n_segments"]]:
                values = _over_films(
                    protocol, [one["precisions"] for one in found], n_sets
                )
                yield {"kind": "localisation", **facts, **values, "films": films}


def _marked(context: FitContext, task: str) -> Mapping[str, Sequence[FloatArray]]:
    """Return start and end of the positive segments of each film, for each annotator."""
    found: dict[str, dict[str, list[tuple[float | None, float | None]]]]
    found = defaultdict(lambda: defaultdict(list))
    for row in np.flatnonzero(context.labels[task] == 1).tolist():
        clip = context.table.clips[row]
        found[clip.movie_id][clip.extra.get("annotator", "")].append(
            (clip.start_s, clip.end_s)
        )
    return {
        film: [np.array(s, dtype=float) for s in own.values()]
        for film, own in found.items()
    }


def _test_fold(
    context: FitContext, banks: Banks, name: str, pair: Pair, split: Split
) -> dict[str, Record]:
    """Return curves, intervals and precisions of the test films; none if there is no fit."""
    from obygaze_models.models.concepts import inner_folds

    windows = context.store.films
    movies = context.table.movies
    model = context.models[name]
    seed = context.protocol.fit.seed
    marked = _marked(context, pair[0])
    data = context.fold_data(pair[0], split, seed=seed, join_validation=True)
    if data.problem or data.films is None:
        return {}
    others = []
    known = []
    try:
        for fold in inner_folds(data.y == 1, data.films, INNER_FOLDS):
            held = data.fit_rows[fold]
            own = replace(split, train=data.fit_rows[~fold], validation=held)
            others.append(
                fit_scorer(
                    model, replace(data, split=own, join_validation=False), banks
                )
            )
            for film in sorted(
                {*movies[held].tolist()} & marked.keys() & windows.keys()
            ):
                times, X = windows[film]
                known.append(ScoredFilm(times, others[-1](X), marked[film]))
        score = fit_scorer(model, data, banks)
    except FixTraining:
        known = []
    if not known:
        return {}
    rule = choose_rule(known)
    marked = _marked(context, pair[1])
    tested = {}
    for film in sorted({*movies[split.test].tolist()} & windows.keys()):
        times, X = windows[film]
        scores = score(X)
        segments = marked.get(film, [])
        found = find_intervals(times, scores, rule)
        blind = blind_intervals(known, times)
        band = np.array([smooth(other(X), rule.width) for other in others])
        shown = np.linspace(0, len(times) - 1, min(len(times), POINTS)).astype(int)
        curves = {"time_s": times.mean(axis=1), "score": smooth(scores, rule.width)}
        curves |= {"low": band.min(axis=0), "high": band.max(axis=0)}
        tested[film] = {
            "n_segments": sum(map(len, segments)),
            "precisions": [
                precisions(one, segments).tolist() for one in (found, blind)
            ],
            **rule._asdict(),
            "found": np.round(found, 4).tolist(),
            **{key: np.round(own[shown], 4).tolist() for key, own in curves.items()},
        }
    return tested


def _over_films(
    protocol: Protocol, of_films: Sequence[Sequence[FloatArray]], n_sets: int
) -> Record:
    """Return mAP and precisions with intervals over films, beside the mAP of blind intervals."""
    values = np.array(of_films)
    every = np.column_stack([values.mean(axis=2), values[:, 0]])

    def statistics(weights: FloatArray) -> Values:
        means = weights @ every / weights.sum(axis=1, keepdims=True)
        return dict(zip(NAMES, means.T, strict=True))

    drawn = resample(
        statistics,
        np.arange(len(every)),
        n_replicates=protocol.report.replicates,
        level=protocol.report.confidence,
        seed=protocol.fit.seed,
        within_unit=True,
        inflation=reuse_inflation(n_sets if n_sets > 1 else None),
    )
    return {
        name: {"value": float(value), "ci": [drawn[name][0].low, drawn[name][0].high]}
        for name, value in zip(NAMES, every.mean(axis=0), strict=True)
    }


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
    near = np.ones(width)
    inside = slice(width // 2, width // 2 + len(scores))
    sums = (np.convolve(own, near)[inside] for own in (scores, np.ones(len(scores))))
    return np.divide(*sums)


def find_intervals(times: FloatArray, scores: FloatArray, rule: Rule) -> FloatArray:
    """Return start, end and mean score of each run of windows above the threshold.

    A window stands for the time around its centre, up to half a stride away.
    """
    smoothed = smooth(scores, rule.width)
    kept = np.flatnonzero(smoothed > rule.threshold)
    stride = (
        float(np.median(np.diff(times[:, 0])))
        if len(times) > 1
        else float(np.ptp(times))
    )
    centre = times.mean(axis=1)[kept]
    new = np.flatnonzero(np.diff(centre) > (rule.gap + 1) * stride + ROUNDING_S) + 1
    runs = np.split(np.arange(len(kept)), new) if len(kept) else []
    rows = [
        (
            centre[run[0]] - stride / 2,
            centre[run[-1]] + stride / 2,
            smoothed[kept[run]].mean(),
        )
        for run in runs
    ]
    return np.array(rows).reshape(-1, 3)


def precisions(found: FloatArray, marked: Sequence[FloatArray]) -> FloatArray:
    """Return the average precision of intervals at each of `TIOUS`, averaged over annotators."""
    found = found[np.argsort(-found[:, 2], kind="stable")]
    values = []
    for own in marked:
        start = np.maximum(found[:, :1], own[:, 0])
        end = np.minimum(found[:, 1:2], own[:, 1])
        shared = np.maximum(end - start, 0)
        lengths = own[:, 1] - own[:, 0]
        shares = shared / (lengths + (found[:, 1] - found[:, 0])[:, None] - shared)
        values.append([_precision(shares, least) for least in TIOUS])
    return np.mean(values, axis=0) if values else np.full(len(TIOUS), np.nan)


def _precision(shares: FloatArray, least: float) -> float:
    """Return the area under the falling hull of precision over recall."""
    hits = np.zeros(len(shares))
    free = np.ones(shares.shape[1])
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
    best = -1.0
    rule = Rule(1, np.inf, 0)
    for width in WIDTHS:
        smoothed = [smooth(film.scores, width) for film in films]
        steps = np.unique(np.quantile(np.concatenate(smoothed), QUANTILES)).tolist()
        for step, gap in product(steps, GAPS):
            found = [
                precisions(
                    find_intervals(film.times, scores, Rule(1, step, gap)), film.marked
                )
                for film, scores in zip(films, smoothed, strict=True)
            ]
            if np.mean(found) > best:
                best = float(np.mean(found))
                rule = Rule(width, step, gap)
    return rule


def blind_intervals(films: Sequence[ScoredFilm], times: FloatArray) -> FloatArray:
    """Return equally spaced intervals with mean length and share of segments of other films."""
    pairs = [
        (own[:, 1] - own[:, 0], film.times) for film in films for own in film.marked
    ]
    length = np.concatenate([own for own, _ in pairs]).mean()
    share = sum(own.sum() for own, _ in pairs) / sum(np.ptp(own) for _, own in pairs)
    n = max(1, round(float(share * np.ptp(times) / length)))
    middle = times.min() + (np.arange(n) + 0.5) * np.ptp(times) / n
    return np.column_stack([middle - length / 2, middle + length / 2, np.ones(n)])
