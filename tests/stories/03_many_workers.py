"""Story 3: many workers fill one store, and it is the same, byte for byte, as if one had done it.

One of them may be killed or very slow, two may be at the same block, and hardly a block is computed
twice.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from support.cli import ROOT, environment
from support.slurm import Slurm

import obygaze as og
from stories.counting_model import (
    BLOCK_CLIPS,
    EXTRACT,
    N_CLIPS,
    STORE,
    assert_whole_and_as_undisturbed,
    begin_with_counting_model,
    bytes_of_features,
    clips_begun,
    clips_of_processes,
    expected_numbers,
    numbers_in,
)
from stories.workspace import Workspace, wait_until


@pytest.mark.check("two processes with torch")
def test_nobody_waits_for_a_worker_that_stands_still(ws: Workspace) -> None:
    begin_with_counting_model(ws)
    slow = ws.start(EXTRACT, env={"HOLD_AT": "1"})
    wait_until(lambda: clips_begun(ws) == 1, slow)
    os.killpg(slow.pid, signal.SIGSTOP)
    ws(EXTRACT)
    assert_whole_and_as_undisturbed(ws)
    ws.write("go", "")
    os.killpg(slow.pid, signal.SIGCONT)
    slow.wait()
    assert_whole_and_as_undisturbed(ws)
    assert clips_begun(ws) <= N_CLIPS + BLOCK_CLIPS


def test_two_workers_at_the_same_block_leave_the_same_bytes(ws: Workspace) -> None:
    """The ten clips of a film are one block."""
    begin_with_counting_model(ws, "harbour")
    both = {"BEGIN_TOGETHER": "2"}
    other = ws.start(EXTRACT, env=both)
    ws(EXTRACT, env=both)
    other.wait()
    assert len(clips_of_processes(ws)) == 2
    ws(f"{EXTRACT} --store counting.py:model=alone")
    assert bytes_of_features(ws) == bytes_of_features(ws, "alone")
    np.testing.assert_array_equal(numbers_in(ws), expected_numbers()[:10])


@pytest.mark.check("eight processes with torch")
def test_eight_processes(ws: Workspace) -> None:
    """200 clips are 13 blocks."""
    begin_with_counting_model(ws, per_film=50)
    n_workers = 8
    workers = []
    for _ in range(n_workers):
        workers.append(ws.start(EXTRACT, env={"BEGIN_TOGETHER": str(n_workers)}))
    for worker in workers:
        worker.wait()
    assert len(clips_of_processes(ws)) == n_workers
    # Alone, each would begin all 200; on a busy machine, some blocks are begun by several.
    assert clips_begun(ws) < 3 * 200
    assert "200 ok" in ws(f"store verify {STORE} --hash").text
    ws(f"{EXTRACT} --store counting.py:model=alone")
    assert bytes_of_features(ws) == bytes_of_features(ws, "alone")


@pytest.mark.check("a real Slurm")
def test_a_slurm_array(ws: Workspace, slurm: Slurm) -> None:
    begin_with_counting_model(ws)
    mine = slurm.with_command(ws.path("bin"))
    line = EXTRACT.replace("run", "slurm") + " --tasks 3 -o night.sh"
    ws.process(f"{line} -- --cpus-per-task 1", env=mine.environment)
    job = mine.call("sbatch", "--parsable", str(ws.path("night.sh")))
    states = mine.wait_for_end(job)
    assert set(states.values()) == {"COMPLETED"}, ws.path("logs")
    assert_whole_and_as_undisturbed(ws)


MAP = """\
from distributed import Client, LocalCluster

import obygaze as og


def extract_part(part):
    (state,) = og.extract("films", "counting.py:model", workers=1)
    return state.seal


def main():
    parts = range(3)
    settings = {"threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(3, **settings) as cluster, Client(cluster) as client:
        print(*client.gather(client.map(extract_part, parts, pure=False)))


if __name__ == "__main__":
    main()
"""


@pytest.mark.check("three processes with torch")
def test_a_map_of_dask(ws: Workspace) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed")
    begin_with_counting_model(ws)
    ws.write("map.py", MAP)
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "map.py"],
        cwd=ws.folder,
        env=environment({"PYTHONPATH": paths}),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seals = done.stdout.splitlines()[-1].split()
    seal = og.open_store(ws.path(f"stores/{STORE}")).seal
    assert seals == [seal] * 3
    assert_whole_and_as_undisturbed(ws)
