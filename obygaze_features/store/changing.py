"""Make stores of the rows of other stores.

A subset, or a merger.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from obygaze_features.core.clip_ids import clip_ids, each_name
from obygaze_features.core.console import Progress, Quiet, count, few, human
from obygaze_features.core.errors import (
    FixInput,
    FixUsage,
    Mismatch,
    NotFound,
    ObygazeError,
    near_id,
)
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.notebook import unknown_name
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace, is_url
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Clip
from obygaze_features.store.card import Terms
from obygaze_features.store.decoding import Rows
from obygaze_features.store.encoding import Values, fill_rows
from obygaze_features.store.layout import (
    Array,
    with_companions,
)
from obygaze_features.store.making import FinishedFile, new_store, write_store
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import (
    Maker,
    ManifestMark,
    Origin,
    all_makers,
)
from obygaze_features.store.rows import Row, RowColumns
from obygaze_features.store.sealing import file_of_store

# Rows that are in two stores are compared so many at a time.
_COMPARED_ROWS = 256


@dataclass(frozen=True)
class Changed:
    """A store that was made from other stores.

    Args:
        path: The folder.
        seal: Its seal.
        n_clips: How many rows it has.
        n_files: How many files it has.
        n_bytes: How long they are together.
        warnings: What its user should know.
    """

    path: Path
    seal: str
    n_clips: int
    n_files: int
    n_bytes: int
    warnings: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return all that is known of the new store."""
        return {**vars(self), "path": str(self.path)}

    def __str__(self) -> str:
        size = f"{count(self.n_files, 'file')}, {human(self.n_bytes)}"
        return f"{self.path}: {count(self.n_clips, 'clip')}, {size}"


def subset(
    store: PathLike | Store,
    path: PathLike,
    *,
    films: Iterable[str] | None = None,
    clips: PathLike | Iterable[str] | Iterable[str | Clip] | None = None,
    arrays: Sequence[str] = (),
    without: Sequence[str] = (),
    progress: Progress | None = None,
    workspace: PathLike | None = None,
) -> Changed:
    """Make a store of some clips or arrays of a store.

    Its rows are numbered anew. The store that it is of may be at a URL, and only what is needed of
    it is read.

    To remove a film, make a store without it, then remove the other one. No file of the new store
    has anything of the film. Manifests that still have it are named. Copies, exports, runs and
    models are not reached.

    Args:
        store: The store.
        path: The new store: a name or a folder.
        films: Only the clips of this film, an id.
        clips: Only these clips, separated by commas, or those in a file: one id a line, or a
            column clip_id. In Python also clips of a manifest.
        arrays: Only this array, with the times and the mask of its frames.
        without: The id of a film or clip that is left out.
        progress: Counts clips, once for each array.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store subset obygaze12-xclip --film tt0108160 -o one-film
        obygaze store subset https://example.org/xclip --array pooled --clips chosen.txt -o small
        obygaze store subset obygaze12-xclip --without tt0108160 -o without-a-film
    """
    here = Workspace.of(workspace)
    target = new_store(here, path)
    opened = open_store(store, workspace=workspace)
    if isinstance(clips, str | os.PathLike):
        clips = clip_ids(clips)
    rows = _chosen_rows(opened, films, clips, without)
    chosen: Sequence[Array] = opened.record.arrays
    if arrays:
        named = [opened.array(name) for name in dict.fromkeys(each_name(arrays))]
        chosen = with_companions(named, opened.record.arrays)
    picked = []
    for row, number in zip(opened.table.some(rows), rows.tolist(), strict=True):
        picked.append(SourceRow(row, 0, number))
    return _change(
        target,
        PickedRows([opened], picked),
        arrays=chosen,
        recipe=opened.recipe,
        terms=opened.terms,
        progress=progress,
        remarks=_still_in_manifests(each_name(without), here),
    )


# --- One change for all ---


def _change(
    target: Path,
    source: PickedRows,
    *,
    arrays: Sequence[Array],
    recipe: Recipe,
    terms: Terms,
    progress: Progress | None,
    remarks: Sequence[str],
) -> Changed:
    """Write a store of rows of other stores.

    Args:
        target: The folder of the store.
        source: The rows.
        arrays: The arrays of the new store.
        recipe: How its features were made.
        terms: Its licence, and what to cite.
        progress: A bar that counts the rows of all arrays.
        remarks: What a person should know of the rows.
    """
    if progress is not None:
        progress.expect(len(source.rows) * len(arrays))
        source.progress = progress
    written = write_store(
        target,
        source,
        arrays=arrays,
        recipe=recipe,
        manifest=_common_manifest(source),
        makers=source.makers,
        terms=terms,
        origins=origins_of(source.stores),
    )
    files = [path for path in written.path.rglob("*") if path.is_file()]
    return Changed(
        path=written.path,
        seal=written.seal,
        n_clips=len(source.rows),
        n_files=len(files),
        n_bytes=sum(path.stat().st_size for path in files),
        warnings=remarks,
    )


