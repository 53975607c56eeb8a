"""The films of a run: the metric by film, clips in their order, surest errors."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean
from typing import Any, NamedTuple

from obygaze_features.core.figures import (
    LEVEL_COLORS,
    MUTED,
    PALE,
    draw_bars,
)
from obygaze_features.manifest.model import Clip, clock
from obygaze_features.manifest.times import span_in_file, span_in_film
from obygaze_models.protocols.results.cells import CellRecord
from obygaze_models.protocols.runner.records import (
    FILM,
    PREDICTIONS_FILE,
    group_column,
)
from obygaze_models.report.figure import (
    MODEL,
    UNKNOWN_LEVEL,
    WRONG,
    FigureSet,
    draw_legend,
    hide_ticks,
)
from obygaze_models.report.lookup import (
    ReportRun,
    film_value,
    grouped,
    metric_name,
    pair_name,
    rank_of,
)
from obygaze_models.report.tables import Heading, Number, Part, Row, make_table

MAX_ERRORS = 10
FILMS_PER_FIGURE = 12
# A page with more films than this takes minutes to draw, and no browser shows it.
MAX_FILMS = 60
TIME = "start (h:mm:ss)"
SCENE = "scene"
NUMBER = "number of the clip"
MAX_OPEN_ROWS = 12

MAX_FILM_COLUMNS = 6
# A row of predictions.csv.
Prediction = Mapping[str, Any]


class ClipScore(NamedTuple):
    """The mean score of a model for a clip, from 0 to 1, and whether it decided correctly."""

    score: float
    correct: bool


class Bar(NamedTuple):
    """A clip, where it is in its film, and the score of each model that tested it."""

    clip: Clip
    position: str
    scores: Mapping[str, ClipScore]


class Timelines(NamedTuple):
    """The films of a pair of tasks, the clips of each in order, `unit` that of their positions."""

    pair: str
    unit: str
    models: Sequence[str]
    films: Mapping[str, Sequence[Bar]]

    def shown_films(self) -> dict[str, Sequence[Bar]]:
        """Return the films that a page shows: all, or of very many those with most errors."""
        if len(self.films) <= MAX_FILMS:
            return dict(self.films)
        n_wrong = {film: _n_wrong(bars) for film, bars in self.films.items()}
        by_errors = sorted(self.films, key=lambda film: (-n_wrong[film], film))
        shown = set(by_errors[:MAX_FILMS])
        return {film: bars for film, bars in self.films.items() if film in shown}

    def which_films(self) -> str:
        """Return the sentence that says which films a page shows; "" if it shows all."""
        if len(self.films) <= MAX_FILMS:
            return ""
        return (
            f" Of {len(self.films):,} films the {MAX_FILMS} with the most wrong decisions are "
            f"shown; {PREDICTIONS_FILE} of the run has all."
        )


def _n_wrong(bars: Sequence[Bar]) -> int:
    """Return the number of wrong decisions about the clips of a film, over all models."""
    n_wrong = 0
    for bar in bars:
        n_wrong += sum(not score.correct for score in bar.scores.values())
    return n_wrong


def timelines(run: ReportRun) -> Timelines | None:
    """Return the films for the pair of tasks with most clips, with the best model of each store.

    None without predictions.
    """
    if (
        not run.cells
        or not (run.folder / PREDICTIONS_FILE).is_file()
        or not run.predictions
    ):
        return None
    pair = _pair_with_most_clips(run)
    rows = [row for row in run.predictions if (row["train"], row["test"]) == pair]
    scores = _scores_of_best_models(run, pair, rows)
    clips = _clips_in_order(run, rows)
    unit = position_unit(clips)
    clips_by_film = grouped(clips, lambda clip: clip.movie_id)
    films = {}
    for film, film_clips in sorted(clips_by_film.items()):
        bars = _bars_of(film_clips, unit, scores)
        if any(bar.scores for bar in bars):
            films[film] = bars
    if not films:
        return None
    return Timelines(pair_name(*pair), unit, list(scores), films)


def _pair_with_most_clips(run: ReportRun) -> tuple[str, str]:
    """Return the pair of tasks with most clips; if equal, one that trains and tests the same."""
    largest = max(run.cells, key=lambda cell: (cell.n_test, cell.train == cell.test))
    return largest.pair


def _scores_of_best_models(
    run: ReportRun, pair: tuple[str, str], rows: Sequence[Prediction]
) -> dict[str, dict[str, ClipScore]]:
    """Return for the best model of each store the score of each clip that it tested."""
    scores = {}
    for store in run.stores:
        cells = [
            cell for cell in run.cells if cell.pair == pair and cell.feature == store
        ]
        if not cells:
            continue
        best = max(cells, key=lambda cell: rank_of(cell, run.primary))
        model = best.model
        rows_of_model = [
            row for row in rows if (row["model"], row["feature"]) == (model, store)
        ]
        scores[f"{model} ({store})"] = clip_scores(rows_of_model)
    return scores


def _bars_of(
    clips: Sequence[Clip], unit: str, scores: Mapping[str, Mapping[str, ClipScore]]
) -> list[Bar]:
    """Return the clips of a film with their positions and the scores of each model."""
    bars = []
    for number, clip in enumerate(clips, 1):
        clip_id = clip.clip_id
        scores_of_clip = {
            model: by_clip[clip_id]
            for model, by_clip in scores.items()
            if clip_id in by_clip
        }
        bars.append(Bar(clip, _position(clip, unit, number), scores_of_clip))
    return bars


def metric_by_film(run: ReportRun) -> Part:
    """Yield the primary metric by film: films are rows if there are few models, else columns."""
    metric = run.primary
    cells = run.cells
    if not run.films:
        return
    group = group_column(run.protocol)
    is_by_film = group == FILM
    names = {"metric": metric_name(metric), "group": "film" if is_by_film else group}

    def values_by_film(cell: CellRecord) -> list[Number]:
        return [Number(film_value(cell, film, metric)) for film in run.films]

    if len(cells) <= MAX_FILM_COLUMNS:
        headers = [f"{run.label(cell)}, {pair_name(*cell.pair)}" for cell in cells]
        by_film: list[Row] = []
        for film in run.films:
            values = [Number(film_value(cell, film, metric)) for cell in cells]
            if is_by_film:
                by_film.append((run.film_name(film), film, *values))
            else:
                by_film.append((film, *values))
        if is_by_film:
            headers = ["id", *headers]
        yield make_table("films", "films", by_film, headers, **names)
        return
    titles = [run.film_name(film) if is_by_film else film for film in run.films]
    rows = run.rows_by_pair(cells, values_by_film)
    table = make_table("models", "films", rows, titles, **names)
    yield replace(table, folded=len(cells) > MAX_OPEN_ROWS)


def clip_tables(run: ReportRun) -> Part:
    """Yield the surest errors of each model of the timelines, then every clip of them."""
    lines = timelines(run)
    if lines is None:
        return
    unit = lines.unit
    pair = lines.pair
    yield make_table(
        "errors",
        "surest-errors",
        _error_rows(run, lines),
        unit=unit,
        pair=pair,
        most=MAX_ERRORS,
    )
    yield make_table(
        "clips",
        "clips",
        _clip_rows(run, lines),
        lines.models,
        unit=unit,
        pair=pair,
        which=lines.which_films(),
    )


def _error_rows(run: ReportRun, lines: Timelines) -> list[Row | Heading]:
    """Return a row for each of the surest errors of each model."""
    rows: list[Row | Heading] = []
    for model, wrong in surest_errors(lines).items():
        rows.append(Heading(model))
        for bar in wrong:
            film = run.film_name(bar.clip.movie_id)
            concepts = ", ".join(bar.clip.concepts) or None
            score = Number(bar.scores[model].score)
            rows.append(
                (film, bar.clip.clip_id, bar.position, bar.clip.level, concepts, score)
            )
    return rows


def _clip_rows(run: ReportRun, lines: Timelines) -> list[Row | Heading]:
    """Return a row for each tested clip of the shown films, with the decision of each model."""
    rows: list[Row | Heading] = []
    for film, bars in lines.shown_films().items():
        rows.append(Heading(run.film_name(film)))
        for bar in bars:
            if not bar.scores:
                continue
            level = bar.clip.level or None
            decisions = (_decision(bar.scores.get(model)) for model in lines.models)
            rows.append((bar.clip.clip_id, bar.position, level, *decisions))
    return rows


def surest_errors(timelines: Timelines) -> dict[str, list[Bar]]:
    """Return for each model the clips that it is surest and wrong about, the surest first."""
    bars = list(chain.from_iterable(timelines.films.values()))
    errors = {}
    for model in timelines.models:
        errors[model] = _surest_errors_of(model, bars)
    return errors


def _surest_errors_of(model: str, bars: Sequence[Bar]) -> list[Bar]:
    """Return the clips that a model is surest and wrong about, the surest first."""
    wrong = [
        bar for bar in bars if model in bar.scores and not bar.scores[model].correct
    ]

    def order(bar: Bar) -> tuple[float, str]:
        return -abs(bar.scores[model].score - 0.5), bar.clip.clip_id

    wrong.sort(key=order)
    return wrong[:MAX_ERRORS]


def _decision(score: ClipScore | None) -> str | None:
    if score is None:
        return None
    verdict = "correct" if score.correct else "wrong"
    return f"{score.score:.2f} {verdict}"


def _clips_in_order(run: ReportRun, rows: Sequence[Prediction]) -> list[Clip]:
    """Return the clips of the manifest in film order; without it, the tested clips by id."""
    if run.manifest is not None:
        clips = list(run.manifest)
        if position_unit(clips) == TIME:
            return sorted(
                clips, key=lambda clip: (clip.movie_id, _start_s(clip) or 0.0)
            )
        return sorted(clips, key=lambda clip: (clip.movie_id, clip.scene or 0))
    tested = {row["clip_id"]: row for row in rows}
    clips = []
    for clip_id, row in sorted(tested.items()):
        level = "S" if row["y"] == 1 else "EN"
        clips.append(Clip(clip_id=clip_id, movie_id=row["movie_id"], level=level))
    return clips


def position_unit(clips: Sequence[Clip]) -> str:
    """Return the unit of positions of clips in their films: time, scene or number of the clip."""
    starts = [_start_s(clip) for clip in clips]
    if None not in starts and len(set(starts)) > 1:
        return TIME
    if clips and all(clip.scene is not None for clip in clips):
        return SCENE
    return NUMBER


def _start_s(clip: Clip) -> float | None:
    """Return the start in the film if the manifest has it, else the start in the video."""
    span = span_in_film(clip) or span_in_file(clip)
    return None if span is None else span[0]


def _position(clip: Clip, unit: str, number: int) -> str:
    if unit == TIME:
        return clock(_start_s(clip) or 0.0)
    if unit == SCENE:
        return str(clip.scene)
    return str(number)


def clip_scores(rows: Sequence[Prediction]) -> dict[str, ClipScore]:
    """Return the mean score of each clip over the fits that tested it, and its decision.

    A clip is called positive where its mean score is above the threshold, as in the analysis of
    errors. Margins are scaled so that 0 becomes 0.5, the middle of the strip.
    """
    by_clip = grouped(rows, lambda row: row["clip_id"])
    means = {}
    truth = {}
    for clip, rows_of_clip in by_clip.items():
        means[clip] = fmean(row["score"] for row in rows_of_clip)
        truth[clip] = bool(rows_of_clip[0]["y"])
    are_margins = any(_is_margin(row) for row in rows)
    threshold = 0.0 if are_margins else 0.5
    is_correct = {
        clip: (mean > threshold) == truth[clip] for clip, mean in means.items()
    }
    if are_margins:
        largest = max(map(abs, means.values())) or 1.0
        means = {clip: 0.5 + mean / (2 * largest) for clip, mean in means.items()}
    return {clip: ClipScore(mean, is_correct[clip]) for clip, mean in means.items()}


def _is_margin(row: Prediction) -> bool:
    """Return whether a score cannot be a probability, which is positive above one half."""
    score = row["score"]
    return not 0 <= score <= 1 or bool(row["decision"]) != (score > 0.5)


def draw_timelines(run: ReportRun, figures: FigureSet) -> None:
    """Draw films in the order of their clips: annotation levels above, predictions below."""
    lines = timelines(run)
    if lines is None:
        return
    names = {
        "models": ", ".join(lines.models),
        "pair": lines.pair,
        "unit": lines.unit,
        "which": lines.which_films(),
    }
    films = list(lines.shown_films().items())
    for start in range(0, len(films), FILMS_PER_FIGURE):
        shown = films[start : start + FILMS_PER_FIGURE]
        key = "timelines"
        if len(films) > FILMS_PER_FIGURE:
            key = f"timelines-{start // FILMS_PER_FIGURE + 1}"
        height = 0.3 + len(shown) * (0.3 + 0.2 * len(lines.models))
        layout = {"nrows": len(shown), "squeeze": False}
        with figures.draw("timelines", key, height, layout, **names) as (figure, grid):
            longest = max(len(bars) for _, bars in shown)
            levels: set[str] = set()
            for axes, (film, bars) in zip(grid[:, 0], shown, strict=True):
                _draw_timeline(axes, bars, lines.models, longest)
                axes.set_title(run.film_name(film), fontsize=5.5, pad=1)
                levels.update(bar.clip.level for bar in bars)
            draw_legend(figure, levels, {"correct": MODEL, "wrong": WRONG})


def _draw_timeline(
    axes: Any, bars: Sequence[Bar], models: Sequence[str], longest: int
) -> None:
    colors = [LEVEL_COLORS.get(bar.clip.level, UNKNOWN_LEVEL) for bar in bars]
    draw_bars(axes, range(len(bars)), [0.5] * len(bars), colors, bottom=-0.5)
    bottoms = [-1.7 - 1.2 * row for row in range(len(models))]
    for bottom, model in zip(bottoms, models, strict=True):
        ends = [-0.5, len(bars) - 0.5]
        axes.plot(
            ends, [bottom + 0.5] * 2, color=MUTED, lw=0.3, ls=(0, (2, 3)), zorder=0
        )
        known = {
            i: bar.scores[model] for i, bar in enumerate(bars) if model in bar.scores
        }
        colors = [MODEL if score.correct else WRONG for score in known.values()]
        heights = [max(score.score, 0.04) for score in known.values()]
        draw_bars(axes, known, [1.0] * len(known), PALE, bottom=bottom, zorder=-1)
        draw_bars(axes, known, heights, colors, bottom=bottom, width=0.9)
    labels = [textwrap.fill(model, 18) for model in models]
    axes.set_yticks([bottom + 0.5 for bottom in bottoms], labels, fontsize=4.5)
    axes.set(xlim=(-0.6, longest - 0.4), ylim=(bottoms[-1] - 0.05, 0.05))
    ticks = range(0, len(bars), _tick_step(longest))
    axes.set_xticks(ticks, [bars[i].position for i in ticks], fontsize=4, color=MUTED)
    hide_ticks(axes)
    axes.tick_params(axis="x", pad=1)


def _tick_step(n_clips: int) -> int:
    """Return the least step that gives at most twelve ticks."""
    for step in (1, 2, 5, 10, 20, 50, 100, 200):
        if step * 12 >= n_clips:
            return step
    return n_clips
