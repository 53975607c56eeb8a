"""A join of random stores is what a plain model in memory says, in any order of its parts."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.seeds import amount
from support.stores import a_recipe, made_store
from support.written_stores import check_store, lasting_bytes

from obygaze_features.core.errors import FixInput
from obygaze_features.core.workspace import Workspace
from obygaze_features.store import Recipe, Row, Store, open_store
from obygaze_features.store.changing import join
from obygaze_features.store.recipe import (
    joined_parts,
)
from obygaze_features.store.rows import FAILED, NO_VIDEO, OK, SILENT

CLIPS = ("alba-1", "alba-2", "brug-1", "brug-2", "casa-1")
# The hashes of files: a film may be replaced between two extractions.
VIDEOS = ("", "a" * 16, "b" * 16)
# How the films of all stores are cut: they have clips, or windows.
CUTS: tuple[dict[str, Any], ...] = (
    {},
    {"unit": "window", "grid": {"seconds": 1.0, "every": 1.0}},
)
# The sentence in the row of each status.
REASONS = {
    OK: "",
    FAILED: "no-sound: no sound in the file",
    NO_VIDEO: "no file",
    SILENT: "no sound in the clip",
}


@dataclass(frozen=True)
class Part:
    """A store that is joined: its model, its numbers, and what it knows of each of its clips.

    `videos` are the hashes of their files, "" where nobody knows them. Windows have their times in
    arrays.
    """

    title: str
    dtype: str
    width: int
    statuses: dict[str, str]
    videos: dict[str, str]
    has_times: bool
    cut: dict[str, Any]

    def vector(self, clip: str) -> np.ndarray:
        """The numbers of a clip, each different from all others."""
        first = 100 * CLIPS.index(clip) + 10 * ord(self.title)
        return (first + np.arange(self.width)).astype(self.dtype) / 8

    def write(self, folder: Path) -> Store:
        """Write the store."""
        rows = []
        for clip, status in self.statuses.items():
            start_s = float(clip[-1]) if self.has_times else None
            row = Row(clip, clip[:4], start_s, status=status, reason=REASONS[status])
            rows.append(row._replace(video_hash=self.videos[clip]))
        values = {"clip": np.stack([self.vector(clip) for clip in self.statuses])}
        if self.cut:
            values |= times_of([*self.statuses])
        return made_store(folder / self.title, rows, values, recipe=self.recipe)

    @property
    def recipe(self) -> Recipe:
        """How it was made."""
        sampling = {"rule": "uniform", **self.cut}
        return a_recipe(backbone={"name": self.title}, sampling=sampling)


def times_of(clips: Sequence[str]) -> dict[str, np.ndarray]:
    """The times of windows, as their stores have them."""
    start_s = np.array([float(clip[-1]) for clip in clips])
    return {"start_s": start_s, "end_s": start_s + 1}


def file_of(clip: str, video: str) -> str:
    """The hash of a file of a clip: two clips that are all of one file would be the same."""
    return video and f"{CLIPS.index(clip)}{video[1:]}"


@st.composite
def some_parts(draw: st.DrawFn) -> list[Part]:
    """Two or three stores of some of the clips, in any order."""
    parts = []
    cut = draw(st.sampled_from(CUTS))
    for title in draw(st.permutations("abc"))[: draw(st.integers(2, 3))]:
        clips = draw(st.permutations(CLIPS))[: draw(st.integers(1, len(CLIPS)))]
        # Most clips have features.
        status = st.sampled_from([OK, OK, OK, *REASONS])
        part = Part(
            title,
            draw(st.sampled_from(["float16", "float32"])),
            draw(st.integers(1, 3)),
            {clip: draw(status) for clip in clips},
            {clip: file_of(clip, draw(st.sampled_from(VIDEOS))) for clip in clips},
            not cut and draw(st.booleans()),
            cut,
        )
        parts.append(part)
    return parts


def expected_row(clip: str, parts: Sequence[Part]) -> tuple[str, str]:
    """The status of a clip in the joined store, and its reason."""
    reasons = []
    for part in parts:
        status = part.statuses.get(clip)
        if status is None:
            reasons.append(f"{part.title}: no clip of that id in its store")
        elif status != OK:
            reasons.append(f"{part.title}: {REASONS[status]}")
    return (FAILED, "; ".join(reasons)) if reasons else (OK, "")


def known_videos(clip: str, parts: Sequence[Part]) -> set[str]:
    """The hashes that parts know of the file of a clip."""
    return {part.videos[clip] for part in parts if clip in part.videos} - {""}


@settings(deadline=None, max_examples=amount(10, 300))
@given(parts=some_parts())
def test_a_join_is_its_parts_side_by_side(parts: list[Part]) -> None:
    in_order = sorted(parts, key=lambda part: part.title)
    clips = list(dict.fromkeys(clip for part in in_order for clip in part.statuses))
    rows = []
    values = []
    of_other_files = []
    for clip in clips:
        status, reason = expected_row(clip, in_order)
        has_times = any(p.has_times for p in parts if clip in p.statuses)
        start_s = float(clip[-1]) if has_times else None
        row = Row(clip, clip[:4], start_s, status=status, reason=reason)
        videos = known_videos(clip, parts)
        if len(videos) == 1:
            row = row._replace(video_hash="".join(videos))
        elif videos and status == OK:
            of_other_files.append(clip)
        rows.append(row)
        vectors = [part.vector(clip).astype(np.float32) for part in in_order]
        values.append(np.concatenate(vectors))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        here = Workspace(folder)
        stores = [part.write(folder) for part in parts]
        if not any(row.is_ok for row in rows):
            with pytest.raises(FixInput, match="no clip has features in all of"):
                join(stores, folder / "both", workspace=here)
            assert not (folder / "both").exists()
            return
        joined = join(stores, folder / "both", workspace=here)
        counts = []
        for line in joined.warnings:
            if "different files" in line:
                counts.append(int(line.split()[0]))
        assert counts == ([len(of_other_files)] if of_other_files else [])
        both = open_store(folder / "both")
        expected = {"clip": np.stack(values)}
        if parts[0].cut:
            expected |= times_of(clips)
        check_store(folder / "both", rows, expected)
        assert [array.name for array in both.record.arrays] == [*expected]
        assert list(both.rows) == rows
        # A model of clips takes windows: but for the cut, both have one recipe.
        assert both.recipe.grid == parts[0].cut.get("grid", {})
        recipes = [replace(part, cut={}).recipe.fingerprint for part in in_order]
        of_clips = both.recipe.of_clips
        assert [part.fingerprint for part in joined_parts(of_clips)] == recipes
        assert [*of_clips.to_json()] == ["joined"]
        join([*reversed(stores)], folder / "again", workspace=here)
        assert lasting_bytes(folder / "again") == lasting_bytes(folder / "both")


@settings(max_examples=10, deadline=None)
@given(has_films=st.booleans(), n_arrays=st.integers(2, 3), has_another=st.booleans())
def test_arrays_of_one_store_are_of_the_same_clips(
    has_films: bool, n_arrays: int, has_another: bool
) -> None:
    """Only of two stores nobody knows more than the ids."""
    film = "lake" if has_films else ""
    rows = [Row(clip, film) for clip in CLIPS]
    names = ["a", "b", "c"][:n_arrays]
    values = {name: np.ones((len(rows), 2), np.float32) for name in names}
    with tempfile.TemporaryDirectory() as name:
        here = Workspace(Path(name))
        made_store(here.root / "one", rows, values)
        parts = [f"{here.root}/one:{array}" for array in names]
        if has_another:
            recipe = a_recipe(backbone={"name": "other"})
            made_store(here.root / "two", rows, {"d": values["a"]}, recipe=recipe)
            parts.append(f"{here.root}/two:d")
        made = join(parts, here.root / "both", workspace=here)
        said = [text for text in made.warnings if "matched by the ids alone" in text]
        assert len(said) == (has_another and not has_films)
