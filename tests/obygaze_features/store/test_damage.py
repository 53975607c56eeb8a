"""Damaged, odd and hostile stores: found, named, and never read as numbers."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.stores import fill_store, plan_store, sealed_store, some_values

from obygaze_features.core.errors import Corrupt, FixInput, Mismatch, NotFound, ObygazeError
from obygaze_features.store import ArraySpec, StoreWriter, TextTable, open_store
from obygaze_features.store.records import Marker
from obygaze_features.store.stamped import stamp
from obygaze_features.store.verify import verify

LARGE = ArraySpec("tokens", (64, 1024), dtype="float16")  # 131 kB a clip: blocks of 64 are shards


def files_of(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file())


def kind(path: Path, root: Path) -> str:
    """A file's kind: one bit in every file would say the same about each of a kind twenty times."""
    words = path.relative_to(root).parts
    if words[0] == "commits":
        return "marker"
    return "/".join(words[:2]) + ("/chunk" if words[-1].startswith("c.") else "/" + words[-1])


def one_of_each_kind(root: Path) -> list[Path]:
    return list({kind(file, root): file for file in files_of(root)}.values())


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    """A sealed store with chunks, one with compressed chunks would be the same to a reader."""
    path = tmp_path_factory.mktemp("whole") / "s"
    return path, sealed_store(path)


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    path = tmp_path_factory.mktemp("sharded") / "s"
    return path, sealed_store(path, 70, 64, arrays=(LARGE,))


def a_copy(whole: Path, tmp_path: Path) -> Path:
    target = tmp_path / "s"
    shutil.copytree(whole, target)
    return target


def read_everything(path: Path) -> None:
    store = open_store(path)
    assert len(store.movie_ids) == store.n_clips
    for spec in store.plan.arrays:
        store.matrix(spec.name, clips=store.clip_ids)


@pytest.mark.parametrize("which", ["sealed", "sharded"])
def test_a_flipped_bit_anywhere_is_found_and_named(which, request, tmp_path) -> None:
    whole, values = request.getfixturevalue(which)
    random = np.random.default_rng(7)
    path = a_copy(whole, tmp_path)
    kinds = 0
    for file in one_of_each_kind(path):
        original = file.read_bytes()
        n_bits = 8 * len(original)
        for bit in {
            0,
            n_bits - 1,
            *random.integers(n_bits, size=8 if n_bits < 1e6 else 3).tolist(),
        }:
            flip(file, bit)
            report = verify(path, hashes=True)
            assert [p.name for p in report.problems] == [str(file.relative_to(path))], (file, bit)
            with pytest.raises(Corrupt) as caught:
                report.require_whole()
            assert caught.value.exit_code == 4
            if file.name.startswith("c."):
                with pytest.raises(Corrupt):
                    read_everything(path)
            else:
                check_reading_raises_or_is_right(path, values)
            file.write_bytes(original)
        kinds += 1
    assert not verify(path, hashes=True).problems
    assert kinds == (17 if which == "sealed" else 11)


def check_reading_raises_or_is_right(path: Path, values: dict[str, np.ndarray]) -> None:
    try:
        store = open_store(path)
        for name, array in values.items():
            np.testing.assert_array_equal(store.matrix(name).values, array)
    except ObygazeError:
        return


