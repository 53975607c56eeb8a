"""Share fits among processes: forks of this one, or the workers of a Dask cluster."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import FixInput
from obygaze_features.core.machine import usable_cores
from obygaze_models.models.common import one_thread
from obygaze_models.models.mlp import Job, MLPFit, MLPSettings, fit_many

T = TypeVar("T")
Work = Callable[[int, Progress], T]
MIN_FITS = 8  # below this, starting a process costs more than it saves
_WORK: dict[str, Work[Any]] = {}


def workers_for(n_jobs: int) -> int:
    """Return the number of processes; for 0, one for each core or thread of the Dask cluster."""
    if n_jobs:
        return n_jobs
    if _on_dask():
        from joblib import effective_n_jobs

        return int(effective_n_jobs(-1))
    return usable_cores()


def map_parts(work: Work[T], n_parts: int, progress: Progress | None = None) -> list[T]:
    """Return `work(0), work(1), ...`, each from its own process; the first runs here.

    Inside `joblib.parallel_config(backend="dask")` all of them are tasks of that cluster.
    """
    shown = progress or Quiet()
    if n_parts > 1 and _on_dask():
        return _by_dask(work, n_parts)
    if n_parts > 1 and _can_fork():
        return _by_forks(work, n_parts, shown)
    return [work(part, shown if part == 0 else Quiet()) for part in range(n_parts)]


def map_jobs(jobs: Sequence[Callable[[], T]], n_jobs: int, progress: Progress) -> list[T]:
    """Return the result of each job; `n_jobs` is as in `workers_for`."""
    n_parts = min(workers_for(n_jobs), len(jobs))

    def work(part: int, progress: Progress) -> list[T]:
        made = []
        for number in range(part, len(jobs), n_parts):
            made.append(jobs[number]())
            progress.advance(len(jobs[number : number + n_parts]))  # the others are about as far
        return made

    parts = map_parts(work, n_parts, progress)
    return [parts[number % n_parts][number // n_parts] for number in range(len(jobs))]


def _can_fork() -> bool:
    return sys.platform.startswith("linux") and not _WORK


def _by_forks(work: Work[T], n_parts: int, progress: Progress) -> list[T]:
    _WORK["work"] = work
    try:
        # A fork sees features and Gram matrices without copying them, and starts at once.
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(n_parts - 1, mp_context=context) as pool:
            others = [pool.submit(_part, part) for part in range(1, n_parts)]
            return [work(0, progress), *(other.result() for other in others)]
    except BrokenProcessPool as error:
        raise FixInput(
            "a training process was killed, probably because memory ran out",
            hint="--jobs 1",
        ) from error
    finally:
        _WORK.clear()


def _part(number: int) -> Any:
    return _WORK["work"](number, Quiet())


def _on_dask() -> bool:
    # A backend can only be chosen after joblib was imported; its import is slow.
    if "joblib" not in sys.modules:
        return False
    from joblib.parallel import get_active_backend

    return type(get_active_backend()[0]).__name__ == "DaskDistributedBackend"


def _by_dask(work: Work[T], n_parts: int) -> list[T]:
    from joblib import Parallel, delayed

    done: list[T] = Parallel()(delayed(_elsewhere)(work, part) for part in range(n_parts))
    return done


def _elsewhere(work: Work[T], part: int) -> T:
    # As in the calling process: the number of threads affects the last bits of a product.
    with one_thread():
        return work(part, Quiet())


def fit_all(
    X: NDArray[np.float32], work: Sequence[tuple[MLPSettings, Job]], n_jobs: int = 0
) -> list[MLPFit]:
    """Train perceptrons; return their fits in the order of `work`.

    Jobs that share training rows and seed are one trajectory (see `mlp.fit_many`), and trajectories
    do not depend on each other, so any number of processes gives the same bits. `n_jobs` is as in
    `workers_for`.
    """
    parts = _share_out(work, workers_for(n_jobs))
    done = map_parts(lambda part, _: _fit(X, [work[i] for i in parts[part]]), len(parts))
    fits: dict[int, MLPFit] = {}
    for part, found in zip(parts, done, strict=True):
        fits.update(zip(part, found, strict=True))
    return [fits[i] for i in range(len(work))]


def _fit(X: NDArray[np.float32], work: Sequence[tuple[MLPSettings, Job]]) -> list[MLPFit]:
    fits: dict[int, MLPFit] = {}
    for settings in dict.fromkeys(own for own, _ in work):
        own = [i for i, (wanted, _) in enumerate(work) if wanted == settings]
        fits.update(zip(own, fit_many(X, [work[i][1] for i in own], settings), strict=True))
    return [fits[i] for i in range(len(work))]


def _share_out(work: Sequence[tuple[MLPSettings, Job]], n_jobs: int) -> list[list[int]]:
    """Return the fits for each process by number; fits that share a trajectory stay together."""
    if len(work) < MIN_FITS or n_jobs < 2:
        return [list(range(len(work)))]
    together: dict[tuple[Any, ...], list[int]] = {}
    for number, (settings, job) in enumerate(work):
        key = (settings, job.seed, job.train.tobytes(), job.labels[job.train].tobytes())
        together.setdefault(key, []).append(number)
    parts: list[list[int]] = [[] for _ in range(min(n_jobs, len(together)))]
    for place, group in enumerate(together.values()):
        parts[place % len(parts)] += group
    return parts