def origins_of(stores: Sequence[Store]) -> list[Origin]:
    """Return the stores of which rows are taken, with those of which they took them."""
    origins: dict[Origin, None] = {}
    for store in stores:
        location = store.location
        # A path names the disk and the user, and a store is given to others.
        place = location if is_url(location) else Path(location).name
        theirs = {origin.seal: origin for origin in store.record.origins}
        for seal in store.made_of:
            origins[theirs.get(seal, Origin(place, seal))] = None
    return list(origins)


def _chosen_rows(
    store: Store,
    films: Iterable[str] | None,
    clips: Iterable[str | Clip] | None,
    without: Sequence[str],
) -> Rows:
    """Return the rows of a subset, in the order of the store."""
    requested = None if clips is None else list(clips)
    selection = store.select(clips=requested, films=films)
    if requested is not None:
        found = set(selection[selection.rows >= 0].clip_ids.tolist())
        ids = [clip.clip_id if isinstance(clip, Clip) else clip for clip in requested]
        missing = [clip for clip in ids if clip not in found]
        if missing:
            raise NotFound(
                f"{len(missing)} of the clips are not in the store, or not of these films;"
                f" the first is {missing[0]!r}{near_id(missing[0], store)}",
                where=store.location,
            )
    rows = np.setdiff1d(selection.rows, _rows_of_names(store, without))
    if not len(rows):
        raise FixInput("no row is left; a store has at least one", where=store.location)
    return rows


def _rows_of_names(store: Store, names: Sequence[str]) -> Rows:
    """Return the rows of films or clips that a user names; an error for an unknown name."""
    known_films = store.table.films
    names = list(dict.fromkeys(map(str, each_name(names))))
    films = [name for name in names if name in known_films]
    for film, row in zip(films, store.table.find(films).tolist(), strict=True):
        if row >= 0 and store.table.rows_of([film]).tolist() != [row]:
            raise FixInput(
                f"{film!r} is the id of a film and of a clip",
                where=store.location,
                hint="--without CLIP for each clip that you mean",
            )
    clips = [name for name in names if name not in known_films]
    rows = store.table.find(clips)
    for clip, row in zip(clips, rows.tolist(), strict=True):
        if row < 0:
            # To compare the name with a million ids would take half a minute.
            made = ascii_id(clip)
            known = [*known_films]
            if made in store:
                known.append(made)
            raise unknown_name("film or clip", clip, known, where=store.location)
    return np.union1d(rows, store.table.rows_of(films))


def _still_in_manifests(names: Sequence[str], workspace: Workspace) -> list[str]:
    """Return a sentence on the manifests that have a film or a clip which a subset leaves out."""
    if not names:
        return []
    found = []
    for name in workspace.names("manifests"):
        with suppress(ObygazeError, OSError):
            manifest = read_manifest(workspace.manifest(name))
            films = {*manifest.films}
            if any(one in films or one in manifest for one in names):
                found.append(name)
    if not found:
        return []
    return [
        f"manifests that still have {few(names)}: {few(found)}; the next extraction of one of them"
        " computes the features again"
    ]


class SourceRow(NamedTuple):
    """A row of a new store as one of its sources has it: the row, this store, its number there."""

    row: Row
    place: int
    number: int


class PickedRows:
    """Rows of open stores, as a `LinkingSource`: files that stay as they are get a second name.

    Args:
        stores: The stores.
        picked: For each row of the new store, the row of one of them.
    """

    # A bar that counts the rows of all arrays.
    progress: Progress = Quiet()

    def __init__(self, stores: Sequence[Store], picked: Sequence[SourceRow]) -> None:
        self.stores = stores
        self.places = np.array([each.place for each in picked], np.int64)
        self.numbers = np.array([each.number for each in picked], np.int64)
        self.rows = [row for row, _, _ in picked]
        self._is_ok = np.array([row.is_ok for row in self.rows], dtype=bool)

    @property
    def makers(self) -> tuple[Maker, ...]:
        """All that made the rows."""
        return all_makers(
            maker for store in self.stores for maker in store.record.makers
        )

    def columns(self) -> RowColumns:
        """Return all rows of the new store."""
        return RowColumns.of(self.rows)

    def read(self, array: Array, first: int, after: int) -> Values:
        """Return rows of an array; only those that are ok are read."""
        self.progress.advance(after - first)
        values = fill_rows(array, after - first)
        is_ok = self._is_ok[first:after]
        places = self.places[first:after]
        for place in np.unique(places).tolist():
            wanted = is_ok & (places == place)
            numbers = self.numbers[first:after][wanted]
            values[wanted] = self.stores[place].read(array.name, numbers)
        return values

    def finished_file(self, array: Array, number: int) -> FinishedFile | None:
        """Return the file of a store in a folder that has exactly these rows."""
        first = number * array.file_rows
        after = min(first + array.file_rows, len(self.rows))
        place = int(self.places[first])
        store = self.stores[place]
        end_there = min(first + array.file_rows, len(store))
        numbers = self.numbers[first:after]
        is_one_store = bool((self.places[first:after] == place).all())
        is_in_place = np.array_equal(numbers, np.arange(first, end_there))
        if not (is_one_store and is_in_place):
            return None
        file = file_of_store(store, array, number)
        if file is not None:
            self.progress.advance(after - first)
        return file


