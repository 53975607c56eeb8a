"""What is exported and imported again is the same: ids, films, arrays, every number."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cli import call_obygaze
from support.kills import kill_everywhere
from support.servers import wait_until
from support.stores import (
    copy_of_sealed,
    fill_store,
    partial_copy,
    plan_store,
    sealed_store,
    some_values,
)

from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage, NotFound
from obygaze_features.core.files import write_new
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.tables import read_table
from obygaze_features.store import ArraySpec, RowStatus, Store, open_store, withdraw
from obygaze_features.store.interchange import open_features
from obygaze_features.store.interchange.export import export_store
from obygaze_features.store.interchange.importing import import_store
from obygaze_features.store.remote.send import pack

BACK: dict[str, Callable[[Path], Any]] = {
    "hdf5": lambda path: open_features("hdf5", [path]),
    "npz": lambda path: open_features("npz", [path], {}),
    "npy": lambda path: open_features("npy", [path]),
}


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    return copy_of_sealed(tmp_path / "s")


def same(first: Store, second: Store, arrays: tuple[str, ...]) -> None:
    assert first.clip_ids.tolist() == second.clip_ids.tolist()
    assert first.movie_ids.tolist() == second.movie_ids.tolist()
    assert set(second.feature_arrays) == set(arrays)
    for array in arrays:
        a, b = first.matrix(array).values, second.matrix(array).values
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("arrays", [None, ["frames"], ["clip"]])
@pytest.mark.parametrize("format", list(BACK))
def test_there_and_back(
    tmp_path: Path, sealed: Path, format: str, arrays: list[str] | None, compress: bool
) -> None:
    store = open_store(sealed)
    export_store(store, tmp_path / "out", format, arrays=arrays, compress=compress)
    source = BACK[format](tmp_path / "out")
    import_store(source, tmp_path / "again")
    source.close()
    same(store, open_store(tmp_path / "again"), tuple(arrays or store.feature_arrays))


@pytest.mark.parametrize("array", ["x", "c3d_features", "features", "clip_0", "x2"])
@pytest.mark.parametrize("format", list(BACK))
def test_an_array_keeps_its_name(tmp_path: Path, format: str, array: str) -> None:
    sealed_store(
        tmp_path / "s", 3, 2, arrays=[ArraySpec(array, (2,)), ArraySpec("other", (3,))]
    )
    export_store(open_store(tmp_path / "s"), tmp_path / "out", format, arrays=[array])
    source = open_features(format, [tmp_path / "out"])
    import_store(source, tmp_path / "again")
    source.close()
    same(open_store(tmp_path / "s"), open_store(tmp_path / "again"), (array,))


@settings(max_examples=12)
@given(
    n_clips=st.integers(1, 9),
    tail=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    dtype=st.sampled_from(["float16", "float32"]),
    format=st.sampled_from(list(BACK)),
    seed=st.integers(0, 99),
)
def test_any_shape_there_and_back(
    tmp_path_factory: pytest.TempPathFactory,
    n_clips: int,
    tail: list[int],
    dtype: str,
    format: str,
    seed: int,
) -> None:
    root = tmp_path_factory.mktemp("any")
    dtype = "float32" if len(tail) == 1 else dtype
    arrays = [ArraySpec("x", tuple(tail), dtype=dtype)]
    plan_store(root / "s", n_clips, 4, arrays=arrays)
    fill_store(root / "s", some_values(n_clips, arrays, seed)).seal()
    export_store(open_store(root / "s"), root / "out", format)
    source = BACK[format](root / "out")
    import_store(source, root / "again")
    source.close()
    same(open_store(root / "s"), open_store(root / "again"), ("x",))


@pytest.mark.parametrize(("array", "found"), [("clip", "clip"), ("frames", "tokens")])
def test_the_released_layout_there_and_back(
    tmp_path: Path, sealed: Path, array: str, found: str
) -> None:
    torch = pytest.importorskip("torch")

    store = open_store(sealed)
    export_store(store, tmp_path / "FEATURES", "pth", arrays=[array])
    file = tmp_path / "FEATURES" / "tt0000102" / "tt0000102-003.pth"
    tensor = torch.load(file, weights_only=True)
    expected = store.matrix(array, clips=["tt0000102-003"]).values
    assert tuple(tensor.shape) == expected.shape
    np.testing.assert_array_equal(tensor.numpy(), expected)
    import_store(open_features("pth", [tmp_path / "FEATURES"]), tmp_path / "again")
    again = open_store(tmp_path / "again")[found]
    assert sorted(again.clip_ids) == sorted(store[array].clip_ids)
    wanted = store.matrix(array, clips=again.clip_ids).values
    np.testing.assert_array_equal(again.values, wanted)


def test_tokens_of_frames_become_one_row_of_tokens(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    arrays = [ArraySpec("tokens", (2, 3, 4), dtype="float16")]
    values = sealed_store(tmp_path / "s", 5, 2, arrays=arrays)["tokens"]
    export_store(open_store(tmp_path / "s"), tmp_path / "F", "pth")
    tensor = torch.load(tmp_path / "F/tt0000100/tt0000100-002.pth", weights_only=True)
    np.testing.assert_array_equal(tensor.numpy(), values[1].reshape(1, 6, 4))


@pytest.mark.parametrize("format", ["hdf5", "npz", "npy", "pth"])
def test_an_array_that_is_named_twice_is_written_once(
    tmp_path: Path, sealed: Path, format: str
) -> None:
    store = open_store(sealed)
    array = next(spec.name for spec in store.plan.arrays if len(spec.tail_shape) == 1)
    done = export_store(store, tmp_path / "out", format, arrays=[array, array])
    assert list(done.arrays) == [array]
    source = open_features(format, str(tmp_path / "out"))
    source.close()
    assert source.names == (("clip",) if format == "pth" else (array,))
    assert len(source.clip_ids) == done.n_clips


def test_other_programs_read_what_is_written(tmp_path: Path, sealed: Path) -> None:
    store = open_store(sealed)
    export_store(store, tmp_path / "f.npz", "npz", compress=True)
    with np.load(tmp_path / "f.npz") as packed:
        assert packed["clip_id"].tolist() == store.clip_ids.tolist()
        np.testing.assert_array_equal(packed["frames"], store.matrix("frames").values)
    export_store(store, tmp_path / "f.h5", "hdf5", arrays=["pooled"])
    with h5py.File(tmp_path / "f.h5") as file:
        np.testing.assert_array_equal(
            file["tt0000101-004"][()], store.matrix("pooled").values[8]
        )
        assert file["tt0000101-004"].attrs["movie_id"] == "tt0000101"


@pytest.mark.parametrize("format", ["hdf5", "npz", "npy"])
def test_what_failed_or_is_missing_is_left_out_and_told(
    tmp_path: Path, format: str
) -> None:
    plan_store(tmp_path / "s", 8, 4)
    status_of_row = {
        1: RowStatus.failed("decode", "Broken", "moov atom"),
        2: RowStatus.no_video(),
    }
    fill_store(tmp_path / "s", some_values(8), status_of_row, blocks=[0])
    done = export_store(open_store(tmp_path / "s"), tmp_path / "out", format)
    assert done.n_clips == 2
    assert len(done.left_out) == 6
    assert done.left_out["tt0000100-002"] == "failed: decode Broken: moov atom"
    if format in BACK:
        source = BACK[format](tmp_path / "out")
        assert sorted(source.clip_ids) == ["tt0000100-001", "tt0000100-004"]
        source.close()


@pytest.mark.parametrize(("film", "exit_code"), [(None, 3), ("tt0000100", 0)])
def test_withdrawn_clips_are_not_failures_of_an_export(
    tmp_path: Path, film: str | None, exit_code: int
) -> None:
    plan_store(tmp_path / "s", 8, 4)
    status_of_row = {1: RowStatus.failed("decode", "Broken", "moov atom")}
    fill_store(tmp_path / "s", some_values(8), status_of_row).seal()
    if film is not None:
        withdraw(tmp_path / "s", films=[film], reason="asked for")
    done = export_store(tmp_path / "s", tmp_path / "out", "npz")
    assert done.exit_code == exit_code
    assert done.n_clips == 8 - len(done.left_out)


def test_a_partial_copy_exports_what_it_holds(tmp_path: Path, sealed: Path) -> None:
    partial_copy(sealed, tmp_path / "part", arrays=["pooled"], films=["tt0000104"])
    done = export_store(
        open_store(tmp_path / "part"), tmp_path / "f.npz", "npz", arrays=["pooled"]
    )
    assert done.n_clips == 3  # block 5, rows 20 to 22
    assert "partial" in done.left_out["tt0000100-001"]
    with pytest.raises(NotFound, match="partial and does not hold clip"):
        export_store(
            open_store(tmp_path / "part"), tmp_path / "g.npz", "npz", arrays=["clip"]
        )


@pytest.mark.parametrize("name", ["features.xlsx", "features.ODS"])
def test_a_name_that_promises_a_spreadsheet_is_refused(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(FixUsage, match="files are not written, only CSV") as caught:
        write_new(tmp_path / name, b"a,b\n")
    assert caught.value.hint == "features.csv"
    assert not list(tmp_path.glob("features*"))


@pytest.mark.parametrize("clip", ["../evil", "a/b", "a\\b", ".hidden", "x" * 201])
@pytest.mark.parametrize("format", ["hdf5", "npy", "pth"])
def test_ids_that_would_lead_elsewhere_are_refused(
    tmp_path: Path, format: str, clip: str
) -> None:
    plan_store(tmp_path / "s", 1, 1, clip_ids=[clip], movie_ids=["m"])
    fill_store(tmp_path / "s", some_values(1)).seal()
    with pytest.raises(FixInput, match="cannot be the name"):
        export_store(
            open_store(tmp_path / "s"), tmp_path / "out" / "x", format, arrays=["clip"]
        )
    assert not (tmp_path / "out").exists()
    export_store(open_store(tmp_path / "s"), tmp_path / "f.npz", "npz")


def test_nothing_is_replaced_and_nothing_half_is_left(
    tmp_path: Path, sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").write_text("mine", encoding="utf-8")
    with pytest.raises(AlreadyThere):
        export_store(open_store(sealed), tmp_path / "out", "npz")
    store = open_store(sealed)
    (sealed / "data.zarr/frames/c.5.0.0").unlink()
    for format, message in (
        ("hdf5", "obygaze_levels"),
        ("npz", "obygaze_provenance"),
        ("npy", "is a file"),
    ):
        with pytest.raises(Exception, match=message):
            export_store(store, tmp_path / "out", format, force=True)
        with pytest.raises(Exception, match="missing"):
            export_store(store, tmp_path / "new", format, force=True)
        assert (tmp_path / "out").read_text(encoding="utf-8") == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "s"]


@pytest.mark.parametrize("format", ["hdf5", "npz", "npy", "pth"])
def test_force_replaces_an_export_and_no_other_folder(
    tmp_path: Path, sealed: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if format == "pth":
        pytest.importorskip("torch")
    store, out = open_store(sealed), tmp_path / "out"
    arrays = ["pooled"]
    export_store(store, out, format, arrays=arrays)
    with pytest.raises(AlreadyThere):
        export_store(store, out, format, arrays=arrays)
    export_store(store, out, format, arrays=["clip"], force=True)
    first = out.read_bytes() if out.is_file() else sorted(out.rglob("*"))
    data = tmp_path / "data"
    (data / "deep").mkdir(parents=True)
    (data / "deep" / "thesis.txt").write_text("years", encoding="utf-8")
    monkeypatch.chdir(data)
    for name in (data, Path(), Path(".."), data / "deep" / ".."):
        with pytest.raises((AlreadyThere, FixUsage)):
            export_store(store, name, format, arrays=arrays, force=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AlreadyThere):
        export_store(store, data, format, arrays=arrays, force=True)
    assert (data / "deep" / "thesis.txt").read_text(encoding="utf-8") == "years"
    if out.is_dir():  # a file that somebody added
        (out / "mine.npy").write_bytes(b"years")
        with pytest.raises(AlreadyThere, match="files were added"):
            export_store(store, out, format, arrays=arrays, force=True)
        (out / "mine.npy").unlink()
        assert sorted(out.rglob("*")) == first
        assert not (out / "pooled").exists()
    export_store(store, out, format, arrays=arrays, force=True)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"data", "out", "s"}


@pytest.mark.check("kills it before every change of the disk")
@pytest.mark.parametrize("format", ["npz", "npy"])
def test_a_kill_at_any_instant_leaves_the_old_export_or_the_new_one(
    tmp_path: Path, format: str
) -> None:
    arrays = [ArraySpec("x", (2,)), ArraySpec("y", (2,))]
    sealed_store(tmp_path / "s", 2, 2, arrays=arrays)
    store, out, seen = open_store(tmp_path / "s"), tmp_path / "out", set[str]()

    def look() -> None:
        source = BACK[format](out)
        assert list(source.clip_ids) == store.clip_ids.tolist()
        seen.update(source.names)
        source.close()
        export_store(store, out, format, arrays=["x"], force=True)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "s"]

    export_store(store, out, format, arrays=["x"])
    work = partial(export_store, store, out, format, arrays=["y"], force=True)
    assert kill_everywhere(work, look) >= 2
    assert seen == {"x", "y"}


def test_formats_that_hold_one_array(tmp_path: Path, sealed: Path) -> None:
    store = open_store(sealed)
    with pytest.raises(FixUsage, match="one array"):
        export_store(store, tmp_path / "g", "pth", arrays=["clip", "pooled"])
    with pytest.raises(FixUsage, match="unknown format"):
        export_store(store, tmp_path / "g", "pickle")


def test_the_command(workspace: Path, tmp_path: Path) -> None:
    copy_of_sealed(workspace / "stores" / "toy")
    done = call_obygaze(
        *(
            "-C",
            workspace,
            "store",
            "export",
            "hdf5",
            "toy",
            tmp_path / "f.h5",
            "--json",
        ),
        *("--array", "pooled", "--compress"),
    ).ok()
    assert done.json() == {
        "json_version": 1,
        "path": str(tmp_path / "f.h5"),
        "format": "hdf5",
        "n_clips": 23,
        "arrays": ["pooled"],
        "left_out": {},
        "labels_of": "",
        "without_labels": "",
        "n_withdrawn": 0,
        "withdrawn_later": 0,
    }
    call_obygaze(
        "-C", workspace, "store", "import", "hdf5", tmp_path / "f.h5", "-o", "two"
    ).ok()
    assert open_store(workspace / "stores" / "two").feature_arrays == ("pooled",)
    refused = call_obygaze(
        "-C", workspace, "store", "export", "hdf5", "toy", tmp_path / "f.h5"
    )
    assert refused.code == 1
    other = call_obygaze(
        "-C", workspace, "store", "export", "npz", "toy", tmp_path / "f.h5"
    )
    assert (other.code, "the name is one of hdf5" in other.stderr) == (2, True)


def kept(format: str, path: Path) -> dict[str, Any]:
    """Return the provenance in an export, read without obygaze."""
    if format == "hdf5":
        with h5py.File(path) as file:
            return json.loads(file.attrs["obygaze_provenance"])
    if format == "npz":
        return json.loads(str(np.load(path)["obygaze_provenance"]))
    return json.loads((path / ".obygaze-export.json").read_bytes())["provenance"]


@pytest.mark.parametrize("format", ["hdf5", "npz", "npy", "pth"])
def test_licence_recipe_and_fingerprint_are_kept(
    tmp_path: Path, sealed: Path, format: str
) -> None:
    store = open_store(sealed)
    export_store(store, tmp_path / "out", format)
    found = kept(format, tmp_path / "out")
    assert found["fingerprint"] == store.fingerprint
    assert found["recipe"] == store.recipe.to_json()
    assert (found["licence"], found["citation"]) == (
        store.plan.licence,
        store.plan.citation,
    )
    export_store(store, tmp_path / "out", format, force=True)


@pytest.mark.parametrize("format", ["hdf5", "npz", "npy", "pth"])
def test_labels_are_written_on_request(
    tmp_path: Path, sealed: Path, format: str
) -> None:
    store = open_store(sealed)
    ids = store.clip_ids.tolist()
    clips = [Clip(clip, "m", level="S", concepts=("Body", "Look")) for clip in ids[:-1]]
    labels = Manifest(
        "m", Header("m", {"Body": "visual", "Look": "visual"}), tuple(clips)
    )
    out = tmp_path / "out"
    export_store(store, out, format, arrays=["clip"], labels=labels)
    if format == "hdf5":
        with h5py.File(out) as file:
            found = {
                clip: (file[clip].attrs["level"], file[clip].attrs["concepts"])
                for clip in ids
            }
    elif format == "npz":
        arrays = np.load(out)
        words = zip(arrays["level"].tolist(), arrays["concepts"].tolist(), strict=True)
        found = dict(zip(arrays["clip_id"].tolist(), words, strict=True))
    else:
        with (out / "labels.csv").open(encoding="utf-8", newline="") as stream:
            found = {
                row["clip_id"]: (row["level"], row["concepts"])
                for row in csv.DictReader(stream)
            }
    assert found == {**dict.fromkeys(ids[:-1], ("S", "Body|Look")), ids[-1]: ("", "")}
    if format in BACK:
        import_store(BACK[format](out), tmp_path / "again")
        same(store, open_store(tmp_path / "again"), ("clip",))


# As YouTube has them; a spreadsheet program takes the first four for formulas.
AWKWARD = [
    "-3kZ",
    "+b",
    "=1+2",
    "@c",
    "'d",
    "'-e",
    "-",
    "-5",
    "a,b",
    'a"b',
    " f ",
    "#g",
]


@pytest.fixture
def awkward(tmp_path: Path) -> Store:
    plan_store(
        tmp_path / "s", len(AWKWARD), 4, clip_ids=AWKWARD, movie_ids=AWKWARD[::-1]
    )
    fill_store(tmp_path / "s", some_values(len(AWKWARD))).seal()
    return open_store(tmp_path / "s")


@pytest.mark.parametrize("format", ["hdf5", "npz", "npy", "pth"])
def test_any_id_comes_back(tmp_path: Path, awkward: Store, format: str) -> None:
    if format == "pth":
        pytest.importorskip("torch")
    clips = [Clip(clip, "m", level="S", concepts=("=Look",)) for clip in AWKWARD]
    labels = Manifest("m", Header("m", {"=Look": "visual"}), tuple(clips))
    export_store(
        awkward,
        tmp_path / "out",
        format,
        arrays=["clip"],
        labels=labels,
        force=True,
    )
    export_store(  # it is known as an export
        awkward,
        tmp_path / "out",
        format,
        arrays=["clip"],
        labels=labels,
        force=True,
    )
    source = open_features(format, [tmp_path / "out"])
    import_store(source, tmp_path / "again")
    source.close()
    again = open_store(tmp_path / "again")
    films = dict(zip(again.clip_ids.tolist(), again.movie_ids.tolist(), strict=True))
    assert films == dict(zip(AWKWARD, AWKWARD[::-1], strict=True))
    values = again.matrix("clip", clips=AWKWARD).values
    np.testing.assert_array_equal(values, awkward.matrix("clip").values)
    if format in ("npy", "pth"):
        table = tmp_path / "out" / "labels.csv"
        rows = read_table(table, required=("clip_id",)).rows
        assert [row["clip_id"] for row in rows] == AWKWARD
        assert {row["concepts"] for row in rows} == {"=Look"}


@pytest.fixture(scope="module")
def disk_of_a_mac(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which names that differ in case or form of Unicode only are one name."""
    backing, place = (
        tmp_path_factory.mktemp("backing"),
        tmp_path_factory.mktemp("mount"),
    )
    program = Path(__file__).parents[3] / "support" / "caching_mount.py"
    command = [
        "/usr/bin/python3",
        program,
        backing,
        place,
        "0",
        "one-name",
    ]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: place.is_mount() or running.poll() is not None, "a mount")
        if running.poll() is not None:
            pytest.skip(
                f"no FUSE here: {(running.stderr.read().splitlines() or [''])[-1]}"
            )
        yield place
    finally:
        subprocess.run(["umount", place], check=False, capture_output=True)
        running.terminate()
        running.wait()


