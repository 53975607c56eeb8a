"""Where kinds of video files are registered, each a function that makes a file of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

X264 = {"preset": "veryfast"}


@dataclass(frozen=True)
class Made:
    """A file, the numbers of the pictures it shows, in order, and whether its times are usable."""

    path: Path
    numbers: list[int]
    timed: bool
    times_s: list[float] | None = None


Maker = Callable[[Path], Made]
KINDS: dict[str, Maker] = {}


def kind(maker: Maker) -> Maker:
    """Register one kind under the name of its function."""
    KINDS[maker.__name__] = maker
    return maker


def h264(**more: str) -> dict[str, str]:
    """x264 options, quick ones."""
    return X264 | more
