"""Windows.

A folder cannot be opened, so the lock of a folder is that of an empty file, which is named after
the identity of the folder and is in a folder of the user: `obygaze\\locks` in `%LOCALAPPDATA%`. It
decides for the processes of one user on one machine. A file that a program has open cannot be
replaced, renamed or removed, so a rename is tried for some time: virus scanners and indexers have
new files open.
"""

import ctypes
import errno
import io
import msvcrt
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from obygaze_features.core.errors import InUse

CAN_FORK: bool = False
# A process cannot send an open file to another one here.
HAS_DECODE_WORKERS: bool = False
# A disk in the format FAT or exFAT answers "incorrect function", which Python makes EINVAL.
NO_LINKS: tuple[int, ...] = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
HANGUP_SIGNALS: tuple[str, ...] = ()
STOP_SIGNALS: tuple[str, ...] = ("SIGTERM", "SIGINT")

Result = TypeVar("Result")

RETRY_S = 3.0
PAUSE_S = 0.05
# What msvcrt.locking answers where another process has the lock.
_LOCKED = (errno.EACCES, errno.EDEADLK)
# Of the Windows API.
_SYNCHRONIZE = 0x100000
_ACCESS_DENIED = 5
_WAIT_TIMEOUT = 258


def open_lock(folder: Path) -> int:
    """Return an open file, with which `take_lock` locks a folder; closing it releases the lock."""
    local = os.environ.get("LOCALAPPDATA") or tempfile.gettempdir()
    locks = Path(local) / "obygaze" / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    identity = folder.stat()
    lock_file = locks / f"{identity.st_dev:x}-{identity.st_ino:x}.lock"
    return os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o600)


def take_lock(descriptor: int) -> bool:
    """Return False where another process has the lock; True too where there are no locks."""
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except OSError as error:
        return error.errno not in _LOCKED
    return True


def sync_file(descriptor: int) -> None:
    """Write an open file to the disk."""
    os.fsync(descriptor)


def sync_path(path: Path) -> None:
    """Write a file to the disk."""
    # A file that is open for reading cannot be synced, and one that is read-only not opened.
    with suppress(PermissionError):
        descriptor = os.open(path, os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Do nothing: folders cannot be synced, and NTFS keeps a journal of names."""


def replace_file(source: Path, target: Path) -> None:
    """Rename a file in one step; a file that has the new name is replaced."""
    _again_while_open(lambda: source.replace(target), target)


def remove_file(path: Path) -> None:
    """Remove a file, if it is there."""
    _again_while_open(lambda: path.unlink(missing_ok=True), path)


def rename_folder(source: Path, target: Path) -> None:
    """Rename a folder in one step; an empty folder that has the new name is replaced."""

    def rename() -> None:
        try:
            source.rename(target)
        except FileExistsError:
            if target.is_symlink() or not target.is_dir():
                raise
            target.rmdir()  # an error where it is not empty
            source.rename(target)

    _again_while_open(rename, target)


def _again_while_open(change: Callable[[], Result], target: Path) -> Result:
    """Try a rename or another change until no other program has the file open, or for `RETRY_S`."""
    give_up = time.monotonic() + RETRY_S
    while True:
        try:
            return change()
        except PermissionError as error:
            if time.monotonic() >= give_up:
                raise InUse(
                    "this cannot be replaced, renamed or removed while another program has it open",
                    where=str(target),
                    hint="close it in programs such as Excel, a video player or obygaze,"
                    " or pause OneDrive, Dropbox or the virus scanner for this folder",
                ) from error
        time.sleep(PAUSE_S)


def exchange_names(first: Path, second: Path) -> bool:
    """Return False: names cannot be exchanged in one step."""
    return False


def open_without_links(path: str, flags: int) -> int:
    """Open a file as `os.open` does; an error (ELOOP) for a link."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return os.open(path, flags)


def use_utf8_streams() -> None:
    """Make output that goes to a file or a pipe the same as elsewhere: UTF-8, line feeds."""
    if os.environ.get("PYTHONIOENCODING"):
        return  # the user chose one
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
            stream.reconfigure(encoding="utf-8", newline="\n")


def typed_path(text: str) -> str:
    """Return a path that a user typed, with `/` between folders."""
    return text.replace("\\", "/")


def usable_cores() -> int:
    """Return the number of cores."""
    return os.cpu_count() or 1


def process_start(process: int) -> str:
    """Return "" for a process that has ended, "0" for another one: when it began is not asked."""
    kernel = ctypes.windll.kernel32
    handle = kernel.OpenProcess(_SYNCHRONIZE, False, process)
    if not handle:
        return "0" if kernel.GetLastError() == _ACCESS_DENIED else ""
    state = kernel.WaitForSingleObject(handle, 0)
    kernel.CloseHandle(handle)
    return "0" if state == _WAIT_TIMEOUT else ""


def machine_start() -> str:
    """Return what no other machine has."""
    import uuid

    return f"{os.environ.get('COMPUTERNAME', '')} {uuid.getnode():x}"


def allow_open_files(n_files: int) -> None:
    """Do nothing: Windows has no limit that a process could raise."""


def block_signals() -> None:
    """Do nothing: a thread cannot block signals here."""


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of the Windows API."""

    _fields_ = (
        ("length", ctypes.c_ulong),
        ("load", ctypes.c_ulong),
        ("total_physical", ctypes.c_ulonglong),
        ("available_physical", ctypes.c_ulonglong),
        ("total_page_file", ctypes.c_ulonglong),
        ("available_page_file", ctypes.c_ulonglong),
        ("total_virtual", ctypes.c_ulonglong),
        ("available_virtual", ctypes.c_ulonglong),
        ("available_extended_virtual", ctypes.c_ulonglong),
    )


def cpu_quota() -> float | None:
    """Return how many cores this process may use in the mean; None for all of them."""
    return None


def memory_bytes() -> int:
    """Return the memory of this machine."""
    status = _MemoryStatus()
    status.length = ctypes.sizeof(status)
    if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        raise ctypes.WinError()
    return int(status.total_physical)
