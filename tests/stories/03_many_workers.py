"""Story 3: many workers fill one store, and it is the same, byte for byte, as if one had done it.

One of them may be killed or very slow, two may be at the same block, and hardly a block is computed
twice.
"""

import os
import signal

import numpy as np
import pytest
from support.slurm import Slurm

from stories.counting_model import (
    BLOCK_CLIPS,
    EXTRACT,
    N_CLIPS,
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


@pytest.mark.check("two processes with torch")
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


@pytest.mark.check("a real Slurm")
def test_pictures_are_kept_before_the_tasks_that_compute(
    ws: Workspace, slurm: Slurm
) -> None:
    """A task of the second array is stopped as before the end of its time, and queued again."""
    begin_with_counting_model(ws)
    mine = slurm.with_command(ws.path("bin"))
    line = EXTRACT.replace("run", "slurm") + " --tasks 2 -o night.sh --decode-first"
    done = ws.process(f"{line} -- --cpus-per-task 1", env=mine.environment)
    command = done.text.split("to submit: ")[1].strip()
    frames, night = (ws.path(name) for name in ("night-frames.sh", "night.sh"))
    first = mine.call("sbatch", "--parsable", "--hold", str(frames))
    assert command == (
        "sbatch --dependency=afterany:$(sbatch --parsable night-frames.sh) night.sh"
    )
    job = mine.call(
        "sbatch",
        "--parsable",
        f"--dependency=afterany:{first}",
        "--export=ALL,HOLD_AT=1",
        str(night),
    )
    mine.call("scontrol", "release", first)
    assert set(mine.states(job).values()) == {"PENDING"}
    assert set(mine.wait_for_end(first).values()) == {"COMPLETED"}
    wait_until(lambda: clips_begun(ws) > 0)
    assert any(path.is_dir() for path in ws.path("stores").glob("films.frames-4x*"))
    mine.call("scancel", "--batch", "--signal=USR1", f"{job}_0")
    ws.write("go", "")
    reason = ("squeue", "--noheader", "--format=%r", f"--jobs={job}_0")
    wait_until(lambda: mine.call(*reason) == "BeginTime")
    # Slurm would wait for two minutes. A node does not start a task in the second in which it
    # stopped it.
    mine.call("scontrol", "update", f"JobId={job}_0", "StartTime=now+2")
    states = mine.wait_for_end(job)
    logs = "".join(path.read_text("utf-8") for path in ws.path("logs").glob("*.log"))
    assert set(states.values()) == {"COMPLETED"}, logs
    assert_whole_and_as_undisturbed(ws)
    assert "kept frames are read" in logs
    assert "stopped by SIGUSR1" in logs