@pytest.mark.parametrize(
    ("clips", "films", "pair"),
    [
        (["A-1", "a-1"], ["m", "m"], ("A-1", "a-1")),
        (
            ["x", "caf\u00e9", "cafe\u0301"],
            ["m", "m", "m"],
            ("caf\u00e9", "cafe\u0301"),
        ),
        (["x-1", "y-1"], ["Film", "film"], ("Film", "film")),
        (["Ａ", "A", "a"], ["m", "m", "m"], ("A", "a")),
    ],
)
@pytest.mark.parametrize("format", ["npy", "pth"])
def test_names_that_a_disk_takes_for_one_are_found_before_anything_is_written(
    tmp_path: Path,
    disk_of_a_mac: Path,
    clips: list[str],
    films: list[str],
    pair: tuple[str, str],
    format: str,
) -> None:
    if format == "pth":
        pytest.importorskip("torch")
    plan_store(tmp_path / "s", len(clips), 4, clip_ids=clips, movie_ids=films)
    fill_store(tmp_path / "s", some_values(len(clips))).seal()
    store = open_store(tmp_path / "s")
    suffix = "" if pair[0] in films else f".{format}"
    said = re.escape(f"{pair[0] + suffix!r} and {pair[1] + suffix!r} would be one name")
    with pytest.raises(FixInput, match=said):
        export_store(store, disk_of_a_mac / "out", format, arrays=["clip"])
    assert list(disk_of_a_mac.iterdir()) == []
    # This disk keeps them apart.
    export_store(store, tmp_path / "out", format, arrays=["clip"])
    source = open_features(format, [tmp_path / "out"])
    assert sorted(source.clip_ids) == sorted(clips)
    source.close()


