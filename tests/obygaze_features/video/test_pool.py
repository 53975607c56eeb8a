import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.damage import flip_bits_visibly
from support.decode_workers import decode_workers_as_they_are
from support.heard_films import tone, write_film
from support.videos import read_numbers, write_video

from obygaze_features.core import system
from obygaze_features.core.errors import FixUsage, ObygazeError
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import PictureView
from obygaze_features.video.pool import DecodePool, _Worker, in_order
from obygaze_features.video.resize import Resize
from obygaze_features.video.sound import SoundView
from obygaze_features.video.worker import DecodeJob, DecodeResult

VIEWS = (PictureView(8), PictureView(4, resize=Resize(48)))

__all__ = ["decode_workers_as_they_are"]


def results_of(pool: DecodePool, jobs: Iterable[DecodeJob]) -> list[DecodeResult]:
    return [result for _, result in in_order(pool.submit, jobs, 8)]


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("films")
    made = {"options": {"preset": "veryfast", "g": "20"}}
    films = []
    for n in range(4):
        numbers = range(100 * n, 100 * n + 60)
        films.append(write_video(folder / f"{n}.mp4", numbers=numbers, **made))
    return films


@pytest.fixture(scope="module")
def slow_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Takes long to decode: large pictures, no key frame after the first."""
    path = tmp_path_factory.mktemp("slow") / "slow.mp4"
    options = {"preset": "ultrafast", "g": "1000", "bf": "0", "tune": "zerolatency"}
    return write_video(path, numbers=range(50), size=(1280, 720), options=options)


def is_alive(pid: int) -> bool:
    """Whether a process exists and has not ended; a zombie has."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except FileNotFoundError:
        return False
    return text.rsplit(")", 1)[1].split()[0] != "Z"


def is_gone(pid: int, seconds: float = 20.0) -> bool:
    """Whether a process ends within some time."""
    until = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not is_alive(pid)


def worker_ids(pool: DecodePool) -> list[int]:
    """The processes of the workers that are alive."""
    processes = [worker.process for worker in list(pool._workers.values())]
    return [process.pid for process in processes if process.poll() is None]


@pytest.fixture(scope="module")
def pool() -> Iterator[DecodePool]:
    """One worker for several tests: starting it takes longer than their work."""
    with DecodePool(1) as running:
        yield running


def facts_of(result: DecodeResult) -> Any:
    """What is known of a job, to compare."""
    error = result.error
    reason = (error.reason, error.message) if error else ()
    clips = []
    for clip in (result.clips or {}).values():
        arrays = (clip.pictures, clip.index, clip.time_s, clip.substituted)
        whole = (clip.total, clip.damaged, clip.is_incomplete)
        clips.append((*(array.tobytes() for array in arrays), *whole))
    return result.job, result.file_facts, reason, clips


def test_threads_decode_the_same_where_no_worker_is(films, tmp_path, monkeypatch):
    """Four at once: what FFmpeg reports of a damaged film is about that film alone."""
    paths = [tmp_path / "none.mp4", *films]
    for number, film in enumerate(films):
        paths.append(tmp_path / f"damaged-{number}.mp4")
        flip_bits_visibly(film, paths[-1], {10 * number + 5})
    views = (PictureView(8, resize=Resize(48)), PictureView(3))
    jobs = [DecodeJob(path, views, 0.3, 1.4) for path in paths]
    with DecodePool(2) as pool:
        by_workers = list(map(facts_of, results_of(pool, jobs)))
    monkeypatch.setattr(system, "HAS_DECODE_WORKERS", False)
    with DecodePool(4) as pool:
        by_threads = list(map(facts_of, results_of(pool, jobs)))
        assert pool._workers == {}
    assert by_threads == by_workers
    assert any(clip[5] for *_, clips in by_threads for clip in clips)  # damaged


def decode(pool: DecodePool, film: Path, views: Any = VIEWS) -> DecodeResult:
    return pool.submit(DecodeJob(film, views)).result()


