"""Kill a piece of work before every change of the disk, or have it meet another one there.

Or cut the power: end it at one of its syncs, and say which files had reached the disk.
"""

import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from support.seeds import SEED

MUTATING = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink"}
MUTATING |= {"os.chmod", "os.truncate"}
MUTATING.add("ctypes.dlopen")  # names are exchanged by a call of the C library
# What a process sees of others: it also looks at names and reads files.
LOOKING = {"os.listdir", "os.scandir"}
KILLED, MET, DONE = 9, 3, 0
Work = Callable[[], object]
Event = tuple[Any, ...]


def changes_disk(event: str, arguments: Event) -> bool:
    writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    return event in MUTATING or bool(writes)


def uses_disk(event: str, arguments: Event) -> bool:
    """Whether an audited event is a use of the file system; files of Python itself are not."""
    is_module = not arguments or str(arguments[0]).endswith((".py", ".pyc", ".so"))
    return event in MUTATING | LOOKING | {"open"} and not is_module


class Before:
    """An audit hook that does something before the n-th event of a kind."""

    def __init__(self, n: int, is_one: Callable[[str, Event], bool], do: Work) -> None:
        self.left = n
        self.is_one = is_one
        self.do = do

    def __call__(self, event: str, arguments: Event) -> None:
        if self.is_one(event, arguments):
            self.left -= 1
            if not self.left:
                self.do()


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
    hook = Before(n, changes_disk, lambda: os._exit(KILLED))
    code = _end_of(_started(work, hook))
    assert code in (KILLED, DONE), f"the work failed at change {n}"
    return code == KILLED


def kill_after(seconds: float, work: Work) -> bool:
    pid = _started(work, lambda *_: None)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)  # it is there until it is waited for
    code = _end_of(pid)
    assert code in (-signal.SIGKILL, DONE), "the work failed"
    return code != DONE


def meet_everywhere(prepare: Work, work: Work, other: Work, every: int = 1) -> int:
    """Run `work` in a fork, with `other` done before its 1st, 2nd, ... use of the file system.

    `prepare` is called before each run; with `every`, only each so many-th use is tried, and `SEED`
    says which. Returns the number of meetings; an error if one failed.
    """
    for count, n in enumerate(range(1 + SEED % every, 5000, every)):
        prepare()
        hook = Before(n, uses_disk, other)

        def meet(hook: Before = hook) -> None:
            work()
            if hook.left <= 0:
                os._exit(MET)

        code = _end_of(_started(meet, hook))
        assert code in (MET, DONE), f"the meeting before use {n} failed, see stderr"
        if code == DONE:
            return count
    raise AssertionError("the work has no end")


def _started(work: Work, hook: Callable[[str, Event], None]) -> int:
    with warnings.catch_warnings():
        # Threads of BLAS are idle.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        sys.addaudithook(hook)
        work()
        code = DONE
    except BaseException:  # noqa: BLE001 - the parent sees the exit code
        traceback.print_exc()
    finally:
        os._exit(code)


def _end_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


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
