"""Figures of results: intervals of models and baselines, factors of success, decisions."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from obygaze_features.core.figures import INK, MUTED, PALE, draw_grid, label_rows
from obygaze_models.protocols.runner.records import Record
from obygaze_models.report.figure import (
    BASELINE,
    MODEL,
    WRONG,
    FigureSet,
    draw_reference,
    hide_ticks,
)
from obygaze_models.report.lookup import (
    ReportRun,
    chance_of,
    factor_names,
    grouped,
    is_one_film,
    merged_baselines,
    metric_name,
    number_of,
    pair_name,
    pair_of,
    rank_of,
)
from obygaze_models.report.tables import slug

MAX_ROWS, MAX_COLUMNS = 12, 6


def draw_intervals(run: ReportRun, figures: FigureSet) -> None:
    """Draw the primary metric with its interval over films; baselines are below the models."""
    rows: list[tuple[str, Record | None]] = []
    if run.is_own_test:
        for name, cells in grouped(run.cells, run.label).items():
            cells.sort(key=lambda cell: -rank_of(cell, run.primary))
            rows += [(name, None), *((f"{cell['test']}  ", cell) for cell in cells)]
        size = 7.2, 0.95 + 0.22 * len(rows)
        with figures.draw("intervals_by_task", "intervals", size) as (_, axes):
            _draw_rows(axes, rows, run, ticks=True)
        return
    for test, cells in grouped(run.cells, lambda cell: cell["test"]).items():
        rows = []
        for train, own in grouped(cells, lambda cell: cell["train"]).items():
            rows += [(f"trained on {train}", None), *((run.label(cell), cell) for cell in own)]
        baselines = merged_baselines([r for r in run.baselines if r["test"] == test])
        rows += [("baselines without features", None)] if baselines else []
        rows += [(_short(names, trains), record) for names, trains, record in baselines]
        size = 7.2, 0.95 + 0.19 * len(rows)
        with figures.draw("intervals", f"intervals-{slug(test)}", size, test=test) as (_, axes):
            _draw_rows(axes, rows, run)
            axes.set_title(f"Tested on {test}")


def _short(names: Sequence[str], trains: str) -> str:
    few = len(names) < 3
    shown = ", ".join(names) if few else f"{names[0]} and {len(names) - 1} more"
    return shown if trains == "any task" else f"{shown} · {trains}"


def _draw_rows(
    axes: Any, rows: Sequence[tuple[str, Record | None]], run: ReportRun, *, ticks: bool = False
) -> None:
    metric = run.primary
    label_rows(axes, [name for name, _ in rows], fontsize=7.5)
    for place, (_, record) in enumerate(rows):
        if record is None:
            axes.get_yticklabels()[place].set(fontweight="bold", color=MUTED)
            continue
        _draw_interval(axes, place, record, metric)
        if ticks:
            chance = chance_of(record, metric)
            axes.plot([chance, chance], [place - 0.32, place + 0.32], color=INK, lw=1)
    records = [record for _, record in rows if record]
    if not ticks and records and metric in ("ap", "auc"):
        draw_reference(axes, chance_of(records[0], metric))
    axes.set_xlim(-0.01, 1.01)
    draw_grid(axes)
    hide_ticks(axes, "left")
    axes.set_xlabel(f"{metric_name(metric)}, {run.confidence} interval over films", color=MUTED)


def _draw_interval(axes: Any, place: int, record: Record, metric: str) -> None:
    number = number_of(record, metric)
    if number.value is None:
        return
    color = WRONG if record["leaked"] else MODEL if record["kind"] == "cell" else BASELINE
    if number.interval:
        axes.plot([number.low, number.high], [place, place], color=color, lw=1.7, alpha=0.75)
    face = "white" if record.get("ceiling") else color
    axes.scatter(number.value, place, s=24, color=face, edgecolor=color, zorder=3)


def draw_factors(run: ReportRun, figures: FigureSet) -> None:
    """Draw the log odds of success for each factor, all films and each (Figure 6 of the paper)."""
    for (model, feature, train, test), analyses in run.analyses.items():
        if names := factor_names(analyses):
            key = f"factors-{slug(f'{model}-{feature}-{train}-{test}')}"
            size = 7.2, 1.0 + 0.26 * len(names)
            limit = _limit(analyses)
            films = [f["log_odds"] for r in analyses if is_one_film(r) for f in r["factors"]]
            n_beyond = sum(abs(value) > limit for value in films)
            beyond = f" Triangles at the edge: {n_beyond} of {len(films)} dots are outside."
            cut = beyond if n_beyond else ""
            with figures.draw("factors", key, size, model=model, beyond=cut) as (_, axes):
                for record in analyses:
                    _draw_analysis(axes, record, names, limit)
                draw_reference(axes, 0)
                label_rows(axes, names)
                axes.set_xlim(-1.04 * limit, 1.04 * limit)
                hide_ticks(axes, "left")
                axes.set_xlabel("log odds of success", color=MUTED)
                axes.set_title(f"{model} ({feature}), {pair_name(train, test)}")


def _draw_analysis(axes: Any, record: Record, names: Sequence[str], limit: float) -> None:
    """Draw the factors of one film or of all; beyond the limit is a triangle at the edge."""
    for factor in record["factors"]:
        place, low, high = names.index(factor["name"]), factor["low"], factor["high"]
        value = factor["log_odds"]
        marker = "o" if abs(value) <= limit else ">" if value > 0 else "<"
        at = min(max(value, -limit), limit)
        if is_one_film(record):
            style = {"s": 14, "color": BASELINE, "alpha": 0.7, "lw": 0, "zorder": 1}
            axes.scatter(at, place, marker=marker, **style)
        elif low is not None and high is not None:
            axes.plot([low, high], [place, place], color=MODEL, lw=1.8, zorder=2)
            axes.scatter(at, place, marker=marker, s=28, color=MODEL, zorder=3)


def _limit(analyses: Sequence[Record]) -> float:
    """Return the end of the axis: it shows the intervals of all films, not all single films."""
    shown = [record for record in analyses if not is_one_film(record)] or analyses
    ends = [f[end] for record in shown for f in record["factors"] for end in ("low", "high")]
    largest = max((abs(end) for end in ends if end is not None), default=2.0)
    return float(min(max(1.15 * largest, 1.0), 12.0))


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
    axes.plot(scores, shares, color=PALE, lw=1.2, zorder=1)
    axes.scatter(scores, shares, s=sizes, color=MODEL, alpha=0.85, lw=0, zorder=2)
    again = [b for b in (cell.get("recalibrated") or {}).get("calibration", ()) if b["n"]]
    axes.plot([b["score"] for b in again], [b["share"] for b in again], color=WRONG, lw=1, zorder=1)
    axes.set(xlim=(-0.06, 1.06), ylim=(-0.06, 1.06))
    axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"], fontsize=6.5)
    axes.set_yticks([0, 0.5, 1], ["0", ".5", "1"], fontsize=6.5)


FIGURES = (draw_intervals, draw_factors, draw_confusion, draw_calibration)
