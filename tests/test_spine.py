"""The page about the spine names modules and functions that exist, and each of them runs."""

import importlib
import re

import pytest
from support.cli import ROOT

PAGE = (ROOT / "docs" / "design" / "spine.md").read_text("utf-8")
STOPS = re.findall(r"^\| \d+ \| `(\S+)\.py` \| (.+?) \|", PAGE, re.MULTILINE)
OTHERS = re.findall(r"`(\w+)`\s+in `(\S+)\.py`", PAGE)
PATHS = set(re.findall(r"`(\w+/[\w/]+(?:\.\w+|/))`", PAGE))


def member_of(module: str, name: str) -> object:
    found: object = importlib.import_module(module.replace("/", "."))
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize(("module", "functions"), STOPS)
def test_each_stop_has_its_functions(module: str, functions: str) -> None:
    names = re.findall(r"`([\w.]+)`", functions)
    assert names
    for name in names:
        assert callable(member_of(module, name))


def test_what_is_named_in_a_file_is_there() -> None:
    assert len(STOPS) == 15 and len(OTHERS) >= 4
    for name, module in OTHERS:
        assert member_of(module, name) is not None


def test_every_file_and_folder_is_there() -> None:
    assert len(PATHS) > 15
    assert [path for path in sorted(PATHS) if not (ROOT / path).exists()] == []


FILES = re.compile(r"`([\w./-]*\w\.(?:py|js|html|css)|\w[\w/]*/)`")
# Pages for those who change the program; those for users name files of a workspace, too.
FOR_DEVELOPERS = (
    "CONTRIBUTING.md",
    "tests/README.md",
    *(f"docs/design/{path.name}" for path in (ROOT / "docs" / "design").glob("*.md")),
)


@pytest.mark.parametrize("page", FOR_DEVELOPERS)
def test_every_file_that_a_page_for_developers_names_is_there(page: str) -> None:
    top = ("obygaze", "obygaze_features", "obygaze_models", "tests", "docs", "scripts")
    paths = [*ROOT.glob("*"), *ROOT.glob(".ci/*")]
    for folder in (*top, "benchmarks", "stores", "manifests"):
        paths += (ROOT / folder).rglob("*")
    there = set()
    for path in paths:
        name = path.relative_to(ROOT).as_posix() + "/" * path.is_dir()
        there.add(f"/{name}")
    named = set(FILES.findall((ROOT / page).read_text("utf-8")))
    absent = [
        name for name in named if not any(path.endswith(f"/{name}") for path in there)
    ]
    assert absent == []
