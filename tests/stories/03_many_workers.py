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
