"""Comparing engines: how its numbers are computed, and that all ways make the same bytes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.slurm import running_slurm

from benchmarks.extraction import engines, ways
from benchmarks.extraction.engines import KindTimes, RunTimes, WayTimes, measure
from benchmarks.extraction.ways import (
    ALONE,
    LOCAL,
    SLICE,
    TWO_SLICES,
    Kind,
    alone,
    committed_s,
    digest,
    local,
    no_slurm,
    slices,
    slurm,
)
from benchmarks.timing import Settings
from obygaze_features.core.errors import Corrupt, ObygazeError
from obygaze_features.extraction.status import store_status

pytestmark = pytest.mark.check("benchmarks")

FILMS = Kind("films", block_rows=2, n_blocks=3, with_video=True)
EMPTY = Kind("empty", block_rows=2, n_blocks=3, with_video=False)


def times(name: str, *block_s: float) -> WayTimes:
    return WayTimes(name, tuple(RunTimes(1.0, block, 0.5) for block in block_s))


def test_an_overhead_is_the_median_over_rounds() -> None:
    work, engine = times(ALONE, 0.1, 0.2, 0.4), times(LOCAL, 0.15, 0.22, 0.8)
    # Pairs: 1.5, 1.1 and 2 times; 50, 20 and 400 ms more.
    assert engine.ratio(work) == pytest.approx(1.5)
    assert engine.overhead_s(work) == pytest.approx(0.05)
    assert engine.median_of("end_s") == 0.5


def test_the_table_of_a_kind() -> None:
    timed = [
        times(ALONE, 0.1),
        times(LOCAL, 0.09),
        times(SLICE, 0.12),
        times(TWO_SLICES, 0.075),
    ]
    found = KindTimes("Blocks", 12, timed)
    assert found.speed_ups == {SLICE: pytest.approx(1.6)}
    text = found.to_text()
    for line in (
        "the work alone 1 s 500 ms 100 ms 100 ms to 100 ms 1.00x -",
        "local, in this process 1 s 500 ms 90 ms 90 ms to 90 ms 0.90x -10 ms (-10%)",
        f"{SLICE} 1 s 500 ms 120 ms 120 ms to 120 ms 1.20x +20 ms (+20%)",
        "two slices at once 1 s 500 ms 75 ms 75 ms to 75 ms 0.75x -",
        f"two workers against one, {SLICE}: 1.60 times as quick a block; ideal 2",
    ):
        assert line in [" ".join(one.split()) for one in text.splitlines()]
    told = found.to_json()["ways"][2]
    assert told["overhead_to_work"] == pytest.approx(0.2)
    assert told["runs"] == [{"first_s": 1.0, "block_s": 0.12, "end_s": 0.5}]


@pytest.mark.parametrize("kind", [FILMS, EMPTY])
def test_every_way_makes_the_same_bytes(kind: Kind, tmp_path: Path) -> None:
    made = []
    for way in (alone, local, lambda plan: slices(plan, 2)):
        plan = kind.plan(tmp_path)
        way(plan)
        made.append(digest(plan))
        state = store_status(plan.targets[0].store)
        assert state.blocks_done == 3
        assert (state.ok, state.missing) == ((6, 0) if kind.with_video else (1, 5))
        assert len(committed_s(plan)) == 3
    assert made[0] == made[1] == made[2]
    assert len(made[0]) > 3 * 3  # each block of each array, and the ids


def test_the_times_of_a_run_are_those_of_its_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits at 10, 11 and 14 s of a run from 7 to 15: 2 s a block, 4 with two workers."""
    clock = iter([7.0, 15.0] * 2)
    monkeypatch.setattr(engines.time, "time", lambda: next(clock))

    def way(plan) -> None:
        alone(plan)
        commits = Path(plan.targets[0].store) / "commits"
        for seconds, marker in zip(
            (10, 11, 14), sorted(commits.glob("block-?????.json")), strict=True
        ):
            os.utime(marker, (seconds, seconds))

    assert engines._run(EMPTY, SLICE, way, tmp_path)[0] == RunTimes(3.0, 2.0, 1.0)
    assert engines._run(EMPTY, TWO_SLICES, way, tmp_path)[0] == RunTimes(3.0, 4.0, 1.0)


def test_a_way_that_makes_other_bytes_ends_the_bench(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lying(plan) -> None:
        alone(plan)
        chunk = next((Path(plan.targets[0].store) / "data.zarr").glob("*/c.0*"))
        chunk.write_bytes(chunk.read_bytes()[::-1] + b"x")

    monkeypatch.setattr(engines, "ways", lambda: ({ALONE: alone, LOCAL: lying}, {}))
    with pytest.raises(Corrupt, match="writes other bytes"):
        measure(Settings(quick=True))


def test_a_slice_that_fails_says_so(tmp_path: Path) -> None:
    plan = EMPTY.plan(tmp_path)
    alone(plan)
    (Path(plan.targets[0].store) / "store.json").write_text("{}")
    with pytest.raises(ObygazeError, match="a slice ended with"):
        slices(plan, 1)


def test_the_result_names_what_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {ALONE: alone, LOCAL: local}
    monkeypatch.setattr(engines, "ways", lambda: (found, {"Slurm": "no sbatch"}))
    result = measure(Settings(quick=True))
    assert "Blocks of real work: 2 clips of 4 films" in result.to_text()
    assert "Slurm was not measured: no sbatch" in result.to_text()
    assert [kind["n_blocks"] for kind in result.to_json()["kinds"]] == [4, 4]


def test_all_ways_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    found, absent = ways.ways()
    assert {ALONE, LOCAL, SLICE, TWO_SLICES} <= set(found)
    assert ("Slurm" in absent) == bool(no_slurm())


@pytest.mark.parametrize(
    ("body", "why"),
    [("exit 1", "Slurm does not answer"), ("true", "no idle node"), ("echo 2", "")],
)
def test_whether_there_is_a_slurm(
    body: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert no_slurm() == "there is no sbatch on this machine"
    for name in ("sinfo", "sbatch"):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    found = no_slurm()
    assert why in found
    assert bool(found) == bool(why)


@pytest.mark.xdist_group("slurm")
def test_a_real_slurm_makes_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_slurm() as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        assert no_slurm() == ""
        plan, alike = FILMS.plan(tmp_path), FILMS.plan(tmp_path)
        slurm(plan, 2)
        alone(alike)
        assert digest(plan) == digest(alike)
