"""Tasks that share a row, such as one concept against two kinds of negatives: bars side by side."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from obygaze_features.core.figures import INK, MUTED, draw_grid, label_rows
from obygaze_models.protocols.results.cells import CellRecord
from obygaze_models.report.figure import FigureSet, hide_ticks
from obygaze_models.report.lookup import (
    ReportRun,
    grouped,
    metric_name,
    metric_of,
    rank_of,
)
from obygaze_models.report.results import chance_of
from obygaze_models.report.tables import Number, Part, make_table, slug

# Baselines that use nothing of a clip.
GUESSES = ("random", "all_positive", "prevalence")
HEIGHT = 0.78  # of all bars of a row together; the distance of two rows is 1
# Of the first and of the last series, in matplotlib's colour map "Blues".
DARKEST = 0.85
PALEST = 0.35


@dataclass(frozen=True)
class Bars:
    """The cells of one model: a row for each concept or other name, a bar for each series."""

    label: str
    key: str
    rows: Sequence[str]
    series: Sequence[str]
    cells: Mapping[tuple[str, str], CellRecord]


def bars_of(run: ReportRun) -> Iterator[Bars]:
    """Yield the bars of each model; none where no task of the protocol has a row."""
    places = run.places_of_tasks
    if not places or not run.is_own_test:
        return
    rows = list(dict.fromkeys(row for row, _ in places.values()))
    series = list(dict.fromkeys(name for _, name in places.values()))
    drawn = [cell for cell in run.cells if cell.test in places]
    for label, cells in grouped(drawn, run.label).items():
        by_place = {places[cell.test]: cell for cell in cells}
        key = slug(f"{cells[0].model}-{cells[0].feature}")
        yield Bars(label, key, rows, series, by_place)


def bars(run: ReportRun) -> Part:
    """Yield a table for each model: a row for each concept, a column for each bar."""
    metrics = list(dict.fromkeys((run.primary, run.ranking)))
    for group in bars_of(run):
        headers = []
        for metric in metrics:
            for name in group.series:
                headers.append(f"{metric_name(metric)}, {name}")
        rows = []
        for row in group.rows:
            values = []
            for metric in metrics:
                for name in group.series:
                    values.append(_value(group, row, name, metric))
            rows.append((row, *values))
        yield make_table("bars", f"bars-{group.key}", rows, headers, name=group.label)


def _value(group: Bars, row: str, series: str, metric: str) -> Number:
    """Return a metric of one bar; a dash if no model of that task was tested."""
    cell = group.cells.get((row, series))
    return Number(None) if cell is None else metric_of(cell, metric)


def draw_bars(run: ReportRun, figures: FigureSet) -> None:
    """Draw the primary metric of each model as bars (Figure 3 of the paper), then AP or AUC."""
    for metric in dict.fromkeys((run.primary, run.ranking)):
        for group in bars_of(run):
            n_bars = len(group.rows) * len(group.series)
            key = slug(f"bars-{metric}-{group.key}")
            with figures.draw(
                "bars",
                key,
                0.9 + 0.08 * len(group.rows) + 0.15 * n_bars,
                name=group.label,
                metric=metric_name(metric),
            ) as (figure, axes):
                _draw(axes, run, group, metric)
                columns = 1 if max(map(len, group.series)) > 24 else 2
                figure.legend(
                    fontsize=7, loc="outside upper left", ncols=columns, borderpad=0
                )


def _draw(axes: Any, run: ReportRun, group: Bars, metric: str) -> None:
    """Draw the bars of one metric, with intervals and the best baseline that learned nothing."""
    import matplotlib

    height = HEIGHT / len(group.series)
    steps = max(len(group.series) - 1, 1)
    for number, name in enumerate(group.series):
        shade = DARKEST - (DARKEST - PALEST) * number / steps
        color = matplotlib.colormaps["Blues"](shade)
        offset = (number + 0.5) * height - HEIGHT / 2
        places = [row + offset for row in range(len(group.rows))]
        numbers = [_value(group, row, name, metric) for row in group.rows]
        values = [value.value or 0.0 for value in numbers]
        axes.barh(places, values, 0.92 * height, color=color, label=name)
        for row_name, place, number_of_bar in zip(
            group.rows, places, numbers, strict=True
        ):
            if number_of_bar.value is None:
                axes.text(0.01, place, "–", va="center", fontsize=6, color=MUTED)
                continue
            if number_of_bar.interval:
                ends = [number_of_bar.low, number_of_bar.high]
                axes.plot(ends, [place, place], color=INK, lw=0.8)
            guess = _value_of_guess(run, group.cells[row_name, name], metric)
            if guess is not None:
                ends = [place - 0.46 * height, place + 0.46 * height]
                axes.plot([guess, guess], ends, color="black", lw=1.2)
    wrapped = [textwrap.fill(row, 22) for row in group.rows]
    label_rows(axes, wrapped, fontsize=7.5)
    left, right = axes.get_xlim()
    axes.set_xlim(min(left, 0), max(right, 1) if right > 1.1 else 1)
    draw_grid(axes)
    hide_ticks(axes, "left")
    axes.set_xlabel(metric_name(metric), color=MUTED)


def _value_of_guess(run: ReportRun, cell: CellRecord, metric: str) -> float | None:
    """Return what a guess that uses nothing of a clip reaches on the test of a cell.

    For AP and AUC it is the expected value of a random order; for other metrics the best baseline.
    """
    if metric == run.ranking:
        return chance_of(cell, metric)
    guesses = [
        record
        for record in run.baselines
        if record.pair == cell.pair and record.model in GUESSES
    ]
    if not guesses:
        return None
    best = max(guesses, key=lambda record: rank_of(record, metric))
    return metric_of(best, metric).value
