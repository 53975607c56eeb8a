"""Differences between models, and between models and baselines, on the same clips."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from scipy.special import stdtrit

from obygaze_models.models.registry import BASELINES
from obygaze_models.protocols.results.differences import Comparison
from obygaze_models.report.lookup import (
    ReportRun,
    difference_of,
    grouped,
    metric_name,
    pair_name,
    rank_of,
)
from obygaze_models.report.tables import (
    Heading,
    Number,
    Part,
    Row,
    make_table,
    sentence,
)


def differences(run: ReportRun) -> Part:
    """Yield differences on the same clips, by p and then by size; equal ones share a row.

    Those against the best baseline are first; the rest are folded. A sentence says which difference
    of two models the films of the run are enough to find.
    """

    def key(record: Comparison) -> tuple[object, ...]:
        return (
            *record.pair,
            record.metric,
            run.label(record.first),
            _has_baseline(record),
            str(difference_of(record)),
            record.p_sign_flip,
        )

    def order(same: Sequence[Comparison]) -> tuple[float, float]:
        p = same[0].p_sign_flip
        return 1.0 if p is None else p, -abs(same[0].difference or 0.0)

    yield from _detectable_differences(run)
    records = [
        record
        for record in run.of(Comparison)
        if "oracle" not in (record.first.model, record.second.model)
    ]
    against_best = []
    others = []
    for same in sorted(grouped(records, key).values(), key=order):
        if any(_is_against_best(run, record) for record in same):
            against_best.append(same)
        else:
            others.append(same)
    # A p is given only where all runs test the same clips.
    has_p = any(record.p_sign_flip is not None for record in records)
    p = ["p"] if has_p else []
    if against_best:
        rows = [_compared(run, same, *p) for same in against_best]
        yield make_table("comparisons", "comparisons", rows, p)
    further = _further_rows(run, others, p)
    if further:
        table = make_table("further_comparisons", "comparisons-further", further, p)
        yield replace(table, folded=bool(against_best))


def _further_rows(
    run: ReportRun, groups: Sequence[Sequence[Comparison]], columns: Sequence[str]
) -> list[Row | Heading]:
    """Return the rows of differences between two models, then those to a baseline."""
    two_models = [same for same in groups if not _has_baseline(same[0])]
    with_baseline = [same for same in groups if _has_baseline(same[0])]
    rows: list[Row | Heading] = []
    if two_models:
        rows.append(Heading("two models"))
        rows += [_compared(run, same, *columns) for same in two_models]
    if with_baseline:
        rows.append(Heading("a model and a baseline"))
        rows += [_compared(run, same, *columns) for same in with_baseline]
    return rows


def _detectable_differences(run: ReportRun) -> Iterator[str]:
    """Yield a sentence per metric: which difference of two models the films are enough to find."""
    detectable: dict[tuple[int, str], list[float]] = {}
    for record in run.of(Comparison):
        if _has_baseline(record):
            continue
        least = _detectable(run, record)
        if least is None:
            continue
        group = (record.n_films, metric_name(record.metric))
        detectable.setdefault(group, []).append(least)
    for (n_films, metric), differences_of_group in detectable.items():
        yield sentence(
            "power",
            typical=f"{median(differences_of_group):.2f}",
            n_films=n_films,
            metric=metric,
            confidence=run.confidence,
        )


def _is_against_best(run: ReportRun, record: Comparison) -> bool:
    """Return whether a model is compared with the best baseline without features of its cell."""
    stores = ("", record.first.feature)
    ranks = {}
    for baseline in run.baselines:
        if baseline.pair != record.pair or baseline.ceiling:
            continue
        if baseline.feature in stores:
            model = (baseline.model, baseline.feature)
            ranks[model] = rank_of(baseline, record.metric)
    rank = ranks.get((record.second.model, record.second.feature))
    return rank is not None and rank == max(ranks.values())


def _compared(run: ReportRun, same: Sequence[Comparison], *columns: str) -> Row:
    first = same[0]
    p = Number(first.p_sign_flip, digits=3, is_p=True)
    return (
        pair_name(*first.pair),
        run.label(first.first),
        ", ".join(run.label(record.second) for record in same),
        metric_name(first.metric),
        difference_of(first),
        first.n_films,
        *(p for _ in columns),
    )


def _has_baseline(record: Comparison) -> bool:
    return record.second.model in BASELINES


def _detectable(run: ReportRun, record: Comparison) -> float | None:
    """Return the difference that a test of that confidence finds in 80 % of samples."""
    low, high = record.ends
    if low is None or high is None or record.n_films < 3:
        return None
    confidence = run.settings.get("confidence", 0.95)
    tail, power = stdtrit(record.n_films - 1, ((1 + confidence) / 2, 0.8))
    return float((tail + power) * (high - low) / (2 * tail))
