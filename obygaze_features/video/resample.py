"""Sound as numbers: the channels of decoded frames mixed into one, and another rate.

Libraries change their filters with their releases. The filter here is a fixed table, and sums are
made in float64, always of the same samples in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.files import sha256_bytes
from obygaze_features.video.index import Floats

Samples = NDArray[np.float32]

# The places that count half in power; those of bass do not count, and all others count whole.
_QUIET = ("FC", "BL", "BR", "BC", "SL", "SR")
_HALF_POWER = math.sqrt(0.5)
_WITHOUT_PLACE = ("LFE", "LFE2")
# The values of FFmpeg's formats; those with planes have a "p" behind.
_TYPES = {
    "u8": np.uint8,
    "s16": np.int16,
    "s32": np.int32,
    "s64": np.int64,
    "flt": np.float32,
    "dbl": np.float64,
}
# The filter: a sinc of so many zeros on each side, under a Kaiser window, that ends a little below
# half the lower rate.
_ZEROS = 10
_BETA = 6.0
_ROLL_OFF = 0.92


def mixed(frames: Iterable[Any]) -> Samples:
    """Return decoded frames as one channel: the mean of all, with weights by their places."""
    parts = [np.zeros(0, np.float32)]
    kinds = groupby(frames, key=lambda frame: (frame.format.name, frame.layout.name))
    for (format_name, _), of_one_kind in kinds:
        alike = list(of_one_kind)
        names = [channel.name for channel in alike[0].layout.channels]
        parts.append(_mean(_channels(alike, format_name, len(names)), names))
    return np.concatenate(parts)


def _channels(
    frames: Sequence[Any], format_name: str, n_channels: int
) -> Sequence[NDArray[Any]]:
    """Return the values of each channel of frames of one format."""
    dtype = _TYPES[format_name.removesuffix("p")]
    is_planar = format_name.endswith("p")
    n_together = 1 if is_planar else n_channels
    planes: list[list[NDArray[Any]]] = []
    for frame in frames:
        n_values = frame.samples * n_together
        planes.append([np.frombuffer(plane, dtype, n_values) for plane in frame.planes])
    whole = [np.concatenate(plane) for plane in zip(*planes, strict=True)]
    # If a plane has all channels, their samples alternate.
    return whole if is_planar else list(whole[0].reshape(-1, n_channels).T)


def _mean(channels: Sequence[NDArray[Any]], names: Sequence[str]) -> Samples:
    """Return the weighted mean of channels, in the range from -1 to 1."""
    dtype = channels[0].dtype
    scale = 1.0 if dtype.kind == "f" else 2.0 ** (1 - 8 * dtype.itemsize)
    weights = [_weight(name) for name in names]
    total = sum(weights) or 1.0
    mean = np.zeros(len(channels[0]), np.float32)
    for channel, weight in zip(channels, weights, strict=True):
        if weight:
            values = channel.astype(np.float32, copy=False)
            if dtype.kind == "u":
                values = values - np.float32(128)
            mean += values * np.float32(weight * scale / total)
    return mean


def _weight(name: str) -> float:
    """Return how much a channel counts, by its place as FFmpeg names it."""
    if name in _WITHOUT_PLACE:
        return 0.0
    return _HALF_POWER if name in _QUIET else 1.0


class Resampler:
    """Changes the rate of sections that begin at a whole second, the same from every beginning.

    A section needs `margin` samples more on both sides.
    """

    def __init__(self, rate: int, new_rate: int) -> None:
        common = math.gcd(rate, new_rate)
        self.up = new_rate // common
        self.down = rate // common
        half = _ZEROS * max(self.up, self.down)
        self.margin = -(-half // self.up)
        centre = self.margin * self.up + half
        # With zeros before it, the filter is centred on the first new sample.
        n_before = -centre % self.down
        self.first = (centre + n_before) // self.down
        self.taps = np.append(np.zeros(n_before), _taps(half, self.up, self.down))

    def __call__(self, samples: Samples, n_new: int) -> Samples:
        """Return so many new samples, of the old ones with their margins."""
        if self.up == self.down:
            return samples[self.margin : self.margin + n_new]
        # Its import takes a second.
        from scipy.signal import upfirdn

        new = upfirdn(self.taps, samples.astype(np.float64), self.up, self.down)
        part: Samples = new[self.first : self.first + n_new].astype(np.float32)
        return part


def _taps(half: int, up: int, down: int) -> Floats:
    """Return the filter: what passes keeps its level, half the lower rate does not pass."""
    cutoff = _ROLL_OFF / max(up, down)
    taps = np.sinc(np.arange(-half, half + 1) * cutoff) * np.kaiser(2 * half + 1, _BETA)
    # Each new sample is a sum over every `up`-th tap.
    scaled: Floats = taps * (up / taps.sum())
    return scaled


@cache
def resampler(rate: int, new_rate: int) -> Resampler:
    """Return the one resampler from one rate to another."""
    return Resampler(rate, new_rate)


@cache
def resampling_sha256() -> str:
    """Return a hash of synthetic sound in another rate.

    Recipes contain it: it changes if the library resamples to other samples.
    """
    wave = ((np.arange(9600) * 37 + np.arange(9600) ** 2) % 2003 / 1001.5 - 1).astype(
        np.float32
    )
    results = [resampler(rate, 16000)(wave, 2000) for rate in (48000, 44100, 8000)]
    return sha256_bytes(b"".join(result.tobytes() for result in results))
