"""Mix the channels of decoded sound into one, and change its sample rate.

Libraries change their filters between releases. Here, the filter is a fixed table. Its numbers and
the samples are rounded to so few bits that float64 holds their sums exactly. Therefore the sums do
not depend on the order of addition, nor on the library that multiplies the matrices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from obygaze_features.core.files import sha256_bytes
from obygaze_features.video.index import Floats

Samples = NDArray[np.float32]

# Channels at these places count with half their power, bass channels do not count, and all other
# channels count with their whole power.
_QUIET = ("FC", "BL", "BR", "BC", "SL", "SR")
_HALF_POWER = math.sqrt(0.5)
_WITHOUT_PLACE = ("LFE", "LFE2")
# The types of the values in FFmpeg's formats; the name of a format with planes ends in "p".
_TYPES = {
    "u8": np.uint8,
    "s16": np.int16,
    "s32": np.int32,
    "s64": np.int64,
    "flt": np.float32,
    "dbl": np.float64,
}
# The filter: a sinc with this many zeros on each side, times a Kaiser window. Its cutoff is a
# little below half the lower rate.
_ZEROS = 10
_BETA = 6.0
_ROLL_OFF = 0.92
# Sums of products of such steps have at most 53 bits, unless samples are above 3.
_TAP_STEP = 2.0**-26
_SAMPLE_STEP = np.float32(2.0**-24)
# The layouts that FFmpeg assumes for these numbers of channels where a file states none.
_USUAL_LAYOUTS = {6: "5.1", 8: "7.1"}
# The number of new samples in a group, and of multiplications at once: for so few, no library
# starts threads.
_GROUP = 16
_AT_ONCE = 2**18


# NaN and infinite samples stay so, without a warning.
_quiet = np.errstate(over="ignore", invalid="ignore")


@_quiet
def mix_to_mono(frames: Iterable[Any]) -> Samples:
    """Return decoded frames as one channel: the mean of all channels, weighted by their places."""
    parts = [np.zeros(0, np.float32)]
    kinds = groupby(frames, key=lambda frame: (frame.format.name, frame.layout.name))
    for (format_name, _), of_one_kind in kinds:
        alike = list(of_one_kind)
        names = _names(alike[0].layout)
        parts.append(_mean(_channels(alike, format_name, len(names)), names))
    return np.concatenate(parts)


def _names(layout: Any) -> list[str]:
    """Return the place of each channel, such as FL (front left), as FFmpeg names it.

    Where a file states no places, as Matroska may, the usual places for 6 or 8 channels are used.
    """
    names = [channel.name for channel in layout.channels]
    usual = _USUAL_LAYOUTS.get(len(names))
    if usual is None or {*names} != {"NONE"}:
        return names
    return [channel.name for channel in type(layout)(usual).channels]


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
            # The mean is counted in steps, so that it can be rounded to whole steps.
            mean += values * np.float32(weight * scale / total / _SAMPLE_STEP)
    np.rint(mean, out=mean)
    mean *= _SAMPLE_STEP
    return mean


def _weight(name: str) -> float:
    """Return the weight of a channel, by its place as FFmpeg names it."""
    if name in _WITHOUT_PLACE:
        return 0.0
    return _HALF_POWER if name in _QUIET else 1.0


class Resampler:
    """Changes the sample rate of sections that begin at a whole second.

    Before and after a section, `margin` more samples are needed. The rates have a common period:
    after each period, new samples lie at the same places among the old samples again. The new
    samples of a period are computed in groups. To compute a group, the old samples around it are
    multiplied by a matrix.
    """

    def __init__(self, rate: int, new_rate: int) -> None:
        common = math.gcd(rate, new_rate)
        self.up = new_rate // common
        self.down = rate // common
        half = _ZEROS * max(self.up, self.down)
        self.margin = -(-half // self.up)
        self.period = self.up * -(-_GROUP // self.up)
        self.old_period = self.period * self.down // self.up
        taps = _taps(half, self.up, self.down)
        # Of each group: its first new sample, its first old one, and the matrix.
        self.groups: list[tuple[int, int, Floats]] = []
        for begin in range(0, self.period, _GROUP):
            stop = min(begin + _GROUP, self.period)
            # Places are counted in steps that divide the intervals of both rates.
            new_places = np.arange(begin, stop) * self.down
            first = self.margin + -((half - int(new_places[0])) // self.up)
            last = self.margin + (int(new_places[-1]) + half) // self.up
            old_places = (np.arange(first, last + 1) - self.margin) * self.up
            apart = new_places - old_places[:, None]
            inside = np.clip(apart, -half, half)
            matrix = np.where(apart == inside, taps[half + inside], 0.0)
            self.groups.append((begin, first, matrix))

    @_quiet
    def __call__(self, samples: Samples, n_new: int) -> Samples:
        """Return `n_new` new samples, from the old samples of a section with both margins."""
        if self.up == self.down:
            return samples[self.margin : self.margin + n_new]
        old = np.pad(samples, (0, self.old_period))
        n_periods = -(-n_new // self.period)
        new = np.empty((n_periods, self.period), np.float32)
        for begin, first, matrix in self.groups:
            windows = sliding_window_view(old, len(matrix))[first :: self.old_period]
            columns = slice(begin, begin + matrix.shape[1])
            n_rows = max(1, _AT_ONCE // matrix.size)
            for row in range(0, n_periods, n_rows):
                rows = slice(row, min(row + n_rows, n_periods))
                new[rows, columns] = windows[rows].astype(np.float64) @ matrix
        return new.ravel()[:n_new]


def _taps(half: int, up: int, down: int) -> Floats:
    """Return the low-pass filter: gain 1 in the pass band, gain 0 at half the lower rate."""
    cutoff = _ROLL_OFF / max(up, down)
    taps = np.sinc(np.arange(-half, half + 1) * cutoff) * np.kaiser(2 * half + 1, _BETA)
    # Each new sample is a sum over every `up`-th tap.
    taps *= up / taps.sum()
    rounded: Floats = np.rint(taps / _TAP_STEP) * _TAP_STEP
    return rounded


@cache
def resampler(rate: int, new_rate: int) -> Resampler:
    """Return the resampler from one rate to another, which is made only once."""
    return Resampler(rate, new_rate)


@cache
def resampling_sha256() -> str:
    """Return a hash of resampled synthetic sound.

    Recipes contain this hash, because it changes if resampling gives different samples.
    """
    numbers = (np.arange(9600) * 37 + np.arange(9600) ** 2) % 2003 - 1001
    wave = (numbers / 1024).astype(np.float32)
    results = [resampler(rate, 16000)(wave, 2000) for rate in (48000, 44100, 8000)]
    return sha256_bytes(b"".join(result.tobytes() for result in results))
