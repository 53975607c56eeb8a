"""Where the clips of a film are: in the film, and in their files.

This module and `spans`, for what a clip alone says, know the rules; linking, projection, export,
windows and the page ask them:

- `start_s` and `end_s` of a clip are times in its file. Without both, the clip is the whole file.
- `film_start_s` and `film_end_s` are times in the film.
- A clip for which no file was named has its times in the film, also after `link` found its film's
  file; where `link` found a file of its own, they moved to `film_start_s` and `film_end_s`.
- If all clips of a film are parts of one file and nothing else is said, this file is the film.
- Clips with files of their own and without times in the film follow each other by their scenes.
  Their places are known only where the lengths of the files are.

Times are in seconds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from obygaze_features.manifest.frame_rate import frame_rate_text
from obygaze_features.manifest.model import Clip, by_film
from obygaze_features.manifest.spans import (
    FrameSpan,
    file_of,
    span_in_file,
    span_in_film,
)
from obygaze_features.manifest.spans import Span as Span

# What the positions of clips count.
IN_FILM = "time in the film"
IN_A_ROW = "clips in a row: their times in the film are unknown"
# The length of a clip in a row whose own length is not known.
NOMINAL_S = 10.0
# Times of tables may be rounded by this much beside a picture.
ROUNDED_S = 0.02


class Piece(NamedTuple):
    """A stretch of a film that a file shows.

    Attributes:
        start_s: Where it begins in the film.
        end_s: Where it ends in the film.
        video: The file.
        offset_s: The time in the file at which it begins.
    """

    start_s: float
    end_s: float
    video: str
    offset_s: float


@dataclass(frozen=True)
class FilmTimes:
    """Where the clips of one film are.

    Attributes:
        axis: What the times count: `IN_FILM` or `IN_A_ROW`.
        end_s: The end of the film, as far as it is known.
        spans: Start and end of the clips whose place is known, by clip id.
        pieces: The stretches that files show, in order.
        unknown: The files without a known length; the places of clips in a row are not known then.
        file: The file of the whole film; empty where clips have files of their own.
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
        length_of: Returns the length of a video in seconds, 0 if it is not known.
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
    # The file of the first clip may be the only one that is there.
    if not film_file and len(pieces) == 1 and pieces[0][:2] == (0.0, end_s):
        file = "" if pieces[0].offset_s else pieces[0].video
    return FilmTimes(axis, end_s, spans, pieces, unknown, file)


def times_of_films(clips: Iterable[Clip]) -> dict[str, FilmTimes]:
    """Return where clips are in their films, by film; see `film_times`."""
    return {film: film_times(of_film) for film, of_film in by_film(clips).items()}


def spans_in_films(clips: Iterable[Clip]) -> dict[str, Span]:
    """Return start and end of clips in their films, by clip id, where these are known.

    Of clips in a row they are not: what is between them in the film is unknown.

    Args:
        clips: All clips of each film: some of them may all be in one file, which is not the film.
    """
    spans: dict[str, Span] = {}
    for times in times_of_films(clips).values():
        if times.axis != IN_A_ROW and not times.unknown:
            spans.update(times.spans)
    return spans


class FrameClocks:
    """How the rows of a table count the frames of films: at one rate, from one beginning.

    The times of a row that counts frames are those of its frames in a file of the film. A file may
    begin before its first frame, so that all its rows are later than their frames by one time.
    """

    def __init__(self) -> None:
        self.rates: dict[str, Fraction] = {}
        self._late_of: dict[str, float] = {}

    def rate_problem(self, film: str, rate: Fraction) -> str:
        """Return that other rows of a film state another frame rate, with both; "" if not."""
        of_others = self.rates.setdefault(film, rate)
        if of_others == rate:
            return ""
        return (
            f"{frame_rate_text(rate)}, and other rows of the film {film} state"
            f" {frame_rate_text(of_others)}"
        )

    def span_problem(self, film: str, frames: FrameSpan, times_s: Span) -> str:
        """Return that the frames of a row are not at its times, with both; "" if they may be.

        The frames may be those of another copy, or one of the two was corrected and the other not.

        Args:
            film: The film.
            frames: The frames of the row.
            times_s: Its times.
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
            f" frames per second, and the times are {shown_span(times_s)}"
        )
        if late_s > 0 and abs(ends_late_s - late_s) <= most_apart_s:
            of_others_s = self._late_of.setdefault(film, late_s)
            if abs(late_s - of_others_s) <= 2 * most_apart_s:
                return ""
            problem += f", while other times of this film are {of_others_s:.6g} s later"
        return f"{problem}: empty those that are wrong"


def are_near(of_frames: Span, times_s: Span, rate: Fraction) -> bool:
    """Return whether times are those of frames; either may be rounded to the other."""
    most_apart_s = float(1 / rate) + ROUNDED_S
    pairs = zip(of_frames, times_s, strict=True)
    return all(abs(one - other) <= most_apart_s for one, other in pairs)


def shown_span(span_s: Span) -> str:
    """Return a span as text: `1.5 s to 3 s`."""
    return " to ".join(f"{time_s:.6g} s" for time_s in span_s)


def _file_of_film(clips: Iterable[Clip], in_film: Mapping[str, Span]) -> str:
    """Return the file whose times are those of the film; empty where there is none."""
    with_file = [clip for clip in clips if file_of(clip)]
    files = {file_of(clip) for clip in with_file}
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
    """Return start and end of the clips that have them, by clip id."""
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
    """Return spans of clips that follow each other by their scenes, and videos without a length."""
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
