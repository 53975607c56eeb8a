"""The records of cells: values with intervals, over films, by film and by fold."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.bootstrap import resample, share_variance
from obygaze_models.evaluation.logistic import recalibrate
from obygaze_models.evaluation.metrics import COUNTS, RANKING_METRICS, evaluate
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.registry import UNTRAINED
from obygaze_models.protocols.runner.cells import TUNED, Cell
from obygaze_models.protocols.runner.features import is_backbone
from obygaze_models.protocols.runner.records import Record
from obygaze_models.protocols.schema import PaperValue, Protocol

Groups = NDArray[np.str_]
Labels = NDArray[np.int8]
CEILINGS = ("oracle", "annotator")
BINS = 10
# For an interval: clips of each class, and films with a positive clip.
LEAST_CLIPS = 5
LEAST_FILMS = 2


def cell_record(
    cell: Cell,
    protocol: Protocol,
    groups: Groups,
    labels: Labels,
    backbone: str | None = None,
) -> Record:
    """Return the record of a model with its store's backbone, or of a baseline without one.

    `labels` has the label of every clip for the test task; clips of other tasks have -1.
    """
    names = [name for name in cell.value if name not in COUNTS]
    has_enough = _has_enough(cell, groups)
    intervals = _intervals(cell, protocol, groups, labels) if has_enough else {}
    is_possible = len(np.unique(groups[cell.universe])) > 1 and np.isfinite(
        cell.inflation
    )
    ranked = [name for name in RANKING_METRICS if np.isfinite(cell.value[name])]
    lacks = any(not np.isfinite(intervals.get(name, [np.nan])).all() for name in ranked)
    tuned = None
    if cell.share is None and any(t.tuned is not None for t in cell.tested):
        values = cell.values(tuned=True)
        tuned = {name: {"value": values[name]} for name in TUNED}
    seeds = None
    if len(cell.seeds) > 1:
        runs = [cell.values([seed]) for seed in cell.seeds]
        seeds = {
            "n": len(runs),
            **{name: _spread(run[name] for run in runs) for name in names},
        }
    record: Record = {
        "kind": "baseline" if backbone is None else "cell",
        "task": cell.test,
        **{key: getattr(cell, key) for key in ("train", "test", "model", "feature")},
        "n_test": len(cell.universe),
        "n_positive": int(cell.y.sum()),
        "n_movies": len(np.unique(groups[cell.universe])),
        "prevalence": float(cell.y.mean()),
        "n_runs": len(cell.tested),
        "repeated": cell.averaged,
        **_leaks(cell),
        **{
            name: {
                **_spread(cell.means(name, lambda t: t.fold).values()),
                "value": cell.value[name],
                "ci": intervals.get(name, [np.nan, np.nan]),
            }
            for name in names
        },
        # A key of models whose films would allow an interval, but not the clips.
        **(
            {"no_interval": True}
            if backbone is not None and is_possible and lacks
            else {}
        ),
        "tuned": tuned,
        "seeds": seeds,
        "by_movie": _by_movie(cell, groups),
        **_outcomes(cell, groups, is_model=backbone is not None),
        "folds": [
            {
                "fold": t.fold,
                "seed": t.seed,
                "n_train": t.n_train,
                "n_validation": t.n_validation,
                "n_test": len(t.rows),
                "n_positive": int(t.predictions.y.sum()),
                "leaked": t.leak.leaked,
                **{key: value for key, value in values.items() if key not in COUNTS},
                "threshold": t.tuned,
                "chosen": dict(t.chosen),
            }
            for t, values in zip(cell.tested, cell.fold_values, strict=True)
        ],
        "skipped": [dict(item) for item in cell.skipped],
        "paper": [
            {
                "metric": one.metric,
                "mean": one.mean,
                "sd": one.sd if one.sd >= 0 else None,
                "movie": one.movie or None,
                "source": one.source or None,
            }
            for one in protocol.paper
            if _is_about(one, cell, backbone or "")
        ],
    }
    if backbone is None:
        record |= {
            "expected": cell.share is not None,
            "ceiling": cell.model in CEILINGS,
        }
    return record


def _is_about(paper: PaperValue, cell: Cell, backbone: str) -> bool:
    """Return whether a printed number is about a cell of this backbone."""
    wanted = {key: getattr(paper, key) for key in ("model", "feature", "train", "test")}
    same = all(
        not value or value == getattr(cell, key) for key, value in wanted.items()
    )
    return same and (not paper.backbone or is_backbone(backbone, paper.backbone))


def _has_enough(cell: Cell, groups: Groups) -> bool:
    """Return whether a test has enough clips of each class for an interval over films."""
    n_positive = int(cell.y.sum())
    n_films = len(np.unique(groups[cell.universe][cell.y]))
    n_fewer = min(n_positive, len(cell.y) - n_positive)
    return n_fewer >= LEAST_CLIPS and n_films >= LEAST_FILMS


def _intervals(
    cell: Cell, protocol: Protocol, groups: Groups, labels: Labels
) -> dict[str, list[float]]:
    """Return the intervals over films of AP and AUC; of what is not trained, of every metric.

    At a threshold, a model of other training films could call many other clips positive.
    """
    report = protocol.report
    films = groups[cell.universe]
    given = (*RANKING_METRICS, "prevalence") if cell.model not in UNTRAINED else None
    drawn = resample(
        cell.statistics(films, only=given),
        np.unique(films),
        n_replicates=report.replicates,
        level=report.confidence,
        seed=(protocol.fit.seed, 0),
        within_unit=True,
        inflation=cell.inflation,
        label_inflation=_label_inflation(cell, protocol, groups, labels),
    )
    return {
        name: [found.low, found.high]
        for name, (found, _) in drawn.items()
        if given is None or name in given
    }


def _label_inflation(
    cell: Cell, protocol: Protocol, groups: Groups, labels: Labels
) -> float:
    """Return the factor of the variance that comes from the share of positives.

    A stratified test set has the share of all clips of the task. With other films that share
    varies as drawing films with all of their clips shows. Drawing films with their few test clips
    also shows chance among the clips of a film, which stratifying removes. Where films are tested
    with all of their clips, both are the same.
    """
    is_stratified = protocol.splits.kind == "published" and cell.n_test_sets == 1
    if not is_stratified:
        return 1.0
    films = groups[cell.universe]
    of_test = share_variance(cell.y, films)
    if of_test == 0:
        return 1.0
    of_tested_films = (labels >= 0) & np.isin(groups, films)
    return share_variance(labels[of_tested_films], groups[of_tested_films]) / of_test


def _by_movie(cell: Cell, groups: Groups) -> Record:
    names, values = cell.by_group(groups)
    movies = groups[cell.universe]
    found = dict[str, Record]()
    runs_of: dict[str, list[dict[str, float]]] = {}  # that test this film alone
    for t, tested_values in zip(cell.tested, cell.fold_values, strict=True):
        films = groups[t.rows]
        if np.all(films == films[:1]):
            runs_of.setdefault(str(films[0]), []).append(tested_values)
    codes = np.searchsorted(np.array(names, dtype=np.str_), movies)
    n_clips = np.bincount(codes, minlength=len(names)).tolist()
    n_positive = np.bincount(codes[cell.y], minlength=len(names)).tolist()
    for i, movie in enumerate(names):
        found[movie] = {
            "n": n_clips[i],
            "n_positive": n_positive[i],
            **{name: float(own[i]) for name, own in values.items()},
        }
        runs = runs_of.get(movie, [])
        if len(runs) > 1:
            spread = {
                name: float(np.std([run[name] for run in runs], ddof=1))
                for name in values
            }
            found[movie]["sd"] = spread
    return found


def _leaks(cell: Cell) -> Record:
    """Return the leaks of a cell; a test clip is leaked if it leaked in any fold."""
    leaked = {clip for t in cell.tested for clip in t.leak.clips}
    by_name = {
        clip for t in cell.tested for clip in set(t.leak.clips) - set(t.leak.copies)
    }
    n_copies = len(leaked - by_name)
    near = [t.leak.neighbours for t in cell.tested]
    same = [t.leak.same_movie for t in cell.tested]
    total = sum if not cell.averaged else max
    one_seed = [t for t in cell.tested if t.seed == cell.seeds[0]]
    return {
        "leaked": len(leaked),
        **({"copies": n_copies} if n_copies else {}),
        "neighbours": None
        if None in near
        else total([t.leak.neighbours or 0 for t in one_seed]),
        "same_movie": None
        if None in same
        else total([t.leak.same_movie or 0 for t in one_seed]),
        "leak_share": len(leaked) / len(cell.universe),
    }


def _spread(values: Iterable[float]) -> Record:
    """Return mean and deviation of the values that are defined."""
    defined = np.array([value for value in values if np.isfinite(value)])
    return {
        "mean": float(defined.mean()) if len(defined) else np.nan,
        "sd": float(defined.std(ddof=1)) if len(defined) > 1 else np.nan,
    }


def _outcomes(cell: Cell, groups: Groups, *, is_model: bool) -> Record:
    """Return counts of the four outcomes, and the calibration as it is and after Platt's method."""
    found: Record = {"confusion": None, "calibration": None, "recalibrated": None}
    if cell.share is not None:
        return found
    y = cell.predictions.y
    called = cell.predictions.decision
    times = len(y) / len(
        cell.universe
    )  # over all test clips, averaged over seeds and runs
    outcomes = {
        "tp": y & called,
        "fp": ~y & called,
        "fn": y & ~called,
        "tn": ~y & ~called,
    }
    found["confusion"] = {
        name: float(one.sum() / times) for name, one in outcomes.items()
    }
    if all(t.are_probabilities for t in cell.tested):
        found["calibration"] = _bins(y, cell.predictions.score)
        movies = np.concatenate([groups[t.rows] for t in cell.tested])
        if is_model and len(np.unique(movies)) > 2:
            score = recalibrate(cell.predictions.score, y, movies)
            found["recalibrated"] = {
                **evaluate(Predictions.of(y, score), ("brier", "ece", "ece_width")),
                "calibration": _bins(y, score),
            }
    return found


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
