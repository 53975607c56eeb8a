"""Devices: the CPU, a GPU by number, or `auto` for an idle GPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

from obygaze_features.backbones.card import Card
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.lazy import import_optional

AUTO_DEVICE = "auto"
# A GPU with more memory in use is not idle; a display needs less.
_IDLE_MB = 2000
_NVIDIA_SMI_S = 30


def check_device_name(device: str) -> None:
    """Raise an error unless a text is the name of one device."""
    if not re.fullmatch("cpu|cuda(:[0-9]+)?", device):
        raise FixUsage(f"unknown device {device!r}", hint="use cpu, cuda, or cuda:1")


def check_device(card: Card, device: str) -> None:
    """Raise an error if a card needs torch or a device that this machine does not have."""
    check_device_name(device)
    if device == "cpu" and not card.family.needs_torch:
        return
    torch = _torch(device)
    known = torch.device(device)
    if known.type == "cuda" and (known.index or 0) >= torch.cuda.device_count():
        raise FixUsage(
            f"this machine has no CUDA device {device!r}", hint="use --device cpu"
        )


def may_use_gpu(card: Card) -> bool:
    """Return whether a backbone can compute on a GPU: it uses torch or is user code."""
    return card.family.needs_torch or bool(card.code)


def choose_device(device: str, cards: Iterable[Card]) -> str:
    """Return the device; for `auto`, an idle visible GPU, or the CPU if no GPU is visible.

    For `auto`, the CPU is also returned if no backbone can use a GPU. Raise an error if all visible
    GPUs are in use.
    """
    if device != AUTO_DEVICE:
        return device
    if find_spec("torch") is None or not any(map(may_use_gpu, cards)):
        return "cpu"
    cuda = _torch("a GPU").cuda
    if not cuda.is_available():
        return "cpu"
    used_mb = _used_mb()
    for number, name in enumerate(_visible(cuda.device_count())):
        # An earlier run of this process may have left memory in torch's cache.
        own_mb = cuda.memory_reserved(number) / 2**20
        # nvidia-smi does not list parts of a GPU: their memory in use is unknown.
        if used_mb.get(name, 0) - own_mb <= _IDLE_MB:
            return f"cuda:{number}"
    raise FixUsage(
        f"no GPU is idle: each has more than {_IDLE_MB:,} MB of memory in use",
        hint="use --device cuda:0, or --device cpu",
    )


def _torch(device: str) -> Any:
    """Import torch, with GPUs numbered by CUDA in the order of nvidia-smi."""
    # CUDA reads this variable at its first use.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    return import_optional("torch", "extract", f"running a backbone on {device}")


def _visible(n_gpus: int) -> list[str]:
    """Return the number or the UUID of each visible GPU."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [str(number) for number in range(n_gpus)]
    return [name.strip() for name in visible.split(",")][:n_gpus]


def _used_mb() -> dict[str, int]:
    """Return the MB in use on each GPU, by number and by UUID; empty without nvidia-smi."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    words = ["--query-gpu=index,uuid,memory.used", "--format=csv,noheader,nounits"]
    try:
        printed = subprocess.run(
            [program, *words], capture_output=True, text=True, timeout=_NVIDIA_SMI_S
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return {}
    used_mb = {}
    for line in printed.splitlines():
        # Warnings, such as for a damaged GPU, may be between the lines of GPUs.
        match [part.strip() for part in line.split(",")]:
            case [number, uuid, mb] if mb.isdigit():
                used_mb[number] = int(mb)
                used_mb[uuid] = int(mb)
    return used_mb
