"""A run that is interrupted or killed at any point, and the same command that continues it."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support.experiments import films, planted, quick, store_of, write_workspace

from obygaze_features.core.console import Progress, Quiet
from obygaze_models.protocols.runner import finished
from obygaze_models.runner.processes import map_parts
from obygaze_models.runner.inputs import Inputs, gather
from obygaze_models.runner.run import run_protocol

FILES = ("results.json", "predictions.csv")
CHANGES = (
    'grid.models=["ridge", "mlp", "pcbm-lr", "pcbm-dt"]',
    'grid.train=["EN_S", "ENHN_S"]',
    'grid.test=["ENHN_S"]',
    "report.concepts=false",
    "report.contrast=[]",
    "report.learning_films=[1]",  # the same folds with other training clips
    "models.mlp.learning_rate=[0.001, 0.01]",  # so that a test is not one fit
    "models.mlp.min_epochs=1",
    "models.mlp.max_epochs=2",
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    manifest = films(3, 12)
    store = store_of(
        tmp_path_factory.mktemp("store") / "s", manifest, planted(manifest)
    )
    return gather(quick("honest", *CHANGES, replicates=20), manifest, "", {"x": store})


@pytest.fixture(scope="module")
def whole(inputs: Inputs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing disturbed."""
    return run_protocol(
        inputs, tmp_path_factory.mktemp("whole") / "run", n_jobs=1
    ).folder


def stopping_after(n_fits: int) -> tuple[list[int], object]:
    """Bars that interrupt the run once this many fits are shown as done, and what they showed."""
    shown: list[int] = []

    class Bar(Quiet):
        def advance(self, amount: int = 1) -> None:
            shown.append(amount)
            if sum(shown) >= n_fits:
                raise KeyboardInterrupt

    @contextmanager
    def watch(label: str, total: int) -> Iterator[Progress]:
        yield Bar() if label.startswith("tests") else Quiet()

    return shown, watch


def left_over(folder: Path) -> list[Path]:
    return list(folder.glob(".*.unfinished"))


@pytest.mark.parametrize(("n_fits", "n_jobs"), [(1, 1), (8, 2), (14, 1)])
def test_the_same_call_continues_and_gives_the_same_bytes(
    inputs: Inputs, whole: Path, tmp_path: Path, n_fits: int, n_jobs: int
) -> None:
    shown, watch = stopping_after(n_fits)
    with pytest.raises(KeyboardInterrupt) as stopped:
        run_protocol(inputs, tmp_path / "runs" / "a", n_jobs=n_jobs, watch=watch)
    kept_tests, what_next = stopped.value.__notes__
    n_tests = sum(shown)
    plural = "" if n_tests == 1 else "s"
    assert kept_tests == f"{n_tests} finished test{plural} of models kept"
    assert what_next == "run the same command again; it continues after them"
    # Though the error, and with it the frames of the run, is still held, as a notebook holds it.
    assert multiprocessing.active_children() == []
    (kept,) = left_over(tmp_path / "runs")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [kept.name]

    again, watch = stopping_after(10**6)
    run_protocol(inputs, tmp_path / "runs" / "a", n_jobs=n_jobs, watch=watch)
    assert again[0] == sum(shown)  # what was shown as done is not fitted again
    assert not left_over(tmp_path / "runs")
    for file in FILES:
        assert (whole / file).read_bytes() == (
            tmp_path / "runs" / "a" / file
        ).read_bytes()


def test_lines_that_a_kill_cut_off_are_made_again(
    inputs: Inputs, whole: Path, tmp_path: Path
) -> None:
    for n_fits, cut in ((5, 1), (10, 7), (14, 300)):
        _, watch = stopping_after(n_fits)
        with pytest.raises(KeyboardInterrupt):
            run_protocol(inputs, tmp_path / "a", n_jobs=1, watch=watch)
        (kept,) = left_over(tmp_path)
        kept.write_bytes(kept.read_bytes()[:-cut])
    run_protocol(inputs, tmp_path / "a", n_jobs=1)
    for file in FILES:
        assert (whole / file).read_bytes() == (tmp_path / "a" / file).read_bytes()


