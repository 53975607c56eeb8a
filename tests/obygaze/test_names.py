"""Tab offers the names that a parameter takes: those of the workspace, of files, of the program."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from support.cli import commands
from support.experiments import films, planted, write_workspace

from obygaze import cli
from obygaze.names import LISTERS


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("names")
    manifest = films(3, 4)
    write_workspace(root, manifest, planted(manifest, width=20), store="films.planted")
    (root / "runs" / "honest").mkdir(parents=True)
    (root / "models" / "ridge-1").mkdir(parents=True)
    return root


def offered(workspace: Path, line: str) -> list[str]:
    """What a shell is given for the last word of a line, which may be empty."""
    *words, last = line.split(" ")
    completion = ShellComplete(cli.root, {}, "obygaze", "_OBYGAZE_COMPLETE")
    items = completion.get_completions(["-C", str(workspace), *words], last)
    return [item.value if item.type == "plain" else item.type for item in items]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("manifest show ", ["made-up"]),
        ("manifest check ", ["made-up"]),
        ("store info ", ["films.planted"]),
        ("store diff films.planted ", ["films.planted"]),
        ("extract run films --store ", ["films.planted"]),
        ("report ", ["honest"]),
        ("view films --run ho", ["honest"]),
        ("models show ", ["ridge-1"]),
        ("train ri", ["ridge"]),
        ("train ridge films.planted films --task HN", ["HN_S"]),
        ("run honest-l", ["honest-levels"]),
        ("extract run films -b vivit-b16x2-k4", ["vivit-b16x2-k400"]),
        ("extract run films -b xclip-b16-k400 --arrays clip,po", ["clip,pooled"]),
        ("manifest show made-up --film ", ["tt0000001", "tt0000002", "tt0000003"]),
        ("manifest show made-up --clip tt0000001-002", ["tt0000001-002"]),
        ("store subset films.planted --film tt0000002", ["tt0000002"]),
        ("store subset films.planted --array ", ["clip"]),
        ("search films.planted --like tt0000002-003", ["tt0000002-003"]),
        # What cannot be read, and what has no names: the shell looks for files.
        ("manifest show other --film ", ["file"]),
        ("store info ./fi", ["file"]),
        ("manifest import csv ", ["file"]),
    ],
)
def test_tab_offers_the_names_that_the_parameter_takes(
    workspace: Path, line: str, names: list[str]
) -> None:
    assert offered(workspace, line) == names


def test_every_lister_belongs_to_a_parameter_of_a_command() -> None:
    parameters = set()
    for words, command in commands(cli.root):
        for param in command.params:
            parameters |= {param.name, f"{words} {param.name}"}
    assert set(LISTERS) <= parameters
