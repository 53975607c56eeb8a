"""Where clips, pictures and videos of a film are on its time line, in seconds.

The time line counts the time in the film where it is known, else the time in the film's one video.
Clips with files of their own and without times in the film follow each other by their scenes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from obygaze_features.manifest.link import film_span
from obygaze_features.manifest.model import Clip

NOMINAL_S = 10.0  # the length of a clip on the time line, if it is unknown
# What a time line counts.
FILM = "time in the film"
VIDEO = "time in the video"
ORDER = "clips in a row: their times in the film are unknown"
# Start and end in seconds.
Span = tuple[float, float]


@dataclass(frozen=True)
class Piece:
    """A stretch of the time line that a video shows, from its second `offset_s` on.

    The film has its picture `first_picture` there.
    """

    start_s: float
    end_s: float
    video: str
    offset_s: float = 0.0
    first_picture: int = 0


@dataclass(frozen=True)
class FilmAxis:
    """The time line of a film.

    `spans` are start and end of its clips; `unknown` are the videos without a known length, after
    which the places of clips in a row are not known. `boundaries` are the times of the pictures of
    the one video that shows all of the film, and the end of the last one; None if they are unknown.
    """

    counts: str
    rate: Fraction | None
    end_s: float
    spans: Mapping[str, Span]
    pieces: Sequence[Piece]
    unknown: Sequence[str]
    boundaries: NDArray[np.float64] | None = None

    @property
    def has_places(self) -> bool:
        """Whether pictures of the film have a place on the time line."""
        return self.rate is not None and not self.unknown

    @property
    def n_pictures(self) -> int:
        """The number of pictures of the film; 0 if its rate is not known."""
        if self.rate is None:
            return 0
        return max(1, round(self.end_s * self.rate))

    def span(self, first: int, last: int) -> Span:
        """Return start and end of pictures on the time line; the rate must be known."""
        return self._start(first), self._start(last + 1)

    def _start(self, picture: int) -> float:
        if self.boundaries is not None:
            return float(self.boundaries[min(picture, len(self.boundaries) - 1)])
        return float(picture / self.rate) if self.rate else 0.0

    def even_places(self, n: int) -> list[tuple[str, float] | None]:
        """Return a video and a time in it for the middle of each of `n` equal steps; None: none."""
        places: list[tuple[str, float] | None] = []
        for number in range(n):
            time_s = self.end_s * (number + 0.5) / n
            place = None
            for piece in self.pieces:
                if piece.start_s <= time_s < piece.end_s:
                    place = (piece.video, time_s - piece.start_s + piece.offset_s)
            places.append(place)
        return places


def axis_of(
    clips: Sequence[Clip],
    rate: Fraction | None,
    length_of: Callable[[str], float],
    boundaries_of: Callable[[str], NDArray[np.float64] | None],
) -> FilmAxis:
    """Return the time line of a film.

    Args:
        clips: The clips of the film.
        rate: Its pictures per second, which number its pictures; None if they are not known.
        length_of: The length of a video in seconds; 0 if it is not known.
        boundaries_of: The times of the pictures of a video, with the end of the last one.
    """
    in_film = _known_spans(clips, film_span)
    in_video = _known_spans(clips, span_in_video)
    videos = {clip.video for clip in clips if clip.video}
    is_one_video = len(videos) == 1 and in_video and in_film in ({}, in_video)
    if is_one_video:
        (video,) = videos
        counts = FILM if in_film else VIDEO
        end_s = max(length_of(video), _last_end(in_video))
        pieces = [Piece(0.0, end_s, video)]
        return FilmAxis(counts, rate, end_s, in_video, pieces, (), boundaries_of(video))
    counts = FILM
    spans = in_film
    unknown: list[str] = []
    if not in_film:
        is_whole_film = len(clips) == 1 and clips[0].scene is None
        counts = VIDEO if is_whole_film else ORDER
        spans, unknown = _in_a_row(clips, length_of)
    pieces = _pieces(clips, spans, float(rate or 0))
    boundaries = None
    if counts == VIDEO and len(pieces) == 1 and pieces[0].offset_s == 0:
        boundaries = boundaries_of(pieces[0].video)
    return FilmAxis(counts, rate, _last_end(spans), spans, pieces, unknown, boundaries)


def _known_spans(
    clips: Sequence[Clip], span_of: Callable[[Clip], Span | None]
) -> dict[str, Span]:
    """Return start and end of the clips that have them, by clip id."""
    spans = {}
    for clip in clips:
        span = span_of(clip)
        if span is not None:
            spans[clip.clip_id] = span
    return spans


def _last_end(spans: Mapping[str, Span]) -> float:
    return max((end for _, end in spans.values()), default=0.0)


def _in_a_row(
    clips: Sequence[Clip], length_of: Callable[[str], float]
) -> tuple[dict[str, Span], list[str]]:
    """Return spans of clips that follow each other by their scenes, and videos without a length."""
    spans: dict[str, Span] = {}
    unknown = []
    end = 0.0
    for clip in sorted(clips, key=lambda clip: clip.scene or 0):
        first, last = span_in_video(clip) or (0.0, length_of(clip.video))
        if last <= first:
            unknown.append(clip.video or clip.clip_id)
            last = first + NOMINAL_S
        start = end
        end = start + last - first
        spans[clip.clip_id] = (start, end)
    return spans, unknown


def _pieces(
    clips: Sequence[Clip], spans: Mapping[str, Span], rate: float
) -> list[Piece]:
    """Return the stretch of the film that the video of each clip shows, in order."""
    pieces = []
    for clip in clips:
        if not clip.video or clip.clip_id not in spans:
            continue
        start_s, end_s = spans[clip.clip_id]
        first_picture = round(start_s * rate)
        offset_s = clip.start_s or 0.0
        pieces.append(Piece(start_s, end_s, clip.video, offset_s, first_picture))
    return sorted(pieces, key=lambda piece: piece.start_s)


def span_in_video(clip: Clip) -> Span | None:
    """Return start and end of a clip in its video; None if it is all of it."""
    if clip.start_s is None or clip.end_s is None:
        return None
    return clip.start_s, clip.end_s