def test_another_protocol_or_another_version_reads_nothing_of_it(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, watch = stopping_after(12)
    with pytest.raises(KeyboardInterrupt):
        run_protocol(inputs, tmp_path / "a", n_jobs=1, watch=watch)
    (kept,) = left_over(tmp_path)
    other = replace(inputs, protocol=quick("honest", *CHANGES, replicates=21))
    with_another_package = (
        "obygaze_models.protocols.runner.run.PACKAGES",
        ("numpy", "pytest"),
    )
    for changed, patch in ((other, None), (inputs, with_another_package)):
        if patch:
            monkeypatch.setattr(*patch)
        shown, watch = stopping_after(10**6)
        run_protocol(changed, tmp_path / "a", n_jobs=1, watch=watch, force=True)
        assert shown[0] == 0
        assert left_over(tmp_path) == [kept]


def test_what_was_left_a_month_ago_is_removed(inputs: Inputs, tmp_path: Path) -> None:
    old, new = tmp_path / ".b~1.unfinished", tmp_path / ".c~2.unfinished"
    for path in (old, new):
        path.write_text("")
    ago = time.time() - finished.KEPT_FOR_S - 60
    os.utime(old, (ago, ago))
    run_protocol(inputs, tmp_path / "a", n_jobs=1)
    assert left_over(tmp_path) == [new]


@pytest.mark.check("kills a run")
@pytest.mark.parametrize(
    ("number", "to_all", "code"),
    [
        (signal.SIGINT, True, 130),
        (signal.SIGINT, False, 130),
        (signal.SIGTERM, False, 75),
        (signal.SIGKILL, False, -9),
    ],
)
def test_a_signal_ends_every_process_and_keeps_what_is_finished(
    tmp_path: Path, number: signal.Signals, to_all: bool, code: int
) -> None:
    manifest = films(4, 30)
    write_workspace(tmp_path, manifest, planted(manifest))
    # Perceptrons that cannot finish while the test waits.
    endless = "models.mlp.min_epochs=1000000", "models.mlp.max_epochs=1000000"
    changes = ('grid.models=["ridge", "mlp"]', *endless)
    words = [word for change in changes for word in ("--set", change)]
    command = [sys.executable, "-m", "obygaze", "-C", str(tmp_path), "run", "honest"]
    command += ["--store", "sig", "-o", "a", "--jobs", "2", *words]
    (tmp_path / "runs").mkdir()
    process = subprocess.Popen(
        command, start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and len(_session(process.pid)) < 3:
        time.sleep(0.05)
    (os.killpg if to_all else os.kill)(process.pid, number)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == code
    if code > 0:
        error, hint = errors.strip().split("\n")
        end = "interrupted" if code == 130 else "stopped by SIGTERM"
        assert re.fullmatch(rf"Error: {end}: \d+ finished tests? of models kept", error)
        assert hint == "  Try: run the same command again; it continues after them"
    while _session(process.pid):  # until the kernel has ended them too
        time.sleep(0.05)


def _session(leader: int) -> list[int]:
    """The running processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(session) == leader and state != "Z":
            found.append(int(stat.parent.name))
    return found


def test_parts_come_in_order_and_an_error_ends_them(tmp_path: Path) -> None:
    pids = list(map_parts(lambda part: (part, os.getpid()), 6, 2))
    assert [part for part, _ in pids] == [0, 1, 2, 3, 4, 5]
    assert os.getpid() not in {pid for _, pid in pids}

    def fail(part: int) -> int:
        if part == 1:
            raise ValueError("part 1")
        return part

    with pytest.raises(ValueError, match="part 1"):
        list(map_parts(fail, 6, 2))
    assert list(map_parts(lambda part: part, 3, 2)) == [0, 1, 2]


def test_a_line_is_a_test_as_json(inputs: Inputs, tmp_path: Path) -> None:
    _, watch = stopping_after(1)
    with pytest.raises(KeyboardInterrupt):
        run_protocol(inputs, tmp_path / "a", n_jobs=1, watch=watch)
    (kept,) = left_over(tmp_path)
    blank, *lines = kept.read_text().split("\n")
    assert blank == ""
    store, (model, pair, fold, repeat), test = json.loads(lines[0])
    assert (store[:2], model, fold, repeat, len(pair)) == ("x ", "mlp", 0, 0, 2)
    assert len(test["rows"]) == len(test["predictions"]["score"]) > 0
