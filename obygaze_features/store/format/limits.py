"""Bounds that hold before memory or disk is taken for something that came from outside."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from obygaze_features.core.console import human
from obygaze_features.core.errors import FixInput

# A disk filled to the last byte harms whoever else works there.
SPARE_BYTES = 64_000_000


def memory_bytes() -> int:
    """The memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(n_bytes: int, what: str, where: str, hint: str | None = None) -> None:
    """An error where something can never fit into this machine's memory."""
    there = memory_bytes()
    if n_bytes > there:
        raise FixInput(
            f"{what}: {human(n_bytes)} do not fit into this machine's {human(there)}",
            where=where,
            hint=hint,
        )


def check_disk(n_bytes: int, folder: Path) -> None:
    """An error where a disk has no room for what is about to be written below `folder`."""
    there = folder
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    if n_bytes + SPARE_BYTES > free:
        raise FixInput(
            f"{human(n_bytes)} are needed and {human(free)} are free on this disk",
            where=str(folder),
            hint="another disk, or fewer levels or movies",
        )
