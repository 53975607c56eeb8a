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
    *(
        f"obygaze_features.{name}"
        for name in ("manifest", "store", "video", "backbones")
    ),
    "obygaze_features.extraction",
    *(
        f"obygaze_models.{name}"
        for name in ("models", "evaluation", "protocols", "zoo")
    ),
    "obygaze.films",
    "obygaze.audits",
    "obygaze.audits.maps",
    "obygaze_features.store.share",
    "obygaze_features.extraction.text",
    "obygaze_models.report",
]
HEAVY = {"numpy", "zarr", "sklearn", "torch", "transformers", "av", "matplotlib"}


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


def names_for_type_checkers(tree: ast.Module) -> set[str]:
    """The names that a package binds where type checkers look: not below `else`."""
    statements = [
        statement for statement in tree.body if not isinstance(statement, ast.If)
    ]
    nodes = [node for statement in statements for node in ast.walk(statement)]
    return {node.id for node in nodes if isinstance(node, ast.Name)}


@pytest.mark.parametrize("room", ["obygaze", *ROOMS])
def test_exports_are_what_type_checkers_see_as_exported(room):
    # `from module import name as name` is how a stub or a strict type checker marks an export.
    tree = ast.parse(
        Path(importlib.import_module(room).__file__ or "").read_text("utf-8")
    )
    exported = {
        alias.asname: f"{node.module}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    module = importlib.import_module(room)
    # A module `__getattr__` would tell type checkers that every name is there.
    assert "__getattr__" not in names_for_type_checkers(tree)
    assert exported
    assert set(exported) == set(module.__all__)
    for name, home in exported.items():
        assert getattr(module, name) is getattr(importlib.import_module(home), name)


def test_a_name_that_is_not_there_is_an_attribute_error():
    module = importlib.import_module("obygaze_features.store")
    with pytest.raises(
        AttributeError, match=r"'obygaze_features\.store' has no attribute 'opn'"
    ):
        _ = module.opn
    with pytest.raises(ImportError):
        exec("from obygaze_features.store import opn")


def test_importing_every_room_imports_nothing_heavy():
    program = (
        f"import sys, json, {', '.join(ROOMS)}\nprint(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True
    )
    assert HEAVY & set(json.loads(done.stdout)) == set()