def test_labels_and_a_film_of_the_same_name_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    plan_store(tmp_path / "s", 1, 1, clip_ids=["a"], movie_ids=["labels.csv"])
    fill_store(tmp_path / "s", some_values(1)).seal()
    store = open_store(tmp_path / "s")
    labels = Manifest("m", Header("m"), (Clip("a", "labels.csv", level="S"),))
    with pytest.raises(
        FixInput, match=r"'labels.csv' and 'labels.csv' would be one name"
    ):
        export_store(store, tmp_path / "out", "pth", arrays=["clip"], labels=labels)
    export_store(store, tmp_path / "out", "pth", arrays=["clip"])


@pytest.mark.parametrize("array", ["level", "concepts"])
@pytest.mark.parametrize("format", ["hdf5", "npz", "npy"])
def test_labels_beside_an_array_of_the_same_name(
    tmp_path: Path, format: str, array: str
) -> None:
    sealed_store(
        tmp_path / "s", 3, 2, arrays=[ArraySpec(array, (2,)), ArraySpec("other", (3,))]
    )
    store = open_store(tmp_path / "s")
    clips = tuple(Clip(clip, "m", level="S", concepts=("Look",)) for clip in store)
    labels = Manifest("m", Header("m", {"Look": "visual"}), clips)
    if format == "npz":
        with pytest.raises(
            FixUsage, match=f"the array '{array}' and the {array} of labels"
        ):
            export_store(store, tmp_path / "out", format, labels=labels)
        assert not (tmp_path / "out").exists()
        return
    export_store(store, tmp_path / "out", format, labels=labels)
    source = open_features(format, [tmp_path / "out"])
    import_store(source, tmp_path / "again")
    source.close()
    same(store, open_store(tmp_path / "again"), (array, "other"))


