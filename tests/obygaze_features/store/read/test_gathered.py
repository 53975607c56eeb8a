"""Gathered arrays: what is in the file with copies of all blocks, and when it is believed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.kills import kill_everywhere
from support.store_damage import flip
from support.store_servers import web_server
from support.stores import (
    CountedFiles,
    fill_store,
    gather_all,
    plan_store,
    sealed_store,
    some_ids,
    some_values,
    tree,
)

from obygaze_features.store import (
    ArraySpec,
    RowStatus,
    derive,
    merge,
    open_store,
    pack,
    pull,
    withdraw,
)
from obygaze_features.store.read.verify import verify
from obygaze_features.store.write import gathering

N_CLIPS = 35  # nine blocks of four clips
CLIPS, FILMS = some_ids(N_CLIPS)


@pytest.fixture(params=[None, "zstd"], ids=["plain", "zstd"])
def store(request, tmp_path: Path) -> tuple[Path, dict[str, np.ndarray]]:
    path = tmp_path / "s"
    return path, sealed_store(path, N_CLIPS, compressor=request.param)


def names_read(path: Path, array: str, **selection) -> tuple[list[str], np.ndarray]:
    """Return the files that are read for rows of an array, and the rows."""
    files = CountedFiles(path)
    values = open_store(files).matrix(array, **selection).values
    return files.reads, values


def reads_right(path: Path, values: dict[str, np.ndarray]) -> None:
    opened = open_store(path)
    for name in values:
        np.testing.assert_array_equal(opened.matrix(name).values, values[name])


def test_a_gathered_array_is_its_blocks_one_after_another(store) -> None:
    path, _ = store
    listed = json.loads((path / "seal.json").read_bytes())
    for name in ("clip", "pooled", "frames", "time_s"):
        tail = ".0" * (2 if name == "frames" else 1)
        blocks = [path / f"data.zarr/{name}/c.{block}{tail}" for block in range(9)]
        data = b"".join(block.read_bytes() for block in blocks)
        assert (path / "gathered" / name).read_bytes() == data
        assert listed["files"][f"gathered/{name}"][0] == len(data)
    # Programs of format 1 refuse such a seal, and ask for an update.
    assert listed["version"] == 2
    assert json.loads((path / "store.json").read_bytes())["version"] == 1


def test_a_store_of_few_blocks_is_one_of_format_1(tmp_path: Path) -> None:
    sealed_store(tmp_path / "s", 28)
    assert not (tmp_path / "s/gathered").exists()
    assert json.loads((tmp_path / "s/seal.json").read_bytes())["version"] == 1


def test_many_blocks_are_one_read_and_few_are_their_own(store) -> None:
    path, values = store
    names, rows = names_read(path, "clip")
    assert [name for name in names if "clip" in name] == ["gathered/clip"]
    np.testing.assert_array_equal(rows, values["clip"])
    names, rows = names_read(path, "clip", films=FILMS[4:6])
    assert "gathered/clip" not in names
    np.testing.assert_array_equal(rows, values["clip"][:10])
    chosen = [33, 2, 17, 9, 2]
    names, rows = names_read(path, "pooled", clips=[CLIPS[row] for row in chosen])
    assert "gathered/pooled" in names
    np.testing.assert_array_equal(rows, values["pooled"][chosen])


def test_a_damaged_copy_is_found_and_the_blocks_are_read(store) -> None:
    path, values = store
    file = path / "gathered/pooled"
    data = file.read_bytes()
    draw = np.random.default_rng(5)
    for bit in draw.integers(8 * len(data), size=40).tolist():
        flip(file, bit)
        reads_right(path, values)
        report = verify(path, hashes=True)
        assert [problem.name for problem in report.problems] == ["gathered/pooled"]
        file.write_bytes(data)
    others = [
        b"",
        data[:-1],
        data[4:] + data[:4],
        (path / "gathered/clip").read_bytes(),
    ]
    for other in others:
        file.write_bytes(other)
        reads_right(path, values)
        assert verify(path, hashes=True).problems
    file.unlink()
    reads_right(path, values)
    assert [p.name for p in verify(path).problems] == ["gathered/pooled"]


def test_a_copy_that_a_server_cannot_send_is_not_used(store, tmp_path: Path) -> None:
    path, values = store
    file = path / "gathered/clip"
    with web_server(tmp_path) as server:
        for n_bytes in (10, 0):
            file.write_bytes(file.read_bytes()[:n_bytes])
            # From the second block on: the server has no byte there.
            rows = open_store(f"{server.url}/s").matrix("clip", films=FILMS[5:]).values
            np.testing.assert_array_equal(rows, values["clip"][5:])


def test_a_copy_of_another_store_of_the_recipe_is_not_used(tmp_path: Path) -> None:
    values = sealed_store(tmp_path / "s", N_CLIPS)
    plan = plan_store(tmp_path / "other", N_CLIPS)
    fill_store(tmp_path / "other", some_values(N_CLIPS, plan.arrays, seed=1)).seal()
    for name in values:
        shutil.copy(tmp_path / "other/gathered" / name, tmp_path / "s/gathered" / name)
    reads_right(tmp_path / "s", values)


def test_rows_that_failed_stay_absent(tmp_path: Path) -> None:
    plan = plan_store(tmp_path / "s", N_CLIPS)
    values = some_values(N_CLIPS, plan.arrays)
    failed = {9: RowStatus.no_video(), 34: RowStatus.failed("decode", "E", "m")}
    fill_store(tmp_path / "s", values, failed).seal()
    names, rows = names_read(tmp_path / "s", "clip", missing="nan")
    assert "gathered/clip" in names
    assert np.flatnonzero(np.isnan(rows).any(axis=1)).tolist() == [9, 34]


def test_a_version_without_rows_has_them_in_no_file_of_it(store) -> None:
    path, values = store
    pattern = values["pooled"][3].tobytes()
    before = (path / "gathered/pooled").read_bytes()
    assert pattern in before  # zstd copies what it cannot compress
    withdraw(path, films=[FILMS[0]], reason="asked for")
    assert not any(pattern in data for data in tree(path / "gathered").values())
    assert (path / "gathered/pooled").read_bytes() != before
    names, rows = names_read(path, "pooled", missing="drop")
    assert "gathered/pooled" in names
    np.testing.assert_array_equal(rows, values["pooled"][5:])
    assert not verify(path, hashes=True).problems
    # A copy has it in no file at all; the version before reads as it did.
    pull(str(path), path.parent / "copy")
    assert before not in tree(path.parent / "copy").values()
    assert not any(pattern in data for data in tree(path.parent / "copy").values())
    earlier = open_store(path, version=1).matrix("pooled").values
    np.testing.assert_array_equal(earlier, values["pooled"])


def test_a_reader_stays_with_its_version(store) -> None:
    path, values = store
    opened = open_store(path)
    assert opened.sealed
    withdraw(path, films=[FILMS[0]], reason="asked for")
    np.testing.assert_array_equal(opened.matrix("pooled").values, values["pooled"])


def test_an_array_that_is_added_is_gathered_too(tmp_path: Path) -> None:
    values = sealed_store(tmp_path / "s", N_CLIPS)
    derive(tmp_path / "s", array="frames", by="max")
    names, rows = names_read(tmp_path / "s", "frames_max")
    assert "gathered/frames_max" in names
    np.testing.assert_array_equal(rows, values["frames"].max(axis=1))


def test_a_version_of_a_store_of_format_1_gathers_its_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(gathering, "MIN_BLOCKS", 1_000)
        values = sealed_store(tmp_path / "s", N_CLIPS)
    assert not (tmp_path / "s/gathered").exists()
    withdraw(tmp_path / "s", clips=[CLIPS[0]], reason="asked for")
    names, rows = names_read(tmp_path / "s", "clip", missing="drop")
    assert "gathered/clip" in names
    np.testing.assert_array_equal(rows, values["clip"][1:])
    assert not verify(tmp_path / "s@1", hashes=True).problems


def test_an_array_that_was_gathered_stays_so_when_it_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the version would list a file of the version before, with withdrawn rows."""
    sealed_store(tmp_path / "s", N_CLIPS)
    before = (tmp_path / "s/gathered/clip").read_bytes()
    monkeypatch.setattr(gathering, "MAX_BYTES", 1)
    withdraw(tmp_path / "s", clips=[CLIPS[0]], reason="asked for")
    assert (tmp_path / "s/gathered/clip").read_bytes() != before
    assert not verify(tmp_path / "s", hashes=True).problems


