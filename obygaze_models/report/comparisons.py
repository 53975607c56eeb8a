"""Differences: between training tasks, between models, and between kinds of clips (the factors)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from statistics import median
from typing import Any

from scipy.special import stdtrit

from obygaze_features.core.figures import MUTED, label_rows
from obygaze_models.evaluation.error_analysis import ALL_FILMS
from obygaze_models.evaluation.metrics import RANKING_METRICS
from obygaze_models.models.registry import BASELINES
from obygaze_models.protocols.results.differences import Comparison, Contrast
from obygaze_models.protocols.results.whole_run import SuccessRegression
from obygaze_models.report.figure import (
    BASELINE,
    MODEL,
    FigureSet,
    draw_reference,
    hide_ticks,
)
from obygaze_models.report.lookup import (
    ReportRun,
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
    slug,
)


def contrasts(run: ReportRun) -> Part:
    """Yield the differences between the two training tasks that the protocol contrasts."""
    records = run.of(Contrast)
    if not records:
        return
    names = {"first": records[0].first.train, "second": records[0].second.train}
    n_higher = sum((record.difference or 0) > 0 for record in records)
    yield sentence("contrast", n_higher=n_higher, n=len(records), **names)
    if any(r.ci is None for r in records if r.metric in RANKING_METRICS):
        yield sentence("untested")
    rows: list[Row | Heading] = []
    for test, same_test in grouped(records, lambda record: record.test).items():
        rows.append(Heading(f"tested on {test}"))
        rows += [_contrast_row(run, record) for record in same_test]
    yield make_table("contrast", "contrast", rows, confidence=run.confidence, **names)


def _contrast_row(run: ReportRun, record: Contrast) -> Row:
    n_higher = record.n_movies_higher
    higher = f"{'–' if n_higher is None else n_higher} of {record.n_movies}"
    return (
        run.label(record),
        metric_name(record.metric),
        Number(record.first.value),
        Number(record.second.value),
        _difference(record),
        Number(record.p, digits=3, is_p=True),
        higher,
        record.n_seeds,
        record.n_test,
        record.leaked,
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
            str(_difference(record)),
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
        group = (record.n_movies, metric_name(record.metric))
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
        _difference(first),
        first.n_movies,
        *(p for _ in columns),
    )


def _has_baseline(record: Comparison) -> bool:
    return record.second.model in BASELINES


def _difference(record: Comparison | Contrast) -> Number:
    low, high = record.ends
    return Number(record.difference, low, high)


def _detectable(run: ReportRun, record: Comparison) -> float | None:
    """Return the difference that a test at the level of the interval finds in 80 % of samples."""
    low, high = record.ends
    if low is None or high is None or record.n_movies < 3:
        return None
    confidence = run.settings.get("confidence", 0.95)
    tail, power = stdtrit(record.n_movies - 1, ((1 + confidence) / 2, 0.8))
    return float((tail + power) * (high - low) / (2 * tail))


def _analyses(
    run: ReportRun,
) -> Iterable[tuple[list[SuccessRegression], list[str], str, str]]:
    """Yield the error analyses of a cell, all films first, their factors, a title and a key."""
    by_cell = grouped(
        run.of(SuccessRegression), lambda r: (r.model, r.feature, r.train, r.test)
    )
    for (model, feature, train, test), records in by_cell.items():
        factors = chain.from_iterable(record.factors for record in records)
        names = list(dict.fromkeys(factor.name for factor in factors))
        title = f"{model} ({feature}), {pair_name(train, test)}"
        yield records, names, title, slug(f"{model}-{feature}-{train}-{test}")


def _is_one_film(record: SuccessRegression) -> bool:
    """Return whether an error analysis is of one film, not of all films."""
    return record.film not in ("", ALL_FILMS)


def factors(run: ReportRun) -> Part:
    """Yield the log odds of success for each factor, a table per cell, a column per film."""
    for records, names, title, key in _analyses(run):
        analysed = [record for record in records if record.factors]
        analysed.sort(key=_is_one_film)
        films = [_film_or_all(run, record) for record in analysed]
        rows = []
        for name in names:
            values = [_log_odds(record, name) for record in analysed]
            rows.append((name, *values))
        notes = _notes_of(run, records)
        yield make_table(
            "analysis", f"analysis-{key}", rows, films, name=title, notes=notes
        )


def _film_or_all(run: ReportRun, record: SuccessRegression) -> str:
    """Return the name of the film of an error analysis."""
    return run.film_name(record.film) or "all films"


def _notes_of(run: ReportRun, records: Sequence[SuccessRegression]) -> str:
    """Return the notes of error analyses, each with the films that it is about."""
    with_note = [record for record in records if record.note]
    if not with_note:
        return ""
    notes = []
    for note, same_note in grouped(with_note, lambda r: r.note).items():
        films = ", ".join(_film_or_all(run, record) for record in same_note)
        notes.append(f"{films}: {note}")
    return f" Notes: {'; '.join(notes)}."


def _log_odds(record: SuccessRegression, name: str) -> Number:
    """Return the log odds of a factor, with its interval if the analysis is of all films."""
    factors = {factor.name: factor for factor in record.factors}
    factor = factors.get(name)
    if factor is None:
        return Number(None)
    significant = factor.p is not None and factor.p < 0.05
    mark = "*" if significant else ""
    if _is_one_film(record):
        return Number(factor.log_odds, mark=mark)
    return Number(factor.log_odds, factor.low, factor.high, mark=mark)


def draw_factors(run: ReportRun, figures: FigureSet) -> None:
    """Draw the log odds of success for each factor, all films and each (Figure 6 of the paper)."""
    for records, names, title, key in _analyses(run):
        if not names:
            continue
        height = 0.6 + 0.26 * len(names)
        # The axis shows the intervals of all films, but not of all single films.
        shown = [record for record in records if not _is_one_film(record)] or records
        limit = _limit_of(shown)
        factors = chain.from_iterable(record.factors for record in records)
        values = [factor.log_odds for factor in factors]
        n_beyond = sum(abs(value) > limit for value in values)
        beyond = ""
        if n_beyond:
            beyond = (
                f" Triangles at the edge: {n_beyond} of {len(values)} dots are outside."
            )
        with figures.draw(
            "factors", f"factors-{key}", height, name=title, beyond=beyond
        ) as (_, axes):
            for record in records:
                _draw_analysis(axes, record, names, limit)
            draw_reference(axes, 0)
            label_rows(axes, names, fontsize=7.5)
            axes.set_xlim(-1.04 * limit, 1.04 * limit)
            hide_ticks(axes, "left")
            axes.set_xlabel("log odds of success", color=MUTED)


def _limit_of(records: Sequence[SuccessRegression]) -> float:
    """Return where the axis of the log odds ends: beyond the intervals of these analyses."""
    ends = []
    for factor in chain.from_iterable(record.factors for record in records):
        ends += [factor.low, factor.high]
    largest = max((abs(end) for end in ends if end is not None), default=2.0)
    return float(min(max(1.15 * largest, 1.0), 12.0))


def _draw_analysis(
    axes: Any, record: SuccessRegression, names: Sequence[str], limit: float
) -> None:
    """Draw the factors of one film or of all; beyond the limit is a triangle at the edge."""
    for factor in record.factors:
        row = names.index(factor.name)
        low = factor.low
        high = factor.high
        value = factor.log_odds
        marker = "o"
        if abs(value) > limit:
            marker = ">" if value > 0 else "<"
        at = min(max(value, -limit), limit)
        if _is_one_film(record):
            style = {"s": 14, "color": BASELINE, "alpha": 0.7, "lw": 0, "zorder": 1}
            axes.scatter(at, row, marker=marker, **style)
        else:
            has_interval = low is not None and high is not None
            if has_interval:
                axes.plot([low, high], [row, row], color=MODEL, lw=1.8, zorder=2)
            face = MODEL if has_interval else "white"
            axes.scatter(
                at, row, marker=marker, s=28, color=face, edgecolor=MODEL, zorder=3
            )
