"""The index of a video's pictures, made from packets alone, and the sampling of pictures by rank.

Two ways of counting are distinguished throughout. A *position* counts packets in the order of the
file (the order of decoding). A *rank* counts pictures in display order, and is what is usually
called the frame number. A *span* (first, stop) is a range of ranks that excludes `stop`.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixUsage

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NO_PTS = np.iinfo(np.int64).min
# Times are products of ticks: times that differ by less than this are equal.
ROUNDING_S = 1e-6
# A part may end this long after its film, or this share of its length, whichever is more.
OVERSHOOT_S = 1.0
OVERSHOOT_SHARE = 0.1

CLOCK_SET_BACK = (
    "the clock of the file is set back in it, so that the times of a part mean nothing"
)

Sampling = Literal["even", "fps"]


@dataclass(frozen=True)
class PacketRun:
    """The packets from `start` to `stop` (both included), to decode without a break.

    `wanted` holds the positions of the wanted pictures. The decoder does not get the packets in
    `left_out`.
    """

    start: int
    stop: int
    wanted: frozenset[int]
    left_out: frozenset[int] = frozenset()


@dataclass(frozen=True, eq=False)
class FrameIndex:
    """One row for each packet of the video stream; arrays are in the order of decoding.

    `order` lists the position of each picture in display order. If `timed` is true, it follows from
    the times of the packets and is exact. Otherwise it is exact only after the stream has been
    decoded once, when `counted` becomes true. Before that, it is the order of the packets, and only
    its length is reliable; `clock_s` may then hold the times at which pictures change. `jump` is
    the first position at which the clock of the file was set back, as in joined recordings, or -1
    if it never was; after such a jump, the times of pictures are computed by counting. `broken`
    marks damaged packets. `lost` marks packets before which packets are missing. `unused` marks
    packets that no other picture needs. `contradicted` marks packets that state a different order
    than their times. `pts_are_times` is true if the container stores when pictures are shown; in
    other containers, the times of packets are guessed.
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
    lost: Bools
    unused: Bools
    contradicted: Bools
    clock_s: Floats | None = None
    pts_are_times: bool = False
    jump: int = -1

    @property
    def is_certain(self) -> bool:
        """Return whether the display order of pictures is known without decoding them."""
        return self.timed and not self.contradicted.any()

    @property
    def has_clock(self) -> bool:
        """Return whether a picture can be found by its time."""
        return self.timed or self.jump < 0

    @property
    def frames(self) -> int:
        """Return the number of pictures that are shown."""
        return len(self.order)

    @cached_property
    def times_s(self) -> Floats:
        """Return when each picture is shown, in seconds from the beginning of the file."""
        if self.timed:
            return (
                self.pts[self.order] * np.float64(self.seconds_per_tick) - self.origin_s
            )
        if self.clock_s is not None and len(self.clock_s) == self.frames:
            return self.clock_s
        return np.arange(self.frames, dtype=np.float64) / self.rate

    @cached_property
    def boundaries_s(self) -> Floats:
        """Return when each picture begins, and when the last picture ends."""
        # The last packet of some files does not state how long its picture lasts.
        last_s = self.last_s or 1 / self.rate
        return np.append(self.times_s, self.times_s[-1] + last_s)

    @property
    def duration_s(self) -> float:
        """Return the time from the start of the first picture to the end of the last picture."""
        if not self.frames:
            return 0.0
        return float(self.times_s[-1] - self.times_s[0]) + self.last_s

    @cached_property
    def ranks(self) -> Ints:
        """Return the rank of the picture at each position; -1 where the packet shows none."""
        ranks = np.full(len(self.pts), -1, dtype=np.int64)
        ranks[self.order] = np.arange(self.frames)
        return ranks

    @cached_property
    def keys(self) -> Ints:
        """Return the positions of key frames."""
        return np.flatnonzero(self.key)

    @cached_property
    def has_open_groups(self) -> bool:
        """Return whether pictures are shown before a key frame but stored after it."""
        ranks = np.where(self.ranks < 0, self.frames, self.ranks)
        earliest = np.minimum.accumulate(ranks[::-1])[::-1]
        return bool((earliest[self.keys] < ranks[self.keys]).any())

    @property
    def has_damage(self) -> bool:
        """Return whether packets are damaged or missing."""
        return bool(self.broken.any() or self.lost.any())

    def decoding_start(self, position: int, back: int = 0) -> int:
        """Return the position of the key frame from which to decode a picture.

        With `back`, return the key frame that is so many key frames earlier. A picture that is
        shown before a key frame but stored after it (an open group of pictures) depends on the
        group of pictures before that key frame.
        """
        shown_at = self.pts if self.timed else self.ranks
        knows = self.timed or (self.counted and shown_at[position] >= 0)
        nth = int(np.searchsorted(self.keys, position, side="right")) - 1
        while nth >= 0 and knows and shown_at[position] < shown_at[self.keys[nth]]:
            nth -= 1
        return int(self.keys[nth - back]) if nth - back >= 0 else 0

    def decoding_starts(self, positions: Iterable[int]) -> set[int]:
        """Return the key frames from which to decode some pictures."""
        return {self.decoding_start(position) for position in positions}

    def runs(self, positions: Iterable[int], late: int) -> list[PacketRun]:
        """Return the fewest runs of packets that hold `positions`.

        Each run begins at a key frame and contains `late` packets after its last wanted position.
        """
        spans = sorted((self.decoding_start(p), p) for p in positions)
        runs: list[PacketRun] = []
        first = 0
        stop = -1
        wanted = list[int]()
        for start, position in spans:
            if wanted and start > stop + 1:
                runs.append(PacketRun(first, stop, frozenset(wanted)))
                wanted = []
            if not wanted:
                first = start
                stop = position
            stop = max(stop, min(position + late, len(self.pts) - 1))
            wanted.append(position)
        if wanted:
            runs.append(PacketRun(first, stop, frozenset(wanted)))
        return runs

    def shown_before(self, key: int, stop: int) -> list[int]:
        """Return the pictures that are shown before a key frame but stored after it.

        Only packets up to `stop` are searched.
        """
        ranks = self.ranks[key : stop + 1]
        is_before = (ranks >= 0) & (ranks < ranks[0])
        positions: list[int] = (np.flatnonzero(is_before) + key).tolist()
        return positions

    def expected_pictures(self, run: PacketRun) -> set[int]:
        """Return the pictures of a run, up to the last wanted one, that the decoder must output.

        Pictures that are shown before the first key frame of the run are not expected, because they
        need the group of pictures before the run.
        """
        last = max(run.wanted)
        shown = np.flatnonzero(self.ranks[run.start : last + 1] >= 0) + run.start
        early = self.shown_before(run.start, last)
        return set(shown.tolist()).difference(early, run.left_out) | run.wanted

    def without_unused(self, run: PacketRun) -> PacketRun:
        """Return a run without the packets that are not wanted and that no other picture needs."""
        unused = np.flatnonzero(self.unused[run.start : run.stop + 1]) + run.start
        return replace(run, left_out=frozenset(unused.tolist()) - run.wanted)

    def without_keys(self, positions: Sequence[int]) -> Self:
        """Return the index in which the packets at `positions` are no longer key frames."""
        key = self.key.copy()
        key[list(positions)] = False
        return replace(self, key=key)

    def with_order(self, order: Ints) -> Self:
        """Return the index with this display order, which was found by decoding."""
        return replace(self, order=order, counted=True)

    def with_times(self, order: Ints) -> Self:
        """Return the index with this display order, in which pictures are sorted by their times."""
        steps = np.diff(self.pts[order])
        last_s = (
            float(np.median(steps)) * self.seconds_per_tick
            if len(steps)
            else self.last_s
        )
        return replace(self, order=order, timed=True, clock_s=None, last_s=last_s)

    def without_times(self) -> Self:
        """Return the index sorted by position; `clock_s` gets the times of picture changes."""
        clock = np.sort(self.times_s)
        return replace(
            self, order=np.sort(self.order), timed=False, counted=False, clock_s=clock
        )

    def find_affected(self, damage: Collection[int], positions: Sequence[int]) -> Bools:
        """Return for each picture whether it, or a picture that it may need, is damaged or missing.

        `damage` holds the positions at which a decoder found an error. If ranks come from counting
        decoded pictures, damage in a picture also affects pictures that are stored before the
        damaged one but may be shown after it.
        """
        starts = np.array(
            [self.decoding_start(position) for position in positions], np.int64
        )
        stops = np.array(positions, np.int64) + 1
        if not self.timed and self.counted:
            stops = self._counted_stops(stops - 1)
        is_broken = self.broken.copy()
        is_broken[list(damage)] = True
        n_broken = np.append(0, np.cumsum(is_broken))
        n_lost = np.append(0, np.cumsum(self.lost))
        has_broken: Bools = n_broken[stops] > n_broken[starts]
        has_lost: Bools = n_lost[stops] > n_lost[starts + 1]
        # The packet behind a reported one may have a wrong time, or the reported one's picture.
        # At the beginning of the film, packets only lack references.
        is_near = is_broken.copy()
        first_whole = int(np.argmin(is_broken))
        behind = np.array([at + 1 for at in damage if at > first_whole], np.int64)
        is_near[behind[behind < len(is_near)]] = True
        n_in_stretch = np.bincount(self._stretches, weights=is_near[self.order])
        ranks = self.ranks[positions]
        in_stretch = n_in_stretch[self._stretches[ranks]] > 0
        return has_broken | has_lost | ((ranks >= 0) & in_stretch)

    @cached_property
    def _stretches(self) -> Ints:
        """Return a number for each picture; pictures with equal numbers may have exchanged times.

        If pictures cannot be sorted by their times, the times are sorted and assigned to them. A
        damaged time then moves the times of other pictures.
        """
        numbers = np.arange(self.frames)
        times = self.pts[self.order]
        if self.clock_s is None:
            return numbers
        if (times == NO_PTS).any():
            # Where some times are missing, all are computed from the first and the last one.
            return np.zeros_like(numbers) if self.pts_are_times else numbers
        by_time = np.argsort(times, kind="stable")
        is_last = np.maximum.accumulate(by_time) == numbers
        stretches: Ints = np.cumsum(is_last) - is_last
        return stretches

    def _counted_stops(self, positions: Ints) -> Ints:
        """Return for each picture where the packets end whose damage may shift its rank by one."""
        stored = np.sort(self.order)
        places = np.searchsorted(stored, positions)
        n_early = int((np.arange(self.frames) - self.ranks[stored]).min(initial=0))
        after = np.minimum(self.ranks[positions] - n_early, self.frames - 1)
        return np.maximum(stored[np.maximum(after, places)], positions) + 1

    def correct_order(self, out: Sequence[int], damage: Collection[int]) -> Self:
        """Return the index with the pictures that came out of the decoder.

        The pictures are sorted by their times if these are reliable, or else by the order in which
        they came out. A picture that damage has destroyed keeps its place. If there is no damage, a
        packet that showed no picture loses its place. `damage` holds the positions at which the
        decoder found an error.
        """
        absent = np.setdiff1d(self.order, out).tolist()
        lost = np.array(absent, np.int64)[self.find_affected(damage, absent)].tolist()
        # Damage can disturb the order in which pictures come out, but not their times.
        is_damaged = len(damage) > 0 or self.has_damage
        if self.timed and (is_damaged or self.agrees_with(out)):
            positions = np.union1d(out, lost).astype(np.int64)
            positions = positions[self.pts[positions] != NO_PTS]
            return self.with_order(
                positions[np.argsort(self.pts[positions], kind="stable")]
            )
        times = self.pts[out]
        if (
            self.pts_are_times
            and not lost
            and (times != NO_PTS).all()
            and (np.diff(times) > 0).all()
        ):
            # Only packets that show nothing had no time, or the time of another packet.
            return self.with_times(np.array(out, dtype=np.int64)).with_order(
                np.array(out)
            )
        # Each lost picture is inserted before the first picture that has a later position.
        order = np.array(out, dtype=np.int64)
        insert_at = np.searchsorted(np.maximum.accumulate(order), lost)
        return self.without_times().with_order(np.insert(order, insert_at, lost))

    def agrees_with(self, out: Sequence[int]) -> bool:
        """Return whether pictures came out of the decoder in the order of their times."""
        ranks = self.ranks[np.array(out, dtype=np.int64)]
        return bool((np.diff(ranks[ranks >= 0]) > 0).all())


