"""Story 21: a film must go out of every file of a store."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import obygaze as og
from stories.films import features_of, import_features, labelled_clips
from stories.workspace import Workspace

FILM = "film02"
PER_FILM = 10
ROWS = slice(PER_FILM, 2 * PER_FILM)

Features = npt.NDArray[np.float32]


def make_store(ws: Workspace, name: str = "stored") -> Features:
    """Make a store of four films of ten clips, and return its numbers."""
    rows = labelled_clips(n_films=4, per_film=PER_FILM, seed=1)
    X = features_of(rows, level=2.0)
    import_features(ws, rows, X, name)
    return X


def files_with(folder: Path, X: npt.NDArray[Any]) -> list[str]:
    patterns = [row.tobytes() for row in X]
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            if any(pattern in data for pattern in patterns):
                found.append(path.relative_to(folder).as_posix())
    return found


def check_forgotten(ws: Workspace, store: str, X: Features) -> None:
    opened = og.open_store(ws.path(f"stores/{store}"))
    assert ws(f"store info {store} --json").json()["counts"] == {"ok": 3 * PER_FILM}
    np.testing.assert_array_equal(opened.matrix("clip"), np.delete(X, ROWS, axis=0))
    with pytest.raises(og.ObygazeError, match=FILM):
        opened.matrix("clip", films=[FILM])
    folder = ws.path(f"stores/{store}")
    assert files_with(folder, X[ROWS]) == []
    for path in folder.rglob("*"):
        assert not path.is_file() or FILM.encode() not in path.read_bytes(), path


def test_its_bytes_are_in_no_file_of_the_new_store(ws: Workspace) -> None:
    X = make_store(ws)
    assert files_with(ws.path("stores/stored"), X[ROWS])
    before = ws.bytes_of("stores/stored")
    ws(f"store subset stored --without {FILM} -o rest")
    check_forgotten(ws, "rest", X)
    assert files_with(ws.path("stores/rest"), X[:PER_FILM])
    ws("store verify rest --hash")
    # The old store is as it was, until the person removes it.
    assert ws.bytes_of("stores/stored") == before
    shutil.rmtree(ws.path("stores/stored"))
    ws(
        "train ridge --store rest --manifest films -o ridge --jobs 1 --set report.replicates=50"
    )
    assert FILM not in ws.read("runs/ridge/predictions.csv")


def test_the_manifests_that_still_have_it_are_named(ws: Workspace) -> None:
    make_store(ws)
    rows = labelled_clips(n_films=4, per_film=PER_FILM)
    others = [row for row in rows if row["movie_id"] != FILM]
    import_features(ws, others, features_of(others), "others", manifest="others")
    ws.write("manifests/broken.toml", "no manifest")
    said = "manifests that still have"
    answer = ws(f"store subset stored --without {FILM} -o rest").text
    assert f"{said} {FILM}: films; the next extraction" in answer
    clip = rows[0]["clip_id"]
    answer = ws(f"store subset rest --without {clip} -o fewer").text
    assert f"{said} {clip}: films, others; the next extraction" in answer
    assert said not in ws(f"store subset stored --film {FILM} -o one").text
    ws("manifest import others.csv -o films --force")
    assert said not in ws(f"store subset stored --without {FILM} -o last").text
