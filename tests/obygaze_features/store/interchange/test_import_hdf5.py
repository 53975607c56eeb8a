from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.cli import call_obygaze

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.store import Store, open_store
from obygaze_features.store.interchange import open_features
from obygaze_features.store.interchange.importing import ImportSettings, import_store

A = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=np.float32)


def written(path: Path, arrays: Mapping[str, object]) -> Path:
    with h5py.File(path, "w") as file:
        for key, value in arrays.items():
            file[key] = value
    return path


def made(
    file: Path, to: Path, arrays: Mapping[str, str] | None = None, **how: str
) -> Store:
    import_store(open_features("hdf5", [file], arrays, **how), to)
    return open_store(to)


def test_one_dataset_a_video_as_mad_has_it(tmp_path: Path) -> None:
    file = written(tmp_path / "f.h5", {"2738": A, "9": A + 10})
    store = made(file, tmp_path / "s")
    assert store.clip_ids.tolist() == ["9", "2738"]
    np.testing.assert_array_equal(store.matrix("frames", clips=["2738"]).values[0], A)


@pytest.mark.parametrize(
    "written_id",
    ["alien", np.bytes_(b"alien"), np.array([b"alien"]), np.int64(7)],
    ids=repr,
)
def test_the_film_is_read_however_it_was_written(
    tmp_path: Path, written_id: object
) -> None:
    file = written(tmp_path / "f.h5", {"x-1": A[0], "y-2": A[1]})
    with h5py.File(file, "r+") as handle:
        for clip in ("x-1", "y-2"):
            handle[clip].attrs["movie_id"] = written_id
    film = "7" if isinstance(written_id, np.int64) else "alien"
    assert made(file, tmp_path / "s").movie_ids.tolist() == [film, film]


@pytest.mark.parametrize(
    "film", [1.5, [1, 2], np.bytes_(b"\xff"), h5py.Empty("f4")], ids=repr
)
def test_what_is_no_film_is_an_error_not_a_guess(tmp_path: Path, film: object) -> None:
    file = written(tmp_path / "f.h5", {"x-1": A[0]})
    with h5py.File(file, "r+") as handle:
        handle["x-1"].attrs["movie_id"] = film
    with pytest.raises(
        FixInput, match="'movie_id' of 'x-1' is not one text or whole number"
    ):
        open_features("hdf5", file)


def test_a_path_may_begin_at_the_root_of_the_file(tmp_path: Path) -> None:
    file = written(tmp_path / "f.h5", {"g/ids": ["x-1", "y-2"], "g/features": A[:2]})
    store = made(file, tmp_path / "s", {"clip": "/g/features"}, id_key="/g/ids")
    np.testing.assert_array_equal(
        store.matrix("clip", clips=["x-1", "y-2"]).values, A[:2]
    )


def test_features_among_other_things_as_tvsum_has_them(tmp_path: Path) -> None:
    content = {}
    for i in (1, 2, 10):
        content[f"video_{i}/features"] = A + i
        content[f"video_{i}/n_frames"] = 15 * i
        content[f"video_{i}/gtscore"] = np.linspace(0, 1, 3)
    file, paths = written(tmp_path / "f.h5", content), {"frames": "{id}/features"}
    store = made(file, tmp_path / "s", paths)
    assert store.clip_ids.tolist() == ["video_1", "video_2", "video_10"]
    np.testing.assert_array_equal(store.matrix("frames").values, [A + 1, A + 2, A + 10])


def test_a_group_for_each_expert(tmp_path: Path) -> None:
    content = {"features.s3d/a": A, "features.s3d/b": A, "features.audio/a": A[0]}
    file = written(tmp_path / "f.h5", content)
    paths = {"s3d": "features.s3d/{id}", "audio": "features.audio/{id}"}
    done = import_store(open_features("hdf5", [file], paths), tmp_path / "s")
    assert done.arrays == {"s3d": (3, 2), "audio": (2,)}
    assert list(done.failed) == ["b"]
    assert "nothing under 'features.audio/b'" in done.failed["b"]


