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
from obygaze_features.core.errors import ObygazeError, first_line
from obygaze_features.core.machine import (
    cache_folder,
    offline,
    package_version,
    this_machine,
)
from obygaze_features.core.plugins import (
    ANALYSES,
    BACKBONES,
    COMMANDS,
    DATASETS,
    MODELS,
    Plugin,
    plugins,
)
from obygaze_features.core.workspace import Workspace

# The codecs of film files, from DivX to today.
CODECS = (
    *(
        "h264",
        "hevc",
        "av1",
        "vp9",
        "vp8",
        "mpeg4",
        "msmpeg4v3",
        "mpeg2video",
        "mpeg1video",
    ),
    *("vc1", "wmv3", "prores", "mjpeg", "theora"),
)
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(\[[\w,]+\])?(?P<needs>[^;]*)(;\s*extra == ['\"](?P<extra>\w+)['\"])?"
)
Facts = dict[str, Any]
# For each group of plugins, the function that raises an error for one that does not work.
PLUGIN_CHECKS = {
    ANALYSES: "obygaze_models.report.findings:load_analysis",
    BACKBONES: "obygaze_features.backbones.cards:check_plugin",
    COMMANDS: "obygaze_features.core.extension_commands:check_plugin",
    DATASETS: "obygaze_features.manifest.installed:check_plugin",
    MODELS: "obygaze_models.models.registry:check_plugin",
}


@command()
def doctor(session: Session) -> int:
    """Show versions, codecs, caches, and what is missing.

    The exit code is 1 if a required package is missing or of another version than is needed, or if
    PyAV, torch or a plugin is installed and does not work. Packages that only an extra needs are
    listed with the line that installs them.

    Examples:
        obygaze doctor
        obygaze -C /data/films doctor
        obygaze doctor --json
    """
    found = check_up(session.workspace)
    session.console.show(found, to_text(found))
    return 0 if found["ok"] else 1


def check_up(workspace: Workspace) -> Facts:
    """Return all facts, as `--json` prints them; `ok` is true if there is no problem."""
    packages = _packages()
    video = _video()
    devices = _devices()
    installed = _plugins()
    problems = problems_of(packages)
    broken = []
    for name, facts in (("PyAV", video), ("torch", devices)):
        if facts is not None and facts["error"]:
            broken.append(f"{name} is installed and does not work: {facts['error']}")
    for plugin in installed:
        if plugin["error"]:
            broken.append(f"a plugin does not work: {plugin['error']}")
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
        "plugins": installed,
        "threads": {name: os.environ.get(name) for name in THREAD_VARIABLES},
        "workspace": str(workspace.root.absolute()),
        "hub": _hub(),
    }


def problems_of(packages: Sequence[Facts]) -> list[str]:
    """Return one line for each required package that is missing or of a wrong version."""
    if not packages:
        return ["obygaze is not installed, only checked out: pip install -e ."]
    bad = [one for one in packages if not one["extras"] and not one["good"]]
    wanted = {one["name"] + one["needs"]: one["version"] or "none" for one in bad}
    return [
        f"{name}, found {version}: pip install '{name}'"
        for name, version in wanted.items()
    ]


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
        package(name, needs, package_version(name), used)
        for (name, needs), used in extras.items()
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


def _plugins() -> list[Facts]:
    """Return the plugins of all packages; `error` is why one does not work, or None."""
    facts = []
    for group, check in PLUGIN_CHECKS.items():
        installed = plugins(group)
        names = [plugin.name for plugin in installed]
        for plugin in installed:
            error = _plugin_error(plugin, check)
            if names.count(plugin.name) > 1:
                error = f"two packages add {plugin.name!r}, uninstall one of them: {plugin.where}"
            facts.append(
                {
                    "group": group,
                    "name": plugin.name,
                    "package": plugin.package,
                    "value": plugin.point.value,
                    "error": error,
                }
            )
    return facts


