"""Each extension can be taken out: the program without its entry points."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.cli import ROOT, environment

pytestmark = pytest.mark.check("takes each extension out of the program")

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
POINTS: dict[str, dict[str, str]] = PROJECT["entry-points"]
EXTENSIONS = sorted(
    path.name
    for path in (ROOT / "obygaze" / "extensions").iterdir()
    if (path / "__init__.py").is_file()
)
# The commands of the whole tree, each imported, and the modules of extensions that this needed.
SCRIPT = """
import json, sys, click
from obygaze.cli import root

def walk(group, words):
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        yield " ".join([*words, name])
        if isinstance(command, click.Group):
            yield from walk(command, [*words, name])

from obygaze_models.protocols.reading import load_protocol, protocol_names
from obygaze_models.protocols.schemes import scheme_names

commands = list(walk(root, []))
names = protocol_names()
protocols = {name: load_protocol(name).splits.scheme for name in names}
modules = [name for name in sys.modules if name.startswith("obygaze.extensions.")]
schemes = scheme_names()
found = {"commands": commands, "modules": modules, "protocols": protocols, "schemes": schemes}
print(json.dumps(found))
"""


def program_without(extension: str, folder: Path) -> dict[str, Any]:
    """Return the commands, protocols and imported modules of the program without an extension."""
    info = folder / "obygaze-0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: obygaze\nVersion: 0.1\n"
    )
    lines = []
    for group, points in POINTS.items():
        lines.append(f"[{group}]")
        for name, value in points.items():
            if name != extension:
                lines.append(f"{name} = {value}")
    (info / "entry_points.txt").write_text("\n".join(lines))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        # A checkout may hold the entry points of its own installation.
        cwd=folder,
        env=environment({"PYTHONPATH": str(folder)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def commands_of(extension: str) -> set[str]:
    """Return what a person types for the commands of an extension, by its own table."""
    point = POINTS["obygaze.commands"].get(extension)
    if point is None:
        return set()
    module, _, name = point.partition(":")
    script = f"import json, {module} as m; print(json.dumps([*m.{name}]))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout))


@pytest.fixture(scope="module")
def whole_program(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return program_without("", tmp_path_factory.mktemp("whole"))


def test_every_extension_comes_in_by_entry_points() -> None:
    named = {name for points in POINTS.values() for name in points}
    assert named == set(EXTENSIONS)
    for points in POINTS.values():
        for name, value in points.items():
            assert value.startswith(f"obygaze.extensions.{name}")


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_the_program_without_an_extension_has_all_other_commands(
    extension: str, whole_program: dict[str, Any], tmp_path: Path
) -> None:
    smaller = program_without(extension, tmp_path)
    prefix = f"obygaze.extensions.{extension}"
    assert any(name.startswith(prefix) for name in whole_program["modules"])
    assert not any(name.startswith(prefix) for name in smaller["modules"])
    gone = commands_of(extension)
    expected = [
        command
        for command in whole_program["commands"]
        if not any(f"{command} ".startswith(f"{words} ") for words in gone)
    ]
    assert smaller["commands"] == expected


def test_the_program_without_papers_has_all_other_protocols(
    whole_program: dict[str, Any], tmp_path: Path
) -> None:
    smaller = program_without("paper", tmp_path)
    assert smaller["schemes"] == ["none"]
    folder = ROOT / "obygaze" / "extensions" / "paper" / "protocols"
    of_papers = {path.stem for path in folder.glob("*.toml")}
    others = {
        name: scheme
        for name, scheme in whole_program["protocols"].items()
        if name not in of_papers
    }
    assert len(of_papers) > 5 and of_papers <= whole_program["protocols"].keys()
    assert smaller["protocols"] == others
    assert set(others.values()) == {"none"}