FOREIGN = {
    "empty": b"",
    "text": b"years of work",
    "table": b"clip_id,movie_id,rating\nm-1,m,5\n",
    "numbers": b"clip_id,movie_id,clip_0,other_1\nm-1,m,5,6\n",
    "json": b'{"fingerprint": "x", "recipe": {}, "created_by": "somebody"}',
}


def foreign_files(folder: Path, format: str) -> list[Path]:
    """Files that obygaze did not write in this format: of another kind, of other programs."""
    folder.mkdir()
    files = [folder / name for name in FOREIGN]
    for path in files:
        path.write_bytes(FOREIGN[path.name])
    np.savez(folder / "npz", clip_id=["a"], X=[[1.0]])
    (folder / "npz.npz").rename(folder / "npz")
    with h5py.File(folder / "hdf5", "w") as file:
        file["a"] = [1.0]
    (folder / "link").symlink_to(folder / "text")
    (folder / "dangling").symlink_to(folder / "nothing")
    os.mkfifo(folder / "pipe")
    return [
        *files,
        *(folder / name for name in ("npz", "hdf5", "link", "dangling", "pipe")),
    ]


@pytest.mark.parametrize("format", ["hdf5", "npz", "pack"])
def test_force_replaces_a_file_of_the_same_kind_and_no_other(
    tmp_path: Path, sealed: Path, format: str
) -> None:
    """Before, `--force` replaced whatever file had the name, of any kind.

    `pack` refuses the names of other kinds at once (exit code 2).
    """
    store = open_store(sealed)

    def write(path: Path) -> int:
        if format == "pack":
            return call_obygaze("store", "pack", sealed, "-o", path, "--force").code
        return call_obygaze("store", "export", format, sealed, path, "--force").code

    write(tmp_path / "own")
    own = (tmp_path / "own").read_bytes()
    others = foreign_files(tmp_path / "foreign", format)
    for other in ("hdf5", "npz"):
        if other != format:
            export_store(store, tmp_path / f"{other}.export", other, arrays=["clip"])
            others.append(tmp_path / f"{other}.export")
    if format != "pack":
        pack(store, tmp_path / "packed")
        others.append(tmp_path / "packed")
    before = {path: path.read_bytes() for path in others if path.is_file()}
    for path in others:
        has_other_name = format == "pack" and bool(path.suffix)
        assert write(path) == (2 if has_other_name else 1), path
        assert path.is_fifo() or path.is_symlink() or path.is_file()
    assert {path: path.read_bytes() for path in before} == before
    assert not list(tmp_path.rglob(".*"))
    (tmp_path / "own").write_bytes(own + b"")
    assert write(tmp_path / "own") == 0
    assert (tmp_path / "own").read_bytes() == own or format == "hdf5"
