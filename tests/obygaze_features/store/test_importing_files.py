import io
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from support.damage import flip_bit
from support.stores import imported, values_of

from obygaze_features.core.errors import Corrupt, FixInput, FixUsage
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store.importing import import_features, open_features
from obygaze_features.store.reading import open_store
from obygaze_features.store.texts import read_texts

A = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=np.float32)
V = A[0]


def hdf5(path: Path, arrays: Mapping[str, Any]) -> Path:
    with h5py.File(path, "w") as file:
        for key, value in arrays.items():
            file[key] = value
    return path


def test_a_path_has_one_place_for_the_id(tmp_path: Path) -> None:
    file = hdf5(tmp_path / "f.h5", {"a/ids": ["1", "2", "3"], "a/x": A})
    for arrays in ({"clip": "{id}/{id}"}, {"one": "a/{id}", "two": "a/x"}):
        with pytest.raises(FixInput, match=r"expected \{id\} once"):
            open_features(file, arrays)


def test_clips_of_several_shapes_are_never_voted_on(tmp_path: Path) -> None:
    file = hdf5(tmp_path / "f.h5", {"a": A, "b": A[0], "c": A[0]})
    each: dict[str, Any] = {"arrays": {"frames": "{id}"}}
    shapes = "expected one shape for all clips, got (3, 2), and (2,) for b"
    with pytest.raises(FixInput, match=re.escape(f"frames: {shapes}")):
        import_features(file, tmp_path / "s", **each)
    clips = (Clip("b", "m"), Clip("c", "m"))
    manifest = Manifest("m", Header("x", {}), clips)
    store = imported(file, tmp_path / "m", manifest=manifest, **each)
    np.testing.assert_array_equal(values_of(store, "frames"), [A[0], A[0]])
    store = imported(file, tmp_path / "s", pool="max", **each)
    np.testing.assert_array_equal(values_of(store, "frames"), [A[2], A[0], A[0]])


@pytest.mark.parametrize("kind", ["soft", "external", "virtual", "outside"])
def test_what_leads_out_of_the_file_is_refused(tmp_path: Path, kind: str) -> None:
    secret = hdf5(tmp_path / "secret.h5", {"x": A})
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["a"] = A
        if kind == "soft":
            file["b"] = h5py.SoftLink("/a")
        elif kind == "external":
            file["b"] = h5py.ExternalLink(str(secret), "/x")
        elif kind == "virtual":
            layout = h5py.VirtualLayout((3, 2), "f4")
            layout[:] = h5py.VirtualSource(str(secret), "x", shape=(3, 2))
            file.create_virtual_dataset("b", layout)
        else:
            (tmp_path / "raw").write_bytes(A.tobytes())
            external = [(str(tmp_path / "raw"), 0, 24)]
            file.create_dataset("b", (3, 2), "f4", external=external)
    with pytest.raises(Corrupt, match=r"is a link|other files") as caught:
        import_features(tmp_path / "f.h5", tmp_path / "s")
    assert caught.value.exit_code == 4
    with pytest.raises(Corrupt, match=r"is a link|other files"):
        words = {"arrays": {"frames": "b"}, "id_key": "a"}
        import_features(tmp_path / "f.h5", tmp_path / "s", **words)
    assert not (tmp_path / "s").exists()


