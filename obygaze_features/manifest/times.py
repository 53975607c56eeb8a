"""Compute where clips are in their film and in their files, in seconds.

This module has the rules for a whole film, and `spans` the rules for a single clip:

- `start_s` and `end_s` of a clip are times in its file. Without both, the clip is the whole file.
- `film_start_s` and `film_end_s` are times in the film.
- If the table names no file for a clip, `start_s` and `end_s` are times in the film. They stay if
  `link` finds the file of the film. If `link` finds a file of the clip's own, they move to
  `film_start_s` and `film_end_s`.
- If all clips of a film are parts of one file, and no stated time in the film differs from the time
  in this file, the file is the film.
- Clips with files of their own and without times in the film are placed in a row by scene. Their
  positions are known only if the lengths of the files are known.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from obygaze_features.manifest.frame_rate import frame_rate_text
from obygaze_features.manifest.model import Clip, by_film
from obygaze_features.manifest.spans import (
    FrameSpan,
    clip_file,
    span_in_file,
    span_in_film,
)
from obygaze_features.manifest.spans import Span as Span

# The axes of positions.
IN_FILM = "time in the film"
IN_A_ROW = "clips one after another, because their times in the film are unknown"
# The assumed length of a clip of unknown length, in seconds.
NOMINAL_S = 10.0
# Largest rounding error of times in tables, in seconds, in addition to one frame.
ROUNDED_S = 0.02


class Piece(NamedTuple):
    """A part of a film that a file contains.

    Attributes:
        start_s: The start in the film, in seconds.
        end_s: The end in the film, in seconds.
        video: The file.
        offset_s: The start in the file, in seconds.
    """

    start_s: float
    end_s: float
    video: str
    offset_s: float


@dataclass(frozen=True)
class FilmTimes:
    """Where the clips of one film are.

    Attributes:
        axis: The axis of all times: `IN_FILM` or `IN_A_ROW`.
        end_s: The latest known end in the film, in seconds.
        spans: Known starts and ends of clips, by clip id.
        pieces: The parts of the film that files contain, sorted by start.
        unknown: The files of unknown length, and clips without a file. If there are any, the
            positions of clips in a row are assumed.
        file: The file of the whole film, or "" if clips have files of their own.
    """

    axis: str
    end_s: float
    spans: Mapping[str, Span]
    pieces: Sequence[Piece]
    unknown: Sequence[str]
    file: str = ""


def film_times(
    clips: Sequence[Clip],
    *,
    length_of: Callable[[str], float] | None = None,
) -> FilmTimes:
    """Return where the clips of one film are.

    Args:
        clips: All clips of the film.
        length_of: Returns the length of a video in seconds, or 0 if it is unknown.
    """
    length_of = length_of or (lambda video: 0.0)
    in_film = _known_spans(clips, span_in_film)
    unknown: list[str] = []
    axis = IN_FILM
    film_file = _file_of_film(clips, in_film)
    if film_file:
        in_file = _known_spans(clips, span_in_file)
        spans = {**in_file, **in_film}
        end_s = max(length_of(film_file), _last_end(in_file))
        is_found = any(clip.video == film_file for clip in clips)
        pieces = [Piece(0.0, end_s, film_file, 0.0)] if is_found else []
    else:
        spans = in_film
        if not in_film:
            is_whole_film = len(clips) == 1 and clips[0].scene is None
            axis = IN_FILM if is_whole_film else IN_A_ROW
            spans, unknown = _in_a_row(clips, length_of)
        pieces = [
            Piece(*spans[clip.clip_id], clip.video, clip.start_s or 0.0)
            for clip in clips
            if clip.video and clip.clip_id in spans
        ]
    pieces = sorted(set(pieces))
    end_s = max([_last_end(spans), *(piece.end_s for piece in pieces)])
    file = film_file if pieces else ""
    # A single piece is the whole film only if it covers the film and its file from the start.
    if not film_file and len(pieces) == 1 and pieces[0][:2] == (0.0, end_s):
        file = "" if pieces[0].offset_s else pieces[0].video
    return FilmTimes(axis, end_s, spans, pieces, unknown, file)


def all_film_times(clips: Iterable[Clip]) -> dict[str, FilmTimes]:
    """Return the result of `film_times` for each film."""
    return {film: film_times(of_film) for film, of_film in by_film(clips).items()}


def spans_in_films(clips: Iterable[Clip]) -> dict[str, Span]:
    """Return the known starts and ends of clips in their films, by clip id.

    Clips in a row have no known times, because the gaps between them are unknown.

    Args:
        clips: All clips of each film. If some are missing, the others may look like a whole film.
    """
    spans: dict[str, Span] = {}
    for times in all_film_times(clips).values():
        if times.axis != IN_A_ROW and not times.unknown:
            spans.update(times.spans)
    return spans


class FrameClocks:
    """Check that the rows of each film count frames at one rate, and from one start.

    If the first frame of a file is not at 0 s, the times of all rows are later than the times of
    their frames by the same delay. Such a delay is no violation.
    """

    def __init__(self) -> None:
        self.rates: dict[str, Fraction] = {}
        self._late_of: dict[str, float] = {}

    def rate_problem(self, film: str, rate: Fraction) -> str:
        """Return a sentence if other rows of the film state a different frame rate, or ""."""
        of_others = self.rates.setdefault(film, rate)
        if of_others == rate:
            return ""
        return (
            f"expected {frame_rate_text(of_others)} as in other rows of the film {film}, got"
            f" {frame_rate_text(rate)}"
        )

    def span_problem(self, film: str, frames: FrameSpan, times_s: Span) -> str:
        """Return a sentence if the frames of a row contradict its times, or "".

        The frames and the times may count in different copies of the film, or the user may have
        corrected only the frames or only the times.

        Args:
            film: The film.
            frames: The frames of the row.
            times_s: The times of the row.
        """
        of_frames = frames.times_s
        if frames.rate is None or of_frames is None:
            return ""
        if are_near(of_frames, times_s, frames.rate):
            return ""
        late_s, ends_late_s = (
            time_s - of_frame
            for time_s, of_frame in zip(times_s, of_frames, strict=True)
        )
        most_apart_s = float(1 / frames.rate) + ROUNDED_S
        rate = frame_rate_text(frames.rate)
        problem = (
            f"the frames {frames.first} to {frames.last} are {shown_span(of_frames)} at {rate}"
            f" frames per second, but the times are {shown_span(times_s)}"
        )
        if late_s > 0 and abs(ends_late_s - late_s) <= most_apart_s:
            of_others_s = self._late_of.setdefault(film, late_s)
            if abs(late_s - of_others_s) <= 2 * most_apart_s:
                return ""
            problem += (
                f"; other times of this film are {of_others_s:.6g} s after the frames"
            )
        return f"{problem}; empty the wrong frames or times"


def are_near(of_frames: Span, times_s: Span, rate: Fraction) -> bool:
    """Return whether times match the times of frames, to within one frame plus ROUNDED_S."""
    most_apart_s = float(1 / rate) + ROUNDED_S
    pairs = zip(of_frames, times_s, strict=True)
    return all(abs(one - other) <= most_apart_s for one, other in pairs)


def shown_span(span_s: Span) -> str:
    """Return a span as text: `1.5 s to 3 s`."""
    return " to ".join(f"{time_s:.6g} s" for time_s in span_s)


def _file_of_film(clips: Iterable[Clip], in_film: Mapping[str, Span]) -> str:
    """Return the file of the whole film, or "" if there is none."""
    with_file = [clip for clip in clips if clip_file(clip)]
    files = {clip_file(clip) for clip in with_file}
    if len(files) != 1:
        return ""
    for clip in with_file:
        in_file = span_in_file(clip)
        if in_file is None:
            return ""
        if in_film and in_film.get(clip.clip_id) != in_file:
            return ""
    return files.pop()


def _known_spans(
    clips: Iterable[Clip], span_of: Callable[[Clip], Span | None]
) -> dict[str, Span]:
    """Return the span of each clip for which `span_of` returns one, by clip id."""
    spans = {}
    for clip in clips:
        span = span_of(clip)
        if span is not None:
            spans[clip.clip_id] = span
    return spans


def _last_end(spans: Mapping[str, Span]) -> float:
    return max((end_s for _, end_s in spans.values()), default=0.0)


def _in_a_row(
    clips: Sequence[Clip], length_of: Callable[[str], float]
) -> tuple[dict[str, Span], list[str]]:
    """Return the spans of clips placed in a row by scene, and the files of unknown length.

    A clip without a file has an unknown length and is listed by its id.
    """
    spans: dict[str, Span] = {}
    unknown = []
    end_s = 0.0
    for clip in sorted(clips, key=lambda clip: clip.scene or 0):
        in_file = span_in_file(clip)
        if in_file is not None:
            length_s = in_file[1] - in_file[0]
        else:
            length_s = length_of(clip.video) if clip.video else 0.0
        if length_s <= 0:
            unknown.append(clip.video or clip.clip_id)
            length_s = NOMINAL_S
        start_s = end_s
        end_s = start_s + length_s
        spans[clip.clip_id] = (start_s, end_s)
    return spans, unknown
