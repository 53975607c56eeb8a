from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze

from obygaze_features.core.errors import FixInput
from obygaze_features.store import open_store
from obygaze_features.store.interchange import open_features
from obygaze_features.store.interchange.importing import import_features, import_store

V = np.array([1.0, 2.0], dtype=np.float32)


def put(path: Path, array: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array)


def test_one_file_a_clip(tmp_path: Path) -> None:
    for i in (1, 2, 10):
        put(tmp_path / "f" / f"m-{i}.npy", V * i)
    call_obygaze(
        "-C", tmp_path, "store", "import", "npy", tmp_path / "f", "-o", "s"
    ).ok()
    store = open_store(tmp_path / "stores" / "s")
    assert store.clip_ids.tolist() == ["m-1", "m-2", "m-10"]
    assert store.matrix("clip").values.tolist() == [[1, 2], [2, 4], [10, 20]]


def test_a_folder_a_film_tells_the_film(tmp_path: Path) -> None:
    put(tmp_path / "f" / "alien" / "x-1.npy", np.stack([V, V]))
    put(tmp_path / "f" / "brazil" / "x-2.npy", np.stack([V, V]))
    import_store(open_features("npy", [tmp_path / "f"]), tmp_path / "s")
    store = open_store(tmp_path / "s")
    assert store.movie_ids.tolist() == ["alien", "brazil"]
    assert store.feature_arrays == ("frames",)


def test_hidden_files_of_a_mac_or_a_notebook_are_not_clips(tmp_path: Path) -> None:
    put(tmp_path / "f" / "alien" / "x-1.npy", V)
    (tmp_path / "f" / "alien" / "._x-1.npy").write_bytes(b"\0\5\x16\7\0\2\0\0Mac OS X")
    put(tmp_path / "f" / "alien" / ".ipynb_checkpoints" / "x-1-checkpoint.npy", V)
    source = open_features("npy", [tmp_path / "f"])
    assert (source.clip_ids, source.movie_ids) == (["x-1"], ["alien"])


def test_a_folder_an_array(tmp_path: Path) -> None:
    put(tmp_path / "f" / "a" / "m-1.npy", V)
    put(tmp_path / "f" / "b" / "m-1.npy", np.stack([V, V, V]))
    put(tmp_path / "f" / "b" / "m-2.npy", np.stack([V, V, V]))
    source = open_features("npy", [tmp_path / "f"], {"clip": "a", "frames": "b"})
    done = import_store(source, tmp_path / "s")
    assert done.arrays == {"clip": (2,), "frames": (3, 2)}
    assert done.failed == {"m-2": "failed: import BadRow: no file for clip"}


def test_files_that_are_no_arrays_are_failed_rows(tmp_path: Path) -> None:
    for i in range(3):
        put(tmp_path / "f" / f"m-{i}.npy", V)
    (tmp_path / "f" / "m-7.npy").write_bytes(b"nothing")
    whole = (tmp_path / "f" / "m-0.npy").read_bytes()
    (tmp_path / "f" / "m-8.npy").write_bytes(whole[:-3])
    header = io.BytesIO()
    claim = {"descr": "<f4", "fortran_order": False, "shape": (10**13,)}
    np.lib.format.write_array_header_1_0(header, claim)
    (tmp_path / "f" / "m-9.npy").write_bytes(header.getvalue())
    cut = (
        b"\x93NUMPY\x01\x00\x76\x00"
        + b"{'descr': '<f4', 'shape': (2,".ljust(117)
        + b"\n"
    )
    (tmp_path / "f" / "m-6.npy").write_bytes(cut)
    done = import_store(open_features("npy", [tmp_path / "f"]), tmp_path / "s")
    assert list(done.failed) == ["m-6", "m-7", "m-8", "m-9"]
    assert all("not a complete npy file" in reason for reason in done.failed.values())


def test_objects_are_refused(tmp_path: Path) -> None:
    put(tmp_path / "f" / "m-1.npy", np.array([{"a": 1}], dtype=object))
    with pytest.raises(FixInput, match="unpickled"):
        import_store(open_features("npy", [tmp_path / "f"]), tmp_path / "s")


