"""Choose the pictures of a clip that a model sees, by rank: no rate or duration is involved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from obygaze_features.core.errors import FixUsage
from obygaze_features.video.index import Bools, Floats, FrameIndex, Ints

Sampling = Literal["even", "keyframes", "fps"]

# Times are products of ticks: times that differ by less than this are equal.
ROUNDING_S = 1e-6


@dataclass(frozen=True)
class SampledRanks:
    """The ranks of the sampled pictures, the ranks the even rule asks for, and which are real."""

    index: Ints
    asked: Ints
    mask: Bools


def sample_indices(total: int, count: int) -> Ints:
    """Return int(i * total / count) for i = 0 .. count - 1, computed in whole numbers.

    With fewer pictures than `count` they repeat by the same rule. The indices for a divisor of
    `count` are among those for `count`.

    Args:
        total: how many pictures there are.
        count: how many of them to take.
    """
    if total < 1 or count < 1:
        raise FixUsage(f"total and count must be at least 1, got {total} and {count}")
    return np.arange(count, dtype=np.int64) * total // count


def span_of(
    times_s: Floats, start_s: float | None, end_s: float | None, last_s: float = 0.0
) -> tuple[int, int]:
    """Return the span of the pictures shown at a time t with start_s <= t < end_s.

    If no picture begins in that time, it is the one picture on the screen at start_s. `last_s` is
    how long the last one stays there. An empty span means that the time lies after the last
    picture, or before the video begins.
    """
    start = -math.inf if start_s is None else start_s
    end = math.inf if end_s is None else end_s
    if not start < end:
        what = f"the end must be after the start, got {start:g} s to {end:g} s"
        raise FixUsage(what, hint="an end after the start, in seconds")
    first, stop = np.searchsorted(
        times_s, [start - ROUNDING_S, end - ROUNDING_S], side="left"
    ).tolist()
    if first == stop and first > 0 and start < times_s[-1] + max(last_s - ROUNDING_S, ROUNDING_S):
        return first - 1, first
    if first == stop == 0 and len(times_s) and end > ROUNDING_S:
        return 0, 1
    return first, stop


def sample(
    index: FrameIndex,
    span: tuple[int, int],
    count: int,
    rule: Sampling,
    listed: Ints | None = None,
) -> SampledRanks:
    """Return the ranks of the pictures of a span, or of `listed` ones, by one of the rules.

    even: `sample_indices`. keyframes: each of those moved to the nearest key frame of the span
    (the earlier of two equally near); a span without one, or a file without times, keeps the
    even ones. fps: one picture a second, each int(rate) pictures, at most `count` of them evenly
    spread by linspace; with fewer, the other rows are masked.
    """
    first, stop = span
    if rule == "fps":
        return _one_a_second(first, stop, count, index.rate)
    pictures = np.arange(first, stop) if listed is None else listed
    asked = pictures[sample_indices(len(pictures), count)]
    ranks = _nearest_key(index, span, asked) if rule == "keyframes" else asked
    return SampledRanks(ranks, asked, np.ones(count, dtype=np.bool_))


def _nearest_key(index: FrameIndex, span: tuple[int, int], asked: Ints) -> Ints:
    ranks = np.sort(index.ranks[index.keys])
    ranks = ranks[(ranks >= span[0]) & (ranks < span[1])]
    if not index.timed or not len(ranks):
        return asked
    times = index.times_s
    after = np.searchsorted(ranks, asked).clip(0, len(ranks) - 1)
    before = (after - 1).clip(0)
    gap_after = np.abs(times[ranks[after]] - times[asked])
    gap_before = np.abs(times[ranks[before]] - times[asked])
    nearest: Ints = np.where(gap_before <= gap_after + ROUNDING_S, ranks[before], ranks[after])
    return nearest


def _one_a_second(first: int, stop: int, count: int, rate: float) -> SampledRanks:
    seconds = np.arange(first, stop, max(int(rate), 1), dtype=np.int64)
    if len(seconds) > count:
        seconds = seconds[np.linspace(0, len(seconds) - 1, num=count, dtype=np.int64)]
    mask = np.arange(count) < len(seconds)
    ranks = np.full(count, seconds[0], dtype=np.int64)
    ranks[: len(seconds)] = seconds
    return SampledRanks(ranks, ranks, mask)
