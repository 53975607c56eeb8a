"""Names that a person types and lines that she is told to type are read as they were meant."""

import shlex
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze

from obygaze_features.manifest import read_manifest


@pytest.mark.parametrize(
    "line",
    [
        "search s --like CLIP",
        "store subset s --clips CLIP -o q",
        "store subset s --clips ids.txt -o q",
        "store subset s --without FILM -o q",
        "store subset s --film FILM -o q",
    ],
)
def test_the_id_that_was_made_of_a_name_is_named(line: str, tmp_path: Path) -> None:
    table = "clip_id,movie_id,level\nЗеркало 1,Зеркало,S\nx-1,x,S\n"
    (tmp_path / "c.csv").write_text(table, "utf-8")
    (tmp_path / "ids.txt").write_text("Зеркало 1\n", "utf-8")
    call_obygaze("manifest", "import", "c.csv", "-o", "c", cwd=tmp_path).ok()
    clip, _ = read_manifest("c", workspace=tmp_path).clips
    np.savez(tmp_path / "f.npz", clip_id=[clip.clip_id, "x-1"], X=np.eye(2, 8))
    words = ("f.npz", "--array", "clip=X", "--manifest", "c", "-o", "s")
    call_obygaze("store", "import", *words, cwd=tmp_path).ok()
    typed = {"CLIP": "Зеркало 1", "FILM": "Зеркало"}
    done = call_obygaze(*(typed.get(word, word) for word in line.split()), cwd=tmp_path)
    meant = clip.movie_id if "FILM" in line else clip.clip_id
    assert done.code and f"(did you mean '{meant}'?)" in done.stderr, done.stderr


NAME = "it's $HOME; mine"


def test_a_line_to_try_names_a_manifest_as_a_shell_reads_it(tmp_path: Path) -> None:
    table = tmp_path / f"{NAME}.csv"
    rows = ["clip_id,movie_id,mood", "a,f,sad", "b,g,gay", "c,g,it's"]
    table.write_text("\n".join(rows) + "\n", "utf-8")
    call_obygaze("manifest", "import", table, "-o", NAME, cwd=tmp_path).ok()
    words = ("manifest", "show", NAME, "--where", "mood == none")
    failed = call_obygaze(*words, cwd=tmp_path)
    assert failed.code
    advice = failed.stderr.partition("Try: ")[2].partition(" counts the values")[0]
    program, *typed = shlex.split(advice)
    assert program == "obygaze"
    assert NAME in typed
    call_obygaze(*typed, cwd=tmp_path).ok()
