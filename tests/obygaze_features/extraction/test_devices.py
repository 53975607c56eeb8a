"""Several devices of one machine: a process for each, whole units, the same bytes."""

from __future__ import annotations

import multiprocessing
import shutil
import types
from pathlib import Path
from typing import Any

import pytest
from support.cli import call_obygaze, run_obygaze
from support.extraction import a_plan, array_bytes, film_folder, plan_file

from obygaze_features.core.errors import FixUsage, NotFound, ObygazeError
from obygaze_features.extraction import devices
from obygaze_features.extraction.devices import devices_of, extract_on_devices
from obygaze_features.extraction.run import Resources, RowProgress
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.extraction.status import status_of_stores
from obygaze_features.manifest.model import Manifest

pytestmark = pytest.mark.check("a process for each of several devices")

N_CLIPS = 18


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return film_folder(
        tmp_path_factory.mktemp("films"), N_CLIPS, bad={5: b"not a video"}
    )


@pytest.fixture(scope="module")
def undisturbed(
    films: Manifest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    plan = plan_file(a_plan(films, folder, "descriptors"), folder / "plan.json")
    assert run_obygaze("extract", "run", plan, "--workers", "1").code == 3
    return array_bytes(folder / "stores" / "descriptors")


def test_the_devices_of_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    assert devices_of("cuda:1") == ["cuda:1"]
    with pytest.raises(FixUsage, match="unknown device 'cuda:x'"):
        devices_of("cuda:0,cuda:x")
    assert devices_of("cuda:0, cuda:2") == ["cuda:0", "cuda:2"]
    with pytest.raises(FixUsage, match="only GPUs or only cpu, got cpu,cuda:0"):
        devices_of("cpu,cuda:0")
    for nothing in ("", " ", ","):
        with pytest.raises(FixUsage, match="--device names no device"):
            devices_of(nothing)
    n_gpus = 3
    fake = types.SimpleNamespace(
        cuda=types.SimpleNamespace(device_count=lambda: n_gpus)
    )
    monkeypatch.setattr(devices, "need", lambda *words: fake)
    assert devices_of("cuda:all") == ["cuda:0", "cuda:1", "cuda:2"]
    n_gpus = 0
    with pytest.raises(FixUsage, match="no CUDA device"):
        devices_of("cuda:all")


def test_two_devices_give_the_bytes_of_one(
    films: Manifest, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    plan = plan_file(a_plan(films, tmp_path, "descriptors"), tmp_path / "plan.json")
    done = run_obygaze("extract", "run", plan, "--device", "cpu,cpu")
    assert done.code == 3
    assert array_bytes(tmp_path / "stores" / "descriptors") == undisturbed


def test_each_process_has_its_share_of_units_and_cores(
    films: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[Resources, list[int]]] = []
    parts: list[str | None] = []

    def started(
        plan: Any, resources: Resources, rows: list[int], part: str, settings: Any
    ) -> Any:
        found.append((resources, rows))
        parts.append(part)
        messages, theirs = multiprocessing.Pipe(duplex=False)
        theirs.close()
        return messages, types.SimpleNamespace(join=lambda: None, exitcode=0)

    monkeypatch.setattr(devices, "_started", started)
    plan = a_plan(films, tmp_path, "descriptors")
    used = Resources(workers=7, threads=4, batch=3)
    extract_on_devices(plan, used.shared_by(["cuda:0", "cuda:1"]), StopFlag())
    # Blocks of four of 18 clips: the first process has 0, 2 and 4, the second 1 and 3.
    assert [rows for _, rows in found] == [
        [0, 1, 2, 3, 8, 9, 10, 11, 16, 17],
        [4, 5, 6, 7, 12, 13, 14, 15],
    ]
    assert [(r.device, r.workers, r.threads, r.batch) for r, _ in found] == [
        ("cuda:0", 3, 2, 3),
        ("cuda:1", 3, 2, 3),
    ]
    # As workers, they take over what the other one leaves; rows that are given are all there is.
    extract_on_devices(
        plan,
        used.shared_by(["cuda:0", "cuda:1"]),
        StopFlag(),
        rows=plan.worker_rows("1/2"),
        worker="1/2",
    )
    extract_on_devices(
        plan, used.shared_by(["cuda:0", "cuda:1"]), StopFlag(), rows=range(8)
    )
    assert parts == ["0/2", "1/2", "1/4", "3/4", None, None]


def test_after_the_end_of_a_process_the_same_call_resumes(
    films: Manifest, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    plan = a_plan(films, tmp_path, "descriptors")

    class KillOne(RowProgress):
        def begin(self, n_rows: int) -> None:
            # Here, and not with the first row: by then a fast process may have done all of its own.
            running = multiprocessing.active_children()
            next(p for p in running if p.name == "cpu").kill()

    pair = Resources(workers=2).shared_by(["cpu", "cpu"])
    with pytest.raises(ObygazeError, match=r"the process of cpu ended \(signal 9\)"):
        extract_on_devices(plan, pair, StopFlag(), progress=KillOne())
    assert multiprocessing.active_children() == []
    (state,) = extract_on_devices(plan, pair, StopFlag())
    assert (state.ok, state.failed) == (N_CLIPS - 1, 1)
    assert array_bytes(tmp_path / "stores" / "descriptors") == undisturbed


def test_a_stop_ends_all_processes(films: Manifest, tmp_path: Path) -> None:
    stop = StopFlag()

    class Request(RowProgress):
        def __call__(self, row: int, failed: bool) -> None:
            stop.signal_name = "SIGTERM"

    plan = a_plan(films, tmp_path, "descriptors")
    extract_on_devices(plan, [Resources(), Resources()], stop, progress=Request())
    assert multiprocessing.active_children() == []


def test_a_second_ctrl_c_ends_all_processes_and_keeps_what_they_finished(
    films: Manifest, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    class Interrupt(RowProgress):
        n_shown = 0

        def __call__(self, row: int, failed: bool) -> None:
            self.n_shown += 1
            if self.n_shown == 14:
                raise KeyboardInterrupt

    plan = a_plan(films, tmp_path, "descriptors")
    pair = Resources(workers=1, batch=1, threads=1)
    with pytest.raises(KeyboardInterrupt):
        extract_on_devices(plan, [pair, pair], StopFlag(), progress=Interrupt())
    assert multiprocessing.active_children() == []
    (before,) = status_of_stores(plan)
    # Of 14 rows that were shown, each process has one at work, and one failed.
    n_kept = before.ok + before.in_unfinished_blocks
    assert n_kept >= 14 - 2 - 1
    (state,) = extract_on_devices(plan, [pair, pair], StopFlag())
    assert (state.ok, state.failed) == (N_CLIPS - 1, 1)
    assert array_bytes(tmp_path / "stores" / "descriptors") == undisturbed


def test_the_error_of_a_process_is_that_of_the_run(
    films: Manifest, tmp_path: Path
) -> None:
    plan = a_plan(films, tmp_path, "clip-b16", weights=str(tmp_path / "absent"))
    with pytest.raises(NotFound, match="weights"):
        extract_on_devices(plan, [Resources(), Resources()], StopFlag())


def test_a_stop_before_there_are_stores_has_the_exit_code_of_a_stop(
    films: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(plan: Any, shares: Any, stop: StopFlag, **more: Any) -> list[Any]:
        stop.signal_name = "SIGTERM"
        return []

    monkeypatch.setattr(devices, "extract_on_devices", stopped)
    plan = plan_file(a_plan(films, tmp_path, "descriptors"), tmp_path / "plan.json")
    for words in ((), ("--json",)):
        done = call_obygaze("extract", "run", plan, "--device", "cpu,cpu", *words)
        assert done.code == 75, done.stderr


def test_several_devices_retry_failed_clips_and_take_a_workers_share(
    tmp_path: Path,
) -> None:
    films = film_folder(tmp_path, 12, bad={5: b"not a video", 9: b"not a video"})
    plan = a_plan(films, tmp_path, "descriptors")
    pair = [Resources(), Resources()]
    with pytest.raises(NotFound, match="no store yet"):
        extract_on_devices(plan, pair, StopFlag(), retry_failed=True)
    # Of three blocks, the worker 1/2 has the second one, with one clip that cannot be read.
    (state,) = extract_on_devices(plan, pair, StopFlag(), rows=plan.worker_rows("1/2"))
    assert (state.clips, state.ok, state.failed) == (4, 3, 1)
    (state,) = extract_on_devices(plan, pair, StopFlag())
    assert (state.ok, state.failed) == (10, 2)
    for row in (5, 9):
        shutil.copyfile(plan.rows[0].video, plan.rows[row].video)
    progress = RowProgress()
    (state,) = extract_on_devices(
        plan, pair, StopFlag(), retry_failed=True, progress=progress
    )
    assert (state.ok, state.failed) == (12, 0)
    assert progress.seen == {5, 9}


def test_the_rows_of_all_devices_are_shown(films: Manifest, tmp_path: Path) -> None:
    progress = RowProgress()
    plan = a_plan(films, tmp_path, "descriptors")
    extract_on_devices(plan, [Resources(), Resources()], StopFlag(), progress=progress)
    assert (progress.seen, progress.failed) == (set(range(N_CLIPS)), {5})
