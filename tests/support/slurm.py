"""A real Slurm on one machine, started for the tests: no systemd, no cgroups, ports of its own.

Three daemons (munged, slurmctld, slurmd) run under one folder and end with the tests, however
these end. One node has four processors.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.cli import ROOT
from support.servers import absent, free_port, need_program, wait_until

CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
MailProg=/bin/true
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1,batch_sched_delay=0
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=8000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES DefaultTime=60 State=UP
"""

ENDED = frozenset(
    {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}
)


@dataclass
class Slurm:
    """A running Slurm; `environment` is what its clients need."""

    folder: Path
    environment: dict[str, str]

    def call(self, program: str, *words: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            [need_program(program), *words],
            env=self.environment,
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
        )
        if done.returncode:
            raise AssertionError(
                f"{program} {' '.join(words)}: {done.stderr}\n{self.logs()}"
            )
        return done.stdout.strip()

    def with_command(self, folder: Path) -> Slurm:
        """The same, with `obygaze` in a new folder on the PATH, as an installed program is."""
        folder.mkdir()
        program = folder / "obygaze"
        paths = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        command = f"exec '{sys.executable}' -m obygaze \"$@\""
        text = f"#!/bin/sh\nexport PYTHONPATH='{paths}'\n{command}\n"
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
        path = os.pathsep.join([str(folder), os.environ["PATH"]])
        return Slurm(self.folder, {**self.environment, "PATH": path})

    def states(self, job: str) -> dict[str, str]:
        """The state of each task of a job that Slurm still knows, by `job_index`."""
        told = self.call(
            "squeue", "--noheader", "--array", "--states=all", "--format=%A %i %T"
        )
        rows = (line.split() for line in told.splitlines())
        return {name: state for _, name, state in rows if name.split("_")[0] == job}

    def wait_for_end(self, job: str) -> dict[str, str]:
        """Wait until every task of a job has ended; their last states."""

        def ended() -> bool:
            states = self.states(job).values()
            return bool(states) and ENDED.issuperset(states)

        wait_until(ended, f"job {job}", 120)
        return self.states(job)

    def logs(self) -> str:
        paths = sorted(self.folder.glob("slurm*.log"))
        texts = (path.read_text("utf-8", "replace") for path in paths)
        return "\n".join("\n".join(text.splitlines()[-15:]) for text in texts)


@contextlib.contextmanager
def running_slurm() -> Iterator[Slurm]:
    """A Slurm of our own, with this machine as its node; skips where it cannot be had."""
    programs = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "setpriv")
    for program in programs:
        need_program(program)
    if os.geteuid() != 0:
        absent("slurmd starts jobs as their users: it must be root")
    # Slurm's sockets have short names only, so not under the long folder of a test.
    folder = Path(tempfile.mkdtemp(prefix="obygaze-slurm-"))
    environment = {**os.environ, "SLURM_CONF": f"{folder}/slurm.conf"}
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        slurm = Slurm(folder, environment)
        daemons: list[subprocess.Popen[bytes]] = []
        stack.callback(_end, slurm, daemons)
        _configure(slurm)
        _start(slurm, daemons)
        yield slurm


def _host() -> str:
    return socket.gethostname().split(".")[0]


def _configure(slurm: Slurm) -> None:
    folder = slurm.folder
    folder.chmod(0o755)
    (folder / "state").mkdir()
    (folder / f"spool-{_host()}").mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    ports = {"controller_port": free_port(), "node_port": free_port()}
    text = CONFIGURATION.format(host=_host(), folder=folder, **ports)
    (folder / "slurm.conf").write_text(text, encoding="utf-8")
    # Without a word slurmd looks for control groups, and ends where there are none.
    text = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"
    (folder / "cgroup.conf").write_text(text, encoding="utf-8")


def _start(slurm: Slurm, daemons: list[subprocess.Popen[bytes]]) -> None:
    folder = slurm.folder
    names = ("key", "seed", "pid", "log")
    munge = [f"--{name}-file={folder}/munge.{name}" for name in names]
    munge += [f"--socket={folder}/munge.socket", "--foreground", "--force"]
    _daemon(slurm, daemons, "munged", *munge)
    wait_until((folder / "munge.socket").exists, "munged")
    _daemon(slurm, daemons, "slurmctld", "-D", "-c")
    _daemon(slurm, daemons, "slurmd", "-D")
    wait_until(lambda: _is_idle(slurm), "Slurm to start", 30)


def _daemon(slurm, daemons: list[subprocess.Popen[bytes]], name, *words: str) -> None:
    command = ["setpriv", "--pdeathsig", "KILL", need_program(name), *words]
    with (slurm.folder / f"{name}.out").open("ab") as out:
        streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": out}
        daemons.append(subprocess.Popen(command, env=slurm.environment, **streams))


def _is_idle(slurm: Slurm) -> bool:
    words = ("--noheader", "--Node", "--partition=main", "--format=%T")
    done = subprocess.run(
        [need_program("sinfo"), *words], env=slurm.environment, capture_output=True
    )
    return done.stdout.split() == [b"idle"]


def _end(slurm: Slurm, daemons: list[subprocess.Popen[bytes]]) -> None:
    if len(daemons) >= 3:
        with contextlib.suppress(subprocess.SubprocessError, AssertionError):
            slurm.call("scancel", "--full", "--signal=KILL", "--user=root")
    for daemon in reversed(daemons):
        daemon.terminate()
    for daemon in daemons:
        try:
            daemon.wait(timeout=5)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
    # What slurmd had started does not end with it.
    mark = f"SLURM_CONF={slurm.folder}/slurm.conf".encode()
    folder = os.fsencode(slurm.folder)
    for _ in range(50):
        left = [
            pid
            for pid, variables, command in _processes()
            if mark in variables or folder in command
        ]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return
        time.sleep(0.1)


def _processes() -> Iterator[tuple[int, bytes, bytes]]:
    """Every process with its environment and its command line."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            with contextlib.suppress(OSError):
                command = (path / "cmdline").read_bytes()
                yield int(path.name), (path / "environ").read_bytes(), command
