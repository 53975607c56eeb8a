"""What makes a clip difficult: factors of success, as tables and figures."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from obygaze_features.core.figures import MUTED, label_rows
from obygaze_models.evaluation.error_analysis import ALL_FILMS
from obygaze_models.protocols.results.success import SuccessRegression
from obygaze_models.report.figure import (
    BASELINE,
    MODEL,
    FigureSet,
    draw_reference,
    hide_ticks,
)
from obygaze_models.report.lookup import ReportRun, grouped, pair_name
from obygaze_models.report.tables import Number, Part, make_table, slug


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