# --- Merging ---


def merge(
    stores: Sequence[PathLike | Store],
    path: PathLike,
    *,
    licence: str = "",
    progress: Progress | None = None,
    workspace: PathLike | None = None,
) -> Changed:
    """Make one store of several with other clips, which have one recipe and equal arrays.

    An id that two stores have is an error. All that computed rows are listed, and all citations are
    kept.

    Args:
        stores: The stores, near or far.
        path: The new store: a name or a folder.
        licence: The licence of the new store, where those of the stores differ.
        progress: Counts clips, once for each array.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store merge films-1-6 films-7-12 -o all-films
    """
    target = new_store(Workspace.of(workspace), path)
    opened = [open_store(store, workspace=workspace) for store in stores]
    if len(opened) < 2:
        raise FixUsage(
            "a merge needs at least two stores", hint="obygaze store merge --help"
        )
    _require_one_recipe(opened)
    _require_equal_arrays(opened)
    _require_other_clips(opened)
    terms = _common_terms(opened, licence)
    picked = []
    for place, store in enumerate(opened):
        for number, row in enumerate(store.rows):
            picked.append(SourceRow(row, place, number))
    return _change(
        target,
        PickedRows(opened, picked),
        arrays=_common_arrays(opened),
        recipe=opened[0].recipe,
        terms=terms,
        progress=progress,
        remarks=(),
    )


def _require_one_recipe(stores: Sequence[Store]) -> None:
    """Raise an error unless stores have one recipe."""
    first = stores[0]
    for store in stores[1:]:
        hint = "only stores of one recipe are merged"
        if first.recipe.is_unknown and store.recipe.is_unknown:
            hint += (
                "; imports that were made in the same way have one by the same name: obygaze store"
                " import FILE --backbone NAME"
            )
        first.recipe.require(
            store.recipe,
            where=store.location,
            message=f"this store and {first.location} have different recipes",
            hint=hint,
        )


def _require_equal_arrays(stores: Sequence[Store]) -> None:
    """Raise an error unless stores have equal arrays, but for the rows of a file."""
    first = stores[0]
    expected = list(map(_numbers_of, first.record.arrays))
    for store in stores[1:]:
        numbers = {array.name: _numbers_of(array) for array in store.record.arrays}
        if [*numbers.values()] != expected:
            others = [name for name in numbers if numbers[name] not in expected]
            raise Mismatch(
                f"the arrays are not those of {first.location}, of the same types and shapes and in"
                f" the same order: {few(others or [*numbers])}",
                where=store.location,
                hint="obygaze store subset STORE --array A --array B -o NAME puts them in an order",
            )


def _common_arrays(stores: Sequence[Store]) -> list[Array]:
    """Return the arrays of a merged store."""
    common = []
    for array in stores[0].record.arrays:
        # A file has at least one block of the filling of each store.
        file_rows = max(store.array(array.name).file_rows for store in stores)
        common.append(msgspec.structs.replace(array, file_rows=file_rows))
    return common


def _numbers_of(array: Array) -> tuple[object, ...]:
    """Return what must be equal where rows of an array are joined."""
    return (array.name, array.dtype, array.shape, array.dims)


def _require_other_clips(stores: Sequence[Store]) -> None:
    """Raise an error for a clip that two stores have: nobody says which of its rows counts."""
    store_of_clip: dict[str, Store] = {}
    for store in stores:
        ids = store.clip_ids.tolist()
        both = [clip for clip in ids if clip in store_of_clip]
        if both:
            other = store_of_clip[both[0]].location
            raise Mismatch(
                f"{count(len(both), 'clip')} of this store are in {other} too: {few(both, 3)}",
                where=store.location,
                hint=f"obygaze store subset {shell_word(store.location)} --without CLIP -o NAME,"
                " then merge that",
            )
        store_of_clip |= dict.fromkeys(ids, store)


def _common_manifest(source: PickedRows) -> ManifestMark:
    """Return the manifest of all stores, or that of the new rows, "" if there are several."""
    manifests = {store.record.manifest for store in source.stores}
    if len(manifests) == 1:
        return manifests.pop()
    names = {manifest.name for manifest in manifests}
    name = names.pop() if len(names) == 1 else ""
    return ManifestMark(name, source.columns().clips_sha256)


def _common_terms(stores: Sequence[Store], licence: str) -> Terms:
    """Return the licence of all stores, or the one that was given; and what to cite for any."""
    terms = [store.terms for store in stores]
    licences = [each.licence for each in terms]
    if not licence and len(set(licences)) > 1:
        stated = [
            f"{store.location}: {each or 'not stated'}"
            for store, each in zip(stores, licences, strict=True)
        ]
        raise Mismatch(
            f"the stores have different licences: {', '.join(stated)}",
            hint="--licence, which states the licence of the new store",
        )
    if len(set(licences)) == 1:
        where = ", ".join(store.location for store in stores)
        Terms(licence).require_same(terms[0], where)
    citations = dict.fromkeys(each.citation for each in terms if each.citation)
    return Terms(licence or licences[0], "\n".join(citations))
