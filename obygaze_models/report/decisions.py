"""Decisions and probabilities: confusion, calibration, chosen thresholds, further metrics."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from obygaze_features.core.figures import INK, MUTED
from obygaze_models.protocols.runner.records import Record
from obygaze_models.report.figure import BASELINE, MODEL, WRONG, FigureSet, hide_ticks
from obygaze_models.report.lookup import (
    SHOWN,
    ReportRun,
    grouped,
    metric_name,
    number_of,
    pair_name,
    pair_of,
)
from obygaze_models.report.tables import Number, Part, make_table, report_text, slug

MAX_ROWS, MAX_COLUMNS = 12, 6


def decisions(run: ReportRun) -> Part:
    """Yield the metrics that the results do not show, chosen thresholds, and recalibration."""

    def at_thresholds(cell: Record) -> Iterable[Number]:
        for metric in tuned:
            yield Number(number_of(cell, metric).value)
            yield Number((cell.get("tuned") or {}).get(metric, {}).get("value"))

    def recalibration(cell: Record) -> Iterable[Number]:
        for metric in ("brier", "ece"):
            for value in (number_of(cell, metric).value, cell["recalibrated"][metric]):
                yield Number(value, digits=3)

    known = [metric for metric in report_text()["metrics"] if metric not in SHOWN]
    if metrics := [metric for metric in known if any(metric in cell for cell in run.cells)]:
        rows = run.rows_by_pair(
            run.cells, lambda cell: [Number(number_of(cell, m).value) for m in metrics]
        )
        yield make_table("further", "other", rows, [metric_name(metric) for metric in metrics])
    if tuned := list(dict.fromkeys(m for cell in run.cells for m in cell.get("tuned") or ())):
        rows = run.rows_by_pair(run.cells, at_thresholds)
        headers = [f"{metric_name(m)}{end}" for m in tuned for end in ("", ", chosen threshold")]
        yield make_table("thresholds", "thresholds", rows, headers)
    if cells := [cell for cell in run.cells if cell.get("recalibrated")]:
        rows = run.rows_by_pair(cells, recalibration)
        yield make_table("recalibration", "recalibration", rows)


def draw_confusion(run: ReportRun, figures: FigureSet) -> None:
    """Draw the counts of the four outcomes: a row per pair of tasks, a column per model."""
    _draw_panels("confusion", run, figures, 0.86, {}, _draw_counts)


def draw_calibration(run: ReportRun, figures: FigureSet) -> None:
    """Draw the share of positive clips for each predicted probability."""
    _draw_panels("calibration", run, figures, 1.05, {"sharex": True, "sharey": True}, _draw_bins)


def _draw_panels(
    kind: str,
    run: ReportRun,
    figures: FigureSet,
    side: float,
    layout: Mapping[str, Any],
    draw: Callable[[Any, Record], None],
) -> None:
    """Draw a small panel for each cell, in one figure per store."""
    found = [cell for cell in run.cells if cell["feature"] and cell.get(kind)]
    for store, cells in grouped(found, lambda cell: cell["feature"]).items():
        by_place = {(pair_of(cell), cell["model"]): cell for cell in cells}
        pairs, models = (list(dict.fromkeys(keys)) for keys in zip(*by_place, strict=True))
        names = {"feature": store, "cut": _cut_note(pairs, models)}
        pairs, models = pairs[:MAX_ROWS], models[:MAX_COLUMNS]
        titles = [textwrap.fill(model, round(17 * side)) for model in models]
        n_lines = max(title.count("\n") for title in titles)
        height = 0.5 + 0.13 * n_lines + (side + 0.14) * len(pairs)
        size = 1.5 + (side + 0.35) * len(models), height
        grid_layout = {**layout, "nrows": len(pairs), "ncols": len(models), "squeeze": False}
        with figures.draw(kind, f"{kind}-{slug(store)}", size, grid_layout, **names) as (_, grid):
            for axes, name in zip(grid[0], titles, strict=True):
                axes.set_title(name, fontsize=8, loc="center")
            for row, pair in zip(grid, pairs, strict=True):
                label = pair_name(*pair).replace(" → ", "\n→ ")
                row[0].set_ylabel(label, fontsize=8, rotation=0, ha="right", va="center")
                for axes, model in zip(row, models, strict=True):
                    if (pair, model) in by_place:
                        draw(axes, by_place[pair, model])
                    else:
                        axes.axis("off")


def _cut_note(pairs: Sequence[object], models: Sequence[object]) -> str:
    """Return a sentence on what a figure leaves out for lack of room, or an empty text."""
    shown = []
    if len(models) > MAX_COLUMNS:
        shown.append(f"the first {MAX_COLUMNS} of {len(models)} models")
    if len(pairs) > MAX_ROWS:
        shown.append(f"the first {MAX_ROWS} of {len(pairs)} pairs of tasks")
    return f" Shown are {' and '.join(shown)}." if shown else ""


def _draw_counts(axes: Any, cell: Record) -> None:
    counts = cell["confusion"]
    table = [[counts["tn"], counts["fp"]], [counts["fn"], counts["tp"]]]
    shares = [[n / max(sum(row), 1e-9) for n in row] for row in table]
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1.25, aspect="equal")
    for y, row in enumerate(table):
        for x, count in enumerate(row):
            color = "white" if shares[y][x] > 0.7 else INK
            axes.text(x, y, f"{count:.0f}", ha="center", va="center", fontsize=8, color=color)
    axes.set_xticks([])
    axes.set_yticks([0, 1], ["no", "yes"], fontsize=6, color=MUTED)
    hide_ticks(axes)


def _draw_bins(axes: Any, cell: Record) -> None:
    bins = [found for found in cell["calibration"] if found["n"]]
    scores, shares = [b["score"] for b in bins], [b["share"] for b in bins]
    total = max(sum(found["n"] for found in bins), 1)
    sizes = [6 + 70 * found["n"] / total for found in bins]
    axes.plot([0, 1], [0, 1], color=MUTED, lw=0.7, ls=(0, (3, 3)))
    axes.plot(scores, shares, color=BASELINE, lw=1, zorder=1)
    axes.scatter(scores, shares, s=sizes, color=MODEL, alpha=0.85, lw=0, zorder=2)
    again = [b for b in (cell.get("recalibrated") or {}).get("calibration", ()) if b["n"]]
    axes.plot([b["score"] for b in again], [b["share"] for b in again], color=WRONG, lw=1, zorder=1)
    axes.set(xlim=(-0.06, 1.06), ylim=(-0.06, 1.06))
    axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"], fontsize=6.5)
    axes.set_yticks([0, 0.5, 1], ["0", ".5", "1"], fontsize=6.5)
