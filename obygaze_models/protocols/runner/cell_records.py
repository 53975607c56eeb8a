"""The records of cells: values with intervals, over films, by film and by fold."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.bootstrap import (
    effective_groups,
    not_beyond_clips,
    resample,
    share_variance,
)
from obygaze_models.evaluation.logistic import recalibrate
from obygaze_models.evaluation.metrics import (
    CALIBRATION_METRICS,
    COUNTS,
    RANKING_METRICS,
    evaluate,
)
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.registry import UNTRAINED
from obygaze_models.protocols.results.cells import (
    Bin,
    CellRecord,
    FilmValues,
    FoldRecord,
    Metric,
    Outcomes,
    PrintedValue,
    Recalibrated,
    Seeds,
    Spread,
    TunedMetric,
)
from obygaze_models.protocols.runner.cells import TUNED, Cell
from obygaze_models.protocols.runner.features import is_backbone
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
) -> CellRecord:
    """Return the record of a model with its store's backbone, or of a baseline without one.

    `labels` has the label of every clip for the test task; clips of other tasks have -1.
    """
    is_model = backbone is not None
    names = [name for name in cell.value if name not in COUNTS]
    has_enough = _has_enough(cell, groups)
    intervals = _intervals(cell, protocol, groups, labels) if has_enough else {}
    metrics = {}
    for name in names:
        spread = _spread(cell.means(name, lambda t: t.fold).values())
        interval = intervals.get(name, [np.nan, np.nan])
        metrics[name] = Metric(
            mean=spread.mean, sd=spread.sd, value=cell.value[name], ci=interval
        )
    leaks = _leaks(cell)
    decisions = _decisions(cell, groups, is_model=is_model)
    kind = "baseline"
    no_interval = None
    expected = None
    ceiling = None
    if is_model:
        kind = "cell"
        no_interval = _lacks_interval(cell, groups, intervals) or None
    else:
        expected = cell.share is not None
        ceiling = cell.model in CEILINGS
    return CellRecord(
        kind=kind,
        task=cell.test,
        train=cell.train,
        test=cell.test,
        model=cell.model,
        feature=cell.feature,
        n_test=len(cell.universe),
        n_positive=int(cell.y.sum()),
        n_films=len(np.unique(groups[cell.universe])),
        prevalence=float(cell.y.mean()),
        n_runs=len(cell.tested),
        repeated=cell.averaged,
        leaked=leaks.leaked,
        copies=leaks.copies or None,
        neighbours=leaks.neighbours,
        same_film=leaks.same_film,
        leak_share=leaks.leaked / len(cell.universe),
        metrics=metrics,
        no_interval=no_interval,
        tuned=_tuned(cell),
        seeds=_over_seeds(cell, names),
        by_film=_by_film(cell, groups),
        confusion=decisions.confusion,
        calibration=decisions.calibration,
        recalibrated=decisions.recalibrated,
        folds=_fold_records(cell),
        skipped=cell.skipped,
        paper=_printed(protocol, cell, backbone or ""),
        expected=expected,
        ceiling=ceiling,
    )


def _lacks_interval(
    cell: Cell, groups: Groups, intervals: Mapping[str, Sequence[float]]
) -> bool:
    """Return whether films would allow an interval of AP or AUC, but not the clips."""
    n_films = len(np.unique(groups[cell.universe]))
    if n_films < 2 or not np.isfinite(cell.inflation):
        return False
    ranked = [name for name in RANKING_METRICS if np.isfinite(cell.value[name])]
    return any(not np.isfinite(intervals.get(name, [np.nan])).all() for name in ranked)


def _tuned(cell: Cell) -> dict[str, TunedMetric] | None:
    """Return the metrics at thresholds that other clips chose; None where no fold has one."""
    if cell.share is not None or all(t.tuned is None for t in cell.tested):
        return None
    values = cell.values(tuned=True)
    return {name: TunedMetric(value=values[name]) for name in TUNED}


def _over_seeds(cell: Cell, names: Iterable[str]) -> Seeds | None:
    """Return mean and deviation of each metric over seeds; None of a single seed."""
    if len(cell.seeds) < 2:
        return None
    runs = [cell.values([seed]) for seed in cell.seeds]
    metrics = {}
    for name in names:
        metrics[name] = _spread(run[name] for run in runs)
    return Seeds(n=len(runs), metrics=metrics)


def _fold_records(cell: Cell) -> list[FoldRecord]:
    """Return the record of each test."""
    records = []
    for t, values in zip(cell.tested, cell.fold_values, strict=True):
        metrics = {key: value for key, value in values.items() if key not in COUNTS}
        record = FoldRecord(
            fold=t.fold,
            seed=t.seed,
            n_train=t.n_train,
            n_validation=t.n_validation,
            n_test=len(t.rows),
            n_positive=int(t.predictions.y.sum()),
            leaked=t.leak.leaked,
            metrics=metrics,
            threshold=t.tuned,
            chosen=t.chosen,
        )
        records.append(record)
    return records


def _printed(protocol: Protocol, cell: Cell, backbone: str) -> list[PrintedValue]:
    """Return the numbers of a paper about a cell of this backbone."""
    return [
        PrintedValue(
            metric=printed.metric,
            mean=printed.mean,
            sd=printed.sd if printed.sd >= 0 else None,
            film=printed.film or None,
            source=printed.source or None,
        )
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
        confidence=report.confidence,
        seed=(protocol.fit.seed, 0),
        within_unit=True,
        inflation=cell.inflation,
        label_inflation=_label_inflation(cell, protocol, groups, labels),
        effective=effective_groups(cell.y, films),
    )
    intervals = {}
    for name, (interval, _) in drawn.items():
        if given is not None and name not in given:
            continue
        if name in RANKING_METRICS:
            interval = not_beyond_clips(
                interval, cell.value[name], cell.y, report.confidence
            )
        intervals[name] = [interval.low, interval.high]
    return intervals


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


def _by_film(cell: Cell, groups: Groups) -> dict[str, FilmValues]:
    names, values = cell.by_group(groups)
    film_of_clip = groups[cell.universe]
    records: dict[str, FilmValues] = {}
    runs_of: dict[str, list[dict[str, float]]] = {}  # that test this film alone
    for t, tested_values in zip(cell.tested, cell.fold_values, strict=True):
        films = groups[t.rows]
        if np.all(films == films[:1]):
            runs_of.setdefault(str(films[0]), []).append(tested_values)
    codes = np.searchsorted(np.array(names, dtype=np.str_), film_of_clip)
    n_clips = np.bincount(codes, minlength=len(names)).tolist()
    n_positive = np.bincount(codes[cell.y], minlength=len(names)).tolist()
    for i, film in enumerate(names):
        runs = runs_of.get(film, [])
        records[film] = FilmValues(
            n=n_clips[i],
            n_positive=n_positive[i],
            metrics={name: float(by_film[i]) for name, by_film in values.items()},
            sd=_deviations(runs, values) if len(runs) > 1 else None,
        )
    return records


def _deviations(
    runs: Sequence[Mapping[str, float]], names: Iterable[str]
) -> dict[str, float]:
    """Return the standard deviation of each metric over runs."""
    deviations = {}
    for name in names:
        deviations[name] = float(np.std([run[name] for run in runs], ddof=1))
    return deviations


class Leaks(NamedTuple):
    """The test clips of a cell that leaked, with those near to a training clip."""

    leaked: int
    copies: int  # that leaked by their features only
    neighbours: int | None
    same_film: int | None


def _leaks(cell: Cell) -> Leaks:
    """Return the leaks of a cell; a test clip is leaked if it leaked in any fold."""
    leaked: set[str] = set()
    leaked_by_name: set[str] = set()
    for t in cell.tested:
        leaked.update(t.leak.clips)
        leaked_by_name.update(set(t.leak.clips) - set(t.leak.copies))
    return Leaks(
        leaked=len(leaked),
        copies=len(leaked - leaked_by_name),
        neighbours=_total(cell, [t.leak.neighbours for t in cell.tested]),
        same_film=_total(cell, [t.leak.same_film for t in cell.tested]),
    )


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


def _spread(values: Iterable[float]) -> Spread:
    """Return mean and deviation of the values that are defined."""
    defined = np.array([value for value in values if np.isfinite(value)])
    mean = np.nan
    sd = np.nan
    if len(defined):
        mean = float(defined.mean())
    if len(defined) > 1:
        sd = float(defined.std(ddof=1))
    return Spread(mean=mean, sd=sd)


class Decisions(NamedTuple):
    """The decisions and probabilities of a cell; None where it has no such."""

    confusion: Outcomes | None = None
    calibration: Sequence[Bin] | None = None
    recalibrated: Recalibrated | None = None


def _decisions(cell: Cell, groups: Groups, *, is_model: bool) -> Decisions:
    """Return counts of the four outcomes, and the calibration as it is and after Platt's method."""
    if cell.share is not None:
        return Decisions()
    y = cell.predictions.y
    score = cell.predictions.score
    called = cell.predictions.decision
    # Over all test clips, averaged over seeds and runs.
    times = len(y) / len(cell.universe)
    confusion = Outcomes(
        tp=float((y & called).sum() / times),
        fp=float((~y & called).sum() / times),
        fn=float((y & ~called).sum() / times),
        tn=float((~y & ~called).sum() / times),
    )
    if not all(t.are_probabilities for t in cell.tested):
        return Decisions(confusion)
    calibration = _bins(y, score)
    films = np.concatenate([groups[t.rows] for t in cell.tested])
    if not is_model or len(np.unique(films)) <= 2:
        return Decisions(confusion, calibration)
    again = recalibrate(score, y, films)
    recalibrated = Recalibrated(
        metrics=evaluate(Predictions.of(y, again), CALIBRATION_METRICS),
        calibration=_bins(y, again),
    )
    return Decisions(confusion, calibration, recalibrated)


def _bins(y: NDArray[np.bool_], score: NDArray[np.float64]) -> list[Bin]:
    numbers = np.clip(np.ceil(score * BINS).astype(int) - 1, 0, BINS - 1)
    bins = []
    for number in range(BINS):
        is_inside = numbers == number
        mean_score = np.nan
        share = np.nan
        if is_inside.any():
            mean_score = float(score[is_inside].mean())
            share = float(y[is_inside].mean())
        bins.append(
            Bin(
                low=number / BINS,
                high=(number + 1) / BINS,
                n=int(is_inside.sum()),
                score=mean_score,
                share=share,
            )
        )
    return bins
