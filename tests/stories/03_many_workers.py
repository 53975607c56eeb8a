"""Story 3: many workers fill one store, and it is the same, byte for byte, as if one had done it.

One of them may be killed or very slow, two may be at the same block, and hardly a block is computed
twice.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import ROOT, environment
from support.slurm import running_slurm

from stories.counting_model import (
    BLOCK_CLIPS,
    EXTRACT,
    N_CLIPS,
    STORE,
    assert_whole,
    assert_whole_and_as_undisturbed,
    begin_with_counting_model,
    bytes_of_features,
    clips_begun,
    clips_of_processes,
)
from stories.promises import fails_today, not_yet
from stories.workspace import Workspace, wait_until


def test_another_worker_finishes_what_a_killed_one_had(ws: Workspace) -> None:
    begin_with_counting_model(ws)
    running = ws.start(f"{EXTRACT} --worker 0/2", env={"HOLD_AT": "12"})
    wait_until(lambda: clips_begun(ws) == 12, running)
    wait_until(lambda: "1 of 5 blocks" in ws(f"extract status {STORE}").text, running)
    running.kill()
    ws(f"{EXTRACT} --worker 1/2")
    assert_whole_and_as_undisturbed(ws)
    assert clips_begun(ws) <= N_CLIPS + BLOCK_CLIPS


def test_nobody_waits_for_a_worker_that_stands_still(ws: Workspace) -> None:
    begin_with_counting_model(ws)
    slow = ws.start(f"{EXTRACT} --worker 0/2", env={"HOLD_AT": "1"})
    wait_until(lambda: clips_begun(ws) == 1, slow)
    os.killpg(slow.pid, signal.SIGSTOP)
    ws(f"{EXTRACT} --worker 1/2")
    # That a worker is slow shows with time; the same command looks again.
    wait_until(lambda: _is_sealed_after(ws, f"{EXTRACT} --worker 1/2"))
    assert_whole_and_as_undisturbed(ws)
    ws.write("go", "")
    os.killpg(slow.pid, signal.SIGCONT)
    slow.wait()
    assert_whole_and_as_undisturbed(ws)
    assert clips_begun(ws) <= N_CLIPS + BLOCK_CLIPS


def _is_sealed_after(ws: Workspace, line: str) -> bool:
    ws(line)
    return "5 of 5 blocks, sealed" in ws(f"extract status {STORE}").text


def test_two_workers_at_the_same_block_leave_the_same_bytes(ws: Workspace) -> None:
    begin_with_counting_model(ws)
    both = {"BEGIN_TOGETHER": "2"}
    other = ws.start(f"{EXTRACT} --worker 0/2", env=both)
    ws(f"{EXTRACT} --worker 0/2", env=both)
    other.wait()
    assert len(clips_of_processes(ws)) == 2
    ws(f"{EXTRACT} --worker 1/2")
    assert_whole_and_as_undisturbed(ws)


@fails_today("A store that is written once")
def test_the_same_command_twice_shares_the_clips(ws: Workspace) -> None:
    begin_with_counting_model(ws)
    slow = ws.start(EXTRACT, env={"HOLD_AT": "12"})
    wait_until(lambda: clips_begun(ws) == 12, slow)
    ws(EXTRACT)
    ws.write("go", "")
    slow.wait()
    assert_whole_and_as_undisturbed(ws)
    n_twice = clips_begun(ws) - N_CLIPS
    not_yet(
        n_twice <= 2 * BLOCK_CLIPS,
        "the slow worker skips blocks that the other worker has finished",
    )


@pytest.mark.check("eight processes with torch")
def test_eight_processes(ws: Workspace) -> None:
    begin_with_counting_model(ws)
    n_workers = 8
    small = EXTRACT.replace(f"--block-clips {BLOCK_CLIPS}", "--block-clips 2")
    workers = []
    for number in range(n_workers):
        env = {"BEGIN_TOGETHER": str(n_workers)}
        workers.append(ws.start(f"{small} --worker {number}/{n_workers}", env=env))
    for worker in workers:
        worker.wait()
    assert_whole(ws)
    assert len(clips_of_processes(ws)) == n_workers
    assert clips_begun(ws) < 1.5 * N_CLIPS
    ws(f"{small} --store counting.py:model=alone")
    assert bytes_of_features(ws) == bytes_of_features(ws, "alone")


def write_plan(ws: Workspace) -> None:
    """Write the plan of the extraction, plan.json."""
    begin_with_counting_model(ws)
    blocks = f"--block-clips {BLOCK_CLIPS}"
    ws(f"extract plan films -b counting.py:model {blocks} --probe 0 -o plan.json")


def add_command(folder: Path) -> str:
    """Put `obygaze` into a folder, as an installed program is; return the PATH with it."""
    folder.mkdir()
    program = folder / "obygaze"
    paths = os.environ.get("PYTHONPATH", "")
    text = f"""#!/bin/sh
export PYTHONPATH='{ROOT}{os.pathsep}{paths}'
exec '{sys.executable}' -m obygaze "$@"
"""
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    return os.pathsep.join([str(folder), os.environ["PATH"]])


@pytest.mark.check("a real Slurm")
@pytest.mark.xdist_group("slurm")
def test_a_slurm_array(ws: Workspace) -> None:
    write_plan(ws)
    path = add_command(ws.path("bin"))
    with running_slurm() as slurm:
        slurm.environment["PATH"] = path
        line = "extract slurm plan.json --tasks 4 --workers 1 -o night.sh"
        ws.process(f"{line} -- --cpus-per-task 1", env=slurm.environment)
        job = slurm.call("sbatch", "--parsable", str(ws.path("night.sh")))
        states = slurm.wait_for_end(job)
        assert set(states.values()) == {"COMPLETED"}, ws.path("logs")
    assert_whole_and_as_undisturbed(ws)


MAP = """\
import sys

import obygaze as og


def extract_part(part):
    (state, *_) = og.extract("plan.json", worker=part, workers=1)
    return state.clips


def main():
    parts = [f"{i}/3" for i in range(3)]
    if sys.argv[1] == "dask":
        from distributed import Client, LocalCluster

        settings = {"threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(3, **settings) as cluster, Client(cluster) as client:
            print(sum(client.gather(client.map(extract_part, parts, pure=False))))
    else:
        from joblib import Parallel, delayed

        print(sum(Parallel(3)(delayed(extract_part)(part) for part in parts)))


if __name__ == "__main__":
    main()
"""


@pytest.mark.check("three processes with torch")
@pytest.mark.parametrize(
    ("name", "package"), [("joblib", "joblib"), ("dask", "distributed")]
)
def test_a_map_of_another_package(ws: Workspace, name: str, package: str) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    write_plan(ws)
    ws.write("map.py", MAP)
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "map.py", name],
        cwd=ws.folder,
        env=environment({"PYTHONPATH": paths}),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == str(N_CLIPS)
    assert_whole_and_as_undisturbed(ws)
