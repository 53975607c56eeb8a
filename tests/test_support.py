"""The tests' own tools: what is skipped where, and that CI skips no server."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import ROOT, call_obygaze, environment, run_obygaze
from support.data import golden, real_data
from support.kills import kill_at
from support.servers import free_port, need_program, wait_for_port, wait_until
from support.videos import encode_video, write_video

from obygaze_features.video import DecodeJob, DecodePool, PictureView

# Skipped and Failed are what pytest raises; neither is an Exception.
SKIPPED, FAILED = pytest.skip.Exception, pytest.fail.Exception


def test_a_program_that_is_there_is_found():
    assert os.access(need_program("sh"), os.X_OK)


@pytest.mark.parametrize("ci, outcome", [("", SKIPPED), ("true", FAILED)])
def test_a_program_that_is_absent_skips_here_and_fails_in_ci(monkeypatch, ci, outcome):
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no-such-server is not installed"):
        need_program("no-such-server")


@pytest.mark.parametrize(
    "find, variable", [(real_data, "OBYGAZE_DATA"), (golden, "OBYGAZE_GOLDEN")]
)
def test_data_come_from_where_the_environment_says(
    monkeypatch, tmp_path, find, variable
):
    monkeypatch.setenv(variable, str(tmp_path))
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "table.csv").touch()
    assert find("set", "table.csv") == tmp_path / "set" / "table.csv"
    with pytest.raises(SKIPPED, match=rf"set/absent\.csv \(set {variable}"):
        find("set", "absent.csv")


def test_a_free_port_can_be_listened_on_and_waited_for():
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        wait_for_port(port)
    with pytest.raises(AssertionError, match="in vain for rain"):
        wait_until(lambda: False, "rain", timeout_s=0.05)


def test_both_ways_to_run_the_command_tell_the_same(tmp_path):
    for words in (["--version"], ["doctor", "surplus"], ["ls", "--json"]):
        assert run_obygaze(*words, cwd=tmp_path) == call_obygaze(*words, cwd=tmp_path)


def test_a_call_leaves_the_surroundings_as_they_were(tmp_path):
    before = (dict(os.environ), Path.cwd())
    call_obygaze("--version", cwd=tmp_path, env={"HOME": None, "NEW": "1"})
    assert (dict(os.environ), Path.cwd()) == before


def test_a_failed_result_shows_what_was_said():
    with pytest.raises(AssertionError, match="No such command 'no-such-command'"):
        call_obygaze("no-such-command").ok()


def test_no_test_reads_a_persons_home_or_settings(tmp_path_factory):
    assert "obygaze-tests-" in os.environ["HOME"]
    assert os.environ["HF_HOME"].startswith(os.environ["HOME"])
    assert os.environ["OMP_NUM_THREADS"] == "1"
    assert "OBYGAZE_WORKSPACE" not in os.environ


def test_videos_in_av1_leave_the_process_as_it_was(tmp_path: Path) -> None:
    before = os.sched_getscheduler(0)
    options = {"preset": "8", "svtav1-params": "lp=1"}
    encode_video(tmp_path / "v.mp4", "libsvtav1", numbers=range(3), options=options)
    assert os.sched_getscheduler(0) == before == os.SCHED_OTHER


@pytest.mark.check("starts decode workers as they are")
def test_a_fork_of_a_process_that_has_started_decode_workers_starts_its_own(
    tmp_path: Path,
) -> None:
    path = write_video(tmp_path / "a.mkv", numbers=range(8), size=(64, 48))

    def decode() -> None:
        with DecodePool(1) as pool:
            assert (
                pool.submit(DecodeJob(path, (PictureView(1),))).result().error is None
            )

    decode()
    assert not kill_at(10**9, decode)


@pytest.mark.check("starts pytest with two workers")
def test_one_worker_does_all_tests_of_a_group(tmp_path):
    words = ["-m", "pytest", "-v", "-n", "2", "--dist", "loadgroup", "--basetemp"]
    tests = [tmp_path / "new", "tests/test_docs.py", "-k", "no_link_is_dead"]
    done = subprocess.run(
        [sys.executable, *words, *tests],
        cwd=ROOT,
        env=environment({"PYTEST_ADDOPTS": "-p no:cacheprovider"}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    workers = re.findall(r"\[(gw\d)\] \[", done.stdout)
    assert len(workers) > 10
    assert len(set(workers)) == 1
