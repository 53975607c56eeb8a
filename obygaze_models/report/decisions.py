"""Decisions and probabilities: calibration, chosen thresholds, further metrics."""

import math
import textwrap
from collections.abc import Iterable
from itertools import chain, zip_longest
from typing import Any

from obygaze_features.core.figures import MUTED
from obygaze_models.protocols.results.cells import CellRecord
from obygaze_models.report.figure import BASELINE, MODEL, WRONG, FigureSet
from obygaze_models.report.lookup import (
    ReportRun,
    grouped,
    metric_name,
    metric_of,
    pair_name,
)
from obygaze_models.report.tables import Number, Part, make_table, report_text, slug

N_COLUMNS = 3


def decisions(run: ReportRun) -> Part:
    """Yield the metrics that the results do not show, chosen thresholds, and recalibration."""

    def values(cell: CellRecord) -> list[Number]:
        return [Number(metric_of(cell, metric).value) for metric in metrics]

    def at_thresholds(cell: CellRecord) -> Iterable[Number]:
        for metric in tuned:
            at_chosen = (cell.tuned or {}).get(metric)
            yield Number(metric_of(cell, metric).value)
            yield Number(at_chosen.value if at_chosen else None)

    in_cells = set(chain.from_iterable(cell.metrics for cell in run.cells))
    in_cells -= set(run.shown_metrics)
    metrics = [metric for metric in report_text()["metrics"] if metric in in_cells]
    if metrics:
        rows = run.rows_by_pair(run.cells, values)
        headers = [metric_name(metric) for metric in metrics]
        yield make_table("further", "other", rows, headers)
    all_tuned = chain.from_iterable(cell.tuned or () for cell in run.cells)
    tuned = list(dict.fromkeys(all_tuned))
    if tuned:
        rows = run.rows_by_pair(run.cells, at_thresholds)
        headers = []
        for metric in tuned:
            name = metric_name(metric)
            headers += [name, f"{name}, chosen threshold"]
        yield make_table("thresholds", "thresholds", rows, headers)
    recalibrated = [cell for cell in run.cells if cell.recalibrated]
    if recalibrated:
        rows = run.rows_by_pair(recalibrated, _recalibration)
        yield make_table("recalibration", "recalibration", rows)


def _recalibration(cell: CellRecord) -> Iterable[Number]:
    """Yield each error of the probabilities before and after they were calibrated again."""
    again = cell.recalibrated.metrics if cell.recalibrated else {}
    for metric in ("brier", "ece"):
        yield Number(metric_of(cell, metric).value, digits=3)
        yield Number(again.get(metric), digits=3)


def draw_calibration(run: ReportRun, figures: FigureSet) -> None:
    """Draw the calibration of each cell in a small panel, in one figure per store."""
    calibrated = [cell for cell in run.cells if cell.feature and cell.calibration]
    for store, cells in grouped(calibrated, lambda cell: cell.feature).items():
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
                name = textwrap.shorten(cell.model, 20, placeholder="…")
                title = f"{name}\n{pair_name(*cell.pair)}"
                axes.set_title(title, fontsize=6.5, fontweight="normal", loc="center")


def _draw_bins(axes: Any, cell: CellRecord) -> None:
    """Draw the share of positive clips for each predicted probability."""
    bins = [score_bin for score_bin in cell.calibration or () if score_bin.n]
    scores = [score_bin.score for score_bin in bins]
    shares = [score_bin.share for score_bin in bins]
    total = max(sum(score_bin.n for score_bin in bins), 1)
    sizes = [6 + 70 * score_bin.n / total for score_bin in bins]
    axes.plot([0, 1], [0, 1], color=MUTED, lw=0.7, ls=(0, (3, 3)))
    axes.plot(scores, shares, color=BASELINE, lw=1, zorder=1)
    axes.scatter(scores, shares, s=sizes, color=MODEL, alpha=0.85, lw=0, zorder=2)
    recalibrated = cell.recalibrated.calibration if cell.recalibrated else ()
    bins_again = [score_bin for score_bin in recalibrated if score_bin.n]
    scores_again = [score_bin.score for score_bin in bins_again]
    shares_again = [score_bin.share for score_bin in bins_again]
    axes.plot(scores_again, shares_again, color=WRONG, lw=1, zorder=1)
    axes.set(xlim=(-0.06, 1.06), ylim=(-0.06, 1.06))
    axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"], fontsize=6.5)
    axes.set_yticks([0, 0.5, 1], ["0", ".5", "1"], fontsize=6.5)
