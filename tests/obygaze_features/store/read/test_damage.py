"""Damaged, odd and hostile stores: found, named, and never read as numbers."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.store_damage import a_copy, changed, files_of, flip
from support.stores import fill_store, plan_store, sealed_store, some_values

from obygaze_features.core.errors import (
    Corrupt,
    FixInput,
    Mismatch,
    NotFound,
    ObygazeError,
)
from obygaze_features.store import ArraySpec, StoreWriter, open_store, pack, pull
from obygaze_features.store.format.records import Marker, Seal
from obygaze_features.store.format.schema import FileMark
from obygaze_features.store.read.verify import verify

# 131 kB a clip: blocks of 64 are shards.
LARGE = ArraySpec("tokens", (64, 1024), dtype="float16")


def kind(path: Path, root: Path) -> str:
    """A file's kind: one bit in every file would say the same about each of a kind twenty times."""
    words = path.relative_to(root).parts
    if words[0] == "commits":
        return "marker"
    return "/".join(words[:2]) + (
        "/chunk" if words[-1].startswith("c.") else "/" + words[-1]
    )


def one_of_each_kind(root: Path) -> list[Path]:
    return list({kind(file, root): file for file in files_of(root)}.values())


@pytest.fixture(scope="module")
def sealed(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, dict[str, np.ndarray]]:
    """A sealed store with chunks, one with compressed chunks would be the same to a reader."""
    path = tmp_path_factory.mktemp("whole") / "s"
    return path, sealed_store(path)


@pytest.fixture(scope="module")
def sharded(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, dict[str, np.ndarray]]:
    path = tmp_path_factory.mktemp("sharded") / "s"
    return path, sealed_store(path, 70, 64, arrays=(LARGE,))


def read_everything(path: Path) -> None:
    store = open_store(path)
    assert len(store.movie_ids) == store.n_clips
    for spec in store.plan.arrays:
        store.matrix(spec.name, clips=store.clip_ids)


@pytest.mark.parametrize(
    "which",
    [
        "sealed",
        pytest.param("sharded", marks=pytest.mark.check("reads large files each time")),
    ],
)
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
            assert [p.name for p in report.problems] == [str(file.relative_to(path))], (
                file,
                bit,
            )
            with pytest.raises(Corrupt) as caught:
                report.require_whole()
            assert caught.value.exit_code == 4
            # The index of a shard is not used where it is known where its chunks are.
            if file.name.startswith("c.") and which == "sealed":
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


def test_a_flipped_bit_in_a_marker_or_a_block_of_an_open_store_is_found(
    tmp_path: Path,
) -> None:
    plan_store(tmp_path / "s")
    fill_store(tmp_path / "s", some_values(23), blocks=[0, 3])
    random = np.random.default_rng(11)
    for name in ("commits/block-00003.json", "data.zarr/frames/c.3.0.0", "clips.csv"):
        file = tmp_path / "s" / name
        original = file.read_bytes()
        for bit in random.integers(8 * len(original), size=12).tolist():
            flip(file, bit)
            assert [p.name for p in verify(tmp_path / "s", hashes=True).problems] == [
                name
            ]
            file.write_bytes(original)


def test_the_error_names_the_block(sealed, tmp_path: Path) -> None:
    path = a_copy(sealed[0], tmp_path)
    flip(path / "data.zarr/pooled/c.3.0", 100)
    with pytest.raises(Corrupt, match=r"data\.zarr/pooled/c\.3\.0"):
        open_store(path).matrix("pooled")
    found = open_store(path).matrix("pooled", films="tt0000100")
    np.testing.assert_array_equal(found.values, sealed[1]["pooled"][:5])


@pytest.mark.parametrize("which", ["sealed", "sharded"])
@pytest.mark.parametrize("length", [0, 1, 99])
def test_a_shortened_or_empty_file_is_never_read(
    which, length, request, tmp_path
) -> None:
    path = a_copy(request.getfixturevalue(which)[0], tmp_path)
    name = open_store(path).feature_arrays[-1]
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
    with pytest.raises(Corrupt, match=r"is missing(.|\n)*frames/c\.0"):
        open_store(path).matrix("frames")
    np.testing.assert_array_equal(
        open_store(path).matrix("clip").values, sealed[1]["clip"]
    )
    assert len(verify(path).problems) == 7  # six blocks and zarr.json


