"""Read the file of a clip, and its span in the file and in the film, from its row only."""

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from obygaze_features.core.errors import FixInput
from obygaze_features.core.tables import number_of_cell
from obygaze_features.manifest.frame_rate import frame_times_s, parse_frame_rate
from obygaze_features.manifest.model import NAME_COLUMN as NAME_COLUMN
from obygaze_features.manifest.model import Clip

FILM_TIMES = ("film_start_s", "film_end_s")
# The columns of the first and the last frame in the film, and of the frame rate.
FRAMES = ("start_frame", "end_frame")
RATE_COLUMN = "framerate"

# Equal times differ by at most a millisecond; 1e-9 allows for the rounding of floats.
MILLISECOND_S = 0.001 + 1e-9

# Start and end in seconds.
Span = tuple[float, float]


class FrameSpan(NamedTuple):
    """The first and the last frame of a span of a film, and the frame rate or None."""

    first: int
    last: int
    rate: Fraction | None = None

    @property
    def times_s(self) -> Span | None:
        """Start and end of the frames in seconds, or None without a rate."""
        if self.rate is None:
            return None
        return frame_times_s(self.first, self.last, self.rate)


def stated_frames(cells: Mapping[str, str]) -> FrameSpan | None:
    """Return the frames that a row of a table states, or None unless both are whole numbers.

    >>> stated_frames({"start_frame": "25", "end_frame": "49.0", "framerate": "25"})
    FrameSpan(first=25, last=49, rate=Fraction(25, 1))
    """
    if not cells.get(FRAMES[0]):
        # Most rows state times and no frames.
        return None
    # pandas writes 91.0 where a column has empty cells.
    first, last = (number_of_cell(cells.get(column)) for column in FRAMES)
    if first is None or last is None or not 0 <= first <= last:
        return None
    if not (first.is_integer() and last.is_integer()):
        return None
    rate = parse_frame_rate(cells.get(RATE_COLUMN, ""))
    return FrameSpan(int(first), int(last), rate)


def named_file(clip: Clip) -> str:
    """Return the file that the table names for a clip, or ""."""
    return clip.extra.get(NAME_COLUMN, clip.video)


def clip_file(clip: Clip) -> str:
    """Return the linked file of a clip. Without it, return the file that the table names, or ""."""
    return clip.video or named_file(clip)


def span_in_file(clip: Clip) -> Span | None:
    """Return start and end of a clip in its file.

    Return None if the clip has no file, or if the clip is the whole file.
    """
    if not clip_file(clip) or clip.start_s is None or clip.end_s is None:
        return None
    return clip.start_s, clip.end_s


def span_in_film(clip: Clip) -> Span | None:
    """Return start and end of a clip in its film, or None if its row does not state them."""
    start_s = _seconds(clip, FILM_TIMES[0])
    end_s = _seconds(clip, FILM_TIMES[1])
    if start_s is not None and end_s is not None:
        if end_s < start_s:
            first, last = FILM_TIMES
            raise FixInput(
                f"the clip {clip.clip_id}: {last} {end_s:g} is before {first} {start_s:g}",
            )
        return start_s, end_s
    if named_file(clip) or clip.start_s is None or clip.end_s is None:
        return None
    return clip.start_s, clip.end_s


def _seconds(clip: Clip, column: str) -> float | None:
    """Return a time of FILM_TIMES, or None for an empty cell.

    Raise an error if the cell is not a number.
    """
    cell = clip.extra.get(column, "")
    if not cell:
        return None
    seconds = number_of_cell(cell)
    if seconds is None:
        raise FixInput(
            f"the clip {clip.clip_id}: expected seconds in {column}, got {cell!r}",
        )
    return seconds
