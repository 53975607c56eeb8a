"""The frame rate of a video, for those who do not name it."""

from fractions import Fraction
from functools import lru_cache
from pathlib import Path

from obygaze_features.core.errors import ObygazeError
from obygaze_features.manifest.frame_rate import known_frame_rate

# Rates that differ by less are the same, written with other digits.
SAME_WITHIN = Fraction(1, 1000)


@lru_cache(maxsize=256)
def video_rate(path: Path) -> Fraction | None:
    """Return the frames per second of a video; None where it cannot be read or has several."""
    from obygaze_features.video.container import open_video

    try:
        with open_video(path) as (_, stream):
            average = stream.average_rate
            nominal = stream.guessed_rate
    except ObygazeError:
        return None  # also where PyAV is not installed: the rate has to be named
    if not average or not nominal or abs(average - nominal) > SAME_WITHIN * nominal:
        return None
    return known_frame_rate(Fraction(nominal))
