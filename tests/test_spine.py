"""The page about the spine names modules and functions that exist, and each of them runs."""

from __future__ import annotations

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
