"""Segments that models found in whole films: their precision, and the windows of each film."""

from collections.abc import Mapping, Sequence
from typing import Any

from obygaze_features.core.figures import LEVEL_COLORS, PALE
from obygaze_features.manifest.model import Clip, clock
from obygaze_models.protocols.results.localisation import (
    PRECISIONS,
    FilmWindows,
    Localisation,
)
from obygaze_models.report.figure import (
    MODEL,
    UNKNOWN_LEVEL,
    WRONG,
    FigureSet,
    draw_legend,
)
from obygaze_models.report.lookup import ReportRun, grouped, number_of, pair_name
from obygaze_models.report.tables import Number, Part, make_table, slug

# Start, end and colour of a segment on the time axis of a film.
Strip = tuple[Any, Any, str | None]


def localisations(run: ReportRun) -> Part:
    """Yield the precision of the segments that models found in whole films, by overlap."""

    def numbers(record: Localisation) -> list[Number]:
        return [number_of(record.precisions.get(name)) for name in PRECISIONS]

    records = run.of(Localisation)
    if records:
        rows = run.rows_by_pair(records, numbers)
        yield make_table("localisation", "localisation", rows)


def draw_windows(run: ReportRun, figures: FigureSet) -> None:
    """Draw films on their time axes: the score of windows, intervals, each annotator's segments."""
    manifest = run.manifest or ()
    segments = grouped(
        manifest, lambda clip: (clip.movie_id, clip.extra.get("annotator", ""))
    )
    levels = {clip.level for clip in manifest}
    for record in run.of(Localisation):
        films = record.films
        title = f"{run.label(record)}, {pair_name(*record.pair)}"
        layout = {"nrows": len(films), "squeeze": False}
        key = f"windows-{slug(title)}"
        height = 0.3 + 0.7 * len(films)
        with figures.draw("windows", key, height, layout, title=title) as (
            figure,
            grid,
        ):
            for axes, film in zip(grid[:, 0], sorted(films), strict=True):
                _draw_film_windows(axes, films[film], _segments_of(segments, film))
                axes.set_title(run.film_name(film), fontsize=5.5, pad=1)
            draw_legend(figure, levels, {"found": WRONG})


def _segments_of(
    segments: Mapping[tuple[str, str], Sequence[Clip]], film: str
) -> list[list[Strip]]:
    """Return the segments of each annotator of a film, annotators in alphabetical order."""
    by_annotator = []
    for movie_id, annotator in sorted(segments):
        if movie_id != film:
            continue
        by_annotator.append(
            [
                (clip.start_s, clip.end_s, LEVEL_COLORS.get(clip.level))
                for clip in segments[movie_id, annotator]
            ]
        )
    return by_annotator


def _draw_film_windows(
    axes: Any, windows: FilmWindows, annotated: Sequence[Sequence[Strip]]
) -> None:
    """Draw the score along one film; below it what the model found, then each annotator."""
    axes.fill_between(windows.time_s, windows.low, windows.high, color=PALE, lw=0)
    axes.plot(windows.time_s, windows.score, color=MODEL, lw=0.6)
    intervals = [(start, end, WRONG) for start, end, _ in windows.intervals]
    rows = [intervals, *annotated]
    for row, strips in enumerate(rows):
        spans = [(start, end - start) for start, end, _ in strips]
        colors = [color or UNKNOWN_LEVEL for _, _, color in strips]
        axes.broken_barh(
            spans,
            (-0.2 * (row + 1), 0.15),
            transform=axes.get_xaxis_transform(),
            clip_on=False,
            facecolors=colors,
        )
    axes.xaxis.set_major_formatter(lambda seconds, _: clock(seconds))
    axes.tick_params(length=0, labelsize=4, pad=2 + 4 * len(rows))