def presentation_order(
    pts: Ints, shown: Bools, key: Bools, reorder: int
) -> Ints | None:
    """Return positions in display order; None if the times are not reliable.

    Times are reliable if each picture has a time, no two times are equal, and few pictures are
    reordered. In the file, a picture may be stored after at most `reorder` pictures that are shown
    later. A key frame may not be stored after any picture that is shown later.
    """
    positions = np.flatnonzero(shown)
    times = pts[positions]
    if (times == NO_PTS).any() or n_distinct(times) != len(times):
        return None
    if len(times) < 2:
        return positions
    is_early = np.maximum.accumulate(times)[:-1] > times[1:]
    if (is_early & key[positions][1:]).any():
        return None
    # The running largest, second largest ... of the times: a value that a new largest replaces
    # is a candidate for the next place.
    remaining = times
    for _ in range(reorder + 1):
        largest = np.maximum.accumulate(remaining)
        remaining = np.concatenate([[NO_PTS], np.minimum(remaining[1:], largest[:-1])])
    if (largest[:-1] > times[1:]).any():
        return None
    return positions[np.argsort(times, kind="stable")]


def n_distinct(values: Ints) -> int:
    """Return how many different values there are."""
    # `np.unique` imports a part of numpy that takes longer than all else here.
    steps = np.diff(np.sort(values))
    return int(np.count_nonzero(steps)) + min(1, len(values))


