"""Story 10: I have features from somebody's files, and want a store of them.

The files are npz, HDF5 in several layouts, a folder of npy, or the released tree of .pth. Arrays of
other files, such as Parquet, are written from memory.
Files that would run code are refused.
"""

import os
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pandas
import pytest
from support.printed_lines import run_printed_lines

import obygaze as og
from stories.workspace import Workspace

FILMS = ("lake", "night")
CLIPS = [f"{film}-{number:03d}" for film in FILMS for number in (1, 2, 3)]
MOVIES = [clip.rsplit("-", 1)[0] for clip in CLIPS]
WIDTH = 5
Array = npt.NDArray[Any]


@pytest.fixture
def films(ws: Workspace) -> Workspace:
    rows = [
        {"clip_id": clip, "movie_id": movie, "level": level}
        for clip, movie, level in zip(CLIPS, MOVIES, ("S", "EN", "HN") * 2, strict=True)
    ]
    ws.import_table(rows, "films")
    return ws


def vectors() -> Array:
    values = np.random.default_rng(3).normal(size=(len(CLIPS), WIDTH))
    return values.astype(np.float32)


def frames_of_clips() -> list[Array]:
    """Return the vectors of the frames of each clip; clips have different numbers of frames."""
    draws = np.random.default_rng(4)
    shapes = [(2 + number, WIDTH) for number in range(len(CLIPS))]
    return [draws.normal(size=shape).astype(np.float32) for shape in shapes]


def stored(ws: Workspace, store: str, array: str) -> Array:
    """Return the values of all clips, in the order of the table."""
    opened = og.open_store(ws.path(f"stores/{store}"))
    return np.asarray(opened.matrix(array, clips=CLIPS))


class RunsCode:
    """An object that makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_npz_with_a_missing_clip_a_strange_one_and_one_that_is_no_number(films) -> None:
    X = vectors()
    X[1, 2] = np.nan
    per_frame = np.stack([X, X + 1, X - 1], axis=1).astype(np.float16)
    # The rows are in another order, the last clip is not there, and one is of another table.
    order = [4, 3, 2, 1, 0]
    ids = [CLIPS[row] for row in order]
    np.savez(
        films.path("x.npz"),
        names=[*ids, "other-001"],
        X=np.concatenate([X[order], X[:1]]),
        per_frame=np.concatenate([per_frame[order], per_frame[:1]]),
    )
    answer = films(
        "store import x.npz --id-key names --array clip=X --array frames=per_frame"
        " --manifest films --backbone 'somebody' -o x",
        code=3,
    )
    assert "4 of 6 clips" in answer.text
    assert "night-003" in answer.text
    films("store verify x --hash")
    info = films("store info x --clips").text
    assert "somebody" in films("store info x").text
    assert "other-001" not in info

    store = og.open_store(films.path("stores/x"))
    there = ["lake-001", "lake-003", "night-001", "night-002"]
    rows = [CLIPS.index(clip) for clip in there]
    np.testing.assert_array_equal(store.matrix("clip", clips=there), X[rows])
    frames = np.asarray(store.matrix("frames", clips=there))
    assert frames.dtype == np.float16
    np.testing.assert_array_equal(frames, per_frame[rows])
    reasons = store.matrix("clip", missing="drop").reasons
    assert sorted(reasons) == ["lake-002", "night-003"]
    with pytest.raises(og.ObygazeError, match="lake-002"):
        store.matrix("clip", clips=["lake-002"])


@pytest.mark.parametrize(
    "layout",
    [
        # MAD and Charades; SumMe and TVSum, with other data beside the features
        "{id}",
        "{id}/features",
    ],
)
def test_hdf5_with_a_data_set_for_each_clip(films: Workspace, layout: str) -> None:
    frames = frames_of_clips()
    with h5py.File(films.path("x.h5"), "w") as file:
        for clip, values in zip(CLIPS, frames, strict=True):
            file[layout.replace("{id}", clip)] = values
            if layout == "{id}/features":
                file[f"{clip}/n_frames"] = len(values)
    films(f"store import x.h5 --array clip='{layout}' --pool max --manifest films -o x")
    largest = [values.max(axis=0) for values in frames]
    np.testing.assert_array_equal(stored(films, "x", "clip"), largest)


def test_a_folder_of_npy(films: Workspace) -> None:
    X = vectors()
    for clip, movie, values in zip(CLIPS, MOVIES, X, strict=True):
        folder = films.path(f"features/{movie}")
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{clip}.npy", values)
    # macOS writes such files.
    films.path("features/lake/._lake-001.npy").write_bytes(b"\0\0")
    films.path("features/night/night-003.npy").write_bytes(b"\x93NUMPY cut short")
    answer = films("store import features --manifest films -o x", code=3)
    assert "5 of 6 clips" in answer.text
    assert "night-003" in answer.text
    store = og.open_store(films.path("stores/x"))
    np.testing.assert_array_equal(store.matrix("clip", clips=CLIPS[:5]), X[:5])


def test_the_released_tree_of_pth(films: Workspace) -> None:
    torch = pytest.importorskip("torch")
    tokens = np.random.default_rng(5).normal(size=(len(CLIPS), 4, WIDTH))
    tokens = tokens.astype(np.float32)
    for clip, movie, values in zip(CLIPS, MOVIES, tokens, strict=True):
        folder = films.path(f"FEATURES/{movie}")
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(torch.from_numpy(values[None]), folder / f"{clip}.pth")
    films("store import FEATURES --manifest films -o x")
    np.testing.assert_array_equal(stored(films, "x", "tokens"), tokens)
    np.testing.assert_array_equal(stored(films, "x", "pooled"), tokens.max(axis=1))


def test_parquet_of_pandas(films: Workspace) -> None:
    pytest.importorskip("pyarrow")
    X = vectors()
    table = pandas.DataFrame({"clip_id": CLIPS, "vector": list(X)})
    table.sample(frac=1, random_state=6).to_parquet(films.path("x.parquet"))
    line = "store import x.parquet --array clip=vector --manifest films -o x"
    run_printed_lines(films(line, code=1).err, films.folder)
    np.testing.assert_array_equal(stored(films, "x", "clip"), X)


@pytest.mark.parametrize("kind", ["npz", "npy", "pth"])
def test_what_would_run_code_is_refused(films: Workspace, kind: str) -> None:
    mark = films.path("ran")
    evil = RunsCode(mark)
    objects = np.array([evil] * len(CLIPS), dtype=object)
    if kind == "npz":
        np.savez(films.path("x.npz"), clip_id=CLIPS, X=objects)
        source = "x.npz"
    elif kind == "npy":
        source = "features"
        films.path("features").mkdir()
        for clip in CLIPS:
            np.save(films.path(f"features/{clip}.npy"), objects, allow_pickle=True)
    else:
        torch = pytest.importorskip("torch")
        source = "FEATURES"
        films.path("FEATURES/lake").mkdir(parents=True)
        torch.save(evil, films.path("FEATURES/lake/lake-001.pth"))
    line = f"store import {source} --manifest films -o x"
    answer = films(line, code=(1, 2, 4))
    assert source in answer.err
    assert "Python objects" in answer.text or "run code" in answer.text
    assert not mark.exists(), "the code ran"
    assert not films.path("stores/x").exists()
    films("store info x", code=1)
    pickle.loads(pickle.dumps(evil))  # noqa: S301
    assert mark.exists(), "the object is one that runs code"
