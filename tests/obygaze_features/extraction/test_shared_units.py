"""Workers take over what others leave, are slow with, or died with; the bytes stay the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli import call_obygaze, environment
from support.extraction import BLOCK_ROWS, a_plan, array_bytes, film_folder, plan_file
from support.servers import wait_until
from support.slow_obygaze import clips_begun, install

from obygaze_features.core.errors import Mismatch
from obygaze_features.extraction import blocks
from obygaze_features.extraction.plan import ExtractPlan, read_plan_file
from obygaze_features.extraction.run import (
    Resources,
    RowProgress,
    extract_plan,
    load_targets,
)
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.extraction.shared_units import Claim, SharedUnits
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import StoreWriter, open_store

# Six units of four clips.
N_CLIPS, N_UNITS = 24, 6


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return film_folder(tmp_path_factory.mktemp("films"), N_CLIPS)


@pytest.fixture(scope="module")
def undisturbed(
    films: Manifest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    plan = a_plan(films, folder, "descriptors")
    extract_plan(plan, Resources(), StopFlag())
    return array_bytes(Path(plan.targets[0].store))


@pytest.fixture
def plan(films: Manifest, tmp_path: Path) -> ExtractPlan:
    made = a_plan(films, tmp_path, "descriptors")
    plan_file(made, tmp_path / "plan.json")
    return made


@pytest.fixture
def begun(plan: ExtractPlan) -> ExtractPlan:
    """A plan whose stores exist."""
    load_targets(plan)
    return plan


def staging(plan: ExtractPlan) -> Path:
    return Path(plan.targets[0].store) / "staging"


def test_units_of_nobody_are_taken_first(begun: ExtractPlan) -> None:
    mine = SharedUnits(begun, "1/3")
    other = SharedUnits(begun, "2/3")
    with mine.at_work([]), other.at_work([2, 3]):
        # Of four, one; they begin at another place for each worker.
        assert mine.take() == [1]
        assert other.take() == [4]
        # They list only what they are at now.
        third = SharedUnits(begun, "0/1")
        with third.at_work([]):
            assert third.take() == [0, 2]
    assert list(staging(begun).iterdir()) == []


def test_units_of_a_killed_worker_are_those_of_nobody(
    begun: ExtractPlan, tmp_path: Path
) -> None:
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from obygaze_features.extraction.plan import read_plan_file\n"
        "from obygaze_features.extraction.shared_units import SharedUnits\n"
        "with SharedUnits(read_plan_file(Path(sys.argv[1])), '0/2').at_work(range(6)):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(600)\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "plan.json")]
    with subprocess.Popen(
        words, env=environment(), stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        mine = SharedUnits(begun, "1/2")
        with mine.at_work([]):
            # How fast it is itself is not known yet, so it takes nothing from one that runs.
            assert mine.take() == []
            worker.kill()
            worker.wait()
            assert mine.take() == [3]
    assert list(staging(begun).iterdir()) == []


def test_a_claim_moves_on_when_its_store_is_sealed(
    films: Manifest, tmp_path: Path
) -> None:
    plan = a_plan(films, tmp_path, "descriptors", "frames:descriptors")
    load_targets(plan)
    first, second = (Path(target.store) for target in plan.targets)
    mine, other = SharedUnits(plan, "0/2"), SharedUnits(plan, "1/2")
    with mine.at_work([0, 1, 2]):
        one_store = replace(plan, targets=plan.targets[:1])
        extract_plan(one_store, Resources(), StopFlag())
        StoreWriter(first).seal()
        assert not (first / "staging").exists()
        assert other._others() == []
        with other.at_work([3]):
            assert mine.take() == [0]
            assert [claim.units for claim in other._others()] == [[0]]
            assert len(list((second / "staging").iterdir())) == 2
    assert list((second / "staging").iterdir()) == []


def test_when_a_worker_will_have_finished_a_unit() -> None:
    # Two of ten clips in 6 s: 3 s for each of the four and four that are left.
    claim = Claim("worker.a", [0, 3, 6], 10, None, 100.0)
    assert claim.seconds_to_go({3: 4, 6: 4, 7: 9}, 106.0) == {3: 12.0, 6: 24.0}
    # Nothing yet: at least as long as it takes, or as long as it took before.
    assert claim.seconds_to_go({0: 2, 3: 4, 6: 4}, 106.0) == {0: 12.0, 3: 36.0, 6: 60.0}
    slow = replace(claim, clip_s=50.0)
    assert slow.seconds_to_go({6: 10}, 106.0) == {6: 500.0}


def test_what_others_would_finish_much_later_is_taken_from_the_end(
    begun: ExtractPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = SharedUnits(begun, "0/3")
    monkeypatch.setattr(mine, "_now_s", lambda: 106.0)
    left = {1: 4, 3: 4, 5: 4}
    claim = Claim("worker.a", [1, 3, 5], 14, None, 100.0)  # 3 s for a clip
    assert mine._chosen(left, [claim]) == []
    # The other one ends unit 5 in 36 s, this one in 4 s; both units in 8 s, and the other 24 s.
    mine.measure(10, 10.0)
    assert mine._chosen(left, [claim]) == [5, 3]
    # As fast as the other one: it would have the last of three units in a third of the time.
    mine.measure(10, 30.0)
    assert mine._chosen(left, [claim]) == [5]
    assert mine._chosen({1: 4}, [claim]) == []
    # A third one has the last unit already, and is fast.
    third = Claim("worker.b", [5], 4, 1.0, 105.0)
    mine.measure(10, 10.0)
    assert mine._chosen(left, [claim, third]) == [3]


def test_of_two_that_take_a_unit_at_the_same_moment_one_gives_way(
    begun: ExtractPlan,
) -> None:
    first, second = SharedUnits(begun, "0/2"), SharedUnits(begun, "1/2")
    with first.at_work([2, 3]), second.at_work([3, 4]):
        kept = [
            first._not_taken_meanwhile([2, 3], []),
            second._not_taken_meanwhile([3, 4], []),
        ]
        assert sorted([*kept[0], *kept[1]]) == [2, 3, 4]
        # What the other one had before is taken over on purpose.
        before = first._others()
        assert first._not_taken_meanwhile([3], before) == [3]


def test_a_damaged_claim_is_none(begun: ExtractPlan) -> None:
    other = SharedUnits(begun, "1/2")
    with other.at_work([0, 1, 2, 3, 4, 5]):
        (folder,) = staging(begun).iterdir()
        for text in ("", "[]", '{"units": ["a"]}', '{"units": [1]}'):
            (folder / "claim.json").write_text(text)
            assert SharedUnits(begun, "0/2")._others() == []


def test_one_worker_finishes_the_plan(
    plan: ExtractPlan, undisturbed: dict[str, bytes]
) -> None:
    rows = plan.worker_rows("1/3")
    notes: list[str] = []
    (state,) = extract_plan(
        plan, Resources(), StopFlag(), rows=rows, worker="1/3", note=notes.append
    )
    assert (state.clips, state.ok) == (8, 8)
    # Nobody else is at the other four units.
    assert notes == 4 * ["takes over 4 clips that other workers left or are slow with"]
    assert not StoreWriter(plan.targets[0].store).pending_blocks()
    assert array_bytes(Path(plan.targets[0].store)) == undisturbed
    assert list(staging(plan).iterdir()) == []


def test_the_command_says_what_a_worker_takes_over(
    plan: ExtractPlan, tmp_path: Path
) -> None:
    words = ("extract", "run", tmp_path / "plan.json", "--worker", "1/2")
    done = call_obygaze(*words).ok()
    # Of three units, one after the other.
    note = "takes over 4 clips that other workers left or are slow with"
    assert done.stderr.splitlines().count(note) == 3


def test_a_stopped_worker_takes_nothing_over(plan: ExtractPlan) -> None:
    stop = StopFlag()

    class Stopping(RowProgress):
        def __call__(self, row: int, failed: bool) -> None:
            if row == 3:
                stop.handle(signal.SIGTERM)

    rows = plan.worker_rows("0/3")
    extract_plan(plan, Resources(), stop, rows=rows, worker="0/3", progress=Stopping())
    assert StoreWriter(plan.targets[0].store).pending_blocks() == [1, 2, 3, 4, 5]
    assert list(staging(plan).iterdir()) == []


def on_row(row: int, action: Any) -> RowProgress:
    """A progress that does something when it is told of a row for the first time."""

    class Acting(RowProgress):
        def __call__(self, shown: int, failed: bool) -> None:
            is_first = shown not in self.seen
            super().__call__(shown, failed)
            if shown == row and is_first:
                action()

    return Acting()


def test_blocks_that_others_commit_are_not_computed_again(
    plan: ExtractPlan, undisturbed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker makes the units 2 and 4 of this one while it is at unit 0."""
    computed: list[int] = []
    begin = blocks.BlockMaker._take

    def take(maker: blocks.BlockMaker, block: Any, slot: int, clip: Any) -> None:
        computed.append(block.rows[slot])
        begin(maker, block, slot, clip)

    monkeypatch.setattr(blocks.BlockMaker, "_take", take)

    def help_out() -> None:
        rows = [*plan.unit_range(2), *plan.unit_range(4)]
        extract_plan(plan, Resources(), StopFlag(), rows=rows)

    progress = on_row(1, help_out)
    rows = plan.worker_rows("0/2")
    extract_plan(
        plan, Resources(), StopFlag(), rows=rows, worker="0/2", progress=progress
    )
    assert sorted(computed) == list(range(N_CLIPS))
    assert progress.seen == set(range(N_CLIPS))
    assert array_bytes(Path(plan.targets[0].store)) == undisturbed


