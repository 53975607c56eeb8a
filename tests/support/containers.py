"""Work in a container with a stable name of its host, mostly as process 1, killed at any step."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from support.kills import MUTATING

HOST = b"job-0"
# The audit event of a step that is not one of the disk.
STEP = "obygaze.meetings.step"
_NEWNS, _NEWUTS, _NEWPID = 0x00020000, 0x04000000, 0x20000000
_MS_REC, _MS_PRIVATE = 16384, 1 << 18
# What a container says: its work waits at the step, or is done with a result.
WAITS, DONE, FAILED = b"w", b"d", b"f"


def can_make_containers() -> bool:
    """Return whether this user may make namespaces."""
    return start(lambda: "", None).result() == ""


def with_step(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function before which work may wait."""

    def stepped(*given: Any) -> Any:
        sys.audit(STEP)
        return function(*given)

    return stepped


@dataclass
class Container:
    """A running container."""

    parent: int
    pid: int
    says: int
    go_on: int

    def waits(self) -> bool:
        """Wait until the work waits at its step; False if it ended before."""
        self.last = os.read(self.says, 1)
        return self.last == WAITS

    def kill(self) -> None:
        """End it as the kernel does when memory is short, or a scheduler when time is up."""
        os.kill(self.pid, signal.SIGKILL)
        self._close()

    def result(self) -> str | None:
        """Let it go on, and return what the work returned; None if it failed."""
        with suppress(BrokenPipeError):  # it has ended
            os.write(self.go_on, b"g")
        said = (
            self.last
            if getattr(self, "last", WAITS) != WAITS
            else os.read(self.says, 1)
        )
        if said == WAITS:
            said = os.read(self.says, 1)
        text = b""
        while piece := os.read(self.says, 65536):
            text += piece
        self._close()
        return text.decode() if said == DONE else None

    def _close(self) -> None:
        os.waitpid(self.parent, 0)
        os.close(self.says)
        os.close(self.go_on)


def start(work: Callable[[], str], wait_at: int | None, number: int = 1) -> Container:
    """Start work as process 1 or 2 of a new container; it waits before its n-th change of the disk.

    Args:
        work: What to do; its text is the result.
        wait_at: The change before which it waits; None to wait before none.
        number: The number of its process.
    """
    says, write_says = os.pipe()
    read_go_on, go_on = os.pipe()
    read_pid, write_pid = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of BLAS are idle
        parent = os.fork()
    if not parent:
        os.close(says)
        os.close(go_on)
        _container(
            lambda: _run(work, wait_at, number, write_says, read_go_on),
            number,
            write_pid,
        )
        os._exit(0)
    for descriptor in (write_says, read_go_on, write_pid):
        os.close(descriptor)
    pid = int(os.read(read_pid, 32) or b"0")
    os.close(read_pid)
    return Container(parent, pid, says, go_on)


def _container(run: Callable[[], None], number: int, tell_pid: int) -> None:
    """Make the namespaces in this fork, then run the work in a fork of it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEWNS | _NEWUTS | _NEWPID):
        os._exit(1)
    socket.sethostname(HOST.decode())
    first = os.fork()
    if not first:
        libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
        libc.mount(b"proc", b"/proc", b"proc", 0, None)
        second = os.fork() if number == 2 else 0
        if not second:
            run()
        os.closerange(3, 256)
        os.waitpid(second, 0)
        os._exit(0)
    os.write(tell_pid, str(first).encode())
    os.closerange(3, 256)
    os.waitpid(first, 0)


def _run(
    work: Callable[[], str], wait_at: int | None, number: int, says: int, go_on: int
) -> None:
    left = wait_at or 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        is_opened = event == "open" and bool(
            arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        )
        if event in (*MUTATING, STEP) or is_opened:
            left -= 1
            if not left:
                os.write(says, WAITS)
                os.read(go_on, 1)

    code = 1
    try:
        assert os.getpid() == number and socket.gethostname() == HOST.decode()
        sys.addaudithook(hook)
        answer = DONE + work().encode()
        os.write(says, answer)
        code = 0
    except BaseException:  # noqa: BLE001 - the answer says so
        traceback.print_exc()
        os.write(says, FAILED)
    finally:
        os._exit(code)
