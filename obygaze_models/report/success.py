"""What makes a clip difficult: factors of success, as tables and figures."""

import textwrap
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

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

PANEL_COLUMNS = 2
# An interval that ends beyond this is cut off at the edge of its figure.
FARTHEST_INTERVAL = 12.0
Analyses = Iterable[tuple[list[SuccessRegression], list[str], str, str]]


def _analyses(run: ReportRun) -> Analyses:
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
        films = [f"{_film_or_all(run, r)} ({r.n} clips)" for r in analysed]
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
    """Draw the log odds of success for each factor: all films and each (Figure 6 of the paper)."""
    for records, names, title, key in _analyses(run):
        if not names:
            continue
        limit = _limit_of(records)
        all_films = [record for record in records if not _is_one_film(record)]
        single = [record for record in records if _is_one_film(record)]
        pooled = ", ".join(_counts(record) for record in all_films)
        with figures.draw(
            "factors",
            f"factors-{key}",
            0.6 + 0.26 * len(names),
            name=title,
            counts=pooled or "no analysis",
            n_films=sum(bool(record.factors) for record in single),
        ) as (_, axes):
            for record in single:
                _draw_analysis(axes, record, names, limit)
            for record in all_films:
                _draw_analysis(axes, record, names, limit)
            _finish(axes, names, limit, fontsize=7.5)
        if single:
            _draw_panels(run, figures, single, names, title, key, limit)


def _draw_panels(
    run: ReportRun,
    figures: FigureSet,
    records: Sequence[SuccessRegression],
    names: Sequence[str],
    title: str,
    key: str,
    limit: float,
) -> None:
    """Draw a panel for each film; one without a regression says why it is empty."""
    n_rows = -(-len(records) // PANEL_COLUMNS)
    layout = {
        "nrows": n_rows,
        "ncols": PANEL_COLUMNS,
        "sharex": True,
        "sharey": True,
        "squeeze": False,
    }
    height = n_rows * (0.5 + 0.13 * len(names)) + 0.3
    kind = "factors_by_film"
    with figures.draw(kind, f"films-{key}", height, layout, name=title) as (_, grid):
        panels = list(np.ravel(grid))
        for axes, record in zip(panels, records, strict=False):
            film = textwrap.fill(_film_or_all(run, record), 20)
            axes.set_title(f"{film}\n{_counts(record)}", fontsize=6.5)
            _finish(axes, names, limit, fontsize=6)
            if record.factors:
                _draw_analysis(axes, record, names, limit)
            else:
                reason = textwrap.fill(f"empty: {record.note}", 22)
                middle = (len(names) - 1) / 2
                style: dict[str, Any] = {"ha": "center", "va": "center"}
                style |= {"fontsize": 6.5, "backgroundcolor": "white"}
                axes.text(0, middle, reason, color=MUTED, **style)
        for axes in panels[len(records) :]:
            axes.set_visible(False)
        for axes in panels:
            axes.label_outer(remove_inner_ticks=False)


def _counts(record: SuccessRegression) -> str:
    """Return how many clips an analysis is of, and of how many the decision is right."""
    return f"{record.n} clips, {record.n_success} right"


def _finish(axes: Any, names: Sequence[str], limit: float, fontsize: float) -> None:
    """Draw what does not depend on the analyses: the names, the line at 0, the axis."""
    draw_reference(axes, 0)
    label_rows(axes, names, fontsize=fontsize)
    axes.set_xlim(-limit, limit)
    axes.tick_params(axis="x", labelsize=fontsize)
    hide_ticks(axes, "left")
    axes.set_xlabel("log odds of success", color=MUTED, fontsize=fontsize)


def _limit_of(records: Sequence[SuccessRegression]) -> float:
    """Return where the axis of the log odds ends: beyond every dot and most intervals."""
    farthest = 1.0
    for factor in chain.from_iterable(record.factors for record in records):
        farthest = max(farthest, abs(factor.log_odds))
    for record in records:
        if _is_one_film(record):
            continue
        for factor in record.factors:
            ends = [end for end in (factor.low, factor.high) if end is not None]
            lengths = [min(abs(end), FARTHEST_INTERVAL) for end in ends]
            farthest = max([farthest, *lengths])
    return 1.1 * farthest


def _draw_analysis(
    axes: Any, record: SuccessRegression, names: Sequence[str], limit: float
) -> None:
    """Draw the factors of one film, grey, or of all films with their intervals."""
    for factor in record.factors:
        row = names.index(factor.name)
        if _is_one_film(record):
            style = {"s": 14, "color": BASELINE, "lw": 0, "zorder": 1}
            axes.scatter(factor.log_odds, row, **style)
            continue
        low = factor.low
        high = factor.high
        face = "white"
        if low is not None and high is not None:
            face = MODEL
            ends = [max(low, -limit), min(high, limit)]
            axes.plot(ends, [row, row], color=MODEL, lw=1.8, zorder=2)
        style = {"s": 28, "color": face, "edgecolor": MODEL, "zorder": 3}
        axes.scatter(factor.log_odds, row, **style)
