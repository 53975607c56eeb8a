"""Verification beyond single files, extraction again, and comparing two stores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.stores import (
    ARRAYS,
    a_recipe,
    fill_store,
    partial_copy,
    plan_store,
    sealed_store,
    some_ids,
    some_values,
)

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.store import ArraySpec, RowStatus, TextTable, open_store
from obygaze_features.store.read.diff import cosines, diff_stores
from obygaze_features.store.read.verify import compare_decoded, verify
from obygaze_features.store.remote.files import FolderFiles, Piece
from obygaze_features.store.remote.object_store import Unreachable


class Counted:
    def __init__(self) -> None:
        self.done = self.total = 0

    def expect(self, total: int, unit: str = "clips") -> None:
        self.total = total

    def advance(self, amount: int = 1) -> None:
        self.done += amount

    def remark(self, text: str) -> None:
        pass


def test_a_whole_store_is_whole(tmp_path: Path) -> None:
    sealed_store(tmp_path / "s")
    progress = Counted()
    report = verify(tmp_path / "s", hashes=True, progress=progress)
    assert (report.problems, report.warnings, report.counts) == ([], [], {"ok": 23})
    n_files = sum(1 for file in (tmp_path / "s").rglob("*") if file.is_file())
    n_bytes = sum(
        f.stat().st_size
        for f in (tmp_path / "s").rglob("*")
        if f.name != "seal.json" and f.is_file()
    )
    assert report.n_files == n_files - 1 and report.n_bytes == n_bytes
    assert progress.done == progress.total == n_bytes


def test_files_that_are_not_of_the_store_are_named(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    writer = fill_store(tmp_path / "s", some_values(23))
    for name in ("evil.py", ".seal.json.0123.tmp", "commits/evil.py"):
        (tmp_path / "s" / name).write_text("x")
    (tmp_path / "s/more").mkdir()
    expected = [".seal.json.0123.tmp", "evil.py", "more", "commits/evil.py"]
    warnings = verify(tmp_path / "s").warnings
    assert warnings == [f"{name} is not part of the store" for name in expected]
    writer.seal()
    warnings = verify(tmp_path / "s").warnings
    assert warnings == [
        f"{name} is not part of the store" for name in ("evil.py", "more")
    ]


class Unplugged(FolderFiles):
    """A place that answers until a file of some name is asked for."""

    def __init__(self, root: Path, name: str) -> None:
        super().__init__(root)
        self.name = name

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Piece | None:
        if name.endswith(self.name):
            raise Unreachable("the connection failed")
        return super().read(name, start, stop)


@pytest.mark.parametrize(
    "name", ["c.2.0", "block-00001.json", "store.json", "seal.json"]
)
def test_a_connection_that_fails_is_not_taken_for_damage(
    tmp_path: Path, name: str
) -> None:
    sealed_store(tmp_path / "sealed")
    plan_store(tmp_path / "growing")
    fill_store(tmp_path / "growing", some_values(23))
    growing = name.startswith("block")
    with pytest.raises(Unreachable):
        verify(
            Unplugged(tmp_path / ("growing" if growing else "sealed"), name),
            hashes=True,
        )


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    sealed_store(tmp_path / "s")
    names = ["README.md", "data.zarr/clip/c.1.0", "data.zarr/frames/zarr.json"]
    for name in names:
        (tmp_path / "s" / name).write_bytes(b"")
    report = verify(tmp_path / "s")
    assert [problem.name for problem in report.problems] == names
    with pytest.raises(Corrupt, match="3 problems") as caught:
        report.require_whole()
    assert caught.value.exit_code == 4 and len(caught.value.details) == 3


def extracted_again(values: dict[str, np.ndarray], store, noise: float = 0.0):
    rows = {clip: row for row, clip in enumerate(store.clip_ids.tolist())}

    def redecode(clips: Sequence[str]):
        return {
            clip: {name: array[rows[clip]] + noise for name, array in values.items()}
            for clip in clips
            if clip != "tt0000100-001"
        }

    return redecode


def test_clips_extracted_again_are_compared_by_cosine(tmp_path: Path) -> None:
    plan_store(tmp_path / "s")
    values = some_values(23)
    fill_store(tmp_path / "s", values, {5: RowStatus.no_video()})
    store = open_store(tmp_path / "s")
    report = compare_decoded(store, 100, extracted_again(values, store))
    assert not report.problems
    assert report.warnings == ["tt0000100-001 could not be extracted again"]
    assert set(report.cosines) == {"clip", "pooled", "frames"}
    assert all(found["least"] == 1.0 for found in report.cosines.values())
    other = compare_decoded(store, 3, extracted_again(some_values(23, seed=9), store))
    assert len({problem.name.split()[-1] for problem in other.problems}) == 3
    with pytest.raises(Corrupt):
        other.require_whole()
    short = compare_decoded(
        store, 1, lambda clips: {c: {"clip": np.zeros(3)} for c in clips}
    )
    assert "shape (3,), stored (4,)" in str(short.problems[0])
    with pytest.raises(FixInput):
        compare_decoded(store, 0, extracted_again(values, store))
    with pytest.raises(FixInput, match="no clip was extracted again"):
        compare_decoded(store, 3, lambda clips: {})


def test_cosines_by_hand() -> None:
    a = np.array(
        [[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [3.0, 4.0]], np.float32
    )
    b = np.array(
        [[0.0, 2.0], [2.0, 2.0], [0.0, 0.0], [1.0, 0.0], [-3.0, -4.0]], np.float16
    )
    np.testing.assert_allclose(cosines(a, b), [0.0, 1.0, 1.0, 0.0, -1.0], atol=1e-12)
    assert cosines(a.reshape(5, 1, 2), b.reshape(5, 2, 1)).shape == (5,)


def test_cosines_of_very_large_and_very_small_numbers() -> None:
    a = np.array([[3e200, 4e200], [3e-200, 4e-200], [1.7e308, -1.7e308], [5e-324, 0.0]])
    b = np.array([[3e200, 0.0], [3e-300, 4e-300], [-1.7e308, -1.7e308], [1.0, 0.0]])
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(cosines(a, b), [0.6, 1.0, 0.0, 1.0], atol=1e-12)


def test_the_same_store_twice_is_the_same(tmp_path: Path) -> None:
    sealed_store(tmp_path / "a")
    sealed_store(tmp_path / "b")
    found = diff_stores(open_store(tmp_path / "a"), open_store(tmp_path / "b"))
    assert found.same and len(found.common) == 23
    assert [array.n_identical for array in found.compared] == [23, 23, 23, 23]


def test_differences_are_told_apart(tmp_path: Path) -> None:
    values = some_values(23)
    plan_store(tmp_path / "a")
    fill_store(tmp_path / "a", values, {3: RowStatus.no_video()})
    clips = [f"tt0000100-{i + 1:03d}" for i in range(6)]
    plan_store(
        tmp_path / "b",
        6,
        clip_ids=clips,
        movie_ids=["tt0000100"] * 6,
        recipe=a_recipe(compute={"dtype": "bfloat16", "attention": "eager"}),
        arrays=open_store(tmp_path / "a").plan.arrays[:2],
    )
    changed = {
        name: array[:6].copy()
        for name, array in values.items()
        if name in ("clip", "pooled")
    }
    changed["clip"][1] = [3, 0, 0, 0]
    changed["pooled"][2] *= 2
    fill_store(tmp_path / "b", changed)
    progress = Counted()
    found = diff_stores(
        open_store(tmp_path / "a"), open_store(tmp_path / "b"), progress=progress
    )
    assert [str(one) for one in found.recipe] == [
        "compute.dtype: float32 here, bfloat16 there"
    ]
    assert found.common == clips[:5] and found.only_second == clips[5:]
    assert len(found.only_first) == 18
    assert found.states == {"tt0000100-004": ("no-video", "ok")}
    assert found.arrays == ["frames", "time_s"] and not found.same
    clip, pooled = found.compared
    by_hand = values["clip"][1, 0] / np.linalg.norm(values["clip"][1])
    assert (clip.array, clip.n_clips, clip.n_identical) == ("clip", 4, 3)
    assert clip.least_cosine == pytest.approx(by_hand, rel=1e-6)
    assert (pooled.n_identical, pooled.least_cosine) == (3, pytest.approx(1.0))
    assert pooled.greatest_difference == pytest.approx(
        np.abs(values["pooled"][2]).max()
    )
    assert progress.done == 8


def test_arrays_of_two_shapes_are_noted(tmp_path: Path) -> None:
    from obygaze_features.store import ArraySpec

    sealed_store(tmp_path / "a", arrays=(ArraySpec("clip", (4,)),))
    sealed_store(tmp_path / "b", arrays=(ArraySpec("clip", (5,)),))
    found = diff_stores(open_store(tmp_path / "a"), open_store(tmp_path / "b"))
    assert found.compared[0].note == "shapes (4,) and (5,)" and not found.same
    shown = call_obygaze("store", "diff", "./a", "./b", cwd=tmp_path).ok().stdout
    cells = shown.splitlines()[-1].split(maxsplit=5)
    assert cells == ["clip", "0", "0", "-", "-", "- shapes (4,) and (5,)"]


def a_variant(path: Path, change: str) -> None:
    """The store of `sealed_store`, with one change."""
    arrays, changes = ARRAYS, {}
    if change == "number format":
        arrays = (ArraySpec("clip", (4,), dtype="float64"), *ARRAYS[1:])
    if change == "films":
        changes["movie_ids"] = [*some_ids(23)[1][:-1], "another"]
    plan_store(path, arrays=arrays, **changes)
    values = some_values(23)
    if change == "times":
        values["time_s"][7, 1] += 0.25
    if change == "a time without a number":
        values["time_s"][7, 1] = np.nan
    writer = fill_store(path, values)
    if change == "texts":
        words = {name: ["a face"] for name in ("prompt", "template", "attribute")}
        embeddings = np.ones((1, 4), np.float32)
        writer.add_text(TextTable(embeddings=embeddings, space_id="s", **words))


@pytest.mark.parametrize(
    "change", ["times", "a time without a number", "number format", "films", "texts"]
)
def test_stores_that_differ_in_anything_that_is_read_are_not_the_same(
    tmp_path: Path, change: str
) -> None:
    sealed_store(tmp_path / "a")
    a_variant(tmp_path / "b", change)
    a_variant(tmp_path / "c", change)
    first, second, third = (open_store(tmp_path / name) for name in "abc")
    found = diff_stores(first, second)
    assert not found.same
    of_array = {one.array: one for one in found.compared}
    assert [of_array["time_s"].n_identical, of_array["clip"].n_identical] == [
        22 if "time" in change else 23,
        23,
    ]
    if change == "times":
        assert of_array["time_s"].greatest_difference == 0.25
    clip = some_ids(23)[0][-1]
    films = {clip: (some_ids(23)[1][-1], "another")} if change == "films" else {}
    assert found.films == films
    formats = {"clip": ("float32", "float64")} if change == "number format" else {}
    assert found.formats == formats
    assert found.texts_differ == (change == "texts")
    assert diff_stores(second, third).same


def test_a_partial_copy_is_compared_in_what_it_holds(tmp_path: Path) -> None:
    sealed_store(tmp_path / "a")
    partial_copy(tmp_path / "a", tmp_path / "b", arrays=["clip"])
    found = diff_stores(open_store(tmp_path / "a"), open_store(tmp_path / "b"))
    assert [(one.array, one.n_clips, one.n_identical) for one in found.compared] == [
        ("clip", 23, 23),
        ("pooled", 0, 0),
        ("frames", 0, 0),
        ("time_s", 0, 0),
    ]
    assert "23 clips not in a partial copy" in found.compared[1].note
    assert not found.same
