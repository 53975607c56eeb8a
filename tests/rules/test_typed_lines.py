"""A line that a message tells a person to type is one that a shell reads as it was meant."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli import ROOT, call_obygaze

# What stands before a value that is typed: an option, or a command.
BEFORE_A_VALUE = re.compile(
    r"(?:(?:^|[ (;`])-{1,2}[a-zA-Z][a-z-]*(?: [A-Z]+=| |=)"
    r"|obygaze(?: [a-z][a-z0-9-]*)+ |rm -rf? |mkdir )$"
)
# A module without any of these in a string has no such value.
MAY_HAVE_SOME = re.compile(
    r"[\"' (;`]-{1,2}[a-zA-Z][a-z-]*[ =]|obygaze [a-z]|rm -r|mkdir "
)
QUOTED = ("shell_word", "shell_line", "shlex.join")
# Numbers, names that the program chose, and sentences on what was typed.
NEED_NO_QUOTES = {
    *("every", "n_blocks", "n_drawn", "tasks", "OPEN_FILES", "frame_rate_text(given)"),
    *("int(value) if is_whole else value", "plain_name", "kind", "package"),
    *("part.name", "schema", "formats[0]", "FILM", "RATE_COLUMN", "KEEPS_LEVELS"),
    "TABLE",
    *("key", "key.strip()", "key_path", "change", "saved.info.name"),
    "texts",
    "' '.join(stores)",
}


def values_without_quotes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the code of each value that is put into a command as it is."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        nodes = [*ast.walk(function)]
        values = []
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                values += _in_string(node)
        if not values:
            continue
        bound = []
        for node in nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                source = ast.unparse(node.value)
                if any(call in source for call in QUOTED):
                    bound.append(node.targets[0].id)
        for line, source in values:
            if source not in bound:
                yield line, source


def _in_string(node: ast.JoinedStr) -> Iterator[tuple[int, str]]:
    text = ""
    for part in node.values:
        if isinstance(part, ast.Constant):
            text += str(part.value)
        elif isinstance(part, ast.FormattedValue):
            if BEFORE_A_VALUE.search(text):
                source = ast.unparse(part.value)
                if not any(call in source for call in QUOTED):
                    yield node.lineno, source
            text += "VALUE"


def test_each_value_in_a_command_is_in_quotes_where_it_needs_them() -> None:
    found = []
    for package in ("obygaze", "obygaze_features", "obygaze_models"):
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text("utf-8")
            if not MAY_HAVE_SOME.search(text):
                continue
            for line, source in values_without_quotes(ast.parse(text)):
                if source not in NEED_NO_QUOTES:
                    found.append(f"{path.relative_to(ROOT)}:{line}: {source}")
    assert not found


NAME = "it's $HOME; mine"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with a manifest whose name a shell would read otherwise."""
    table = tmp_path / f"{NAME}.csv"
    rows = ["clip_id,movie_id,mood", "a,f,sad", "b,g,gay", "c,g,it's"]
    table.write_text("\n".join(rows) + "\n", "utf-8")
    call_obygaze("manifest", "import", table, "-o", NAME, cwd=tmp_path).ok()
    return tmp_path


def tried(folder: Path, *words: str) -> str:
    """Return what the error of a command says to try."""
    failed = call_obygaze(*words, cwd=folder)
    assert failed.code
    return failed.stderr.partition("Try: ")[2].strip()


@pytest.mark.parametrize(
    "words",
    [
        ("manifest", "show", NAME, "--where", "mood == none"),
    ],
)
def test_a_line_to_try_names_a_manifest_as_a_shell_reads_it(
    folder: Path, words: tuple[str, ...]
) -> None:
    program, *typed = shlex.split(tried(folder, *words))
    assert program == "obygaze"
    assert NAME in typed
    call_obygaze(*typed, cwd=folder).ok()
