from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from obygaze_features.core.errors import FixUsage
from obygaze_features.video.damage import lost_in_time
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import PictureView
from obygaze_features.video.index import FrameIndex, find_span, sample, sample_indices


def index_of(times: list[float], keys: list[int], *, rate: float = 25.0) -> FrameIndex:
    """An index without reordering, in milliseconds."""
    pts = np.array([round(1000 * t) for t in times], dtype=np.int64)
    order = np.arange(len(pts))
    clock = {"seconds_per_tick": 0.001, "origin_s": 0.0, "rate": rate}
    facts = {"timed": True, "counted": False, "last_s": 1 / rate}
    for name in ("broken", "lost", "unused", "contradicted"):
        facts[name] = np.zeros(len(pts), dtype=np.bool_)
    of_pictures = {"size": np.ones_like(pts), "key": np.isin(order, keys)}
    return FrameIndex(pts=pts, order=order, **of_pictures, **clock, **facts)


@given(total=st.integers(1, 10_000_000), count=st.integers(1, 300))
def test_indices_are_exact_fractions(total: int, count: int) -> None:
    wanted = [int(Fraction(i * total, count)) for i in range(count)]
    assert sample_indices(total, count).tolist() == wanted


@pytest.mark.parametrize(("total", "count"), [(0, 8), (5, 0), (-1, 1)])
def test_nothing_to_take(total: int, count: int) -> None:
    with pytest.raises(FixUsage):
        sample_indices(total, count)


@given(
    steps=st.lists(st.integers(1, 500), min_size=1, max_size=60),
    start=st.integers(0, 20_000),
    length=st.integers(1, 20_000),
)
def test_a_part_holds_what_begins_in_it(steps, start, length) -> None:
    times = np.cumsum([0, *steps[1:]]) / 1000
    first, stop = find_span(times, start / 1000, (start + length) / 1000)
    stamps = [round(1000 * time) for time in times]
    inside = [i for i, ms in enumerate(stamps) if start <= ms < start + length]
    if inside:
        assert list(range(first, stop)) == inside
    elif start <= stamps[-1]:
        # The picture on the screen at the start.
        assert stop == first + 1
        assert first == max(i for i, ms in enumerate(stamps) if ms < start)
    else:
        assert first == stop


def test_a_part_by_its_bounds() -> None:
    times = np.arange(100) / 25
    assert find_span(times, None, None) == (0, 100)
    assert find_span(times, 1.0, 2.0) == (25, 50)
    assert find_span(times, -5.0, 0.04) == (0, 1)
    assert find_span(times, 3.0, 1000.0) == (75, 100)
    assert find_span(times, 3.96, None) == (99, 100)
    assert find_span(times, 4.5, None) == (100, 100)
    # The last picture is on the screen for as long as it is said to last.
    assert find_span(times, 3.97, 4.0, last_s=0.04) == (99, 100)
    assert find_span(times, 3.999, 9.0, last_s=0.04) == (99, 100)
    assert find_span(times, 4.0, 9.0, last_s=0.04) == (100, 100)
    # Nothing is on the screen before the first picture.
    assert find_span(times, -5.0, -1.0) == (0, 0)
    assert find_span(times + 2, 0.0, 2.0) == (0, 0)
    assert find_span(times + 2, 0.0, 2.01) == (0, 1)
    # 0.1 + 0.2 is a little more than 0.3; the picture at 0.3 s belongs to the part all the same.
    assert find_span(np.array([0.0, 0.3, 0.6]), 0.1 + 0.2, 0.6) == (1, 2)


@pytest.mark.parametrize(
    ("start", "end"), [(2.0, 2.0), (3.0, 1.0), (float("nan"), None)]
)
def test_a_part_must_have_a_length(start: float, end: float | None) -> None:
    with pytest.raises(FixUsage):
        find_span(np.arange(100) / 25, start, end)


def test_one_picture_a_second_of_a_long_clip() -> None:
    index = index_of([i / 25 for i in range(1000)], keys=[0])
    chosen = sample(index, (0, 1000), 12, "fps")
    # linspace(0, 39, 12) as whole numbers, 25 pictures apart.
    wanted = [int(39 * i / 11) * 25 for i in range(12)]
    assert chosen.index.tolist() == wanted
    assert chosen.mask.all()


def test_one_picture_a_second_goes_by_times_where_the_header_has_another_rate() -> None:
    # Twenty at 25 a second, one that lasts 2.5 s, then 5 a second.
    times = [n / 25 for n in range(20)] + [0.8] + [3.3 + n / 5 for n in range(9)]
    chosen = sample(index_of(times, keys=[0]), (0, 30), 12, "fps")
    shown = [max(n for n, time in enumerate(times) if time <= s) for s in range(5)]
    # The long one is on the screen at 1, 2 and 3 s.
    assert shown == [0, 20, 20, 20, 24]
    assert chosen.index[chosen.mask].tolist() == shown
    # Half the pictures that the header promises.
    halved = index_of([n / 12.5 for n in range(100)], keys=[0])
    chosen = sample(halved, (25, 75), 12, "fps")
    assert chosen.index[chosen.mask].tolist() == [25, 37, 50, 62]


def test_views_and_pictures_that_do_not_exist_are_refused() -> None:
    for count in (0, -1):
        with pytest.raises(FixUsage, match="count must be at least 1"):
            PictureView(count)
    with pytest.raises(FixUsage, match="unknown sampling 'keyframe'"):
        PictureView(4, "keyframe")  # type: ignore[arg-type]
    for ranks in ([-1], [3, -2], []):
        with pytest.raises(FixUsage, match="ranks must be frame numbers, at least 0"):
            decode_clip("film.mkv", PictureView(4), ranks=ranks)


@given(
    keys=st.sets(st.integers(1, 59), max_size=8),
    positions=st.lists(st.integers(0, 59), min_size=1, max_size=20),
    late=st.integers(0, 4),
)
def test_runs_hold_every_position_once(keys, positions, late) -> None:
    index = index_of([i / 25 for i in range(60)], keys=[0, *sorted(keys)])
    runs = index.runs(positions, late)
    assert sorted(p for run in runs for p in run.wanted) == sorted(set(positions))
    for run in runs:
        assert index.key[run.start] and min(max(run.wanted) + late, 59) == run.stop
        for wanted in run.wanted:
            assert run.start <= index.decoding_start(wanted) <= wanted <= run.stop
    for before, after in pairwise(runs):
        assert before.stop + 1 < after.start


@pytest.mark.parametrize("apart", [5, 30])
def test_a_declared_pause_explains_its_own_time_and_no_lost_packet(apart: int) -> None:
    """Half a second of pause from picture 50 on, and a packet that is gone some pictures on."""
    numbers = np.arange(100)
    numbers[50:] += 12
    durations = np.full(100, 40)
    durations[49] = 13 * 40
    intact = index_of([number / 25 for number in numbers], [0])
    assert lost_in_time(intact, numbers, durations) == []
    gone = 50 + apart
    shown = np.delete(numbers, gone)
    index = index_of([number / 25 for number in shown], [0])
    lost = lost_in_time(index, shown, np.delete(durations, gone))
    assert lost and min(lost) <= gone
