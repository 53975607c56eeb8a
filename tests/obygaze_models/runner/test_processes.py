"""A run that is interrupted or killed ends all of its processes, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.experiments import films, planted, write_workspace

from obygaze_features.core.errors import FixInput
from obygaze_models.runner.processes import map_in_processes


@pytest.mark.check("kills a run")
@pytest.mark.parametrize(
    ("number", "to_all", "code"),
    [
        (signal.SIGINT, True, 130),
        (signal.SIGTERM, False, 75),
        (signal.SIGKILL, False, -9),
    ],
)
def test_a_signal_ends_every_process(tmp_path, number, to_all, code) -> None:
    manifest = films(4, 30)
    write_workspace(tmp_path, manifest, planted(manifest))
    # Perceptrons that cannot finish while the test waits.
    endless = "models.mlp.min_epochs=1000000", "models.mlp.max_epochs=1000000"
    changes = ('grid.models=["ridge", "mlp"]', *endless)
    words = [word for change in changes for word in ("--set", change)]
    command = [
        sys.executable,
        "-m",
        "obygaze",
        "-C",
        str(tmp_path),
        "run",
        "honest-negatives",
    ]
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
        assert ("interrupted" if code == 130 else f"stopped by {number.name}") in errors
    while _session(process.pid):  # until the kernel has ended them too
        time.sleep(0.05)
    assert list((tmp_path / "runs").iterdir()) == []


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
    with map_in_processes(lambda part: (part, os.getpid()), 6, 2) as made:
        pids = list(made)
    assert [part for part, _ in pids] == [0, 1, 2, 3, 4, 5]
    assert os.getpid() not in {pid for _, pid in pids}

    def fail(part: int) -> int:
        if part == 1:
            raise ValueError("part 1")
        return part

    with (
        pytest.raises(ValueError, match="part 1"),
        map_in_processes(fail, 6, 2) as made,
    ):
        list(made)
    with map_in_processes(lambda part: part, 3, 2) as again:
        assert list(again) == [0, 1, 2]


def test_a_killed_process_is_one_sentence() -> None:
    killed = pytest.raises(FixInput, match="a training process was killed")
    with killed, map_in_processes(lambda number: os._exit(number + 1), 2, 2) as parts:
        list(parts)
