"""Facts about this machine: cores, processor, package versions, and types of errors."""

import errno
import math
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from obygaze_features.core import system

MAX_WORKERS = 1024  # processes; a larger number is a typing error


def usable_cores() -> int:
    """Return the number of cores that this process may use.

    This is the smallest of the affinity mask, the quota of the container and the limit of Slurm.
    """
    cores = system.usable_cores()
    quota = system.cpu_quota()
    if quota is not None:
        cores = min(cores, max(1, math.ceil(quota)))
    granted = os.environ.get("SLURM_CPUS_PER_TASK", "")
    return min(cores, int(granted)) if granted.isdigit() and int(granted) else cores


def cpu_name() -> str:
    """Return the model name of the processor, or its architecture."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.processor() or platform.machine()


def package_version(name: str) -> str | None:
    """Return the version of an installed package without importing it, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages among `names` that are installed."""
    versions = {}
    for name in names:
        version = package_version(name)
        if version:
            versions[name] = version
    return versions


# Parts of messages of out-of-memory errors, in lower case.
OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "alloc_failed",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the type or the message of an error means too little memory.

    torch has no type of error for too little memory of a CPU.
    """
    said = str(error).lower()
    return isinstance(error, MemoryError) or any(
        words in said for words in OUT_OF_MEMORY
    )


def is_disk_full(error: BaseException) -> bool:
    """Return whether an error means that a disk or a quota is full."""
    full = (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, OSError) and error.errno in full


def is_device_error(error: BaseException) -> bool:
    """Return whether a GPU or its driver has failed, so that it cannot be used any more."""
    # torch has a type for this since version 2.8.
    return type(error).__name__ == "AcceleratorError" or "CUDA error" in str(error)


def offline() -> bool:
    """Return whether the environment forbids the network."""
    words = {"1", "true", "yes", "on"}
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(os.environ.get(name, "").lower() in words for name in names)


def cache_folder() -> Path:
    """Return the cache of the Hugging Face hub, by the rules of huggingface_hub."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return Path(os.environ[name]).expanduser()
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or Path(caches) / "huggingface"
    return Path(home).expanduser() / "hub"


@dataclass(frozen=True)
class Machine:
    """The machine on which something was measured or run."""

    cpu: str
    cores: int
    system: str
    python: str
    packages: dict[str, str]

    def line(self) -> str:
        """Return the machine in one line."""
        packages = "".join(
            f", {name} {version}" for name, version in self.packages.items()
        )
        return f"{self.cpu}, {self.cores} cores, {self.system}, Python {self.python}{packages}"

    def to_json(self) -> dict[str, Any]:
        """Return the machine as a JSON object."""
        return asdict(self)


def this_machine(packages: Sequence[str] = ()) -> Machine:
    """Return this machine, with the versions of some packages."""
    return Machine(
        cpu=cpu_name(),
        cores=usable_cores(),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        packages=package_versions(packages),
    )
