"""Decode workers that are forked from a process which has imported what they need.

A worker of its own imports NumPy and PyAV for a fifth of a second, and hundreds of tests start two.
"""

import multiprocessing
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path

import pytest

from obygaze_features.video import pool
from support.forked_worker import work

# A process is asked for its end by one thread at a time; its answer comes once.
_ASKING = threading.Lock()
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["obygaze_features.video.worker", "av"])
_AS_IT_IS = pool.start_process


class ForkedWorker:
    """The process of a worker; a pool uses it as it uses a `subprocess.Popen`."""

    def __init__(self, channel: socket.socket) -> None:
        surroundings = (channel, Path.cwd(), dict(os.environ))
        self._process = _SERVER.Process(target=work, args=surroundings, daemon=True)
        with _ASKING:
            self._process.start()
        assert self._process.pid
        self.pid = self._process.pid

    def poll(self) -> int | None:
        with _ASKING:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; raise an error if the process does not end within the time."""
        wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("worker", timeout or 0)
        return code

    def kill(self) -> None:
        with _ASKING:
            self._process.kill()


def _start_as_it_is() -> None:
    pool.start_process = _AS_IT_IS


@contextmanager
def forked_decode_workers() -> Iterator[None]:
    """Fork the workers of the pools of this process.

    A fork of this process starts them as they are: their server was not started by it.
    """
    os.register_at_fork(after_in_child=_start_as_it_is)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "start_process", ForkedWorker)
        yield
    # Their end of Python would wait for them, and they are deaf to its signal.
    for process in multiprocessing.active_children():
        process.kill()


@pytest.fixture(scope="module", autouse=True)
def decode_workers_as_they_are() -> Iterator[None]:
    """Start each worker as a program of its own, where the tests are about that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "start_process", _AS_IT_IS)
        yield
