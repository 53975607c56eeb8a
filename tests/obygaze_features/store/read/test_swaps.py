"""Files of another store of the same recipe, or of another block, are refused."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from support.store_damage import changed
from support.stores import fill_store, plan_store, some_ids, some_values

from obygaze_features.core.errors import Corrupt, Mismatch, ObygazeError
from obygaze_features.store import ArraySpec, StoreWriter, TextTable, open_store
from obygaze_features.store.format.records import with_checksum
from obygaze_features.store.format.schema import RowSource
from obygaze_features.store.read.verify import verify

N_CLIPS, BLOCK_ROWS = 23, 4
LARGE = ArraySpec("clip", (520, 1024))  # 2.1 MB a clip: blocks of 4 are shards
LAYOUTS = {
    "chunks": {},
    "zstd": {"compressor": "zstd"},
    "shards": {"arrays": (LARGE,), "n_clips": 7},
}
TEXTS = [
    TextTable(np.full((2, 3), n, np.float32), *[["a", "b"]] * 3, "x")
    for n in (1.0, 2.0)
]
Swap = Callable[[Path, Path], None]


def made(path: Path, which: int, seal: bool, **layout) -> dict[str, np.ndarray]:
    """One of two stores of one recipe and shape, with other clips and other numbers."""
    n_clips = layout.pop("n_clips", N_CLIPS)
    ids = [[f"{chr(97 + which)}{one}" for one in every] for every in some_ids(n_clips)]
    plan = plan_store(
        path, n_clips, BLOCK_ROWS, clip_ids=ids[0], movie_ids=ids[1], **layout
    )
    values = some_values(n_clips, plan.arrays, seed=which)
    for array in values.values():
        array[..., 1:] = 1 + which  # so that compressed blocks are of one length
    writer = fill_store(path, values, blocks=[])
    for block in range(plan.n_blocks):
        rows = range(*plan.block_range(block))
        part = {name: array[rows.start : rows.stop] for name, array in values.items()}
        writer.commit_block(
            block, part, sources=[RowSource(start_s=float(which))] * len(rows)
        )
    writer.add_text(TEXTS[which])
    if seal:
        writer.seal()
    return values


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """The two stores of each layout, sealed or not, and the numbers of the first."""
    found = {}
    for layout, changes in LAYOUTS.items():
        for seal in (True, False):
            root = tmp_path_factory.mktemp("stores")
            values = [made(root / f"s{i}", i, seal, **changes) for i in range(2)]
            found[layout, seal] = root, values[0]
    return found


def swap_with(*names: str) -> Swap:
    """Copy files of the other store over those of this one."""

    def swap(ours: Path, theirs: Path) -> None:
        for pattern in names:
            for file in theirs.glob(pattern):
                shutil.copy(file, ours / file.relative_to(theirs))

    return swap


def swap_blocks(ours: Path, theirs: Path) -> None:
    del theirs
    folder = ours / "data.zarr/clip"
    first, second = sorted(folder.glob("c.0*")), sorted(folder.glob("c.1*"))
    swap_names(first[0], second[0])


def swap_markers(ours: Path, theirs: Path) -> None:
    swap_blocks(ours, theirs)
    swap_names(*(ours / f"commits/block-0000{block}.json" for block in (0, 1)))


def swap_names(first: Path, second: Path) -> None:
    aside = first.with_name("aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)


ANY: dict[str, Swap] = {
    "a block": swap_with("data.zarr/clip/c.1*"),
    "all blocks": swap_with("data.zarr/clip/c.*"),
    "two blocks": swap_blocks,
    "clip ids": swap_with("data.zarr/clip_id/c.0"),
    "film ids": swap_with("data.zarr/movie_id/c.0"),
    "store.json": swap_with("store.json"),
    "store.json and ids": swap_with("store.json", "data.zarr/*_id/c.0"),
    "texts": swap_with("data.zarr/text/**/c.*"),
}
SEALED = {
    "the seal": swap_with("seal.json"),
    "the seal and all blocks": swap_with("seal.json", "data.zarr/clip/c.*"),
    "sources": swap_with("sources.json"),
}
GROWING = {
    "a marker": swap_with("commits/block-00001.json"),
    "a block and its marker": swap_with("commits/block-00001.json", "data.zarr/*/c.1*"),
    "two blocks and their markers": swap_markers,
}
CASES = [
    (layout, seal, name)
    for layout in LAYOUTS
    for seal in (True, False)
    for name in (*ANY, *(SEALED if seal else GROWING))
]


def check_reads(
    path: Path, values: dict[str, np.ndarray], ids: list[list[str]]
) -> None:
    """Read everything; an error ends it, other numbers than our own fail the test."""
    n_clips = len(values["clip"])
    for rows in (np.arange(n_clips), np.arange(1, n_clips, 2)):
        mask = np.isin(np.arange(n_clips), rows)
        for name, array in values.items():
            found = open_store(path).matrix(name, mask=mask)
            np.testing.assert_array_equal(found.values, array[rows])
            assert found.clip_ids.tolist() == [ids[0][row] for row in rows]
    store = open_store(path)
    assert store.movie_ids.tolist() == ids[1]
    assert store.text().embeddings.tolist() == TEXTS[0].embeddings.tolist()
    assert store.commits.sources(1)[5].start_s == 0.0


@pytest.mark.parametrize(("layout", "seal", "case"), CASES)
def test_files_of_another_store_are_refused(
    stores, tmp_path, layout, seal, case
) -> None:
    root, values = stores[layout, seal]
    path = tmp_path / "s"
    shutil.copytree(root / "s0", path)
    ids = [[f"a{one}" for one in every] for every in some_ids(len(values["clip"]))]
    check_reads(path, values, ids)
    {**ANY, **SEALED, **GROWING}[case](path, root / "s1")
    with pytest.raises(ObygazeError):
        check_reads(path, values, ids)
    with suppress(Mismatch):
        assert verify(path, hashes=True).problems


def test_a_quick_verification_names_the_swapped_blocks(stores, tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(stores["chunks", True][0] / "s0", path)
    swap_blocks(path, path)
    named = [problem.name for problem in verify(path).problems]
    assert named == ["data.zarr/clip/c.0.0", "data.zarr/clip/c.1.0"]
    with pytest.raises(Corrupt, match="does not have the checksum"):
        open_store(path).matrix("clip", clips=["att0000100-001"])


def test_a_marker_cannot_list_files_of_another_block(stores, tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(stores["chunks", False][0] / "s0", path)
    markers = [path / f"commits/block-0000{block}.json" for block in (0, 1)]
    both = [json.loads(marker.read_bytes())["files"] for marker in markers]
    changed(markers[0], files={**both[0], **both[1]})
    with pytest.raises(Corrupt, match=r"clip/c\.1\.0 is not a file of block 0"):
        open_store(path).matrix("clip")


def test_a_store_without_the_newer_keys_is_read_verified_and_sealed(
    stores, tmp_path
) -> None:
    root, values = stores["chunks", False]
    shutil.copytree(root / "s0", tmp_path / "s")
    store = json.loads((tmp_path / "s/store.json").read_bytes())
    del store["sha256"], store["plan_id"]
    (tmp_path / "s/store.json").write_bytes(with_checksum(store))
    for marker in (tmp_path / "s/commits").glob("block-*"):
        value = json.loads(marker.read_bytes())
        for key in ("sha256", "plan", "crc32c"):
            del value[key]
        marker.write_bytes(with_checksum(value))
    for seal in (False, True):
        if seal:
            assert StoreWriter(tmp_path / "s").seal().crc32c == {}
        found = open_store(tmp_path / "s").matrix("clip").values
        np.testing.assert_array_equal(found, values["clip"])
        assert not verify(tmp_path / "s", hashes=True).problems
    # Its blocks are as long as each other, and each chunk has its own checksum at its end.
    swap_blocks(tmp_path / "s", tmp_path / "s")
    for clips in (None, ["att0000100-001"]):
        with pytest.raises(Corrupt, match="does not have the checksum"):
            open_store(tmp_path / "s").matrix("clip", clips=clips)


def test_two_stores_planned_in_one_second_do_not_take_each_others_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "time.gmtime", lambda *_: time.struct_time((2026, 1, 1, 0, 0, 0, 3, 1, 0))
    )
    for name, seed in (("s0", 0), ("s1", 1)):
        plan_store(tmp_path / name, N_CLIPS, BLOCK_ROWS)
        fill_store(tmp_path / name, some_values(N_CLIPS, seed=seed))
    documents = [
        json.loads((tmp_path / name / "store.json").read_bytes())
        for name in ("s0", "s1")
    ]
    ids = [document.pop("plan_id") for document in documents]
    assert all(len(bytes.fromhex(plan_id)) == 16 for plan_id in ids)
    assert ids[0] != ids[1]
    for document in documents:
        del document["sha256"]
    assert documents[0] == documents[1]
    swap_with("commits/block-00001.json", "data.zarr/*/c.1*")(
        tmp_path / "s0", tmp_path / "s1"
    )
    with pytest.raises(Mismatch, match="block 1 was committed to another store"):
        open_store(tmp_path / "s0").matrix("clip")
    marker = tmp_path / "s0/commits/block-00001.json"
    value = json.loads(marker.read_bytes())
    # A marker that does not say of which store it is.
    del (
        value["sha256"],
        value["plan"],
    )
    marker.write_bytes(with_checksum(value))
    with pytest.raises(Mismatch, match="block 1 was committed to another store"):
        open_store(tmp_path / "s0").matrix("clip")
