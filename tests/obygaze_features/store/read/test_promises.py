"""What a plan, its markers and its seal promise, held against what is there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.store_damage import a_copy, changed, files_of, flip, restamped
from support.stores import fill_store, plan_store, sealed_store, some_values

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.store import RowStatus, TextTable, open_store
from obygaze_features.store.format.records import with_checksum
from obygaze_features.store.read.verify import verify

GHOST = {"name": "ghost", "tail_shape": [3], "dims": ["d3"], "dtype": "float32"}


@pytest.fixture(scope="module")
def sealed(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, dict[str, np.ndarray]]:
    path = tmp_path_factory.mktemp("whole") / "s"
    return path, sealed_store(path)


@pytest.mark.parametrize(
    "bad", ["../outside/file", "/outside/file", "data.zarr//x", "a\\b"]
)
def test_a_seal_cannot_make_a_check_look_outside(
    sealed, tmp_path: Path, bad: str
) -> None:
    path = a_copy(sealed[0], tmp_path)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("x")
    value = json.loads((path / "seal.json").read_bytes())
    value["files"][bad] = [1, "0" * 64]
    del value["sha256"]
    (path / "seal.json").write_bytes(with_checksum(value))
    report = verify(path, hashes=True)
    assert [problem.name for problem in report.problems] == ["seal.json"]
    assert repr(bad) in report.problems[0].message
    assert report.warnings == []
    with pytest.raises(Corrupt, match="invalid file name"):
        open_store(path).matrix("clip")


def test_what_a_store_plans_and_nobody_promises_is_found(
    sealed, tmp_path: Path
) -> None:
    path = a_copy(sealed[0], tmp_path)
    arrays = json.loads((path / "store.json").read_bytes())["arrays"]
    restamped(path, arrays=[*arrays, GHOST])
    problems = verify(path).problems
    names = {problem.name for problem in problems}
    assert names == {
        "data.zarr/ghost/zarr.json",
        # 23 clips in blocks of 4.
        *(f"data.zarr/ghost/c.{block}.0" for block in range(6)),
    }
    with pytest.raises(Corrupt, match="missing"):
        open_store(path).matrix("ghost")
    restamped(path, arrays=arrays)
    assert not verify(path, hashes=True).problems


def test_arrays_of_another_layout_than_the_plan_are_found(
    sealed, tmp_path: Path
) -> None:
    path = a_copy(sealed[0], tmp_path)
    restamped(path, block_rows=3)
    named = {problem.name for problem in verify(path).problems}
    assert {"data.zarr/clip/zarr.json", "data.zarr/time_s/zarr.json"} <= named
    with pytest.raises(Corrupt, match="layout"):
        open_store(path).matrix("clip")


@pytest.mark.parametrize("row", ["23", "-1"])
def test_a_seal_that_speaks_of_rows_there_are_none_of(
    sealed, tmp_path: Path, row: str
) -> None:
    path = a_copy(sealed[0], tmp_path)
    failed = {"state": "failed", "stage": "decode", "error": "E", "message": "m"}
    restamped(path, noted={row: failed})
    assert [problem.name for problem in verify(path).problems] == ["seal.json"]
    with pytest.raises(Corrupt, match=f"row {row}"):
        open_store(path).status()


@pytest.mark.parametrize("arrays", [{}, [], [GHOST, GHOST]])
def test_a_plan_has_arrays_each_of_a_name_of_its_own(
    sealed, tmp_path: Path, arrays
) -> None:
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
    writer.add_text(
        TextTable(embeddings=np.ones((1, 4), np.float32), space_id="s", **words)
    )
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


def test_things_nobody_promised_are_warned_of_and_ignored(
    sealed, tmp_path: Path
) -> None:
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
    np.testing.assert_array_equal(
        open_store(path).matrix("clip").values, sealed[1]["clip"]
    )


def test_keys_and_dtypes_of_a_later_release_do_not_stop_a_reader(
    sealed, tmp_path: Path
) -> None:
    path = a_copy(sealed[0], tmp_path)
    value = json.loads((path / "store.json").read_bytes())
    arrays = [*value["arrays"], {**value["arrays"][0], "name": "later", "unit": "new"}]
    restamped(path, arrays=arrays, something="new")
    np.testing.assert_array_equal(
        open_store(path).matrix("clip").values, sealed[1]["clip"]
    )
    with pytest.raises(Corrupt, match="'later' is missing"):
        open_store(path).matrix("later")


def test_a_layout_that_is_not_the_promised_one_is_refused(
    sealed, tmp_path: Path
) -> None:
    path = a_copy(sealed[0], tmp_path)
    restamped(path, block_rows=5)
    with pytest.raises(Corrupt, match="layout"):
        open_store(path).matrix("clip")


def test_keys_of_a_later_release_do_not_stop_a_reader_wherever_they_are(
    tmp_path: Path,
) -> None:
    plan_store(tmp_path / "s")
    failed = RowStatus.failed("decode", "Error", "why")
    writer = fill_store(tmp_path / "s", some_values(23), {5: failed})
    marker = tmp_path / "s/commits/block-00001.json"
    status_of_row = {"5": {**failed.to_json(), "attempts": 3, "where": {"host": "a"}}}
    changed(marker, noted=status_of_row, later={"x": 1})
    assert open_store(tmp_path / "s").status().status_of_row == {5: failed}
    assert writer.seal().status_of_row == {5: failed}
    changed(tmp_path / "s/seal.json", noted=status_of_row, later={"x": 1})
    assert open_store(tmp_path / "s").status().status_of_row == {5: failed}


def test_a_row_that_is_noted_has_a_state(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    fill_store(tmp_path / "s", some_values(23))
    changed(tmp_path / "s/commits/block-00001.json", noted={"5": {"stat": "failed"}})
    with pytest.raises(Corrupt, match="state"):
        open_store(tmp_path / "s").status()


@pytest.mark.parametrize("tail", [[2**40], [2**32, 2**32], [2**31, 2**31, 2**31]])
def test_more_than_the_memory_of_the_machine_is_refused(sealed, tmp_path, tail) -> None:
    path = a_copy(sealed[0], tmp_path)
    value = json.loads((path / "store.json").read_bytes())
    dims = [f"x{i}" for i in range(len(tail))]
    value["arrays"][0].update(tail_shape=tail, dims=dims)
    restamped(path, arrays=value["arrays"])
    seal = json.loads((path / "seal.json").read_bytes())
    for block in range(6):  # the name of a block's file has the number of dimensions
        mark = seal["files"].pop(f"data.zarr/clip/c.{block}.0")
        seal["files"][f"data.zarr/clip/c.{block}{'.0' * len(tail)}"] = mark
    changed(path / "seal.json", files=seal["files"])
    for missing in ("error", "nan", "drop"):
        with pytest.raises(FixInput, match="of memory, this machine has"):
            open_store(path).matrix("clip", missing=missing)


@pytest.mark.parametrize("n_clips", [0, -1, 10**12, "23", None])
def test_a_number_of_clips_that_cannot_be_is_refused(
    sealed, tmp_path: Path, n_clips
) -> None:
    path = a_copy(sealed[0], tmp_path)
    changed(path / "store.json", n_clips=n_clips)
    with pytest.raises(Corrupt, match="n_clips: must be a whole number"):
        open_store(path)
