"""The films of a run: levels and concepts, values of each film, clips in order, surest errors."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

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
from obygaze_features.manifest.model import Clip, clock
from obygaze_features.manifest.stats import compute_stats
from obygaze_models.protocols.runner.records import PREDICTIONS_FILE, Record
from obygaze_models.report.figure import MODEL, WRONG, FigureSet, hide_ticks
from obygaze_models.report.lookup import (
    ReportRun,
    film_value,
    grouped,
    metric_name,
    pair_name,
    pair_of,
    rank_of,
)
from obygaze_models.report.tables import Heading, Number, Part, Row, make_table, slug

MAX_ERRORS = 10
FILMS_PER_FIGURE = 12
UNKNOWN_LEVEL = "#f6f5f1"
TIME, SCENE, NUMBER = "start (h:mm:ss)", "scene", "number of the clip"


class ClipScore(NamedTuple):
    """The mean score of a model for a clip, from 0 to 1, and whether it decided correctly."""

    score: float
    correct: bool


class Timeline(NamedTuple):
    """One film: its clips in order, where each is in the film, and its scores by model."""

    film: str
    clips: Sequence[Clip]
    places: Sequence[str]
    models: Mapping[str, Sequence[ClipScore | None]]

    @property
    def levels(self) -> list[str]:
        """The annotation level of each clip."""
        return [clip.level for clip in self.clips]


def timelines(run: ReportRun) -> tuple[tuple[str, str], list[Timeline]]:
    """Return the pair of tasks with most clips and its timelines, empty without predictions."""
    if not run.cells or not (run.folder / PREDICTIONS_FILE).is_file() or not run.predictions:
        return ("", ""), []
    sizes = {pair_of(cell): cell["n_test"] for cell in run.cells}
    # If equal, one whose train and test tasks are the same.
    pair = max(run.pairs, key=lambda pair: (sizes[pair], pair[0] == pair[1]))
    return pair, timelines_of(run, pair)


def clip_tables(run: ReportRun) -> Part:
    """Yield the surest errors of each model of the timelines, then every clip of them."""
    pair, films = timelines(run)
    if not films or not any(film.models for film in films):
        return
    unit = place_unit([clip for film in films for clip in film.clips])
    rows: list[Row | Heading] = []
    for model in films[0].models:
        rows += [Heading(model), *_surest_errors(run, films, model)]
    name = pair_name(*pair)
    yield make_table("errors", "surest-errors", rows, unit=unit, pair=name, most=MAX_ERRORS)
    rows = []
    for film in films:
        rows.append(Heading(run.film_name(film.film)))
        rows += [
            (clip.clip_id, place, clip.level or None, *map(_decision, scores))
            for clip, place, *scores in zip(
                film.clips, film.places, *film.models.values(), strict=True
            )
            if any(scores)
        ]
    yield make_table("clips", "clips", rows, list(films[0].models), unit=unit, pair=name)


def _surest_errors(run: ReportRun, films: Sequence[Timeline], model: str) -> Iterable[Row]:
    wrong = [
        (abs(score.score - 0.5), film.film, place, clip, score)
        for film in films
        for clip, place, score in zip(film.clips, film.places, film.models[model], strict=True)
        if score is not None and not score.correct
    ]
    for _, film, place, clip, score in sorted(wrong, key=lambda one: (-one[0], one[3].clip_id))[
        :MAX_ERRORS
    ]:
        concepts = ", ".join(clip.concepts) or None
        yield run.film_name(film), clip.clip_id, place, clip.level, concepts, Number(score.score)


def _decision(score: ClipScore | None) -> str | None:
    if score is None:
        return None
    return f"{score.score:.2f} {'correct' if score.correct else 'wrong'}"


def timelines_of(run: ReportRun, pair: tuple[str, str]) -> list[Timeline]:
    """Return the timeline of each film for a pair of tasks: the best model of each store."""
    rows = [row for row in run.predictions if pair_of(row) == pair]
    scores = {
        f"{cell['model']} ({cell['feature']})": clip_scores(
            [r for r in rows if (r["model"], r["feature"]) == (cell["model"], cell["feature"])]
        )
        for cell in _best_cells(run, pair)
    }
    in_order = _clips_in_order(run, rows)
    unit = place_unit(in_order)
    films = grouped(in_order, lambda clip: clip.movie_id)
    return [
        Timeline(
            film,
            clips,
            [_place(clip, unit, number) for number, clip in enumerate(clips, 1)],
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
    if run.manifest is not None:
        clips = list(run.manifest)
        if place_unit(clips) == TIME:
            return sorted(clips, key=lambda clip: (clip.movie_id, _start_s(clip) or 0.0))
        return sorted(clips, key=lambda clip: (clip.movie_id, clip.scene or 0))
    tested = {row["clip_id"]: row for row in rows}
    return [
        Clip(clip_id=clip_id, movie_id=row["movie_id"], level="S" if row["y"] == 1 else "EN")
        for clip_id, row in sorted(tested.items())
    ]


def place_unit(clips: Sequence[Clip]) -> str:
    """Return what places the clips in their films: time, scene or number of the clip."""
    starts = [_start_s(clip) for clip in clips]
    if None not in starts and len(set(starts)) > 1:
        return TIME
    return SCENE if clips and all(clip.scene is not None for clip in clips) else NUMBER


def _start_s(clip: Clip) -> float | None:
    """Return the start in the film if the manifest has it, else the start in the video."""
    in_film = clip.extra.get("film_start_s")
    return float(in_film) if in_film else clip.start_s


def _place(clip: Clip, unit: str, number: int) -> str:
    if unit == TIME:
        return clock(_start_s(clip) or 0.0)
    return str(clip.scene if unit == SCENE else number)


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
