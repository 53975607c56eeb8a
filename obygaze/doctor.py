"""`obygaze doctor`: installed and missing packages, and the commands that install them."""

import importlib
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from obygaze_features import __version__
from obygaze_features.core.console import human, styled
from obygaze_features.core.errors import first_line
from obygaze_features.core.machine import package_version, this_machine
from obygaze_features.core.temporary_names import find_leftovers
from obygaze_features.core.untrusted_text import one_line, visible
from obygaze_features.core.workspace import PathLike, Workspace

FOR_DEVELOPERS = {"docs", "test"}  # extras that only developers need
Facts = dict[str, Any]


@dataclass(frozen=True)
class CheckUp:
    """Versions, devices, leftovers of killed commands, and problems of an installation."""

    facts: Facts

    def to_json(self) -> Facts:
        """Return the facts."""
        return self.facts

    def __str__(self) -> str:
        return to_text(self.facts)

    @property
    def exit_code(self) -> int:
        """1 if there is a problem."""
        return 0 if self.facts["ok"] else 1


def check_up(workspace: PathLike | None = None) -> CheckUp:
    """Return versions, devices, leftovers of killed commands, and problems.

    The facts have the key `ok`, which is true if there is no problem.

    Args:
        workspace: The workspace, if it is not the current one.
    """
    root = Workspace.of(workspace).root.absolute()
    packages = _packages()
    problems = find_problems(packages)
    devices = None
    for name in ("av", "torch"):
        if package_version(name) is None:
            continue
        try:
            module = importlib.import_module(name)
            if name == "torch":
                devices = _devices(module)
        except ModuleNotFoundError as error:
            if error.name != name:
                problems.append(_broken_package(name, error))
        except Exception as error:  # noqa: BLE001 - whatever a broken installation raises is reported
            problems.append(_broken_package(name, error))
    facts = {
        "ok": not problems,
        "problems": problems,
        "version": __version__,
        "executable": sys.executable,
        "machine": asdict(this_machine()),
        "packages": packages,
        "devices": devices,
        "workspace": str(root),
        "leftovers": [leftover.to_json() for leftover in find_leftovers(root)],
    }
    return CheckUp(facts)


def _packages() -> list[Facts]:
    """Return the packages that obygaze needs, with the extras that install them.

    `good` is true if a package is installed in an accepted version.
    """
    from packaging.requirements import Requirement

    try:
        texts = metadata.requires("obygaze") or []
    except metadata.PackageNotFoundError:
        return []
    found: dict[tuple[str, str], Facts] = {}
    for text in texts:
        requirement = Requirement(text)
        name = requirement.name
        needs = str(requirement.specifier)
        extra = re.search(r'extra == "(\w+)"', str(requirement.marker))
        # An extra that includes other extras requires obygaze itself.
        if name == "obygaze" or (extra and extra[1] in FOR_DEVELOPERS):
            continue
        version = package_version(name)
        good = version is not None and is_within(version, needs)
        facts: Facts = {"name": name, "needs": needs, "version": version, "good": good}
        facts = found.setdefault((name, needs), {**facts, "extras": []})
        if extra:
            facts["extras"].append(extra[1])
    return list(found.values())


def is_within(version: str, needs: str) -> bool:
    """Return whether a version is within bounds such as ">=18,<19", by the rules of pip."""
    from packaging.specifiers import SpecifierSet

    try:
        return bool(SpecifierSet(needs).contains(version, prereleases=True))
    except ValueError:  # not a valid version
        return False


def find_problems(packages: Sequence[Facts]) -> list[str]:
    """Return one line for each required package that is missing or of a wrong version."""
    if not packages:
        return ["obygaze is not installed; in the clone of obygaze: pip install -e ."]
    problems = []
    for facts in packages:
        if not facts["extras"] and not facts["good"]:
            requirement = facts["name"] + facts["needs"]
            version = facts["version"] or "none"
            problems.append(
                f'{requirement}, found {version}: pip install "{requirement}"'
            )
    return problems


def _broken_package(name: str, error: Exception) -> str:
    """Return the problem of a package that is installed but cannot be used."""
    reason = f"{type(error).__name__}: {first_line(error)}"
    return f"{name} is installed but does not work: {reason}"


def _devices(torch: Any) -> list[str]:
    """Return the GPUs that torch sees."""
    devices = []
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            devices.append(f"cuda:{number} {torch.cuda.get_device_name(number)}")
    if torch.backends.mps.is_available():
        devices.append("mps")
    return devices


def to_text(facts: Facts) -> str:
    """Return the facts as text: one line for each fact, problems at the end."""
    machine = facts["machine"]
    gpu = "unknown: torch is missing or does not work"
    if facts["devices"] is not None:
        gpu = ", ".join(facts["devices"]) or "none"
    lines = {
        "obygaze": f"{facts['version']}, Python {machine['python']} at {facts['executable']}",
        **_package_lines(facts["packages"]),
        "CPU": f"{machine['cpu']}, {machine['cores']} usable cores",
        "GPU": gpu,
        "workspace": facts["workspace"],
    }
    width = max(map(len, lines))
    rows = []
    for label, text in lines.items():
        rows.append(f"{styled(label.ljust(width), bold=True)}  {text}")
    rows.append("")
    for leftover in facts["leftovers"]:
        size = human(leftover["bytes"])
        rows.append(f"Leftover: {size}, {visible(one_line(leftover['reason']))}")
        rows.append(f"  {visible(one_line(leftover['command']))}")
    for problem in facts["problems"]:
        rows.append(styled("Problem: ", "red") + problem)
    if facts["ok"]:
        rows.append(styled("Everything required is installed.", "green"))
    return "\n".join(rows)


def _package_lines(packages: Sequence[Facts]) -> dict[str, str]:
    """Return the required packages and the packages of each extra, as one text for each.

    If a package of an extra is missing, the text ends with the command that installs the extra.
    """
    texts: dict[str, list[str]] = {}
    missing: dict[str, None] = {}
    for facts in packages:
        text = f"{facts['name']} {facts['version'] or 'missing'}"
        if not facts["good"]:
            text = styled(f"{text} (needs {facts['needs']})", "yellow")
            missing |= dict.fromkeys(facts["extras"])
        for label in facts["extras"] or ["required"]:
            texts.setdefault(label, []).append(text)
    lines = {label: ", ".join(of_label) for label, of_label in texts.items()}
    for extra in missing:
        lines[extra] += f'  ->  in the clone of obygaze: pip install -e ".[{extra}]"'
    return lines
