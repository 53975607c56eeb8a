"""Run on a shared machine: stop on signals, say which GPUs are in use."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from types import FrameType
from xml.etree import ElementTree

from obygaze_features.core import system
from obygaze_features.core.console import silent
from obygaze_features.core.errors import EXIT_INTERRUPTED, Stopped
from obygaze_features.core.machine import count_gpus_as_nvidia_smi

NVIDIA_SMI_S = 30
# More than a GPU uses without a process that computes, such as for a screen.
HIDDEN_MB = 2000
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


def busy_gpus(devices: Sequence[str]) -> list[str]:
    """Return a sentence for each of these GPUs on which a process of another user computes."""
    count_gpus_as_nvidia_smi()
    names = {f"cuda:{i}": gpu for i, gpu in enumerate(_visible_gpus())}
    users = _users() or []
    hidden = _used_by_hidden(users)
    sentences = []
    for device in devices:
        gpu = names.get("cuda:0" if device == "cuda" else device)
        n_others = 0
        for user_gpu, pid, _ in users:
            if user_gpu == gpu and not system.is_own_process(pid):
                n_others += 1
        if n_others:
            sentences.append(f"{device} is shared: others compute on it ({n_others})")
        elif gpu in hidden:
            sentences.append(
                f"{device} is shared: more than {HIDDEN_MB} MB of it are in use, by no process "
                "that is visible here"
            )
    return sentences


def idle_gpus() -> list[str]:
    """Return the devices of the visible GPUs on which no process computes, such as cuda:0.

    None of them if it cannot be found out which are in use.
    """
    users = _users()
    if users is None:
        return []
    busy = {"", *(user[0] for user in users), *_used_by_hidden(users)}
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


@dataclass(frozen=True)
class _MigDevice:
    """A part of a GPU that CUDA sees as a device, and the MB of its memory that are used."""

    uuid: str
    gpu: str
    instances: tuple[str, str]
    used_mb: int


def _users() -> list[list[str]] | None:
    """Return the UUID of the GPU, the process and its memory of all that computes on GPUs.

    A process on a part of a GPU (MIG) has the UUID of the part, where parts are visible.
    """
    users = _nvidia_smi("--query-compute-apps=gpu_uuid,pid,used_memory", columns=3)
    if users is None or not _visible_parts():
        return users
    part_of = {(part.gpu, part.instances): part.uuid for part in _mig_devices()}
    users_of_parts = []
    for gpu in _report().iter("gpu"):
        uuid = gpu.findtext("uuid", "")
        for process in gpu.iter("process_info"):
            part = part_of.get((uuid, _instances(process)), uuid)
            memory, _, _ = process.findtext("used_memory", "").partition(" ")
            users_of_parts.append([part, process.findtext("pid", ""), memory])
    return users_of_parts


def _used_by_hidden(users: Sequence[Sequence[str]]) -> list[str]:
    """Return the visible GPUs whose memory is used although no process is listed on them."""
    used_mb = {}
    for uuid, mb in _nvidia_smi("--query-gpu=uuid,memory.used", columns=2) or []:
        used_mb[uuid] = int(mb) if mb.isdigit() else 0
    if _visible_parts():
        used_mb |= {part.uuid: part.used_mb for part in _mig_devices()}
    listed = {user[0] for user in users}
    return [
        gpu
        for gpu in _visible_gpus()
        if used_mb.get(gpu, 0) > HIDDEN_MB and gpu not in listed
    ]


def _visible_gpus() -> list[str]:
    """Return the UUID of each visible GPU, or part of one, empty where it cannot be found."""
    all_uuids = [uuid for (uuid,) in _nvidia_smi("--query-gpu=uuid", columns=1) or []]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return all_uuids
    numbered = dict(zip(map(str, range(len(all_uuids))), all_uuids, strict=True))
    if _visible_parts():
        all_uuids += [part.uuid for part in _mig_devices()]
    # A name may be the beginning of a UUID.
    uuids = []
    for name in map(str.strip, visible.split(",")):
        matches = [uuid for uuid in all_uuids if name and uuid.startswith(name)]
        uuids.append(numbered.get(name) or next(iter(matches), ""))
    return uuids


def _visible_parts() -> bool:
    """Return whether CUDA is asked for parts of GPUs (MIG)."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return any(name.strip().startswith("MIG-") for name in names)


def _mig_devices() -> list[_MigDevice]:
    """Return the parts of all GPUs; only the list has their UUIDs, only the report the rest."""
    uuids: dict[tuple[str, str], str] = {}
    gpu_uuid = ""
    for line in _printed("-L").splitlines():
        found = re.search(r"\(UUID: ([^)]+)\)", line)
        part = re.match(r"\s+MIG .*Device\s+([0-9]+):", line)
        if found and part:
            uuids[gpu_uuid, part.group(1)] = found.group(1)
        elif found:
            gpu_uuid = found.group(1)
    parts = []
    for gpu in _report().iter("gpu"):
        gpu_uuid = gpu.findtext("uuid", "")
        for device in gpu.iter("mig_device"):
            uuid = uuids.get((gpu_uuid, device.findtext("index", "")))
            used, _, _ = device.findtext("fb_memory_usage/used", "").partition(" ")
            used_mb = int(used) if used.isdigit() else 0
            if uuid:
                parts.append(_MigDevice(uuid, gpu_uuid, _instances(device), used_mb))
    return parts


def _instances(element: ElementTree.Element) -> tuple[str, str]:
    """Return the numbers of the GPU instance and the compute instance of a device or process."""
    names = ("gpu_instance_id", "compute_instance_id")
    gpu_instance, compute_instance = (element.findtext(name, "") for name in names)
    return gpu_instance, compute_instance


def _report() -> ElementTree.Element:
    """Return the whole report of nvidia-smi, empty where there is none."""
    try:
        return ElementTree.fromstring(_printed("-q", "-x"))
    except ElementTree.ParseError:
        return ElementTree.Element("nvidia_smi_log")


def _nvidia_smi(query: str, *, columns: int) -> list[list[str]] | None:
    """Return the lines of nvidia-smi; None if the program is missing or fails."""
    printed = _run_nvidia_smi(query, "--format=csv,noheader,nounits")
    if printed is None:
        return None
    lines = []
    for line in printed.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == columns:
            lines.append(parts)
    return lines


def _printed(*words: str) -> str:
    """Return what nvidia-smi prints, empty if it is missing or fails."""
    return _run_nvidia_smi(*words) or ""


def _run_nvidia_smi(*words: str) -> str | None:
    """Return what nvidia-smi prints; None if it is missing or fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        finished = subprocess.run(
            [program, *words],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=NVIDIA_SMI_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if finished.returncode:  # what it printed then is the reason, not a GPU
        return None
    return finished.stdout
