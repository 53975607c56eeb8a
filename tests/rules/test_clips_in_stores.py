"""Rule (a) in stores: random stores and manifests that use one id for several clips.

A plain model in memory says what must come back: a clip is a film and a span, and a store or a
manifest may know either, both or none of them. No number of another clip comes back where films or
times are known on both sides, every contradiction is refused with both values, and what was
withdrawn never comes back.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.seeds import amount
from support.stores import made_store
from support.written_stores import check_all

from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    Mismatch,
    ObygazeWarning,
)
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, ascii_id
from obygaze_features.manifest.model import Manifest as ClipManifest
from obygaze_features.store import Row, Store, open_store
from obygaze_features.store.changing import merge, subset
from obygaze_features.store.copying import pull, push
from obygaze_features.store.exporting import export_features
from obygaze_features.store.finding import BY_IDS
from obygaze_features.store.importing.features import import_features
from obygaze_features.store.records import ManifestMark
from obygaze_features.store.rows import OK, WITHDRAWN
from obygaze_features.store.verifying import verify
from obygaze_features.store.withdrawals import rows_withdrawn_elsewhere
from obygaze_models.protocols.clips import clip_table
from obygaze_models.protocols.schema import Data
from obygaze_models.runner.features import read_store

FILMS = ("alba", "brug")
SPANS = ((0.0, 2.0), (4.0, 6.0))
IDS = ("1", "2", "alba-1", "brug-2")
# What an import without a manifest makes of these ids.
GUESSES = {"1": "unknown", "2": "unknown", "alba-1": "alba", "brug-2": "brug"}
VECTORS = {
    (film, span): np.random.default_rng(number).standard_normal(4).astype("float32")
    for number, (film, span) in enumerate(
        (film, span) for film in FILMS for span in SPANS
    )
}


@dataclass(frozen=True)
class Entry:
    """A clip in a table: the id, what it is, and what the table says of it."""

    clip_id: str
    film: str
    span: tuple[float, float]
    says_film: bool
    says_times: bool

    @property
    def vector(self) -> np.ndarray:
        """The numbers of the clip that it is."""
        return VECTORS[self.film, self.span]

    @property
    def times(self) -> tuple[float | None, float | None]:
        """The times, as far as the table says them."""
        return self.span if self.says_times else (None, None)

    def contradiction(self, other: Entry) -> tuple[str, str] | None:
        """The two values that differ, where both tables say them."""
        if self.says_film and other.says_film and self.film != other.film:
            return self.film, other.film
        if self.says_times and other.says_times and self.span != other.span:
            return f"{self.span[0]:g} s to", f"{other.span[0]:g} s to"
        return None

    def is_by_id_alone(self, other: Entry) -> bool:
        """Whether nothing but the id says that both are one clip."""
        has_film = self.says_film and other.says_film
        return not has_film and not (self.says_times and other.says_times)


@dataclass(frozen=True)
class Table:
    """The clips of a store; without a manifest, films may be guessed from ids."""

    has_manifest: bool
    entries: dict[str, Entry]

    def film_in_row(self, entry: Entry) -> str:
        """The film that stands in the row of a clip."""
        return entry.film if entry.says_film else GUESSES[entry.clip_id]

    def write(self, path: Path) -> Store:
        """Write the store."""
        rows = []
        for entry in self.entries.values():
            rows.append(Row(entry.clip_id, self.film_in_row(entry), *entry.times))
        vectors = [entry.vector for entry in self.entries.values()]
        name = "films" if self.has_manifest else "imported"
        values = {"clip": np.stack(vectors)}
        return made_store(path, rows, values, manifest=ManifestMark(name, "0" * 64))


ENTRIES = st.builds(
    Entry,
    st.sampled_from(IDS),
    st.sampled_from(FILMS),
    st.sampled_from(SPANS),
    st.booleans(),
    st.booleans(),
)


def by_id(entries: Sequence[Entry]) -> dict[str, Entry]:
    return {entry.clip_id: entry for entry in entries}


@st.composite
def tables(draw: Callable[..., Any]) -> Table:
    """A store; a film that is as the guess from the id counts as a guess."""
    has_manifest = draw(st.booleans())
    entries = {}
    for entry in draw(st.lists(ENTRIES, min_size=1, max_size=4)):
        is_guess = entry.film == GUESSES[entry.clip_id]
        says_film = has_manifest or (entry.says_film and not is_guess)
        entries[entry.clip_id] = Entry(
            entry.clip_id, entry.film, entry.span, says_film, entry.says_times
        )
    return Table(has_manifest, entries)


@st.composite
def labelled(draw: Callable[..., Any]) -> list[tuple[Clip, Entry]]:
    """The clips of a manifest."""
    clips = []
    for entry in by_id(draw(st.lists(ENTRIES, min_size=1, max_size=4))).values():
        entry = Entry(entry.clip_id, entry.film, entry.span, True, entry.says_times)
        start_s, end_s = entry.times
        clip = Clip(entry.clip_id, entry.film, start_s=start_s, end_s=end_s, level="S")
        clips.append((clip, entry))
    return clips


def searched(
    test: Callable[..., None],
    n_examples: int,
    *,
    examples: Sequence[Mapping[str, Any]] = (),
    **drawn: Any,
) -> None:
    """Try a test with some known cases and so many random ones, each in a folder of its own."""

    def each(**case: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            test(Path(folder), **case)

    search = given(**drawn)(each)
    for known in examples:
        search = example(**known)(search)
    settings(max_examples=n_examples)(search)()


# --- A manifest meets a store: matrix, and the join of a run ---


def check_join(folder: Path, table: Table, clips: Sequence[tuple[Clip, Entry]]) -> None:
    store = table.write(folder / "s")
    manifest = ClipManifest("films", Header("films"), tuple(c for c, _ in clips))
    known = [(clip, here) for clip, here in clips if here.clip_id in table.entries]
    differences = []
    n_by_ids = 0
    for _, here in known:
        there = table.entries[here.clip_id]
        difference = there.contradiction(here)
        if difference:
            differences.append(difference)
        n_by_ids += there.is_by_id_alone(here)
    joins = [
        lambda: store.matrix(clips=manifest, missing="drop").values,
        lambda: store.matrix("clip", clips=reversed(manifest.clips), missing="drop"),
        lambda: of_a_run(store, manifest),
    ]
    for join in joins[: 3 if known else 2]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if differences:
                with pytest.raises(FixInput, match="another one in the store") as error:
                    join()
                assert any(
                    all(value in error.value.message for value in difference)
                    for difference in differences
                )
                is_imported = store.recipe.is_unknown
                command = "store import" if is_imported else "extract run"
                assert f"obygaze {command} " in error.value.hint
                continue
            join()
        sentences = [str(w.message) for w in caught if w.category is ObygazeWarning]
        assert [s for s in sentences if f"{n_by_ids} clip" in s] == sentences
        assert len(sentences) == bool(n_by_ids)
    if differences:
        return
    with warnings.catch_warnings(action="ignore"):
        values = joins[0]()
        if known:
            np.testing.assert_array_equal(of_a_run(store, manifest), values)
    assert len(values) == len(known)
    for (_, here), vector in zip(known, values, strict=True):
        there = table.entries[here.clip_id]
        np.testing.assert_array_equal(vector, there.vector)
        if there.says_film and there.says_times and here.says_times:
            np.testing.assert_array_equal(vector, here.vector)


def of_a_run(store: Store, manifest: ClipManifest) -> np.ndarray:
    """The features that a run or `og.dataset` reads."""
    data = Data(view="raw", array=("clip",))
    table = clip_table(manifest, data)
    features = read_store("s", store, table, data, False)
    return features.of(np.flatnonzero(features.present))


def test_a_manifest_never_gets_the_numbers_of_another_clip() -> None:
    searched(check_join, amount(30, 600), table=tables(), clips=labelled())


@pytest.mark.parametrize("name", ["imported", "imported-with-films"])
def test_no_manifest_has_the_name_by_which_stores_know_guessed_films(
    tmp_path: Path, name: str
) -> None:
    """Its films would count as guesses, and another film of the same id as the same."""
    clips = (Clip("alba-1", "alba"), Clip("alba-2", "alba"))
    made = ClipManifest(name, Header("films"), clips)
    with pytest.raises(FixInput, match=f"a manifest cannot be called '{name}'"):
        write_manifest(made, tmp_path / f"{name}.toml")


# --- Import with a manifest ---


def check_import(
    folder: Path, table: Table, clips: Sequence[tuple[Clip, Entry]]
) -> None:
    """The files name films of some clips; a film that is guessed is not in them."""
    entries = list(table.entries.values())
    manifest = ClipManifest("films", Header("films"), tuple(c for c, _ in clips))
    of_row = {clip.clip_id: here for clip, here in clips}
    np.savez(
        folder / "f.npz",
        clip_id=[entry.clip_id for entry in entries],
        movie_id=[entry.film if entry.says_film else "" for entry in entries],
        clip=np.stack([entry.vector for entry in entries]),
    )

    def imported() -> Any:
        return import_features(
            "npz", folder / "f.npz", folder / "s", manifest=manifest, workspace=folder
        )

    matched = {}
    for clip, _ in clips:
        if clip.clip_id in table.entries:
            matched[clip.clip_id] = table.entries[clip.clip_id]
    differences = []
    for name, there in matched.items():
        here = of_row[name]
        if there.says_film and there.film != here.film:
            differences.append((here.film, there.film))
    if differences:
        with pytest.raises(FixInput, match="another one in the files") as error:
            imported()
        assert any(f"film: {a} and {b}" in error.value.message for a, b in differences)
        return
    if not matched:
        with pytest.raises(FixInput, match="none of the clips of the manifest"):
            imported()
        return
    notes = " ".join(imported().notes)
    n_by_ids = sum(not there.says_film for there in matched.values())
    assert ("by the ids alone" in notes) == bool(n_by_ids)
    assert not n_by_ids or f"{n_by_ids} clip" in notes
    n_in_films = len(matched) - n_by_ids
    assert ("by film and id alone" in notes) == bool(n_in_films)
    assert not n_in_films or f"{n_in_films} clip" in notes
    store = open_store(folder / "s")
    for row, vector in zip(
        store.rows, store.read("clip", np.arange(len(store))), strict=True
    ):
        assert row.is_ok == (row.clip_id in matched)
        if row.is_ok:
            np.testing.assert_array_equal(vector, matched[row.clip_id].vector)


def test_an_import_never_gives_a_clip_the_numbers_of_another_film() -> None:
    searched(check_import, amount(12, 300), table=tables(), clips=labelled())


@pytest.mark.parametrize("says_film", [True, False])
@pytest.mark.parametrize("first_there", [0, 1, 2])
def test_ids_that_may_count_from_another_number_are_asked_about(
    tmp_path: Path, first_there: int, says_film: bool
) -> None:
    """The ids of a manifest count from 1; those of files fit all but one of each film."""
    clips = [Clip(f"{film}-{n}", film) for film in "ab" for n in range(1, 6)]
    there = [(film, first_there + n) for film in "ab" for n in range(5)]
    np.savez(
        tmp_path / "f.npz",
        clip_id=[f"{film}-{n}" for film, n in there],
        movie_id=[film if says_film else "" for film, _ in there],
        clip=np.eye(10, dtype=np.float32),
    )
    manifest = ClipManifest("films", Header("films"), tuple(clips))
    done = import_features("npz", tmp_path / "f.npz", tmp_path / "s", manifest=manifest)
    asked = [text for text in done.warnings if "another number" in text]
    assert len(asked) == (first_there != 1)
    expected = {0: "a-5 of the manifest", 1: "", 2: "a-1 of the manifest"}[first_there]
    assert expected in "".join(asked)


def test_clips_left_over_in_different_films_are_not_asked_about(tmp_path: Path) -> None:
    clips = (Clip("a-1", "a"), Clip("a-2", "a"), Clip("b-1", "b"))
    ids = ["a-1", "b-1", "b-2"]
    vectors = np.eye(3, dtype=np.float32)
    films = [clip_id[0] for clip_id in ids]
    np.savez(tmp_path / "f.npz", clip_id=ids, movie_id=films, clip=vectors)
    manifest = ClipManifest("films", Header("films"), clips)
    done = import_features("npz", tmp_path / "f.npz", tmp_path / "s", manifest=manifest)
    assert not any("another number" in text for text in done.warnings)


def test_groups_of_films_have_the_ids_of_film_and_clip(tmp_path: Path) -> None:
    """`file["The Hours/0000"] = x` makes a group; the manifest wrote the id `The_Hours_0000`."""
    vectors = {}
    clips = []
    with h5py.File(tmp_path / "f.h5", "w") as file:
        for number, name in enumerate(("The Hours/0000", "The Hours/0001", "Io/0000")):
            film = ascii_id(name.split("/")[0])
            clips.append(Clip(ascii_id(name), film))
            vectors[ascii_id(name)] = np.eye(3, dtype=np.float32)[number]
            file[name] = vectors[ascii_id(name)]
    manifest = ClipManifest("films", Header("films"), tuple(clips))
    arrays = {"clip": "{film}/{id}"}
    import_features(
        "hdf5", tmp_path / "f.h5", tmp_path / "s", arrays=arrays, manifest=manifest
    )
    store = open_store(tmp_path / "s")
    for row, values in zip(store.rows, store.read("clip", np.arange(3)), strict=True):
        assert row.is_ok
        np.testing.assert_array_equal(values, vectors[row.clip_id])


# --- Withdrawals: merge, part, import, info ---


@dataclass
class Gone:
    """What was withdrawn: films by their names, clips by what is known of them."""

    films: set[str] = field(default_factory=set)
    clips: list[Entry] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def has(self, table: Table, entry: Entry) -> bool:
        """Whether a clip of a store was withdrawn, as far as it can be known."""
        if table.film_in_row(entry) in self.films or entry.clip_id in self.ids:
            return True
        return any(
            clip.clip_id == entry.clip_id and not clip.contradiction(entry)
            for clip in self.clips
        )


def check_withdrawal(
    folder: Path,
    tables: Sequence[Table],
    number: int,
    by_film: bool,
    of_a_part: bool,
    is_turned: bool,
) -> None:
    one, other = tables
    workspace = Workspace(folder)
    place = folder / "stores" / "one"
    one.write(place)
    other.write(folder / "stores" / "other")
    export_features(place, folder / "old.npz", "npz")
    chosen = list(one.entries.values())[number % len(one.entries)]
    name = one.film_in_row(chosen) if by_film else chosen.clip_id
    if name == "unknown":
        with pytest.raises(FixInput, match="'unknown' is no film"):
            subset(place, without=[name], reason="asked", workspace=workspace)
        return
    made = subset(place, without=[name], reason="asked", workspace=workspace)
    gone = Gone()
    withdrawn = [chosen]
    if by_film:
        gone.films = {name}
        withdrawn = [e for e in one.entries.values() if one.film_in_row(e) == name]
    gone.clips = withdrawn
    assert sorted(made.clips) == sorted(entry.clip_id for entry in withdrawn)
    # The export before the withdrawal is listed, and the other store if it has the clip.
    listed = {copy.path.name: copy.remark for copy in made.copies}
    assert listed["old.npz"] in ("", BY_IDS)
    same_id = {entry.clip_id for entry in withdrawn} & other.entries.keys()
    has_some = any(gone.has(other, entry) for entry in other.entries.values())
    assert ("other" in listed) == (has_some or bool(same_id))
    if "other" in listed:
        assert (listed["other"] == "") == has_some
    said = rows_withdrawn_elsewhere(
        open_store(folder / "stores" / "other"), workspace, "here"
    )
    assert bool(said) == has_some
    _check_imported_again(folder, one, withdrawn, gone)
    left = [e.clip_id for e in one.entries.values() if e not in withdrawn]
    names = [place, folder / "stores" / "other"]
    mine = one
    if of_a_part and left:
        subset(place, folder / "part", clips=left)
        names[0] = folder / "part"
        mine = Table(one.has_manifest, {name: one.entries[name] for name in left})
        gone.ids = set() if by_film else {entry.clip_id for entry in withdrawn}
        gone.clips = []
    order = list(reversed(names)) if is_turned else names
    _check_merged(folder, order, mine, other, gone)


def _check_imported_again(
    folder: Path, table: Table, withdrawn: Sequence[Entry], gone: Gone
) -> None:
    """An export from before the withdrawal brings nothing back."""
    gone_ids = {entry.clip_id for entry in withdrawn}
    if gone_ids == table.entries.keys():
        with pytest.raises(FixInput, match="no clip has usable features"):
            import_features(
                "npz", folder / "old.npz", folder / "again", workspace=folder
            )
        return
    import_features("npz", folder / "old.npz", folder / "again", workspace=folder)
    again = open_store(folder / "again")
    for row in again.rows:
        assert row.status == (WITHDRAWN if row.clip_id in gone_ids else OK)
    check_all(folder / "again")


def _check_merged(
    folder: Path, order: Sequence[Path], mine: Table, other: Table, gone: Gone
) -> None:
    both = mine.entries.keys() & other.entries.keys()
    of_id: dict[str, list[tuple[Table, Entry]]] = {}
    for table in (mine, other):
        for name, entry in table.entries.items():
            of_id.setdefault(name, []).append((table, entry))
    # A row that may be withdrawn gives nothing; another one of the clip may know that it is not.
    left = {
        name: [entry for table, entry in entries if not gone.has(table, entry)]
        for name, entries in of_id.items()
    }
    is_gone = {name: not entries for name, entries in left.items()}
    differences = []
    numbers_differ = False
    for name in both:
        ours = mine.entries[name]
        theirs = other.entries[name]
        difference = ours.contradiction(theirs)
        if difference:
            differences.append(difference)
        numbers_differ |= len(left[name]) == 2 and bool(
            (ours.vector != theirs.vector).any()
        )
    if differences:
        with pytest.raises(Mismatch, match="not the same clip") as error:
            merge(order, folder / "both")
        assert any(all(v in error.value.message for v in d) for d in differences)
        return
    if numbers_differ:
        with pytest.raises(Mismatch, match="with different numbers"):
            merge(order, folder / "both")
        return
    made = merge(order, folder / "both")
    merged = open_store(folder / "both")
    assert set(merged) == of_id.keys()
    values = merged.read("clip", np.arange(len(merged)))
    for row, vector in zip(merged.rows, values, strict=True):
        assert row.status == (WITHDRAWN if is_gone[row.clip_id] else OK)
        if row.is_ok:
            expected = left[row.clip_id][0].vector
            np.testing.assert_array_equal(vector, expected)
    check_all(folder / "both")
    by_ids = [n for n in both if mine.entries[n].is_by_id_alone(other.entries[n])]
    said = [text for text in made.warnings if "by their ids alone" in text]
    assert len(said) == bool(by_ids)
    # A clip that was taken out is named.
    lost = [
        name
        for name, entry in other.entries.items()
        if gone.has(other, entry) and is_gone[name]
    ]
    said = [text for text in made.warnings if "withdrawn in the new one" in text]
    assert len(said) == bool(lost)


WITHDRAWAL = {
    "tables": st.tuples(tables(), tables()),
    "number": st.integers(0, 3),
    "by_film": st.booleans(),
    "of_a_part": st.booleans(),
    "is_turned": st.booleans(),
}


# The film alba is withdrawn. The clip alba-1 is of the film brug, and the second store, which has
# no manifest, only guesses alba from the id: once with other numbers, once with the same ones.
GUESSED = [
    {
        "tables": (
            Table(
                True,
                {
                    "1": Entry("1", "alba", SPANS[0], True, False),
                    "alba-1": Entry("alba-1", "brug", SPANS[0], True, False),
                },
            ),
            Table(
                False,
                {
                    "1": Entry("1", "alba", SPANS[0], False, False),
                    "alba-1": Entry("alba-1", film, SPANS[0], False, False),
                },
            ),
        ),
        "number": 0,
        "by_film": True,
        "of_a_part": of_a_part,
        "is_turned": is_turned,
    }
    for film in FILMS
    for of_a_part, is_turned in [(False, False), (True, False), (False, True)]
]


def test_nothing_brings_back_what_was_withdrawn() -> None:
    searched(check_withdrawal, amount(12, 200), examples=GUESSED, **WITHDRAWAL)


@pytest.mark.parametrize("reason", ["", "2026-01-02: asked"])
@pytest.mark.parametrize("is_turned", [False, True])
def test_a_row_that_another_program_has_withdrawn_need_not_say_why(
    tmp_path: Path, reason: str, is_turned: bool
) -> None:
    """The format lets the cell be empty; a merge took the clip from the other store."""
    withdrawn = Row("alba-1", "alba", 0.0, 2.0, WITHDRAWN, reason)
    rows_of_stores = [
        [withdrawn, Row("alba-2", "alba", 2.0, 4.0)],
        [Row("alba-1", "alba", 0.0, 2.0), Row("alba-3", "alba", 4.0, 6.0)],
    ]
    stores = []
    for number, rows in enumerate(rows_of_stores):
        values = {"clip": np.ones((2, 3), "float32")}
        stores.append(made_store(tmp_path / f"{number}", rows, values))
    order = stores[::-1] if is_turned else stores
    made = merge(order, tmp_path / "both", workspace=tmp_path)
    merged = {row.clip_id: row for row in open_store(made.path).rows}
    assert merged.pop("alba-1").status == WITHDRAWN
    assert all(row.is_ok for row in merged.values()) and len(merged) == 2
    assert any("withdrawn in the new one: alba-1" in text for text in made.warnings)


# --- A copy and its source, each of which may change ---


@pytest.mark.parametrize("other_array", [False, True])
@pytest.mark.parametrize("other_backbone", [False, True])
@pytest.mark.parametrize("other_rows", [False, True])
def test_another_import_of_a_file_takes_no_place(
    tmp_path: Path, other_array: bool, other_backbone: bool, other_rows: bool
) -> None:
    """It obeys what was withdrawn from the first one, and lists it as that one's changes."""
    ids = ["a-1", "a-2", "b-1"]
    vectors = {"one": np.eye(3, 4, dtype="f4"), "two": np.eye(3, 5, dtype="f4")}
    np.savez(tmp_path / "f.npz", clip_id=ids, movie_id=["a", "a", "b"], **vectors)
    workspace = Workspace(tmp_path)

    def imported(name: str, array: str, backbone: str, manifest: Any = None) -> Path:
        place = tmp_path / "stores" / name
        import_features(
            "npz",
            tmp_path / "f.npz",
            place,
            arrays={"clip": array},
            backbone=backbone,
            manifest=manifest,
            workspace=workspace,
        )
        return place

    first = imported("first", "one", "x")
    push(first, tmp_path / "there", no_licence=True, workspace=workspace)
    subset(first, without=["a-1"], reason="asked", workspace=workspace)
    clips = (Clip("b-1", "b"), Clip("a-2", "a"))
    manifest = ClipManifest("films", Header("films"), clips) if other_rows else None
    array = "two" if other_array else "one"
    backbone = "y" if other_backbone else "x"
    other = imported("other", array, backbone, manifest)
    assert [row.status for row in open_store(other).rows].count(OK) == 2
    if not (other_array or other_backbone or other_rows):
        # The same rows with the same numbers.
        push(other, tmp_path / "there", no_licence=True, workspace=workspace)
        return
    with pytest.raises(AlreadyThere, match="another store is there"):
        push(other, tmp_path / "there", no_licence=True, workspace=workspace)
    with pytest.raises(AlreadyThere, match="another store has this name"):
        pull(other, tmp_path / "there", workspace=workspace)
    said = verify(tmp_path / "there", source=other, workspace=workspace).source
    assert said.startswith("that store has rows of one which replaced it")
    push(first, tmp_path / "there", no_licence=True, workspace=workspace)


