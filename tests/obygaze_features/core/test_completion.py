"""Tab: in real shells, set up as the guide says, and the words they are given."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.cli import run_obygaze
from support.shells import installed, on_tab, said_on_tab

from obygaze_features.core.completion import _joined

SHELLS = ("bash", "zsh", "fish")
TYPED = {
    "obygaze sto": "obygaze store",
    "obygaze store info fil": "obygaze store info films.v1",
    "obygaze store diff packed.v2 f": "obygaze store diff packed.v2 films.v1",
    "obygaze manifest show clips --le": "obygaze manifest show clips --level",
    "obygaze manifest folds clips --kind=gr": "obygaze manifest folds clips --kind=grouped",
    "obygaze run honest --store x=f": "obygaze run honest --store x=films.v1",
    "obygaze backbones show descr": "obygaze backbones show descriptors",
    "obygaze -C other store info th": "obygaze -C other store info theirs",
    "obygaze video probe lak": "obygaze video probe lake.mp4",
    "obygaze manifest project segm": "obygaze manifest project segments.csv",
    "obygaze store verify stores/fil": "obygaze store verify stores/films.v1",
}


@pytest.fixture
def full_workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace"
    for folder in ("stores/films.v1", "stores/.hidden.pull", "runs/last-night", "models/probe"):
        (workspace / folder).mkdir(parents=True)
    (workspace / "other" / "stores" / "theirs").mkdir(parents=True)
    (workspace / "manifests").mkdir()
    for name in ("stores/packed.v2.zip", "stores/README.md", "manifests/clips.toml"):
        (workspace / name).touch()
    for name in ("manifests/clips.csv", "lake.mp4", "segments.csv"):
        (workspace / name).touch()
    return workspace


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_set_up_as_the_guide_says_completes(shell, full_workspace, tmp_path):
    env = installed(shell, tmp_path)
    assert {line: on_tab(shell, line, full_workspace, env) for line in TYPED} == TYPED


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_is_written_into_the_line_where_obygaze_is_not_to_be_found(
    shell, full_workspace, tmp_path
):
    env = installed(shell, tmp_path)
    found = shutil.which(shell)
    assert found is not None
    alone = tmp_path / "bin"
    alone.mkdir()
    for program in (shell, "env"):
        (alone / program).symlink_to(shutil.which(program) or program)
    env["PATH"] = str(alone)
    assert said_on_tab(shell, "obygaze store info pack", full_workspace, env) == ""


def words_for(line: str, workspace: Path) -> tuple[list[str], str]:
    """What zsh would be offered at the end of a line, and anything that was said beside it."""
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    result = run_obygaze(cwd=workspace, env={"_OBYGAZE_COMPLETE": "zsh_complete", **asked})
    lines = result.stdout.splitlines()
    return [
        f"{kind} {word}" for kind, word in zip(lines[::3], lines[1::3], strict=True)
    ], result.stderr


def test_all_names_of_a_kind_are_offered_and_nothing_else(full_workspace):
    offered, said = words_for("obygaze store info ", full_workspace)
    assert (offered, said) == (["plain films.v1", "plain packed.v2"], "")
    one_each = {
        "obygaze manifest check ": "clips",
        "obygaze report la": "last-night",
        "obygaze models show ": "probe",
        "obygaze run hon": "honest",
        "obygaze extract run clips -b descr": "descriptors",
        "obygaze audit eat films.v1 clips --report ": "last-night",
    }
    offers = {line: words_for(line, full_workspace)[0] for line in one_each}
    assert offers == {line: [f"plain {word}"] for line, word in one_each.items()}


def test_what_no_name_begins_like_may_be_a_file(full_workspace):
    assert words_for("obygaze store info ./st", full_workspace)[0] == ["file ./st"]


@pytest.mark.parametrize("line", ["obygaze store info ", "obygaze -C lake.mp4 store info "])
def test_no_workspace_is_no_words_and_no_complaint(line, full_workspace):
    (full_workspace / "stores" / "packed.v2.zip").unlink()
    for path in (full_workspace / "stores").iterdir():
        path.unlink() if path.is_file() else path.rmdir()
    (full_workspace / "stores").rmdir()
    assert words_for(line, full_workspace) == (["file "], "")


@pytest.mark.parametrize(
    "cut, typed",
    [
        (["run", "--store", "x", "=", "f"], ["run", "--store", "x=f"]),
        (["run", "--store", "x", "="], ["run", "--store", "x="]),
        (["run", "--store", "=", "x", "=", "f"], ["run", "--store=x=f"]),
        (["run", ""], ["run", ""]),
        (["run", "x", "=", ""], ["run", "x=", ""]),
        ([""], [""]),
    ],
)
def test_words_that_bash_has_cut_are_put_together(cut, typed):
    assert _joined(cut) == typed
