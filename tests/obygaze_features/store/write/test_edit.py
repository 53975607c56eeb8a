"""Subsets and merges: the numbers, the states and the recipe of the sources, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.stores import (
    a_recipe,
    fill_store,
    plan_store,
    sealed_store,
    some_ids,
    some_values,
)

from obygaze_features.core.errors import FixInput, Mismatch, NotFound
from obygaze_features.store import RowStatus, StoreWriter, diff_stores, open_store
from obygaze_features.store.format.records import Partial
from obygaze_features.store.read.verify import verify
from obygaze_features.store.write.edit import ManifestClips, merge, subset

BAD = RowStatus.failed("decode", "Error", "why")


def test_a_subset_has_the_chosen_clips_and_arrays(tmp_path: Path) -> None:
    values = sealed_store(tmp_path / "s")
    copied = subset(
        open_store(tmp_path / "s"),
        tmp_path / "part",
        films=["tt0000103", "tt0000101"],
        arrays=["frames"],
    )
    assert (copied.n_clips, copied.sealed, copied.pending_blocks) == (10, True, 0)
    part = open_store(tmp_path / "part")
    rows = [5, 6, 7, 8, 9, 15, 16, 17, 18, 19]
    assert part.feature_arrays == ("frames",) and [
        s.name for s in part.plan.arrays
    ] == [
        "frames",
        "time_s",
    ]
    np.testing.assert_array_equal(part.matrix("frames").values, values["frames"][rows])
    np.testing.assert_array_equal(part.matrix("time_s").values, values["time_s"][rows])
    assert part.fingerprint == open_store(tmp_path / "s").fingerprint
    assert not verify(tmp_path / "part", hashes=True).problems


def test_a_subset_keeps_states_and_leaves_what_is_missing_pending(
    tmp_path: Path,
) -> None:
    plan_store(tmp_path / "s")
    values = some_values(23)
    fill_store(tmp_path / "s", values, {1: BAD}, blocks=[0, 1])
    source = open_store(tmp_path / "s")
    copied = subset(source, tmp_path / "part", mask=np.arange(23) < 10)
    assert not copied.sealed and copied.pending_blocks == 1
    part = open_store(tmp_path / "part")
    assert part.status().counts == {"ok": 7, "failed": 1, "missing": 2}
    fill_store(tmp_path / "s", values, blocks=[2])
    again = subset(
        open_store(tmp_path / "s"), tmp_path / "part", mask=np.arange(23) < 10
    )
    assert again.sealed and again.n_blocks == 1
    assert open_store(tmp_path / "part").status().counts == {"ok": 9, "failed": 1}


def test_a_subset_of_nothing_or_of_unknown_clips_is_refused(tmp_path: Path) -> None:
    sealed_store(tmp_path / "s")
    source = open_store(tmp_path / "s")
    with pytest.raises(FixInput, match="no clip"):
        subset(source, tmp_path / "part", clips=[])
    with pytest.raises(NotFound, match="1 clip not in the store"):
        subset(source, tmp_path / "part", clips=["nobody"])
    with pytest.raises(FixInput, match="no array"):
        subset(source, tmp_path / "part", arrays=["tokens"])
    assert not (tmp_path / "part").exists()


def test_a_merge_takes_each_clip_from_where_it_is_ok(tmp_path: Path) -> None:
    clips, films = some_ids(10)
    ours, theirs = some_values(10, seed=1), some_values(10, seed=2)
    for name, status_of_row, values in (
        ("a", {0: BAD, 1: BAD}, ours),
        ("b", {1: RowStatus.no_video()}, theirs),
    ):
        plan_store(tmp_path / name, 10, 4, clip_ids=clips, movie_ids=films)
        fill_store(tmp_path / name, values, status_of_row)
    copied = merge(
        [open_store(tmp_path / "a"), open_store(tmp_path / "b")], tmp_path / "m"
    )
    assert copied.in_several == 10 and copied.sealed
    # All but 0 and 1 are ok in both, made from other seeds.
    assert copied.n_differing == 8
    merged = open_store(tmp_path / "m")
    found = merged.matrix("clip", missing="drop")
    assert found.rows.tolist() == [0, *range(2, 10)]
    np.testing.assert_array_equal(found.values[0], theirs["clip"][0])
    np.testing.assert_array_equal(found.values[1:], ours["clip"][2:])
    assert merged.status().status_of_row[1] == BAD


def test_a_merge_reads_each_store_from_itself_though_the_names_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are opened as "films", from two folders: only the current folder differs."""
    clips, films = some_ids(10)
    values = some_values(10)
    opened = []
    for name, rows in (("a", slice(0, 5)), ("b", slice(5, 10))):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        plan_store(Path("films"), 5, clip_ids=clips[rows], movie_ids=films[rows])
        fill_store(
            Path("films"), {name: array[rows] for name, array in values.items()}
        ).seal()
        opened.append(open_store("films"))
    assert opened[0].location == opened[1].location
    merge(opened, tmp_path / "m")
    merged = open_store(tmp_path / "m")
    np.testing.assert_array_equal(
        merged.matrix("clip", clips=clips).values, values["clip"]
    )
    np.testing.assert_array_equal(
        merged.matrix("frames", clips=clips).values, values["frames"]
    )


