"""Make stores from rows of other stores: a subset of one store, or several stores merged."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.clip_ids import clip_ids, each_name
from obygaze_features.core.console import Progress, Quiet, count, few
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
from obygaze_features.core.workspace import PathLike, Workspace, is_url
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.manifest.same_clips import same_clips
from obygaze_features.store.card import Terms
from obygaze_features.store.decoding import Rows
from obygaze_features.store.encoding import Values, fill_rows
from obygaze_features.store.layout import Array, with_companions
from obygaze_features.store.making import new_store, write_store
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.records import ManifestMark, Origin, all_makers
from obygaze_features.store.replaced import films_of_two_files, replaced_videos_text
from obygaze_features.store.rows import Row, RowColumns


@dataclass(frozen=True)
class Changed:
    """A store that was made from other stores.

    Args:
        path: The folder of the new store.
        seal: The seal of the new store.
        n_clips: The number of rows.
        warnings: Warnings for the user.
    """

    path: Path
    seal: str
    n_clips: int
    warnings: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain JSON."""
        return {**vars(self), "path": str(self.path)}

    def __str__(self) -> str:
        return f"{self.path}: {count(self.n_clips, 'clip')}"


# --- Subsets ---


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

    Rows get new numbers. The source may be a URL: only the needed parts are read.

    To remove a film, make a store without it, then remove the old store. No file of the new store
    has anything of the film. Manifests that still have the film are named. Copies, exports, runs
    and models keep it.

    Args:
        store: The store.
        path: The new store: a name or a folder.
        films: Only the clips of this film, an id.
        clips: Only these clips: their ids, clips of a manifest, or a file with one id a line or a
            column clip_id.
        arrays: Only this array, with the times and the mask of its frames.
        without: The id of a film or clip to leave out.
        progress: Counts clips, once for each array.
        workspace: The workspace, if it is not the current one.
    """
    here = Workspace.of(workspace)
    target = new_store(here, path)
    opened = open_store(store, workspace=workspace)
    left_out = list(map(str, each_name(without)))
    if isinstance(clips, str | os.PathLike):
        clips = clip_ids(clips)
    rows = _chosen_rows(opened, films, clips)
    rows = np.setdiff1d(rows, _rows_of_names(opened, left_out))
    if not len(rows):
        raise FixInput(
            "the selection is empty; expected at least one clip", where=opened.location
        )
    chosen: Sequence[Array] = opened.record.arrays
    if arrays:
        named = {opened.array(name).name for name in each_name(arrays)}
        # In the order of the store, so that the default array is the same if it is kept.
        in_order = [array for array in opened.record.arrays if array.name in named]
        chosen = with_companions(in_order, opened.record.arrays)
    source = PickedRows([opened], [rows])
    remarks = _still_in_manifests(left_out, here)
    if isinstance(clips, Manifest):
        replaced = replaced_videos_text(clips.clips, clips, opened.stores)
        remarks += [replaced] if replaced else []
    origins = list_origins([opened])
    if left_out:
        # The stores of which this store was made may be of what is removed.
        origins = origins[:1]
    return _write(target, source, chosen, opened.terms, progress, origins, remarks)


def _chosen_rows(
    store: Store, films: Iterable[str] | None, clips: Iterable[str | Clip] | None
) -> Rows:
    """Return the rows of films or clips; with both, the rows of the clips of these films.

    Raise an error for a clip that the store does not have, or that is not of these films.
    """
    if clips is None:
        return store.select(films=films).rows
    requested = list(clips)
    selection = store.select(clips=requested, films=films)
    found = set(selection.clip_ids[selection.rows >= 0].tolist())
    ids = [clip.clip_id if isinstance(clip, Clip) else clip for clip in requested]
    missing = [clip for clip in ids if clip not in found]
    if missing:
        raise NotFound(
            f"{len(missing)} of the clips are not in the store, or not of these films,"
            f" such as {missing[0]!r}{near_id(missing[0], store)}",
            where=store.location,
        )
    return selection.rows


def _rows_of_names(store: Store, names: Sequence[str]) -> Rows:
    """Return the rows of films or clips by their names; raise an error for an unknown name."""
    films = set(store.table.films)
    of_clips = store.table.find(names)
    rows = [of_clips[of_clips >= 0]]
    for name, row in zip(names, of_clips.tolist(), strict=True):
        of_film = store.table.rows_of([name]) if name in films else rows[0][:0]
        if row < 0 and not len(of_film):
            # Comparing the name with a million ids would take half a minute.
            known = [*films, *filter(store.__contains__, [ascii_id(name)])]
            raise unknown_name("film or clip", name, known, where=store.location)
        if row >= 0 and len(of_film) and of_film.tolist() != [row]:
            raise FixInput(
                f"{name!r} is both the id of a film and the id of a clip",
                where=store.location,
                hint="pass --without CLIP for each clip",
            )
        rows.append(of_film)
    return np.concatenate(rows)


def _still_in_manifests(names: Sequence[str], workspace: Workspace) -> list[str]:
    """Return a sentence that lists the manifests with one of these films or clips, if any."""
    found = []
    for manifest_name in workspace.names("manifests") if names else ():
        with suppress(ObygazeError, OSError):
            manifest = read_manifest(workspace.manifest(manifest_name))
            films = set(manifest.films)
            if any(name in films or name in manifest for name in names):
                found.append(manifest_name)
    if not found:
        return []
    return [
        f"manifests that still have {few(names)}: {few(found)}; the next extraction of such a"
        " manifest computes the features again"
    ]


# --- Merging ---


def merge(
    stores: Sequence[PathLike | Store],
    path: PathLike,
    *,
    licence: str = "",
    progress: Progress | None = None,
    workspace: PathLike | None = None,
) -> Changed:
    """Merge stores with different clips; recipe and arrays must be equal.

    An id in two stores is an error. The new store lists all makers and citations.

    Args:
        stores: Names, folders or URLs of the stores.
        path: The new store: a name or a folder.
        licence: The licence of the new store, if those of the stores differ.
        progress: Counts clips, once for each array.
        workspace: The workspace, if it is not the current one.
    """
    target = new_store(Workspace.of(workspace), path)
    opened = [open_store(store, workspace=workspace) for store in stores]
    if len(opened) < 2:
        raise FixUsage(
            "expected at least two stores, got one", hint="pass the names of the stores"
        )
    first = opened[0]
    for number, store in enumerate(opened):
        first.recipe.require(
            store.recipe,
            where=store.location,
            message=f"this store and {first.location} have different recipes",
            hint="merge stores with equal recipes; imports have equal recipes if both were made"
            " with the same --backbone, --layer and --pool",
        )
        if _rows_of_arrays(store) != _rows_of_arrays(first):
            raise Mismatch(
                f"expected the arrays of {first.location} in the same order, got"
                f" {few([array.name for array in store.record.arrays])}",
                where=store.location,
                hint="merge subsets: obygaze store subset STORE --array A --array B -o NAME",
            )
        _refuse_shared(store, opened[:number])
    terms = _common_terms(opened, licence)
    rows = [store.table.all_rows() for store in opened]
    # A file of the new store has at least as many rows as a file of each store.
    arrays = max((store.record.arrays for store in opened), key=_file_rows)
    source = PickedRows(opened, rows)
    of_two_files = films_of_two_files(opened)
    remarks = [of_two_files] if of_two_files else []
    origins = list_origins(opened)
    return _write(target, source, arrays, terms, progress, origins, remarks)


def _refuse_shared(store: Store, others: Sequence[Store]) -> None:
    """Raise an error if a store has a clip of another store, and say whether it is the same."""
    for other in others:
        places = other.table.find(store.clip_ids.tolist())
        shared = np.flatnonzero(places >= 0)
        if len(shared):
            ours = store.facts_of(shared)
            theirs = other.facts_of(places[shared])
            found = same_clips(ours, theirs, np.arange(len(ours)))
            n_other = int((found.refused() > 0).sum())
            how = "as the same clips"
            if n_other:
                how = f"{n_other} of them as other clips"
            elif found.n_by_ids:
                how = f"{found.n_by_ids} of them by id only"
            # Nothing says which of the two rows is right.
            raise Mismatch(
                f"{count(len(shared), 'clip')} of this store are also in {other.location},"
                f" {how}: {few(ours.clip_ids.tolist(), 3)}",
                where=store.location,
                hint="merge a subset: obygaze store subset STORE --without CLIP -o NAME",
            )


def _rows_of_arrays(store: Store) -> list[object]:
    """Return for each array the facts that must be equal in all stores of a merge."""
    arrays = store.record.arrays
    return [(array.name, array.dtype, array.shape, array.dims) for array in arrays]


def _file_rows(arrays: Sequence[Array]) -> int:
    return arrays[0].file_rows


def _common_terms(stores: Sequence[Store], licence: str) -> Terms:
    """Return the terms of a merged store: one licence, and the citations of all stores.

    The licence is the given one, or the one that all stores state. Raise an error if the stores
    have different licences and none is given, or if the given licence differs from the licence of
    all stores.
    """
    terms = [store.terms for store in stores]
    licences = {each.licence for each in terms}
    if len(licences) == 1:
        Terms(licence).require_same(terms[0], stores[0].location)
    elif not licence:
        raise Mismatch(
            f"the stores have different licences: {few(sorted(map(repr, licences)))}",
            hint="pass --licence with the licence of the new store",
        )
    citations = dict.fromkeys(each.citation for each in terms if each.citation)
    return Terms(licence or terms[0].licence, "\n".join(citations))


# --- Both ---


class PickedRows:
    """Selected rows of several stores, as a `RowSource`.

    Args:
        stores: The stores.
        rows: For each store, the numbers of the rows that are copied.
    """

    # Counts the rows that are read, once for each array.
    progress: Progress = Quiet()

    def __init__(self, stores: Sequence[Store], rows: Sequence[Rows]) -> None:
        self.stores = stores
        self.places = np.repeat(np.arange(len(stores)), list(map(len, rows)))
        self.numbers = np.concatenate(rows)
        self.rows: list[Row] = []
        for store, numbers in zip(stores, rows, strict=True):
            self.rows += store.table.some(numbers)

    def columns(self) -> RowColumns:
        """Return the facts of all rows of the new store, as columns."""
        return RowColumns.of(self.rows)

    def read(self, array: Array, first: int, after: int) -> Values:
        """Return the rows of an array from number `first` to number `after - 1`."""
        self.progress.advance(after - first)
        values = fill_rows(array, after - first)
        places = self.places[first:after]
        for place in set(places.tolist()):
            wanted = places == place
            numbers = self.numbers[first:after][wanted]
            values[wanted] = self.stores[place].read(array.name, numbers)
        return values


def _write(
    target: Path,
    source: PickedRows,
    arrays: Sequence[Array],
    terms: Terms,
    progress: Progress | None,
    origins: Sequence[Origin],
    remarks: Sequence[str] = (),
) -> Changed:
    """Write a store from rows of other stores."""
    if progress is not None:
        progress.expect(len(source.rows) * len(arrays))
        source.progress = progress
    stores = source.stores
    names = {store.record.manifest.name for store in stores}
    name = names.pop() if len(names) == 1 else ""
    makers = chain.from_iterable(store.record.makers for store in stores)
    written = write_store(
        target,
        source,
        arrays=arrays,
        recipe=stores[0].recipe,
        manifest=ManifestMark(name, source.columns().clips_sha256),
        makers=all_makers(makers),
        terms=terms,
        origins=origins,
    )
    return Changed(written.path, written.seal, len(source.rows), remarks)


def list_origins(stores: Sequence[Store]) -> list[Origin]:
    """Return the origins of a new store.

    The origins are the stores from which its rows are copied, the stores that these replaced, and
    the origins that all these list.
    """
    origins: dict[Origin, None] = {}
    for store in stores:
        location = store.location
        # Only the name is recorded: a path would show the disk and the user to others.
        place = location if is_url(location) else Path(location).name
        theirs = {origin.seal: origin for origin in store.record.origins}
        for seal in store.made_of:
            origins[theirs.get(seal, Origin(place, seal))] = None
    return list(origins)