def test_data_sets_that_only_say_that_they_are_huge_take_no_memory(tmp_path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("a", (10**9, 10**6), "f4", chunks=(1, 1000))
    with pytest.raises(Corrupt, match=r"'a' has 4000\.0 TB, more than the file can"):
        import_features(tmp_path / "f.h5", tmp_path / "s", arrays={"x": "{id}"})
    # The chunks are never written, so that a read gives fill values.
    with h5py.File(tmp_path / "g.h5", "w") as file:
        file.create_dataset("clip_id", (10**9,), dtype="S4", chunks=(1000,))
        file["X"] = A
    with pytest.raises(Corrupt, match=r"'clip_id' has 4\.0 GB, more than the file can"):
        open_features(tmp_path / "g.h5")


@pytest.mark.parametrize(
    ("attribute", "value", "said"),
    [
        ("scale_factor", 0.5, "'a' has packed numbers .scale_factor."),
        ("_FillValue", np.float32([-999]), "'a' states -999 as its missing value"),
        ("missing_value", 1e20, "'a' states 1e.20 as its missing value"),
    ],
)
def test_numbers_of_netcdf_that_stand_for_others_are_refused(
    tmp_path, attribute, value, said
) -> None:
    """A file of netCDF 4 is HDF5; xarray and netCDF unpack such numbers, h5py does not."""
    ids = ["1", "2", "3"]
    hdf5(tmp_path / "f.h5", {"clip_id": ids, "a": A})
    with h5py.File(tmp_path / "f.h5", "a") as file:
        file["a"].attrs[attribute] = value
    for arrays in ({}, {"clip": "a"}):
        with pytest.raises(Corrupt, match=said):
            import_features(tmp_path / "f.h5", tmp_path / "s", arrays=arrays)
    with h5py.File(tmp_path / "f.h5", "a") as file:
        del file["a"].attrs[attribute]
        file["a"].attrs["_FillValue"] = np.float32([np.nan])
        file["a"].attrs["units"] = "none"
        # An array that is not imported may have such numbers.
        file["other"] = np.arange(3)
        file["other"].attrs[attribute] = value
    import_features(tmp_path / "f.h5", tmp_path / "s")


def hdf5_of_texts(path: Path) -> bytearray:
    """Write an HDF5 file whose ids are texts of any length; return its bytes."""
    with h5py.File(path, "w") as file:
        ids = ["m-1", "m-2", "m-3"]
        file.create_dataset("clip_id", data=ids, dtype=h5py.string_dtype())
        file["clip"] = A
    return bytearray(path.read_bytes())


@pytest.mark.parametrize("size", [0, 5000])
def test_texts_in_which_hdf5_would_read_for_ever_are_refused(tmp_path, size) -> None:
    """An entry of no bytes in the heap of texts, in which the library hangs."""
    data = hdf5_of_texts(tmp_path / "f.h5")
    entry = data.index(b"GCOL") + 16
    if size == 0:  # the free space after the last text
        while data[entry : entry + 2] != b"\0\0":
            n_bytes = int.from_bytes(data[entry + 8 : entry + 16], "little")
            entry += 16 + -(-n_bytes // 8) * 8
    data[entry + 8 : entry + 16] = size.to_bytes(8, "little")
    (tmp_path / "f.h5").write_bytes(data)
    with pytest.raises(Corrupt, match="entry of a text"):
        open_features(tmp_path / "f.h5")


# How a type of texts of any length begins; the second byte says that they are texts.
TEXT_TYPE = bytes.fromhex("19 01 01 00 10 00 00 00")


@pytest.mark.parametrize("kind", [0, 9])
def test_a_type_that_is_no_text_is_not_read(tmp_path: Path, kind: int) -> None:
    """Over some of these, libhdf5 ends the process with a segmentation fault."""
    path = tmp_path / "f.h5"
    data = hdf5_of_texts(path)
    assert data.count(TEXT_TYPE) == 1
    path.write_bytes(data.replace(TEXT_TYPE, bytes([0x19, kind]) + TEXT_TYPE[2:]))
    with pytest.raises(Corrupt, match="'clip_id': expected numbers or texts"):
        open_features(path)


def test_a_text_that_is_longer_than_its_file_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    data = hdf5_of_texts(path)
    with h5py.File(path) as file:
        place = file["clip_id"].id.get_offset()
    # The second text.
    data[place + 16 : place + 20] = (0x30000000).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(Corrupt, match="longer than the file"):
        open_features(path)


def test_damage_within_a_file_is_said_as_such(tmp_path: Path) -> None:
    for content in (b"", b"\x89HDF\r\n\x1a\n and then nothing"):
        (tmp_path / "e.h5").write_bytes(content)
        with pytest.raises(Corrupt, match="not a complete HDF5 file"):
            open_features(tmp_path / "e.h5")
    file = hdf5(tmp_path / "f.h5", {"a": A, "b": A, "c": A})
    data = file.read_bytes()
    assert b"SNOD" in data  # where the group says what lies in it
    file.write_bytes(data.replace(b"SNOD", b"SNOB"))
    with pytest.raises(Corrupt, match="not a complete HDF5 file"):
        open_features(file)


def test_an_array_with_a_damaged_chunk_is_refused(tmp_path: Path) -> None:
    rows = np.random.default_rng(2).normal(size=(5, 400)).astype(np.float32)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["clip_id"] = [f"m-{number}" for number in range(5)]
        packed = {"chunks": (1, 400), "compression": "gzip"}
        chunk = file.create_dataset("X", data=rows, **packed).id.get_chunk_info(3)
    flip_bit(tmp_path / "f.h5", chunk.byte_offset + 50)
    with pytest.raises(Corrupt, match="clip cannot be read"):
        import_features(tmp_path / "f.h5", tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_values_that_were_never_written_are_no_zeros(tmp_path: Path) -> None:
    """As a program leaves a file that was killed: HDF5 returns zeros for them."""
    ids = ["m-0", "m-1", "m-2"]
    with h5py.File(tmp_path / "f.h5", "w") as file:
        for number, name in enumerate(ids):
            made_set = file.create_dataset(name, (2,), "f4")
            if number < 2:
                made_set[:] = A[number]
    each = {"clip": "{id}"}
    done = import_features(tmp_path / "f.h5", tmp_path / "s", arrays=each)
    assert done.failed == {"m-2": "clip: 'm-2' has values that were never written"}
    written = values_of(open_store(tmp_path / "s"), "clip", ids[:2])
    np.testing.assert_array_equal(written, A[:2])
    with h5py.File(tmp_path / "h.h5", "w") as file:
        file["m-0/a"], file["m-0/b"], file["m-1/a"] = A[:3]
    both = {"clip": "{id}/a", "pooled": "{id}/b"}
    done = import_features(tmp_path / "h.h5", tmp_path / "u", arrays=both)
    assert done.failed == {"m-1": "pooled: the file has no data set 'm-1/b'"}
    with h5py.File(tmp_path / "g.h5", "w") as file:
        file["clip_id"] = ids
        file.create_dataset("X", (3, 2), "f4", chunks=(1, 2))[:2] = A[:2]
    with pytest.raises(Corrupt, match="'X' has values that were never written"):
        import_features(tmp_path / "g.h5", tmp_path / "t")


def npy(path: Path, array: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array)


def test_files_that_are_no_arrays_are_failed_rows(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    for i in range(5):
        npy(folder / f"m-{i}.npy", V)
    header = io.BytesIO()
    claim = {"descr": "<f4", "fortran_order": False, "shape": (10**13,)}
    np.lib.format.write_array_header_1_0(header, claim)
    cut = b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': '<f4', 'shape': (2,".ljust(117)
    (folder / "m-6.npy").write_bytes(cut + b"\n")
    (folder / "m-7.npy").write_bytes(b"nothing")
    (folder / "m-8.npy").write_bytes((folder / "m-0.npy").read_bytes()[:-3])
    (folder / "m-9.npy").write_bytes(header.getvalue())
    done = import_features(folder, tmp_path / "s")
    assert list(done.failed) == ["m-6", "m-7", "m-8", "m-9"]
    assert all("cannot be read" in reason for reason in done.failed.values())


def pth(root: Path, name: str, value: Any, **options: Any) -> Path:
    """Write a .pth file; return the folder of all."""
    torch = pytest.importorskip("torch")
    path = root / "FEATURES" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path, **options)
    return root / "FEATURES"


def test_released_files_are_called_as_the_videos(tmp_path: Path) -> None:
    """ObyGaze12 has the clip tt1-001 in tt1/tt1_scene_1.avi."""
    torch = pytest.importorskip("torch")
    clips = [
        Clip("tt1-001", "tt1", video="tt1/tt1_scene_1.avi"),
        Clip("tt1-002", "tt1", video="tt1/tt1_scene_2.mkv"),
        # A part of a file does not have its features, nor has each of two clips.
        Clip("tt2-001", "tt2", video="tt2/film.avi", start_s=5.0),
        Clip("tt2-002", "tt2", video="tt2/twice.avi"),
        Clip("tt2-003", "tt2", video="tt2/twice.avi"),
    ]
    paths = ("tt1/tt1_scene_2", "tt1/tt1_scene_1", "tt2/film", "tt2/twice")
    for number, path in enumerate(paths):
        root = pth(tmp_path, f"{path}.pth", torch.full((1, 2), float(number)))
    manifest = Manifest("m", Header("x", {}), clips)
    done = import_features(root, tmp_path / "s", manifest=manifest)
    assert done.not_in_manifest == ["film", "twice"]
    assert [*done.failed] == ["tt2-001", "tt2-002", "tt2-003"]
    values = values_of(open_store(tmp_path / "s"), "clip", ["tt1-001", "tt1-002"])
    assert values.tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_tensors_of_all_kinds_keep_their_numbers(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    values = [[0.1, 65504.0, 6e-8]]
    tensors = {
        "m-1": torch.tensor(values, dtype=torch.float16),
        "m-2": torch.tensor(values, requires_grad=True),
        "m-3": torch.nn.Parameter(torch.tensor(values)),
        "m-4": torch.tensor(values, dtype=torch.bfloat16),
        "m-5": torch.tensor(values * 2).T[:, :1].T,  # not contiguous
    }
    for clip, tensor in tensors.items():
        root = pth(tmp_path, f"m/{clip}.pth", tensor)
    old = {"_use_new_zipfile_serialization": False}
    pth(tmp_path, "m/m-6.pth", torch.tensor(values), **old)
    got = values_of(imported(root, tmp_path / "s"), "clip")
    exact = np.array(values, dtype=np.float32)[0]
    np.testing.assert_array_equal(got[0], np.float16(values[0]).astype(np.float32))
    np.testing.assert_array_equal(got[[1, 2, 4, 5]], np.stack([exact] * 4))
    # bfloat16 is the upper half of a float32, rounded to nearest even: 0.1 is 0x3DCD.
    assert got[3][0] == np.array([0x3DCD0000], dtype=np.uint32).view(np.float32)[0]


def test_what_is_no_tensor_of_a_clip_is_a_failed_row(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    for i in range(12):
        root = pth(tmp_path, f"m/m-{i}.pth", torch.full((1, 3), float(i)))
    bad = {
        "m-21": (torch.zeros(2, 3), "expected the shape [1, D] or [1, tokens, D]"),
        "m-22": (torch.tensor([[1.0, float("nan"), 2.0]]), "NaN"),
        "m-23": ({"features": torch.zeros(1, 3)}, "expected a plain tensor, got dict"),
        "m-24": (torch.zeros(1, 0), "not empty, got (0,)"),
        "m-25": (torch.zeros(1, 3).to_sparse(), "expected a plain tensor"),
        "m-26": (torch.zeros(1).expand(1, 3), "not empty, got"),
    }
    for clip, (value, _) in bad.items():
        pth(tmp_path, f"m/{clip}.pth", value)
    whole = (root / "m/m-0.pth").read_bytes()
    (root / "m/m-30.pth").write_bytes(b"")
    (root / "m/m-31.pth").write_bytes(whole[: len(whole) // 2])
    clips = [f"m-{i}" for i in range(12)] + [*bad, "m-30", "m-31", "m-99"]
    manifest = Manifest("m", Header("x", {}), tuple(Clip(clip, "m") for clip in clips))
    done = import_features(root, tmp_path / "s", manifest=manifest)
    words = {clip: text for clip, (_, text) in bad.items()}
    words |= {"m-30": "cannot be read", "m-31": "cannot be read"}
    words["m-99"] = "not in the files"
    assert done.failed.keys() == words.keys()
    for clip, text in words.items():
        assert text in done.failed[clip]
    assert open_store(tmp_path / "s").status().counts == {"ok": 12, "failed": 9}
    pth(tmp_path, "m/m-20.pth", torch.zeros(1, 4))
    message = r"clip: expected one shape for all clips, got \(3,\), and \(4,\) for m-20"
    with pytest.raises(FixInput, match=message):
        import_features(root, tmp_path / "t")


@pytest.mark.parametrize("name", ["clip_id", "movie_id"])
def test_texts_that_are_not_unicode_are_refused(name: str, tmp_path: Path) -> None:
    ids = np.array(["a", "b"])
    broken = ids.copy()
    broken.view(np.uint32)[0] = sys.maxunicode + 1
    path = tmp_path / "f.npz"
    texts = {"clip_id": ids, "movie_id": ids, name: broken}
    np.savez(path, features=np.ones((2, 4), np.float32), **texts)
    with pytest.raises(Corrupt, match=f"{name}.*cannot be read as Unicode"):
        import_features(path, tmp_path / "s")
    np.savez(path, embeddings=np.ones((2, 4)), attribute=broken)
    with pytest.raises(Corrupt, match="cannot be read as Unicode"):
        read_texts(path)


def test_a_folder_for_each_film_gives_the_film(tmp_path: Path) -> None:
    npy(tmp_path / "f/alien/x-1.npy", A)
    npy(tmp_path / "f/brazil/x-2.npy", A)
    store = imported(tmp_path / "f", tmp_path / "s")
    assert store.movie_ids.tolist() == ["alien", "brazil"]
    assert store.feature_arrays == ("frames",)
    npy(tmp_path / "g/g/x-1.npy", A)
    npy(tmp_path / "g/x-0.npy", A)
    assert open_features(tmp_path / "g").films == ["g", ""]
    npy(tmp_path / "f/brazil/x-1.npy", A)
    reader = open_features(tmp_path / "f")
    assert reader.names == ["alien-x-1", "brazil-x-1", "brazil-x-2"]
    npy(tmp_path / "f/more/alien/x-1.npy", A)
    with pytest.raises(FixInput, match="several files for the same clip: alien-x-1"):
        open_features(tmp_path / "f")
    # Hidden files are those of a system; of two formats nobody knows which is meant.
    (tmp_path / "f/more/alien/x-1.npy").rename(tmp_path / "f/more/alien/._x-1.npy")
    assert len(open_features(tmp_path / "f").names) == 3
    npy(tmp_path / "f/.trash/x-9.npy", A)
    assert len(open_features(tmp_path / "f").names) == 3
    for name in ("x.parquet", "x.npz"):
        (tmp_path / "f" / name).write_bytes(b"PAR1")
        with pytest.raises(FixUsage, match="expected files with one of the endings"):
            open_features(tmp_path / "f")
        (tmp_path / "f" / name).unlink()


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    npy(tmp_path / "f/m-1.npy", V)
    np.save(tmp_path / "secret.npy", V)
    (tmp_path / "f/m-2.npy").symlink_to(tmp_path / "secret.npy")
    with pytest.raises(Corrupt, match="expected a folder without symbolic links"):
        open_features(tmp_path / "f")
    (tmp_path / "f/m-2.npy").unlink()
    npy(tmp_path / "lake/m-3.npy", V)
    (tmp_path / "f/lake").symlink_to(tmp_path / "lake")
    with pytest.raises(FixInput, match="without links to folders"):
        open_features(tmp_path / "f")


def test_times_of_an_export_are_one_number_a_clip(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    times = {"start_s": np.ones(3), "end_s": np.ones(2)}
    np.savez(path, clip_id=["a", "b"], clip=np.ones((2, 4), np.float32), **times)
    with pytest.raises(FixInput, match="start_s: expected a row for each of 2 ids"):
        import_features(path, tmp_path / "s")


@pytest.mark.parametrize("names", [("start_s", "end_s"), ("start_frame", "end_frame")])
def test_a_clip_that_ends_before_it_starts_is_refused(tmp_path: Path, names) -> None:
    path = tmp_path / "f.npz"
    times = dict(zip(names, ([1.0, 9.0], [2.0, 4.0]), strict=True))
    np.savez(path, clip_id=["a", "b"], clip=np.ones((2, 4), np.float32), **times)
    with pytest.raises(FixInput, match=f"{names[1]} is before {names[0]}: b"):
        import_features(path, tmp_path / "s")
