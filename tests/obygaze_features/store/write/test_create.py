"""Planning a store: once, whole, by anyone; the same plan again is fine, another one is not."""

from __future__ import annotations

import json
import multiprocessing
import stat
from pathlib import Path

import numpy as np
import pytest
from support.stores import (
    ARRAYS,
    a_recipe,
    fill_store,
    plan_store,
    some_ids,
    some_values,
)

from obygaze_features.core.errors import AlreadyThere, FixInput, Mismatch
from obygaze_features.store import ArraySpec, open_store, pack
from obygaze_features.store.read.verify import verify
from obygaze_features.store.write import create


def test_everything_is_fixed_at_once(tmp_path: Path) -> None:
    plan = plan_store(tmp_path / "deep/er/s")
    names = {
        str(p.relative_to(tmp_path / "deep/er/s"))
        for p in (tmp_path / "deep/er/s").rglob("*")
    }
    arrays = ["clip_id", "movie_id", "clip", "pooled", "frames", "time_s"]
    assert names == {
        "store.json",
        "clips.csv",
        "README.md",
        "commits",
        "staging",
        "data.zarr",
        "data.zarr/zarr.json",
        *(f"data.zarr/{name}" for name in arrays),
        *(f"data.zarr/{name}/zarr.json" for name in arrays),
        "data.zarr/clip_id/c.0",
        "data.zarr/movie_id/c.0",
    }
    assert (plan.n_clips, plan.block_rows, plan.n_blocks) == (23, 4, 6)
    assert [plan.block_range(b) for b in (0, 5)] == [(0, 4), (20, 23)]
    assert not [p for p in (tmp_path / "deep/er").iterdir() if p.name != "s"]


def test_the_metadata_is_what_the_format_promises(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    group = json.loads((tmp_path / "s/data.zarr/zarr.json").read_bytes())
    assert group["attributes"]["coordinates"] == "clip_id movie_id"
    frames = json.loads((tmp_path / "s/data.zarr/frames/zarr.json").read_bytes())
    assert frames["shape"] == [23, 3, 4] and frames["data_type"] == "float16"
    assert frames["dimension_names"] == ["row", "t3", "d4"]
    assert frames["fill_value"] == "NaN"
    assert frames["chunk_key_encoding"]["configuration"]["separator"] == "."
    assert [codec["name"] for codec in frames["codecs"]] == ["bytes", "crc32c"]
    ids = json.loads((tmp_path / "s/data.zarr/clip_id/zarr.json").read_bytes())
    assert ids["data_type"] == "string" and ids["dimension_names"] == ["row"]
    assert [codec["name"] for codec in ids["codecs"]] == ["vlen-utf8", "crc32c"]


def test_the_ids_are_there_for_readers_of_other_languages(tmp_path: Path) -> None:
    plan_store(
        tmp_path / "s", 3, clip_ids=["a-1", 'b,"2', "ç-3"], movie_ids=["a", "b", "ç"]
    )
    lines = (tmp_path / "s/clips.csv").read_text(encoding="utf-8").splitlines()
    assert lines == ["row,clip_id,movie_id", "0,a-1,a", '1,"b,""2",b', "2,ç-3,ç"]
    assert open_store(tmp_path / "s").clip_ids.tolist() == ["a-1", 'b,"2', "ç-3"]


def test_the_same_plan_again_changes_nothing(tmp_path: Path) -> None:
    first = plan_store(tmp_path / "s")
    before = (tmp_path / "s/store.json").read_bytes()
    assert plan_store(tmp_path / "s") == first
    assert (tmp_path / "s/store.json").read_bytes() == before


def test_another_recipe_lists_the_keys_that_differ(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    with pytest.raises(
        Mismatch, match=r"sampling\.frames, sampling\.step differ"
    ) as caught:
        plan_store(
            tmp_path / "s",
            recipe=a_recipe(sampling={"rule": "uniform", "frames": 8, "step": 2}),
        )
    assert caught.value.exit_code == 5
    assert list(caught.value.details) == [
        "sampling.frames: 3 in the store, 8 asked for",
        "sampling.step: (absent) in the store, 2 asked for",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"manifest_sha256": "34" * 32, "clip_ids": some_ids(23)[0][::-1]},
            "another state of the manifest",
        ),
        (
            {
                "manifest_sha256": "34" * 32,
                "manifest_name": "theirs",
                "movie_ids": ["tt1"] * 23,
            },
            "of another manifest",
        ),
        ({"block_rows": 5}, "block_rows"),
        ({"arrays": ARRAYS[:2]}, "arrays"),
        ({"compressor": "zstd"}, "compressor"),
        ({"clip_ids": some_ids(23)[0][::-1]}, "clip_ids"),
    ],
)
def test_another_plan_is_refused(tmp_path: Path, changes, words) -> None:
    plan_store(tmp_path / "s")
    with pytest.raises(Mismatch, match=words):
        plan_store(tmp_path / "s", **changes)


