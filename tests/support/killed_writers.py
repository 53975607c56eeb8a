"""A process that forks writers quickly, so that a test can kill many of them.

Run as a script: it imports what writers need once, then reads lines `PATH SEED ORDER` from stdin,
forks a writer for each and answers with its pid.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from obygaze_features.core.errors import AlreadyThere, Mismatch
from obygaze_features.store import ArraySpec, StoreWriter

ARRAYS = (
    ArraySpec("pooled", (16,)),
    ArraySpec("frames", (8, 64), dtype="float16"),
    ArraySpec("tokens", (8, 16, 64), dtype="float16"),
)
N_CLIPS, BLOCK_ROWS, N_BLOCKS = 94, 4, 24
OTHER_CONTENT = 3
WHOLE_LIFE = -1


class Zygote:
    """The test's side: starts the script, asks it for writers."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def start(self, path: Path, seed: int = 0, order: int = 0) -> int:
        """The pid of a writer that fills the store from `seed`, blocks in the order of `order`."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{path} {seed} {order}\n")
        return int(self.process.stdout.readline())

    def close(self) -> None:
        """End it."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(timeout=30)


def is_running(pid: int) -> bool:
    """Whether a writer still works; the zygote leaves no zombies."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def values_of(seed: int) -> dict[str, np.ndarray]:
    """What a writer of this seed puts in the store."""
    random = np.random.default_rng(seed)
    return {
        spec.name: random.standard_normal((N_CLIPS, *spec.tail_shape)).astype(
            spec.dtype
        )
        for spec in ARRAYS
    }


def write(path: Path, seed: int, order: int) -> int:
    """Fill a store as a run would: clean, then every block that is pending."""
    values, refused = values_of(seed), 0
    writer = StoreWriter(path)
    writer.clean_litter()
    blocks = np.random.default_rng(order).permutation(writer.plan.n_blocks)
    for block in blocks.tolist():
        first, after = writer.plan.block_range(block)
        try:
            writer.commit_block(
                block, {name: v[first:after] for name, v in values.items()}
            )
        except Mismatch:
            refused += 1
        except AlreadyThere:
            return OTHER_CONTENT
    return OTHER_CONTENT if refused else 0


def live(path: Path) -> int:
    """A whole life: plan a store, fill it, seal it."""
    from support.stores import plan_store

    plan_store(path, N_CLIPS, BLOCK_ROWS, arrays=ARRAYS)
    write(path, 0, 0)
    StoreWriter(path).seal()
    return 0


def main() -> None:
    """Fork a writer for each line."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    importlib.import_module("support.stores")  # once, before there are writers to kill
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        path, seed, order = line.split()
        pid = os.fork()
        if pid == 0:
            whole = int(seed) == WHOLE_LIFE
            os._exit(
                live(Path(path)) if whole else write(Path(path), int(seed), int(order))
            )
        print(pid, flush=True)


if __name__ == "__main__":
    main()
