"""Manners on a machine that others use too: a GPU in use, memory, niceness, an end in time."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from obygaze_features.core.errors import FixUsage, ObygazeError
from obygaze_features.extraction.signals import StopFlag

NICENESS = 10
ASK_S = 30


@dataclass(frozen=True)
class GpuUser:
    """A process that computes on a GPU, as nvidia-smi sees it."""

    gpu: str
    pid: str
    memory_mb: str


def refuse_busy_gpus(devices: list[str]) -> None:
    """End here where another person's process computes on a GPU that this run would take."""
    wanted = [uuid for device in devices for uuid in _uuids(device)]
    others = [user for user in _users() if user.gpu in wanted and not _is_ours(user.pid)]
    if others:
        raise ObygazeError(
            f"this GPU is in use by others: {len(others)} processes compute on it",
            where=", ".join(dict.fromkeys(user.gpu for user in others)),
            hint="another --device, later, or --share to compute beside them",
            details=[f"  process {u.pid} on {u.gpu}: {u.memory_mb} MB" for u in others],
        )


def cap_gpu_memory(device: str, gigabytes: float) -> None:
    """Let torch take no more of a GPU than this; beyond it, batches are halved as ever."""
    import torch

    if not device.startswith("cuda"):
        raise FixUsage(f"--gpu-mem is for a GPU, not for --device {device}")
    chosen = torch.device(device)
    total = torch.cuda.get_device_properties(chosen).total_memory
    share = min(1.0, gigabytes * 1e9 / total)
    torch.cuda.set_per_process_memory_fraction(share, chosen)


def be_nice() -> None:
    """Step back behind everyone's work: this process, and the decoders it will start."""
    os.nice(max(0, NICENESS - os.nice(0)))
    ionice = shutil.which("ionice")
    if ionice is not None:
        subprocess.run([ionice, "-c", "3", "-p", str(os.getpid())], check=False)


@contextlib.contextmanager
def no_longer_than(hours: float | None, stop: StopFlag) -> Iterator[None]:
    """Ask a run to stop after so many hours, as a signal would."""
    if hours is None:
        yield
        return

    def over() -> None:
        stop.signal_name = stop.signal_name or f"--max-hours {hours:g}"

    timer = threading.Timer(hours * 3600, over)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _uuids(device: str) -> list[str]:
    """The GPUs that `cuda` or `cuda:1` means here; a number counts among those made visible."""
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return []
    known = [uuid for (uuid,) in _ask("--query-gpu=uuid", columns=1)]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(i) for i in range(len(known))] if visible is None else visible.split(",")
    index = int(number or 0)
    if index >= len(names):
        return []
    name = names[index].strip()
    if name.isdigit():
        return known[int(name) : int(name) + 1]
    return [uuid for uuid in known if uuid.startswith(name)]


def _users() -> list[GpuUser]:
    lines = _ask("--query-compute-apps=gpu_uuid,pid,used_memory", columns=3)
    return [GpuUser(gpu, pid, memory) for gpu, pid, memory in lines]


def _ask(query: str, *, columns: int) -> list[list[str]]:
    """Lines of nvidia-smi; none where there is no such program, and so nothing to refuse."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    words = [program, query, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            words, capture_output=True, encoding="utf-8", errors="replace", timeout=ASK_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = [[part.strip() for part in line.split(",")] for line in done.stdout.splitlines()]
    return [line for line in lines if len(line) == columns]


def _is_ours(pid: str) -> bool:
    """Whether a process is this person's; one that cannot be seen from here is somebody else's."""
    if not pid.isdigit():
        return False
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.getuid()
    except OSError:
        return False
