"""When in the film: scores of all windows of films that a model has not seen, and their intervals.

In each fold, fits without some training films score the windows of these films, and on them the
rule that makes intervals of scores is chosen. The scores of the same fits on the test films are the
band around the score of the fold's own fit.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from obygaze_features.core.console import Quiet
from obygaze_models.evaluation import intervals
from obygaze_models.evaluation.bootstrap import resample, reuse_inflation
from obygaze_models.evaluation.intervals import ScoredFilm, precisions, smooth
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

POINTS = 300  # of a curve in results.json
NAMES = ("map", "blind", *map(str, intervals.TIOUS))


def localisation_records(context: FitContext) -> Iterator[Record]:
    """Yield the record of each cell of the models that find segments."""
    protocol, banks = context.protocol, context.new_banks()
    for name in (name for name in protocol.report.localise if name in context.models):
        for pair, splits in context.schedule.pairs.items():
            jobs = [partial(_test_fold, context, banks, name, pair, split) for split in splits]
            tested = map_jobs(jobs, context.n_jobs, Quiet())
            films = {film: one for own in tested for film, one in own.items()}
            facts = {"train": pair[0], "test": pair[1], "model": name, "feature": context.feature}
            if found := [one for one in films.values() if one["n_segments"]]:
                values = _over_films(protocol, [one["precisions"] for one in found], len(splits))
                yield {"kind": "localisation", **facts, **values, "films": films}


def _marked(context: FitContext, task: str) -> Mapping[str, Sequence[FloatArray]]:
    """Return start and end of the positive segments of each film, for each annotator."""
    found: dict[str, dict[str, list[tuple[float | None, float | None]]]]
    found = defaultdict(lambda: defaultdict(list))
    for row in np.flatnonzero(context.labels[task] == 1).tolist():
        clip = context.table.clips[row]
        found[clip.movie_id][clip.extra.get("annotator", "")].append((clip.start_s, clip.end_s))
    return {film: [np.array(s, dtype=float) for s in own.values()] for film, own in found.items()}


def _test_fold(
    context: FitContext, banks: Banks, name: str, pair: Pair, split: Split
) -> dict[str, Record]:
    """Return curves, intervals and precisions of the test films; none if there is no fit."""
    from obygaze_models.models.concepts import inner_folds

    windows, movies, model = context.store.films, context.table.movies, context.models[name]
    seed, marked = context.protocol.fit.seed, _marked(context, pair[0])
    data = context.fold_data(pair[0], split, seed=seed, join_validation=True)
    if data.problem or data.films is None:
        return {}
    others, known = [], []
    try:
        for fold in inner_folds(data.y == 1, data.films, INNER_FOLDS):
            held = data.fit_rows[fold]
            own = replace(split, train=data.fit_rows[~fold], validation=held)
            others.append(fit_scorer(model, replace(data, split=own, join_validation=False), banks))
            for film in sorted({*movies[held].tolist()} & marked.keys() & windows.keys()):
                times, X = windows[film]
                known.append(ScoredFilm(times, others[-1](X), marked[film]))
        score = fit_scorer(model, data, banks)
    except FixTraining:
        known = []
    if not known:
        return {}
    rule, marked, tested = intervals.choose_rule(known), _marked(context, pair[1]), {}
    for film in sorted({*movies[split.test].tolist()} & windows.keys()):
        times, X = windows[film]
        scores, segments = score(X), marked.get(film, [])
        found = intervals.find_intervals(times, scores, rule)
        blind = intervals.blind_intervals(known, times)
        band = np.array([smooth(other(X), rule.width) for other in others])
        shown = np.linspace(0, len(times) - 1, min(len(times), POINTS)).astype(int)
        curves = {"time_s": times.mean(axis=1), "score": smooth(scores, rule.width)}
        curves |= {"low": band.min(axis=0), "high": band.max(axis=0)}
        tested[film] = {
            "n_segments": sum(map(len, segments)),
            "precisions": [precisions(one, segments).tolist() for one in (found, blind)],
            **rule._asdict(),
            "found": np.round(found, 4).tolist(),
            **{key: np.round(own[shown], 4).tolist() for key, own in curves.items()},
        }
    return tested


def _over_films(
    protocol: Protocol, of_films: Sequence[Sequence[FloatArray]], n_folds: int
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
        inflation=reuse_inflation(n_folds if n_folds > 1 else None),
    )
    return {
        name: {"value": float(value), "ci": [drawn[name][0].low, drawn[name][0].high]}
        for name, value in zip(NAMES, every.mean(axis=0), strict=True)
    }