def test_a_file_for_each_clip_with_experts_in_it(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    for clip, add in (("m-1", 0), ("m-2", 5)):
        written(
            tmp_path / "f" / f"{clip}.h5",
            {"features.s3d": A + add, "features.rgb": A[0]},
        )
    (tmp_path / "f" / "m-3.h5").write_bytes(b"not one")
    source = open_features(
        "hdf5", [tmp_path / "f"], {"s3d": "features.s3d", "rgb": "features.rgb"}
    )
    done = import_store(source, tmp_path / "s")
    source.close()
    assert list(done.failed) == ["m-3"]
    store = open_store(tmp_path / "s")
    np.testing.assert_array_equal(store.matrix("s3d", clips=["m-2"]).values[0], A + 5)
    with pytest.raises(FixInput, match="needs its path in a file"):
        open_features("hdf5", [tmp_path / "f"])


def test_one_big_array_and_ids(tmp_path: Path) -> None:
    text = h5py.string_dtype()
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("names", data=["m-2", "é-10", "m-1"], dtype=text)
        file["X"] = A
        file["tokens"] = np.stack([A, A * 2, A * 3]).astype(np.float16)
        file["mean"] = A.mean(axis=0)
    store = made(tmp_path / "f.h5", tmp_path / "s", {"clip": "X"}, id_key="names")
    np.testing.assert_array_equal(
        store.matrix("clip", clips=["m-2", "é-10", "m-1"]).values, A
    )
    found = made(tmp_path / "f.h5", tmp_path / "t", None)
    assert set(found.feature_arrays) == {"clip", "tokens"}


def test_ids_as_bytes_and_numbers(tmp_path: Path) -> None:
    file = written(
        tmp_path / "f.h5", {"ids": np.array([b"m-1", b"m-2", b"m-3"]), "clip": A}
    )
    assert made(file, tmp_path / "s").clip_ids.tolist() == ["m-1", "m-2", "m-3"]
    file = written(tmp_path / "g.h5", {"ids": np.array([3, 20, 1]), "clip": A})
    assert made(file, tmp_path / "t").clip_ids.tolist() == ["1", "3", "20"]


def test_unequal_lengths_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    file = written(tmp_path / "f.h5", {f"v{i}": np.ones((i, 2)) for i in range(1, 5)})
    done = call_obygaze("-C", tmp_path, "store", "import", "hdf5", file, "-o", "s")
    assert done.code == 1
    assert "4 shapes" in done.stderr
    assert "--pool only" in done.stderr
    assert "(3, 2)" in done.stderr
    call_obygaze(
        "-C", tmp_path, "store", "import", "hdf5", file, "-o", "s", "--pool", "only"
    ).ok()
    store = open_store(tmp_path / "stores" / "s")
    assert store.matrix("frames").values.tolist() == [[1, 1]] * 4


def test_compressed_and_chunked_files_are_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("a", data=A, compression="gzip", chunks=(1, 2))
        file.create_dataset("b", data=A, compression="lzf", shuffle=True)
    np.testing.assert_array_equal(
        made(tmp_path / "f.h5", tmp_path / "s").matrix("frames").values, [A, A]
    )


@pytest.mark.parametrize("kind", ["soft", "external", "virtual", "outside"])
def test_what_leads_out_of_the_file_is_refused(tmp_path: Path, kind: str) -> None:
    secret = written(tmp_path / "secret.h5", {"x": A})
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
            file.create_dataset(
                "b", (3, 2), "f4", external=[(str(tmp_path / "raw"), 0, 24)]
            )
    with pytest.raises(FixInput, match=r"link|other files"):
        import_store(
            open_features("hdf5", [tmp_path / "f.h5"], {"frames": "{id}"}),
            tmp_path / "s",
        )


def test_a_dataset_that_only_says_it_is_huge_takes_no_memory(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("a", (10**9, 10**6), "f4", chunks=(1, 1000))
    with pytest.raises(FixInput, match="of memory, this machine has"):
        import_store(open_features("hdf5", [tmp_path / "f.h5"]), tmp_path / "s")


def test_more_ids_than_the_file_has_bits_are_not_read(tmp_path: Path) -> None:
    file = tmp_path / "f.h5"
    # The chunks are never written, so reads give fill values.
    with h5py.File(file, "w") as opened:
        opened.create_dataset("clip_id", (10**9,), dtype="S4", chunks=(1000,))
        opened["X"] = A
    with pytest.raises(
        Corrupt, match="lists 1000000000 ids, more than the bits of the file"
    ):
        open_features("hdf5", [file], {"clip": "X"}, id_key="clip_id")


@pytest.mark.parametrize("size", [0, 2**64 - 16, 5000])
@pytest.mark.parametrize("place", ["ids", "attribute"])
def test_texts_in_which_hdf5_would_read_for_ever_are_refused(
    tmp_path: Path, size: int, place: str
) -> None:
    """An entry of no bytes in the heap of texts: found by `make fuzz` as a hang of the library."""
    with h5py.File(tmp_path / "f.h5", "w") as file:
        text = h5py.string_dtype()
        if place == "ids":
            file.create_dataset("clip_id", data=["m-1", "m-2", "m-3"], dtype=text)
            file["clip"] = A
        else:
            file["m-1"] = A
            file["m-1"].attrs["movie_id"] = np.array("m", dtype=text)
            file.attrs.create("obygaze_levels", ["frames"], dtype=text)
    data = bytearray((tmp_path / "f.h5").read_bytes())
    heap = data.index(b"GCOL")
    entry = heap + 16
    if size == 0:  # the free space after the last text
        while data[entry : entry + 2] != b"\0\0":
            entry += (
                16 + -(-int.from_bytes(data[entry + 8 : entry + 16], "little") // 8) * 8
            )
    data[entry + 8 : entry + 16] = size.to_bytes(8, "little")
    (tmp_path / "f.h5").write_bytes(data)
    with pytest.raises(Corrupt, match="entry among its texts"):
        open_features("hdf5", [tmp_path / "f.h5"])


def test_a_text_that_is_longer_than_its_file_takes_no_memory(tmp_path: Path) -> None:
    """Found by `make fuzz`: 0.8 GB for a file of 6 kB."""
    with h5py.File(tmp_path / "f.h5", "w") as file:
        made = file.create_dataset(
            "clip_id", data=["m-1", "m-2", "m-3"], dtype=h5py.string_dtype()
        )
        place = made.id.get_offset()
        file["clip"] = A
    data = bytearray((tmp_path / "f.h5").read_bytes())
    # The second text.
    data[place + 16 : place + 20] = (0x30000000).to_bytes(4, "little")
    (tmp_path / "f.h5").write_bytes(data)
    with pytest.raises(Corrupt, match="longer than the file"):
        open_features("hdf5", [tmp_path / "f.h5"])


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": "nothing/{id}"}, "no group for the path"),
        ({"x": "{id}/{id}"}, "once"),
        ({"x": "{id}/none"}, "no clip has a usable x|no dataset"),
        ({"x": "a/deeper/{id}"}, "no group for the path|not a group"),
    ],
)
def test_paths_that_lead_nowhere(
    tmp_path: Path, arrays: dict[str, str], words: str
) -> None:
    file = written(tmp_path / "f.h5", {"a": A, "g/x": A})
    with pytest.raises(FixInput, match=words):
        import_store(open_features("hdf5", [file], arrays), tmp_path / "s")


def test_groups_need_the_path_of_an_array(tmp_path: Path) -> None:
    file = written(tmp_path / "f.h5", {"a/x": A, "a/y": A})
    with pytest.raises(
        FixInput, match="no dataset at the top of the file, only a"
    ) as error:
        open_features("hdf5", [file])
    assert "--array clip='{id}/features'" in str(error.value)


@pytest.mark.parametrize("content", [b"", b"\x89HDF\r\n\x1a\n and then nothing"])
def test_what_is_no_hdf5_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f.h5").write_bytes(content)
    with pytest.raises(Corrupt, match="HDF5"):
        open_features("hdf5", [tmp_path / "f.h5"])


def test_damage_within_a_file_is_told_as_such(tmp_path: Path) -> None:
    file = written(tmp_path / "f.h5", {"a": A, "b": A, "c": A})
    data = file.read_bytes()
    assert b"SNOD" in data  # where the group says what lies in it
    file.write_bytes(data.replace(b"SNOD", b"SNOB"))
    with pytest.raises(Corrupt, match="not a complete HDF5 file"):
        open_features("hdf5", [file])
    with pytest.raises(Corrupt, match="not a complete HDF5 file"):
        open_features("hdf5", [file], {"clip": "clips"}, id_key="ids")
    (tmp_path / "folder").mkdir()
    file.rename(tmp_path / "folder" / "f.h5")
    with pytest.raises(
        FixInput, match="no clip has a usable a; the first: a cannot be read"
    ):
        import_store(
            open_features("hdf5", [tmp_path / "folder"], {"a": "a"}), tmp_path / "s"
        )


@pytest.mark.parametrize("name", ["ids", "x", "movie_id"])
def test_a_link_to_what_is_no_hdf5_is_refused_or_left_alone(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "secret").write_text("no HDF5 at all")
    file = written(tmp_path / "f.h5", {"a": A})
    with h5py.File(file, "a") as handle:
        handle[name] = h5py.ExternalLink(str(tmp_path / "secret"), "/x")
    with pytest.raises(FixInput, match="is a link"):
        import_store(open_features("hdf5", [file]), tmp_path / "s")
    with pytest.raises(FixInput, match="is a link"):
        open_features("hdf5", [file], id_key=name)


def test_pooling_numbers_by_hand(tmp_path: Path) -> None:
    file = written(tmp_path / "f.h5", {"a": A, "b": -A})
    source = open_features("hdf5", [file])
    import_store(source, tmp_path / "s", settings=ImportSettings(pool="also"))
    store = open_store(tmp_path / "s")
    assert store.matrix("pooled", clips=["b", "a"]).values.tolist() == [
        [-1, -2],
        [5, 6],
    ]


@pytest.mark.parametrize(
    "clip", ["clip_id", "ids", "id", "names", "video_names", "keys"]
)
def test_a_clip_may_have_the_name_of_an_array_of_ids(tmp_path: Path, clip: str) -> None:
    file = written(tmp_path / "f.h5", {clip: A[0], "other": A[1]})
    store = made(file, tmp_path / "s")
    assert sorted(store.clip_ids.tolist()) == sorted([clip, "other"])
    np.testing.assert_array_equal(store.matrix("clip", clips=[clip]).values, A[:1])


def test_the_array_is_that_of_most_datasets_not_of_the_first(tmp_path: Path) -> None:
    file = written(tmp_path / "f.h5", {"a": A, "b": A[0], "c": A[0]})
    done = import_store(open_features("hdf5", [file]), tmp_path / "s")
    assert done.arrays == {"clip": (2,)}
    assert list(done.failed) == ["a"]