def test_a_store_of_the_same_clips_is_the_same_whatever_hash_its_manifest_had(
    tmp_path,
) -> None:
    # Of a CSV file with labels.
    earlier = plan_store(tmp_path / "s", manifest_sha256="34" * 32)
    assert plan_store(tmp_path / "s").manifest_sha256 == earlier.manifest_sha256


def test_a_name_that_is_taken_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s/thesis.tex").write_text("years of work")
    with pytest.raises(AlreadyThere):
        plan_store(tmp_path / "s")
    (tmp_path / "f").write_text("more of it")
    with pytest.raises(AlreadyThere):
        plan_store(tmp_path / "f")
    assert (tmp_path / "s/thesis.tex").read_text() == "years of work"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f", "s"]
    (tmp_path / "empty").mkdir()
    plan_store(tmp_path / "empty")


def test_others_may_read_what_one_plans(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) & 0o055 == 0o055
    assert stat.S_IMODE((tmp_path / "s/store.json").stat().st_mode) & 0o044 == 0o044


def plan_it(path: str, seed: int) -> str:
    recipe = a_recipe(compute={"dtype": "float32", "attention": f"kind {seed}"})
    try:
        return plan_store(Path(path), recipe=recipe).recipe.fingerprint
    except Mismatch:
        return "refused"


@pytest.mark.check("four processes race for three stores")
def test_many_processes_plan_one_store(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        jobs = [
            (str(tmp_path / f"s{i}"), seed % 2) for i in range(3) for seed in range(8)
        ]
        found = pool.starmap(plan_it, jobs, chunksize=1)
    for i in range(3):
        answers = found[8 * i : 8 * i + 8]
        fingerprint = open_store(tmp_path / f"s{i}").fingerprint
        assert sorted(answers) == sorted([fingerprint] * 4 + ["refused"] * 4)
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clip_ids": ["a"] * 23}, "unique"),
        ({"clip_ids": ["a"]}, "expected one film for each"),
        ({"clip_ids": [], "movie_ids": []}, "expected one film for each"),
        ({"clip_ids": ["a\n", *some_ids(22)[0]]}, "cannot be an id"),
        ({"clip_ids": ["", *some_ids(22)[0]]}, "cannot be an id"),
        ({"block_rows": 0}, "at least 1, got 0"),
        ({"compressor": "lz77"}, "lz77"),
        ({"arrays": ()}, "at least one array"),
        ({"arrays": (ArraySpec("time_s", (3,)),)}, "at least one array"),
        ({"arrays": (ARRAYS[0], ARRAYS[0])}, "one name"),
        (
            {"arrays": (ArraySpec("a", (3,), ("x",)), ArraySpec("b", (4,), ("x",)))},
            "two sizes",
        ),
        ({"arrays": (ArraySpec("a", (3,), ("a",)),)}, "or the name of an array"),
        ({"arrays": (ArraySpec("a", (3,), ("row",)),)}, "or the name of an array"),
    ],
)
def test_what_cannot_be_a_store_is_refused(tmp_path: Path, changes, words) -> None:
    with pytest.raises(FixInput, match=words):
        plan_store(tmp_path / "s", **changes)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ("clip_id", (3,)),
        ("text", (3,)),
        ("../up", (3,)),
        ("Upper", (3,)),
        ("a", (0,)),
        ("a", (3,), ("x", "y")),
        ("a", (3,), (), "complex64"),
        ("a", (3,), (), "object"),
    ],
)
def test_what_cannot_be_an_array_is_refused(arguments) -> None:
    with pytest.raises(FixInput):
        ArraySpec(*arguments)


def test_dimensions_without_names_are_named_by_their_sizes() -> None:
    assert ArraySpec("frames", (32, 512)).dims == ("t32", "d512")
    assert ArraySpec("tokens", (16, 196, 768)).dims == ("t16", "p196", "d768")
    assert ArraySpec("odd", (2, 2, 2, 2)).dims == ("x2", "x2_1", "x2_2", "x2_3")
    assert ArraySpec("scalar", ()).dims == ()
    for dtype in ("float16", "<f2", "half", np.float16, np.dtype("float16")):
        name = ArraySpec("frames", (2,), dtype=dtype).dtype
        assert (name, type(name)) == ("float16", str)
    assert ArraySpec("frames", (32, 512), dtype="float16").row_bytes == 32768