def find_clock(ticks: Ints, tick_s: float, origin_s: float) -> Floats | None:
    """Return when pictures change, from times by which pictures cannot be sorted; None if unknown.

    If no time is missing and most times are different, the times are sorted. Otherwise, pictures
    get times with a constant step. No picture gets a time before 0.
    """
    (with_time,) = np.nonzero(ticks != NO_PTS)
    if len(with_time) < 2:
        return None
    if len(with_time) == len(ticks) and n_distinct(ticks) > len(ticks) // 2:
        clock = np.sort(ticks).astype(np.float64)
    else:
        first = int(with_time[0])
        last = int(with_time[-1])
        earliest = ticks[with_time].min()
        step = float(ticks[with_time].max() - earliest) / (last - first)
        if step <= 0:
            return None
        clock = earliest + (np.arange(len(ticks)) - first) * step
    clock *= tick_s
    return clock - min(origin_s, float(clock[0]))


def each_second(times_s: Floats, rate: float) -> Ints:
    """Return which of the pictures shown at `times_s` are sampled, one for each second.

    If the pictures follow each other at the frame rate in the header of the film, every
    int(rate)-th picture is sampled. Otherwise the pictures on the screen at the first time and at
    each second after it are sampled: a picture that stays on the screen longer is sampled several
    times.
    """
    step_s = 1 / rate
    late_s = np.diff(times_s) - step_s
    is_at_rate = np.abs(late_s) < step_s / 2
    if is_at_rate.all():
        return np.arange(0, len(times_s), max(int(rate), 1), dtype=np.int64)
    seconds = np.arange(times_s[0], times_s[-1] + ROUNDING_S, 1.0) + ROUNDING_S
    on_screen: Ints = np.searchsorted(times_s, seconds, side="right") - 1
    return on_screen


