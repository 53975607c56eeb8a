"""Where a person names a clip or a film, the id that an import made of the name is named.

Ids have other letters than names may have, so a person types the name of her table.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze

ROWS = (
    ("Amélie 1", "Amélie"),
    ("Amélie 2", "Amélie"),
    ("Зеркало 1", "Зеркало"),
    ("x-1", "x"),
)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manifest c of a table with such names, and a store s of its clips."""
    folder = tmp_path_factory.mktemp("typed")
    lines = [f"{clip},{film},S\n" for clip, film in ROWS]
    (folder / "c.csv").write_text("clip_id,movie_id,level\n" + "".join(lines), "utf-8")
    call_obygaze("manifest", "import", "c.csv", "-o", "c", cwd=folder).ok()
    X = np.eye(len(ROWS), 8, dtype=np.float32)
    np.savez(folder / "f.npz", clip_id=[clip for clip, _ in made(folder)], X=X)
    words = ("f.npz", "--array", "clip=X", "--manifest", "c", "-o", "s")
    call_obygaze("store", "import", *words, cwd=folder).ok()
    return folder


def made(folder: Path) -> list[tuple[str, str]]:
    """The ids of the clips and of their films, in the order of the table."""
    with (folder / "manifests" / "c.csv").open(encoding="utf-8", newline="") as stream:
        return [(row["clip_id"], row["movie_id"]) for row in csv.DictReader(stream)]


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize(
    "line",
    [
        "search s --like CLIP",
        "store subset s --clips CLIP -o q",
        "store subset s --clips FILE -o q",
        "store subset s --without CLIP -o q",
        "store subset s --without FILM -o q",
        "store subset s --film FILM -o q",
    ],
)
def test_the_id_that_was_made_of_a_name_is_named(
    line: str, number: int, workspace: Path
) -> None:
    clip, film = ROWS[number]
    clip_id, movie_id = made(workspace)[number]
    (workspace / "ids.txt").write_text(f"{clip}\n", "utf-8")
    typed = {"CLIP": clip, "FILM": film, "FILE": "ids.txt"}
    words = [typed.get(word, word) for word in line.split()]
    done = call_obygaze(*words, cwd=workspace)
    meant = movie_id if "FILM" in line else clip_id
    assert done.code and f"(did you mean '{meant}'?)" in done.stderr, done.stderr
