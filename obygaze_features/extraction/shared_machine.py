"""Run on a shared machine: stop on signals, leave GPUs in use alone."""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from types import FrameType

from obygaze_features.core import system
from obygaze_features.core.console import silent
from obygaze_features.core.errors import EXIT_INTERRUPTED, ObygazeError, Stopped
from obygaze_features.core.machine import count_gpus_as_nvidia_smi

NVIDIA_SMI_S = 30
STOPPING = (
    "stopping when the clips at work are finished; Ctrl-C stops at once;"
    " either way, all finished clips are kept"
)
RESUME = "run the same command again to resume"


@dataclass
class StopFlag:
    """Whether a stop was requested, and by which signal; a second Ctrl-C interrupts at once.

    `note` is called at once with what happens now. While `is_ending`, nothing interrupts.
    """

    signal_name: str = ""
    note: Callable[[str], object] = field(default=silent, compare=False, repr=False)
    is_ending: bool = field(default=False, compare=False, repr=False)

    def __bool__(self) -> bool:
        return bool(self.signal_name)

    def handle(self, number: int, frame: FrameType | None = None) -> None:
        """Handle a signal."""
        name = signal.Signals(number).name
        if self.signal_name and name == "SIGINT" and not self.is_ending:
            raise KeyboardInterrupt
        is_first = not self.signal_name
        self.signal_name = self.signal_name or name
        if is_first:
            # Ctrl-C may have ended the program that reads the notes, and Python refuses to write
            # in a handler where it is writing.
            with contextlib.suppress(OSError, RuntimeError):
                self.note(STOPPING)

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Let what was finished be written, also if Ctrl-C comes again and again."""
        self.is_ending = True
        try:
            yield
        finally:
            self.is_ending = False

    def raise_if_stopped(self, kept: str) -> None:
        """Raise the error of a run that was stopped: exit code 75, or 130 for Ctrl-C."""
        if not self:
            return
        error = Stopped(f"stopped by {self.signal_name}: {kept}", hint=RESUME)
        if self.signal_name == "SIGINT":
            error.exit_code = EXIT_INTERRUPTED
        raise error


@contextlib.contextmanager
def stop_on_signals(note: Callable[[str], object] = silent) -> Iterator[StopFlag]:
    """Return a flag that is set by a signal to the main thread.

    Enter it before slow imports, so that a signal during these is not lost.

    Args:
        note: Is called at the first signal, with what happens now.
    """
    flag = StopFlag(note=note)
    # Python lets no other thread, such as a worker's of Dask, handle signals.
    in_main = threading.current_thread() is threading.main_thread()
    names = system.STOP_SIGNALS if in_main else ()
    before = {name: signal.signal(getattr(signal, name), flag.handle) for name in names}
    try:
        yield flag
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def refuse_busy_gpus(devices: Sequence[str]) -> None:
    """Raise an error if a process of another user computes on one of these GPUs."""
    count_gpus_as_nvidia_smi()
    names = {f"cuda:{i}": gpu for i, gpu in enumerate(_visible_gpus())}
    wanted = [names.get("cuda:0" if device == "cuda" else device) for device in devices]
    users = _users() or []
    others = [
        user
        for user in users
        if user[0] in wanted and not system.is_own_process(user[1])
    ]
    if others:
        raise ObygazeError(
            f"this GPU is in use by others: {len(others)} processes compute on it",
            where=", ".join(dict.fromkeys(gpu for gpu, _, _ in others)),
            hint="use another --device, wait, or use --share to compute beside them",
            details=[
                f"  process {pid} on {gpu}: {memory} MB" for gpu, pid, memory in others
            ],
        )


def idle_gpus() -> list[str]:
    """Return the devices of the visible GPUs on which no process computes, such as cuda:0.

    None of them if it cannot be found out which are in use.
    """
    users = _users()
    if users is None:
        return []
    busy = {"", *(user[0] for user in users)}
    return [f"cuda:{i}" for i, gpu in enumerate(_visible_gpus()) if gpu not in busy]


def has_cuda() -> bool:
    """Return whether torch is installed and finds a CUDA device."""
    if not find_spec("torch"):
        return False
    import torch

    return bool(torch.cuda.is_available())


def free_gpu_memory(device: str) -> int:
    """Return the bytes of a GPU that are free, with those that torch keeps for later."""
    import torch

    kept_bytes = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(
        device
    )
    return int(torch.cuda.mem_get_info(device)[0]) + int(kept_bytes)


def gpu_name(device: str) -> str:
    """Return the model of a GPU."""
    import torch

    return str(torch.cuda.get_device_name(device))


def _users() -> list[list[str]] | None:
    """Return the UUID of the GPU, the process and its memory of all that computes on GPUs."""
    return _nvidia_smi("--query-compute-apps=gpu_uuid,pid,used_memory", columns=3)


def _visible_gpus() -> list[str]:
    """Return the UUID of each visible GPU, empty where it cannot be found."""
    all_uuids = [uuid for (uuid,) in _nvidia_smi("--query-gpu=uuid", columns=1) or []]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return all_uuids
    numbered = dict(zip(map(str, range(len(all_uuids))), all_uuids, strict=True))
    # A name may be the beginning of a UUID.
    uuids = []
    for name in map(str.strip, visible.split(",")):
        matches = [uuid for uuid in all_uuids if name and uuid.startswith(name)]
        uuids.append(numbered.get(name) or next(iter(matches), ""))
    return uuids


def _nvidia_smi(query: str, *, columns: int) -> list[list[str]] | None:
    """Return the lines of nvidia-smi; None if the program is missing or fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    words = [program, query, "--format=csv,noheader,nounits"]
    try:
        finished = subprocess.run(
            words,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=NVIDIA_SMI_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if finished.returncode:  # what it printed then is the reason, not a GPU
        return None
    lines = []
    for line in finished.stdout.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == columns:
            lines.append(parts)
    return lines