@pytest.mark.parametrize("folder", ["../other", "/etc", "none"])
def test_folders_of_arrays_stay_inside(tmp_path: Path, folder: str) -> None:
    put(tmp_path / "f" / "m-1.npy", V)
    put(tmp_path / "other" / "m-1.npy", V)
    with pytest.raises(FixInput, match="no folder"):
        open_features("npy", [tmp_path / "f"], {"clip": folder})


def test_what_is_wrong_with_the_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    with pytest.raises(FixInput, match=r"no \.npy file"):
        open_features("npy", [tmp_path / "f"])
    put(tmp_path / "f" / "a" / "1.npy", V)
    put(tmp_path / "f" / "b" / "1.npy", V)
    with pytest.raises(FixInput, match="two files"):
        open_features("npy", [tmp_path / "f"])


@pytest.mark.parametrize("first", [np.stack([V, V]), None])
def test_the_array_is_that_of_most_files_not_of_the_first(
    tmp_path: Path, first: object
) -> None:
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "m-0.npy").write_bytes(b"damaged")
    if first is not None:
        put(tmp_path / "f" / "m-0.npy", first)
    for i in (1, 2, 3):
        put(tmp_path / "f" / f"m-{i}.npy", V)
    done = import_store(open_features("npy", [tmp_path / "f"]), tmp_path / "s")
    assert done.arrays == {"clip": (2,)}
    assert list(done.failed) == ["m-0"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    put(tmp_path / "x.npy", np.stack([V, V]))
    with pytest.raises(FixInput, match=r"one \.npy file a clip, got a file"):
        open_features("npy", [tmp_path / "x.npy"])


@pytest.mark.parametrize(
    ("rows", "hint"),
    [
        (np.full((3, 2), "1.5"), "has text in place of numbers"),
        (np.ones((3, 2), dtype=np.complex128), "has complex numbers"),
        (np.ones((2, 3), dtype=np.float32), "save it transposed (array.T)"),
        (np.ones((3, 2), dtype=np.int32), "--array NAME=x stores whole numbers too"),
        (np.ones((4, 2), dtype=np.float32), "name other ids"),
    ],
)
def test_rows_that_cannot_be_used_have_a_hint_of_their_own(
    tmp_path: Path, rows: np.ndarray, hint: str
) -> None:
    """All of them were told that whole numbers can be stored."""
    np.savez(tmp_path / "x.npz", clip_id=["a-1", "a-2", "a-3"], x=rows)
    with pytest.raises(FixInput) as raised:
        open_features("npz", [tmp_path / "x.npz"])
    assert hint in raised.value.hint


def test_numbers_too_large_for_float32_make_no_store(tmp_path: Path) -> None:
    """A store with none of the clips was sealed, and --dtype was not named."""
    values = np.array([[1e300, 1.0], [2e300, 1.0]])
    np.savez(tmp_path / "x.npz", clip_id=["a-1", "a-2"], x=values)
    words = ("-C", tmp_path, "store", "import", "npz", tmp_path / "x.npz", "-o", "s")
    refused = call_obygaze(*words)
    assert refused.code == 1
    assert "no clip has usable features" in refused.stderr
    assert "too large for float32 (--dtype float64" in refused.stderr
    assert not (tmp_path / "stores" / "s").exists()
    call_obygaze(*words, "--dtype", "float64").ok()
    values = open_store(tmp_path / "stores" / "s").matrix("clip").values
    assert values.tolist() == [[1e300, 1.0], [2e300, 1.0]]


def test_numbers_that_float16_makes_zero_are_a_failed_clip(tmp_path: Path) -> None:
    path = tmp_path / "small.npz"
    small = np.array([[1e-30, 2e-30], [0.5, 1e-30], [0.0, 0.0]], dtype=np.float32)
    np.savez(path, clip_id=["a-1", "a-2", "a-3"], clip=small)
    imported = import_features("npz", path, tmp_path / "s", dtype="float16")
    assert list(imported.failed) == ["a-1"]
    assert "too small for float16: all become 0" in imported.failed["a-1"]