def test_an_error_of_a_worker_is_not_called_a_crash(films, pool) -> None:
    # A time that is text: no command makes such a job.
    job = DecodeJob(films[0], VIEWS, start_s="soon")  # type: ignore[arg-type]
    error = pool.submit(job).result().error
    assert error.reason == "error"
    assert error.message.startswith("TypeError: ")
    assert decode(pool, films[0]).error is None


def test_a_machine_that_gives_no_memory_is_no_crash_of_a_file(tmp_path: Path) -> None:
    film = write_film(tmp_path / "film.mkv", 2, tone(2))
    job = DecodeJob(film, (SoundView(8000),))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with DecodePool(1) as pool:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        try:
            with pytest.raises(ObygazeError, match=r"worker stopped \(exit code 1\)"):
                pool.submit(job).result()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert pool.submit(job).result().error is None


def test_too_many_open_files_are_no_crash_of_a_file(films: list[Path]) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with DecodePool(1) as pool:
        # The limit is one of numbers: of all that are free, a new file takes the least.
        least_free = os.open(os.devnull, os.O_RDONLY)
        os.close(least_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (least_free, limits[1]))
        try:
            future = pool.submit(DecodeJob(films[0], VIEWS))
            with pytest.raises(ObygazeError, match="too many open files"):
                future.result()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.check("kills a worker")
def test_a_crash_costs_one_clip(films, monkeypatch) -> None:
    send, is_sent = socket.send_fds, threading.Event()

    def send_and_say_so(*words: Any) -> int:
        n_bytes = send(*words)
        is_sent.set()
        return n_bytes

    with DecodePool(1) as pool:
        assert decode(pool, films[0]).error is None
        (pid,) = worker_ids(pool)
        # It is stopped before it gets the job, so that it cannot have answered.
        os.kill(pid, signal.SIGSTOP)
        monkeypatch.setattr(socket, "send_fds", send_and_say_so)
        future = pool.submit(DecodeJob(films[0], VIEWS))
        assert is_sent.wait(60)
        os.kill(pid, signal.SIGSEGV)
        os.kill(pid, signal.SIGCONT)
        error = future.result().error
        assert error.reason == "crashed" and "signal 11" in error.message
        after = decode(pool, films[1])
        assert read_numbers(after.clips[VIEWS[0]].pictures)[0] == 100
        assert worker_ids(pool) != [pid]
    assert is_gone(pid)


@pytest.mark.check("kills workers")
@pytest.mark.parametrize(
    ("method", "told"), [("decode", "crashed"), ("await_ready", "not start")]
)
def test_who_is_killed_twice_is_given_up(films, monkeypatch, method, told) -> None:
    as_it_was = getattr(_Worker, method)
    killed: list[int] = []

    def after_a_kill(worker: _Worker, *rest: Any) -> Any:
        if len(killed) < limit:
            killed.append(worker.process.pid)
            worker.process.kill()
            worker.process.wait()
        return as_it_was(worker, *rest)

    monkeypatch.setattr(_Worker, method, after_a_kill)
    with DecodePool(1) as pool:
        limit = 1
        assert pool.submit(DecodeJob(films[0], VIEWS)).result().error is None
    with DecodePool(1) as pool:
        limit = 3
        future = pool.submit(DecodeJob(films[0], VIEWS))
        error = future.exception() or future.result().error
        assert told in str(error) and "signal 9" in str(error)
    assert len(set(killed)) == 3


SUSPENDED = """
import signal, sys
from obygaze_features.video.pool import DecodeJob, DecodePool
from obygaze_features.video.decoded_clip import PictureView
job = DecodeJob(sys.argv[1], (PictureView(1),))
pool = DecodePool(1, timeout_s=float(sys.argv[2]))
print(pool.submit(job).result().error, pool._workers[0].process.pid, flush=True)
sys.stdin.readline()
future = pool.submit(job)
print("submitted", flush=True)
print(future.result().error)
pool.close()
"""


