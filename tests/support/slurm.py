"""A real Slurm on one machine, started for the tests: no systemd, no cgroups, ports of its own.

Three daemons (munged, slurmctld, slurmd) run under one folder and end with the tests, however
these end. One node has four processors and two stand-in GPUs; jobs of the partition `urgent` take
the place of those of `main`, as on a shared cluster.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from support.servers import absent, free_port, need_program, wait_until

CPUS, MEMORY_MB, GPUS = 4, 4000, 2
# How long what is taken away may go on after its SIGTERM.
GRACE_S = 10

CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
CredType=cred/munge
# A job may start again as soon as its old credential has expired; two minutes is the default.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
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
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=5
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1,batch_sched_delay=0
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES DefaultTime=60 PriorityTier=1 GraceTime={grace} State=UP
PartitionName=urgent Nodes=ALL DefaultTime=60 PriorityTier=9 PreemptMode=OFF State=UP
"""


@dataclass
class Slurm:
    """A running Slurm; `environment` is what its clients need."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def call(self, program: str, *words: str, stdin: str | None = None) -> str:
        """Run one of Slurm's programs; what it said."""
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
            raise AssertionError(f"{program} {' '.join(words)}: {done.stderr}\n{self.logs()}")
        return done.stdout.strip()

    def states(self, job: str) -> dict[str, str]:
        """The state of each task of a job that Slurm still knows, by `job_index`."""
        told = self.call("squeue", "--noheader", "--array", "--states=all", "--format=%A %i %T")
        rows = (line.split() for line in told.splitlines())
        return {name: state for _, name, state in rows if name.split("_")[0] == job}

    def restarts(self, name: str) -> int:
        """How often a task was put back into the queue."""
        told = self.call("scontrol", "--oneliner", "show", "job", name)
        return int(told.split("Restarts=")[1].split()[0])

    def wait_for_end(self, job: str, timeout_s: float = 120) -> dict[str, str]:
        """Wait until no task of a job waits or runs; their last states."""
        under_way = {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED"}
        wait_until(lambda: not under_way & set(self.states(job).values()), f"job {job}", timeout_s)
        return self.states(job)

    def pids(self, job_ids: Mapping[str, str] | None = None, word: str = "extract") -> list[int]:
        """The processes of jobs whose command line has a word and which Slurm started."""
        marks = [f"SLURM_CONF={self.folder}/slurm.conf".encode(), b"SLURM_PROCID="]
        return [
            pid
            for pid, variables, command in _processes()
            if all(mark in variables for mark in marks) and word.encode() in command.split(b"\0")
        ]

    def logs(self) -> str:
        """The last lines of both daemons."""
        paths = (self.folder / f"{name}.log" for name in ("slurmctld", "slurmd"))
        texts = (path.read_text("utf-8", "replace") for path in paths if path.exists())
        return "\n".join("\n".join(text.splitlines()[-15:]) for text in texts)


@contextlib.contextmanager
def running_slurm() -> Iterator[Slurm]:
    """A Slurm of our own for as long as the context lasts; skips where it cannot be had."""
    for program in ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "setpriv"):
        need_program(program)
    if os.geteuid() != 0:
        absent("slurmd starts jobs as their users: it must be root")
    # Slurm's sockets have short names only, so not under the long folder of a test.
    folder = Path(tempfile.mkdtemp(prefix="obygaze-slurm-"))
    slurm = Slurm(folder, {**os.environ, "SLURM_CONF": f"{folder}/slurm.conf"})
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        _configure(folder)
        _start(slurm, daemons)
        yield slurm
    finally:
        _end(slurm, daemons)
        shutil.rmtree(folder, ignore_errors=True)


def _configure(folder: Path) -> None:
    folder.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    for number in range(GPUS):
        (folder / f"gpu{number}").touch()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    host = socket.gethostname().split(".")[0]
    values = {
        "host": host,
        "user": "root",
        "folder": folder,
        "controller_port": free_port(),
        "node_port": free_port(),
        "cpus": CPUS,
        "memory": MEMORY_MB,
        "gpus": GPUS,
        "grace": GRACE_S,
    }
    texts = {
        "slurm.conf": CONFIGURATION.format(**values),
        "gres.conf": f"NodeName={host} Name=gpu File={folder}/gpu[0-{GPUS - 1}]\n",
        # Without a word slurmd looks for control groups, and ends where there are none.
        "cgroup.conf": "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def _start(slurm: Slurm, daemons: list[subprocess.Popen[bytes]]) -> None:
    folder = slurm.folder
    munge = [f"--{name}={folder}/munge.{name}" for name in ("socket",)]
    munge += [f"--key-file={folder}/munge.key", f"--seed-file={folder}/munge.seed"]
    munge += [f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log"]
    for words in (
        ["munged", "--foreground", "--force", *munge],
        ["slurmctld", "-D", "-c"],
        ["slurmd", "-D"],
    ):
        program = need_program(words[0])
        command = ["setpriv", "--pdeathsig", "KILL", program, *words[1:]]
        out = (folder / f"{words[0]}.out").open("wb")
        with out:
            daemons.append(
                subprocess.Popen(
                    command, env=slurm.environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL
                )
            )
        if words[0] == "munged":
            wait_until((folder / "munge.socket").exists, "munged")
    wait_until(lambda: _is_idle(slurm), f"Slurm to start\n{slurm.logs()}", 30)


def _is_idle(slurm: Slurm) -> bool:
    done = subprocess.run(
        [need_program("sinfo"), "--noheader", "--format=%T"],
        env=slurm.environment,
        capture_output=True,
    )
    return done.stdout.startswith(b"idle")


def _end(slurm: Slurm, daemons: list[subprocess.Popen[bytes]]) -> None:
    if len(daemons) == 3:
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