def test_a_store_of_a_later_version_asks_for_an_update(sealed, tmp_path: Path) -> None:
    for name in ("store.json", "seal.json"):
        path = a_copy(sealed[0], tmp_path / name)
        value = json.loads((path / name).read_bytes())
        (path / name).write_text(json.dumps({**value, "version": 3}))
        with pytest.raises(Mismatch, match="lower, got 3") as caught:
            open_store(path).matrix("clip")
        assert caught.value.exit_code == 5
        assert "--upgrade obygaze" in str(caught.value)


def test_something_else_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such file or folder"):
        open_store(tmp_path / "nothing")
    with pytest.raises(NotFound, match=r"no store\.json"):
        open_store(tmp_path)
    for text in ("{}", "[1]", "{", ""):
        (tmp_path / "store.json").write_text(text)
        with pytest.raises((Corrupt, Mismatch)):
            open_store(tmp_path)


def test_a_file_nested_beyond_measure_is_damaged_and_no_bug(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text("[" * 100_000)
    with pytest.raises(Corrupt, match="invalid JSON"):
        open_store(tmp_path)


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
        ({"block": 3}, "marker is of block 3"),
        ({"rows": [0, 4]}, "marker is of block 2"),
        ({"files": None}, "invalid for format"),
        ({"noted": {"8": {"state": "fine"}}}, "unknown state"),
        ({"noted": {"8": {"mood": "fine"}}}, "invalid for format"),
        ({"noted": {"8": {"state": "failed", "message": 3}}}, "not text"),
    ],
)
def test_a_marker_that_makes_no_sense_is_refused(
    tmp_path: Path, changes, words
) -> None:
    plan_store(tmp_path / "s")
    fill_store(tmp_path / "s", some_values(23))
    changed(tmp_path / "s/commits/block-00002.json", **changes)
    with pytest.raises(Corrupt, match=words):
        open_store(tmp_path / "s").matrix("clip")


def test_a_block_of_another_recipe_is_refused_with_the_keys_that_differ(
    tmp_path: Path,
) -> None:
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
    assert [p.name for p in verify(path, hashes=True).problems] == [
        "data.zarr/clip/c.0.0"
    ]


def test_a_link_to_a_folder_inside_a_store_is_refused(sealed, tmp_path: Path) -> None:
    path = a_copy(sealed[0], tmp_path)
    (path / "data.zarr/clip").rename(tmp_path / "outside")
    (path / "data.zarr/clip").symlink_to(tmp_path / "outside")
    with pytest.raises(FixInput, match="symbolic links"):
        open_store(path).matrix("clip")
    (path / "data.zarr").rename(tmp_path / "away")
    (path / "data.zarr").symlink_to(tmp_path / "away")
    with pytest.raises(FixInput, match="symbolic links"):
        open_store(path).matrix("clip")


def test_markers_know_their_own_bytes(sealed) -> None:
    seal = (sealed[0] / "seal.json").read_bytes()
    with pytest.raises(Corrupt, match="invalid for format"):
        Marker.from_bytes(seal, "seal.json")


def test_a_writer_does_not_open_what_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        StoreWriter(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        *("data.zarr/clip/c.x", "data.zarr/clip/c.", "data.zarr/clip/c.\u00b2.0"),
        *(f"data.zarr/clip/c.{'9' * 5000}.0", "data.zarr/clip/c.0.0/x", "x" * 300),
    ],
)
def test_a_seal_that_lists_a_file_of_no_block_is_an_error_for_the_user(
    sealed, tmp_path: Path, name: str
) -> None:
    """The first four ended as a bug of obygaze when the store was pulled or packed."""
    path = a_copy(sealed[0], tmp_path)
    seal = Seal.load(path)
    listed = {**seal.files, name: FileMark(3, "ab" * 32)}
    (path / "seal.json").write_bytes(replace(seal, files=listed).to_bytes())
    report = tmp_path / "got"
    for work in (
        lambda: pull(path, report),
        lambda: pack(open_store(path), tmp_path / "p.zip"),
    ):
        with pytest.raises((ObygazeError, OSError)) as error:
            work()
        assert isinstance(error.value, ObygazeError) or error.value.errno is not None
    assert not report.exists() and not (tmp_path / "p.zip").exists()
