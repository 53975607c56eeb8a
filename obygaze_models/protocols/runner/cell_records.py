"""Return the records of cells: values with intervals, films and folds; and their comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.bootstrap import resample
from obygaze_models.evaluation.compare import nadeau_bengio, sign_flip
from obygaze_models.evaluation.decisions import DECISION_METRICS
from obygaze_models.evaluation.intervals import Interval
from obygaze_models.evaluation.metrics import evaluate
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.evaluation.recalibration import recalibrate
from obygaze_models.models.registry import UNTRAINED
from obygaze_models.protocols.runner.cells import TUNED, Cell, TestedFold
from obygaze_models.protocols.runner.features import is_backbone
from obygaze_models.protocols.runner.records import Record
from obygaze_models.protocols.schema import PaperValue, Protocol

Groups = NDArray[np.str_]
COUNTS = ("prevalence", "share_positive")
# Of other metrics a p-value has no known level (`benchmarks.type_one_error`).
TESTABLE = ("ap", "auc")
BINS = 10


def cell_record(
    cell: Cell, protocol: Protocol, groups: Groups, kind: str = "cell", backbone: str = ""
) -> Record:
    """Return the record of a cell.

    Args:
        cell: The tests of the cell.
        protocol: The whole experiment.
        groups: The film of each clip.
        kind: "cell" or "baseline".
        backbone: The backbone of the store, for the printed numbers of that backbone.
    """
    names = [name for name in cell.value if name not in COUNTS]
    intervals = _intervals(cell, protocol, groups)
    if not _has_stable_decisions(cell):
        unknown = {key: [np.nan, np.nan] for key in ("ci", "ci_clips")}
        intervals |= {name: {**intervals[name], **unknown} for name in DECISION_METRICS}
    record: Record = {
        "kind": kind,
        **{key: getattr(cell, key) for key in ("task", "train", "test", "model", "feature")},
        "n_test": len(cell.universe),
        "n_positive": int(cell.y.sum()),
        "n_movies": len(np.unique(groups[cell.universe])),
        "prevalence": float(cell.y.mean()),
        "n_runs": len(cell.tested),
        "repeated": cell.averaged,
        **_leaks(cell),
        **{
            name: {**_over_folds(cell, name), "value": cell.value[name], **intervals[name]}
            for name in names
        },
        "tuned": _tuned(cell),
        "seeds": _seeds(cell, names),
        "by_movie": _by_movie(cell, groups),
        "confusion": _confusion(cell),
        "calibration": _calibration(cell),
        "recalibrated": _recalibrated(cell, groups) if kind == "cell" else None,
        "folds": [_fold(t, cell) for t in cell.tested],
        "skipped": [dict(item) for item in cell.skipped],
        "paper": [_paper_value(one) for one in protocol.paper if _is_about(one, cell, backbone)],
    }
    if kind == "baseline":
        record |= {"expected": cell.share is not None, "ceiling": cell.model == "oracle"}
    return record


def _has_stable_decisions(cell: Cell) -> bool:
    """Return whether drawing test films shows how much the decisions of a cell can vary.

    It does not where another training could call many other clips: at a fixed threshold of
    margins, and where all clips or none are called (`benchmarks.type_one_error`).
    """
    is_constant = len(np.unique(cell.predictions.decision)) == 1
    margins = not all(t.are_probabilities for t in cell.tested)
    return cell.model in UNTRAINED or not (margins or is_constant)


def comparable(cells: Sequence[Cell], protocol: Protocol) -> list[tuple[Cell, Cell]]:
    """Return the pairs of models and baselines on one cell, and of a model on two stores."""
    metric, pairs = protocol.report.primary, []
    for first, second in combinations(cells, 2):
        same_cell = (first.train, first.test) == (second.train, second.test)
        one_model = first.model == second.model and first.feature != second.feature
        one_store = first.feature == second.feature or not second.feature
        if (
            same_cell
            and (one_model or one_store)
            and first.feature
            and np.array_equal(first.universe, second.universe)
            and metric in first.value
            and metric in second.value
        ):
            pairs.append((first, second))
    return pairs


def _intervals(cell: Cell, protocol: Protocol, groups: Groups) -> dict[str, Record]:
    report, found = protocol.report, []
    for part, units in enumerate((groups[cell.universe], np.arange(len(cell.universe)))):
        drawn = resample(
            cell.statistics(units),
            np.unique(units),
            n_replicates=report.replicates if part == 0 else max(report.replicates // 4, 2),
            level=report.confidence,
            seed=(protocol.fit.seed, part),
            within_unit=True,
            inflation=cell.inflation,
        )
        found.append(drawn)
    movies, clips = found
    return {
        name: {
            "ci": [by_movie.low, by_movie.high],
            "ci_clips": [clips[name][0].low, clips[name][0].high],
            "design_effect": (se / clips[name][1]) ** 2 if clips[name][1] > 0 else np.nan,
        }
        for name, (by_movie, se) in movies.items()
    }


def _by_movie(cell: Cell, groups: Groups) -> Record:
    names, values = cell.by_group(groups)
    movies = groups[cell.universe]
    return {
        movie: {
            "n": int((movies == movie).sum()),
            "n_positive": int(cell.y[movies == movie].sum()),
            **{name: float(found[i]) for name, found in values.items()},
            **_film_spread(cell, groups, movie, list(values)),
        }
        for i, movie in enumerate(names)
    }


def _film_spread(cell: Cell, groups: Groups, movie: str, names: Sequence[str]) -> Record:
    """Return the deviation between the runs that test one film alone, if there are several."""
    runs = [cell.values_of(t) for t in cell.tested if np.all(groups[t.rows] == movie)]
    if len(runs) < 2:
        return {}
    return {"sd": {name: float(np.std([run[name] for run in runs], ddof=1)) for name in names}}


def comparison(first: Cell, second: Cell, protocol: Protocol, groups: Groups) -> Record:
    """Return the record of the difference of two cells."""
    metric = protocol.report.primary
    inflation = max(first.inflation, second.inflation)
    interval, _ = difference_interval(first, second, metric, protocol, groups, inflation)
    return {
        "kind": "comparison",
        **{key: getattr(first, key) for key in ("task", "train", "test")},
        "metric": metric,
        "first": {"model": first.model, "feature": first.feature},
        "second": {"model": second.model, "feature": second.feature},
        "difference": first.value[metric] - second.value[metric],
        "ci": [interval.low, interval.high],
        **p_values(first, second, metric, groups),
    }


def difference_interval(
    first: Cell, second: Cell, metric: str, protocol: Protocol, groups: Groups, inflation: float
) -> tuple[Interval, float]:
    """Return interval and standard error of a difference, both cells on the same drawn films."""
    films, report = groups[first.universe], protocol.report
    ours, theirs = (cell.statistics(films, only=[metric]) for cell in (first, second))
    drawn = resample(
        lambda weights: {metric: ours(weights)[metric] - theirs(weights)[metric]},
        np.unique(films),
        n_replicates=report.replicates,
        level=report.confidence,
        seed=(protocol.fit.seed, 2),
        inflation=inflation,
    )
    return drawn[metric]


def p_values(first: Cell, second: Cell, metric: str, groups: Groups) -> Record:
    """Return a p by films where one set of clips is tested, else over test sets of whole films.

    Flipping the signs of films assumes that they are independent, but each film also trains the
    models that are tested on the others. Runs that share their test clips are averaged first.
    Test sets that share films are not independent either, and have no p.
    """
    ours, theirs = (cell.by_group(groups, [metric])[1][metric] for cell in (first, second))
    by_movie = (ours - theirs)[np.isfinite(ours - theirs)]
    one, other = first.by_test_set(metric), second.by_test_set(metric)
    by_set = np.array([one[rows] - other[rows] for rows in one if rows in other])
    by_set = by_set[np.isfinite(by_set)]
    found: Record = {"p_sign_flip": np.nan, "n_movies": len(by_movie), "exact": False}
    found |= {"p_corrected_t": np.nan, "n_test_sets": len(by_set)}
    found["repeated"] = first.averaged or second.averaged
    if metric not in TESTABLE:
        return found
    if first.n_test_sets == 1 and len(by_movie):
        flip = sign_flip(by_movie)
        found |= {"p_sign_flip": flip.p, "exact": flip.exact}
    elif len(by_set) > 1 and _share_no_film(first, groups):
        train = float(np.mean([t.n_train + t.n_validation for t in first.tested]))
        test = float(np.mean([len(t.rows) for t in first.tested]))
        found["p_corrected_t"] = nadeau_bengio(by_set, n_train=train, n_test=test).p
    return found


def _share_no_film(cell: Cell, groups: Groups) -> bool:
    """Return whether no film is in two sets of test clips."""
    sets = {t.rows.tobytes(): t.rows for t in cell.tested}.values()
    films = [film for rows in sets for film in np.unique(groups[rows])]
    return len(films) == len(set(films))


def _leaks(cell: Cell) -> Record:
    """Return the leaks of a cell; a test clip is leaked if it leaked in any fold."""
    leaked = {clip for t in cell.tested for clip in t.leak.clips}
    near = [t.leak.neighbours for t in cell.tested]
    same = [t.leak.same_movie for t in cell.tested]
    total = sum if not cell.averaged else max
    one_seed = [t for t in cell.tested if t.seed == cell.seeds[0]]
    return {
        "leaked": len(leaked),
        "neighbours": None if None in near else total([t.leak.neighbours or 0 for t in one_seed]),
        "same_movie": None if None in same else total([t.leak.same_movie or 0 for t in one_seed]),
        "leak_share": len(leaked) / len(cell.universe),
    }


def _over_folds(cell: Cell, name: str) -> Record:
    values = np.array(list(cell.fold_values(name).values()))
    defined = values[np.isfinite(values)]
    return {
        "mean": float(defined.mean()) if len(defined) else np.nan,
        "sd": float(defined.std(ddof=1)) if len(defined) > 1 else np.nan,
    }


def _tuned(cell: Cell) -> Record | None:
    if cell.share is not None or all(t.tuned is None for t in cell.tested):
        return None
    values = cell.values(tuned=True)
    return {name: {"value": values[name]} for name in TUNED}


def _seeds(cell: Cell, names: Sequence[str]) -> Record | None:
    if len(cell.seeds) < 2:
        return None
    runs = [cell.values([seed]) for seed in cell.seeds]
    spread: Record = {"n": len(runs)}
    for name in names:
        values = np.array([run[name] for run in runs])
        spread[name] = {"mean": float(values.mean()), "sd": float(values.std(ddof=1))}
    return spread


def _confusion(cell: Cell) -> Record | None:
    """Return the counts of the four outcomes over all test clips, averaged over seeds and runs."""
    if cell.share is not None:
        return None
    y, positive = cell.predictions.y, cell.predictions.decision
    times = len(y) / len(cell.universe)
    outcomes = {"tp": y & positive, "fp": ~y & positive, "fn": y & ~positive, "tn": ~y & ~positive}
    return {name: float(outcome.sum() / times) for name, outcome in outcomes.items()}


def _calibration(cell: Cell) -> list[Record] | None:
    if cell.share is not None or not all(t.are_probabilities for t in cell.tested):
        return None
    return _bins(cell.predictions.y, cell.predictions.score)


def _recalibrated(cell: Cell, groups: Groups) -> Record | None:
    """Return the calibration after Platt's method on the other films; needs at least three."""
    movies = np.concatenate([groups[t.rows] for t in cell.tested])
    if _calibration(cell) is None or len(np.unique(movies)) < 3:
        return None
    y = cell.predictions.y
    score = recalibrate(cell.predictions.score, y, movies)
    return {
        **evaluate(Predictions.of(y, score), ("brier", "ece", "ece_width")),
        "calibration": _bins(y, score),
    }


