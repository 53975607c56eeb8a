"""Where kinds of video files are registered, each a function that makes a file of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from support.once import made_once

FACTS = "made.json"
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


def register(name: str, maker: Maker) -> None:
    """Register a kind. These tests make its file once; all further calls copy it."""

    def make(folder: Path) -> None:
        made = asdict(maker(folder))
        made["path"] = made["path"].name
        (folder / FACTS).write_text(json.dumps(made), encoding="utf-8")

    def copy(folder: Path) -> Made:
        kept = made_once("kind", make, name)
        facts = json.loads((kept / FACTS).read_text(encoding="utf-8"))
        path = folder / facts.pop("path")
        shutil.copyfile(kept / path.name, path)
        return Made(path, **facts)

    KINDS[name] = copy


def kind(maker: Maker) -> Maker:
    """Register one kind under the name of its function."""
    register(maker.__name__, maker)
    return maker


def h264(**more: str) -> dict[str, str]:
    """x264 options, quick ones."""
    return X264 | more
