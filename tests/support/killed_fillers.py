"""A process that forks workers quickly, each of which plans, fills and seals a store.

Run as a script: it imports what workers need once, then reads lines `LIFE TARGET START` from stdin,
forks a worker for each and answers with its pid.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from obygaze_features.core.errors import AlreadyThere, FixInput, Mismatch
from obygaze_features.store_next.filling import Filling
from obygaze_features.store_next.placing import before_of, seal_at
from obygaze_features.store_next.sealing import seal
from support.filled_stores import (
    N_ROWS,
    expected_rows,
    fails_at_first,
    fill,
    plan,
    values_of,
)
from support.servers import wait_until
from support.written_stores import check_store

TESTS = Path(__file__).resolve().parents[1]
N_MORE = 120
VALUES = values_of(n_rows=N_MORE)
FIRST_VALUES = {name: values[:N_ROWS] for name, values in VALUES.items()}


def first_life(target: Path, start: int = 0) -> None:
    """Plan, fill and seal a store, as a command does; a store that is there ends it."""
    with suppress(AlreadyThere):
        filling = plan(target)
        fill_and_seal(filling, start, fails_at_first)


def change_life(target: Path, start: int = 0) -> None:
    """Compute the failed rows again and add clips; typed again, it ends with one sentence."""
    # The seal first: who sees the seal of a changed store sees the store before, too.
    replaces = seal_at(target)
    is_changed = bool(list(target.parent.glob(f"{target.name}.before-*")))
    if replaces and is_changed:
        # What a killed process has left is removed.
        seal(target)
        return
    with suppress(AlreadyThere, Mismatch):
        if not replaces:
            # A process was killed between two renames.
            replaces = Filling.open(target).plan.replaces
        computed = [
            number >= N_ROWS or fails_at_first(number) for number in range(N_MORE)
        ]
        filling = plan(target, N_MORE, replaces=replaces, computed=computed)
        fill_and_seal(filling, start, lambda number: False)


def fill_and_seal(filling: Filling, start: int, fails: Callable[[int], bool]) -> None:
    """Compute what is missing, then seal; again where a block was found damaged."""
    while True:
        fill(filling, VALUES, start, fails)
        try:
            seal(filling.target)
        except FixInput:
            continue
        return


LIVES: dict[str, Callable[[Path, int], None]] = {
    "first": first_life,
    "change": change_life,
}


def check_first(target: Path) -> None:
    """The store of a first life is right."""
    check_store(target, expected_rows(), FIRST_VALUES)


def check_changed(target: Path) -> None:
    """The store of a change is right, and so is the one before."""
    rows = expected_rows(N_MORE, fails=lambda number: False)
    check_store(target, rows, VALUES)
    (before,) = target.parent.glob(f"{target.name}.before-*")
    check_first(before)
    assert before == before_of(target, seal_at(before))


def check_names(target: Path) -> None:
    """No name without a dot has something half-made."""
    for path in target.parent.iterdir():
        if path.name == target.name or ".before-" in path.name:
            assert (path / "store.json").exists(), path
        elif not path.name.startswith("."):
            assert path.name == f"{target.name}.next", path


class Zygote:
    """The test's side: starts the script, asks it for workers."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def start(self, life: str, target: Path, start: int = 0) -> int:
        """The pid of a worker."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{life} {start} {target}\n")
        return int(self.process.stdout.readline())

    def close(self) -> None:
        """End it."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(timeout=30)


def is_running(pid: int) -> bool:
    """Whether a worker still works; the zygote leaves no zombies."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def mounted(backing: Path, place: Path, *words: str) -> Iterator[str]:
    """Mount a folder through a cache of absent names; yields why not, if it cannot be."""
    place.mkdir()
    program = TESTS / "support/caching_mount.py"
    process = subprocess.Popen(
        ["/usr/bin/python3", program, backing, place, *words],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: place.is_mount() or process.poll() is not None, "a mount")
        assert process.stderr
        ended = process.poll() is not None
        yield (process.stderr.read().splitlines() or ["?"])[-1] if ended else ""
    finally:
        subprocess.run(["umount", "-l", place], check=False, capture_output=True)
        process.terminate()
        process.wait()


def main() -> None:
    """Fork a worker for each line."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        life, start, target = line.rstrip("\n").split(" ", 2)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                LIVES[life](Path(target), int(start))
                code = 0
            except BaseException:  # noqa: BLE001 - the test reads what is beside the target
                trace = Path(target).parent.parent / f"failed-{os.getpid()}"
                trace.write_text(traceback.format_exc(), "utf-8")
            finally:
                os._exit(code)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
