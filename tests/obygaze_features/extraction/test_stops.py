"""`extract run` under Ctrl-C, SIGTERM and kills: finished clips are kept, the bytes are equal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli import call_obygaze, environment
from support.extraction import (
    a_plan,
    array_bytes,
    film_folder,
    keep_manifest,
    plan_file,
)

from obygaze_features.extraction import blocks
from obygaze_features.extraction.extracting import extract
from obygaze_features.extraction.run import RowProgress
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import open_store

N_CLIPS = 9
RESUME = "  Try: run the same command again to resume"


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
    assert call_obygaze("extract", "run", plan).code == 3
    return array_bytes(folder / "stores" / "descriptors")


def at_other_rows(*rows: int) -> list[Any]:
    """Parameters for `make check`: the same at other rows."""
    mark = pytest.mark.check("the same at other rows")
    return [pytest.param(row, marks=mark) for row in rows]


def send_after(
    monkeypatch: pytest.MonkeyPatch, row: int, *signals: signal.Signals
) -> None:
    """Send signals to this process when a row was decoded."""
    show = RowProgress.__call__

    def show_and_send(progress: RowProgress, shown_row: int, failed: bool) -> None:
        show(progress, shown_row, failed)
        if shown_row == row:
            for number in signals:
                os.kill(os.getpid(), number)

    monkeypatch.setattr(RowProgress, "__call__", show_and_send)


@pytest.mark.parametrize("row", [0, 4, *at_other_rows(5)])
def test_one_ctrl_c_finishes_the_clips_at_work(
    films: Manifest,
    undisturbed: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    row: int,
) -> None:
    plan = plan_file(a_plan(films, tmp_path, "descriptors"), tmp_path / "plan.json")
    with monkeypatch.context() as patch:
        send_after(patch, row, signal.SIGINT)
        done = call_obygaze("extract", "run", plan, "--workers", "1")
    # Of the block that is not complete, the clip that failed is tried again.
    n_kept = row + 1 if row != 5 else row
    assert done.code == 130
    note = (
        "stopping when the clips at work are finished; Ctrl-C stops at once;"
        " either way, all finished clips are kept"
    )
    *notes, error, hint = done.stderr.splitlines()
    assert note in notes
    assert error == f"Error: stopped by SIGINT: {n_kept} of 9 clips are kept"
    assert hint == RESUME
    store = tmp_path / "stores" / "descriptors"
    status = call_obygaze("extract", "status", store, "--json").json()["stores"][0]
    counts = [status[key] for key in ("ok", "failed", "in_unfinished_blocks")]
    assert sum(counts) == n_kept
    assert call_obygaze("extract", "run", plan).code == 3
    assert array_bytes(store) == undisturbed


def test_what_is_kept_is_said_with_the_command_that_continues(
    films: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_manifest(films, tmp_path)
    monkeypatch.chdir(tmp_path)
    run = ("extract", "run", "films", "-b", "descriptors")
    with monkeypatch.context() as patch:
        send_after(patch, 2, signal.SIGINT)
        assert call_obygaze(*run, "--workers", "1").code == 130
    store = "films.descriptors"
    expected = (
        "the extraction is not finished: 9 clips missing, of which 3 are computed and"
        " kept; obygaze extract run films -b descriptors, with the options that it began"
        " with, continues it"
    )
    assert expected in call_obygaze("store", "verify", store).ok().stdout
    packed = call_obygaze("store", "pack", store).ok().stderr
    assert expected in packed
    assert "--seal" not in packed
    assert call_obygaze(*run).code == 3
    # What is left is a clip that failed: the extraction is finished, and the store not sealed.
    done = call_obygaze("store", "verify", store).ok()
    assert "not finished" not in done.stdout
    packed = call_obygaze("store", "pack", store, "--force").ok().stderr
    assert "extract run --seal seals a store with failed clips" in packed


def test_a_second_ctrl_c_says_what_is_kept(
    films: Manifest,
    undisturbed: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = 2
    monkeypatch.setattr(blocks, "KEEP_EVERY_S", 0.0)
    plan = plan_file(a_plan(films, tmp_path, "descriptors"), tmp_path / "plan.json")
    with monkeypatch.context() as patch:
        send_after(patch, row, signal.SIGINT, signal.SIGINT)
        done = call_obygaze("extract", "run", plan, "--workers", "1", "--batch", "1")
    assert done.code == 130
    *_, error, hint = done.stderr.splitlines()
    match = re.fullmatch(r"Error: interrupted: (\d) of 9 clips are kept", error.strip())
    assert match is not None and hint == RESUME
    # The clip at work is lost.
    assert int(match[1]) in (row, row + 1)
    assert call_obygaze("extract", "run", plan).code == 3
    assert array_bytes(tmp_path / "stores" / "descriptors") == undisturbed


def test_a_notebook_gets_the_interrupt_with_what_is_kept(
    films: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_after(monkeypatch, 4, signal.SIGINT, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt) as caught:
        extract(a_plan(films, tmp_path, "descriptors"), batch=1, progress=True)
    kept, what_next = caught.value.__notes__
    assert re.fullmatch("[45] of 9 clips are kept", kept)
    assert what_next == "run the same command again to resume"


# Signals itself when so many clips were computed. A clip after them is never finished.
PROGRAM = """
import os, signal, sys, threading
from obygaze_features.extraction import blocks, compute, shared_machine
n_clips, names, plan = int(sys.argv[1]), sys.argv[2].split(), sys.argv[3]
blocks.KEEP_EVERY_S = 0.0
handled = threading.Event()
handle = shared_machine.StopFlag.handle
def handle_and_tell(self, *words):
    handled.set()
    handle(self, *words)
