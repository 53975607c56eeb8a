"""`obygaze bench growth`: which tables there are, and what becomes of one that cannot be."""

from __future__ import annotations

import pytest
from support.cli import call_obygaze

from obygaze_features.core import bench_growth
from obygaze_features.core.bench import BenchResult, Timing
from obygaze_features.core.bench_growth import TABLES, measure_growth
from obygaze_features.core.bench_sizes import Cost, Growth, Runs
from obygaze_features.core.errors import FixUsage, InstallExtra
from obygaze_features.core.machine import Machine

MACHINE = Machine("CPU", 2, "Linux x86_64", "3.11.7", {})


def measure(name):
    def table(quick, progress):
        if name == "plan":
            raise InstallExtra("the growth of plans needs the package 'av'")
        if name == "workers":
            return BenchResult("Workers", "one", (Timing("one", (1.0,), (1.0,)),), MACHINE)
        cost = Cost("work", (Runs.counted(1), Runs.counted(2)))
        return Growth(f"Table of {name}", "things", (1, 2), (cost,), MACHINE)

    return table


@pytest.fixture
def stand_ins(monkeypatch):
    monkeypatch.setattr(bench_growth, "_measure", measure)


def test_each_table_is_there_or_says_why_not(stand_ins):
    found = measure_growth()
    assert [*found.tables, *found.absent] == [
        *(name for name in TABLES if name != "plan"),
        "plan",
    ]
    text = found.as_text()
    assert "Table of store" in text
    assert "plan is not here: the growth of plans needs the package 'av'" in text
    assert len(found.growths) == len(TABLES) - 2  # neither the absent one nor the workers
    assert found.as_json()["absent"] == found.absent


def test_the_names_lead_to_functions():
    for name in TABLES:
        assert callable(bench_growth._measure(name))


def test_tables_that_are_not(stand_ins):
    with pytest.raises(FixUsage, match="no table called space"):
        measure_growth(["store", "space"])
    done = call_obygaze("bench", "growth", "--only", "space")
    assert done.code == 2
    assert "--only store,plan" in done.stderr


def test_the_command_prints_draws_and_answers_programs(stand_ins, tmp_path):
    done = call_obygaze("bench", "growth", "--figure", tmp_path / "g.svg").ok()
    assert "Table of dimensions" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"g.svg", "g.png"}
    told = call_obygaze("bench", "growth", "--only", "store,folds", "--json").ok().json()
    assert list(told["tables"]) == ["store", "folds"]
    assert told["tables"]["store"]["costs"][0]["growth"] == "linear"
