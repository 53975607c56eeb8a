"""The records of cells: values with intervals, over films, by film and by fold."""

from collections.abc import Iterable, Mapping, Sequence

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
    record: Record = {
        "kind": "baseline" if backbone is None else "cell",
        "task": cell.test,
        "train": cell.train,
        "test": cell.test,
        "model": cell.model,
        "feature": cell.feature,
        "n_test": len(cell.universe),
        "n_positive": int(cell.y.sum()),
        "n_movies": len(np.unique(groups[cell.universe])),
        "prevalence": float(cell.y.mean()),
        "n_runs": len(cell.tested),
        "repeated": cell.averaged,
        **_leaks(cell),
    }
    for name in names:
        record[name] = {
            **_spread(cell.means(name, lambda t: t.fold).values()),
            "value": cell.value[name],
            "ci": intervals.get(name, [np.nan, np.nan]),
        }
    # A key of models whose films would allow an interval, but not the clips.
    if backbone is not None and is_possible and lacks:
        record["no_interval"] = True
    record |= {
        "tuned": _tuned(cell),
        "seeds": _over_seeds(cell, names),
        "by_movie": _by_movie(cell, groups),
        **_outcomes(cell, groups, is_model=backbone is not None),
        "folds": _fold_records(cell),
        "skipped": [dict(item) for item in cell.skipped],
        "paper": _printed(protocol, cell, backbone or ""),
    }
    if backbone is None:
        record |= {
            "expected": cell.share is not None,
            "ceiling": cell.model in CEILINGS,
        }
    return record


def _tuned(cell: Cell) -> Record | None:
    """Return the metrics at thresholds that other clips chose; None where no fold has one."""
    if cell.share is not None or all(t.tuned is None for t in cell.tested):
        return None
    values = cell.values(tuned=True)
    return {name: {"value": values[name]} for name in TUNED}


def _over_seeds(cell: Cell, names: Iterable[str]) -> Record | None:
    """Return mean and deviation of each metric over seeds; None of a single seed."""
    if len(cell.seeds) < 2:
        return None
    runs = [cell.values([seed]) for seed in cell.seeds]
    record: Record = {"n": len(runs)}
    for name in names:
        record[name] = _spread(run[name] for run in runs)
    return record


def _fold_records(cell: Cell) -> list[Record]:
    """Return the record of each test."""
    records = []
    for t, values in zip(cell.tested, cell.fold_values, strict=True):
        metrics = {key: value for key, value in values.items() if key not in COUNTS}
        record = {
            "fold": t.fold,
            "seed": t.seed,
            "n_train": t.n_train,
            "n_validation": t.n_validation,
            "n_test": len(t.rows),
            "n_positive": int(t.predictions.y.sum()),
            "leaked": t.leak.leaked,
            **metrics,
            "threshold": t.tuned,
            "chosen": dict(t.chosen),
        }
        records.append(record)
    return records


def _printed(protocol: Protocol, cell: Cell, backbone: str) -> list[Record]:
    """Return the numbers of a paper about a cell of this backbone."""
    return [
        {
            "metric": printed.metric,
            "mean": printed.mean,
            "sd": printed.sd if printed.sd >= 0 else None,
            "movie": printed.movie or None,
            "source": printed.source or None,
        }
        for printed in protocol.paper
        if _is_about(printed, cell, backbone)
    ]


def _is_about(paper: PaperValue, cell: Cell, backbone: str) -> bool:
    """Return whether a printed number is about a cell of this backbone."""
    for key in ("model", "feature", "train", "test"):
        wanted = getattr(paper, key)
        if wanted and wanted != getattr(cell, key):
            return False
    return not paper.backbone or is_backbone(backbone, paper.backbone)


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
    given = None
    if cell.model not in UNTRAINED:
        given = (*RANKING_METRICS, "prevalence")
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
        name: [interval.low, interval.high]
        for name, (interval, _) in drawn.items()
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
    records: dict[str, Record] = {}
    runs_of: dict[str, list[dict[str, float]]] = {}  # that test this film alone
    for t, tested_values in zip(cell.tested, cell.fold_values, strict=True):
        films = groups[t.rows]
        if np.all(films == films[:1]):
            runs_of.setdefault(str(films[0]), []).append(tested_values)
    codes = np.searchsorted(np.array(names, dtype=np.str_), movies)
    n_clips = np.bincount(codes, minlength=len(names)).tolist()
    n_positive = np.bincount(codes[cell.y], minlength=len(names)).tolist()
    for i, movie in enumerate(names):
        records[movie] = {
            "n": n_clips[i],
            "n_positive": n_positive[i],
            **{name: float(by_film[i]) for name, by_film in values.items()},
        }
        runs = runs_of.get(movie, [])
        if len(runs) > 1:
            records[movie]["sd"] = _deviations(runs, values)
    return records