shared_machine.StopFlag.handle = handle_and_tell
compute_clip = compute.ThreadComputer._compute
n_computed = 0
def compute_and_stop(self, clip):
    global n_computed
    if n_computed == n_clips:
        for name in names:
            handled.clear()
            os.kill(os.getpid(), getattr(signal, name))
            handled.wait()
        threading.Event().wait()
    n_computed += 1
    return compute_clip(self, clip)
compute.ThreadComputer._compute = compute_and_stop
from obygaze import cli
cli.main(["extract", "run", plan, "--workers", "1", "--batch", "1"])
"""


@pytest.mark.check("kills an extraction at each clip")
@pytest.mark.parametrize("names", ["SIGKILL", "SIGINT SIGINT", "SIGTERM SIGINT"])
@pytest.mark.parametrize("n_clips", [0, 6])
def test_only_the_clip_at_work_is_lost(
    films: Manifest,
    undisturbed: dict[str, bytes],
    tmp_path: Path,
    names: str,
    n_clips: int,
) -> None:
    """Also if a clip never ends: a second Ctrl-C does not wait for its thread."""
    plan = plan_file(a_plan(films, tmp_path, "descriptors"), tmp_path / "plan.json")
    words = [sys.executable, "-c", PROGRAM, str(n_clips), names, str(plan)]
    done = subprocess.run(
        words, env=environment(), capture_output=True, text=True, timeout=120
    )
    store = tmp_path / "stores" / "descriptors"
    status = call_obygaze("extract", "status", store, "--json").json()["stores"][0]
    n_kept = status["ok"] + status["in_unfinished_blocks"]
    assert n_kept == n_clips
    if names == "SIGKILL":
        assert done.returncode == -signal.SIGKILL
    else:
        assert done.returncode == 130
        n_failed = status["failed"]
        assert f"interrupted: {n_kept + n_failed} of 9 clips are kept" in done.stderr
        assert "Traceback" not in done.stderr
    decoded: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        add = blocks.BlockMaker.add

        def added(maker: blocks.BlockMaker, row: int, *values: object) -> None:
            decoded.append(row)
            add(maker, row, *values)  # type: ignore[arg-type]

        patch.setattr(blocks.BlockMaker, "add", added)
        assert call_obygaze("extract", "run", plan).code == 3
    assert array_bytes(store) == undisturbed
    with_features = [row for row in decoded if row != 5]
    assert with_features == [row for row in range(9) if row != 5][n_clips:]
    assert list((store / "staging").iterdir()) == []


def test_a_video_that_was_replaced_after_the_stop_is_decoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = film_folder(tmp_path, 3)
    plan = plan_file(a_plan(manifest, tmp_path, "descriptors"), tmp_path / "plan.json")
    with monkeypatch.context() as patch:
        send_after(patch, 1, signal.SIGINT)
        assert call_obygaze("extract", "run", plan).code == 130
    folder = Path(manifest.header.video_root)
    first, second, third = (folder / clip.video for clip in manifest.clips)
    first.write_bytes(third.read_bytes())
    call_obygaze("extract", "run", plan).ok()
    store = open_store(tmp_path / "stores" / "descriptors")
    sources = store.commits.sources(0)
    assert sources[0].quick_sha256 == sources[2].quick_sha256
    assert sources[1].n_bytes == second.stat().st_size
    values = store.matrix("clip").values
    np.testing.assert_array_equal(values[0], values[2])
