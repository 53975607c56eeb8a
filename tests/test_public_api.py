"""What rooms export: every name is there, importing a room imports nothing else, types agree."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOMS = [
    *(f"obygaze_features.{name}" for name in ("manifest", "store", "video", "backbones")),
    "obygaze_features.extraction",
    *(f"obygaze_models.{name}" for name in ("models", "evaluation", "protocols", "zoo")),
    *(f"obygaze_models.{name}" for name in ("audits", "report")),
]
HEAVY = {"numpy", "zarr", "sklearn", "torch", "transformers", "av", "matplotlib", "distributed"}


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_a_room_exports_is_there(room):
    module = importlib.import_module(room)
    for name in module.__all__:
        found = getattr(module, name)
        # A module of the same name would take its place once it is imported.
        assert not isinstance(found, ModuleType)
        assert importlib.util.find_spec(f"{room}.{name}") is None
        assert found.__module__.startswith(f"{room}.")
    assert dir(module) == sorted(module.__all__)


@pytest.mark.parametrize("room", ROOMS)
def test_type_checkers_are_told_the_same_names(room):
    module = importlib.import_module(room)
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    told = {
        alias.asname: f"{node.module}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    assert set(told) == set(module.__all__)
    homes = {name: f"{room}.{module._HOME[name]}" for name in module.__all__}
    assert told == homes


def test_a_name_that_is_not_there_is_an_attribute_error():
    module = importlib.import_module("obygaze_features.store")
    with pytest.raises(AttributeError, match=r"'obygaze_features\.store' has no attribute 'opn'"):
        _ = module.opn
    with pytest.raises(ImportError):
        exec("from obygaze_features.store import opn")


def test_importing_every_room_imports_nothing_heavy():
    program = f"import sys, json, {', '.join(ROOMS)}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert HEAVY & set(json.loads(done.stdout)) == set()
