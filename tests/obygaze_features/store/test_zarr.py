"""Groups of Zarr are imported and exported."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from support.cli import call_obygaze, run_obygaze
from support.stores import imported, made_store, some_ids
from support.written_stores import some_rows
from zarr.codecs import BytesCodec, Crc32cCodec, ZstdCodec

import obygaze as og
from obygaze_features.core.errors import Corrupt, FixInput, FixUsage, ObygazeError
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store.exporting import export_features
from obygaze_features.store.importing import import_features
from obygaze_features.store.layout import Array
from obygaze_features.store.reading import open_store
from obygaze_features.store.rows import Row

IDS = [f"m-{number}" for number in range(50)]
DRAWS = np.random.default_rng(0)
CLIP = DRAWS.standard_normal((50, 16)).astype("f4")
FRAMES = DRAWS.standard_normal((50, 4, 8)).astype("f2")
BIG = np.dtype(">f4")


def group_at(path: Path, version: Any = 3, *, ids: bool = True) -> Any:
    group = zarr.open_group(path, mode="w", zarr_format=version)
    if ids:
        texts = np.array(IDS, np.dtypes.StringDType())
        group.create_array("clip_id", data=texts, chunks=(7,))
    return group


def read_back(path: Path, array: str = "clip", **options: Any) -> np.ndarray:
    store = imported(path, path.with_name(f"{path.name}-{array}-store"), **options)
    return store.matrix(array).values


# ---- import ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "how"),
    [
        (2, {"chunks": (7, 5)}),
        (2, {"chunks": (50, 16), "order": "F", "compressors": None}),
        (2, {"chunks": (7, 5), "dtype": BIG, "chunk_key_encoding": "/"}),
        (3, {"chunks": (7, 5)}),
        (3, {"chunks": (7, 5), "shards": (21, 15)}),
        (3, {"chunks": (50, 1), "compressors": [ZstdCodec(checksum=True)]}),
        (3, {"chunks": (1, 16), "dtype": BIG, "serializer": BytesCodec(endian="big")}),
    ],
)
def test_groups_of_both_versions_are_imported(
    tmp_path: Path, version: int, how: dict[str, Any]
) -> None:
    group = group_at(tmp_path / "x", version)
    how = dict(how)
    if how.get("chunk_key_encoding") == "/":
        how["chunk_key_encoding"] = {"name": "v2", "separator": "/"}
    dtype = how.pop("dtype", np.dtype("f4"))
    group.create_array("clip", shape=CLIP.shape, dtype=dtype, **how)[:] = CLIP
    group.create_array("frames", data=FRAMES, chunks=(7, 4, 3))
    import_features(tmp_path / "x", tmp_path / "s")
    store = open_store(tmp_path / "s")
    assert store.clip_ids.tolist() == IDS
    np.testing.assert_array_equal(store.matrix("clip").values, CLIP)
    np.testing.assert_array_equal(store.matrix("frames").values, FRAMES)


def test_what_xarray_writes_is_imported(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    films = ["lake"] * 20 + ["night"] * 30
    starts = np.arange(50) + 0.5
    facts = {"movie_id": ("clip_id", films), "start_s": ("clip_id", starts)}
    data = xarray.Dataset({"clip": (("clip_id", "d"), CLIP)}, {"clip_id": IDS, **facts})
    for version in (2, 3):
        path = tmp_path / f"x{version}"
        data.to_zarr(path, zarr_format=version, consolidated=version == 2)
        store = imported(path, tmp_path / f"s{version}")
        np.testing.assert_array_equal(store.matrix("clip").values, CLIP)
        assert store.table.films == ["lake", "night"]
        assert [row.start_s for row in store.rows] == starts.tolist()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("array", "stated"),
    [
        ("clip", {"_FillValue": -999.0}),
        ("clip", {"_FillValue": -999.0, "missing_value": -999.0}),
        ("start_s", {"_FillValue": -1.0}),
    ],
)
def test_a_number_that_stands_for_missing_values_is_refused(
    tmp_path: Path, version: Any, array: str, stated: dict[str, float]
) -> None:
    """xarray reads it as NaN; as a number, it once was a feature of a clip that has none."""
    xarray = pytest.importorskip("xarray")
    values = CLIP.copy()
    values[3] = np.nan
    starts = np.arange(50.0)
    starts[3] = np.nan
    of_clips = {"clip": (("clip_id", "d"), values), "start_s": ("clip_id", starts)}
    data = xarray.Dataset(of_clips, {"clip_id": IDS})
    path = tmp_path / "x"
    data.to_zarr(
        path, encoding={array: stated}, zarr_format=version, consolidated=False
    )
    said = f"{array} states {stated['_FillValue']:g} as its missing value"
    with pytest.raises(Corrupt, match=said):
        imported(path, tmp_path / "s")


@pytest.mark.parametrize("version", [2, 3])
def test_arrays_whose_first_dimension_is_not_that_of_the_clips_are_refused(
    tmp_path: Path, version: Any
) -> None:
    """As many features as clips: a transposed array was once stored as it stood."""
    xarray = pytest.importorskip("xarray")
    square = DRAWS.standard_normal((50, 50)).astype("f4")
    films = ("feature", ["lake"] * 50)
    ids = {"clip_id": ("c", IDS)}
    dims = ("feature", "c")
    first = "expected clips along the first dimension of each array, got "
    for name, data, said in (
        ("x", xarray.Dataset({"clip": (dims, square)}, ids), f"{first}feature in clip"),
        (
            "y",
            xarray.Dataset({"clip": (dims[::-1], square), "movie_id": films}, ids),
            f"{first}c in clip, c in clip_id, feature in movie_id",
        ),
        ("z", xarray.Dataset({"clip": (dims, square)}), "no array of ids names that"),
    ):
        path = tmp_path / name
        data.to_zarr(path, zarr_format=version, consolidated=False)
        clips = tuple(Clip(clip_id, "lake") for clip_id in IDS)
        manifest = Manifest("films", Header("x", {}), clips) if name == "z" else None
        with pytest.raises(FixInput, match=said):
            import_features(path, tmp_path / "s", manifest=manifest)
    for names in (["feature", "c"], [None, "c"]):
        path = tmp_path / f"{names[0]}"
        group = group_at(path, ids=False)
        named = ["c"] if names[0] is None else None
        texts = np.array(IDS, np.dtypes.StringDType())
        group.create_array("clip_id", data=texts, dimension_names=named)
        group.create_array("clip", data=square, dimension_names=names)
        with pytest.raises(FixInput, match=r"None in clip, c in|no array of ids names"):
            import_features(path, tmp_path / "s")
    turned = xarray.Dataset({"clip": (dims, square)}, ids).transpose("c", ...)
    turned.to_zarr(tmp_path / "t", zarr_format=version, consolidated=False)
    np.testing.assert_array_equal(read_back(tmp_path / "t"), square.T)


def test_a_wider_type_in_the_files_is_said(tmp_path: Path) -> None:
    for dtype, is_said in (("f8", True), ("f4", False), ("f2", False)):
        group = group_at(tmp_path / dtype)
        group.create_array("clip", data=CLIP.astype(dtype), chunks=(7, 16))
        made = import_features(tmp_path / dtype, tmp_path / f"s{dtype}")
        words = "clip: float64 numbers are stored as float32"
        assert (words in made.notes) is is_said


def test_ids_come_from_the_group_or_from_a_manifest(tmp_path: Path) -> None:
    group = group_at(tmp_path / "x", ids=False)
    group.create_array("features", data=CLIP, chunks=(50, 16))
    with pytest.raises(FixInput, match="no array 'clip_id'"):
        import_features(tmp_path / "x", tmp_path / "s")
    clips = tuple(Clip(clip_id, "lake") for clip_id in IDS)
    manifest = Manifest("films", Header("x", {}), clips)
    made = import_features(tmp_path / "x", tmp_path / "s", manifest=manifest)
    assert any(
        "their 50 rows are taken as the clips of the manifest" in n for n in made.notes
    )
    store = open_store(tmp_path / "s")
    assert store.clip_ids.tolist() == IDS
    np.testing.assert_array_equal(store.matrix("clip").values, CLIP)
    # Another number of rows than clips, and rows whose films are others.
    fewer = Manifest("films", Header("x", {}), clips[1:])
    with pytest.raises(
        FixInput, match="no array is clearly the features of the 49 ids"
    ):
        import_features(tmp_path / "x", tmp_path / "t", manifest=fewer)
    films = np.array(["night"] * 50, np.dtypes.StringDType())
    group.create_array("movie_id", data=films, chunks=(50,))
    with pytest.raises(ObygazeError, match="'m-0' is of the film 'night'"):
        import_features(tmp_path / "x", tmp_path / "t", manifest=manifest)


def test_arrays_have_one_order_on_every_disk(tmp_path: Path) -> None:
    """A folder has no order: the first array of several is the one that experiments read."""
    for names in (("pooled", "a", "clip"), ("clip", "a", "pooled")):
        path = tmp_path / "-".join(names)
        group = group_at(path)
        for name in names:
            group.create_array(name, data=CLIP, chunks=(50, 16))
        store = imported(path, path.with_suffix(".s"))
        found = [array.name for array in store.record.arrays]
        assert found == ["clip", "pooled", "a"]


def chunk_missing(group: Any) -> None:
    values = group.create_array("clip", shape=(50, 16), chunks=(10, 8), dtype="f4")
    values[:20] = 1


def chunk_of_shard_missing(group: Any) -> None:
    """zarr leaves out a chunk of fill values within a shard too."""
    values = group.create_array(
        "clip", shape=(50, 16), chunks=(5, 8), shards=(20, 16), dtype="f4"
    )
    values[:] = CLIP
    # 2 chunks in a shard that is there, and 2 in the last one, half of which is no part.
    values[5:10] = 0
    values[45:] = 0


@pytest.mark.parametrize(
    ("make", "n_missing"),
    [(chunk_missing, "6 of 10"), (chunk_of_shard_missing, "4 of 20")],
)
def test_a_missing_chunk_is_refused_with_the_line_that_fills(
    tmp_path: Path, make: Callable[[Any], None], n_missing: str
) -> None:
    make(group_at(tmp_path / "x"))
    expected = zarr.open_group(tmp_path / "x", mode="r")["clip"][:]
    with pytest.raises(FixInput, match=f"clip: {n_missing} chunks missing") as error:
        import_features(tmp_path / "x", tmp_path / "s")
    assert "here 0.0" in str(error.value)
    # What was typed stays: a printed line without `--array` once read another array.
    assert "pass --fill-missing too" in str(error.value.hint)
    words = ("store", "import", str(tmp_path / "x"), "--fill-missing")
    call_obygaze(*words, "-o", str(tmp_path / "s")).ok()
    read = open_store(tmp_path / "s").matrix("clip").values
    np.testing.assert_array_equal(read, expected)
    np.savez(tmp_path / "x.npz", clip_id=IDS, clip=CLIP)
    with pytest.raises(FixUsage, match="--fill-missing does not apply to npz"):
        import_features(tmp_path / "x.npz", tmp_path / "t", fill_missing=True)


def link_a_chunk(folder: Path) -> None:
    (folder / "clip/c/0/0").rename(folder.with_name("elsewhere"))
    (folder / "clip/c/0/0").symlink_to(folder.with_name("elsewhere"))


def link_an_array(folder: Path) -> None:
    (folder / "clip").rename(folder.with_name("elsewhere"))
    (folder / "clip").symlink_to(folder.with_name("elsewhere"))


def edit(name: str, **changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        document = json.loads((folder / name).read_text("utf-8"))
        (folder / name).write_text(json.dumps({**document, **changes}), "utf-8")

    return change


def cut_a_chunk(folder: Path) -> None:
    os.truncate(folder / "clip/c/0/0", 100)


def flip_a_bit(folder: Path) -> None:
    data = bytearray((folder / "clip/c/0/0").read_bytes())
    data[50] ^= 1
    (folder / "clip/c/0/0").write_bytes(data)


def pipe_for_a_chunk(folder: Path) -> None:
    (folder / "clip/c/0/0").unlink()
    os.mkfifo(folder / "clip/c/0/0")


def lead_out(folder: Path) -> None:
    """The consolidated document names an array in another folder."""
    document = json.loads((folder / "zarr.json").read_text("utf-8"))
    of_array = json.loads((folder / "clip/zarr.json").read_text("utf-8"))
    metadata = {"../elsewhere": of_array, "clip": of_array}
    document["consolidated_metadata"] = {
        "kind": "inline",
        "must_understand": False,
        "metadata": metadata,
    }
    shutil.copytree(folder / "clip", folder.with_name("elsewhere"))
    (folder / "zarr.json").write_text(json.dumps(document), "utf-8")


REGULAR = {"name": "regular"}
HOSTILE: dict[str, tuple[Callable[[Path], None], str]] = {
    "a chunk is a link": (link_a_chunk, "symbolic links"),
    "an array is a link": (link_an_array, "symbolic links"),
    "a chunk is a pipe": (pipe_for_a_chunk, "expected regular files"),
    "a chunk is short": (cut_a_chunk, "cannot be read"),
    "a bit is flipped": (flip_a_bit, "cannot be read"),
    "no document": (lambda f: (f / "zarr.json").write_text("{"), "not a group of Zarr"),
    "a list": (lambda f: (f / "zarr.json").write_text("[]"), "not a group of Zarr"),
    "deep": (
        lambda f: (f / "zarr.json").write_text('{"a":' * 100_000),
        "not a group of Zarr",
    ),
    "a terabyte": (
        edit("clip/zarr.json", shape=[50, 2**34]),
        "more than the files can hold|of memory",
    ),
    "a chunk of a terabyte": (
        edit(
            "clip/zarr.json",
            shape=[50, 2**20],
            chunk_grid={**REGULAR, "configuration": {"chunk_shape": [2**20, 2**20]}},
        ),
        "more than the files can hold|memory",
    ),
    "a billion rows": (
        edit("clip/zarr.json", shape=[2**30, 16]),
        "no array is clearly",
    ),
    "a billion ids": (edit("clip_id/zarr.json", shape=[2**40]), "chunks missing|hold"),
    "a negative size": (edit("clip/zarr.json", shape=[-50, 16]), "not a group of Zarr"),
    "an unknown codec": (
        edit("clip/zarr.json", codecs=[{"name": "bytes"}, {"name": "mine"}]),
        "not a group of Zarr|not read",
    ),
    "packed": (
        edit("clip/zarr.json", attributes={"scale_factor": 0.1}),
        "packed numbers .scale_factor.",
    ),
    "an unknown type": (edit("clip/zarr.json", data_type="q7"), "not a group of Zarr"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_group_is_refused(tmp_path: Path, name: str) -> None:
    group = group_at(tmp_path / "x")
    group.create_array("clip", data=CLIP, chunks=(50, 16), compressors=[Crc32cCodec()])
    spoil, words = HOSTILE[name]
    spoil(tmp_path / "x")
    with pytest.raises((Corrupt, FixInput), match=words):
        import_features(tmp_path / "x", tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_consolidated_document_leads_nowhere(tmp_path: Path) -> None:
    group = group_at(tmp_path / "x")
    group.create_array("clip", data=CLIP, chunks=(50, 16))
    lead_out(tmp_path / "x")
    store = imported(tmp_path / "x", tmp_path / "s")
    assert [array.name for array in store.record.arrays] == ["clip"]


def test_no_codec_runs_code(tmp_path: Path) -> None:
    """Zarr 2 knows the codec `pickle`."""
    numcodecs = pytest.importorskip("numcodecs")
    group = group_at(tmp_path / "x", 2)
    group.create_array("clip", data=CLIP, chunks=(50, 16), compressors=None)

    class Runs:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "ran"),)

    data = numcodecs.Pickle().encode(np.array([Runs()], object))
    (tmp_path / "x/clip/0.0").write_bytes(data)
    pickle = {"id": "pickle", "protocol": 5}
    texts = {"id": "vlen-utf8"}
    for changes in (
        {"filters": [texts, pickle], "compressor": None},
        {"filters": [texts], "compressor": pickle},
    ):
        edit("clip/.zarray", dtype="|O", **changes)(tmp_path / "x")
        with pytest.raises(Corrupt, match="clip has a codec that is not read: pickle"):
            import_features(tmp_path / "x", tmp_path / "s")
    assert not (tmp_path / "ran").exists()


def test_times_are_seconds(tmp_path: Path) -> None:
    group = group_at(tmp_path / "x")
    group.create_array("clip", data=CLIP, chunks=(50, 16))
    starts = group.create_array("start_s", data=np.arange(1.0, 51), chunks=(50,))
    starts.attrs["units"] = "milliseconds"
    with pytest.raises(Corrupt, match="start_s is in 'milliseconds', expected seconds"):
        import_features(tmp_path / "x", tmp_path / "s")
    starts.attrs["units"] = "seconds"
    rows = imported(tmp_path / "x", tmp_path / "s").rows
    assert [row.start_s for row in rows] == list(range(1, 51))


def test_chunks_without_a_checksum_are_said(tmp_path: Path) -> None:
    for codecs, is_said in (([ZstdCodec()], True), ([Crc32cCodec()], False)):
        path = tmp_path / f"x{is_said}"
        group = group_at(path)
        group.create_array("clip", data=CLIP, chunks=(7, 5), compressors=codecs)
        made = import_features(path, path.with_suffix(".s"))
        words = "chunks without a checksum, so a changed byte was not found: clip"
        assert (words in made.notes) is is_said


def test_damaged_times_are_refused(tmp_path: Path) -> None:
    """They once ended with an error of zarr."""
    group = group_at(tmp_path / "x")
    group.create_array("clip", data=CLIP)
    group.create_array("start_s", data=np.arange(50.0), compressors=[Crc32cCodec()])
    file = tmp_path / "x/start_s/c/0"
    data = bytearray(file.read_bytes())
    data[50] ^= 1
    file.write_bytes(data)
    with pytest.raises(Corrupt, match="start_s cannot be read"):
        import_features(tmp_path / "x", tmp_path / "s")


def test_a_failed_read_prints_nothing_of_other_reads(tmp_path: Path) -> None:
    """zarr reads many chunks at a time; Python once listed the others at its end."""
    group = group_at(tmp_path / "x")
    group.create_array("clip", data=CLIP, chunks=(2, 1), compressors=[Crc32cCodec()])
    for number in range(16):
        file = tmp_path / f"x/clip/c/0/{number}"
        data = bytearray(file.read_bytes())
        data[3] ^= 1
        file.write_bytes(data)
    said = run_obygaze("store", "import", "x", "-o", "s", cwd=tmp_path)
    assert said.code == 4 and len(said.stderr.splitlines()) == 2, said.stderr


def test_a_store_is_not_imported(tmp_path: Path) -> None:
    made_store(tmp_path / "s", some_rows(50), {"clip": CLIP})
    with pytest.raises(FixUsage, match="got a store") as error:
        import_features(tmp_path / "s", tmp_path / "t")
    assert "obygaze store pull" in str(error.value.hint)


def test_labels_are_read_by_the_lines_that_are_printed(tmp_path, monkeypatch) -> None:
    """Arrays without names of dimensions, and those of an export, whose rows have a number."""
    monkeypatch.chdir(tmp_path)
    group = group_at(tmp_path / "plain.zarr")
    group.create_array("clip", data=CLIP)
    group.create_array("movie_id", data=np.array(["m"] * 50, np.dtypes.StringDType()))
    group.create_array("mood", data=np.arange(50) % 3)
    group.create_array("weights", data=np.ones(16))
    rows = [Row(f"e-{number}", "m") for number in range(50)]
    made_store(tmp_path / "s", rows, {"clip": CLIP})
    export_features(tmp_path / "s", tmp_path / "export.zarr")
    labels = "labels are of a manifest"
    said = call_obygaze(
        "store", "import", "plain.zarr", "-o", "t", "--array", "clip=clip"
    )
    assert labels in said.stderr and said.code == 0
    said = call_obygaze("store", "import", "export.zarr", "-o", "u")
    assert labels not in said.stderr and said.code == 0
    for name in ("plain", "export"):
        lines = zarr_lines(f"{name}.zarr")
        exec("\n".join(lines))
        found = og.read_manifest(name)
        assert {clip.movie_id for clip in found} == {"m"}
        expected = IDS if name == "plain" else [row.clip_id for row in rows]
        assert list(found.clip_ids) == expected
    found = og.read_manifest("plain")
    assert [clip.extra for clip in found] == [{"mood": f"{n % 3}"} for n in range(50)]
    assert not any(clip.extra for clip in og.read_manifest("export"))
    group_at(tmp_path / "none.zarr", ids=False).create_array("clip", data=CLIP)
    with pytest.raises(FixInput, match="no array has one value per clip"):
        zarr_lines("none.zarr")


def test_labels_with_missing_chunks_are_left_out(tmp_path, monkeypatch) -> None:
    """They were once read as 0 by the lines that are printed."""
    monkeypatch.chdir(tmp_path)
    xarray = pytest.importorskip("xarray")
    group = group_at(tmp_path / "plain.zarr")
    group.create_array("movie_id", data=np.array(["m"] * 50, np.dtypes.StringDType()))
    group.create_array("mood", data=np.arange(50) % 3 + 1, chunks=(10,))
    (tmp_path / "plain.zarr/mood/c/2").unlink()
    of_clips = {"mood": ("c", np.arange(50) % 3 + 1), "when": ("c", np.arange(1, 51))}
    of_clips["movie_id"] = ("c", ["m"] * 50)
    data = xarray.Dataset({"clip": (("c", "d"), CLIP)}, {"clip_id": ("c", IDS)})
    data = data.assign_coords(of_clips)
    data.to_zarr(tmp_path / "named.zarr", consolidated=False)
    (tmp_path / "named.zarr/mood/c/0").unlink()
    for name, kept in (("plain", set()), ("named", {"when"})):
        lines = zarr_lines(f"{name}.zarr")
        assert "mood: 1 of " in lines[0] and "here 0," in lines[0]
        exec("\n".join(lines))
        found = og.read_manifest(name)
        assert list(found.clip_ids) == IDS
        assert {key for clip in found for key in clip.extra} == kept


def zarr_lines(source: str) -> list[str]:
    """Return the lines of the refusal of a group as a manifest."""
    with pytest.raises(FixUsage, match="not a table of clips") as error:
        og.manifest.import_(source)
    return list(error.value.details)


# ---- export ------------------------------------------------------------------------------------


def test_an_export_is_read_back_equal(tmp_path: Path) -> None:
    """Also chunks of zeros, of one value, and of NaN in the times of frames."""
    n_rows = 300
    tokens = DRAWS.standard_normal((n_rows, 4, 600)).astype("f2")
    clip = DRAWS.standard_normal((n_rows, 600)).astype("f4")
    # A chunk has 32 rows of tokens and 64 of clip.
    tokens[32:64] = 0
    clip[64:128] = 0
    clip[128:192] = 1
    is_real = np.ones((n_rows, 4), bool)
    is_real[5:90, 3] = False
    times = np.where(is_real, np.arange(4.0), np.nan)
    times[64:128] = np.nan
    is_real[64:128, 1:] = False
    values = {"tokens": tokens, "clip": clip, "mask": is_real, "time_s": times}
    rows = list(map(Row, *some_ids(n_rows)))
    rows[7] = rows[7]._replace(status="failed", reason="no such stream")
    rows = [
        row._replace(start_s=0.0, end_s=number + 1.0) for number, row in enumerate(rows)
    ]
    dims = {
        "tokens": ("t4", "d600"),
        "clip": ("d600",),
        "mask": ("t4",),
        "time_s": ("t4",),
    }
    arrays = [
        Array.of(name, str(one.dtype), one.shape[1:], dims[name])
        for name, one in values.items()
    ]
    before = made_store(tmp_path / "s", rows, values, arrays=arrays)
    made = export_features(tmp_path / "s", tmp_path / "x.zarr")
    assert made.format == "zarr" and made.exit_code == 3
    assert "tt0000101-003: failed" in "\n".join(made.notes)
    after = imported(tmp_path / "x.zarr", tmp_path / "back")
    assert [one.name for one in after.record.arrays] == [one.name for one in arrays]
    kept = [row for row in rows if row.is_ok]
    facts = [(row.clip_id, row.movie_id, row.start_s, row.end_s) for row in kept]
    assert [(r.clip_id, r.movie_id, r.start_s, r.end_s) for r in after.rows] == facts
    for name in values:
        expected = before.matrix(name, missing="drop").values
        np.testing.assert_array_equal(after.matrix(name).values, expected)
    # Every chunk exists, is compressed, and has a checksum.
    group = zarr.open_group(tmp_path / "x.zarr", mode="r")
    for name, array in group.members():
        assert array.nchunks_initialized >= array.nchunks, name
        names = {type(codec).__name__ for codec in array.compressors}
        assert names == {"ZstdCodec", "Crc32cCodec"}, name
    xarray = pytest.importorskip("xarray")
    data = xarray.open_zarr(tmp_path / "x.zarr", chunks=None)
    assert set(data.coords) == {"clip_id", "movie_id", "start_s", "end_s"}
    assert data["clip"].dims == ("row", "d600")
    with pytest.raises(ObygazeError, match="of this name exists"):
        export_features(tmp_path / "s", tmp_path / "x.zarr")


def test_a_flipped_bit_of_an_export_is_found(tmp_path: Path) -> None:
    made_store(tmp_path / "s", some_rows(50), {"clip": CLIP})
    export_features(tmp_path / "s", tmp_path / "x.zarr")
    file = tmp_path / "x.zarr/clip/c/0/0"
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    with pytest.raises(Corrupt, match="clip cannot be read"):
        import_features(tmp_path / "x.zarr", tmp_path / "t")
