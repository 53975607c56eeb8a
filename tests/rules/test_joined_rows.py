"""A join of random stores is what a plain model in memory says, in any order of its parts."""

import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.seeds import amount
from support.stores import a_recipe, made_store

from obygaze import open_store
from obygaze_features.core.errors import ObygazeWarning
from obygaze_features.store import Recipe, Row, Store
from obygaze_features.store.rows import FAILED, NO_VIDEO, OK, SILENT

CLIPS = ("alba-1", "alba-2", "brug-1", "brug-2", "casa-1")
# The hashes of files: a film may be replaced between two extractions.
VIDEOS = ("", "a" * 16, "b" * 16)
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

    `videos` are the hashes of their files, "" where nobody knows them.
    """

    title: str
    dtype: str
    width: int
    statuses: dict[str, str]
    videos: dict[str, str]
    has_times: bool

    def vector(self, clip: str) -> np.ndarray:
        """The numbers of a clip, each different from all others."""
        first = 100 * CLIPS.index(clip) + 10 * ord(self.title)
        return (first + np.arange(self.width)).astype(self.dtype) / 8

    def write(self, folder: Path) -> Store:
        """Write the store."""
        rows = []
        for clip, status in self.statuses.items():
            row = Row(clip, clip[:4], status=status, reason=REASONS[status])
            if self.has_times:
                row = row._replace(start_s=float(clip[-1]), end_s=float(clip[-1]) + 1)
            rows.append(row._replace(video_hash=self.videos[clip]))
        values = {"clip": np.stack([self.vector(clip) for clip in self.statuses])}
        return made_store(folder / self.title, rows, values, recipe=self.recipe)

    @property
    def recipe(self) -> Recipe:
        """How it was made."""
        return a_recipe(backbone={"name": self.title}, sampling={"rule": "uniform"})


def file_of(clip: str, video: str) -> str:
    """The hash of a file of a clip: two clips that are all of one file would be the same."""
    return video and f"{CLIPS.index(clip)}{video[1:]}"


@st.composite
def some_parts(draw: st.DrawFn) -> list[Part]:
    """Two or three stores of some of the clips, in any order."""
    parts = []
    for title in draw(st.permutations("abc"))[: draw(st.integers(2, 3))]:
        clips = draw(st.permutations(CLIPS))[: draw(st.integers(1, len(CLIPS)))]
        dtype = draw(st.sampled_from(["float16", "float32"]))
        width = draw(st.integers(1, 3))
        # Most clips have features.
        statuses = {one: draw(st.sampled_from([OK, OK, OK, *REASONS])) for one in clips}
        videos = {one: file_of(one, draw(st.sampled_from(VIDEOS))) for one in clips}
        has_times = draw(st.booleans())
        parts.append(Part(title, dtype, width, statuses, videos, has_times))
    return parts


def reasons_of(clip: str, parts: Sequence[Part]) -> list[str]:
    """Why a clip has no joined features: what each store says that lacks them."""
    reasons = []
    for part in parts:
        status = part.statuses.get(clip)
        if status is None:
            reasons.append(f"{part.title}: the store has no clip of this id")
        elif status != OK:
            reasons.append(f"{part.title}: {REASONS[status]}")
    return reasons


@settings(deadline=None, max_examples=amount(10, 300))
@given(parts=some_parts())
def test_a_join_is_its_parts_side_by_side(parts: list[Part]) -> None:
    clips = list(dict.fromkeys(clip for part in parts for clip in part.statuses))
    reasons = {}
    values = {}
    for clip in clips:
        lacking = reasons_of(clip, parts)
        if lacking:
            reasons[clip] = f"missing: {'; '.join(lacking)}"
        else:
            vectors = [part.vector(clip).astype(np.float32) for part in parts]
            values[clip] = np.concatenate(vectors)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in parts:
            part.write(folder / "stores")
        both = open_store("+".join(part.title for part in parts), workspace=folder)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ObygazeWarning)
            matrix = both.matrix(clips=clips, missing="drop")
        check_files([str(one.message) for one in caught], parts)
        assert matrix.clip_ids.tolist() == [*values]
        assert {clip: str(one) for clip, one in matrix.reasons.items()} == reasons
        assert matrix.values.dtype == np.float32
        expected = b"".join(map(np.ndarray.tobytes, values.values()))
        assert matrix.values.tobytes() == expected
        whole = both.matrix(missing="drop")
        assert whole.values.tobytes() == matrix.values.tobytes()


def check_files(said: Sequence[str], parts: Sequence[Part]) -> None:
    """It is said of which clips two parts were computed from different files."""
    expected = []
    for one, two in combinations(parts, 2):
        n_clips = 0
        for clip in one.statuses.keys() & two.statuses.keys():
            files = {one.videos[clip], two.videos[clip]} - {""}
            n_clips += len(files) > 1
        if n_clips:
            expected.append(n_clips)
    counts = [int(text.split()[0]) for text in said if "different video files" in text]
    assert counts == expected


@pytest.mark.parametrize("film", ["lake", ""])
def test_arrays_of_one_store_are_of_the_same_clips(tmp_path: Path, film: str) -> None:
    """Only of two stores nobody knows more than the ids."""
    rows = [Row(clip, film) for clip in CLIPS]
    ones = np.ones((len(rows), 2), np.float32)
    made_store(tmp_path / "one", rows, {"a": ones, "b": ones})
    other = a_recipe(backbone={"name": "other"})
    made_store(tmp_path / "two", rows, {"d": ones}, recipe=other)
    of_one = f"{tmp_path}/one:a+{tmp_path}/one:b"
    for parts, is_by_ids in ((of_one, False), (f"{of_one}+{tmp_path}/two:d", not film)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ObygazeWarning)
            open_store(parts, workspace=tmp_path).matrix(clips=CLIPS)
        said = [one for one in caught if "matched by id only" in str(one.message)]
        assert len(said) == is_by_ids
