"""The exact table of a video's pictures, made from packets alone: which is when, where it starts.

Two orders are kept apart throughout. A *position* counts packets as they lie in the file (the
order of decoding); a *rank* counts pictures as they are shown, and is what people call the number
of a frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NO_PTS = np.iinfo(np.int64).min

Coded = Iterable[tuple[int, bytes]]
"""Positions and what their packets hold, in the order of the file."""


@dataclass(frozen=True)
class Run:
    """A stretch of packets to decode without a break, and the positions wanted from it."""

    start: int
    stop: int
    wanted: frozenset[int]


@dataclass(frozen=True, eq=False)
class FrameIndex:
    """One row for each packet of the video stream; arrays are in the order of decoding.

    `order` lists the position of each picture in the order of showing. With `timed` it follows
    from the times of the packets and is exact; without, it is the order of packets until the
    stream has been decoded once (`counted` is then true), and only its length may be trusted;
    `clock_s` may still say when pictures change.
    """

    pts: Ints
    size: Ints
    key: Bools
    order: Ints
    timed: bool
    counted: bool
    seconds_per_tick: float
    origin_s: float
    rate: float
    last_s: float
    broken: Bools
    clock_s: Floats | None = None

    @property
    def frames(self) -> int:
        """How many pictures are shown."""
        return len(self.order)

    @cached_property
    def times_s(self) -> Floats:
        """When each picture is shown, in seconds since the file began."""
        if self.timed:
            return self.pts[self.order] * np.float64(self.seconds_per_tick) - self.origin_s
        if self.clock_s is not None and len(self.clock_s) == self.frames:
            return self.clock_s
        return np.arange(self.frames, dtype=np.float64) / self.rate

    @property
    def duration_s(self) -> float:
        """From the first picture to the end of the last one."""
        if not self.frames:
            return 0.0
        return float(self.times_s[-1] - self.times_s[0]) + self.last_s

    @cached_property
    def ranks(self) -> Ints:
        """The rank of the picture at each position; -1 where the packet shows nothing."""
        ranks = np.full(len(self.pts), -1, dtype=np.int64)
        ranks[self.order] = np.arange(self.frames)
        return ranks

    @property
    def holes(self) -> Bools:
        """For each picture that is shown, whether a gap in time follows; never without times."""
        steps = np.diff(self.pts[self.order]) if self.timed else np.zeros(max(0, self.frames - 1))
        return np.append(steps > 1.5 * np.median(steps) if len(steps) else steps > 0, False)

    @cached_property
    def keys(self) -> Ints:
        """The positions of key frames."""
        return np.flatnonzero(self.key)

    def start_of(self, position: int, back: int = 0) -> int:
        """The key frame to decode from for a picture; `back` names an earlier one.

        A picture that is shown before a key frame but stored after it (an open group) hangs on
        the group before.
        """
        nth = int(np.searchsorted(self.keys, position, side="right")) - 1
        while nth > 0 and self._is_shown_before(position, int(self.keys[nth])):
            nth -= 1
        return int(self.keys[nth - back]) if nth - back >= 0 else 0

    def _is_shown_before(self, position: int, key: int) -> bool:
        if self.timed:
            return bool(self.pts[position] < self.pts[key])
        return self.counted and bool(0 <= self.ranks[position] < self.ranks[key])

    def runs(self, positions: Iterable[int], back: int = 0) -> list[Run]:
        """The fewest stretches of packets that hold `positions`, each from a key frame on."""
        spans = sorted((self.start_of(p, back), p) for p in positions)
        runs: list[Run] = []
        for start, position in spans:
            if runs and start <= runs[-1].stop + 1:
                last = runs[-1]
                wanted = last.wanted | {position}
                runs[-1] = Run(last.start, max(last.stop, position), wanted)
            else:
                runs.append(Run(start, position, frozenset({position})))
        return runs

    def lost(self, part: tuple[int, int], until_s: float) -> int:
        """How many pictures a damaged file lacks in a part that should reach to `until_s`.

        Gaps count only where all other pictures are evenly spaced.
        """
        times = self.times_s[part[0] : part[1]]
        steps = np.diff(times)
        step = float(np.median(steps)) if len(steps) else 1 / self.rate
        if step <= 0:
            return 0
        tail = max(0, round((until_s - times[-1]) / step) - 1)
        regular = len(steps) and np.mean(np.abs(steps - step) < step / 4) > 0.9
        gaps = np.rint(steps[steps > 1.5 * step] / step) - 1 if regular else np.zeros(0)
        return int(tail + gaps.sum())

    def with_order(self, order: Ints) -> FrameIndex:
        """The same packets with another list of pictures, learnt by decoding."""
        return replace(self, order=order, counted=True)

    def without_times(self) -> FrameIndex:
        """The same packets with times that say when, but no longer in which order."""
        clock = np.sort(self.times_s)
        return replace(self, order=np.sort(self.order), timed=False, counted=False, clock_s=clock)

    def agrees_with(self, out: Sequence[int]) -> bool:
        """Whether pictures came out of the decoder in the order of their times."""
        ranks = self.ranks[np.array(out, dtype=np.int64)]
        return bool((np.diff(ranks[ranks >= 0]) > 0).all())


def presentation_order(pts: Ints, shown: Bools, reorder: int) -> Ints | None:
    """Positions in the order of showing; None where the times cannot be trusted for it.

    They can where each picture has one, no two share one, and no picture is overtaken by more
    pictures than the codec can hold back (times in disorder).
    """
    positions = np.flatnonzero(shown)
    times = pts[positions]
    if (times == NO_PTS).any() or len(np.unique(times)) != len(times):
        return None
    if _is_overtaken_by_more(times, reorder):
        return None
    return positions[np.argsort(times, kind="stable")]


def _is_overtaken_by_more(times: Ints, most: int) -> bool:
    """Whether any picture is stored after more than `most` pictures that are shown after it."""
    if len(times) < 2:
        return False
    # The largest, second largest ... of the times before each; what a new largest pushes down
    # is a candidate for the next place.
    rest = times
    for _ in range(most + 1):
        largest = np.maximum.accumulate(rest)
        pushed = np.minimum(rest[1:], largest[:-1])
        rest = np.concatenate([[NO_PTS], pushed])
    return bool((largest[:-1] > times[1:]).any())


def clock_of(ticks: Ints, tick_s: float, origin_s: float | None) -> Floats | None:
    """When pictures change, where their times could not order them but can say at least that.

    Times that are all there and mostly unlike are sorted; from some the even step is taken. No
    picture is before 0; without an origin the first one is at 0.
    """
    (known,) = np.nonzero(ticks != NO_PTS)
    if len(known) < 2:
        return None
    if len(known) == len(ticks) and len(np.unique(ticks)) > len(ticks) // 2:
        clock = np.sort(ticks).astype(np.float64)
    else:
        first, last = int(known[0]), int(known[-1])
        step = float(ticks[last] - ticks[first]) / (last - first)
        if step <= 0:
            return None
        clock = ticks[first] + (np.arange(len(ticks)) - first) * step
    clock *= tick_s
    start = float(clock[0])
    return clock - (start if origin_s is None else min(origin_s, start))