@pytest.mark.parametrize("keep_every_s", [0.0, 1e9])
def test_the_first_commit_of_a_block_counts_if_the_last_bits_differ(
    plan: ExtractPlan, monkeypatch: pytest.MonkeyPatch, keep_every_s: float
) -> None:
    """GPUs of two models give other last bits; a worker ended with an error."""
    monkeypatch.setattr(blocks, "KEEP_EVERY_S", keep_every_s)
    store = plan.targets[0].store

    def commit_other_content() -> None:
        writer = StoreWriter(store)
        arrays = {}
        for spec in writer.plan.arrays:
            shape = (BLOCK_ROWS, *spec.tail_shape)
            arrays[spec.name] = np.ones(shape, spec.dtype)
        writer.commit_block(2, arrays)

    rows = plan.worker_rows("0/2")
    worker = {"rows": rows, "worker": "0/2"}
    progress = on_row(9, commit_other_content)
    extract_plan(plan, Resources(), StopFlag(), progress=progress, **worker)
    values = open_store(store).matrix("clip").values
    assert (values[8:12] == 1).all()
    assert not (values[[0, 7, 12, 23]] == 1).all(axis=1).any()


def test_the_content_of_a_block_that_nobody_shares_must_be_the_same(
    plan: ExtractPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = plan.targets[0].store

    def commit_other_content() -> None:
        writer = StoreWriter(store)
        arrays = {}
        for spec in writer.plan.arrays:
            arrays[spec.name] = np.ones((BLOCK_ROWS, *spec.tail_shape), spec.dtype)
        writer.commit_block(2, arrays)

    progress = on_row(9, commit_other_content)
    with pytest.raises(Mismatch, match="block 2 was committed before"):
        extract_plan(plan, Resources(), StopFlag(), progress=progress)


@pytest.mark.check("kills and suspends workers")
def test_a_fast_worker_takes_over_from_a_suspended_and_a_killed_one(
    plan: ExtractPlan, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    program = install(tmp_path)

    def start(worker: int) -> subprocess.Popen[bytes]:
        changes = {
            "OBYGAZE_TEST_SECONDS": "0.2",
            "OBYGAZE_TEST_LOG": str(tmp_path / f"{worker}.log"),
        }
        words = ["extract", "run", str(tmp_path / "plan.json"), "--workers", "1"]
        return subprocess.Popen(
            [str(program), "-q", *words, "--worker", f"{worker}/3", "--batch", "1"],
            env=environment(changes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def has_begun(worker: int) -> bool:
        return clips_begun(tmp_path / f"{worker}.log") >= 2

    killed, suspended = start(2), start(1)
    try:
        wait_until(lambda: has_begun(2), "a worker", 60)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        wait_until(lambda: has_begun(1), "a worker", 60)
        os.killpg(suspended.pid, signal.SIGSTOP)
        # The suspended worker holds its claim; how slow it is shows with time.
        deadline = time.monotonic() + 240
        store = Path(plan.targets[0].store)
        while (store / "staging").exists() and time.monotonic() < deadline:
            with start(0) as fast:
                assert fast.wait() in (0, 1)
        assert open_store(store).sealed
        assert array_bytes(store) == undisturbed
    finally:
        os.killpg(suspended.pid, signal.SIGCONT)
    assert suspended.wait(timeout=120) == 0
    assert array_bytes(store) == undisturbed
    read = read_plan_file(tmp_path / "plan.json")
    assert read.n_units == N_UNITS
