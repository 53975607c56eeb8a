"""Story 2: after an extraction was killed at any moment, the same command goes on.

It ends in the same bytes, at most the blocks at work are lost, and half of a store can be seen.
"""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.cli import begins_with, call_obygaze
from support.seeds import amount

import obygaze as og
from stories.counting_model import (
    BLOCK_CLIPS,
    EXTRACT,
    N_CLIPS,
    STORE,
    assert_whole_and_as_undisturbed,
    begin_after_a_kill,
    begin_with_counting_model,
    bytes_of_features,
    clips_begun,
    expected_numbers,
    numbers_of,
)
from stories.workspace import Workspace, wait_until

pytestmark = pytest.mark.check("kills, and a full disk")


def test_a_kill_loses_at_most_the_block_at_work(ws: Workspace) -> None:
    begin_after_a_kill(ws)
    assert clips_begun(ws) == 20
    assert "1 of 3 blocks" in ws(f"extract status {STORE}").text
    ws(EXTRACT)
    assert_whole_and_as_undisturbed(ws)
    assert clips_begun(ws) <= N_CLIPS + BLOCK_CLIPS
    # Once more there is nothing to do.
    before = clips_begun(ws)
    ws(EXTRACT)
    assert clips_begun(ws) == before


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGHUP", 75)])
def test_a_signal_ends_the_run_and_says_what_is_kept(ws, name, code) -> None:
    """Ctrl-C, `timeout 8h obygaze ...`, or a laptop that is closed."""
    begin_with_counting_model(ws)
    stopped = ws(EXTRACT, code=code, env={"SIGNAL_AT": f"20 {name}"}).text
    assert "of 40 clips are kept" in stopped
    assert "run the same command again" in stopped
    assert 20 <= clips_begun(ws) < N_CLIPS
    ws(EXTRACT)
    assert_whole_and_as_undisturbed(ws)
    assert clips_begun(ws) <= N_CLIPS + BLOCK_CLIPS


@pytest.mark.check("real processes that are interrupted by a terminal")
def test_a_second_ctrl_c_does_not_wait_for_a_clip_that_never_ends(ws) -> None:
    begin_with_counting_model(ws)
    running = ws.start(EXTRACT, env={"HOLD_AT": "20"})
    wait_until(lambda: clips_begun(ws) == 20, running)
    # A terminal sends it to every process of the command.
    os.killpg(running.pid, signal.SIGINT)
    while running.is_running():
        time.sleep(1)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGINT)
    stopped = running.wait(code=130).text
    assert "of 40 clips are kept" in stopped
    assert "Traceback" not in stopped
    ws(EXTRACT)
    assert_whole_and_as_undisturbed(ws)


# Kill the process group before change number DIE_AT_CHANGE of the disk.
DIE_AT_A_CHANGE = """\
import os
import signal
import sys

from support.kills import Before, changes_disk

n = int(os.environ["DIE_AT_CHANGE"])
kill = lambda: os.killpg(os.getpgrp(), signal.SIGKILL)
sys.addaudithook(Before(n, changes_disk, kill))
"""


@pytest.mark.check("kills a run before many changes of the disk")
def test_killed_before_many_changes_of_the_disk(ws: Workspace) -> None:
    begin_with_counting_model(ws, "harbour", "lake")
    alone = "--store counting.py:model=alone"
    ws(f"{EXTRACT} {alone}")
    expected = bytes_of_features(ws, "alone")
    hook = begins_with(ws.path("hook"), DIE_AT_A_CHANGE)
    hook["PYTHONPATH"] = os.pathsep.join([str(hook["PYTHONPATH"]), *sys.path])
    n_kills = 0
    every = amount(33, 11)
    for change in itertools.count(1, every):
        running = ws.start(EXTRACT, env={**hook, "DIE_AT_CHANGE": str(change)})
        wait_until(lambda running=running: not running.is_running())
        code = running.kill().code
        if code == 0:
            break
        assert code == -signal.SIGKILL
        n_kills += 1
        ws(EXTRACT)
        ws(f"store verify {STORE} --hash")
        assert bytes_of_features(ws) == expected, f"killed before change {change}"
        shutil.rmtree(ws.path(f"stores/{STORE}"))
    assert n_kills > 55 / every


@pytest.fixture
def full_disk(ws: Workspace) -> Iterator[list[Path]]:
    """A disk of its own for the stores, and the files that fill it to the last byte."""
    stores = ws.path("stores")
    stores.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(stores)]
    if subprocess.run(words, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not permitted here")
    files = []
    for number in range(1024 // 32):
        path = stores / f"other-{number}"
        path.write_bytes(bytes(32 * 1024))
        files.append(path)
    yield files
    subprocess.run(["umount", "--lazy", str(stores)], check=True)


def test_a_full_disk(ws: Workspace, full_disk: list[Path]) -> None:
    """Each time some space is freed, the run goes on until the disk is full again."""
    begin_with_counting_model(ws)
    n_full = 0
    for path in full_disk:
        done = call_obygaze(*EXTRACT.split(), cwd=ws.folder)
        if done.code == 0:
            break
        assert done.code == 1
        assert "the disk is full" in done.stderr
        n_full += 1
        path.unlink()
    assert n_full >= 3
    assert_whole_and_as_undisturbed(ws)
    assert clips_begun(ws) <= N_CLIPS + n_full * BLOCK_CLIPS


def test_half_a_store_is_looked_at_and_then_completed(ws: Workspace) -> None:
    begin_after_a_kill(ws)
    ws(f"store verify {STORE}", code=4)
    ws(f"{EXTRACT} --seal-now", code=3)
    verified = ws(f"store verify {STORE} --hash").text
    assert "whole: " in verified
    assert "seal: " in verified
    half = og.open_store(ws.path(f"stores/{STORE}")).matrix("frames", missing="drop")
    assert f"rows: {len(half)} ok" in verified
    assert len(half) in (BLOCK_CLIPS, N_CLIPS % BLOCK_CLIPS)
    np.testing.assert_array_equal(numbers_of(half), expected_numbers()[half.rows])
    ws(EXTRACT)
    assert_whole_and_as_undisturbed(ws)
