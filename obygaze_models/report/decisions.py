"""Decisions and probabilities: calibration, chosen thresholds, further metrics."""

import math
import textwrap
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

from obygaze_features.core.figures import MUTED
from obygaze_models.protocols.runner.records import Record
from obygaze_models.report.figure import BASELINE, MODEL, WRONG, FigureSet
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

N_COLUMNS = 3


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
    if metrics := [
        metric for metric in known if any(metric in cell for cell in run.cells)
    ]:
        rows = run.rows_by_pair(
            run.cells, lambda cell: [Number(number_of(cell, m).value) for m in metrics]
        )
        yield make_table(
            "further", "other", rows, [metric_name(metric) for metric in metrics]
        )
    if tuned := list(
        dict.fromkeys(m for cell in run.cells for m in cell.get("tuned") or ())
    ):
        rows = run.rows_by_pair(run.cells, at_thresholds)
        headers = [
            f"{metric_name(m)}{end}"
            for m in tuned
            for end in ("", ", chosen threshold")
        ]
        yield make_table("thresholds", "thresholds", rows, headers)
    if cells := [cell for cell in run.cells if cell.get("recalibrated")]:
        rows = run.rows_by_pair(cells, recalibration)
        yield make_table("recalibration", "recalibration", rows)


def draw_calibration(run: ReportRun, figures: FigureSet) -> None:
    """Draw the calibration of each cell in a small panel, in one figure per store."""
    found = [cell for cell in run.cells if cell["feature"] and cell.get("calibration")]
    for store, cells in grouped(found, lambda cell: cell["feature"]).items():
        n_rows = math.ceil(len(cells) / N_COLUMNS)
        layout = {"nrows": n_rows, "ncols": N_COLUMNS, "squeeze": False}
        key = f"calibration-{slug(store)}"
        height = 0.1 + 1.25 * n_rows
        with figures.draw("calibration", key, height, layout, feature=store) as (
            _,
            grid,
        ):
            for axes, cell in zip_longest(grid.flat, cells):
                if cell is None:
                    axes.axis("off")
                    continue
                _draw_bins(axes, cell)
                name = textwrap.shorten(cell["model"], 20, placeholder="…")
                title = f"{name}\n{pair_name(*pair_of(cell))}"
                axes.set_title(title, fontsize=6.5, fontweight="normal", loc="center")


def _draw_bins(axes: Any, cell: Record) -> None:
    """Draw the share of positive clips for each predicted probability."""
    bins = [found for found in cell["calibration"] if found["n"]]
    scores = [b["score"] for b in bins]
    shares = [b["share"] for b in bins]
    total = max(sum(found["n"] for found in bins), 1)
    sizes = [6 + 70 * found["n"] / total for found in bins]
    axes.plot([0, 1], [0, 1], color=MUTED, lw=0.7, ls=(0, (3, 3)))
    axes.plot(scores, shares, color=BASELINE, lw=1, zorder=1)
    axes.scatter(scores, shares, s=sizes, color=MODEL, alpha=0.85, lw=0, zorder=2)
    again = [
        b for b in (cell.get("recalibrated") or {}).get("calibration", ()) if b["n"]
    ]
    axes.plot(
        [b["score"] for b in again],
        [b["share"] for b in again],
        color=WRONG,
        lw=1,
        zorder=1,
    )
    axes.set(xlim=(-0.06, 1.06), ylim=(-0.06, 1.06))
    axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"], fontsize=6.5)
    axes.set_yticks([0, 0.5, 1], ["0", ".5", "1"], fontsize=6.5)
