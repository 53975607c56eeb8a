"""A clip is its id: where two sources meet, what both state of a clip is equal, or it is refused.

Drawn are two sources with some ids in common. Each states the films of all its clips or of none,
and the span of any of them; some of the second's are other films, or begin a little elsewhere.
Where both count a clip in frames, these are compared, and its times may be those of two copies of a
film. An oracle of plain loops says what must come: a refusal that names both values, or the clips
joined by their ids and the number of those that only the ids hold together.
"""

import re
import tempfile
import warnings
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.joined_stores import join_of
from support.seeds import amount
from support.stores import a_recipe, made_store

from obygaze_features.core.errors import FixInput, Mismatch, ObygazeWarning
from obygaze_features.manifest.adapters import csv_table
from obygaze_features.manifest.clip_table import ClipTable
from obygaze_features.manifest.io import rows_to_csv
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.same_clips import same_clips
from obygaze_features.manifest.spans import stated_frames
from obygaze_features.store import Row, Store, open_store
from obygaze_features.store.importing import import_features, write_features
from obygaze_features.store.records import ManifestMark

FILMS = ("alba", "brug")
IDS = ("1", "2", "3", "4")
# How much later the span of the second source is; what is less than a millisecond is no difference.
LATER_S = (0.0, 0.0, 0.0, 0.0004, 0.002, 0.02, 5.0)
# The same of frames.
LATER_FRAMES = (0, 0, 0, 1)
COUNTED = ("start_frame", "end_frame", "framerate")
FRAMERATES = ("25", "25.0", "23.976", "")


@dataclass(frozen=True)
class Stated:
    """What a source states of a clip."""

    film: str
    start_s: float | None
    end_s: float | None
    frames: tuple[int, int] | None = None
    framerate: str = ""

    @property
    def cells(self) -> dict[str, str]:
        """The cells of a table that state the frames."""
        if self.frames is None:
            return {}
        first, last = map(str, self.frames)
        rate = {"framerate": self.framerate} if self.framerate else {}
        return {"start_frame": first, "end_frame": last, **rate}


Source = dict[str, Stated]


@st.composite
def sources(draw, *, count_frames=False) -> tuple[Source, Source]:
    """Two sources with clips of some ids; some of them may count frames."""
    have_films = draw(st.tuples(st.booleans(), st.booleans()))
    made: tuple[Source, Source] = ({}, {})
    for clip_id in draw(st.lists(st.sampled_from(IDS), unique=True, min_size=1)):
        film = draw(st.sampled_from(FILMS))
        start_s = float(draw(st.integers(0, 30)))
        for number, source in enumerate(made):
            if not draw(st.sampled_from((True, True, True, False))):
                continue
            own_film = draw(st.sampled_from((film, film, film, *FILMS)))
            later_s = draw(st.sampled_from(LATER_S)) if number else 0.0
            has_span = draw(st.booleans())
            one = Stated(
                own_film if have_films[number] else "",
                start_s + later_s if has_span else None,
                start_s + later_s + 2.0 if has_span else None,
            )
            if count_frames and draw(st.booleans()):
                first = int(25 * start_s)
                first += draw(st.sampled_from(LATER_FRAMES)) if number else 0
                rate = draw(st.sampled_from(FRAMERATES))
                one = replace(one, frames=(first, first + 49), framerate=rate)
            source[clip_id] = one
    return made


def contradiction(one: Stated, other: Stated) -> tuple[str, str] | None:
    """Return the two values that differ, as a refusal must name them."""
    if one.film and other.film and one.film != other.film:
        return one.film, other.film
    if one.frames and other.frames:
        rates = {float(one.framerate or 0), float(other.framerate or 0)} - {0.0}
        if one.frames != other.frames or len(rates) > 1:
            return counted(one), counted(other)
        return None
    ours = times_of(one)
    theirs = times_of(other)
    if (
        ours
        and theirs
        and max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) > 0.00101
    ):
        return f"{ours[0]:.10g} s", f"{theirs[0]:.10g} s"
    return None


def times_of(one: Stated) -> tuple[float, float] | None:
    """Return the stated times, or those of the stated frames at their rate."""
    if one.start_s is not None:
        return one.start_s, one.end_s
    span = stated_frames(one.cells)
    return span and span.times_s


def counted(one: Stated) -> str:
    assert one.frames
    rate = {"": "", "25.0": " at 25"}.get(one.framerate, f" at {one.framerate}")
    return f"the frames {one.frames[0]} to {one.frames[1]}{rate}"


