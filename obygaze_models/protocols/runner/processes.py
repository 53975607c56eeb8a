"""Shares work among processes: forks that see what this one sees, or a Dask cluster's workers."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import FixInput
from obygaze_features.core.machine import usable_cores
from obygaze_models.models.common import one_thread

T = TypeVar("T")
Work = Callable[[int, Progress], T]
_WORK: dict[str, Work[Any]] = {}


def workers_for(n_jobs: int) -> int:
    """How many processes `n_jobs` means; 0: one a core, or one a thread of the Dask cluster."""
    if n_jobs:
        return n_jobs
    if _on_dask():
        from joblib import effective_n_jobs

        return int(effective_n_jobs(-1))
    return usable_cores()


def map_parts(work: Work[T], n_parts: int, progress: Progress | None = None) -> list[T]:
    """`work(0), work(1), ...`, each in a process of its own; the first one here, with a voice.

    Inside `joblib.parallel_config(backend="dask")` all of them are tasks of that cluster.
    """
    told = progress or Quiet()
    if n_parts > 1 and _on_dask():
        return _by_dask(work, n_parts)
    if n_parts > 1 and _can_fork():
        return _by_forks(work, n_parts, told)
    return [work(part, told if part == 0 else Quiet()) for part in range(n_parts)]


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
            "a process that trained was killed, as the system does where memory runs out",
            hint="--jobs 1",
        ) from error
    finally:
        _WORK.clear()


def _part(number: int) -> Any:
    return _WORK["work"](number, Quiet())


def _on_dask() -> bool:
    # Whoever chose a backend has imported joblib to do so; nobody else should wait for it.
    if "joblib" not in sys.modules:
        return False
    from joblib.parallel import get_active_backend

    return type(get_active_backend()[0]).__name__ == "DaskDistributedBackend"


def _by_dask(work: Work[T], n_parts: int) -> list[T]:
    from joblib import Parallel, delayed

    done: list[T] = Parallel()(delayed(_elsewhere)(work, part) for part in range(n_parts))
    return done


def _elsewhere(work: Work[T], part: int) -> T:
    # As in the process that asked: the number of threads decides the last bits of a product.
    with one_thread():
        return work(part, Quiet())
