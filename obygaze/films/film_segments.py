"""The segments of one film in frames, its video, and marks as other programs have them."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from obygaze.films.mark_tables import Segment, check_rate, refuse_behind_end
from obygaze_features.core.errors import ObygazeError
from obygaze_features.manifest.frame_rate import known_frame_rate
from obygaze_features.manifest.times import FilmTimes, exact_seconds

# Rates that differ by less are the same, written with other digits.
SAME_WITHIN = Fraction(1, 1000)
# 24 and 23.976 differ by a thousandth, 23.81 and 1000/42 by less.
OTHER_RATE = Fraction(1, 2000)


@dataclass(frozen=True)
class FilmSegments:
    """The segments of one film, and the file of the film where it is known."""

    movie_id: str
    fps: Fraction
    video: Path | None = None
    segments: list[Segment] = field(default_factory=list)

    def ms(self, frame: int) -> int:
        """Return the first whole millisecond at which a frame is shown."""
        return math.ceil(1000 * frame / self.fps)

    @property
    def marks(self) -> list[Segment]:
        """The segments that say more than that they were watched."""
        return [segment for segment in self.segments if not segment.is_watched]


class ReadMark(NamedTuple):
    """A mark in a file of another program, in seconds; level and comment may be empty."""

    annotator: str
    start_s: Fraction
    end_s: Fraction
    level: str = ""
    concepts: tuple[str, ...] = ()
    comment: str = ""


def video_of_film(times: FilmTimes, video_root: str) -> Path | None:
    """Return the file of a whole film; None where its clips have files of their own."""
    videos = {piece.video for piece in times.pieces}
    if len(times.pieces) != 1 or times.pieces[0].start_s or times.pieces[0].offset_s:
        return None
    return Path(video_root, *videos)


def video_rate(path: Path) -> Fraction | None:
    """Return the frames per second of a video; None where it cannot be read or has several."""
    return rate_and_length(path)[0]


def rate_and_length(path: Path) -> tuple[Fraction | None, float]:
    """Return the frames per second of a video, None if unknown, and its seconds, 0 if unknown."""
    try:
        facts = path.stat()
    except OSError:
        return None, 0.0
    return _rate_and_length(path.absolute(), facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=256)
def _rate_and_length(path: Path, *_size_and_time: int) -> tuple[Fraction | None, float]:
    """Return rate and seconds of a video as they are kept, until the file is another one."""
    from obygaze_features.video.container import open_video

    try:
        with open_video(path) as (container, stream, _n_errors):
            average = stream.average_rate
            nominal = stream.guessed_rate
            length_s = (container.duration or 0) / 1e6
    except ObygazeError:
        return None, 0.0  # also where PyAV is not installed: the rate has to be named
    if not average or not nominal or abs(average - nominal) > SAME_WITHIN * nominal:
        return None, length_s
    return known_frame_rate(Fraction(nominal)), length_s


def compare_with_video(
    segment: Segment, video: Path | None, rate: Fraction, where: str
) -> None:
    """Raise an error for a mark at another rate than its film, or behind the end of it.

    What the video does not say is not compared.
    """
    if video is None:
        return
    rate_of_video, length_s = rate_and_length(video)
    if rate_of_video and abs(rate_of_video - rate) > OTHER_RATE * rate:
        check_rate(segment.movie_id, rate, rate_of_video, where)
    if length_s:
        refuse_behind_end(
            segment.movie_id,
            segment.end_frame,
            round(exact_seconds(length_s) * rate),
            unsure=rate,
            where=where,
        )
