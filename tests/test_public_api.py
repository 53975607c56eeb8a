"""What rooms export: every name is there, importing a room imports nothing else, types agree."""

import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import click
import pytest
from support.docstrings import about, described_parameters
from support.functions import OTHER_NAMES, commands_of, functions_of_commands

import obygaze as og
from obygaze.cli import root
from obygaze.films import import_manifest
from obygaze_features.store import verify, write_features

ROOMS = [
    *(
        f"obygaze_features.{name}"
        for name in ("manifest", "store", "video", "backbones")
    ),
    "obygaze_models.zoo",
    "obygaze.films",
    "obygaze.audits",
    "obygaze.audits.maps",
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


def test_the_version_is_that_of_the_package() -> None:
    assert og.__version__ == importlib.metadata.version("obygaze")


def test_every_command_is_a_function_of_og() -> None:
    functions = dict(functions_of_commands())
    assert set(OTHER_NAMES) <= set(functions)
    assert functions["store verify"] is verify
    assert functions["manifest import"] is import_manifest
    assert functions["extract run"] is og.extract
    for name in ("compare", "report", "run", "search", "train"):
        assert functions[name] is getattr(og, name)
    assert functions["models predict"] is og.predict
    assert functions["audit gender-score"] is og.audit_gender_score
    # What is in memory cannot be typed.
    assert og.store.write is write_features
    names_of_groups = {line.split()[0] for line in functions if " " in line}
    for group in names_of_groups:
        of_group = [line for line in functions if line.startswith(f"{group} ")]
        name = "extraction" if group == "extract" else group
        n_functions = len(of_group) + (name == "store")
        assert len(dir(getattr(og, name))) == n_functions


def test_the_functions_of_commands_describe_their_parameters() -> None:
    for line, function in functions_of_commands():
        assert about(function), line
        parameters = set(inspect.signature(function).parameters)
        assert parameters == set(described_parameters(function)), line


def test_importing_every_room_imports_nothing_heavy():
    program = (
        f"import sys, json, {', '.join(ROOMS)}\nprint(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True
    )
    assert HEAVY & set(json.loads(done.stdout)) == set()


def test_a_signature_says_what_a_function_takes_and_nothing_of_the_command_line():
    longest = {}
    for line, function in functions_of_commands():
        signature = inspect.signature(function)
        text = str(signature)
        assert "Annotated" not in text, line
        assert "Option" not in text, line
        longest[line] = len(signature.parameters)
    assert max(longest.values()) <= 19


def test_the_help_of_a_command_fits_on_a_screen() -> None:
    for words in commands_of(root, click.Context(root)):
        command: click.Command = root
        # Of a terminal of 80 columns, click leaves two free.
        ctx = click.Context(root, info_name="obygaze", terminal_width=78)
        for word in words:
            assert isinstance(command, click.Group)
            found = command.get_command(ctx, word)
            assert found is not None
            command = found
            ctx = click.Context(command, info_name=word, parent=ctx, terminal_width=78)
        lines = command.get_help(ctx).splitlines()
        assert len(lines) <= 50, words
        assert max(map(len, lines)) <= 80, words


def reached(found: Any, name: str) -> Iterator[tuple[str, str]]:
    """Every docstring that a person reaches from `og`: of functions, classes and methods."""
    if isinstance(found, ModuleType):
        yield name, found.__doc__ or ""
        for inner in dir(found):
            yield from reached(getattr(found, inner), f"{name}.{inner}")
        return
    yield name, inspect.getdoc(found) or ""
    if inspect.isclass(found):
        for inner, member in vars(found).items():
            if not inner.startswith("_"):
                yield f"{name}.{inner}", inspect.getdoc(member) or ""


def test_a_docstring_speaks_of_python_and_not_of_a_shell() -> None:
    typed = "|".join(root.list_commands(click.Context(root)))
    shell = re.compile(rf"(?<![\w-])--?[a-zA-Z][a-z-]*\b(?!-)|\bobygaze ({typed})\b")
    found = {
        f"{name}: {match[0]}"
        for name, text in reached(og, "og")
        for match in shell.finditer(text)
    }
    assert found == set()