def test_a_flipped_bit_in_a_marker_or_a_block_of_an_open_store_is_found(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    fill_store(tmp_path / "s", some_values(23), blocks=[0, 3])
    random = np.random.default_rng(11)
    for name in ("commits/block-00003.json", "data.zarr/frames/c.3.0.0", "clips.csv"):
        file = tmp_path / "s" / name
        original = file.read_bytes()
        for bit in random.integers(8 * len(original), size=12).tolist():
            flip(file, bit)
            assert [p.name for p in verify(tmp_path / "s", hashes=True).problems] == [name]
            file.write_bytes(original)


def test_the_error_names_the_block(sealed, tmp_path: Path) -> None:
    path = a_copy(sealed[0], tmp_path)
    flip(path / "data.zarr/pooled/c.3.0", 100)
    with pytest.raises(Corrupt, match=r"data\.zarr/pooled/c\.3\.0"):
        open_store(path).matrix("pooled")
    found = open_store(path).matrix("pooled", movies="tt0000100")
    np.testing.assert_array_equal(found.values, sealed[1]["pooled"][:5])


@pytest.mark.parametrize("which", ["sealed", "sharded"])
@pytest.mark.parametrize("length", [0, 1, 99])
def test_a_shortened_or_empty_file_is_never_read(which, length, request, tmp_path) -> None:
    path = a_copy(request.getfixturevalue(which)[0], tmp_path)
    name = open_store(path).levels[-1]
    file = sorted((path / "data.zarr" / name).glob("c.1.*"))[0]
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(Corrupt, match=f"has {length} bytes"):
        open_store(path).matrix(name)
    assert [p.name for p in verify(path).problems] == [str(file.relative_to(path))]


def test_an_absent_file_is_never_read_as_fill_values(sealed, tmp_path: Path) -> None:
    for name in ("data.zarr/clip/c.2.0", "data.zarr/clip_id/c.0"):
        path = a_copy(sealed[0], tmp_path / name.replace("/", "-"))
        (path / name).unlink()
        with pytest.raises(Corrupt, match="is missing"):
            open_store(path).matrix("clip", clips=["tt0000101-005"])
        assert [str(p) for p in verify(path).problems] == [f"{name}: it is missing"]


def test_a_missing_array_is_named(sealed, tmp_path: Path) -> None:
    path = a_copy(sealed[0], tmp_path)
    shutil.rmtree(path / "data.zarr/frames")
    with pytest.raises(Corrupt, match="'frames' is missing"):
        open_store(path).matrix("frames")
    np.testing.assert_array_equal(open_store(path).matrix("clip").values, sealed[1]["clip"])
    assert len(verify(path).problems) == 7  # six blocks and zarr.json


def test_a_store_of_a_later_version_asks_for_an_update(sealed, tmp_path: Path) -> None:
    for name in ("store.json", "seal.json"):
        path = a_copy(sealed[0], tmp_path / name)
        value = json.loads((path / name).read_bytes())
        (path / name).write_text(json.dumps({**value, "version": 2}))
        with pytest.raises(Mismatch, match="version 2") as caught:
            open_store(path).matrix("clip")
        assert caught.value.exit_code == 5
        assert "--upgrade obygaze" in str(caught.value)


def test_something_else_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no store"):
        open_store(tmp_path / "nothing")
    with pytest.raises(NotFound, match=r"no store\.json"):
        open_store(tmp_path)
    for text in ("{}", "[1]", "{", ""):
        (tmp_path / "store.json").write_text(text)
        with pytest.raises((Corrupt, Mismatch)):
            open_store(tmp_path)


def test_a_file_nested_beyond_measure_is_damaged_and_no_bug(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text("[" * 100_000)
    with pytest.raises(Corrupt, match="not a whole JSON file"):
        open_store(tmp_path)


def changed(path: Path, **changes: object) -> None:
    """Rewrite a stamped file with other values, as a program with a fault would."""
    value = json.loads(path.read_bytes())
    value.pop("sha256")
    path.write_bytes(stamp({**value, **changes}))


def test_a_marker_that_lies_about_a_length_is_caught(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    fill_store(tmp_path / "s", some_values(23))
    marker = tmp_path / "s/commits/block-00002.json"
    files = json.loads(marker.read_bytes())["files"]
    files["data.zarr/clip/c.2.0"][0] += 1
    changed(marker, files=files)
    with pytest.raises(Corrupt, match="69 bytes were committed"):
        open_store(tmp_path / "s").matrix("clip")
    assert [p.name for p in verify(tmp_path / "s").problems] == ["data.zarr/clip/c.2.0"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"block": 3}, "speaks of block 3"),
        ({"rows": [0, 4]}, "speaks of block 2"),
        ({"files": None}, "promises"),
        ({"noted": {"8": {"state": "fine"}}}, "unknown state"),
        ({"noted": {"8": {"mood": "fine"}}}, "promises"),
        ({"noted": {"8": {"state": "failed", "message": 3}}}, "not made of words"),
    ],
)
def test_a_marker_that_makes_no_sense_is_refused(tmp_path: Path, changes, words) -> None:
    plan_store(tmp_path / "s")
    fill_store(tmp_path / "s", some_values(23))
    changed(tmp_path / "s/commits/block-00002.json", **changes)
    with pytest.raises(Corrupt, match=words):
        open_store(tmp_path / "s").matrix("clip")