@dataclass(frozen=True)
class SampledRanks:
    """The ranks of the sampled pictures (`index`), and which are real and not padding (`mask`)."""

    index: Ints
    mask: Bools


def sample_indices(total: int, count: int) -> Ints:
    """Return int(i * total / count) for i = 0 .. count - 1, computed in whole numbers.

    If `total` is less than `count`, some indices repeat. If a number divides `count`, the indices
    for this number are among the indices for `count`.

    Args:
        total: how many pictures there are.
        count: how many of them to take.
    """
    if total < 1 or count < 1:
        raise FixUsage(f"total and count must be at least 1, got {total} and {count}")
    return np.arange(count, dtype=np.int64) * total // count


def find_span(
    times_s: Floats, start_s: float | None, end_s: float | None, last_s: float = 0.0
) -> tuple[int, int]:
    """Return the span of the pictures shown at a time t with start_s <= t < end_s.

    If no picture begins in that time, the span is the one picture that is on the screen at start_s.
    `last_s` is how long the last picture stays on the screen. An empty span means that the part
    lies after the last picture or before the first picture.
    """
    start, end = check_bounds(start_s, end_s)
    first, stop = np.searchsorted(
        times_s, [start - ROUNDING_S, end - ROUNDING_S], side="left"
    ).tolist()
    if (
        first == stop
        and first > 0
        and start < times_s[-1] + max(last_s - ROUNDING_S, ROUNDING_S)
    ):
        return first - 1, first
    return first, stop