STEPS = st.tuples(st.sampled_from(["here", "there", "pull"]), st.sampled_from("abc"))


def check_source(folder: Path, steps: Sequence[tuple[str, str]]) -> None:
    """The history of a store: where which film was withdrawn, in order."""
    places = {"here": folder / "here" / "s", "there": folder / "there" / "s"}
    rows = [Row(f"{film}-{n}", film, n, n + 1.0) for film in "abc" for n in (1.0, 2.0)]
    made_store(places["there"], rows, {"clip": np.ones((len(rows), 2), "float32")})
    pull(places["there"], places["here"])
    history: dict[str, list[tuple[str, str]]] = {"here": [], "there": []}
    for step, film in steps:
        here, there = history["here"], history["there"]
        if step == "pull" and there[: len(here)] == here:
            pull(places["there"], places["here"])
            history["here"] = list(there)
        elif step == "pull":
            with pytest.raises(AlreadyThere):
                pull(places["there"], places["here"])
        elif film not in films_of(history[step]):
            subset(places[step], without=[film], reason=f"{step} {film}")
            history[step].append((step, film))
        _check_what_is_said(places, history["here"], history["there"])


def films_of(history: Sequence[tuple[str, str]]) -> set[str]:
    """The films that were withdrawn."""
    return {film for _, film in history}


