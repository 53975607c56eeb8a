"""Kill a piece of work before every change of the disk, or have it meet another one there."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

from support.seeds import SEED

MUTATING = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink"}
MUTATING |= {"os.chmod", "os.truncate"}
MUTATING.add("ctypes.dlopen")  # names are exchanged by a call of the C library
KILLED, DONE = 9, 0
Work = Callable[[], object]


def kill_everywhere(work: Work, look: Callable[[], None], every: int = 1) -> int:
    """Run `work` in a fork, killed before its 1st, 2nd, ... change; `look` after each kill.

    With `every`, only each so many-th change is tried, and `SEED` says which. Returns the number of
    kills: the run after the last one reached its end.
    """
    for count, n in enumerate(range(1 + SEED % every, 2000, every)):
        was_killed = kill_at(n, work)
        look()
        if not was_killed:
            return count
    raise AssertionError("the work has no end")


def kill_at(n: int, work: Work) -> bool:
    """Run `work` in a fork, killed before its n-th change; return whether it had so many."""
    pid = _fork()
    if not pid:
        _killed_at(n, work)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (KILLED, DONE), f"the work failed at change {n}"
    return code == KILLED


def kill_after(seconds: float, work: Work) -> bool:
    """Run `work` in a fork, killed after a time; return whether it was not finished then."""
    pid = _fork()
    if not pid:
        _killed_at(0, work)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)  # it is there until it is waited for
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (-signal.SIGKILL, DONE), "the work failed"
    return code != DONE


def _fork() -> int:
    with warnings.catch_warnings():
        # Threads of BLAS are idle.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _killed_at(n: int, work: Work) -> None:
    left = n

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        writes = event == "open" and arguments[2] & (
            os.O_WRONLY | os.O_RDWR | os.O_CREAT
        )
        if event in MUTATING or writes:
            left -= 1
            if not left:
                os._exit(KILLED)

    code = 1
    try:
        sys.addaudithook(hook)
        work()
        code = DONE
    except BaseException:  # noqa: BLE001 - the parent sees the exit code
        traceback.print_exc()
    finally:
        os._exit(code)


# What a process sees of others: it also looks at names and reads files.
LOOKING = {"os.listdir", "os.scandir"}
MET = 3


def meet_everywhere(prepare: Work, work: Work, other: Work, every: int = 1) -> int:
    """Run `work` in a fork, with `other` done before its 1st, 2nd, ... use of the file system.

    `prepare` is called before each run; with `every`, only each so many-th use is tried, and `SEED`
    says which. Returns the number of meetings; an error if one failed.
    """
    for count, n in enumerate(range(1 + SEED % every, 5000, every)):
        prepare()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            _meeting_at(n, work, other)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (MET, DONE), f"the meeting before use {n} failed, see stderr"
        if code == DONE:
            return count
    raise AssertionError("the work has no end")


def _meeting_at(n: int, work: Work, other: Work) -> None:
    left = n

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        # Files of Python itself are not where processes meet.
        is_module = (
            str(arguments[0]).endswith((".py", ".pyc", ".so")) if arguments else True
        )
        if event in MUTATING | LOOKING | {"open"} and not is_module:
            left -= 1
            if not left:
                other()

    code = 1
    try:
        sys.addaudithook(hook)
        work()
        code = DONE if left > 0 else MET
    except BaseException:  # noqa: BLE001 - the parent sees the exit code
        traceback.print_exc()
    finally:
        os._exit(code)
