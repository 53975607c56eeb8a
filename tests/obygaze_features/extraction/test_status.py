"""The status of one store and of the stores of a run, during the run and after sealing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from support.cli import call_obygaze
from support.extraction import a_plan, film_folder, keep_manifest, plan_file
from support.stores import block_of, plan_store, some_values

from obygaze_features.extraction.plan import make_plan
from obygaze_features.extraction.run import load_targets
from obygaze_features.extraction.status import (
    StoreStatus,
    joint_status,
    missing_units,
    store_status,
)
from obygaze_features.store import RowStatus, StoreWriter

BAD = RowStatus("failed", "decode", "timeout")
NONE = RowStatus("no-video", "plan", "none")


def _store(path: Path, blocks: int, status_of_row: dict[int, RowStatus]) -> Path:
    """Twenty-three rows in six blocks of four, of which the first few are committed."""
    plan_store(path)
    writer, values = StoreWriter(path), some_values(23)
    for block in range(blocks):
        first, after = writer.plan.block_range(block)
        statuses = [
            status_of_row.get(row, RowStatus("ok")) for row in range(first, after)
        ]
        seconds = {"wait": 1.0 + block, "decode": 4.0, "forward": 2.0}
        writer.commit_block(
            block, block_of(values, (first, after)), statuses, seconds=seconds
        )
    return path


def test_two_stores_of_a_run_are_counted_by_clips(tmp_path: Path) -> None:
    first = store_status(_store(tmp_path / "a", 6, {2: BAD, 9: BAD, 20: NONE}))
    second = store_status(_store(tmp_path / "b", 3, {2: BAD, 5: BAD}))
    # Both have rows 0 to 11 but 2, 5 and 9; row 20 and the other rows above 11 lack one of them.
    result = joint_status([first, second])
    assert (result["clips"], result["ok"], result["failed"], result["missing"]) == (
        23,
        9,
        3,
        11,
    )
    assert result["store"] == [str(tmp_path / "a"), str(tmp_path / "b")]
    # They decode and wait together: 1 + 2 + 3 + 4 + 5 + 6; each computes for itself: 12 and 6.
    assert result["seconds"] == {"wait": 21.0, "decode": 24.0, "forward": 18.0}


def test_the_status_of_a_workers_rows(tmp_path: Path) -> None:
    path = _store(tmp_path / "a", 4, {2: BAD, 9: BAD, 14: NONE})
    # Blocks 1, 3 and 5: rows 4-7, 12-15, 20-22; block 5 is not committed.
    rows = [*range(4, 8), *range(12, 16), *range(20, 23)]
    own = store_status(path, rows)
    assert (own.clips, own.ok, own.failed, own.missing) == (11, 7, 0, 4)
    assert (own.blocks, own.blocks_done, own.done) == (3, 2, False)
    assert own.seconds == {"wait": 2.0 + 4.0, "decode": 8.0, "forward": 4.0}
    other = store_status(path, [*range(0, 4), *range(8, 12), *range(16, 20)])
    assert (other.clips, other.ok, other.failed, other.missing) == (12, 6, 2, 4)
    result = joint_status([own, own], [rows, rows])
    assert (result["clips"], result["ok"], result["failed"], result["missing"]) == (
        11,
        7,
        0,
        4,
    )


def test_a_sealed_store_keeps_its_seconds(tmp_path: Path) -> None:
    path = _store(tmp_path / "a", 6, {2: BAD})
    before = store_status(path)
    StoreWriter(path).seal()
    after = store_status(path)
    assert (before.sealed, after.sealed) == (False, True)
    assert list(after.seconds.items()) == list(before.seconds.items())
    assert dict(after.seconds) == {"wait": 21.0, "decode": 24.0, "forward": 12.0}
    assert after.seconds_to_go == 0.0
    assert after.bottleneck.startswith("the backbone waited for decoding 64 %")


def test_the_last_line_of_a_run_is_its_whole_document(tmp_path: Path) -> None:
    manifest = film_folder(tmp_path / "films", 5, bad={3: b"broken"})
    keep_manifest(manifest, tmp_path)
    command = ("extract", "run", "films", "-b", "descriptors", "--json")
    done = call_obygaze("-C", tmp_path, *command)
    assert done.code == 3
    (last,) = map(json.loads, done.stdout.splitlines())
    assert {"store", "clips", "ok", "failed", "missing", "seconds"} <= last.keys()
    assert (last["clips"], last["ok"], last["failed"], last["missing"]) == (5, 4, 1, 0)
    assert np.all([value >= 0 for value in last["seconds"].values()])


def test_what_limits_the_speed() -> None:
    def who_waits(**seconds: float) -> str:
        return StoreStatus(
            "s", "b", 1, 1, 0, 0, 1, 1, {}, {}, seconds, False
        ).bottleneck

    assert "decoding 62 %" in who_waits(wait=62, forward=30, preprocess=8)
    assert "computed 70 %" in who_waits(wait=30, forward=60, preprocess=10)
    assert "nothing" in who_waits()


def test_a_backbone_without_weights_is_not_told_to_use_a_gpu(tmp_path: Path) -> None:
    """`descriptors` compute on the CPU, whatever device there is."""
    plan = a_plan(film_folder(tmp_path, 9), tmp_path, "descriptors")
    call_obygaze("extract", "run", plan_file(plan, tmp_path / "plan.json")).ok()
    state = store_status(plan.targets[0].store)
    busy = replace(state, seconds={"wait": 1.0, "forward": 3.0})
    assert busy.bottleneck == (
        "the backbone computed 75 % of the time: it uses no GPU: use more machines (--worker I/K)"
    )
    with_weights = replace(busy, has_weights=True)
    assert "use a faster device, or more machines" in with_weights.bottleneck


def test_clips_that_are_kept_until_their_block_is_whole_are_told_in_words() -> None:
    def status_text(n_finished: int) -> str:
        state = StoreStatus("s", "b", 75, 0, 0, 75, 2, 0, {}, {}, {}, False, n_finished)
        return str(state)

    assert (
        "34 of the 75 missing clips are finished and kept beside the blocks:"
        " they are not computed again"
    ) in status_text(34)
    assert "1 of the 75 missing clips is finished" in status_text(1)
    assert "it is not computed again" in status_text(1)
    assert "kept" not in status_text(0)


def test_the_stores_of_a_plan_have_a_status_before_they_exist(tmp_path: Path) -> None:
    plan = a_plan(
        film_folder(tmp_path, 9), tmp_path, "descriptors", "frames:descriptors"
    )
    path = plan_file(plan, tmp_path / "plan.json")
    done = call_obygaze("extract", "status", path).ok()
    assert "descriptors (descriptors): 0 of 3 blocks, no run has begun" in done.stdout
    (first, second) = call_obygaze("extract", "status", path, "--json").json()["stores"]
    counts = ("clips", "ok", "failed", "missing", "blocks", "blocks_done", "exists")
    assert [first[key] for key in counts] == [9, 0, 0, 9, 3, 0, False]
    one = a_plan(film_folder(tmp_path, 9), tmp_path, "descriptors")
    call_obygaze("extract", "run", plan_file(one, tmp_path / "one.json")).ok()
    (first, second) = call_obygaze("extract", "status", path, "--json").json()["stores"]
    assert [first[key] for key in counts] == [9, 9, 0, 0, 3, 3, True]
    assert not second["exists"]
    done = call_obygaze("extract", "status", "films.other", cwd=tmp_path)
    assert done.code == 1
    assert "obygaze extract status PLAN.json" in done.stderr


def test_a_store_smaller_than_a_block_is_one_unit(tmp_path: Path) -> None:
    films = film_folder(tmp_path, 3)
    (target,) = a_plan(films, tmp_path, "descriptors").targets
    plan = make_plan(films, [replace(target, block_rows=64)], workspace=tmp_path)
    assert missing_units(plan) == [0]
    load_targets(plan)
    assert missing_units(plan) == [0]
    call_obygaze("extract", "run", plan_file(plan, tmp_path / "plan.json")).ok()
    assert missing_units(plan) == []
