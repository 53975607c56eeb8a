"""Facts about this machine: usable cores, processor, versions of packages."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any


def usable_cores() -> int:
    """Return the number of cores this process may use, by affinity mask and Slurm's limit."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    granted = os.environ.get("SLURM_CPUS_PER_TASK", "")
    return min(cores, int(granted)) if granted.isdigit() and int(granted) else cores


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the model name of the processor, or its architecture."""
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.processor() or platform.machine()


def package_version(name: str) -> str | None:
    """Return the version of an installed package without importing it, else None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True)
class Machine:
    """The machine a measurement or a run was made on."""

    cpu: str
    cores: int
    system: str
    python: str
    packages: dict[str, str]

    def line(self) -> str:
        """Return the machine in one line."""
        packages = "".join(f", {name} {version}" for name, version in self.packages.items())
        return f"{self.cpu}, {self.cores} cores, {self.system}, Python {self.python}{packages}"

    def to_json(self) -> dict[str, Any]:
        """Return the machine as a JSON object."""
        return asdict(self)


def this_machine(packages: Sequence[str] = ()) -> Machine:
    """Describe this machine and the installed versions of some packages."""
    versions = {name: package_version(name) for name in packages}
    return Machine(
        cpu=cpu_name(),
        cores=usable_cores(),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        packages={name: version for name, version in versions.items() if version},
    )
