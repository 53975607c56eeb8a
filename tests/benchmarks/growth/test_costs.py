"""How growth is read from times: powers, steps and words, worked out by hand."""

from __future__ import annotations

import json

import pytest

from benchmarks.growth.costs import Cost, Growth, counted, growth_word, merged
from benchmarks.growth.figure import draw_growth
from obygaze_features.core.machine import Machine, Runs

pytestmark = pytest.mark.check("benchmarks")

MACHINE = Machine("CPU", 2, "Linux x86_64", "3.11.7", {})
SIZES = (10, 100, 1000, 10_000)


def growth(*costs: Cost) -> Growth:
    return Growth("Clips", "clips", SIZES, costs, MACHINE, {"films": "made up"})


def of_power(power: float, name: str = "work", least: float = 0.0) -> Cost:
    return Cost(name, tuple(counted(max(1e-3 * size**power, least)) for size in SIZES))


@pytest.mark.parametrize(
    ("power", "word"),
    [
        (0.0, "below linear"),
        (0.5, "below linear"),
        (0.9, "linear"),
        (1.0, "linear"),
        (1.2, "linear"),
        (1.5, "above linear"),
        (2.0, "above linear"),
    ],
)
def test_the_power_of_a_power_is_found(power: float, word: str) -> None:
    cost = of_power(power)
    assert growth(cost).exponent(cost) == pytest.approx(power, abs=1e-9)
    assert growth_word(power) == word


def test_what_every_call_costs_does_not_hide_how_it_grows() -> None:
    # The two smallest sizes cost what a call costs, 0.1 s; with them in it the power would be 0.9.
    cost = of_power(1.0, least=0.1)
    assert growth(cost).exponent(cost) == pytest.approx(1.0)


def test_a_power_is_of_the_processors_time() -> None:
    # By the clock on the wall nothing grows: somebody else kept the machine busy.
    cost = Cost("work", tuple(Runs((5.0,), (1e-3 * size,)) for size in SIZES))
    assert growth(cost).exponent(cost) == pytest.approx(1.0)
    assert growth(cost).steps(cost) == [1.0, 1.0, 1.0]


def test_a_step_is_the_ratio_to_the_size_before() -> None:
    walls = ((1.0, 2.0, 3.0), (8.0,), (4.0, 8.0), (0.0,))
    cost = Cost("work", tuple(Runs(wall, wall) for wall in walls))
    assert cost.medians == (2.0, 8.0, 6.0, 0.0)
    # A clock that did not tick is as good as one microsecond.
    assert growth(cost).steps(cost) == [4.0, 0.75, pytest.approx(1e-6 / 6)]
    assert cost.spread == 1.0  # (3 - 1) / 2 at the first size, (8 - 4) / 6 at the third
    assert of_power(1).spread is None


def test_the_table_says_what_is_above_linear() -> None:
    square = of_power(2, "squares")
    size = Cost("bytes", tuple(counted(n * 1000) for n in SIZES), "B")
    assert growth(square, size).to_text().splitlines() == [
        "Clips",
        "clips    10       100             1,000           10,000            power  growth"
        "        spread",
        "squares  100 ms   10 s (100x)     1,000 s (100x)  100,000 s (100x)   2.00  above linear"
        "       -",
        "bytes    10.0 kB  100.0 kB (10x)  1.0 MB (10x)    10.0 MB (10x)      1.00  linear"
        "             -",
        "films: made up",
        "single runs; in brackets, times the size before it, which is 10 times smaller",
        "power: of the size that CPU time or bytes grow with, fitted to the 3 largest;"
        " linear is 1 +- 0.25",
        "above linear: squares",
        "CPU, 2 cores, Linux x86_64, Python 3.11.7",
    ]
    assert "above linear: nothing" in growth(of_power(1)).to_text()
    told = json.loads(json.dumps(growth(square).to_json()))
    assert told["sizes"] == list(SIZES)
    assert told["costs"][0]["growth"] == "above linear"
    assert told["costs"][0]["runs"] == [[0.1], [10.0], [1000.0], [100_000.0]]


def test_parts_of_each_size_become_costs() -> None:
    sizes = [
        {"a": Runs((1.0, 2.0), (0.5, 1.0)), "b": counted(5)},
        {"a": Runs((3.0,), (1.5,)), "b": counted(6)},
    ]
    for parts in (sizes, json.loads(json.dumps(sizes))):
        assert merged(parts, {"b": "B"}) == [
            Cost("a", (sizes[0]["a"], sizes[1]["a"])),
            Cost("b", (counted(5), counted(6)), "B"),
        ]


def test_a_panel_for_each_table_is_drawn_without_bytes(tmp_path) -> None:
    many = [growth(of_power(1, "line"), Cost("size", (counted(9),) * 4, "B"))] * 3
    svg, png = draw_growth(many, tmp_path / "growth")
    text = svg.read_text(encoding="utf-8")
    assert text.count("line, power 1.00") == 3
    assert "size, power" not in text
    assert all(
        f">{label}<" in text for label in ("10", "100", "1k", "10k", "100 ms", "1 s")
    )
    assert png.stat().st_size > 10_000
    assert draw_growth(many, tmp_path / "again")[0].read_bytes() == svg.read_bytes()
