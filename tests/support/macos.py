"""Make this process like one on a Mac: its syncs, names with accents beside letters.

`become_macos()` is called before the first import of obygaze.

- `fsync` is an error: there it leaves bytes in the memory of the disk. `F_FULLFSYNC` is a sync.
- A name is written with its accents beside their letters (NFD), as on disks in the format HFS+, and
  found in both forms.
- `renameat2`, `memfd_create` and the affinity of processes are gone.
"""

from __future__ import annotations

import builtins
import ctypes
import fcntl
import importlib
import io
import os
import sys
import unicodedata
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from support.windows import FIRST, HIDDEN

FULL_SYNC = 51
ABSENT = ("memfd_create", "posix_fadvise", "sched_getaffinity", "sched_setaffinity")
# Functions that take one path, or two.
OF_A_PATH = (
    *("chmod", "listdir", "lstat", "mkdir", "open"),
    *("remove", "rmdir", "scandir", "stat"),
)
OF_TWO_PATHS = ("link", "rename", "replace", "symlink")
Call = Callable[..., Any]


def become_macos() -> None:
    """Change this process for good."""
    for name in FIRST:
        importlib.import_module(name)
    for name in HIDDEN:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in ABSENT:
        if hasattr(os, name):
            delattr(os, name)
    sys.platform = "darwin"
    ctypes.CDLL = _without_renameat2(ctypes.CDLL)  # type: ignore[assignment,misc]
    fcntl.F_FULLFSYNC = FULL_SYNC  # type: ignore[attr-defined]
    fcntl.fcntl = _full_sync(fcntl.fcntl, os.fsync)  # type: ignore[assignment]
    os.fsync = _not_enough
    for name in (*OF_A_PATH, *OF_TWO_PATHS):
        setattr(os, name, _decomposed(getattr(os, name)))
    os.unlink = os.remove
    builtins.open = io.open = _decomposed(io.open)


def _decomposed(call: Call) -> Call:
    def called(*arguments: Any, **options: Any) -> Any:
        return call(*map(_nfd, arguments), **options)

    return called


def _nfd(value: Any) -> Any:
    """Return a path as the disk writes it; other values as they are."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        return unicodedata.normalize("NFD", value)
    return value


def _full_sync(control: Call, fsync: Call) -> Call:
    def called(descriptor: int, command: int, *arguments: Any) -> Any:
        if command == FULL_SYNC:
            return fsync(descriptor)
        return control(descriptor, command, *arguments)

    return called


def _not_enough(descriptor: int) -> None:
    raise AssertionError("fsync() does not reach the disk on macOS")


def _without_renameat2(load: Call) -> Call:
    def loaded(name: str | None, *arguments: Any, **options: Any) -> Any:
        if name is None:
            return SimpleNamespace()
        return load(name, *arguments, **options)

    return loaded