def test_a_merge_of_what_agrees_says_so(tmp_path: Path) -> None:
    values = some_values(10)
    values["time_s"][4, 1] = np.nan  # a frame that has no time is the same in both
    for name in "ab":
        plan_store(tmp_path / name, 10, 4)
        fill_store(tmp_path / name, values).seal()
    other = {**values, "frames": values["frames"].copy()}
    other["frames"][9, 2, 3] += np.float16(1)
    plan_store(tmp_path / "c", 10, 3)
    fill_store(tmp_path / "c", other).seal()
    a, b, c = (open_store(tmp_path / name) for name in "abc")
    assert merge([a, b], tmp_path / "same").n_differing == 0
    assert merge([a, b, c], tmp_path / "apart").n_differing == 1


def test_a_copy_into_a_store_that_is_there_says_that_it_copied_nothing(
    tmp_path: Path,
) -> None:
    """Other features of the same recipe stayed out, and only "0 blocks copied" said so."""
    values = some_values(10)
    changed = {**values, "frames": values["frames"] + np.float16(1)}
    for name, features in (("old", values), ("new", changed)):
        plan_store(tmp_path / name, 10, 4)
        fill_store(tmp_path / name, features).seal()
    for command in ("subset", "merge"):
        copy = tmp_path / f"{command}-copy"
        into = ("-C", tmp_path, "store", command)
        first = call_obygaze(*into, tmp_path / "old", "-o", copy).ok()
        assert "was there before" not in first.stderr
        again = call_obygaze(*into, tmp_path / "new", "-o", copy).ok()
        assert (
            f"{copy} was there before, with 3 blocks: nothing was copied"
            in again.stderr
        )
        assert diff_stores(copy, tmp_path / "old").same


def test_a_copy_that_goes_on_says_which_part_was_there(tmp_path: Path) -> None:
    values = some_values(10)
    plan_store(tmp_path / "s", 10, 4)
    fill_store(tmp_path / "s", values, blocks=[0])
    first = subset(tmp_path / "s", tmp_path / "copy")
    assert (first.n_present, first.warnings) == (0, [])
    fill_store(tmp_path / "s", values, blocks=[1, 2]).seal()
    (warning,) = subset(tmp_path / "s", tmp_path / "copy").warnings
    assert "with 1 block: only the others were copied" in warning


def test_a_merge_sorts_films_and_scenes_as_people_count(tmp_path: Path) -> None:
    plan_store(
        tmp_path / "a", 2, clip_ids=["tt2-10", "tt10-1"], movie_ids=["tt2", "tt10"]
    )
    plan_store(
        tmp_path / "b", 2, clip_ids=["tt2-9", "tt2-11"], movie_ids=["tt2", "tt2"]
    )
    for name in "ab":
        fill_store(tmp_path / name, some_values(2)).seal()
    merge([open_store(tmp_path / "b"), open_store(tmp_path / "a")], tmp_path / "m")
    assert open_store(tmp_path / "m").clip_ids.tolist() == [
        "tt2-9",
        "tt2-10",
        "tt2-11",
        "tt10-1",
    ]


