"""Committing blocks: once, whole, by anyone; redoing what failed; closing the store."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.stores import block_of, fill_store, plan_store, some_values

from obygaze_features.core.errors import AlreadyThere, FixInput, Mismatch
from obygaze_features.core.holds import hold_new, new_tag
from obygaze_features.store import (
    ArraySpec,
    RowSource,
    RowStatus,
    StoreWriter,
    TextTable,
    open_store,
)
from obygaze_features.store.read.verify import verify
from obygaze_features.store.write import commit, seal

BAD = RowStatus.failed("decode", "InvalidDataError", "moov atom not found")


def tree(path: Path) -> dict[str, bytes]:
    return {
        str(f.relative_to(path)): f.read_bytes() for f in path.rglob("*") if f.is_file()
    }


def test_a_block_is_one_file_an_array_and_a_marker(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    before = set(tree(tmp_path / "s"))
    fill_store(tmp_path / "s", some_values(23), blocks=[5])
    assert set(tree(tmp_path / "s")) - before == {
        "commits/block-00005.0.taken",
        "commits/block-00005.json",
        "data.zarr/clip/c.5.0",
        "data.zarr/pooled/c.5.0",
        "data.zarr/frames/c.5.0.0",
        "data.zarr/time_s/c.5.0",
    }
    assert not list((tmp_path / "s/staging").iterdir())


def test_a_marker_says_what_was_committed_how_and_where(tmp_path: Path) -> None:
    plan = plan_store(tmp_path / "s")
    fill_store(tmp_path / "s", some_values(23), {21: BAD}, blocks=[5])
    marker = json.loads((tmp_path / "s/commits/block-00005.json").read_bytes())
    assert marker["rows"] == [20, 23]
    assert marker["fingerprint"] == plan.recipe.fingerprint
    assert marker["noted"] == {
        "21": {
            "state": "failed",
            "stage": "decode",
            "error": "InvalidDataError",
            "message": "moov atom not found",
        }
    }
    assert marker["seconds"] == {"decode": 0.5} and marker["versions"] == {"toy": "1"}
    # 4 rows of 4 float32 and the checksum: the last block is padded to the length of a chunk.
    assert marker["files"]["data.zarr/clip/c.5.0"][0] == 4 * 4 * 4 + 4


def test_the_same_content_again_changes_nothing(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    values = some_values(23)
    writer = fill_store(tmp_path / "s", values)
    before = tree(tmp_path / "s")
    again = StoreWriter(tmp_path / "s")
    assert (
        again.commit_block(2, block_of(values, (8, 12)), seconds={"decode": 99.0})
        is False
    )
    assert tree(tmp_path / "s") == before
    writer.seal()
    before = tree(tmp_path / "s")
    assert again.commit_block(2, block_of(values, (8, 12))) is False
    assert tree(tmp_path / "s") == before


@pytest.mark.parametrize("sealed", [False, True])
def test_other_content_is_an_error_that_names_the_block(
    tmp_path: Path, sealed: bool
) -> None:
    plan_store(tmp_path / "s")
    values = some_values(23)
    writer = fill_store(tmp_path / "s", values)
    if sealed:
        writer.seal()
    before = tree(tmp_path / "s")
    with pytest.raises(Mismatch, match="block 2 was committed before"):
        writer.commit_block(2, block_of(some_values(23, seed=1), (8, 12)))
    with pytest.raises(Mismatch, match="block 2 was committed before"):
        writer.commit_block(2, block_of(values, (8, 12)), [BAD, *[RowStatus()] * 3])
    assert tree(tmp_path / "s") == before


def test_a_writer_of_another_recipe_is_refused(tmp_path: Path) -> None:
    from support.stores import a_recipe

    plan_store(tmp_path / "s")
    with pytest.raises(Mismatch, match=r"compute\.dtype"):
        StoreWriter(
            tmp_path / "s",
            recipe=a_recipe(compute={"dtype": "bfloat16", "attention": "eager"}),
        )


def test_rows_that_failed_hold_nothing(tmp_path: Path) -> None:
    plan_store(
        tmp_path / "s",
        arrays=(ArraySpec("clip", (4,)), ArraySpec("mask", (2,), dtype="bool")),
    )
    values = {"clip": np.ones((23, 4), np.float32), "mask": np.ones((23, 2), bool)}
    fill_store(tmp_path / "s", values, {1: BAD})
    store = open_store(tmp_path / "s")
    raw = {
        spec.name: store.arrays.read(spec, np.arange(23)) for spec in store.plan.arrays
    }
    assert np.isnan(raw["clip"][1]).all() and not raw["mask"][1].any()
    assert (np.delete(raw["clip"], 1, axis=0) == 1).all()
    assert values["clip"].all()  # what the caller gave is left as it was


@pytest.mark.parametrize("tail", [(4,), (64, 1024)])
def test_a_block_in_which_every_clip_failed_is_a_whole_block(
    tmp_path: Path, tail
) -> None:
    plan_store(tmp_path / "s", 130, 64, arrays=(ArraySpec("clip", tail),))
    values = some_values(130, (ArraySpec("clip", tail),))
    fill_store(tmp_path / "s", values, dict.fromkeys(range(64), BAD)).seal()
    assert not verify(tmp_path / "s", hashes=True).problems
    store = open_store(tmp_path / "s")
    found = store.matrix("clip", missing="nan")
    np.testing.assert_array_equal(found.values[64:], values["clip"][64:])
    assert np.isnan(found.values[:64]).all()
    assert np.isnan(store.arrays.read(store.plan.array("clip"), np.arange(64))).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"clip": np.zeros((3, 4), np.float32)},
            r"shape is \(3, 4\), the store has \(4, 4\)",
        ),
        ({"clip": np.zeros((4, 4), np.complex64)}, "cannot be stored as float32"),
        ({"extra": np.zeros((4, 4))}, "got clip, extra, frames"),
        ({"clip": np.array([[1, 2, 3, np.nan]] * 4, np.float32)}, "not finite"),
        (
            {"frames": np.full((4, 3, 4), 1e6, np.float32)},
            "row 8 and 3 more are ok but not finite",
        ),
    ],
)
def test_what_cannot_be_a_block_is_refused(tmp_path: Path, change, words) -> None:
    plan_store(tmp_path / "s")
    writer = StoreWriter(tmp_path / "s")
    block = block_of(some_values(23), (8, 12))
    with pytest.raises(FixInput, match=words):
        writer.commit_block(2, {**block, **change})
    with pytest.raises(FixInput, match="3 statuses for the 4 rows"):
        writer.commit_block(2, block, [RowStatus()] * 3)
    with pytest.raises(FixInput, match="block must be 0 to 5, got 6"):
        writer.commit_block(6, block)
    assert writer.pending_blocks() == list(range(6))


def test_float32_is_stored_in_the_stores_own_type(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    values = some_values(23)
    wide = {
        **values,
        "frames": np.linspace(0, 1, 23 * 12, dtype="f4").reshape(23, 3, 4),
    }
    fill_store(tmp_path / "s", wide)
    found = open_store(tmp_path / "s").matrix("frames").values
    np.testing.assert_array_equal(found, wide["frames"].astype("f2"))


def test_every_half_that_is_finite_is_stored_and_no_other(tmp_path: Path) -> None:
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    specs = [ArraySpec("x", (len(finite) // 4,), dtype="float16")]
    plan_store(tmp_path / "s", 8, 4, arrays=specs)
    writer = StoreWriter(tmp_path / "s")
    writer.commit_block(0, {"x": finite.reshape(4, -1)})
    found = open_store(tmp_path / "s").matrix("x", missing="drop").values
    assert found.tobytes() == finite.tobytes()
    for odd in every[~np.isfinite(every)][::97]:
        values = finite.reshape(4, -1).copy()
        values[2, 7] = odd
        with pytest.raises(FixInput, match="row 6 and 0 more are ok but not finite"):
            writer.commit_block(1, {"x": values})


# ---- shards and compressors --------------------------------------------------------------------


@pytest.mark.parametrize("compressor", [None, "zstd", "blosc"])
@pytest.mark.parametrize("tail", [(256, 64), (2, 3)])
def test_every_layout_comes_back_and_is_one_file_a_block(
    tmp_path, compressor, tail
) -> None:
    tokens = ArraySpec("tokens", tail, dtype="float16")
    plan = plan_store(tmp_path / "s", 600, 300, arrays=(tokens,), compressor=compressor)
    values = some_values(600, (tokens,))
    fill_store(tmp_path / "s", values).seal()
    store = open_store(tmp_path / "s")
    rows = np.random.default_rng(0).permutation(600)
    clips = store.clip_ids[rows].tolist()
    np.testing.assert_array_equal(
        store.matrix("tokens", clips=clips).values, values["tokens"][rows]
    )
    one = store.matrix("tokens", clips=clips[:1]).values
    np.testing.assert_array_equal(one, values["tokens"][rows[:1]])
    chunk_files = sorted(p.name for p in (tmp_path / "s/data.zarr/tokens").glob("c.*"))
    assert chunk_files == ["c.0.0.0", "c.1.0.0"]
    chunk = plan.zarr["tokens/zarr.json"]["chunk_grid"]["configuration"]["chunk_shape"]
    assert chunk == [300, *tail]
    # 300 clips of 32768 bytes are 9.8 MB: more than a chunk may have, so whole clips in a shard.
    names = [codec["name"] for codec in plan.zarr["tokens/zarr.json"]["codecs"]]
    assert names[0] == ("sharding_indexed" if tail == (256, 64) else "bytes")


def test_inner_chunks_are_whole_clips_that_divide_a_block(tmp_path: Path) -> None:
    tokens = ArraySpec("tokens", (196, 768), dtype="float16")  # 301 kB a clip
    frames = ArraySpec("frames", (12, 768), dtype="float16")  # 18 kB a clip
    vector = ArraySpec("vector", (5_000,))
    arrays = (tokens, frames, vector)
    plan = plan_store(tmp_path / "s", 100, 64, arrays=arrays)
    # Of 128 kB a chunk: one clip that is larger; 7 clips, of which 4 divide 64; 6, of which 4.
    expected = {"tokens": [1, 196, 768], "frames": [4, 12, 768], "vector": [4, 5_000]}
    for name, chunk_shape in expected.items():
        sharding = plan.zarr[f"{name}/zarr.json"]["codecs"][0]["configuration"]
        assert sharding["chunk_shape"] == chunk_shape
    assert [codec["name"] for codec in sharding["codecs"]] == ["bytes", "crc32c"]


# ---- redo --------------------------------------------------------------------------------------


def test_rows_that_failed_can_be_redone_and_ok_rows_stay(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    values = some_values(23)
    writer = fill_store(
        tmp_path / "s", values, {9: BAD, 10: RowStatus.no_video(), 2: BAD}
    )
    assert writer.rows_to_retry() == {0: [2], 2: [9, 10]}
    other = some_values(23, seed=5)
    redone = writer.replace_rows(
        2, [10, 9], {n: v[[10, 9]] for n, v in other.items()}, [RowStatus(), BAD]
    )
    assert redone is True
    assert writer.rows_to_retry() == {0: [2], 2: [9]}
    marker = writer.marker(2)
    assert marker is not None and marker.revision == 1
    found = open_store(tmp_path / "s").matrix("frames", missing="drop")
    np.testing.assert_array_equal(
        found.values[found.rows == 10], other["frames"][10:11]
    )
    same = found.rows != 10
    np.testing.assert_array_equal(
        found.values[same], values["frames"][found.rows[same]]
    )
    assert not verify(tmp_path / "s", hashes=True).problems


def test_ok_rows_cannot_be_redone(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    values = some_values(23)
    writer = fill_store(tmp_path / "s", values, {9: BAD}, blocks=[2])
    arrays = {n: v[8:9] for n, v in values.items()}
    with pytest.raises(FixInput, match="row 8 is ok"):
        writer.replace_rows(2, [8], arrays, [RowStatus()])
    # It has no source to differ from.
    with pytest.raises(FixInput, match="row 8 is ok"):
        writer.replace_rows(
            2, [8], arrays, [RowStatus()], sources=[RowSource(1.0, 2.0)]
        )
    with pytest.raises(FixInput, match="row 7 is outside block 2, rows 8-11"):
        writer.replace_rows(2, [7], arrays, [RowStatus()])
    good = {n: v[9:10] for n, v in values.items()}
    for bad in (
        {},
        {**good, "clip": good["clip"][0]},
        {**good, "clip": good["clip"] + 1j},
    ):
        with pytest.raises(FixInput):
            writer.replace_rows(2, [9], bad, [RowStatus()])
    with pytest.raises(AlreadyThere, match="block 3 is not committed"):
        writer.replace_rows(3, [12], arrays, [RowStatus()])


def test_ok_rows_with_another_source_are_redone(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    values, other = some_values(23), some_values(23, seed=5)
    writer = StoreWriter(tmp_path / "s")
    sources = [
        RowSource(float(row), row + 1.0, 1000, "ab" * 32, 25) for row in range(8, 12)
    ]
    writer.commit_block(2, block_of(values, (8, 12)), sources=sources)
    with pytest.raises(FixInput, match="row 9 is ok"):
        ninth = {n: v[9:10] for n, v in other.items()}
        writer.replace_rows(2, [9], ninth, [RowStatus()], sources=[sources[1]])
    moved = RowSource(500.0, 530.0, 1000, "ab" * 32, 750)
    assert writer.replace_rows(2, [9], ninth, [RowStatus()], sources=[moved])
    # Another file that gives the same features is recorded too.
    swapped = RowSource(8.0, 9.0, 1001, "cd" * 32, 25)
    eighth = {n: v[8:9] for n, v in values.items()}
    assert writer.replace_rows(2, [8], eighth, [RowStatus()], sources=[swapped])
    marker = writer.marker(2)
    assert marker is not None and marker.revision == 2
    assert marker.sources == {8: swapped, 9: moved, 10: sources[2], 11: sources[3]}
    found = open_store(tmp_path / "s").matrix("clip", missing="drop")
    expected = np.concatenate(
        [values["clip"][8:9], other["clip"][9:10], values["clip"][10:12]]
    )
    np.testing.assert_array_equal(found.values, expected)
    assert not verify(tmp_path / "s", hashes=True).problems


@pytest.mark.parametrize("killed_in", ["_move_into_store", "_publish"])
def test_a_changed_row_that_is_killed_is_finished_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    plan_store(tmp_path / "s")
    values, other = some_values(23), some_values(23, seed=5)
    writer = StoreWriter(tmp_path / "s")
    writer.commit_block(2, block_of(values, (8, 12)), sources=[RowSource(1.0, 2.0)] * 4)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    moved, ninth = RowSource(5.0, 6.0), {n: v[9:10] for n, v in other.items()}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(commit, killed_in, killed)
        writer.replace_rows(2, [9], ninth, [RowStatus()], sources=[moved])
    assert StoreWriter(tmp_path / "s").clean_litter() == 1
    found = open_store(tmp_path / "s")
    assert found.commits.sources(2)[9] == moved
    frames = found.matrix("frames", missing="drop").values
    np.testing.assert_array_equal(frames[1], other["frames"][9])
    np.testing.assert_array_equal(frames[[0, 2, 3]], values["frames"][[8, 10, 11]])


def test_sources_of_other_rows_are_refused(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    writer, block = StoreWriter(tmp_path / "s"), block_of(some_values(23), (8, 12))
    with pytest.raises(FixInput, match="3 sources for the 4 rows of block 2"):
        writer.commit_block(2, block, sources=[RowSource()] * 3)
    for bad in (
        {"start_s": "1"},
        {"n_bytes": 1.5},
        {"pictures": True},
        {"quick_sha256": 7},
    ):
        with pytest.raises(ValueError, match=next(iter(bad))):
            RowSource.from_json(bad)
    assert RowSource.from_json({"n_bytes": 7, "of_a_later_version": [1]}) == RowSource(
        n_bytes=7
    )


def test_a_sealed_store_is_not_redone(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    values = some_values(23)
    writer = fill_store(tmp_path / "s", values, {9: BAD})
    writer.seal()
    with pytest.raises(AlreadyThere, match="sealed"):
        writer.replace_rows(
            2, [9], {n: v[9:10] for n, v in values.items()}, [RowStatus()]
        )


@pytest.mark.parametrize("killed_in", ["_move_into_store", "_publish"])
def test_a_redo_that_is_killed_is_finished_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    plan_store(tmp_path / "s", compressor="zstd")
    values = some_values(23)
    writer = fill_store(tmp_path / "s", values, {9: BAD})
    reader = open_store(tmp_path / "s")
    assert reader.matrix("clip", missing="drop").present.sum() == 22

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(commit, killed_in, killed)
        writer.replace_rows(
            2, [9], {n: v[9:10] for n, v in values.items()}, [RowStatus()]
        )
    assert commit.claims(tmp_path / "s") == [2]
    assert StoreWriter(tmp_path / "s").clean_litter() == 1
    np.testing.assert_array_equal(
        open_store(tmp_path / "s").matrix("clip").values, values["clip"]
    )
    # A reader that was open all the time has the old marker, and finds the new one by the length.
    np.testing.assert_array_equal(
        reader.matrix("clip", missing="drop").values,
        np.delete(values["clip"], 9, axis=0),
    )
    assert not verify(tmp_path / "s", hashes=True).problems


# ---- litter ------------------------------------------------------------------------------------


def test_litter_of_the_dead_is_removed_and_of_the_living_is_not(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    staging = tmp_path / "s/staging"
    alive = hold_new(staging, "block-00001.", renewed=False)
    dead = staging / f"block-00001.{new_tag(staging)}"
    far = staging / f"block-00001.k{'0' * 15}.{'0' * 12}"
    for folder in (dead, far, staging / "trash.123"):
        folder.mkdir()
        (folder / "0.x").write_bytes(b"half")
    assert StoreWriter(tmp_path / "s").clean_litter() == 2
    assert sorted(staging.iterdir()) == sorted([alive.path, far])
    os.utime(far, (0, 0))
    assert StoreWriter(tmp_path / "s").clean_litter() == 1
    fill_store(tmp_path / "s", some_values(23), blocks=[1])
    assert StoreWriter(tmp_path / "s").clean_litter() == 1
    assert not list(staging.iterdir())
    alive.release()


def test_a_writer_whose_attempt_is_taken_for_litter_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_store(tmp_path / "s")
    values, calls = some_values(23), []
    claim = commit.claim

    def claim_late(attempt: Path) -> bool:
        calls.append(attempt)
        if len(calls) == 1:
            commit.discard(attempt)
        return claim(attempt)

    monkeypatch.setattr(commit, "claim", claim_late)
    fill_store(tmp_path / "s", values, blocks=[0])
    assert len(calls) == 2
    found = open_store(tmp_path / "s").matrix("clip", missing="drop")
    np.testing.assert_array_equal(found.values, values["clip"][:4])


def test_file_systems_without_links_work_too(tmp_path: Path, monkeypatch) -> None:
    def no_link(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", no_link)
    plan_store(tmp_path / "s")
    values = some_values(23)
    writer = fill_store(tmp_path / "s", values)
    assert writer.commit_block(0, block_of(values, (0, 4))) is False
    writer.seal()
    assert not verify(tmp_path / "s", hashes=True).problems
    np.testing.assert_array_equal(
        open_store(tmp_path / "s").matrix("clip").values, values["clip"]
    )


# ---- sealing -----------------------------------------------------------------------------------


def test_a_seal_holds_every_row_and_every_file(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    writer = fill_store(
        tmp_path / "s", some_values(23), {9: BAD, 10: RowStatus("ok", message="x")}
    )
    seal = writer.seal()
    assert seal.counts == {"failed": 1, "ok": 22}
    assert set(seal.status_of_row) == {9, 10}
    assert set(seal.files) == set(tree(tmp_path / "s")) - {"seal.json"}
    assert seal.seconds == {"decode": 3.0} and seal.versions == {"toy": ["1"]}
    assert (
        not (tmp_path / "s/commits").exists() and not (tmp_path / "s/staging").exists()
    )
    assert writer.seal() == seal
    assert writer.pending_blocks() == []
    store = open_store(tmp_path / "s")
    assert store.sealed and store.status().counts == {"ok": 22, "failed": 1}
    assert (
        "22 ok and 1 failed" in (tmp_path / "s/README.md").read_text()
        or "1 failed" in (tmp_path / "s/README.md").read_text()
    )


def test_an_incomplete_store_is_not_sealed(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    writer = fill_store(tmp_path / "s", some_values(23), blocks=[0, 1])
    with pytest.raises(FixInput, match="4 of 6 blocks are not committed"):
        writer.seal()
    assert (tmp_path / "s/staging").is_dir()


def test_a_block_whose_file_vanished_is_not_sealed(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    writer = fill_store(tmp_path / "s", some_values(23))
    (tmp_path / "s/data.zarr/clip/c.3.0").unlink()
    with pytest.raises(Exception, match=r"c\.3\.0 is missing, or its length"):
        writer.seal()
    assert not writer.sealed


@pytest.mark.parametrize(
    ("module", "killed_in"),
    [(seal, "_seal"), (seal, "write_exclusive"), (seal, "_tidy")],
)
def test_sealing_can_be_killed_and_repeated(
    tmp_path, monkeypatch, module, killed_in
) -> None:
    plan_store(tmp_path / "s")
    values = some_values(23)
    writer = fill_store(tmp_path / "s", values)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, killed_in, killed)
        writer.seal()
    np.testing.assert_array_equal(
        open_store(tmp_path / "s").matrix("clip").values, values["clip"]
    )
    StoreWriter(tmp_path / "s").seal()
    assert not verify(tmp_path / "s", hashes=True).problems
    assert sorted(p.name for p in (tmp_path / "s").iterdir()) == [
        "README.md",
        "clips.csv",
        "data.zarr",
        "seal.json",
        "store.json",
    ]


def test_nothing_is_committed_while_a_store_is_being_sealed(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    values = some_values(23)
    writer = fill_store(tmp_path / "s", values, {9: BAD})
    shutil.move(tmp_path / "s/staging", tmp_path / "s/staging.sealing")
    with pytest.raises(AlreadyThere, match="being sealed"):
        writer.replace_rows(
            2, [9], {n: v[9:10] for n, v in values.items()}, [RowStatus()]
        )
    writer.seal()
    assert open_store(tmp_path / "s").status().counts == {"ok": 22, "failed": 1}


@pytest.mark.parametrize(
    ("dtype", "given", "fitting"),
    [
        ("int32", np.array([1, 2**31, 0], np.int64), 2**31 - 1),
        ("int32", np.array([1, -(2**31) - 1, 0], np.int64), -(2**31)),
        ("uint8", np.array([1, 300, 0], np.uint16), 255),
        ("int64", np.array([1, 2**63, 0], np.uint64), 2**63 - 1),
    ],
)
def test_a_number_outside_the_type_of_its_array_is_refused(
    tmp_path, dtype, given, fitting
) -> None:
    arrays = (ArraySpec("clip", (2,)), ArraySpec("counts", (1,), dtype=dtype))
    plan_store(tmp_path / "s", 3, 3, arrays=arrays)
    writer, block = StoreWriter(tmp_path / "s"), {"clip": np.zeros((3, 2), np.float32)}
    with pytest.raises(FixInput, match="row 1") as caught:
        writer.commit_block(0, {**block, "counts": given[:, None]})
    assert str(given[1]) in caught.value.message and dtype in caught.value.message
    given[1] = fitting
    assert writer.commit_block(0, {**block, "counts": given[:, None]})
    assert open_store(tmp_path / "s").matrix("counts").values.tolist() == [
        [1],
        [fitting],
        [0],
    ]


def test_numbers_of_rows_that_failed_may_be_anything(tmp_path: Path) -> None:
    arrays = (ArraySpec("clip", (2,)), ArraySpec("counts", (), dtype="uint8"))
    plan_store(tmp_path / "s", 2, 2, arrays=arrays)
    block = {"clip": np.zeros((2, 2)), "counts": np.array([7, 300], np.uint16)}
    assert StoreWriter(tmp_path / "s").commit_block(0, block, [RowStatus(), BAD])
    assert open_store(tmp_path / "s").matrix(
        "counts", missing="drop"
    ).values.tolist() == [7]


def test_a_number_outside_the_type_is_refused_when_rows_are_replaced(
    tmp_path: Path,
) -> None:
    arrays = (
        ArraySpec("clip", (2,)),
        ArraySpec("counts", (), dtype="uint8"),
        ArraySpec("time_s", (1,)),
    )
    plan_store(tmp_path / "s", 2, 2, arrays=arrays)
    block = {
        "clip": np.zeros((2, 2)),
        "counts": np.array([7, 8], np.uint8),
        "time_s": np.zeros((2, 1)),
    }
    writer = StoreWriter(tmp_path / "s")
    writer.commit_block(0, block, [RowStatus(), BAD])
    again = {
        "clip": np.ones((1, 2)),
        "counts": np.array([300], np.uint16),
        "time_s": np.ones((1, 1)),
    }
    with pytest.raises(FixInput, match="300"):
        writer.replace_rows(0, [1], again, [RowStatus()])
    again["counts"][0] = 200
    again["time_s"][0] = 1e39  # an infinity in float32
    with pytest.raises(FixInput, match=r"1e\+39"):
        writer.replace_rows(0, [1], again, [RowStatus()])
    again["time_s"][0] = 2.5
    assert writer.replace_rows(0, [1], again, [RowStatus()])
    assert open_store(tmp_path / "s").matrix("counts").values.tolist() == [7, 200]


@pytest.mark.parametrize(
    "status",
    [
        RowStatus("missing"),
        RowStatus("borked"),
        RowStatus.failed("decode", "Error", 7),
        RowStatus.failed("decode", None, "why"),
        RowStatus("ok", message="a name that is not UTF-8: \udcff"),
        "failed",
    ],
)
def test_a_status_that_no_reader_accepts_is_not_written(tmp_path: Path, status) -> None:
    plan_store(tmp_path / "s", 2, 2)
    writer, values = StoreWriter(tmp_path / "s"), some_values(2)
    before = tree(tmp_path / "s")
    with pytest.raises(FixInput, match="row 1"):
        writer.commit_block(0, values, [RowStatus(), status])
    assert tree(tmp_path / "s") == before
    writer.commit_block(0, values, [RowStatus(), BAD])
    after = tree(tmp_path / "s")
    with pytest.raises(FixInput, match="row 1"):
        writer.replace_rows(
            0, [1], {name: v[:1] for name, v in values.items()}, [status]
        )
    assert tree(tmp_path / "s") == after
    writer.clean_litter()
    writer.seal()


@pytest.mark.parametrize(
    "facts", [{"seconds": {"decode": np.nan}}, {"versions": {"av": "\udcff"}}]
)
def test_a_marker_that_no_reader_accepts_is_not_written(tmp_path: Path, facts) -> None:
    plan_store(tmp_path / "s", 2, 2)
    writer, before = StoreWriter(tmp_path / "s"), tree(tmp_path / "s")
    with pytest.raises(FixInput, match="block 0"):
        writer.commit_block(0, some_values(2), **facts)
    assert tree(tmp_path / "s") == before
    assert writer.commit_block(0, some_values(2))


def test_a_store_without_its_empty_folders_is_filled_and_sealed(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    for name in ("staging", "commits"):  # as version control and some archives leave it
        (tmp_path / "s" / name).rmdir()
    values = some_values(23)
    writer = fill_store(tmp_path / "s", values, blocks=[0, 1, 2, 3, 4])
    (tmp_path / "s/staging").rmdir()
    words = {name: ["x"] for name in ("prompt", "template", "attribute")}
    table = TextTable(embeddings=np.ones((1, 4), np.float32), space_id="s", **words)
    assert writer.add_text(table)
    fill_store(tmp_path / "s", values, blocks=[5])
    (tmp_path / "s/staging").rmdir()
    writer.seal()
    assert not (tmp_path / "s/staging").exists()
    assert not (tmp_path / "s/staging.sealing").exists()
    np.testing.assert_array_equal(
        open_store(tmp_path / "s").matrix("clip").values, values["clip"]
    )


def test_replaced_rows_and_what_is_given_for_them_are_as_many(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    values = some_values(23)
    writer = fill_store(tmp_path / "s", values, {1: BAD}, blocks=[0])
    of_row = {name: array[:1] for name, array in values.items()}
    for rows, statuses, sources in (
        ([1], [RowStatus()], []),
        ([1], [], None),
        ([1, 1], [RowStatus()] * 2, None),
    ):
        with pytest.raises(FixInput, match="different"):
            writer.replace_rows(0, rows, of_row, statuses, sources=sources)
    nothing = {name: array[:0] for name, array in values.items()}
    assert writer.replace_rows(0, [], nothing, []) is False
    marker = writer.marker(0)
    assert marker is not None and marker.revision == 0