def _plugin_error(plugin: Plugin, check: str) -> str | None:
    """Return why a plugin does not work; its code is loaded, and its cards are read."""
    module, _, function = check.partition(":")
    try:
        getattr(importlib.import_module(module), function)(plugin)
    except ObygazeError as error:
        place = "" if plugin.where in error.what else f" ({plugin.where})"
        return error.what + place
    except ImportError as error:  # a package of obygaze that is missing, and reported
        return f"{plugin.where} cannot be checked: {first_line(error)}"
    return None


def _hub() -> Facts:
    """Return the cache of the Hugging Face hub, and whether downloads are disabled."""
    cache = cache_folder()
    models = len(list(cache.glob("models--*"))) if cache.is_dir() else None
    return {"cache": str(cache), "models": models, "offline": offline()}


def to_text(found: Facts) -> str:
    """Return the facts as text: one line for each fact, problems at the end."""
    machine, devices, video, hub = (
        found[key] for key in ("machine", "devices", "video", "hub")
    )
    lines = {
        "obygaze": f"{found['version']}, Python {machine['python']} at {found['executable']}",
        **_package_lines(found["packages"]),
        "CPU": f"{machine['cpu']}, {machine['cores']} usable cores",
        "GPU": _gpu_text(devices),
        "threads": ", ".join(f"{k}={v}" for k, v in found["threads"].items() if v)
        or "not limited",
    }
    if video is None:
        lines["video"] = "PyAV is not installed"
    elif video["error"]:
        lines["video"] = click.style(f"PyAV does not work: {video['error']}", fg="red")
    else:
        lines["video"] = f"FFmpeg with libavcodec {video['libavcodec']}"
        lines["reads"] = ", ".join(video["reads"])
        lines["cannot read"] = ", ".join(video["cannot_read"]) or "-"
    lines["plugins"] = ", ".join(map(_plugin_text, found["plugins"])) or "none"
    lines["workspace"] = found["workspace"]
    models = "missing" if hub["models"] is None else f"{hub['models']} models"
    offline = ", offline (HF_HUB_OFFLINE)" if hub["offline"] else ""
    lines["Hugging Face"] = f"{hub['cache']} ({models}){offline}"
    width = max(map(len, lines))
    rows = [
        click.style(label.ljust(width), bold=True) + f"  {lines[label]}"
        for label in lines
    ]
    problems = [click.style("Missing: ", fg="red") + line for line in found["problems"]]
    problems += [click.style("Broken: ", fg="red") + line for line in found["broken"]]
    good = click.style("Everything required is installed.", fg="green")
    return "\n".join([*rows, "", *(problems or [good])])


def _gpu_text(devices: Facts) -> str:
    if not devices["torch"]:
        return "unknown: torch is not installed"
    if devices["error"]:
        return click.style(
            f"unknown: torch does not work: {devices['error']}", fg="red"
        )
    return ", ".join(devices["cuda"]) or ("Apple (mps)" if devices["mps"] else "none")


def _plugin_text(plugin: Facts) -> str:
    text = f"{plugin['group'].removeprefix('obygaze.')} {plugin['name']} ({plugin['package']})"
    return click.style(f"{text} does not work", fg="red") if plugin["error"] else text


def _package_lines(packages: Sequence[Facts]) -> dict[str, str]:
    """Return the required packages, and those of each extra with the line that installs them."""
    required = [_package_text(one) for one in packages if not one["extras"]]
    lines = {"required": ", ".join(required) or "unknown"}
    for extra in dict.fromkeys(extra for one in packages for extra in one["extras"]):
        members = [one for one in packages if extra in one["extras"]]
        lines[f"[{extra}]"] = ", ".join(map(_package_text, members))
        if not all(one["good"] for one in members):
            lines[f"[{extra}]"] += click.style(
                f"  ->  pip install 'obygaze[{extra}]'", fg="yellow"
            )
    return lines


def _package_text(one: Facts) -> str:
    if one["version"] is None:
        return click.style(f"{one['name']} missing", fg="yellow")
    old = "" if one["good"] else click.style(f" (needs {one['needs']})", fg="yellow")
    return f"{one['name']} {one['version']}{old}"
