"""The tables of how costs grow: which there are, and what happens when one cannot be measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.growth import tables
from benchmarks.growth.costs import Cost, Growth, counted
from benchmarks.growth.tables import TABLES, measure
from benchmarks.timing import Comparison, Settings, Timing
from obygaze_features.core.errors import InstallExtra
from obygaze_features.core.machine import Machine

pytestmark = pytest.mark.check("benchmarks")

MACHINE = Machine("CPU", 2, "Linux x86_64", "3.11.7", {})


def table(name):
    def measure_one(settings):
        if name == "plan":
            raise InstallExtra("the growth of plans needs the package 'av'")
        if name == "workers":
            return Comparison(
                "Workers", "one", (Timing("one", (1.0,), (1.0,)),), MACHINE
            )
        cost = Cost("work", (counted(1), counted(2)))
        return Growth(f"Table of {name}", "things", (1, 2), (cost,), MACHINE)

    return measure_one


@pytest.fixture
def stand_ins(monkeypatch):
    monkeypatch.setattr(tables, "TABLES", {name: table(name) for name in TABLES})


def test_each_table_is_there_or_says_why_not(stand_ins):
    found = measure(Settings())
    assert [*found.tables, *found.absent] == [
        *(name for name in TABLES if name != "plan"),
        "plan",
    ]
    text = found.to_text()
    assert "Table of store" in text
    assert "plan was not measured: the growth of plans needs the package 'av'" in text
    # Neither the absent one nor the workers.
    assert len(found.growths) == len(TABLES) - 2
    document = found.to_json()
    assert document["absent"] == found.absent
    assert document["tables"]["store"]["costs"][0]["growth"] == "linear"


def test_the_figure_is_drawn_where_it_is_asked_for(stand_ins, tmp_path: Path):
    measure(Settings())
    assert list(tmp_path.iterdir()) == []
    measure(Settings(figure=str(tmp_path / "g.svg")))
    assert {path.name for path in tmp_path.iterdir()} == {"g.svg", "g.png"}
