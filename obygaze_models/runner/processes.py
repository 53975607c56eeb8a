"""Share work among forks of this process."""

import multiprocessing
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from typing import Any, TypeVar

from obygaze_features.core import system
from obygaze_features.core.errors import FixInput, ObygazeWarning
from obygaze_features.core.machine import usable_cores
from obygaze_models.models.common import one_thread

T = TypeVar("T")
Task = Callable[[int], T]
_WORK: dict[str, Task[Any]] = {}  # the work of a forked process; empty in its parent
# How often libraries gave each warning in this process.
_WARNINGS: Counter[str] = Counter()
COUNTED = (UserWarning, RuntimeWarning)


@contextmanager
def fitting() -> Generator[None, None, None]:
    """Use one thread for linear algebra, and skip checks of scikit-learn that are not needed.

    Several threads do not speed up products of small matrices, and slow them down on shared cores.
    Checks are not needed, because a run has already checked that its features are finite and its
    settings are valid.
    """
    from sklearn import config_context

    with (
        library_warnings_once(),
        one_thread(),
        config_context(assume_finite=True, skip_parameter_validation=True),
    ):
        yield


@contextmanager
def library_warnings_once() -> Generator[None, None, None]:
    """Show each warning of a library once, with its count, at the end of this block.

    Many fits may give the same warning. Warnings of obygaze are shown immediately.
    """
    show = warnings.showwarning

    def count(message: Any, category: Any, *place: Any, **more: Any) -> None:
        if issubclass(category, ObygazeWarning):
            show(message, category, *place, **more)
        else:
            first_line = str(message).partition("\n")[0]
            _WARNINGS[f"{category.__name__}: {first_line}"] += 1

    _WARNINGS.clear()
    try:
        with warnings.catch_warnings():
            for category in COUNTED:
                warnings.simplefilter("always", category)
            warnings.simplefilter("default", ObygazeWarning)
            warnings.showwarning = count
            yield
    finally:
        for text, n in _WARNINGS.items():
            times = "once" if n == 1 else f"{n:,} times"
            warnings.warn(f"{text} ({times})", ObygazeWarning, stacklevel=4)
        _WARNINGS.clear()


@contextmanager
def map_in_processes(
    work: Task[T], n_parts: int, n_jobs: int = 0
) -> Generator[Iterator[T], None, None]:
    """Yield `work(0), work(1), ...` in order, computed in `n_jobs` processes (0: one per core).

    The processes end with the block, even if it stops before the last part.
    """
    n_workers = min(n_jobs or usable_cores(), n_parts)
    if n_workers > 1 and system.CAN_FORK and not _WORK:
        with closing(_by_forks(work, n_parts, n_workers)) as made:
            yield made
    else:
        yield map(work, range(n_parts))


def _by_forks(work: Task[T], n_parts: int, n_workers: int) -> Generator[T, None, None]:
    # A forked process shares features and Gram matrices without a copy, and starts fast.
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(n_workers, context, _start_worker, (work,))
    try:
        # Python loses an interrupt that arrives inside fork().
        with system.signals_blocked():
            # Not pool.map: the futures that it cancels make a killed pool print a traceback.
            parts = [pool.submit(_part, number) for number in range(n_parts)]
        for part in parts:
            result, counted = part.result()
            _WARNINGS.update(counted)
            yield result
    except BrokenProcessPool as error:
        raise FixInput(
            "a training process was killed, probably because memory ran out",
            hint="use --jobs 1",
        ) from error
    except BaseException:
        # Python 3.14 has terminate_workers() for this.
        for process in list(pool._processes.values()):
            process.kill()
        raise
    finally:
        pool.shutdown()


def _start_worker(work: Task[Any]) -> None:
    _WORK["work"] = work
    # Ctrl-C and hangups reach all processes of a terminal. The parent ends the workers; if it is
    # killed, the kernel ends them.
    for name in ("SIGINT", *system.HANGUP_SIGNALS):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    system.unblock_signals()
    system.end_with_parent()


def _part(number: int) -> tuple[Any, Counter[str]]:
    """Return the result of a part, and the library warnings that it gave."""
    _WARNINGS.clear()
    result = _WORK["work"](number)
    return result, _WARNINGS.copy()