def _check_what_is_said(
    places: Mapping[str, Path],
    here: Sequence[tuple[str, str]],
    there: Sequence[tuple[str, str]],
) -> None:
    report = verify(places["here"], source=places["there"])
    n_clips = 2 * len(films_of(there) - films_of(here))
    is_later = here[: len(there)] == there
    if here == there:
        assert report.source == "the same store as its source"
    elif is_later:
        assert report.source.startswith("a later store than its source")
        n_clips = 2 * len(films_of(here) - films_of(there))
    elif there[: len(here)] == here:
        assert report.source.startswith("its source was replaced since")
    else:
        assert report.source.startswith("it was changed here, and its source was")
    assert (f": {n_clips} clips withdrawn since" in report.source) == bool(n_clips)
    n_common = 0
    while here[n_common : n_common + 1] == there[n_common : n_common + 1] != []:
        n_common += 1
    told = [] if is_later else there[n_common:]
    said = [text for text in report.warnings if "the source was replaced" in text]
    assert len(said) == len(told)
    for text, (where, film) in zip(said, told, strict=True):
        assert f"{where} {film} (withdrawn: {film})" in text


def test_a_copy_learns_what_its_source_withdrew_whatever_was_changed_here() -> None:
    forked = {"steps": [("there", "a"), ("here", "b"), ("there", "c")]}
    steps = st.lists(STEPS, min_size=1, max_size=5)
    searched(check_source, amount(4, 100), examples=[forked], steps=steps)