def _deviations(
    runs: Sequence[Mapping[str, float]], names: Iterable[str]
) -> dict[str, float]:
    """Return the standard deviation of each metric over runs."""
    deviations = {}
    for name in names:
        deviations[name] = float(np.std([run[name] for run in runs], ddof=1))
    return deviations


def _leaks(cell: Cell) -> Record:
    """Return the leaks of a cell; a test clip is leaked if it leaked in any fold."""
    leaked: set[str] = set()
    leaked_by_name: set[str] = set()
    for t in cell.tested:
        leaked.update(t.leak.clips)
        leaked_by_name.update(set(t.leak.clips) - set(t.leak.copies))
    record: Record = {"leaked": len(leaked)}
    n_copies = len(leaked - leaked_by_name)
    if n_copies:
        record["copies"] = n_copies
    record["neighbours"] = _total(cell, [t.leak.neighbours for t in cell.tested])
    record["same_movie"] = _total(cell, [t.leak.same_movie for t in cell.tested])
    record["leak_share"] = len(leaked) / len(cell.universe)
    return record


def _total(cell: Cell, counts: Sequence[int | None]) -> int | None:
    """Return the sum of the counts of all folds, of one seed; None where a count is unknown.

    Of folds that test the same clips, it is the largest count.
    """
    if None in counts:
        return None
    of_first_seed = [
        count or 0
        for t, count in zip(cell.tested, counts, strict=True)
        if t.seed == cell.seeds[0]
    ]
    return max(of_first_seed) if cell.averaged else sum(of_first_seed)


def _spread(values: Iterable[float]) -> Record:
    """Return mean and deviation of the values that are defined."""
    defined = np.array([value for value in values if np.isfinite(value)])
    mean = np.nan
    sd = np.nan
    if len(defined):
        mean = float(defined.mean())
    if len(defined) > 1:
        sd = float(defined.std(ddof=1))
    return {"mean": mean, "sd": sd}


def _outcomes(cell: Cell, groups: Groups, *, is_model: bool) -> Record:
    """Return counts of the four outcomes, and the calibration as it is and after Platt's method."""
    record: Record = {"confusion": None, "calibration": None, "recalibrated": None}
    if cell.share is not None:
        return record
    y = cell.predictions.y
    called = cell.predictions.decision
    outcomes = {
        "tp": y & called,
        "fp": ~y & called,
        "fn": y & ~called,
        "tn": ~y & ~called,
    }
    # Over all test clips, averaged over seeds and runs.
    times = len(y) / len(cell.universe)
    record["confusion"] = {
        name: float(is_outcome.sum() / times) for name, is_outcome in outcomes.items()
    }
    if not all(t.are_probabilities for t in cell.tested):
        return record
    record["calibration"] = _bins(y, cell.predictions.score)
    movies = np.concatenate([groups[t.rows] for t in cell.tested])
    if is_model and len(np.unique(movies)) > 2:
        score = recalibrate(cell.predictions.score, y, movies)
        record["recalibrated"] = {
            **evaluate(Predictions.of(y, score), ("brier", "ece", "ece_width")),
            "calibration": _bins(y, score),
        }
    return record


def _bins(y: NDArray[np.bool_], score: NDArray[np.float64]) -> list[Record]:
    bins = np.clip(np.ceil(score * BINS).astype(int) - 1, 0, BINS - 1)
    records = []
    for number in range(BINS):
        is_inside = bins == number
        record = {
            "low": number / BINS,
            "high": (number + 1) / BINS,
            "n": int(is_inside.sum()),
            "score": np.nan,
            "share": np.nan,
        }
        if is_inside.any():
            record["score"] = float(score[is_inside].mean())
            record["share"] = float(y[is_inside].mean())
        records.append(record)
    return records