@pytest.mark.parametrize(
    ("arrays", "rows"),
    [
        (
            (
                ArraySpec("clip", (512,)),
                ArraySpec("frames", (32, 768), dtype="float16"),
            ),
            64,
        ),
        (
            (
                ArraySpec("clip", (512,)),
                ArraySpec("tokens", (12, 49, 768), dtype="float16"),
            ),
            16,
        ),
    ],
)
def test_blocks_are_smaller_where_clips_are_large(tmp_path: Path, arrays, rows) -> None:
    assert plan_store(tmp_path / "s", 200, None, arrays=arrays).block_rows == rows


def test_a_small_store_is_one_small_block(tmp_path: Path) -> None:
    plan = plan_store(tmp_path / "s", 3, None)
    assert (plan.block_rows, plan.n_blocks) == (3, 1)


def test_opening_reads_one_file_however_many_clips_there_are(tmp_path: Path) -> None:
    """A folder that counts what is asked of it stands in for a million clips' 15 625 blocks."""
    from support.stores import CountedFiles, a_million_planned

    for plan, root in ((None, tmp_path / "s"), (a_million_planned(), tmp_path / "m")):
        if plan is None:
            plan_store(root, 1914, 64)
        else:
            root.mkdir()
            (root / "store.json").write_bytes(plan.to_bytes())
        files = CountedFiles(root)
        store = open_store(files)
        assert store.n_clips in (1914, 1_000_000) and store.fingerprint
        assert files.reads == ["store.json"] and files.listings == []
        assert (
            store.feature_arrays == store.feature_arrays == ("clip", "pooled", "frames")
        )
        assert files.reads == ["store.json", "partial.json"] and files.listings == []
        assert len((root / "store.json").read_bytes()) < 20_000


def test_a_row_is_found_without_looking_at_other_blocks(tmp_path: Path) -> None:
    from support.stores import CountedFiles, fill_store, some_values

    plan_store(tmp_path / "s", 1914, 64)
    writer = fill_store(tmp_path / "s", some_values(1914))
    files = CountedFiles(tmp_path / "s")
    mask = np.zeros(1914, dtype=bool)
    mask[200] = True
    open_store(files).matrix("clip", mask=mask)
    wanted = [
        "store.json",
        "seal.json",
        "commits/block-00003.json",
        "data.zarr/clip/c.3.0",
    ]
    assert files.reads == wanted and not files.listings
    writer.seal()
    files = CountedFiles(tmp_path / "s")
    open_store(files).matrix("clip", mask=mask)
    assert [name for name in files.reads if not name.endswith("partial.json")] == [
        name for name in wanted if not name.startswith("commits")
    ]


def inner_rows(path: Path, name: str) -> tuple[int, int]:
    """The rows of a file, and of a chunk in it, by the metadata that zarr reads."""
    document = json.loads((path / f"data.zarr/{name}/zarr.json").read_bytes())
    rows = document["chunk_grid"]["configuration"]["chunk_shape"][0]
    (codec, *_) = document["codecs"]
    is_shard = codec["name"] == "sharding_indexed"
    return rows, codec["configuration"]["chunk_shape"][0] if is_shard else rows


@pytest.mark.parametrize("n_clips", [9973, 2 * 4969])  # a prime, and twice one
def test_a_block_of_any_number_of_rows_has_chunks_of_many(
    tmp_path: Path, n_clips: int
) -> None:
    arrays = (
        ArraySpec("clip", (256,)),
        ArraySpec("frames", (2, 256)),
        ArraySpec("time_s", (2,)),
    )
    plan = plan_store(tmp_path / "s", n_clips, 100_000, arrays=arrays)
    assert plan.n_blocks == 1
    assert plan.block_range(0) == (0, n_clips)
    for name, row_bytes in (("clip", 1024), ("frames", 2048)):
        file_rows, chunk_rows = inner_rows(tmp_path / "s", name)
        assert file_rows == plan.block_rows
        assert file_rows % chunk_rows == 0
        assert chunk_rows == 32 and chunk_rows * row_bytes <= 131_072
    assert inner_rows(tmp_path / "s", "time_s") == (plan.block_rows, plan.block_rows)
    values = some_values(n_clips, arrays)
    fill_store(tmp_path / "s", values).seal()
    # A clip costs its bytes, not a chunk and an entry of an index for each.
    n_bytes = sum(
        file.stat().st_size for file in (tmp_path / "s/data.zarr/clip").iterdir()
    )
    assert n_bytes < 1024 * n_clips * 1.1
    assert not verify(tmp_path / "s", hashes=True).problems
    pack(open_store(tmp_path / "s"), tmp_path / "s.zip")
    last = open_store(tmp_path / "s.zip").matrix(
        "frames", clips=[some_ids(n_clips)[0][-1]]
    )
    np.testing.assert_array_equal(last.values[0], values["frames"][-1])


