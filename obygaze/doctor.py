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
from obygaze_features.core.console import human
from obygaze_features.core.errors import first_line
from obygaze_features.core.leftovers import find_leftovers
from obygaze_features.core.machine import (
    cache_folder,
    offline,
    package_version,
    this_machine,
)
from obygaze_features.core.outside import one_line, visible
from obygaze_features.core.workspace import PathLike, Workspace

# The codecs of film files, from DivX to today.
CODECS = (
    "h264",
    "hevc",
    "av1",
    "vp9",
    "vp8",
    "mpeg4",
    "msmpeg4v3",
    "mpeg2video",
    "mpeg1video",
    "vc1",
    "wmv3",
    "prores",
    "mjpeg",
    "theora",
)
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(\[[\w,]+\])?(?P<needs>[^;]*)(;\s*extra == ['\"](?P<extra>\w+)['\"])?"
)
Facts = dict[str, Any]


def check_up(workspace: PathLike | None = None) -> Facts:
    """Return versions, codecs, caches and problems; `ok` is true if there is no problem.

    Args:
        workspace: The workspace, if it is not the current one.
    """
    opened_workspace = Workspace.of(workspace)
    packages = _packages()
    video = _video()
    devices = _devices()
    problems = problems_of(packages)
    broken = []
    for name, facts in (("PyAV", video), ("torch", devices)):
        if facts is not None and facts["error"]:
            broken.append(f"{name} is installed and does not work: {facts['error']}")
    return {
        "ok": not problems and not broken,
        "problems": problems,
        "broken": broken,
        "version": __version__,
        "executable": sys.executable,
        "machine": asdict(this_machine()),
        "packages": packages,
        "video": video,
        "devices": devices,
        "threads": {name: os.environ.get(name) for name in THREAD_VARIABLES},
        "workspace": str(opened_workspace.root.absolute()),
        "leftovers": [
            leftover.to_json()
            for leftover in find_leftovers(opened_workspace.root.absolute())
        ],
        "hub": _hub(),
    }


@command(check_up)
def doctor(session: Session) -> int:
    """Show versions, codecs, caches, leftovers, and what is missing.

    The exit code is 1 if a required package is missing or of another version than is needed, or if
    PyAV or torch is installed and does not work. Packages that only an extra needs are
    listed with the line that installs them. Of files and folders that killed commands left in the
    workspace, each is listed with its size and the line that removes it; the next command that
    writes the same name removes its own.

    Examples:
        obygaze doctor
        obygaze -C /data/films doctor
        obygaze doctor --json
    """
    facts = check_up(session.workspace)
    session.console.show(facts, to_text(facts))
    return 0 if facts["ok"] else 1


def problems_of(packages: Sequence[Facts]) -> list[str]:
    """Return one line for each required package that is missing or of a wrong version."""
    if not packages:
        return ["obygaze is not installed, only checked out: pip install -e ."]
    version_of: dict[str, str] = {}
    for facts in packages:
        if not facts["extras"] and not facts["good"]:
            version_of[facts["name"] + facts["needs"]] = facts["version"] or "none"
    return [
        f'{requirement}, found {version}: pip install "{requirement}"'
        for requirement, version in version_of.items()
    ]


def _packages() -> list[Facts]:
    """Return the packages that the installed metadata of obygaze names."""
    try:
        requirements = metadata.requires("obygaze") or []
    except metadata.PackageNotFoundError:
        return []
    extras: dict[tuple[str, str], list[str]] = {}
    for requirement in requirements:
        parsed = REQUIREMENT.fullmatch(requirement)
        if parsed is None:
            continue
        # An extra that includes others names obygaze; the last two are for its development.
        if parsed["name"] == "obygaze" or parsed["extra"] in {"docs", "test"}:
            continue
        extras_of_package = extras.setdefault(
            (parsed["name"], parsed["needs"].strip()), []
        )
        if parsed["extra"]:
            extras_of_package.append(parsed["extra"])
    return [
        package(name, needs, package_version(name), extras_of_package)
        for (name, needs), extras_of_package in extras.items()
    ]


def package(name: str, needs: str, version: str | None, extras: Sequence[str]) -> Facts:
    """Return the facts of a package; `good` is true if it is installed and new enough.

    Args:
        name: The name on the package index.
        needs: The required version, such as ">=2.0".
        version: The installed version, or None.
        extras: The extras that install it; empty for a required package.
    """
    good = version is not None and _is_within(version, needs)
    return {
        "name": name,
        "needs": needs,
        "version": version,
        "extras": [*extras],
        "good": good,
    }


def _is_within(version: str, needs: str) -> bool:
    """Return whether a version is within bounds such as ">=18,<19", by the rules of pip."""
    try:
        from packaging.specifiers import SpecifierSet
    except ImportError:  # it comes with matplotlib, which is reported then
        return True
    try:
        return bool(SpecifierSet(needs).contains(version, prereleases=True))
    except ValueError:  # a version that is not one
        return False


def _video() -> Facts | None:
    """Return the version of PyAV's FFmpeg and its codecs, or None where PyAV is not installed.

    `error` is why it does not work, or None.
    """
    if not _is_installed("av"):
        return None
    known = dict.fromkeys(CODECS, True)
    facts: Facts = {"libavcodec": None, "reads": [], "cannot_read": [], "error": None}
    try:
        av = importlib.import_module("av")
        for codec in CODECS:
            try:
                av.codec.Codec(codec, "r")
            except ValueError:  # PyAV's UnknownCodecError is one
                known[codec] = False
        facts["libavcodec"] = ".".join(map(str, av.library_versions["libavcodec"]))
    except Exception as error:  # noqa: BLE001 - whatever a broken installation raises is reported
        return {**facts, "error": _reason(error)}
    facts["reads"] = [codec for codec, is_known in known.items() if is_known]
    facts["cannot_read"] = [codec for codec, is_known in known.items() if not is_known]
    return facts


def _devices() -> Facts:
    """Return the GPUs that torch sees; `torch` is False if it is not installed.

    `error` is why it does not work, or None.
    """
    facts: Facts = {"torch": False, "cuda": [], "mps": False, "error": None}
    if not _is_installed("torch"):
        return facts
    facts["torch"] = True
    try:
        torch = importlib.import_module("torch")
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        facts["cuda"] = [
            f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(count)
        ]
        facts["mps"] = bool(torch.backends.mps.is_available())
    except Exception as error:  # noqa: BLE001 - whatever a broken installation raises is reported
        facts["error"] = _reason(error)
    return facts


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # it was imported, and has no spec
        return True


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"


def _hub() -> Facts:
    """Return the cache of the Hugging Face hub, and whether downloads are disabled."""
    cache = cache_folder()
    models = len(list(cache.glob("models--*"))) if cache.is_dir() else None
    return {"cache": str(cache), "models": models, "offline": offline()}


def to_text(facts: Facts) -> str:
    """Return the facts as text: one line for each fact, problems at the end."""
    machine = facts["machine"]
    limits = [f"{name}={value}" for name, value in facts["threads"].items() if value]
    lines = {
        "obygaze": f"{facts['version']}, Python {machine['python']} at {facts['executable']}",
        **_package_lines(facts["packages"]),
        "CPU": f"{machine['cpu']}, {machine['cores']} usable cores",
        "GPU": _gpu_text(facts["devices"]),
        "threads": ", ".join(limits) or "not limited",
        **_video_lines(facts["video"]),
        "workspace": facts["workspace"],
        "Hugging Face": _hub_text(facts["hub"]),
    }
    width = max(map(len, lines))
    rows = []
    for label, text in lines.items():
        rows.append(f"{click.style(label.ljust(width), bold=True)}  {text}")
    rows.append("")
    for problem in facts["problems"]:
        rows.append(click.style("Missing: ", fg="red") + problem)
    for problem in facts["broken"]:
        rows.append(click.style("Broken: ", fg="red") + problem)
    for leftover in facts["leftovers"]:
        size = human(leftover["bytes"])
        reason = visible(one_line(leftover["reason"]))
        rows.append(click.style(f"Left: {size}, ", fg="yellow") + reason)
        rows.append(f"  {visible(one_line(leftover['command']))}")
    if not facts["problems"] and not facts["broken"]:
        rows.append(click.style("Everything required is installed.", fg="green"))
    return "\n".join(rows)


def _video_lines(video: Facts | None) -> dict[str, str]:
    """Return the lines on PyAV and its codecs."""
    if video is None:
        return {"video": "PyAV is not installed"}
    if video["error"]:
        text = f"PyAV does not work: {video['error']}"
        return {"video": click.style(text, fg="red")}
    return {
        "video": f"FFmpeg with libavcodec {video['libavcodec']}",
        "reads": ", ".join(video["reads"]),
        "cannot read": ", ".join(video["cannot_read"]) or "-",
    }


def _hub_text(hub: Facts) -> str:
    models = "missing" if hub["models"] is None else f"{hub['models']} models"
    offline = ", offline (HF_HUB_OFFLINE)" if hub["offline"] else ""
    return f"{hub['cache']} ({models}){offline}"


def _gpu_text(devices: Facts) -> str:
    if not devices["torch"]:
        return "unknown: torch is not installed"
    if devices["error"]:
        return click.style(
            f"unknown: torch does not work: {devices['error']}", fg="red"
        )
    if devices["cuda"]:
        return ", ".join(devices["cuda"])
    return "Apple (mps)" if devices["mps"] else "none"


def _package_lines(packages: Sequence[Facts]) -> dict[str, str]:
    """Return the required packages, and those of each extra with the line that installs them."""
    required = [_package_text(facts) for facts in packages if not facts["extras"]]
    members_of_extra: dict[str, list[Facts]] = {}
    for facts in packages:
        for extra in dict.fromkeys(facts["extras"]):
            members_of_extra.setdefault(extra, []).append(facts)
    lines = {"required": ", ".join(required) or "unknown"}
    for extra, members in members_of_extra.items():
        text = ", ".join(map(_package_text, members))
        if not all(facts["good"] for facts in members):
            install = f'  ->  pip install "obygaze[{extra}]"'
            text += click.style(install, fg="yellow")
        lines[f"[{extra}]"] = text
    return lines


def _package_text(facts: Facts) -> str:
    if facts["version"] is None:
        return click.style(f"{facts['name']} missing", fg="yellow")
    text = f"{facts['name']} {facts['version']}"
    if not facts["good"]:
        text += click.style(f" (needs {facts['needs']})", fg="yellow")
    return text
