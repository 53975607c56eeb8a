"""Tab: in real shells, set up as the guide says, and the words they are given."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import run_obygaze
from support.shells import installed, on_tab

SHELLS = ("bash", "zsh", "fish")
TYPED = {
    "obygaze sto": "obygaze store",
    "obygaze manifest show clips --le": "obygaze manifest show clips --level",
    "obygaze manifest folds clips --kind gr": "obygaze manifest folds clips --kind grouped",
    "obygaze video probe lak": "obygaze video probe lake.mp4",
    "obygaze manifest project segm": "obygaze manifest project segments.csv",
    "obygaze store verify stores/fil": "obygaze store verify stores/films.v1",
    "obygaze store verify fil": "obygaze store verify films.v1",
}


@pytest.fixture
def full_workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    (workspace / "stores" / "films.v1").mkdir(parents=True)
    for name in ("lake.mp4", "segments.csv"):
        (workspace / name).touch()
    return workspace


@pytest.mark.parametrize(
    "shell",
    [
        "bash",
        pytest.param("zsh", marks=pytest.mark.check("starts a shell for each word")),
        pytest.param("fish", marks=pytest.mark.check("starts a shell for each word")),
    ],
)
def test_a_shell_set_up_as_the_guide_says_completes(shell, full_workspace, tmp_path):
    env = installed(shell, tmp_path)
    assert {line: on_tab(shell, line, full_workspace, env) for line in TYPED} == TYPED


def test_an_argument_may_be_a_file(full_workspace):
    asked = {"COMP_WORDS": "obygaze store info ./st", "COMP_CWORD": "3"}
    result = run_obygaze(
        cwd=full_workspace, env={"_OBYGAZE_COMPLETE": "zsh_complete", **asked}
    )
    assert (result.stdout.splitlines()[:2], result.stderr) == (["file", "./st"], "")
