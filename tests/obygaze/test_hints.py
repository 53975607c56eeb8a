"""What an error tells a person to do is what cures it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest
from support.advice import COMMAND, OPTION, check_words, options_of
from support.cli import ROOT, call_obygaze, commands

from obygaze.cli import root


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (
            "clip_id,movie_id,level\na,tt1,S\nb,tt1,EN\n",
            "nothing to export: 2 clips without times",
        ),
        (
            "clip_id,movie_id,start_s,end_s\na,tt1,0,9\n",
            "no clip has a level or a concept",
        ),
    ],
)
def test_an_export_of_nothing_is_refused(tmp_path: Path, table: str, told: str) -> None:
    (tmp_path / "clips.csv").write_text(table)
    call_obygaze("manifest", "import", "clips.csv", cwd=tmp_path).ok()
    words = ("manifest", "export", "clips", "out", "--as", "elan")
    refused = call_obygaze(*words, cwd=tmp_path)
    assert refused.code != 0
    assert told in refused.stderr


def texts_in(tree: ast.AST) -> Iterator[str]:
    """Yield each text below a node of the source, with "x" for what is filled in."""
    inside = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(node.values)
            parts = []
            for part in node.values:
                parts.append(str(part.value) if isinstance(part, ast.Constant) else "x")
            yield "".join(parts)
        elif node not in inside and isinstance(node, ast.Constant):
            yield str(node.value)


def hints_of_the_program() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each hint that stands in the source."""
    for package in ("obygaze", "obygaze_features", "obygaze_models"):
        for path in sorted((ROOT / package).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if "obygaze " not in source and "--" not in source:
                continue
            for node in ast.walk(ast.parse(source)):
                if is_hint(node):
                    for text in texts_in(node.value):
                        yield f"{path.relative_to(ROOT)}:{node.value.lineno}", text


def is_hint(node: ast.AST) -> TypeGuard[ast.keyword | ast.Assign]:
    """Return whether a node gives a value to a parameter, a variable or an attribute `hint`."""
    if isinstance(node, ast.keyword):
        return node.arg == "hint"
    if not isinstance(node, ast.Assign):
        return False
    target = node.targets[0]
    if isinstance(target, ast.Attribute):
        return target.attr == "hint"
    return isinstance(target, ast.Name) and target.id.lower().endswith("hint")


def test_a_hint_names_commands_and_options_that_exist() -> None:
    options: set[str] = set()
    for _, command in commands(root):
        options |= options_of(command)
    n_commands = n_options = 0
    for place, text in hints_of_the_program():
        for command in COMMAND.findall(text):
            n_commands += 1
            check_words(command)
        unknown = set(OPTION.findall(text)) - options
        n_options += len(OPTION.findall(text))
        assert not unknown, f"{place}: {text}"
    assert n_commands > 30
    assert n_options > 60