@pytest.mark.parametrize(
    ("block_rows", "n_clips", "row_bytes", "expected"),
    [
        (64, 16_000, 2_048, 64),  # 250 blocks
        (64, 16_001, 2_048, 128),
        (64, 1_000_000, 2_048, 4_096),  # 245 blocks
        (64, 1_000_000, 31_250, 4_096),  # 128 MB a block
        (64, 1_000_000, 31_251, 2_048),
        (16, 1_914, 614_400, 16),
        (16, 1_000_000, 614_400, 128),
        (16, 1_000_000, 9_700_000, 16),
    ],
)
def test_a_store_of_very_many_clips_has_larger_blocks(
    block_rows: int, n_clips: int, row_bytes: int, expected: int
) -> None:
    assert create.with_fewer_blocks(block_rows, n_clips, row_bytes) == expected


def test_a_store_that_was_begun_with_other_usual_blocks_is_still_the_same_store(
    tmp_path: Path,
) -> None:
    arrays = (ArraySpec("clip", (4,)),)
    # As planned before stores of many clips had larger blocks.
    plan_store(tmp_path / "s", 16_100, 64, arrays=arrays)
    assert plan_store(tmp_path / "s", 16_100, None, arrays=arrays).block_rows == 64
    with pytest.raises(Mismatch, match="block_rows"):
        plan_store(tmp_path / "s", 16_100, 128, arrays=arrays)


def test_a_store_with_blocks_of_a_prime_number_of_rows_is_still_the_same_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = (ArraySpec("clip", (1024,)),)
    with monkeypatch.context() as earlier:
        earlier.setattr(create, "even_rows_of_block", lambda rows, arrays: rows)
        assert (
            plan_store(tmp_path / "s", 4969, 100_000, arrays=arrays).block_rows == 4969
        )
    assert plan_store(tmp_path / "s", 4969, 100_000, arrays=arrays).block_rows == 4969
    with pytest.raises(Mismatch, match="block_rows"):
        plan_store(tmp_path / "s", 4969, 64, arrays=arrays)


def test_the_usual_blocks_keep_their_number_of_rows(tmp_path: Path) -> None:
    arrays = (
        ArraySpec("clip", (768,)),
        ArraySpec("tokens", (200, 768), dtype="float16"),
    )
    for n_clips in (7, 61, 64, 100, 997):
        plan = plan_store(tmp_path / str(n_clips), n_clips, 64, arrays=arrays)
        assert plan.block_rows == min(64, n_clips)


def test_a_store_whose_table_of_clips_was_edited_or_lost_is_still_the_same(
    tmp_path: Path,
) -> None:
    plan = plan_store(tmp_path / "s")
    table = tmp_path / "s/clips.csv"
    # As a spreadsheet saves it.
    table.write_bytes(b"\xef\xbb\xbfrow;clip_id;movie_id\r\n")
    assert plan_store(tmp_path / "s") == plan
    table.unlink()
    assert plan_store(tmp_path / "s") == plan
    with pytest.raises(Mismatch, match="clip_ids"):
        plan_store(tmp_path / "s", clip_ids=some_ids(23)[0][::-1])


@pytest.mark.parametrize(
    "changes",
    [
        {"citation": "\udcff"},
        {"manifest_name": "\udcff"},
        {"arrays": (ArraySpec("clip", (4,), ("\udcff",)),)},
    ],
)
def test_a_text_that_no_file_can_hold_is_refused(tmp_path: Path, changes) -> None:
    with pytest.raises(FixInput, match="UTF-8"):
        plan_store(tmp_path / "s", **changes)
    assert not list(tmp_path.iterdir())


def test_a_shape_is_of_whole_numbers() -> None:
    with pytest.raises(FixInput, match="whole numbers"):
        ArraySpec("clip", (2.7,))
    assert ArraySpec("clip", (np.int64(2), 3.0)).tail_shape == (2, 3)