def test_large_arrays_and_shards_are_not_gathered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = ArraySpec("large", (300_000,))
    small = ArraySpec("small", (2,))
    sealed_store(tmp_path / "s", 17, 2, arrays=(large, small))
    assert [p.name for p in (tmp_path / "s/gathered").iterdir()] == ["small"]
    monkeypatch.setattr(gathering, "MAX_BYTES", 18 * small.row_bytes - 1)
    sealed_store(tmp_path / "none", 17, 2, arrays=(small,))
    assert not (tmp_path / "none/gathered").exists()
    monkeypatch.setattr(gathering, "MAX_BYTES", 18 * small.row_bytes)
    sealed_store(tmp_path / "fits", 17, 2, arrays=(small,))
    assert (tmp_path / "fits/gathered/small").is_file()


def test_packs_parts_and_merges_have_the_gathered_files_of_their_arrays(store) -> None:
    path, values = store
    folder = path.parent
    pack(path, folder / "s.zip")
    np.testing.assert_array_equal(
        open_store(folder / "s.zip").matrix("clip").values, values["clip"]
    )
    pull(str(path), folder / "part", arrays=["clip"])
    assert sorted(p.name for p in (folder / "part/gathered").iterdir()) == [
        "clip",
        "time_s",
    ]
    merge([path], folder / "merged")
    for name in ("part", "merged"):
        names, rows = names_read(folder / name, "clip")
        assert "gathered/clip" in names
        np.testing.assert_array_equal(rows, values["clip"])
        assert not verify(folder / name, hashes=True).problems


def test_a_kill_while_a_store_is_sealed_leaves_one_that_can_be_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gather_all(monkeypatch)
    whole = tmp_path / "whole"
    plan = plan_store(whole, 7, arrays=(ArraySpec("clip", (4,)),))
    values = some_values(7, plan.arrays)
    writer = fill_store(whole, values)
    target = tmp_path / "s"

    def seal() -> None:
        fill_store(target, values, blocks=[]).seal()

    def look() -> None:
        reads_right(target, values)
        seal()
        assert tree(target) == expected
        shutil.rmtree(target)
        shutil.copytree(unsealed, target)

    unsealed = tmp_path / "unsealed"
    shutil.copytree(whole, unsealed)
    writer.seal()
    expected = tree(whole)
    shutil.copytree(unsealed, target)
    assert kill_everywhere(seal, look) > 10
