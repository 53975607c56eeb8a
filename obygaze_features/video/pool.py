"""Decode many clips at once in worker processes; a crash or a hang costs one clip, not the run."""

from __future__ import annotations

import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from obygaze_features.core.errors import FixUsage, ObygazeError
from obygaze_features.video.decode import Clip, View
from obygaze_features.video.errors import BadVideo
from obygaze_features.video.wire import Closed, receive, send, unpack_clips, unpack_error

TIMEOUT_S = 120.0
# How long a fresh worker may take to import what it needs, on a slow shared disk too.
START_S = 120.0
# The clock of a clip is read this often; time in which the whole run was suspended is not its.
TICK_S = 1.0
# What a run is asked to stop with. It may reach every process of it, and the run alone answers.
FOR_THE_RUN = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


@dataclass(frozen=True)
class DecodeJob:
    """One clip to decode, in all the views wanted of it."""

    path: Path | str
    views: tuple[View, ...]
    start_s: float | None = None
    end_s: float | None = None
    tag: Any = None


@dataclass(frozen=True)
class Decoded:
    """What became of a job: its clips (not yet checked for damage), or why there are none."""

    job: DecodeJob
    clips: dict[View, Clip] | None
    error: BadVideo | None
    seconds: float


class DecodePool:
    """A few worker processes, each with one clip at a time and a limit of time for it.

    A worker that dies or does not answer in time is replaced, and its clip ends as an error.
    Workers end with the process of the pool, however that ends.
    """

    def __init__(self, workers: int, *, timeout_s: float = TIMEOUT_S) -> None:
        if workers < 1 or not timeout_s > 0:
            raise FixUsage("a decode pool needs a worker and a time limit above 0")
        self.timeout_s = timeout_s
        self._jobs: queue.Queue[tuple[DecodeJob, Future[Decoded]] | None] = queue.Queue()
        self._closed = threading.Event()
        self._lanes = [_Lane(self._jobs, timeout_s, self._closed) for _ in range(workers)]

    def submit(self, job: DecodeJob) -> Future[Decoded]:
        """Hand in one job, to be decoded when those before it are; never waits."""
        if self._closed.is_set():
            raise FixUsage("this decode pool is closed")
        future: Future[Decoded] = Future()
        self._jobs.put((job, future))
        return future

    def map(
        self, jobs: Iterable[DecodeJob], *, ordered: bool = True, ahead: int | None = None
    ) -> Iterator[Decoded]:
        """Decode jobs and yield them, in order or as they are done.

        At most `ahead` clips (default: two for each worker) are decoded or waiting to be taken,
        which bounds the memory they hold.
        """
        most = max(1, ahead if ahead is not None else 2 * len(self._lanes))
        under_way: deque[Future[Decoded]] = deque()
        try:
            for job in jobs:
                while len(under_way) >= most:
                    yield _take(under_way, ordered)
                under_way.append(self.submit(job))
            while under_way:
                yield _take(under_way, ordered)
        finally:
            # Whoever stops listening leaves nothing to decode to the next user of the pool.
            for future in under_way:
                future.cancel()

    def worker_ids(self) -> list[int]:
        """The process ids of the workers alive now."""
        return [pid for lane in self._lanes if (pid := lane.pid()) is not None]

    def close(self) -> None:
        """Stop all workers at once; jobs that are not done are cancelled."""
        if self._closed.is_set():
            return
        self._closed.set()
        _cancel_waiting(self._jobs)
        for lane in self._lanes:
            lane.kill()
        for _ in self._lanes:
            self._jobs.put(None)
        for lane in self._lanes:
            lane.thread.join()
        _cancel_waiting(self._jobs)

    def __enter__(self) -> Self:
        """The pool itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close, whatever happened."""
        self.close()


def _take(under_way: deque[Future[Decoded]], ordered: bool) -> Decoded:
    if ordered:
        return under_way.popleft().result()
    done, _ = wait(under_way, return_when=FIRST_COMPLETED)
    future = next(future for future in under_way if future in done)
    under_way.remove(future)
    return future.result()


def _cancel_waiting(jobs: queue.Queue[tuple[DecodeJob, Future[Decoded]] | None]) -> None:
    while True:
        try:
            item = jobs.get_nowait()
        except queue.Empty:
            return
        if item is not None:
            item[1].cancel()


