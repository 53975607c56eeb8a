"""A Dask cluster of real processes that is there before anyone joins it, and can be killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from support.cli import ROOT, environment
from support.servers import wait_until


@dataclass
class DaskCluster:
    """A scheduler and its workers, each a process without a nanny."""

    file: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def kill(self) -> None:
        """End all of it at once, as when the power fails."""
        for process in (self.scheduler, *self.workers):
            process.send_signal(signal.SIGKILL)
        for process in (self.scheduler, *self.workers):
            process.wait()


@contextlib.contextmanager
def running_dask(
    folder: Path, n_workers: int, variables: Mapping[str, str]
) -> Iterator[DaskCluster]:
    """A cluster whose address is in a scheduler file; its workers have the slow backbone."""
    file = folder / "scheduler.json"
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    env = environment({**variables, "PYTHONPATH": path})
    with (folder / "dask.log").open("wb") as log:

        def start(module: str, *words: str) -> subprocess.Popen[bytes]:
            argv = [sys.executable, "-m", f"distributed.cli.{module}", *words]
            return subprocess.Popen(argv, env=env, cwd=folder, stdout=log, stderr=log)

        local = ("--host", "127.0.0.1")
        seen = ("--scheduler-file", str(file), "--no-dashboard")
        cluster = DaskCluster(file, start("dask_scheduler", *local, "--port", "0", *seen))
        try:
            wait_until(file.exists, "the Dask scheduler")
            for _ in range(n_workers):
                words = (*local, *seen, "--nthreads", "1", "--no-nanny")
                more = ("--preload", "support.slow_obygaze", "--local-directory", str(folder))
                cluster.workers.append(start("dask_worker", *words, *more))
            yield cluster
        finally:
            cluster.kill()


def children_of(pid: int, word: str) -> list[int]:
    """The processes started by another whose command line has a word."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # The name in brackets may hold spaces; the parent is the second field after it.
            parent = int((path / "stat").read_text("utf-8").rpartition(")")[2].split()[1])
            if parent == pid and word in (path / "cmdline").read_text("utf-8"):
                found.append(int(path.name))
    return sorted(found)
