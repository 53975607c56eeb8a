"""Decode many clips in parallel worker processes; after a crash or a hang, only one clip fails.

On systems without worker processes, the threads of the pool decode in the process of the pool.
"""

from __future__ import annotations

import errno
import json
import math
import os
import queue
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, replace
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

from obygaze_features.core import system
from obygaze_features.core.errors import FixUsage, ObygazeError
from obygaze_features.core.machine import MAX_WORKERS
from obygaze_features.video.container import BadVideo, av
from obygaze_features.video.resize import Pixels
from obygaze_features.video.worker import (
    DecodeJob,
    DecodeResult,
    SharedMemory,
    decode_job,
    decode_sweep,
    unpack_result,
)

Job = TypeVar("Job")
Result = TypeVar("Result")

TIMEOUT_S = 120.0
# The limit of open files: each worker needs five, and each waiting clip two.
OPEN_FILES = 16384
# The time limit for a new worker to import its packages, perhaps from a slow shared disk.
START_S = 120.0
# Time is counted in steps, so that the time while the run is suspended does not count.
TICK_S = 1.0
# Sockets raise an error for time limits of centuries, so longer limits are shortened to this.
LONGEST_S = 1e9


class DecodePool(AbstractContextManager["DecodePool"]):
    """Worker processes that decode one clip at a time, each within a time limit.

    A worker that ends or exceeds the limit is replaced, and its clip gets an error. Jobs that only
    make an index may be repeated for a film: after one of them exceeds the limit, all later ones
    for this film get the same error without decoding. If a sweep fails in any way, each of its
    clips is decoded by itself, and gets its own result.
    Workers end with the process of the pool, however it ends. Without worker processes there is no
    time limit, and a crash ends the process of the pool.

    Args:
        workers: number of processes that decode.
        timeout_s: time limit for a clip, in seconds. It starts again whenever the index of a film
            makes progress.
    """

    def __init__(self, workers: int, *, timeout_s: float = TIMEOUT_S) -> None:
        if not 1 <= workers <= MAX_WORKERS:
            raise FixUsage(f"workers must be 1 to {MAX_WORKERS}, got {workers}")
        if not timeout_s > 0:
            raise FixUsage(f"timeout_s must be above 0, got {timeout_s:g}")
        if find_spec("av") is None:
            av()  # this error names the extra; a worker would only end
        self.timeout_s = timeout_s
        self._jobs: queue.SimpleQueue[tuple[DecodeJob, Future[DecodeResult]] | None]
        self._jobs = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        # The errors of films for which a job exceeded the time limit.
        self._late: dict[str, BadVideo] = {}
        self._workers: dict[int, _Worker] = {}
        # Shared memory by its number, and the numbers of unused and of dropped memory.
        self._memories: dict[int, SharedMemory] = {}
        self._free: list[int] = []
        self._dropped: list[int] = []
        system.allow_open_files(OPEN_FILES)
        self._threads = [
            threading.Thread(
                target=self._serve, args=(slot,), daemon=True, name="decode-pool"
            )
            for slot in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: DecodeJob) -> Future[DecodeResult]:
        """Queue one job and return its future without waiting."""
        future: Future[DecodeResult] = Future()
        with self._lock:
            if self._closed:
                raise FixUsage("the decode pool is closed")
            self._jobs.put((job, future))
        return future

    @property
    def workers(self) -> int:
        """Return the number of workers."""
        return len(self._threads)

    @property
    def ahead(self) -> int:
        """Return the number of clips that may be decoded ahead: two for each worker."""
        return 2 * self.workers

    def close(self) -> None:
        """Kill all workers. Queued jobs are cancelled; running jobs raise an error."""
        with self._lock:
            self._closed = True
            for worker in self._workers.values():
                worker.process.kill()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def __exit__(self, *_: object) -> None:
        """Close the pool."""
        self.close()

    def _serve(self, slot: int) -> None:
        """Decode queued jobs one after another in the worker of `slot` until the pool is closed."""
        # A worker inherits the blocked signals of this thread. A signal may reach all processes of
        # a run, but only the run itself handles it.
        system.block_signals()
        while item := self._jobs.get():
            job, future = item
            if self._closed:
                future.cancel()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(self._decode_all(slot, job))
                except Exception as error:  # noqa: BLE001 - raised where the result is taken
                    future.set_exception(_add_hint(error))
            # While this thread waits for a job, it must not hold the clips of its last job.
            del item, future
        if slot in self._workers:
            self._workers[slot].end()

    def _decode_all(self, slot: int, job: DecodeJob) -> DecodeResult:
        """Decode a clip, or a sweep; if a sweep fails, decode each of its parts by itself."""
        if not job.parts_s:
            return self._decode(slot, job)
        parts = self._decode(slot, job).parts
        parts = parts or [self._decode(slot, part) for part in job.parts]
        return DecodeResult(job, {}, parts=parts)

    def _decode(self, slot: int, job: DecodeJob, *, retry: bool = True) -> DecodeResult:
        if not system.HAS_DECODE_WORKERS:
            if job.parts_s:
                return DecodeResult(job, {}, parts=decode_sweep(job))
            return decode_job(job)
        film = os.fspath(job.path)
        if film in self._late and not job.views:
            return DecodeResult(job, {}, self._late[film])
        worker = self._worker(slot)
        try:
            worker.await_ready()
            return self._result(worker, job)
        except (TimeoutError, _WorkerExited) as failure:
            late = isinstance(failure, TimeoutError)
            how = worker.end(wait_s=0 if late else 10)
            if self._closed:
                raise ObygazeError(
                    "the decode pool was closed", where=str(job.path)
                ) from None
            if retry and system.was_killed(worker.process.poll()) and not late:
                # The file is not the cause: another process killed the worker, such as the system
                # when memory was full.
                return self._decode(slot, job, retry=False)
            # A file that crashes the decoder ends the process by a signal. If the process ends by
            # itself, a resource of the machine is missing, such as memory.
            has_stopped = not late and worker.process.returncode >= 0
            if has_stopped or not worker.ready:
                how = f"not within {START_S:g} s" if late else how
                what = "stopped" if worker.ready else "did not start"
                hint = (
                    "run obygaze doctor, or run the same command with OBYGAZE_DEBUG=1"
                )
                raise ObygazeError(
                    f"a decode worker {what} ({how})", hint=hint
                ) from None
            message = f"the decoder crashed on this file ({how})"
            reason = "crashed"
            if late:
                message = f"not decoded within {self.timeout_s:g} s"
                reason = "timeout"
            error = BadVideo(message, path=job.path, reason=reason)
            if late and not job.views:
                self._late[film] = error
            return DecodeResult(job, {}, error)

    def _result(self, worker: _Worker, job: DecodeJob) -> DecodeResult:
        """Return the result of a job; its memory is reused when no array refers to it any more."""
        with self._lock:
            if not self._free:
                number = len(self._memories) + len(self._dropped)
                self._memories[number] = SharedMemory()
                self._free.append(number)
            number = self._free.pop()
            memory = self._memories[number]
            dropped = list(self._dropped)
        try:
            reply = worker.decode(job, number, memory, dropped, self.timeout_s)
        except (TimeoutError, _WorkerExited):
            # A worker that hangs may still write to this memory, so it is not used again. Other
            # workers that have it mapped drop it before their next clip.
            with self._lock:
                del self._memories[number]
                self._dropped.append(number)
            raise
        release = partial(self._free.append, number)
        layers: Sequence[Pixels] = []
        if reply["shapes"]:
            layers = memory.arrays(list(map(tuple, reply["shapes"])), release)
        else:
            release()
        if not job.parts_s:
            return unpack_result(job, reply["parts"][0], layers)
        replies = zip(job.parts, reply["parts"], strict=False)
        parts = [unpack_result(part, of_part, layers) for part, of_part in replies]
        return DecodeResult(job, {}, parts=parts)

    def _worker(self, slot: int) -> _Worker:
        with self._lock:
            if self._closed:
                raise ObygazeError("the decode pool was closed")
            if (
                slot not in self._workers
                or self._workers[slot].process.poll() is not None
            ):
                self._workers[slot] = _Worker()
            return self._workers[slot]


