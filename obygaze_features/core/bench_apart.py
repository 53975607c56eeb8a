"""A part of a bench in a process of its own, so that its memory is its own too."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from obygaze_features.core.bench import take_command
from obygaze_features.core.bench_sizes import Cost, Runs, merged

MEMORY = "peak memory"


def run_apart(target: str, **words: Any) -> tuple[Any, int]:
    """What a function ("module:name") answers in a new process, and that process's peak memory.

    Words and answer travel as JSON.
    """
    with TemporaryDirectory(prefix="obygaze-bench-") as folder:
        note = Path(folder) / "answer.json"
        call = [target, json.dumps(words), str(note)]
        taken = take_command(target, [sys.executable, "-m", __name__, *call])
        return json.loads(note.read_text(encoding="utf-8")), taken.peak_rss_bytes or 0


def costs_apart(
    target: str,
    sizes: Sequence[int],
    rounds: int,
    units: Mapping[str, str],
    tell: Callable[[str], None],
) -> list[Cost]:
    """What a function of `n_clips` and `rounds` measures at each size, and the memory it took."""
    parts = []
    for n_clips in sizes:
        tell(f"{n_clips:,} clips")
        part, memory = run_apart(target, n_clips=n_clips, rounds=rounds)
        parts.append({**part, MEMORY: Runs.counted(memory)})
    return merged(parts, {**units, MEMORY: "B"})


def main(argv: list[str]) -> None:
    """Call the function; its answer goes into a file."""
    target, words, note = argv
    module, name = target.split(":")
    answer = getattr(importlib.import_module(module), name)(**json.loads(words))
    Path(note).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