def test_stores_of_other_recipes_or_arrays_are_not_merged(tmp_path: Path) -> None:
    sealed_store(tmp_path / "a")
    sealed_store(
        tmp_path / "b", recipe=a_recipe(sampling={"rule": "random", "frames": 3})
    )
    plan_store(tmp_path / "c", arrays=open_store(tmp_path / "a").plan.arrays[:2])
    first = open_store(tmp_path / "a")
    with pytest.raises(Mismatch, match=r"sampling\.rule") as caught:
        merge([first, open_store(tmp_path / "b")], tmp_path / "m")
    assert "one `store import` names all of them" in (caught.value.hint or "")
    with pytest.raises(Mismatch, match="arrays"):
        merge([first, open_store(tmp_path / "c")], tmp_path / "m")
    with pytest.raises(FixInput, match="at least one store"):
        merge([], tmp_path / "m")
    plan_store(tmp_path / "d", movie_ids=["other"] * 23)
    with pytest.raises(Mismatch, match="has two films"):
        merge([first, open_store(tmp_path / "d")], tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_larger_manifest_takes_over_whole_blocks_and_leaves_the_rest(
    tmp_path: Path,
) -> None:
    values = sealed_store(tmp_path / "s")
    clips, films = some_ids(23)
    larger = ManifestClips(
        "larger",
        "56" * 32,
        [*clips[:9], "tt0000101-009", *clips[9:]],
        [*films[:9], "tt0000101", *films[9:]],
    )
    copied = merge([open_store(tmp_path / "s")], tmp_path / "m", manifest=larger)
    assert (copied.n_clips, copied.pending_blocks, copied.sealed) == (24, 1, False)
    grown = open_store(tmp_path / "m")
    assert grown.plan.manifest_name == "larger"
    # Rows 8 to 11, of which 9 is new.
    assert StoreWriter(tmp_path / "m").pending_blocks() == [2]
    found = grown.matrix("frames", missing="drop")
    old_rows = np.where(found.rows < 9, found.rows, found.rows - 1)
    np.testing.assert_array_equal(found.values, values["frames"][old_rows])


def test_a_partial_copy_says_so_and_gives_what_it_holds(tmp_path: Path) -> None:
    values = sealed_store(tmp_path / "s")
    partial = Partial({"clip": frozenset({0, 1, 3}), "time_s": frozenset(range(6))})
    (tmp_path / "s/partial.json").write_bytes(partial.to_bytes())
    for file in (tmp_path / "s/data.zarr").rglob("c.*"):
        if not partial.holds_file(str(file.relative_to(tmp_path / "s"))):
            file.unlink()
    assert not verify(tmp_path / "s", hashes=True).problems
    store = open_store(tmp_path / "s")
    found = store.matrix("clip", missing="drop")
    assert found.rows.tolist() == [*range(8), *range(12, 16)]
    np.testing.assert_array_equal(found.values, values["clip"][found.rows])
    assert "partial" in found.reasons["tt0000101-004"].message
    assert not store.matrix("frames", missing="drop").present.any()
    with pytest.raises(NotFound, match="does not hold 2 clips of the selected"):
        subset(store, tmp_path / "part", mask=np.arange(23) < 10, arrays=["clip"])
    copied = subset(store, tmp_path / "part", arrays=["clip"])
    assert copied.sealed and copied.n_clips == 12
    (tmp_path / "s/data.zarr/clip/c.1.0").unlink()
    assert [p.name for p in verify(tmp_path / "s").problems] == ["data.zarr/clip/c.1.0"]


def test_stores_are_cut_and_merged_by_name_as_by_the_commands(
    tmp_path: Path,
) -> None:
    sealed_store(tmp_path / "stores" / "s")
    ids = open_store("s", workspace=tmp_path).clip_ids.tolist()
    (tmp_path / "ids.txt").write_text("\n".join(ids[:3]), encoding="utf-8")
    by_file = subset("s", "a", clips=tmp_path / "ids.txt", workspace=tmp_path)
    by_id = subset(tmp_path / "stores" / "s", tmp_path / "b", clips=ids[3:])
    assert (by_file.path, by_file.n_clips) == (tmp_path / "stores" / "a", 3)
    assert (by_id.path, by_id.n_clips) == (tmp_path / "b", len(ids) - 3)
    merged = merge(["a", str(by_id.path)], "m", workspace=tmp_path)
    words = ("store", "merge", "a", by_id.path, "-o", "typed")
    typed = call_obygaze("-C", tmp_path, *words).ok()
    assert typed.stdout == f"{merged}\n".replace("stores/m", "stores/typed")
    whole = open_store("s", workspace=tmp_path)
    assert diff_stores("m", whole, workspace=tmp_path).only_second == []
    assert (
        open_store("m", workspace=tmp_path).matrix("clip", clips=ids).values
        == whole.matrix("clip", clips=ids).values
    ).all()
