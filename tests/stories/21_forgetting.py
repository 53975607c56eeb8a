"""Story 21: a film must go, with a reason, out of every file, and it must never come back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support.fake_hub import hub_here
from support.store_servers import web_server

import obygaze as og
from stories.films import features_of, import_features, labelled_clips
from stories.made import begin_with_extracted_films
from stories.workspace import Answer, Workspace

FILM = "film02"
PER_FILM = 10
REASON = "asked for by its owner"
ROWS = slice(PER_FILM, 2 * PER_FILM)

Features = npt.NDArray[np.float32]


def make_store(ws: Workspace, name: str = "stored") -> Features:
    """Make a store of four films of ten clips, and return its numbers."""
    rows = labelled_clips(n_films=4, per_film=PER_FILM, seed=1)
    X = features_of(rows, level=2.0)
    import_features(ws, rows, X, name)
    return X


def files_with(folder: Path, X: npt.NDArray[Any]) -> list[str]:
    """Return the files in which the bytes of at least one of the rows are."""
    patterns = [row.tobytes() for row in X]
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            if any(pattern in data for pattern in patterns):
                found.append(path.relative_to(folder).as_posix())
    return found


def withdraw(ws: Workspace, store: str = "stored", film: str = FILM) -> Answer:
    """Withdraw the film from a store."""
    return ws(
        f"store subset {store} --without {film} --reason '{REASON}' --author 'J. Doe'"
    )


def check_forgotten(ws: Workspace, store: str, X: Features) -> None:
    """Check that a store lists the film without its features, and has the others as before."""
    opened = og.open_store(ws.path(f"stores/{store}"))
    counts = ws(f"store info {store} --json").json()["counts"]
    assert counts == {"ok": 3 * PER_FILM, "withdrawn": PER_FILM}
    rest = opened.matrix("clip", missing="drop")
    np.testing.assert_array_equal(rest, np.delete(X, ROWS, axis=0))
    with pytest.raises(og.ObygazeError, match=REASON):
        opened.matrix("clip", films=[FILM])


def test_its_bytes_are_in_no_file_of_the_new_store(ws: Workspace) -> None:
    X = make_store(ws)
    assert files_with(ws.path("stores/stored"), X[ROWS])
    before = ws("store info stored --json").json()["seal_sha256"]
    text = withdraw(ws).text
    check_forgotten(ws, "stored", X)
    # A folder that still has them is named.
    folder = f"stores/stored.before-{before[:8]}"
    assert files_with(ws.path(folder), X[ROWS])
    assert f"store that was replaced: {folder}" in text
    assert files_with(ws.path("stores/stored"), X[ROWS]) == []
    assert files_with(ws.path("stores/stored"), X[:PER_FILM])
    ws("store verify stored --hash")
    text = ws("store info stored").text
    assert before in text
    assert "film02-001 withdrawn on" in text
    assert REASON in text


def test_whoever_names_no_reason_withdraws_nothing(ws: Workspace) -> None:
    X = make_store(ws)
    before = ws.bytes_of("stores/stored")
    ws(f"store subset stored --without {FILM}", code=2)
    ws(f"store subset stored --without {FILM} --reason ''", code=2)
    ws(f"store subset stored --without film99 --reason '{REASON}'", code=1)
    assert ws.bytes_of("stores/stored") == before
    found = og.open_store(ws.path("stores/stored")).matrix("clip", films=[FILM])
    np.testing.assert_array_equal(found, X[ROWS])


def test_what_else_in_the_workspace_has_it_is_listed(ws: Workspace) -> None:
    make_store(ws)
    ws("train ridge stored films -o ridge --jobs 1 --set report.replicates=50")
    ws(f"store subset stored --film {FILM} -o one-film")
    ws("store subset stored --film film03 -o another-film")
    ws("store pull stored -o copy")
    two_films = []
    for row in labelled_clips(n_films=2, per_film=PER_FILM):
        names = (row["clip_id"], row["movie_id"])
        clip_id, movie_id = (name.replace("film", "other") for name in names)
        two_films.append({**row, "clip_id": clip_id, "movie_id": movie_id})
    import_features(ws, two_films, features_of(two_films), "unrelated", manifest="two")
    # Clips of the film that were cut and imported otherwise.
    ours = []
    for row in labelled_clips(n_films=4, per_film=PER_FILM, seed=9):
        if row["movie_id"] == FILM:
            ours.append({**row, "clip_id": f"our-{row['clip_id']}"})
    import_features(ws, ours, features_of(ours), "of-ours", manifest="ours")
    line = f"store subset stored --without {FILM} --reason '{REASON}'"
    done = ws(f"{line} --json").json()
    assert {clip.partition("-")[0] for clip in done["clips"]} == {FILM}
    listed = set()
    for copy in done["copies"]:
        if copy["kind"] in ("store", "run", "model"):
            listed.add((copy["kind"], copy["name"]))
    assert listed == {
        ("store", "one-film"),
        ("store", "copy"),
        ("run", "ridge"),
        ("model", "ridge"),
    }
    kind_of = {copy["name"]: copy["kind"] for copy in done["copies"]}
    assert kind_of["of-ours"] == "store that was made otherwise"
    # The same line once more says it again.
    text = ws(line).text
    for name in ("one-film", "copy", "ridge"):
        assert name in text
    assert "another-film" not in text


def test_a_copy_learns_of_it(ws: Workspace) -> None:
    X = make_store(ws)
    ws("store push stored lab/stored --no-licence")
    ws("store pull stored -o copy")
    shutil.copytree(ws.path("stores/stored"), ws.path("by-hand"))
    assert "withdrawn" not in ws("store verify copy --source stored").text
    withdraw(ws)
    for copy in ("copy", "./by-hand", "./lab/stored"):
        text = ws(f"store verify {copy} --source stored").text
        assert "10 clips withdrawn since" in text
        assert REASON in text
    ws("store pull stored -o copy")
    ws("store pull stored -o ./by-hand")
    sent = ws("store push stored lab/stored --no-licence").text
    assert "sent too: this store was changed on 20" in sent
    assert f": {REASON}, by J. Doe (withdrawn: {FILM})" in sent
    assert "the source" not in sent
    for folder in ("stores/copy", "by-hand", "lab/stored"):
        assert files_with(ws.path(folder), X[ROWS]) == []
        assert "30 with features" in ws(f"store verify ./{folder} --hash").text
    check_forgotten(ws, "copy", X)


def test_a_copy_in_another_lab_learns_of_it(ws: Workspace) -> None:
    X = make_store(ws)
    other = Workspace(ws.folder / "other-lab")
    with web_server(ws.path("stores")) as server:
        other(f"store pull {server.url}/stored")
        assert files_with(other.path("stores/stored"), X[ROWS])
        withdraw(ws)
        text = other(f"store verify stored --source {server.url}/stored").text
        assert "10 clips withdrawn since" in text
        again = other(f"store pull {server.url}/stored").text
        assert REASON in again
        obeyed = f"withdrawn: {FILM}; none of their features are in this copy"
        assert f"{obeyed} still with features of what was withdrawn" in again
        (before,) = other.folder.glob("stores/stored.before-*")
        shutil.rmtree(before)
        again = other(f"store pull {server.url}/stored").text
        assert again == (
            f"stores/stored: all files were there, and are those of this store {obeyed}"
        )
    assert files_with(other.path("stores/stored"), X[ROWS]) == []
    check_forgotten(other, "stored", X)


def test_no_merge_brings_it_back(ws: Workspace) -> None:
    X = make_store(ws)
    ws("store pull stored -o old")
    withdraw(ws)
    for number, names in enumerate(("stored old", "old stored")):
        ws(f"store merge {names} -o merged{number}")
        assert files_with(ws.path(f"stores/merged{number}"), X[ROWS]) == []
        check_forgotten(ws, f"merged{number}", X)
    ws("store subset stored --film film01 --film film02 -o part")
    assert files_with(ws.path("stores/part"), X[ROWS]) == []
    assert ws("store info part --json").json()["counts"] == {"ok": 10, "withdrawn": 10}


def features_of_film(ws: Workspace, film: str) -> dict[str, npt.NDArray[Any]]:
    """Return the numbers of a film of the extracted store."""
    store = og.open_store(ws.path("stores/films.descriptors"))
    arrays = {}
    for name in ("clip", "frames"):
        arrays[name] = np.array(store.matrix(name, films=[film]))
    return arrays


def add_a_clip(ws: Workspace) -> None:
    """Add a clip of another film, and extract it, so that the store is replaced."""
    rows: list[dict[str, Any]] = list(ws.read_table("clips.csv"))
    rows.append(
        {**rows[-1], "clip_id": "station-011", "start_s": "9.0", "end_s": "9.8"}
    )
    ws.write_table("clips.csv", rows)
    ws("manifest import clips.csv -o films --force")
    ws("manifest link films videos")
    ws("extract run films -b descriptors --workers 1")


def test_no_extraction_brings_it_back(ws: Workspace) -> None:
    begin_with_extracted_films(ws)
    planted = features_of_film(ws, "lake")
    for array, values in planted.items():
        assert files_with(ws.path("stores/films.descriptors"), values), array
    withdraw(ws, "films.descriptors", "lake")
    # The same command, its retry, and one clip more in another film.
    ws("extract run films -b descriptors --workers 1")
    ws("extract run films -b descriptors --workers 1 --retry-failed")
    add_a_clip(ws)
    info = ws("store info films.descriptors --json").json()
    assert info["counts"] == {"ok": 31, "withdrawn": 10}
    for array, values in planted.items():
        folder = ws.path("stores/films.descriptors")
        assert files_with(folder, values) == [], array
    text = ws("store info films.descriptors").text
    assert "lake-001 withdrawn" in text
    assert REASON in text


def test_no_import_brings_it_back(ws: Workspace) -> None:
    X = make_store(ws)
    ws("store export stored sent.npz")
    withdraw(ws)
    for manifest in ("--manifest films", ""):
        name = f"again{len(manifest)}"
        ws(f"store import sent.npz {manifest} -o {name}")
        assert files_with(ws.path(f"stores/{name}"), X[ROWS]) == []
        check_forgotten(ws, name, X)
    # An import of the file from which the store was made is no way either.
    ws("store import stored.npz --array clip=X --manifest films -o first")
    assert files_with(ws.path("stores/first"), X[ROWS]) == []
    check_forgotten(ws, "first", X)


def test_no_join_brings_it_back(ws: Workspace) -> None:
    X = make_store(ws)
    rows = labelled_clips(n_films=4, per_film=PER_FILM, seed=1)
    heard = features_of(rows, width=9, seed=2)
    import_features(ws, rows, heard, "heard")
    withdraw(ws)
    ws("store join stored heard -o both")
    counts = ws("store info both --json").json()["counts"]
    assert counts == {"ok": 3 * PER_FILM, "withdrawn": PER_FILM}
    joined = np.concatenate([X, heard], axis=1)
    for values in (X, heard, joined):
        assert files_with(ws.path("stores/both"), values[ROWS]) == []


def test_only_what_can_say_of_which_store_it_is_is_listed(ws: Workspace) -> None:
    make_store(ws)
    for name in ("sent.npz", "sent.h5", "sent.parquet"):
        ws(f"store export stored {name}")
    X = np.array(og.open_store(ws.path("stores/stored")).matrix("clip"))
    np.save(ws.path("sent.npy"), X)
    np.savetxt(ws.path("sent.csv"), X)
    ws("train ridge stored films -o ridge --jobs 1 --set report.replicates=50")
    done = withdraw(ws)
    for name in ("sent.npz", "sent.h5", "sent.parquet", "runs/ridge", "models/ridge"):
        assert f": {name}" in done.text
    for name in ("sent.npy", "sent.csv"):
        assert name not in done.text
    assert "look yourself at other files (.npy, .pth, .csv, reports" in done.text
    # A run on the store as it is now was made without the film.
    ws("train ridge stored films -o after --jobs 1 --set report.replicates=50")
    line = f"store subset stored --without {FILM} --reason '{REASON}'"
    again = ws(line).text
    assert "runs/ridge" in again
    assert "after" not in again


def test_it_is_removed_from_the_hub(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_with_extracted_films(ws)
    planted = features_of_film(ws, "lake")["clip"]
    with hub_here(monkeypatch) as hub:
        push = "store push films.descriptors hf://lab/films --no-licence"
        ws(push)
        withdraw(ws, "films.descriptors", "lake")
        ws(push)
        for name, data in hub.files.items():
            if name.startswith("data.zarr"):
                assert not any(row.tobytes() in data for row in planted)
        everything = b"".join(hub.files.values())
    is_gone = not any(row.tobytes() in everything for row in planted)
    assert is_gone, "no file on the hub has anything of a withdrawn film"
