"""Who holds a folder: the kernel knows for its own processes, a lease for those of others."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import time
from pathlib import Path

import pytest

from obygaze_features.core import holds
from obygaze_features.core.system.open_folder import OpenFolder


def match(folder: Path) -> re.Match[str]:
    found = re.fullmatch(holds.TAG, folder.name.removeprefix("x."))
    assert found is not None
    return found


def take(folder: Path) -> bool:
    """Take a folder over, as another process does; return whether it was abandoned."""
    opened = holds.take_over(folder, match(folder))
    if opened is not None:
        opened.close()
    return opened is not None


def test_a_folder_is_held_until_it_is_released(tmp_path: Path) -> None:
    held = holds.hold_new(tmp_path, "x.")
    with pytest.raises(BlockingIOError):
        take(held.path)
    held.release()
    assert take(held.path)


def test_the_lock_of_a_killed_process_ends_with_it_and_not_before(
    tmp_path: Path,
) -> None:
    """Neither its number nor the age of the folder matters: it may be stopped for days."""
    ready, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            holds.hold_new(tmp_path, "x.")
            os.write(write, b"x")
            time.sleep(60)
        finally:
            os._exit(0)
    os.read(ready, 1)
    (folder,) = tmp_path.iterdir()
    os.kill(child, signal.SIGSTOP)
    os.utime(folder, (0, 0))
    with pytest.raises(BlockingIOError):
        take(folder)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.utime(folder)
    assert take(folder)


def test_a_fork_that_outlives_its_parent_does_not_hold_what_the_parent_held(
    tmp_path: Path,
) -> None:
    held = holds.hold_new(tmp_path, "x.")
    ready, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, b"x")
        time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
    with pytest.raises(BlockingIOError):
        take(held.path)
    held.release()
    assert take(held.path)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.parametrize("why", ["another kernel", "another mount", "no locks"])
def test_where_the_lock_says_nothing_the_lease_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    def no_lock(*_: object) -> None:
        raise OSError("no locks here")

    folder = tmp_path / f"x.{holds.new_tag(tmp_path)}"
    folder.mkdir()
    machine = holds._machine
    if why == "another kernel":
        monkeypatch.setattr(holds, "_kernel", lambda: "another")
    elif why == "another mount":
        monkeypatch.setattr(holds, "_machine", lambda device: machine(device + 1))
    else:
        monkeypatch.setattr(fcntl, "flock", no_lock)
    assert not take(folder)
    for age_s, is_abandoned in (
        (holds.LEASE_S - 30, False),
        (holds.LEASE_S + 30, True),
    ):
        then = time.time() - age_s
        os.utime(folder, (then, then))
        assert take(folder) == is_abandoned
    assert list(tmp_path.iterdir()) == [folder]


def test_the_age_of_a_lease_is_that_of_the_clock_of_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / f"x.k{'0' * 15}.{'0' * 12}"
    folder.mkdir()
    monkeypatch.setattr(time, "time", lambda: 1e12)
    assert not take(folder)


def test_a_lease_is_renewed_while_it_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holds, "RENEW_S", 0.01)
    held = holds.hold_new(tmp_path, "x.")
    os.utime(held.path, (0, 0))
    deadline = time.monotonic() + 30
    while held.path.stat().st_mtime == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    held.release()
    assert time.time() - held.path.stat().st_mtime < 60
    # After its release nothing touches it again.
    os.utime(held.path, (0, 0))
    time.sleep(0.05)
    assert held.path.stat().st_mtime == 0


def test_a_released_folder_can_be_taken_by_other_machines_at_once(
    tmp_path: Path,
) -> None:
    held = holds.hold_new(tmp_path, "x.")
    held.release(expire=True)
    far = tmp_path / f"x.k{'0' * 15}.{'0' * 12}"
    held.path.rename(far)
    assert take(far)


def test_a_folder_that_is_taken_before_its_maker_holds_it_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, taken = holds._locked, list[Path]()

    def late(folder: Path) -> tuple[OpenFolder, bool]:
        if len(taken) < 2:
            taken.append(folder)
            folder.rename(tmp_path / f"taken {len(taken)}")
        return locked(folder)

    monkeypatch.setattr(holds, "_locked", late)
    held = holds.hold_new(tmp_path, "x.")
    assert held.path.is_dir() and held.path not in taken and not held.is_lost()
    held.path.rename(tmp_path / "taken 3")
    assert held.is_lost()
    held.release()