def in_order(
    submit: Callable[[Job], Future[Result]],
    jobs: Iterable[Job],
    ahead: int,
    *,
    bytes_of: Callable[[Job], int] = lambda job: 0,
    most_bytes: float = math.inf,
    least: int = 1,
) -> Generator[tuple[Job, Result], None, None]:
    """Submit jobs in advance, and yield each job with its result, in the order of the jobs.

    Args:
        submit: submits a job.
        jobs: the jobs; each is taken shortly before it is submitted.
        ahead: maximum number of submitted jobs whose results have not been yielded.
        bytes_of: returns the number of bytes that the result of a job will have.
        most_bytes: maximum number of bytes of all results of submitted jobs that have not been
            yielded. A single result may be larger.
        least: number of different futures that may be under way even if they are those of more
            jobs than `ahead`: several jobs may share a future.
    """
    under_way: deque[tuple[Job, int, Future[Result]]] = deque()
    try:
        for job in jobs:
            n_bytes = bytes_of(job)
            while under_way and (
                (
                    len(under_way) >= ahead
                    and len({id(one[2]) for one in under_way}) >= least
                )
                or n_bytes + sum(one[1] for one in under_way) > most_bytes
            ):
                first, _, future = under_way.popleft()
                yield first, future.result()
            under_way.append((job, n_bytes, submit(job)))
        while under_way:
            first, _, future = under_way.popleft()
            yield first, future.result()
    finally:
        # No caller waits for these jobs; they must not delay later ones.
        for _, _, future in under_way:
            future.cancel()


