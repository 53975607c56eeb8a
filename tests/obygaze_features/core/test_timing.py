"""Timing repeated runs, and times as text."""

from __future__ import annotations

import pytest

from obygaze_features.core import timing
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.timing import Runs, duration, time_runs


class Clock:
    """A clock that only the work moves on; of the processor, half as fast."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.now / 2


@pytest.mark.parametrize(
    ("each_s", "taken"),
    [
        (0.1, 3),  # three after the first, which does not count
        (0.8, 1),  # the first and one more: a third would be over two seconds
        (1.5, 1),  # the first, which then counts
        (60.0, 1),
    ],
)
def test_dear_work_is_run_less_often(
    each_s: float, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)

    def work() -> None:
        clock.now += each_s

    def prepare() -> None:
        clock.now += 100

    found = time_runs(work, 3, prepare=prepare)
    assert found.wall_s == pytest.approx((each_s,) * taken)
    assert found.cpu_s == pytest.approx((each_s / 2,) * taken)


def test_no_rounds_are_no_bench() -> None:
    with pytest.raises(FixUsage, match="rounds must be at least 1, got 0"):
        time_runs(lambda: None, 0)


def test_medians_are_of_wall_and_cpu_time() -> None:
    runs = Runs((3.0, 1.0, 2.0), (0.5, 0.25))
    assert (runs.median_s, runs.median_cpu_s) == (2.0, 0.375)


@pytest.mark.parametrize(
    "seconds, text",
    [
        (1234.0, "1,234 s"),
        (12.34, "12.3 s"),
        (1.0, "1 s"),
        (0.5, "500 ms"),
        (0.0123, "12.3 ms"),
        (45e-6, "45 us"),
        (0.0, "0 us"),
        (0.9999, "1 s"),
    ],
)
def test_times_as_people_say_them(seconds, text):
    assert duration(seconds) == text
