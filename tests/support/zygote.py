"""A process that forks workers quickly, so that a test can kill or suspend many of them.

Run as a script: it imports what workers need once, then reads lines `LIFE TARGET START` from stdin,
forks a worker for each and answers with its pid.
"""

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parents[1]


class Zygote:
    """The test's side: starts the script, asks it for workers."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def start(self, life: str, target: Path, start: int = 0) -> int:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{life} {start} {target}\n")
        return int(self.process.stdout.readline())

    def close(self) -> None:
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


def wait(*pids: int) -> None:
    for pid in pids:
        give_up = time.monotonic() + 120
        while is_running(pid):
            assert time.monotonic() < give_up, "a worker does not end"
            time.sleep(0.005)


def disturb(
    zygote: Zygote,
    random: np.random.Generator,
    life: str,
    targets: Sequence[Path],
    n_workers: int,
    is_finished: Callable[[], bool],
    look: Callable[[], None] = lambda: None,
) -> int:
    """Kill workers, and suspend some, until the work is done; return the number of kills.

    `targets` are one place as it is seen through several mounts, the disk first; `look` checks what
    must always be right.
    """
    life_s, n_killed = 0.05, 0
    suspended: list[int] = []
    while not is_finished():
        life_s *= 1.5
        pids = []
        for _ in range(n_workers):
            seen = targets[int(random.integers(len(targets)))]
            pids.append(zygote.start(life, seen, int(random.integers(100))))
        for pid in pids:
            time.sleep(random.uniform(0, life_s / n_workers))
            is_suspended = random.uniform() < 0.2 and len(suspended) < n_workers
            # Most workers still work; one may have ended.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP if is_suspended else signal.SIGKILL)
                suspended += [pid] if is_suspended else []
                n_killed += not is_suspended
        # On a busy machine, one that is killed may still be in its last system call.
        wait(*(pid for pid in pids if pid not in suspended))
        look()
    # A worker that is not disturbed ends what was left; then the suspended ones wake.
    wait(zygote.start(life, targets[0]))
    for pid in suspended:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    wait(*suspended)
    return n_killed


def failures(folder: Path) -> list[str]:
    return [path.read_text("utf-8") for path in folder.rglob("failed-*")]


@contextmanager
def mounted(backing: Path, place: Path, *words: str) -> Iterator[str]:
    """Mount a folder through a cache of absent names; yields why not, if it cannot be."""
    from support.servers import wait_until

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


def main(lives: Mapping[str, Callable[[Path, int], object]]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        life, start, target = line.rstrip("\n").split(" ", 2)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                lives[life](Path(target), int(start))
                code = 0
            except BaseException:  # noqa: BLE001 - the test reads what is beside the target
                trace = Path(target).parent.parent / f"failed-{os.getpid()}"
                trace.write_text(traceback.format_exc(), "utf-8")
            finally:
                os._exit(code)
        print(pid, flush=True)


if __name__ == "__main__":
    # Exports import them when they need them: each worker would do it again.
    with suppress(ImportError):
        import h5py  # noqa: F401
        import pyarrow.parquet  # noqa: F401

    from support.killed_commands import COMMANDS
    from support.killed_fillers import LIVES as FILLERS

    main({**FILLERS, **COMMANDS})