def is_by_id(one: Stated, other: Stated) -> bool:
    """Return whether no fact is stated by both."""
    if (one.film and other.film) or (one.frames and other.frames):
        return False
    return times_of(one) is None or times_of(other) is None


@dataclass(frozen=True)
class Expected:
    """What must come of two sources: contradictions by id, shared ids, and how many by id alone."""

    contradictions: dict[str, tuple[str, str]]
    shared: tuple[str, ...]
    n_by_ids: int

    @classmethod
    def of(cls, ours: Source, theirs: Source):
        both = {one: (ours[one], theirs[one]) for one in ours if one in theirs}
        values = {clip_id: contradiction(*pair) for clip_id, pair in both.items()}
        contradictions = {clip_id: two for clip_id, two in values.items() if two}
        return cls(
            contradictions, tuple(both), sum(is_by_id(*p) for p in both.values())
        )

    def check_refusal(self, error: Mismatch) -> None:
        """Check that a refusal counts the clips and names both values of up to three."""
        n = len(self.contradictions)
        assert re.search(rf"\b{n} clips?\b", error.message), error.message
        named = [one for one in self.contradictions if repr(one) in error.message]
        assert len(named) == min(n, 3), error.message
        for clip_id in named:
            assert all(value in error.message for value in self.contradictions[clip_id])


def facts_of(source: Source) -> ClipTable:
    stated = source.values()
    return ClipTable.of(
        source,
        [one.film for one in stated],
        [one.start_s for one in stated],
        [one.end_s for one in stated],
        [stated_frames(one.cells) for one in stated],
    )


def manifest_of(source: Source, name: str) -> Manifest:
    has_films = any(one.film for one in source.values())
    header = Header("films", films="" if has_films else "none")
    clips = []
    for clip_id, one in source.items():
        span = {"start_s": one.start_s, "end_s": one.end_s}
        cells = dict.fromkeys(COUNTED, "") | one.cells
        clips.append(Clip(clip_id, one.film, extra=cells, **span))
    return Manifest(name, header, tuple(clips), COUNTED)


def vector_of(clip_id: str) -> np.ndarray:
    return np.random.default_rng(int(clip_id)).normal(size=4).astype("float32")


def vectors_of(source: Source) -> np.ndarray:
    return np.stack([vector_of(clip_id) for clip_id in source])


def store_of(source: Source, path: Path, backbone: str = "toy") -> Store:
    rows = [
        Row(i, one.film, one.start_s, one.end_s).with_frames(stated_frames(one.cells))
        for i, one in source.items()
    ]
    recipe = a_recipe(backbone={"name": backbone, "card_sha256": "ab" * 32})
    mark = ManifestMark(path.name, "12" * 32)
    values = {"clip": vectors_of(source)}
    return made_store(path, rows, values, recipe=recipe, manifest=mark)


def frames_in(source: Source) -> dict[str, np.ndarray]:
    """Arrays of frames, NaN where none are stated; nothing if no clip has them."""
    if not any(one.frames for one in source.values()):
        return {}
    cells = [one.cells for one in source.values()]
    return {
        name: np.array([of_clip.get(name) or np.nan for of_clip in cells], float)
        for name in COUNTED
    }


def columns_of(source: Source) -> dict[str, np.ndarray]:
    stated = source.values()
    times = {
        name: np.array([getattr(one, name) for one in stated], float)
        for name in ("start_s", "end_s")
    }
    films = np.array([one.film for one in stated])
    ids = {"clip_id": np.array([*source]), "movie_id": films}
    return {**ids, **times, **frames_in(source), "clip": vectors_of(source)}


def npz_of(source: Source, path: Path) -> Path:
    np.savez(path.with_suffix(".npz"), **columns_of(source))
    return path.with_suffix(".npz")


def hdf5_of(source: Source, path: Path) -> Path:
    with h5py.File(path.with_suffix(".h5"), "w") as file:
        for name, values in columns_of(source).items():
            is_text = values.dtype.kind == "U"
            file[name] = values.astype(h5py.string_dtype()) if is_text else values
    return path.with_suffix(".h5")


def check_numbers(store: Store, width: int = 1) -> None:
    """Check that each row with features has those of its id."""
    for number, row in enumerate(store.rows):
        if row.is_ok:
            (vector,) = store.read(store.feature_arrays[0], np.array([number]))
            expected = np.tile(vector_of(row.clip_id), width)
            np.testing.assert_array_equal(vector, expected)


# --- The doors: at each two sources meet; each returns what it says to the user ---