def test_a_block_of_another_recipe_is_refused_with_the_keys_that_differ(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    plan_store(tmp_path / "other", recipe=other_recipe())
    fill_store(tmp_path / "other", some_values(23))
    shutil.copy(tmp_path / "other/commits/block-00001.json", tmp_path / "s/commits")
    with pytest.raises(Mismatch, match=r"sampling\.frames, sampling\.rule") as caught:
        open_store(tmp_path / "s").matrix("clip", missing="drop")
    assert caught.value.exit_code == 5
    assert "sampling.frames: 3 here, 5 there" in caught.value.details


def other_recipe():
    from support.stores import a_recipe

    return a_recipe(sampling={"rule": "random", "frames": 5})


def test_a_link_inside_a_store_is_refused(sealed, tmp_path: Path) -> None:
    path = a_copy(sealed[0], tmp_path)
    outside = tmp_path / "outside"
    (path / "data.zarr/clip/c.0.0").rename(outside)
    (path / "data.zarr/clip/c.0.0").symlink_to(outside)
    with pytest.raises(FixInput, match="symbolic link"):
        open_store(path).matrix("clip")
    assert [p.name for p in verify(path, hashes=True).problems] == ["data.zarr/clip/c.0.0"]


def test_a_link_to_a_folder_inside_a_store_is_refused(sealed, tmp_path: Path) -> None:
    path = a_copy(sealed[0], tmp_path)
    (path / "data.zarr/clip").rename(tmp_path / "outside")
    (path / "data.zarr/clip").symlink_to(tmp_path / "outside")
    with pytest.raises(FixInput, match="by a link"):
        open_store(path).matrix("clip")
    (path / "data.zarr").rename(tmp_path / "away")
    (path / "data.zarr").symlink_to(tmp_path / "away")
    with pytest.raises(FixInput, match="by a link"):
        open_store(path).matrix("clip")


@pytest.mark.parametrize("bad", ["../outside/file", "/outside/file", "data.zarr//x", "a\\b"])
def test_a_seal_cannot_make_a_check_look_outside(sealed, tmp_path: Path, bad: str) -> None:
    path = a_copy(sealed[0], tmp_path)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("x")
    value = json.loads((path / "seal.json").read_bytes())
    value["files"][bad] = [1, "0" * 64]
    del value["sha256"]
    (path / "seal.json").write_bytes(stamp(value))
    report = verify(path, hashes=True)
    assert [problem.name for problem in report.problems] == ["seal.json"]
    assert repr(bad) in report.problems[0].what
    assert report.warnings == []
    with pytest.raises(Corrupt, match="names a file"):
        open_store(path).matrix("clip")


def restamped(path: Path, **changes: object) -> None:
    """store.json as another writer might have made it, and a seal that goes with it."""
    store, seal = (json.loads((path / f"{name}.json").read_bytes()) for name in ("store", "seal"))
    del store["sha256"], seal["sha256"]
    noted = changes.pop("noted", {})
    data = stamp({**store, **changes})
    (path / "store.json").write_bytes(data)
    seal["files"]["store.json"] = [len(data), hashlib.sha256(data).hexdigest()]
    (path / "seal.json").write_bytes(stamp({**seal, "noted": noted}))


GHOST = {"name": "ghost", "tail_shape": [3], "dims": ["d3"], "dtype": "float32"}


def test_what_a_store_plans_and_nobody_promises_is_found(sealed, tmp_path: Path) -> None:
    path = a_copy(sealed[0], tmp_path)
    arrays = json.loads((path / "store.json").read_bytes())["arrays"]
    restamped(path, arrays=[*arrays, GHOST])
    problems = verify(path).problems
    names = {problem.name for problem in problems}
    assert names == {
        "data.zarr/ghost/zarr.json",
        *(f"data.zarr/ghost/c.{block}.0" for block in range(6)),  # 23 clips in blocks of 4
    }
    with pytest.raises(Corrupt, match="missing"):
        open_store(path).matrix("ghost")
    restamped(path, arrays=arrays)
    assert not verify(path, hashes=True).problems


def test_arrays_of_another_layout_than_the_plan_are_found(sealed, tmp_path: Path) -> None:
    path = a_copy(sealed[0], tmp_path)
    restamped(path, block_rows=23)
    named = {problem.name for problem in verify(path).problems}
    assert {"data.zarr/clip/zarr.json", "data.zarr/time_s/zarr.json"} <= named
    with pytest.raises(Corrupt, match="layout"):
        open_store(path).matrix("clip")


@pytest.mark.parametrize("row", ["23", "-1"])
def test_a_seal_that_speaks_of_rows_there_are_none_of(sealed, tmp_path: Path, row: str) -> None:
    path = a_copy(sealed[0], tmp_path)
    failed = {"state": "failed", "stage": "decode", "error": "E", "message": "m"}
    restamped(path, noted={row: failed})
    assert [problem.name for problem in verify(path).problems] == ["seal.json"]
    with pytest.raises(Corrupt, match=f"row {row}"):
        open_store(path).status()


@pytest.mark.parametrize("arrays", [{}, [], [GHOST, GHOST]])
def test_a_plan_has_arrays_each_of_a_name_of_its_own(sealed, tmp_path: Path, arrays) -> None:
    path = a_copy(sealed[0], tmp_path)
    restamped(path, arrays=arrays)
    with pytest.raises(Corrupt, match="no arrays, or two of one name"):
        open_store(path)
    assert [problem.name for problem in verify(path).problems] == ["store.json"]


def test_a_seal_that_is_lost_is_missed(sealed, tmp_path: Path) -> None:
    path = a_copy(sealed[0], tmp_path)
    (path / "seal.json").unlink()
    blocks = {str(file.relative_to(path)) for file in files_of(path / "data.zarr")}
    ids = {"data.zarr/clip_id/c.0", "data.zarr/movie_id/c.0"}
    named = {problem.name for problem in verify(path).problems}
    assert named == {name for name in blocks - ids if not name.endswith("zarr.json")}


def test_a_damaged_marker_of_texts_is_one_problem_among_others(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    writer = fill_store(tmp_path / "s", some_values(23))
    words = {name: ["x"] for name in ("prompt", "template", "attribute")}
    writer.add_text(TextTable(embeddings=np.ones((1, 4), np.float32), space_id="s", **words))
    assert not verify(tmp_path / "s", hashes=True).problems
    flip(tmp_path / "s/commits/text.json", 8 * 200)
    flip(tmp_path / "s/data.zarr/clip/c.2.0", 8 * 20)
    named = [problem.name for problem in verify(tmp_path / "s", hashes=True).problems]
    assert named == ["commits/text.json", "data.zarr/clip/c.2.0"]


def test_a_marker_that_is_lost_is_missed_and_one_to_come_is_not(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    fill_store(tmp_path / "s", some_values(23), blocks=[0, 1])
    assert not verify(tmp_path / "s", hashes=True).problems
    marker = tmp_path / "s/commits/block-00001.json"
    marker.rename(tmp_path / "marker")
    assert {problem.name for problem in verify(tmp_path / "s").problems} == {
        "data.zarr/clip/c.1.0",
        "data.zarr/frames/c.1.0.0",
        "data.zarr/pooled/c.1.0",
        "data.zarr/time_s/c.1.0",
    }
    # Between placing a block's files and publishing its marker there is the claim.
    (tmp_path / "s/staging/block-00001").mkdir()
    assert not verify(tmp_path / "s").problems


def test_things_nobody_promised_are_warned_of_and_ignored(sealed, tmp_path: Path) -> None:
    path = a_copy(sealed[0], tmp_path)
    (path / "data.zarr/notes.txt").write_text("hello")
    (path / "data.zarr/extra").mkdir()
    (path / "data.zarr/extra/zarr.json").write_text("{}")
    (path / "data.zarr/clip/c.9.0").write_bytes(b"")
    report = verify(path, hashes=True)
    assert not report.problems
    assert sorted(report.warnings) == [
        "data.zarr/clip/c.9.0 is not part of the store",
        "data.zarr/extra is not part of the store",
        "data.zarr/notes.txt is not part of the store",
    ]
    np.testing.assert_array_equal(open_store(path).matrix("clip").values, sealed[1]["clip"])


def test_keys_and_dtypes_of_a_later_release_do_not_stop_a_reader(sealed, tmp_path: Path) -> None:
    path = a_copy(sealed[0], tmp_path)
    value = json.loads((path / "store.json").read_bytes())
    arrays = [*value["arrays"], {**value["arrays"][0], "name": "later", "unit": "new"}]
    changed(path / "store.json", arrays=arrays, something="new")
    np.testing.assert_array_equal(open_store(path).matrix("clip").values, sealed[1]["clip"])
    with pytest.raises(Corrupt, match="'later' is missing"):
        open_store(path).matrix("later")


def test_a_layout_that_is_not_the_promised_one_is_refused(sealed, tmp_path: Path) -> None:
    path = a_copy(sealed[0], tmp_path)
    changed(path / "store.json", block_rows=5)
    with pytest.raises(Corrupt, match="layout"):
        open_store(path).matrix("clip")


@pytest.mark.parametrize("tail", [[2**40], [2**32, 2**32], [2**31, 2**31, 2**31]])
def test_more_than_the_memory_of_the_machine_is_refused(sealed, tmp_path, tail) -> None:
    path = a_copy(sealed[0], tmp_path)
    value = json.loads((path / "store.json").read_bytes())
    dims = [f"x{i}" for i in range(len(tail))]
    value["arrays"][0].update(tail_shape=tail, dims=dims)
    changed(path / "store.json", arrays=value["arrays"])
    for missing in ("error", "nan", "drop"):
        with pytest.raises(FixInput, match="do not fit"):
            open_store(path).matrix("clip", missing=missing)


@pytest.mark.parametrize("n_clips", [0, -1, 10**12, "23", None])
def test_a_number_of_clips_that_cannot_be_is_refused(sealed, tmp_path: Path, n_clips) -> None:
    path = a_copy(sealed[0], tmp_path)
    changed(path / "store.json", n_clips=n_clips)
    with pytest.raises(Corrupt, match="not a number of clips"):
        open_store(path)


def test_markers_know_their_own_bytes(sealed) -> None:
    seal = (sealed[0] / "seal.json").read_bytes()
    with pytest.raises(Corrupt, match="promises"):
        Marker.from_bytes(seal, "seal.json")


def test_a_writer_does_not_open_what_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        StoreWriter(tmp_path)
