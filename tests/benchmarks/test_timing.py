from __future__ import annotations

import os
import sys

import pytest

from benchmarks.timing import (
    Comparison,
    Contestant,
    Timing,
    compare,
)
from obygaze_features.core.errors import FixInput, FixUsage
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


@pytest.mark.skipif(
    sys.platform != "linux", reason="ru_maxrss is read as Linux reports it"
)
def test_the_memory_of_a_command_is_its_own_and_not_ours():
    ballast = bytearray(os.urandom(1)) * 200_000_000
    small = [sys.executable, "-c", "pass"]
    large = [sys.executable, "-c", "x = bytearray(b'1') * 100_000_000"]
    contestants = [Contestant("small", small), Contestant("large", large)]
    found = compare("memory", contestants, reference="small", rounds=1)
    assert len(ballast) == 200_000_000
    peaks = {timing.name: timing.peak_rss_bytes for timing in found.timings}
    assert peaks["small"] < 50e6
    assert 100e6 < peaks["large"] < 160e6


def test_a_contestant_that_fails_ends_the_bench_and_is_named():
    failing = [sys.executable, "-c", "import sys; sys.exit('no such codec')"]
    with pytest.raises(FixInput, match="'rival' failed \\(1\\)") as caught:
        compare("t", [Contestant("rival", failing)], reference="rival", rounds=1)
    assert caught.value.hint == "no such codec"
    with pytest.raises(FixInput, match="'rival' failed \\(not started\\)"):
        compare(
            "t",
            [Contestant("rival", ["no-such-program-here"])],
            reference="rival",
            rounds=1,
        )


@pytest.mark.parametrize("names, reference", [(["a", "a"], "a"), (["a"], "b")])
def test_contestants_that_cannot_be_compared(names: list[str], reference: str) -> None:
    contestants = [Contestant(name, ["true"]) for name in names]
    with pytest.raises(FixUsage):
        compare("t", contestants, reference=reference, rounds=1)