def check_bounds(start_s: float | None, end_s: float | None) -> tuple[float, float]:
    """Return the start and the end of a part; raise an error unless the end is later."""
    start = -math.inf if start_s is None else start_s
    end = math.inf if end_s is None else end_s
    if not start < end:
        raise FixUsage(f"the end must be after the start, got {start:g} s to {end:g} s")
    return start, end


def overshoot(
    film_end_s: float, start_s: float | None, end_s: float | None
) -> str | None:
    """Return the message that a part ends too long after its film; None if it does not.

    A part may end `OVERSHOOT_S` seconds after its film, or `OVERSHOOT_SHARE` of its own length if
    that is longer: times that were rounded, or measured on another copy of the film, may lie a
    little after the end of the film.
    """
    if end_s is None:
        return None
    after_s = end_s - film_end_s
    length_s = end_s - max(start_s or 0.0, 0.0)
    if after_s <= OVERSHOOT_S or after_s <= OVERSHOOT_SHARE * length_s:
        return None
    return f"the part ends at {end_s:g} s, the film at {film_end_s:.2f} s"


def remark_on_pictures(
    index: FrameIndex, start_s: float | None, end_s: float | None
) -> str:
    """Return a remark if a part begins before the first picture of a film or ends after the last.

    Return "" if the difference is at most the length of two pictures.
    """
    begins_s = float(index.times_s[0])
    ends_s = float(index.times_s[-1]) + index.last_s
    mean_s = index.duration_s / index.frames
    most_s = 2 * max(index.last_s, mean_s) + ROUNDING_S
    remarks = []
    if start_s is not None:
        late_s = begins_s - max(start_s, 0.0)
        if late_s > most_s:
            remarks.append(
                f"the pictures begin at {begins_s:.1f} s, {late_s:.1f} s after the beginning of"
                " the clip"
            )
    if end_s is not None and end_s - ends_s > most_s:
        early_s = end_s - ends_s
        remarks.append(
            f"the pictures end at {ends_s:.1f} s, {early_s:.1f} s before the end of the clip"
        )
    return "; ".join(remarks)


def sample(
    index: FrameIndex,
    span: tuple[int, int],
    count: int,
    rule: Sampling,
    listed: Ints | None = None,
) -> SampledRanks:
    """Return the ranks of the pictures of a span, or of `listed` ones, by one of the rules.

    The rule "even" samples by `sample_indices`. The rule "fps" samples the span by `each_second`
    and does not use `listed`. If this gives more than `count` pictures, `count` of them are taken,
    evenly spread by linspace. If it gives fewer, the remaining rows are masked.
    """
    first, stop = span
    if rule == "fps":
        seconds = first + each_second(index.times_s[first:stop], index.rate)
        if len(seconds) > count:
            spread = np.linspace(0, len(seconds) - 1, num=count, dtype=np.int64)
            seconds = seconds[spread]
        mask = np.arange(count) < len(seconds)
        ranks = np.full(count, seconds[0], dtype=np.int64)
        ranks[: len(seconds)] = seconds
        return SampledRanks(ranks, mask)
    pictures = np.arange(first, stop) if listed is None else listed
    ranks = pictures[sample_indices(len(pictures), count)]
    return SampledRanks(ranks, np.ones(count, dtype=np.bool_))