class _Lane:
    """A thread that keeps one worker busy, watches the clock, and replaces it when it is lost."""

    def __init__(
        self,
        jobs: queue.Queue[tuple[DecodeJob, Future[Decoded]] | None],
        timeout_s: float,
        closed: threading.Event,
    ) -> None:
        self.jobs, self.timeout_s, self.closed = jobs, timeout_s, closed
        self.lock = threading.Lock()
        self.worker: _Worker | None = None
        self.thread = threading.Thread(target=self._work, daemon=True, name="decode-lane")
        self.thread.start()

    def pid(self) -> int | None:
        """The process of the worker, if there is one."""
        worker = self.worker
        return worker.process.pid if worker else None

    def kill(self) -> None:
        """End the worker now and reap it."""
        with self.lock:
            worker, self.worker = self.worker, None
        if worker:
            worker.kill()

    def _work(self) -> None:
        # Processes inherit what their thread blocks: a worker is deaf from its first moment.
        signal.pthread_sigmask(signal.SIG_BLOCK, FOR_THE_RUN)
        while not self.closed.is_set():
            item = self.jobs.get()
            if item is None or not item[1].set_running_or_notify_cancel():
                continue
            job, future = item
            try:
                future.set_result(self._decode(job))
            except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for the job
                future.set_exception(error)
        self.kill()

    def _decode(self, job: DecodeJob, *, again: bool = True) -> Decoded:
        worker = self._worker()
        started = time.monotonic()
        clips, error = None, None
        try:
            clips, error = worker.decode(job, self.timeout_s)
        except TimeoutError:
            what = f"not decoded within {self.timeout_s:g} s"
            error = BadVideo(what, path=job.path, stage="worker", reason="timeout")
            self.kill()
        except Closed:
            if self.closed.is_set():
                raise ObygazeError("the decode pool was closed", where=str(job.path)) from None
            end = worker.end()
            self.kill()
            if again and worker.was_killed:
                # Somebody did that (the system out of memory, say); a file does it twice.
                return self._decode(job, again=False)
            what = f"the decoder died of this file ({end})"
            error = BadVideo(what, path=job.path, stage="worker", reason="crashed")
        return Decoded(job, clips, error, time.monotonic() - started)

    def _worker(self, *, again: bool = True) -> _Worker:
        with self.lock:
            if self.closed.is_set():
                raise ObygazeError("the decode pool was closed")
            if self.worker is None or self.worker.process.poll() is not None:
                self.worker = _Worker()
            worker = self.worker
        try:
            worker.await_ready()
        except ObygazeError:
            if not (again and worker.was_killed and not self.closed.is_set()):
                raise
            return self._worker(again=False)
        return worker


class _Worker:
    """One worker process and the channel to it."""

    def __init__(self) -> None:
        self.channel, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "obygaze_features.video.worker"]
        with theirs:
            self.process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None if os.environ.get("OBYGAZE_DEBUG") else subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self.ready = False

    def await_ready(self) -> None:
        """Wait until a fresh worker has its imports behind it."""
        if self.ready:
            return
        self.channel.settimeout(START_S)
        try:
            receive(self.channel)
        except (Closed, TimeoutError) as error:
            end = self.end() if isinstance(error, Closed) else f"not within {START_S:g} s"
            self.kill()
            raise ObygazeError(
                f"a decode worker does not start ({end})",
                hint="obygaze doctor, or the same command with OBYGAZE_DEBUG=1",
            ) from error
        self.ready = True

    def decode(
        self, job: DecodeJob, timeout_s: float
    ) -> tuple[dict[View, Clip] | None, BadVideo | None]:
        """Send a job and wait for its clips or its error, no longer than the limit."""
        self.channel.settimeout(timeout_s)
        request = {
            "path": os.fspath(job.path),
            "views": [asdict(view) for view in job.views],
            "start_s": job.start_s,
            "end_s": job.end_s,
        }
        send(self.channel, request)
        self._await_answer(timeout_s)
        message, handle = receive(self.channel)
        if handle is None:
            return None, unpack_error(message)
        try:
            return unpack_clips(message, handle), None
        finally:
            os.close(handle)

    def _await_answer(self, timeout_s: float) -> None:
        answer = select.poll()
        answer.register(self.channel, select.POLLIN)
        left = timeout_s
        while left > 0:
            if answer.poll(1000 * min(left, TICK_S)):
                return
            left -= TICK_S
        raise TimeoutError

    @property
    def was_killed(self) -> bool:
        """Whether the process was ended from outside, past any handling."""
        return self.process.poll() == -signal.SIGKILL

    def end(self) -> str:
        """How the process ended, in a few words."""
        code = self.process.wait(timeout=10) if self.process.poll() is None else self.process.poll()
        return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"

    def kill(self) -> None:
        """End the process and reap it."""
        self.process.kill()
        self.process.wait()
        self.channel.close()
