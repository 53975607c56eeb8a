"""`obygaze doctor`: what is installed, what is missing, and how to install it."""

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from typing import Any

import click

from obygaze_features import __version__
from obygaze_features.core.commands import Session, command
from obygaze_features.core.machine import cache_folder, offline, package_version, this_machine
from obygaze_features.core.workspace import Workspace

# The codecs of film files, from DivX to today.
CODECS = (
    *("h264", "hevc", "av1", "vp9", "vp8", "mpeg4", "msmpeg4v3", "mpeg2video", "mpeg1video"),
    *("vc1", "wmv3", "prores", "mjpeg", "theora"),
)
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(\[[\w,]+\])?(?P<needs>[^;]*)(;\s*extra == ['\"](?P<extra>\w+)['\"])?"
)
Facts = dict[str, Any]


@command()
def doctor(session: Session) -> int:
    """Show versions, codecs, caches, and what is missing.

    The exit code is 1 if a required package is missing or too old. Packages that only an extra
    needs are listed with the line that installs them.

    Examples:
        obygaze doctor
        obygaze -C /data/films doctor
        obygaze doctor --json
    """
    found = check_up(session.workspace)
    session.console.show(found, to_text(found))
    return 1 if found["problems"] else 0


def check_up(workspace: Workspace) -> Facts:
    """Return all facts, as `--json` prints them; `ok` is true if nothing required is missing."""
    packages = _packages()
    problems = problems_of(packages)
    return {
        "ok": not problems,
        "problems": problems,
        "version": __version__,
        "executable": sys.executable,
        "machine": asdict(this_machine()),
        "packages": packages,
        "video": _video(),
        "devices": _devices(),
        "threads": {name: os.environ.get(name) for name in THREAD_VARIABLES},
        "workspace": str(workspace.root.absolute()),
        "hub": _hub(),
    }


def problems_of(packages: Sequence[Facts]) -> list[str]:
    """Return one line for each required package that is missing or too old."""
    if not packages:
        return ["obygaze is not installed, only checked out: pip install -e ."]
    bad = [one for one in packages if not one["extras"] and not one["good"]]
    wanted = {one["name"] + one["needs"]: one["version"] or "none" for one in bad}
    return [f"{name}, found {version}: pip install '{name}'" for name, version in wanted.items()]


def _packages() -> list[Facts]:
    """Return the packages that the installed metadata of obygaze names."""
    try:
        requirements = metadata.requires("obygaze") or []
    except metadata.PackageNotFoundError:
        return []
    extras: dict[tuple[str, str], list[str]] = {}
    for parsed in filter(None, map(REQUIREMENT.fullmatch, requirements)):
        # An extra that includes others names obygaze; the last two are for its development.
        if parsed["name"] != "obygaze" and parsed["extra"] not in {"docs", "test"}:
            used = extras.setdefault((parsed["name"], parsed["needs"].strip()), [])
            used += [parsed["extra"]] if parsed["extra"] else []
    return [
        package(name, needs, package_version(name), used) for (name, needs), used in extras.items()
    ]


def package(name: str, needs: str, version: str | None, extras: Sequence[str]) -> Facts:
    """Return the facts of a package; `good` is true if it is installed and new enough.

    Args:
        name: The name on the package index.
        needs: The required version, such as ">=2.0".
        version: The installed version, or None.
        extras: The extras that install it; empty for a required package.
    """
    wanted = re.search(r">=\s*([\d.]+)", needs)
    new_enough = wanted is None or _release(version or "") >= _release(wanted[1])
    good = version is not None and new_enough
    return {"name": name, "needs": needs, "version": version, "extras": [*extras], "good": good}


def _release(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _video() -> Facts | None:
    """Return the version of PyAV's FFmpeg and its codecs, or None where PyAV is not installed."""
    if importlib.util.find_spec("av") is None:
        return None
    av = importlib.import_module("av")
    known = dict.fromkeys(CODECS, True)
    for codec in CODECS:
        try:
            av.codec.Codec(codec, "r")
        except ValueError:  # PyAV's UnknownCodecError is one
            known[codec] = False
    return {
        "libavcodec": ".".join(map(str, av.library_versions["libavcodec"])),
        "reads": [codec for codec, is_known in known.items() if is_known],
        "cannot_read": [codec for codec, is_known in known.items() if not is_known],
    }


def _devices() -> Facts:
    """Return the GPUs that torch sees; `torch` is False if it is not installed."""
    if importlib.util.find_spec("torch") is None:
        return {"torch": False, "cuda": [], "mps": False}
    torch = importlib.import_module("torch")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = [f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(count)]
    return {"torch": True, "cuda": names, "mps": bool(torch.backends.mps.is_available())}


def _hub() -> Facts:
    """Return the cache of the Hugging Face hub, and whether downloads are disabled."""
    cache = cache_folder()
    models = len(list(cache.glob("models--*"))) if cache.is_dir() else None
    return {"cache": str(cache), "models": models, "offline": offline()}


def to_text(found: Facts) -> str:
    """Return the facts as text: one line for each fact, problems at the end."""
    machine, devices, video, hub = (found[key] for key in ("machine", "devices", "video", "hub"))
    gpus = ", ".join(devices["cuda"]) or ("Apple (mps)" if devices["mps"] else "none")
    lines = {
        "obygaze": f"{found['version']}, Python {machine['python']} at {found['executable']}",
        **_package_lines(found["packages"]),
        "CPU": f"{machine['cpu']}, {machine['cores']} usable cores",
        "GPU": gpus if devices["torch"] else "unknown: torch is not installed",
        "threads": ", ".join(f"{k}={v}" for k, v in found["threads"].items() if v) or "not limited",
    }
    if video is None:
        lines["video"] = "PyAV is not installed"
    else:
        lines["video"] = f"FFmpeg with libavcodec {video['libavcodec']}"
        lines["reads"] = ", ".join(video["reads"])
        lines["cannot read"] = ", ".join(video["cannot_read"]) or "-"
    lines["workspace"] = found["workspace"]
    models = "missing" if hub["models"] is None else f"{hub['models']} models"
    offline = ", offline (HF_HUB_OFFLINE)" if hub["offline"] else ""
    lines["Hugging Face"] = f"{hub['cache']} ({models}){offline}"
    width = max(map(len, lines))
    rows = [click.style(label.ljust(width), bold=True) + f"  {lines[label]}" for label in lines]
    problems = [click.style("Missing: ", fg="red") + line for line in found["problems"]]
    good = click.style("Everything required is installed.", fg="green")
    return "\n".join([*rows, "", *(problems or [good])])


def _package_lines(packages: Sequence[Facts]) -> dict[str, str]:
    """Return the required packages, and those of each extra with the line that installs them."""
    required = [_package_text(one) for one in packages if not one["extras"]]
    lines = {"required": ", ".join(required) or "unknown"}
    for extra in dict.fromkeys(extra for one in packages for extra in one["extras"]):
        members = [one for one in packages if extra in one["extras"]]
        lines[f"[{extra}]"] = ", ".join(map(_package_text, members))
        if not all(one["good"] for one in members):
            lines[f"[{extra}]"] += click.style(f"  ->  pip install 'obygaze[{extra}]'", fg="yellow")
    return lines


def _package_text(one: Facts) -> str:
    if one["version"] is None:
        return click.style(f"{one['name']} missing", fg="yellow")
    old = "" if one["good"] else click.style(f" (needs {one['needs']})", fg="yellow")
    return f"{one['name']} {one['version']}{old}"
