"""Where a person names a clip or a film, the id that an import made of the name is named.

Ids have other letters than names may have, so a person types the name of her table.
"""

from __future__ import annotations

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