def _add_hint(error: Exception) -> Exception:
    """Return an error. If it means that too many files are open, it gets a hint."""
    if not isinstance(error, OSError) or error.errno not in (
        errno.EMFILE,
        errno.ENFILE,
    ):
        return error
    limit = system.most_open_files()
    message = f"too many open files: the system allows {limit} for a process"
    return ObygazeError(
        message,
        hint=f"run ulimit -n {OPEN_FILES} first, or use fewer --workers and --batch",
    )


class _WorkerExited(Exception):
    """The process of a worker has ended."""


def start_process(channel: socket.socket) -> subprocess.Popen[bytes]:
    """Start the process of a worker, which gets its end of the socket."""
    command = [sys.executable, "-P", "-m", "obygaze_features.video.worker"]
    return subprocess.Popen(
        [*command, str(channel.fileno())],
        pass_fds=[channel.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=None if os.environ.get("OBYGAZE_DEBUG") else subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


class _Worker:
    """One worker process and the socket to it."""

    def __init__(self) -> None:
        self.channel, worker_channel = socket.socketpair()
        self.received = bytearray()
        with worker_channel:
            self.process = start_process(worker_channel)
        self.ready = False

    def await_ready(self) -> None:
        """Wait until a new worker has imported its packages."""
        if not self.ready:
            self._receive(START_S)
            self.ready = True

    def decode(
        self,
        job: DecodeJob,
        number: int,
        memory: SharedMemory,
        dropped: Sequence[int],
        timeout_s: float,
    ) -> dict[str, Any]:
        """Send a job and its shared memory, and return the reply of the worker.

        Raise TimeoutError if the worker makes no progress for `timeout_s` seconds.
        """
        self.channel.settimeout(min(timeout_s, LONGEST_S))
        asked = asdict(replace(job, path=os.fspath(job.path)))
        request = {"job": asked, "memory": number, "dropped": list(dropped)}
        line = json.dumps(request).encode("ascii") + b"\n"
        with suppress(ConnectionError):
            sent = system.send_with_file(self.channel, line, memory.handle)
            self.channel.sendall(line[sent:])
        while not (reply := self._receive(timeout_s)):
            continue  # progress
        return reply

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        """Return the next message of the worker; an empty message reports progress."""
        left = timeout_s
        while b"\n" not in self.received:
            if left <= 0:
                raise TimeoutError
            if not system.is_readable(self.channel, min(left, TICK_S)):
                left -= TICK_S
                continue
            received = b""
            with suppress(ConnectionError):
                received = self.channel.recv(65536)
            if not received:
                raise _WorkerExited
            self.received += received
            left = timeout_s
        line, _, self.received = self.received.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self, wait_s: float = 0) -> str:
        """Kill the process if it does not end within `wait_s` seconds.

        Return the signal or the exit code with which it ended.
        """
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(wait_s)
        self.process.kill()
        code = self.process.wait()
        self.channel.close()
        return f"signal {-code}" if code < 0 else f"exit code {code}"
