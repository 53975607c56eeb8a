"""Figures by film: levels and concepts of the clips, values of each film, and timelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.figures import (
    LEVEL_COLORS,
    LEVEL_NAMES,
    MUTED,
    PALE,
    label_rows,
    spread_dots,
)
from obygaze_features.manifest.io import manifest_sha256, read_manifest
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.manifest.stats import compute_stats, draw_stats
from obygaze_models.protocols.runner.records import PREDICTIONS_FILE, Record
from obygaze_models.report.figure import (
    MODEL,
    WRONG,
    FigureSet,
    hide_ticks,
)
from obygaze_models.report.lookup import (
    ReportRun,
    film_value,
    grouped,
    metric_name,
    pair_name,
    pair_of,
    rank_of,
)

FILMS_PER_FIGURE = 12
MAX_TESTS = 4
UNKNOWN_LEVEL = "#f6f5f1"


def draw_levels(run: ReportRun, figures: FigureSet) -> None:
    """Draw levels and concepts (Figure 2 of the paper), if the manifest has not changed."""
    manifest = manifest_of(run)
    if manifest is not None and any(clip.level for clip in manifest):
        svg, png = draw_stats(compute_stats(manifest), figures.folder / "clips", "")
        figures.add("levels", "clips", svg, png)


def manifest_of(run: ReportRun) -> Manifest | None:
    """Return the manifest of a run in its view; None if it was moved or changed since."""
    about = run.about["manifest"]
    try:
        found = read_manifest(Path(about["path"]))
        if manifest_sha256(found) != about["sha256"]:
            return None
        return found.view(about["view"])
    except (ObygazeError, OSError):
        return None


def draw_films(run: ReportRun, figures: FigureSet) -> None:
    """Draw the primary metric by film, a panel per test task: how much films differ."""
    films, metric = run.films, run.primary
    if len(films) < 2:
        return
    tests = list(grouped(run.cells, lambda cell: cell["test"]).items())[:MAX_TESTS]
    layout = {"ncols": len(tests), "sharey": True, "sharex": True, "squeeze": False}
    size = 7.2, 1.0 + 0.2 * len(films)
    with figures.draw("films", "films", size, layout) as (_, grid):
        for axes, (test, cells) in zip(grid[0], tests, strict=True):
            for row, film in enumerate(films):
                _draw_film_row(axes, row, [film_value(cell, film, metric) for cell in cells])
            axes.set_title(test, fontsize=9)
            axes.set_xlabel(metric_name(metric), color=MUTED)
            hide_ticks(axes, "left")
        label_rows(grid[0, 0], films)
        grid[0, 0].set_xlim(-0.03, 1.03)


def _draw_film_row(axes: Any, row: int, values: Sequence[float | None]) -> None:
    known = [value for value in values if value is not None]
    if known:
        axes.plot([min(known), max(known)], [row, row], color=PALE, lw=4, zorder=0)
        moved = spread_dots(known, 0.02)
        step = min(0.2, 0.35 / max(map(abs, moved), default=1) if any(moved) else 0.2)
        rows = [row + step * offset for offset in moved]
        axes.scatter(known, rows, s=16, color=MODEL, alpha=0.6, lw=0)


class ClipScore(NamedTuple):
    """The mean score of a model for a clip, from 0 to 1, and whether it decided correctly."""

    score: float
    correct: bool


class Timeline(NamedTuple):
    """One film: the level of each clip in order, and the score of each clip by model."""

    film: str
    levels: Sequence[str]
    models: Mapping[str, Sequence[ClipScore | None]]


def draw_timelines(run: ReportRun, figures: FigureSet) -> None:
    """Draw films in the order of their clips: annotation levels above, predictions below."""
    if not run.cells or not (run.folder / PREDICTIONS_FILE).is_file() or not run.predictions:
        return
    sizes = {pair_of(cell): cell["n_test"] for cell in run.cells}
    # The pair with most clips; if equal, one whose train and test tasks are the same.
    pair = max(run.pairs, key=lambda pair: (sizes[pair], pair[0] == pair[1]))
    timelines = timelines_of(run, pair)
    for start in range(0, len(timelines), FILMS_PER_FIGURE):
        shown = timelines[start : start + FILMS_PER_FIGURE]
        many = len(timelines) > FILMS_PER_FIGURE
        key = f"timelines-{start // FILMS_PER_FIGURE + 1}" if many else "timelines"
        models = dict.fromkeys(name for timeline in shown for name in timeline.models)
        names = {"models": ", ".join(models), "pair": pair_name(*pair)}
        rows = max(len(timeline.models) for timeline in shown)
        size = 7.6, 0.55 + len(shown) * (0.3 + 0.3 * rows)
        layout = {"nrows": len(shown), "squeeze": False}
        with figures.draw("timelines", key, size, layout, **names) as (_, grid):
            longest = max(len(timeline.levels) for timeline in shown)
            for axes, timeline in zip(grid[:, 0], shown, strict=True):
                _draw_timeline(axes, timeline, longest)
            _draw_legend(grid[0, 0], {level for timeline in shown for level in timeline.levels})


def _draw_timeline(axes: Any, timeline: Timeline, longest: int) -> None:
    colors = [LEVEL_COLORS.get(level, UNKNOWN_LEVEL) for level in timeline.levels]
    axes.bar(range(len(colors)), 0.5, bottom=-0.5, width=1.0, color=colors, lw=0)
    for row, scores in enumerate(timeline.models.values()):
        bottom = -1.7 - 1.2 * row
        axes.axhline(bottom + 0.5, color=MUTED, lw=0.4, ls=(0, (2, 3)), zorder=0)
        known = {place: score for place, score in enumerate(scores) if score is not None}
        colors = [MODEL if score.correct else WRONG for score in known.values()]
        heights = [max(score.score, 0.04) for score in known.values()]
        axes.bar(list(known), 1.0, bottom=bottom, width=1.0, color=PALE, lw=0, zorder=-1)
        axes.bar(list(known), heights, bottom=bottom, width=0.9, color=colors, lw=0)
    places = [-0.25, *(-1.2 - 1.2 * row for row in range(len(timeline.models)))]
    axes.set_yticks(places, [timeline.film, *timeline.models], fontsize=6.5)
    axes.get_yticklabels()[0].set(fontweight="bold", fontsize=7.5)
    axes.set_ylim(-0.55 - 1.2 * max(len(timeline.models), 1), 0.05)
    axes.set(xlim=(-0.6, longest - 0.4), xticks=[])
    hide_ticks(axes)


def _draw_legend(axes: Any, levels: set[str]) -> None:
    from matplotlib.patches import Patch

    used = [level for level in LEVEL_COLORS if level in levels]
    entries = {f"{level} {LEVEL_NAMES[level]}": LEVEL_COLORS[level] for level in used}
    entries |= {"correct": MODEL, "wrong": WRONG}
    axes.legend(
        handles=[Patch(color=color, label=label) for label, color in entries.items()],
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=6,
        fontsize=7,
        handlelength=1,
        columnspacing=1.2,
        borderpad=0,
    )


def timelines_of(run: ReportRun, pair: tuple[str, str]) -> list[Timeline]:
    """Return the timeline of each film for a pair of tasks: the best model of each store."""
    rows = [row for row in run.predictions if pair_of(row) == pair]
    scores = {
        f"{cell['model']} ({cell['feature']})": clip_scores(
            [r for r in rows if (r["model"], r["feature"]) == (cell["model"], cell["feature"])]
        )
        for cell in _best_cells(run, pair)
    }
    films = grouped(_clips_in_order(run, rows), lambda clip: clip.movie_id)
    return [
        Timeline(
            film,
            [clip.level for clip in clips],
            {name: [own.get(clip.clip_id) for clip in clips] for name, own in scores.items()},
        )
        for film, clips in sorted(films.items())
        if any(clip.clip_id in own for own in scores.values() for clip in clips)
    ]


def _best_cells(run: ReportRun, pair: tuple[str, str]) -> list[Record]:
    """Return the cell with the best primary metric on each store."""
    cells = [cell for cell in run.cells if pair_of(cell) == pair and cell["feature"]]
    by_store = grouped(cells, lambda cell: cell["feature"])
    own = [by_store[store] for store in run.stores if store in by_store]
    return [max(some, key=lambda cell: rank_of(cell, run.primary)) for some in own]


def _clips_in_order(run: ReportRun, rows: Sequence[Record]) -> list[Clip]:
    """Return the clips of the manifest in film order; without it, the tested clips by id."""
    manifest = manifest_of(run)
    if manifest is not None:
        clips = list(manifest)
        if all(clip.start_s is not None for clip in clips):
            return sorted(clips, key=lambda clip: (clip.movie_id, clip.start_s or 0.0))
        return sorted(clips, key=lambda clip: (clip.movie_id, clip.scene or 0))
    tested = {row["clip_id"]: row for row in rows}
    return [
        Clip(clip_id=clip_id, movie_id=row["movie_id"], level="S" if row["y"] == 1 else "EN")
        for clip_id, row in sorted(tested.items())
    ]


def clip_scores(rows: Sequence[Record]) -> dict[str, ClipScore]:
    """Return the mean score and the majority decision of each clip over the fits that tested it.

    Margins are scaled so that 0 becomes 0.5, the middle of the strip.
    """
    by_clip = grouped(rows, lambda row: row["clip_id"])
    means = {clip: fmean(row["score"] for row in own) for clip, own in by_clip.items()}
    if not all(0 <= mean <= 1 for mean in means.values()):
        largest = max(map(abs, means.values()))
        means = {clip: 0.5 + mean / (2 * largest) for clip, mean in means.items()}
    return {
        clip: ClipScore(means[clip], 2 * sum(r["decision"] == r["y"] for r in own) >= len(own))
        for clip, own in by_clip.items()
    }


FIGURES = (draw_levels, draw_films, draw_timelines)
