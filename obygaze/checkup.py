"""The facts that `obygaze doctor` prints."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from obygaze_features import __version__
from obygaze_features.core.machine import Machine, package_version, this_machine
from obygaze_features.core.workspace import Workspace

# The codecs of film files, from DivX to today.
CODECS = (
    *("h264", "hevc", "av1", "vp9", "vp8", "mpeg4", "msmpeg4v3", "mpeg2video", "mpeg1video"),
    *("vc1", "wmv3", "prores", "mjpeg", "theora"),
)
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
FOLDERS = ("manifests", "stores", "runs", "models")
# Extras that combine others, or are for the development of obygaze.
NOT_FOR_USERS = ("all", "test")


@dataclass(frozen=True)
class Package:
    """One package: its version, the required version, and the extras that install it."""

    name: str
    needs: str
    version: str | None
    extras: tuple[str, ...]

    @property
    def good(self) -> bool:
        """Whether it is installed and new enough."""
        return self.version is not None and _new_enough(self.version, self.needs)


@dataclass(frozen=True)
class Video:
    """The codecs of PyAV's FFmpeg."""

    libraries: dict[str, str]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    cannot_read: tuple[str, ...]


@dataclass(frozen=True)
class Devices:
    """The GPUs that torch sees; `torch` is False if it is not installed."""

    torch: bool
    cuda: tuple[str, ...] = ()
    mps: bool = False


@dataclass(frozen=True)
class Folder:
    """One folder of the workspace and the free space on its disk."""

    kind: str
    path: str
    exists: bool
    entries: int
    writable: bool
    free_bytes: int


@dataclass(frozen=True)
class HubCache:
    """The cache of the Hugging Face hub, and whether downloads are allowed."""

    cache: str
    models: int | None
    offline: bool


@dataclass(frozen=True)
class Checkup:
    """All facts that `obygaze doctor` prints."""

    version: str
    executable: str
    machine: Machine
    packages: tuple[Package, ...]
    video: Video | None
    devices: Devices
    threads: dict[str, str | None]
    workspace: str
    folders: tuple[Folder, ...]
    hub: HubCache

    @property
    def problems(self) -> tuple[str, ...]:
        """The required packages that are missing or too old, one line each."""
        if not self.packages:
            return ("obygaze is not installed, only checked out: pip install -e .",)
        return tuple(
            f"{package.name}{package.needs}, found {package.version or 'none'}: "
            f"pip install '{package.name}{package.needs}'"
            for package in self.packages
            if not package.extras and not package.good
        )

    def as_json(self) -> dict[str, Any]:
        """Return the check-up as a JSON object; `ok` is true if nothing required is missing."""
        found = asdict(self)
        for entry, package in zip(found["packages"], self.packages, strict=True):
            entry["good"] = package.good
        return {"ok": not self.problems, "problems": list(self.problems), **found}


def check_up(workspace: Workspace) -> Checkup:
    """Collect all facts."""
    return Checkup(
        version=__version__,
        executable=sys.executable,
        machine=this_machine(),
        packages=_packages(),
        video=_video(),
        devices=_devices(),
        threads={name: os.environ.get(name) for name in THREAD_VARIABLES},
        workspace=str(workspace.root.absolute()),
        folders=tuple(_folder(kind, workspace.folder(kind)) for kind in FOLDERS),
        hub=_hub(),
    )


REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(\[(?P<inner>[\w,]+)\])?(?P<needs>[^;]*)"
    r"(;\s*extra == ['\"](?P<extra>\w+)['\"])?"
)


def _packages() -> tuple[Package, ...]:
    """Return the packages that the installed metadata of obygaze names."""
    try:
        requirements = metadata.requires("obygaze") or []
    except metadata.PackageNotFoundError:
        return ()
    extras: dict[tuple[str, str], list[str]] = {}
    includes: list[tuple[str, str]] = []
    for parsed in filter(None, map(REQUIREMENT.fullmatch, requirements)):
        extra = parsed["extra"]
        if extra in NOT_FOR_USERS:
            continue
        if parsed["name"] == "obygaze":  # an extra that includes another one
            includes += [(inner, extra) for inner in parsed["inner"].split(",")]
            continue
        used = extras.setdefault((parsed["name"], parsed["needs"].strip()), [])
        used += [extra] if extra else []
    for used in extras.values():
        used += [outer for inner, outer in includes if inner in used and outer not in used]
    return tuple(
        Package(name, needs, package_version(name), tuple(used))
        for (name, needs), used in extras.items()
    )


def _new_enough(version: str, needs: str) -> bool:
    wanted = re.search(r">=\s*([\d.]+)", needs)
    return wanted is None or _release(version) >= _release(wanted[1])


def _release(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _video() -> Video | None:
    if importlib.util.find_spec("av") is None:
        return None
    av = importlib.import_module("av")
    libraries = {
        name: ".".join(map(str, version)) for name, version in sorted(av.library_versions.items())
    }
    reads = tuple(codec for codec in CODECS if _has_codec(av, codec, "r"))
    return Video(
        libraries=libraries,
        reads=reads,
        writes=tuple(codec for codec in CODECS if _has_codec(av, codec, "w")),
        cannot_read=tuple(codec for codec in CODECS if codec not in reads),
    )


def _has_codec(av: Any, name: str, mode: str) -> bool:
    try:
        av.codec.Codec(name, mode)
    except ValueError:  # PyAV's UnknownCodecError is one
        return False
    return True


def _devices() -> Devices:
    if importlib.util.find_spec("torch") is None:
        return Devices(torch=False)
    torch = importlib.import_module("torch")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = tuple(f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(count))
    return Devices(torch=True, cuda=names, mps=bool(torch.backends.mps.is_available()))


def _folder(kind: str, path: Path) -> Folder:
    path = path.absolute()
    nearest = next(parent for parent in (path, *path.parents) if parent.is_dir())
    entries = (
        [entry for entry in path.iterdir() if entry.name != "README.md"]
        if (nearest == path)
        else []
    )
    return Folder(
        kind=kind,
        path=str(path),
        exists=nearest == path,
        entries=len(entries),
        writable=os.access(nearest, os.W_OK),
        free_bytes=shutil.disk_usage(nearest).free,
    )


def _hub() -> HubCache:
    home = os.environ.get("HF_HOME")
    if home is None:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        home = f"{base}/huggingface"
    cache = Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub").expanduser()
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}
    models = len(list(cache.glob("models--*"))) if cache.is_dir() else None
    return HubCache(cache=str(cache), models=models, offline=offline)
