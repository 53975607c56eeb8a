"""The sound of a clip: what a model hears, and where sound is missing or damaged."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixUsage
from obygaze_features.video.container import BadVideo
from obygaze_features.video.index import Floats

Samples = NDArray[np.float32]

# A model of sound has nothing to say of fewer samples.
FEWEST_SAMPLES = 400
# Sound that is missing for so long is no remark: a stream may end a packet before the pictures.
MISSING_S = 0.1


@dataclass(frozen=True)
class SoundView:
    """What one model hears of a clip: how many samples a second, and how much from before it."""

    rate: int
    before_s: float = 0.0

    def __post_init__(self) -> None:
        """Check the rate and the time before."""
        if self.rate < 1:
            raise FixUsage(f"rate must be at least 1, got {self.rate}")
        if self.before_s < 0:
            raise FixUsage(f"before_s must be at least 0, got {self.before_s:g}")

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return a view from plain values, as `dataclasses.asdict` returns them."""
        return cls(value["rate"], value["before_s"])


@dataclass(frozen=True, eq=False)
class DecodedSound:
    """The sound of one view of a clip, on the clock of its film.

    `samples` are those of the channels together, `n_before` how many of them lie before the clip,
    which is from `start_s` to `end_s`. `missing_s` and `damaged_s` are stretches [n, 2] of that
    time, and of the time before it, in seconds: their samples are 0. `stream` names the stream if
    the file has several, such as "sound 2 of 3 (eng)". `bounds_s` is when the sound of the film
    begins and ends.
    """

    path: Path
    rate: int
    samples: Samples
    n_before: int
    start_s: float
    end_s: float
    missing_s: Floats
    damaged_s: Floats
    bounds_s: tuple[float, float]
    stream: str = ""

    @property
    def heard_s(self) -> float:
        """Return for how many seconds of the clip there is sound that is not damaged."""
        raise NotImplementedError

    @property
    def is_damaged(self) -> bool:
        """Return whether sound of the clip, or before it, is damaged."""
        return len(self.damaged_s) > 0

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return what a reader of the features should know: the stream, and what is missing."""
        raise NotImplementedError

    def check(self, accept_damaged: bool = False) -> Self:
        """Return this sound, or raise BadVideo if it is damaged, too short or mostly missing.

        With `accept_damaged`, damaged sound is like missing sound.
        """
        raise NotImplementedError

    def part(self, start_s: float, end_s: float) -> Self:
        """Return the sound of a part of this clip: the same samples as if it was decoded alone.

        What is before the part is there as far as it was decoded.
        """
        raise NotImplementedError


def decode_sound(
    path: Path | str,
    view: SoundView,
    *,
    start_s: float | None = None,
    end_s: float | None = None,
    accept_damaged: bool = False,
    indexes: Path | str | None = None,
) -> DecodedSound:
    """Decode the sound of a video, or of a part of it.

    Args:
        path: the video file.
        view: how many samples a second, and how much from before the part.
        start_s: where the part begins, in seconds; None for the beginning of the film.
        end_s: where the part ends; None for the end of the last picture, or of the sound if the
            film has no pictures.
        accept_damaged: return zeros in place of damaged sound.
        indexes: the folder that keeps the index of the film, for files with many clips.
    """
    message = "sound cannot be decoded yet"
    raise BadVideo(message, path=path, stage="decode", reason="no-sound")
