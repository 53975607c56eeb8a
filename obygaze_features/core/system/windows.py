"""Windows.

A folder cannot be opened, so it is locked by an empty file in `%LOCALAPPDATA%\\obygaze\\locks`. The
name of this file is the identity of the folder. The lock holds for the processes of one user on one
machine. A file that a program has open cannot be replaced, renamed or removed. Virus scanners and
indexers open new files for a short time. Therefore such changes are retried for some time.
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
# A process cannot send an open file to another process.
HAS_DECODE_WORKERS: bool = False
# Errors of file systems without hard links. On FAT and exFAT the error is "incorrect function",
# which Python maps to EINVAL.
NO_LINKS: tuple[int, ...] = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
HANGUP_SIGNALS: tuple[str, ...] = ()
STOP_SIGNALS: tuple[str, ...] = ("SIGTERM", "SIGINT")

Result = TypeVar("Result")

RETRY_S = 3.0
PAUSE_S = 0.05
# Errors of msvcrt.locking if another process has the lock.
_LOCKED = (errno.EACCES, errno.EDEADLK)
# Constants of the Windows API.
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
    """Take a lock and return True, or return False if another process has the lock.

    If the file system has no locks, return True.
    """
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
    # A file opened for reading cannot be synced, and a read-only file cannot be opened for writing.
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
    """Remove a file if it exists."""
    _again_while_open(lambda: path.unlink(missing_ok=True), path)


def rename_folder(source: Path, target: Path) -> None:
    """Rename a folder in one step; an empty folder that has the new name is replaced."""

    def rename() -> None:
        try:
            source.rename(target)
        except FileExistsError:
            if target.is_symlink() or not target.is_dir():
                raise
            target.rmdir()  # raises an error if it is not empty
            source.rename(target)

    _again_while_open(rename, target)


def _again_while_open(change: Callable[[], Result], target: Path) -> Result:
    """Retry a change for `RETRY_S` seconds while another program has the file open."""
    give_up = time.monotonic() + RETRY_S
    while True:
        try:
            return change()
        except PermissionError as error:
            if time.monotonic() >= give_up:
                raise InUse(
                    "another program has this file open, so it cannot be changed",
                    where=str(target),
                    hint="close it in programs such as Excel, a video player or obygaze,"
                    " or pause OneDrive, Dropbox or the virus scanner for this folder",
                ) from error
        time.sleep(PAUSE_S)


def exchange_names(first: Path, second: Path) -> bool:
    """Return False: names cannot be exchanged in one step."""
    return False


def open_without_links(path: str, flags: int) -> int:
    """Open a file like `os.open`; raise an error (ELOOP) for a link."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return os.open(path, flags)


def use_utf8_streams() -> None:
    """Write UTF-8 with line feeds to files and pipes, as on other systems."""
    if os.environ.get("PYTHONIOENCODING"):
        return  # the user chose an encoding
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
    """Return "" for a process that has ended, else "0": the start time is not read."""
    kernel = ctypes.windll.kernel32
    handle = kernel.OpenProcess(_SYNCHRONIZE, False, process)
    if not handle:
        return "0" if kernel.GetLastError() == _ACCESS_DENIED else ""
    state = kernel.WaitForSingleObject(handle, 0)
    kernel.CloseHandle(handle)
    return "0" if state == _WAIT_TIMEOUT else ""


def machine_start() -> str:
    """Return an identifier of this machine."""
    import uuid

    return f"{os.environ.get('COMPUTERNAME', '')} {uuid.getnode():x}"


def allow_open_files(n_files: int) -> None:
    """Do nothing: Windows has no such limit."""


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
    """Return None for all cores: quotas are not read on Windows."""
    return None


def memory_bytes() -> int:
    """Return the memory of this machine, in bytes."""
    status = _MemoryStatus()
    status.length = ctypes.sizeof(status)
    if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        raise ctypes.WinError()
    return int(status.total_physical)
