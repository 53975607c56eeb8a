"""Rows that are ok stay readable while others of their block are extracted again."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.kills import kill_everywhere
from support.stores import ARRAYS, fill_store, plan_store, some_values

from obygaze_features.core.errors import Corrupt, Mismatch, ObygazeError
from obygaze_features.store import (
    ArraySpec,
    RowSource,
    RowStatus,
    StoreWriter,
    open_store,
)
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote.files import FolderFiles, Piece
from obygaze_features.store.write import commit

FAILED = RowStatus.failed("decode", "E", "m")
LAYOUTS = {
    "chunks": {},
    "zstd": {"compressor": "zstd"},
    "shards of zstd": {
        "compressor": "zstd",
        "arrays": (ArraySpec("clip", (520, 1024)), ArraySpec("pooled", (6,))),
        "n_clips": 4,
    },
}


class Unlisted(FolderFiles):
    """A folder that cannot be listed, as on a web server."""

    def names(self, folder: str) -> list[str] | None:
        del folder


def store_with_a_failed_row(path: Path, layout: str) -> dict[str, np.ndarray]:
    changes = {**LAYOUTS[layout]}
    n_clips = changes.pop("n_clips", 8)
    plan = plan_store(path, n_clips, 4, **changes)
    values = some_values(n_clips, plan.arrays)
    fill_store(path, values, {1: FAILED})
    return values


def redo(path: Path, values: dict[str, np.ndarray]) -> None:
    part = {name: array[1:2] for name, array in values.items()}
    StoreWriter(path).replace_rows(0, [1], part, [RowStatus()])


@pytest.mark.check("kills it before every change of the disk")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_good_rows_are_readable_after_a_kill_at_any_change(
    tmp_path: Path, layout: str
) -> None:
    path, pristine = tmp_path / "s", tmp_path / "pristine"
    values = store_with_a_failed_row(pristine, layout)
    shutil.copytree(pristine, path)
    before, wrong, states = open_store(path), [], set()
    before.matrix("clip", missing="drop")

    def look() -> None:
        for store in (before, open_store(path), open_store(Unlisted(path))):
            try:
                for name, array in values.items():
                    found = store.matrix(name, missing="drop")
                    np.testing.assert_array_equal(found.values, array[found.rows])
                    assert {0, 2, 3} <= set(found.rows.tolist())
                    one = store.matrix(name, clips=[store.clip_ids[2]])
                    np.testing.assert_array_equal(one.values[0], array[2])
            except ObygazeError as error:
                wrong.append(str(error))
        wrong.extend(
            map(str, verify(path, hashes=True).problems + verify(path).problems)
        )
        states.add(len(list(path.glob("staging/block-00000/[0-9]*"))))
        for name in ("data.zarr", "commits", "staging"):
            shutil.rmtree(path / name)
            shutil.copytree(pristine / name, path / name)

    kills = kill_everywhere(lambda: redo(path, values), look)
    assert not wrong
    # Kills came before, between and after the renames of the block's files.
    assert states == set(range(len(values) + 1)) and kills > len(values)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_open_reader_stays_right_across_a_redo_and_a_seal(
    tmp_path: Path, layout: str
) -> None:
    values = store_with_a_failed_row(tmp_path / "s", layout)
    readers = [open_store(tmp_path / "s") for _ in range(2)]
    for reader in readers:
        reader.matrix("clip", missing="drop")
    redo(tmp_path / "s", values)
    np.testing.assert_array_equal(
        readers[0].matrix("clip", missing="drop").values[0], values["clip"][0]
    )
    StoreWriter(tmp_path / "s").seal()
    for reader in readers:
        for name, array in values.items():
            found = reader.matrix(name, missing="drop")
            np.testing.assert_array_equal(found.values, array[found.rows])


def test_a_redo_between_two_requests_of_a_reader(tmp_path: Path) -> None:
    """The index of a shard is of the old file, the chunk of the new one."""
    values = store_with_a_failed_row(tmp_path / "s", "shards of zstd")

    class Redone(FolderFiles):
        done = False

        def read(
            self, name: str, start: int = 0, stop: int | None = None
        ) -> Piece | None:
            piece = super().read(name, start, stop)
            if start < 0 and not self.done:
                self.done = True
                redo(tmp_path / "s", values)
            return piece

    files = Redone(tmp_path / "s")
    found = open_store(files).matrix("clip", clips=["tt0000100-003"])
    assert files.done
    np.testing.assert_array_equal(found.values[0], values["clip"][2])


def forget_claims(path: Path) -> None:
    """What a power cut, or an archive without staging/, may leave of a retry."""
    shutil.rmtree(path / "staging")
    StoreWriter(path).clean_litter()


def test_a_retry_whose_claim_was_lost_does_not_block_its_block(tmp_path: Path) -> None:
    path, pristine = tmp_path / "s", tmp_path / "pristine"
    values = store_with_a_failed_row(pristine, "chunks")
    other = {name: array + 1 for name, array in values.items()}
    shutil.copytree(pristine, path)
    results = set()

    def look() -> None:
        forget_claims(path)
        # The first may find that the lost one was whole, and finish that.
        for _ in range(2):
            if StoreWriter(path).rows_to_retry():
                with suppress(Mismatch):
                    redo(path, other)
        assert not verify(path, hashes=True).problems
        store, rows = open_store(path), {}
        for name, array in values.items():
            found = store.matrix(name).values
            np.testing.assert_array_equal(
                np.delete(found, 1, 0), np.delete(array, 1, 0)
            )
            rows[name] = found[1]
        results.add("first" if (rows["clip"] == values["clip"][1]).all() else "second")
        expected = values if (rows["clip"] == values["clip"][1]).all() else other
        for name in values:
            np.testing.assert_array_equal(rows[name], expected[name][1])
        StoreWriter(path).seal()
        shutil.rmtree(path)
        shutil.copytree(pristine, path)

    kill_everywhere(lambda: redo(path, values), look)
    assert results == {"first", "second"}


def test_rows_of_a_lost_retry_are_not_mixed_with_their_old_features(
    tmp_path: Path,
) -> None:
    """A row got a new video; one of its two files was replaced, the claim of the other is lost."""
    plan = plan_store(tmp_path / "s", 4, 4, arrays=ARRAYS[:2])
    values, films = (
        some_values(4, plan.arrays),
        [RowSource(0.0, 1.0, 100, "00") for _ in range(4)],
    )
    writer = StoreWriter(tmp_path / "s")
    writer.commit_block(
        0, values, [RowStatus(), FAILED, RowStatus(), RowStatus()], sources=films
    )
    new = {name: array + 1 for name, array in values.items()}
    film = RowSource(0.0, 1.0, 200, "11")

    def place_one_file(root: Path, folder: Path, marker: Any, tag: str) -> None:
        (folder / f"0.{tag}").rename(root / sorted(marker.files)[0])
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(commit, "_move_into_store", place_one_file)
        writer.replace_rows(0, [2], rows_of(new, [2]), [RowStatus()], sources=[film])
    forget_claims(tmp_path / "s")
    for _ in range(2):
        with pytest.raises(
            Corrupt, match=r"row 2 and 0 more have files of two extractions"
        ):
            writer.replace_rows(
                0, [1], rows_of(values, [1]), [RowStatus()], sources=[films[1]]
            )
    both = [RowStatus()] * 2
    assert writer.replace_rows(
        0, [1, 2], rows_of(new, [1, 2]), both, sources=[films[1], film]
    )
    writer.seal()
    store = open_store(tmp_path / "s")
    for name, array in values.items():
        expected = np.stack([array[0], new[name][1], new[name][2], array[3]])
        np.testing.assert_array_equal(store.matrix(name).values, expected)
    assert not verify(tmp_path / "s", hashes=True).problems


def rows_of(values: dict[str, np.ndarray], rows: list[int]) -> dict[str, np.ndarray]:
    return {name: array[rows] for name, array in values.items()}
