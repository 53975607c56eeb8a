"""Which pictures of a clip a model sees: by rank, so that no rate or duration can mislead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from obygaze_features.core.errors import FixUsage
from obygaze_features.video.index import Bools, Floats, FrameIndex, Ints

Sampling = Literal["even", "keyframes", "fps"]

# Times are products of ticks: what differs by less than this is the same time.
ROUNDING_S = 1e-6


@dataclass(frozen=True)
class Choice:
    """The ranks of the pictures chosen, those asked for, and which of them are real."""

    index: Ints
    asked: Ints
    mask: Bools


def sample_indices(total: int, count: int) -> Ints:
    """int(i * total / count) for i = 0 .. count - 1, in whole numbers.

    With fewer pictures than `count` they repeat by the same rule. The indices for a divisor of
    `count` are among those for `count`.
    """
    if total < 1 or count < 1:
        raise FixUsage(f"cannot take {count} frames out of {total}")
    return np.arange(count, dtype=np.int64) * total // count


def part_of(
    times_s: Floats, start_s: float | None, end_s: float | None, last_s: float = 0.0
) -> tuple[int, int]:
    """The ranks [first, stop) of the pictures of a part: shown at t with start_s <= t < end_s.

    A part too short to hold the start of a picture is the one picture on the screen at start_s.
    `last_s` is how long the last one stays there. An empty range means that the part lies after
    the last picture, or before the video begins.
    """
    start = -math.inf if start_s is None else start_s
    end = math.inf if end_s is None else end_s
    if not start < end:
        what = f"a part must end after it starts, not from {start:g} to {end:g} s"
        raise FixUsage(what, hint="an end after the start, in seconds")
    first, stop = np.searchsorted(
        times_s, [start - ROUNDING_S, end - ROUNDING_S], side="left"
    ).tolist()
    if first == stop and first > 0 and start < times_s[-1] + max(last_s - ROUNDING_S, ROUNDING_S):
        return first - 1, first
    if first == stop == 0 and len(times_s) and end > ROUNDING_S:
        return 0, 1
    return first, stop


def choose(index: FrameIndex, part: tuple[int, int], count: int, sampling: Sampling) -> Choice:
    """The pictures of a part by one of the rules.

    even: `sample_indices`. keyframes: each of those moved to the nearest key frame of the part
    (the earlier of two equally near); a part without one, or a file without times, keeps the
    even ones. fps: one picture a second, each int(rate) pictures, at most `count` of them evenly
    spread by linspace; where there are fewer, the rest is empty and masked.
    """
    first, stop = part
    if sampling == "fps":
        return _one_a_second(first, stop, count, index.rate)
    asked = first + sample_indices(stop - first, count)
    chosen = _nearest_key(index, part, asked) if sampling == "keyframes" else asked
    return Choice(chosen, asked, np.ones(count, dtype=np.bool_))


def sample_times(
    index: FrameIndex,
    count: int,
    *,
    start_s: float | None = None,
    end_s: float | None = None,
    sampling: Sampling = "even",
) -> Floats:
    """When the chosen pictures are shown; NaN for those that stay empty."""
    choice = choose(index, part_of(index.times_s, start_s, end_s, index.last_s), count, sampling)
    return np.where(choice.mask, index.times_s[choice.index], np.nan)


def _nearest_key(index: FrameIndex, part: tuple[int, int], asked: Ints) -> Ints:
    ranks = np.sort(index.ranks[index.keys])
    ranks = ranks[(ranks >= part[0]) & (ranks < part[1])]
    if not index.timed or not len(ranks):
        return asked
    times = index.times_s
    after = np.searchsorted(ranks, asked).clip(0, len(ranks) - 1)
    before = (after - 1).clip(0)
    gap_after = np.abs(times[ranks[after]] - times[asked])
    gap_before = np.abs(times[ranks[before]] - times[asked])
    chosen: Ints = np.where(gap_before <= gap_after + ROUNDING_S, ranks[before], ranks[after])
    return chosen


def _one_a_second(first: int, stop: int, count: int, rate: float) -> Choice:
    seconds = np.arange(first, stop, max(int(rate), 1), dtype=np.int64)
    if len(seconds) > count:
        seconds = seconds[np.linspace(0, len(seconds) - 1, num=count, dtype=np.int64)]
    mask = np.arange(count) < len(seconds)
    chosen = np.full(count, seconds[0], dtype=np.int64)
    chosen[: len(seconds)] = seconds
    return Choice(chosen, chosen, mask)
