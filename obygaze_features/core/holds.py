"""Hold a folder while it is written, so that others can tell whether its writer still runs.

A number of a process says nothing in a container, where it is always 1 or used again, and the name
of a host says nothing where a scheduler gives names. Two things are used instead:

- A lock of the kernel on the folder. It ends with its process, whatever ended that. A lock on a
  folder is known to one kernel only. It decides for the processes of this kernel that see the
  folder through the same mount; the name of a held folder says which these are.
- A lease: the time of the folder, which is renewed while it is held. It decides for all others. Its
  age is taken from the clock of the file system, so that machines need not agree on the time.
"""

import hashlib
import re
import threading
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path

from obygaze_features.core import system
from obygaze_features.core.system.open_folder import OpenFolder

# The tag in the name of a held folder.
TAG = r"(?P<machine>k[0-9a-f]{15})\.[0-9a-f]{12}"
# NFS caches what a folder holds for at most 60 s: a lease must be longer.
RENEW_S = 15.0
LEASE_S = 120.0
# Where the lease is not renewed.
STALE_AFTER_S = 24 * 3600.0


class HeldFolder:
    """A folder that this process writes: its lock is held and its lease renewed until `release`.

    Args:
        path: The folder.
        opened: The folder, opened and locked.
        renewed: Whether to renew the lease.
    """

    def __init__(self, path: Path, opened: OpenFolder, *, renewed: bool = True) -> None:
        self.path = path
        self._opened = opened
        self._opened.path = path
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        if renewed:
            self._thread = threading.Thread(target=self._renew, daemon=True)
            self._thread.start()

    def _renew(self) -> None:
        while not self._ended.wait(RENEW_S):
            with suppress(OSError):
                self._opened.touch()

    def is_lost(self) -> bool:
        """Return whether another machine took the folder over: it no longer has its name."""
        return not self._opened.is_at(self.path)

    def release(self, *, expire: bool = False) -> None:
        """Give the folder up; with `expire`, its lease ends for other machines too."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if expire:
            with suppress(OSError):
                self._opened.touch(0.0)
        self._opened.close()


def hold_new(
    parent: Path, start: str, end: str = "", *, mode: int = 0o777, renewed: bool = True
) -> HeldFolder:
    """Make a folder of a new name, and hold it.

    Args:
        parent: The folder to make it in.
        start: The beginning of its name, before the tag.
        end: The end of its name, after the tag.
        mode: Its permissions.
        renewed: Whether to renew the lease.
    """
    while True:
        path = parent / f"{start}{new_tag(parent)}{end}"
        path.mkdir(mode=mode)
        # Before it is locked, another process can take it for abandoned.
        with suppress(BlockingIOError, FileNotFoundError):
            opened, _ = _locked(path)
            return HeldFolder(path, opened, renewed=renewed)


def take_over(
    folder: Path, tag: re.Match[str], lease_s: float = LEASE_S
) -> OpenFolder | None:
    """Return an abandoned folder, opened and locked; None where its lease runs.

    Raises `BlockingIOError` where a process of this kernel holds the folder, `FileNotFoundError`
    where it is gone.

    Args:
        folder: The folder.
        tag: The match of `TAG` in its name.
        lease_s: The seconds after which a lease has ended that was not renewed.
    """
    opened, is_locked = _locked(folder)
    try:
        machine = _machine(opened.status().st_dev)
        is_abandoned = is_locked and tag["machine"] == machine
        if not is_abandoned:
            now_s = _file_system_time(folder)
            is_abandoned = now_s - opened.status().st_mtime > lease_s
    except BaseException:
        opened.close()
        raise
    if not is_abandoned:
        opened.close()
        return None
    return opened


def new_tag(parent: Path) -> str:
    """Return a new tag for a folder that this process will hold in `parent`."""
    return f"{_machine(parent.stat().st_dev)}.{uuid.uuid4().hex[:12]}"


@cache
def _kernel() -> str:
    """Return the identity of the running kernel, which all its containers share."""
    return system.kernel_id()


def _machine(device: int) -> str:
    """Return the identity of a mount of the running kernel."""
    return "k" + hashlib.sha256(f"{_kernel()} {device}".encode()).hexdigest()[:15]


def _locked(folder: Path) -> tuple[OpenFolder, bool]:
    """Open a folder and lock it; also return whether its file system has locks."""
    opened = system.open_folder(folder, follow_links=False)
    try:
        is_locked = opened.lock()
        folder.lstat()  # raises an error where the process that had the lock has renamed it
    except BaseException:
        opened.close()
        raise
    return opened, is_locked


def _file_system_time(folder: Path) -> float:
    """Return the time now by the clock that gives new folders beside this one their time."""
    probe = folder.with_name(f".{uuid.uuid4().hex}.time")
    probe.mkdir()
    try:
        return probe.stat().st_mtime
    finally:
        probe.rmdir()
