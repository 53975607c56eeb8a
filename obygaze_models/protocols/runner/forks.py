"""Shares work among processes that see what this one sees, without copying it."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from obygaze_features.core.errors import FixInput

T = TypeVar("T")
_WORK: dict[str, Callable[[int], Any]] = {}


def can_fork() -> bool:
    """Whether processes can be forked here; elsewhere the work is done in one."""
    return sys.platform.startswith("linux") and not _WORK


def fork_map(work: Callable[[int], T], n_parts: int) -> list[T]:
    """`work(0), work(1), ...`, each in a process of its own but the first, which runs here."""
    if n_parts < 2 or not can_fork():
        return [work(part) for part in range(n_parts)]
    _WORK["work"] = work
    try:
        # A fork sees features and Gram matrices without copying them, and starts at once.
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(n_parts - 1, mp_context=context) as pool:
            others = [pool.submit(_part, part) for part in range(1, n_parts)]
            return [work(0), *(other.result() for other in others)]
    except BrokenProcessPool as error:
        raise FixInput(
            "a process that trained was killed, as the system does where memory runs out",
            hint="--jobs 1",
        ) from error
    finally:
        _WORK.clear()


def _part(number: int) -> Any:
    return _WORK["work"](number)