def at_the_function(ours: Source, theirs: Source, _: Path) -> str:
    same_clips(facts_of(ours), facts_of(theirs)).require(("one", "other"))
    return ""


def at_a_store(ours: Source, theirs: Source, folder: Path) -> str:
    """A manifest asks a store for its clips, as runs and predictions do."""
    store = store_of(theirs, folder / "store")
    matrix = store.matrix("clip", clips=manifest_of(ours, "films"), missing="drop")
    assert matrix.clip_ids.tolist() == [one for one in ours if one in theirs]
    for clip_id, vector in zip(matrix.clip_ids.tolist(), matrix.values, strict=True):
        np.testing.assert_array_equal(vector, vector_of(clip_id))
    return ""


def at_an_import(written, ours, theirs, folder) -> str:
    """Features are imported for the clips of a manifest."""
    source, manifest = written(theirs, folder / "features"), manifest_of(ours, "films")
    done = import_features(
        source, folder / "store", manifest=manifest, workspace=folder
    )
    check_numbers(open_store(folder / "store"))
    return " ".join(done.notes)


def at_the_memory(ours: Source, theirs: Source, folder: Path) -> str:
    """Arrays are written for the clips of a manifest."""
    arrays = columns_of(theirs)
    given: Any = {"manifest": manifest_of(ours, "films"), "workspace": folder}
    done = write_features("store", arrays.pop("clip_id"), arrays, **given)
    check_numbers(open_store(done.path))
    return " ".join(done.notes)


def at_a_join(ours: Source, theirs: Source, folder: Path) -> str:
    one = store_of(ours, folder / "one")
    other = store_of(theirs, folder / "other", "also")
    check_numbers(join_of({"one": one, "other": other}), width=2)
    return ""


def at_files_of_people(ours: Source, theirs: Source, folder: Path) -> str:
    """Two people have a table each, about the same clips."""
    paths = []
    for name, source in (("ours", ours), ("theirs", theirs)):
        manifest = manifest_of(source, name)
        paths.append(folder / f"{name}.csv")
        paths[-1].write_bytes(rows_to_csv(manifest.with_column("mood", {})))
    films = "none" if not any(one.film for one in ours.values()) else None
    try:
        made = csv_table.read(paths, films=films, name="both").manifest
    except FixInput as error:
        said = [line for line in error.details if "under the same id" in line]
        have_films = [any(s.film for s in one.values()) for one in (ours, theirs)]
        if said and have_films[0] == have_films[1]:
            raise Mismatch(said[0]) from error
        raise
    assert set(made.clip_ids) == {*ours, *theirs}
    return ""


# Whatever the format: each states films and times in its own way.
FILES = (npz_of, hdf5_of)
IMPORTS = [*[partial(at_an_import, written) for written in FILES], at_the_memory]
DOORS = (at_the_function, at_a_store, *IMPORTS, at_a_join, at_files_of_people)
# Where both sources may count frames.
WITH_FRAMES = (at_the_function, at_a_store, *IMPORTS, at_a_join)
# What says nothing of ids alone, as two people have tables of the same clips.
SILENT = (at_files_of_people,)
# What needs clips in common, and of both sources films or of none.
NEED_SHARED = (at_a_store, *IMPORTS, at_a_join)


@pytest.mark.parametrize("door", DOORS)
def test_no_pair_whose_facts_differ_meets(door) -> None:
    @settings(max_examples=amount(15, 600))
    @given(sources(count_frames=door in WITH_FRAMES))
    def each(made: tuple[Source, Source]) -> None:
        ours, theirs = made
        expected = Expected.of(ours, theirs)
        if not ours or not theirs or (door in NEED_SHARED and not expected.shared):
            return
        have_films = {any(one.film for one in source.values()) for source in made}
        with (
            tempfile.TemporaryDirectory() as name,
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always", ObygazeWarning)
            if door is at_files_of_people and len(have_films) == 2:
                # Clips with and without films would stand in one table.
                with pytest.raises(FixInput, match="cannot be imported"):
                    door(ours, theirs, Path(name))
                return
            if expected.contradictions:
                with pytest.raises(Mismatch) as refused:
                    door(ours, theirs, Path(name))
                expected.check_refusal(refused.value)
                return
            said = door(ours, theirs, Path(name))
        said = " ".join([said, *(str(one.message) for one in caught)])
        if door not in SILENT:
            n = expected.n_by_ids
            assert ("id only" in said) == bool(n), said
            assert not n or re.search(rf"\b{n} clips?\b", said)

    each()
