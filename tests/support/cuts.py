"""Cut the power: end a process at one of its syncs, and say which files had reached the disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from support.kills import DONE

__all__ = ["DONE", "cut_at_sync"]


def cut_at_sync(work: Callable[[], object], at: int, log: Path) -> tuple[int, set[int]]:
    """Do some work in a fork that ends at its `at`-th sync.

    Return how it ended (`DONE` if there were fewer syncs), and the files that were synced before.
    """
    log.write_text("", "utf-8")
    pid = os.fork()
    if not pid:
        _work_until(work, at, log)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, set(map(int, log.read_text("utf-8").split()))


def _work_until(work: Callable[[], object], at: int, log: Path) -> None:
    left, fsync, code = at, os.fsync, 1

    def synced(descriptor: int) -> None:
        nonlocal left
        if not left:
            os._exit(9)
        left -= 1
        with log.open("a", encoding="utf-8") as stream:
            stream.write(f"{os.fstat(descriptor).st_ino}\n")
        fsync(descriptor)

    try:
        with mock.patch.object(os, "fsync", synced):
            work()
        code = DONE
    finally:
        os._exit(code)
