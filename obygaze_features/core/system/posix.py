"""Linux and macOS."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

# Forks of processes with threads are safe enough on Linux only.
CAN_FORK: bool = sys.platform.startswith("linux")
# The pool sends open files to its workers.
HAS_DECODE_WORKERS: bool = True
# Errors of file systems without hard links: USB sticks, memory cards, some network folders.
NO_LINKS: tuple[int, ...] = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
# Signals that all processes of a terminal or connection get when it closes.
HANGUP_SIGNALS: tuple[str, ...] = ("SIGHUP",)
# Clusters send the first three before they end a job.
STOP_SIGNALS: tuple[str, ...] = (
    *("SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT"),
    *HANGUP_SIGNALS,
)

# Some network file systems cannot sync a folder, or sync as macOS does.
_CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOTTY)
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_PR_SET_PDEATHSIG = 1  # of prctl(2)


def open_lock(folder: Path) -> int:
    """Return an open file, with which `take_lock` locks a folder; closing it releases the lock."""
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


def take_lock(descriptor: int) -> bool:
    """Take a lock and return True, or return False if another process has the lock.

    If the file system has no locks, return True.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # some network file systems have no locks
    return True


def sync_file(descriptor: int) -> None:
    """Write an open file to the disk."""
    # On macOS fsync() may leave the bytes in the cache of the disk.
    if hasattr(fcntl, "F_FULLFSYNC"):
        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
        except OSError as error:
            if error.errno not in _CANNOT_SYNC:
                raise
    os.fsync(descriptor)


def sync_path(path: Path) -> None:
    """Write a file to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Sync a folder, so that the names in it survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_file(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)


def replace_file(source: Path, target: Path) -> None:
    """Rename a file in one step; a file that has the new name is replaced."""
    source.replace(target)


def remove_file(path: Path) -> None:
    """Remove a file if it exists."""
    path.unlink(missing_ok=True)


def rename_folder(source: Path, target: Path) -> None:
    """Rename a folder in one step; an empty folder that has the new name is replaced."""
    source.rename(target)


def exchange_names(first: Path, second: Path) -> bool:
    """Exchange two names in one step; return False if it is not supported."""
    import ctypes

    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    names = (_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second))
    return bool(rename(*names, _RENAME_EXCHANGE) == 0)


def open_without_links(path: str, flags: int) -> int:
    """Open a file like `os.open`; raise an error (ELOOP) for a link."""
    # O_NONBLOCK, because opening a pipe without a writer would block.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def use_utf8_streams() -> None:
    """Do nothing: output is UTF-8, or in the encoding that the user chose."""


def typed_path(text: str) -> str:
    """Return a path that a user typed, with `/` between folders."""
    return text


def usable_cores() -> int:
    """Return the number of cores that this process may use, by its affinity mask if it has one."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_quota() -> float | None:
    """Return how many cores the quota of this process allows, or None if it has no quota.

    A container that may use 4 of 64 cores (`docker run --cpus 4`) still sees all 64 cores.
    """
    return _quota_of_groups(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"))


def _quota_of_groups(root: Path, groups: Path) -> float | None:
    """Return the smallest quota of cores of the control groups of a process, or None for all cores.

    Args:
        root: The folder in which the control groups are mounted.
        groups: The file that lists the control groups of the process.
    """
    quotas = []
    try:
        lines = groups.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        _, _, named = line.partition(":")
        controllers, _, group = named.partition(":")
        path = PurePosixPath(group.lstrip("/"))
        # Quotas of parent groups apply too. Inside a container, its own group is the root.
        for part in (path, *path.parents):
            if not controllers:  # version 2
                quotas.append(_read_quota(root / part / "cpu.max"))
            elif "cpu" in controllers.split(","):
                folder = root / controllers / part
                quotas.append(
                    _read_quota(
                        folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us"
                    )
                )
    known = [quota for quota in quotas if quota is not None]
    return min(known, default=None)


def _read_quota(*paths: Path) -> float | None:
    """Return the quota of cores from one or two files, or None if there is no limit."""
    try:
        words = " ".join(path.read_text(encoding="ascii") for path in paths).split()
        quota, period = map(int, words)
    except (OSError, ValueError):  # no such group, or "max"
        return None
    return quota / period if quota > 0 and period > 0 else None


def memory_bytes() -> int:
    """Return the memory of this machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def most_open_files() -> int:
    """Return the number of files that this process may open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def allow_open_files(n_files: int) -> None:
    """Raise the limit of open files of this process, if the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = n_files if hard == resource.RLIM_INFINITY else min(n_files, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _blocked_signals() -> list[signal.Signals]:
    return [signal.Signals[name] for name in STOP_SIGNALS]


def block_signals() -> None:
    """Block the signals that stop a run, in this thread and in the processes that it starts."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _blocked_signals())


def unblock_signals() -> None:
    """Undo `block_signals`."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _blocked_signals())


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Block the signals that stop a run inside a `with` statement; they arrive at its end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _blocked_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """Make the kernel end this process when its parent ends; Linux only."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def was_killed(exit_code: int | None) -> bool:
    """Return whether a process was killed, by another process or for lack of memory."""
    return exit_code == -signal.SIGKILL


def process_start(process: int) -> str:
    """Return the start time of a process as a number; "0": unknown, "": the process has ended."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return ""
    except PermissionError:
        pass  # the process belongs to another user
    try:
        text = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
    except OSError:
        return "0"
    facts = text.rpartition(")")[2].split()
    has_ended = facts[0] in ("Z", "X")
    return "" if has_ended else facts[19]


def machine_start() -> str:
    """Return an identifier of this machine, its start and its container."""
    try:
        start = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        # Each container has its own process numbers.
        start += os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - the link leads to no path
    except OSError:
        import uuid

        start = f"{uuid.getnode():x}"
    return f"{os.uname().nodename} {start}"


def open_memory() -> int:
    """Return an open file without a name, in memory if the system supports it."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("obygaze-frames")
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def send_with_file(channel: socket.socket, data: bytes, descriptor: int) -> int:
    """Send bytes and an open file to another process; return the number of bytes sent."""
    import socket

    return socket.send_fds(channel, [data], [descriptor])


def receive_with_files(channel: socket.socket) -> tuple[bytes, list[int]]:
    """Return bytes and open files from another process; no bytes if that process has ended."""
    import socket

    data, descriptors, _, _ = socket.recv_fds(channel, 65536, 1)
    return data, descriptors


def is_readable(channel: socket.socket, timeout_s: float) -> bool:
    """Return whether a socket becomes readable within a time limit."""
    # Not select(), which does not support descriptors above 1023.
    polled = select.poll()
    polled.register(channel, select.POLLIN)
    return bool(polled.poll(1000 * timeout_s))
