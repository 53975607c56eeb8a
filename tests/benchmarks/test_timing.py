from __future__ import annotations

import pytest

from benchmarks.timing import (
    Comparison,
    Timing,
)
from obygaze_features.core.machine import Machine

pytestmark = pytest.mark.check("benchmarks")

MACHINE = Machine("CPU", 2, "Linux x86_64", "3.11.7", {})


def result(**cpu: tuple[float, ...]) -> Comparison:
    timings = tuple(Timing(name, cpu_s, cpu_s) for name, cpu_s in cpu.items())
    return Comparison("title", "ours", timings, MACHINE)


def test_a_ratio_is_the_median_over_pairs_not_the_ratio_of_medians():
    # The machine became four times slower in the last two rounds: each pair still says 3.
    found = result(ours=(1.0, 1.0, 4.0, 4.0, 1.0), theirs=(3.0, 3.0, 12.0, 12.0, 2.0))
    assert found.ratio("theirs") == 3.0
    assert found.ratio("ours") == 1.0
