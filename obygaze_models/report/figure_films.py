"""Figures by film: levels and concepts of the clips, values of each film, and timelines."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from obygaze_features.core.figures import (
    LEVEL_COLORS,
    LEVEL_NAMES,
    MUTED,
    PALE,
    draw_bars,
    label_rows,
    spread_dots,
)
from obygaze_features.manifest.figures import draw_panels, stats_layout
from obygaze_features.manifest.stats import compute_stats
from obygaze_models.report.figure import (
    MODEL,
    WRONG,
    FigureSet,
    hide_ticks,
)
from obygaze_models.report.lookup import ReportRun, film_value, grouped, metric_name, pair_name
from obygaze_models.report.tables import slug
from obygaze_models.report.timelines import Timeline, place_unit, timelines

FILMS_PER_FIGURE = 12
UNKNOWN_LEVEL = "#f6f5f1"


def draw_levels(run: ReportRun, figures: FigureSet) -> None:
    """Draw levels and concepts (Figure 2 of the paper), if the manifest has not changed."""
    manifest = run.manifest
    if manifest is not None and any(clip.level for clip in manifest):
        stats = compute_stats(manifest)
        (_, height), layout = stats_layout(stats)
        with figures.draw("levels", "clips", height, layout) as (_, axes):
            draw_panels(axes, stats)


def draw_films(run: ReportRun, figures: FigureSet) -> None:
    """Draw the primary metric by film for each test task: how much films differ."""
    metric, height = run.primary, 0.6 + 0.2 * len(run.films)
    for test, cells in grouped(run.cells, lambda cell: cell["test"]).items():
        if len(run.films) < 2:
            return
        with figures.draw("films", f"films-{slug(test)}", height, test=test) as (_, axes):
            for row, film in enumerate(run.films):
                _draw_film_row(axes, row, [film_value(cell, film, metric) for cell in cells])
            axes.set_xlim(-0.03, 1.03)
            axes.set_xlabel(metric_name(metric), color=MUTED)
            hide_ticks(axes, "left")
            label_rows(axes, [run.film_name(film) for film in run.films], fontsize=7.5)


def _draw_film_row(axes: Any, row: int, values: Sequence[float | None]) -> None:
    known = [value for value in values if value is not None]
    if known:
        axes.plot([min(known), max(known)], [row, row], color=PALE, lw=4, zorder=0)
        moved = spread_dots(known, 0.02)
        step = min(0.2, 0.35 / max(map(abs, moved), default=1) if any(moved) else 0.2)
        rows = [row + step * offset for offset in moved]
        axes.scatter(known, rows, s=12, color=MODEL, alpha=0.6, lw=0)


def draw_timelines(run: ReportRun, figures: FigureSet) -> None:
    """Draw films in the order of their clips: annotation levels above, predictions below."""
    pair, found = timelines(run)
    unit = place_unit([clip for timeline in found for clip in timeline.clips])
    for start in range(0, len(found), FILMS_PER_FIGURE):
        shown = found[start : start + FILMS_PER_FIGURE]
        many = len(found) > FILMS_PER_FIGURE
        key = f"timelines-{start // FILMS_PER_FIGURE + 1}" if many else "timelines"
        models = dict.fromkeys(name for timeline in shown for name in timeline.models)
        names = {"models": ", ".join(models), "pair": pair_name(*pair), "unit": unit}
        height = 0.3 + len(shown) * (0.3 + 0.2 * max(len(film.models) for film in shown))
        layout = {"nrows": len(shown), "squeeze": False}
        with figures.draw("timelines", key, height, layout, **names) as (figure, grid):
            longest = max(len(timeline.levels) for timeline in shown)
            for axes, timeline in zip(grid[:, 0], shown, strict=True):
                _draw_timeline(axes, timeline, run.film_name(timeline.film), longest)
            _draw_legend(figure, {level for timeline in shown for level in timeline.levels})


def _draw_timeline(axes: Any, timeline: Timeline, name: str, longest: int) -> None:
    colors = [LEVEL_COLORS.get(level, UNKNOWN_LEVEL) for level in timeline.levels]
    draw_bars(axes, range(len(colors)), [0.5] * len(colors), colors, bottom=-0.5)
    for row, scores in enumerate(timeline.models.values()):
        bottom = -1.7 - 1.2 * row
        ends = [-0.5, len(timeline.clips) - 0.5]
        axes.plot(ends, [bottom + 0.5] * 2, color=MUTED, lw=0.3, ls=(0, (2, 3)), zorder=0)
        known = {place: score for place, score in enumerate(scores) if score is not None}
        colors = [MODEL if score.correct else WRONG for score in known.values()]
        heights = [max(score.score, 0.04) for score in known.values()]
        draw_bars(axes, known, [1.0] * len(known), PALE, bottom=bottom, zorder=-1)
        draw_bars(axes, known, heights, colors, bottom=bottom, width=0.9)
    places = [-1.2 - 1.2 * row for row in range(len(timeline.models))]
    axes.set_yticks(places, [textwrap.fill(name, 18) for name in timeline.models], fontsize=4.5)
    axes.set_title(name, fontsize=5.5, pad=1)
    axes.set_ylim(-0.55 - 1.2 * max(len(timeline.models), 1), 0.05)
    axes.set_xlim(-0.6, longest - 0.4)
    step = next((n for n in (1, 2, 5, 10, 20, 50, 100, 200) if n * 12 >= longest), longest)
    ticks = range(0, len(timeline.places), step)
    axes.set_xticks(ticks, [timeline.places[i] for i in ticks], fontsize=4, color=MUTED)
    hide_ticks(axes)
    axes.tick_params(axis="x", pad=1)


def _draw_legend(figure: Any, levels: set[str]) -> None:
    from matplotlib.patches import Patch

    used = [level for level in LEVEL_COLORS if level in levels]
    entries = {f"{level} {LEVEL_NAMES[level]}": LEVEL_COLORS[level] for level in used}
    entries |= {"correct": MODEL, "wrong": WRONG}
    handles = [Patch(color=color, label=label) for label, color in entries.items()]
    style = {"fontsize": 5, "handlelength": 1, "columnspacing": 1, "borderpad": 0}
    figure.legend(handles=handles, loc="outside upper left", ncols=3, **style)


FIGURES = (draw_levels, draw_films, draw_timelines)
