"""Kill a piece of work before every call that changes the disk, and look at what is left."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

MUTATING = {
    *("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod"),
    *("os.truncate", "ctypes.dlopen"),  # names are exchanged by a call of the C library
}
KILLED, DONE = 9, 0


def kill_everywhere(work: Callable[[], object], look: Callable[[], None]) -> int:
    """Run `work` in a fork, killed before its 1st, 2nd, ... change; `look` after each kill.

    Returns the number of kills: the run after the last one reached its end.
    """
    for n in range(1, 2000):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of BLAS are idle
            pid = os.fork()
        if not pid:
            _killed_at(n, work)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (KILLED, DONE), f"the work failed at change {n}"
        look()
        if code == DONE:
            return n - 1
    raise AssertionError("the work has no end")


def _killed_at(n: int, work: Callable[[], object]) -> None:
    left = n

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if event in MUTATING or writes:
            left -= 1
            if not left:
                os._exit(KILLED)

    code = 1
    try:
        sys.addaudithook(hook)
        work()
        code = DONE
    finally:
        os._exit(code)