def _bins(y: NDArray[np.bool_], score: NDArray[np.float64]) -> list[Record]:
    bins = np.clip(np.ceil(score * BINS).astype(int) - 1, 0, BINS - 1)
    inside = [bins == number for number in range(BINS)]
    return [
        {
            "low": number / BINS,
            "high": (number + 1) / BINS,
            "n": int(own.sum()),
            "score": float(score[own].mean()) if own.any() else np.nan,
            "share": float(y[own].mean()) if own.any() else np.nan,
        }
        for number, own in enumerate(inside)
    ]


def _fold(t: TestedFold, cell: Cell) -> Record:
    return {
        "fold": t.fold,
        "seed": t.seed,
        "n_train": t.n_train,
        "n_validation": t.n_validation,
        "n_test": len(t.rows),
        "n_positive": int(t.predictions.y.sum()),
        "leaked": t.leak.leaked,
        **{name: value for name, value in cell.values_of(t).items() if name not in COUNTS},
        "threshold": t.tuned,
        "chosen": dict(t.facts),
    }


def _is_about(paper: PaperValue, cell: Cell, backbone: str) -> bool:
    wanted = {key: getattr(paper, key) for key in ("model", "feature", "train", "test")}
    same = all(not value or value == getattr(cell, key) for key, value in wanted.items())
    return same and (not paper.backbone or is_backbone(backbone, paper.backbone))


def _paper_value(paper: PaperValue) -> Record:
    return {
        "metric": paper.metric,
        "mean": paper.mean,
        "sd": paper.sd if paper.sd >= 0 else None,
        "movie": paper.movie or None,
        "source": paper.source or None,
    }
