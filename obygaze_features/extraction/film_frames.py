"""Find when frames of a film are shown, for tables that state numbers of frames.

The times come from the index of the file. A frame rate does not give them, because containers round
times, films begin late, and rates are rounded.
"""

from fractions import Fraction
from pathlib import Path

import numpy as np

from obygaze_features.manifest.frame_rate import (
    frame_rate_text,
    frame_times_s,
    parse_frame_rate,
)
from obygaze_features.manifest.spans import FrameSpan, Span
from obygaze_features.manifest.times import are_near, shown_span
from obygaze_features.manifest.windows import CutFilm
from obygaze_features.video.film import film_index
from obygaze_features.video.index import FrameIndex

# The largest deviation of a picture from a constant rate, in intervals of pictures and in seconds.
JITTER = 0.25
JITTER_S = 0.02
# Rates that differ by a smaller share are equal: a header may round to whole microseconds.
SAME_RATE = 1e-4
# If a film has a frame rate, the mean delay of its frames changes by no more than this, in seconds,
# from the first half of the film to the second.
DRIFT_S = 0.001


class FilmFrames:
    """The times of the frames of a film, and its frame rate, from the index of its file.

    Args:
        path: The file.
        indexes: The folder that keeps the indexes of films.
    """

    def __init__(self, path: Path, indexes: Path) -> None:
        index, _ = film_index(path, indexes)
        self.boundaries_s = index.boundaries_s
        self.n_frames = index.frames
        rate = Fraction(index.rate).limit_denominator(1001)
        self.rate = parse_frame_rate(rate) or rate

    def find_times(self, frames: FrameSpan) -> Span:
        """Return when the first frame of `frames` begins, and when the last one ends."""
        start_s = float(self.boundaries_s[frames.first])
        end_s = float(self.boundaries_s[frames.last + 1])
        # The first picture may be some nanoseconds before the rounded beginning of the file.
        return max(start_s, 0.0), end_s

    def problem_with(self, frames: FrameSpan, stated_s: Span | None = None) -> str:
        """Return how the film contradicts a row of a table that counts frames.

        The text has the value of the film and the value of the row. It is "" if there is no
        contradiction.

        Args:
            frames: The frames of the row.
            stated_s: The times of the row, or None if it states none. They may be times in the
                file, or times that are counted from the first frame on.
        """
        if frames.last >= self.n_frames:
            from_1 = frames.last == self.n_frames
            way = "; if the table counts from 1, subtract 1" if from_1 else ""
            return f"expected frames 0 to {self.n_frames - 1}, got frame {frames.last}{way}"
        rate = frames.rate or self.rate
        if not self._has_rate(rate):
            return (
                f"expected {frame_rate_text(self.rate)} frames per second, got"
                f" {frame_rate_text(rate)}"
            )
        for frame in (frames.first, frames.last):
            shown_s = self.boundaries_s[frame]
            expected_s = self.boundaries_s[0] + float(frame / rate)
            if abs(shown_s - expected_s) > float(1 / rate) / 2:
                return (
                    f"frame {frame} is at {shown_s:.6g} s in the film, but at {expected_s:.6g} s"
                    f" for {frame_rate_text(rate)} frames per second"
                )
        times_s = self.find_times(frames)
        of_rate = frame_times_s(frames.first, frames.last, rate)
        ways = (times_s, of_rate)
        if stated_s and not any(are_near(way, stated_s, rate) for way in ways):
            return (
                f"the frames {frames.first} to {frames.last} are {shown_span(times_s)} in the"
                f" film, but the stated times are {shown_span(stated_s)}"
            )
        return ""

    def _has_rate(self, rate: Fraction) -> bool:
        """Return whether the film has this frame rate.

        The rate must agree with the header of the file, or with the times of the frames.
        """
        if abs(self.rate - rate) <= SAME_RATE * rate:
            return True
        # The delays of many frames are averaged, because containers round times, and films for
        # television repeat fields.
        late_s = self.boundaries_s[:-1] - np.arange(self.n_frames) / float(rate)
        first, second = np.array_split(late_s, 2)
        return len(second) > 0 and abs(second.mean() - first.mean()) <= DRIFT_S


def make_cut_film(movie_id: str, video: str, index: FrameIndex) -> CutFilm:
    """Return the facts of a film that is cut into windows; the rate is 0 if it is not constant."""
    # Pictures in a damaged beginning may have times before the beginning of the file.
    begins_s = max(float(index.times_s[0]), 0.0)
    times_s = index.times_s - index.times_s[0]
    length_s = float(times_s[-1])
    mean_rate = (index.frames - 1) / length_s if length_s > 0 else index.rate
    # The rate in the header is exact if it fits; the mean rate is rounded as the last time is.
    for rate in (index.rate, mean_rate):
        furthest = np.abs(times_s * rate - np.arange(index.frames)).max()
        if furthest < min(JITTER, JITTER_S * rate):
            duration_s = index.frames / rate
            return CutFilm(movie_id, video, index.frames, rate, duration_s, begins_s)
    return CutFilm(movie_id, video, index.frames, 0.0, index.duration_s, begins_s)