@pytest.mark.check("waits for a suspended process")
def test_time_in_which_the_run_was_suspended_is_not_the_clips(films) -> None:
    """The clip is not begun before the suspension: nearly all of its limit is left after it."""
    limit_s = 3.0
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", SUSPENDED, str(films[0]), str(limit_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as run:
        assert run.stdin is not None and run.stdout is not None
        error, pid = run.stdout.readline().split()
        assert error == "None"
        os.kill(int(pid), signal.SIGSTOP)
        run.stdin.write("go on\n")
        run.stdin.flush()
        assert run.stdout.readline() == "submitted\n"
        os.kill(run.pid, signal.SIGSTOP)
        time.sleep(limit_s + 1)
        for one in (run.pid, int(pid)):
            os.kill(one, signal.SIGCONT)
        assert run.stdout.read().strip() == "None"


def test_a_clip_that_is_too_slow(films, slow_film, pool, monkeypatch) -> None:
    assert decode(pool, films[0]).error is None
    (pid,) = worker_ids(pool)
    # No time at all: a machine that is slow to wait must not let the worker finish first.
    with monkeypatch.context() as patch:
        patch.setattr(pool, "timeout_s", 0.0)
        assert decode(pool, slow_film, (PictureView(32),)).error.reason == "timeout"
    assert decode(pool, films[1]).error is None
    assert is_gone(pid)


def test_workers_outlive_signals_meant_for_the_run(films, pool) -> None:
    assert decode(pool, films[0]).error is None
    (pid,) = worker_ids(pool)
    for name in ("SIGTERM", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGHUP"):
        os.kill(pid, getattr(signal, name))
    assert decode(pool, films[0]).error is None
    assert worker_ids(pool) == [pid]


def test_closing_leaves_no_worker(films: list[Path], slow_film: Path) -> None:
    pool = DecodePool(2)
    futures = [pool.submit(DecodeJob(slow_film, (PictureView(32),))) for _ in range(4)]
    until = time.monotonic() + 30
    while len(worker_ids(pool)) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    pids = worker_ids(pool)
    pool.close()
    assert len(pids) == 2 and all(is_gone(pid) for pid in pids)
    assert not wait(futures, timeout=30).not_done
    with pytest.raises(FixUsage):
        decode(pool, films[0])
    pool.close()


RUN = """
import sys, time
from obygaze_features.video.pool import DecodeJob, DecodePool
from obygaze_features.video.decoded_clip import PictureView
pool = DecodePool(2)
jobs = [pool.submit(DecodeJob(sys.argv[1], (PictureView(32),))) for _ in range(2)]
while len(pool._workers) < 2:
    time.sleep(0.01)
time.sleep(0.3)
print(*[worker.process.pid for worker in pool._workers.values()], flush=True)
time.sleep(60)
"""


def test_workers_end_with_the_process_of_the_pool(slow_film: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(slow_film)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    ) as run:
        assert run.stdout is not None
        pids = [int(word) for word in run.stdout.readline().split()]
        assert len(pids) == 2 and all(is_alive(pid) for pid in pids)
        run.kill()
        assert run.wait(timeout=30) != 0
    assert all(is_gone(pid) for pid in pids)


def test_memory_is_used_again_when_its_clip_is_gone(films: list[Path]) -> None:
    """Twenty clips in the memory of one; a clip that is kept, or a view of it, keeps its own."""
    with DecodePool(1) as pool:
        made = pool._memories
        for number in range(20):
            # Of different sizes, also larger ones than before.
            path, view = films[number % 4], PictureView(1 + number % 7)
            (clip,) = decode(pool, path, (view,)).clips.values()
            assert np.array_equal(clip.pictures, decode_clip(path, view).pictures)
            assert clip.pictures.flags.writeable
            del clip
        assert len(made) == 1
        results = [decode(pool, film) for film in films]
        assert len(made) == 4
        slices = [result.clips[VIEWS[0]].shared_pictures[3:5] for result in results]
        results.clear()
        results += [decode(pool, film) for film in films]
        assert len(made) == 8, "the slices still hold the first four"
        for film, kept in zip(films, slices, strict=True):
            assert np.array_equal(kept, decode_clip(film, VIEWS[0]).pictures[3:5])
