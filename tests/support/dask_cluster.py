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

    folder: Path
    variables: Mapping[str, str]
    scheduler: subprocess.Popen[bytes] = field(init=False)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.folder / "scheduler.json"

    def start(self, module: str, *words: str) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        env = environment({**self.variables, "PYTHONPATH": path})
        argv = [sys.executable, "-m", f"distributed.cli.{module}", "--host", "127.0.0.1"]
        argv += ["--scheduler-file", str(self.file), "--no-dashboard", *words]
        with (self.folder / "dask.log").open("ab") as log:
            return subprocess.Popen(argv, env=env, cwd=self.folder, stdout=log, stderr=log)

    def add_worker(self) -> None:
        """Start a worker with the slow backbone."""
        words = ("--nthreads", "1", "--no-nanny", "--preload", "support.slow_obygaze")
        local = ("--local-directory", str(self.folder))
        self.workers.append(self.start("dask_worker", *words, *local))

    def kill_worker(self) -> None:
        """End the worker that is there for the longest time."""
        _kill(self.workers.pop(0))

    def kill(self) -> None:
        """End all of it at once, as when the power fails."""
        _kill(self.scheduler, *self.workers)


def _kill(*processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        process.send_signal(signal.SIGKILL)
    for process in processes:
        process.wait()


@contextlib.contextmanager
def running_dask(
    folder: Path, n_workers: int, variables: Mapping[str, str] | None = None
) -> Iterator[DaskCluster]:
    """A cluster whose address is in a scheduler file; its workers have the slow backbone."""
    cluster = DaskCluster(folder, variables or {})
    cluster.scheduler = cluster.start("dask_scheduler", "--port", "0")
    try:
        wait_until(cluster.file.exists, "the Dask scheduler")
        for _ in range(n_workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.kill()
        cluster.file.unlink(missing_ok=True)
