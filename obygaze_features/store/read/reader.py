"""Read rows of a store by clip, film or mask; report missing rows, never replace them."""

from __future__ import annotations

import difflib
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import (
    Corrupt,
    FixInput,
    FixUsage,
    NotFound,
    ObygazeError,
)
from obygaze_features.core.lazy import need
from obygaze_features.core.notebook import (
    data_frame,
    html_summary,
    short_repr,
    unknown_name,
)
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.film_choice import known_film, titles_of
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.store.format.recipe import Recipe
from obygaze_features.store.format.records import LicenceHistory, Plan, Terms
from obygaze_features.store.format.schema import (
    NOT_FETCHED,
    NOT_IN_STORE,
    ROW_DIM,
    ArraySpec,
    RowStatus,
    TextTable,
)
from obygaze_features.store.read.arrays import Arrays
from obygaze_features.store.read.commits import Commits
from obygaze_features.store.read.index import Index
from obygaze_features.store.read.segments import Reducer, Rule, Segments, read_segments
from obygaze_features.store.remote import open_files, split_expected
from obygaze_features.store.remote.files import Files, read_record
from obygaze_features.store.remote.versions import (
    FilesOfVersion,
    files_of_version,
    has_version_with,
)

Missing = Literal["error", "nan", "drop"]
Rows = npt.NDArray[np.int64]
SHOWN_REASONS = 20
PULL_AGAIN = "obygaze store pull the whole of the same store into the same folder"


@dataclass(frozen=True)
class Status:
    """The status of all rows: counts by state, and that of each row that is not simply ok."""

    counts: Mapping[str, int]
    status_of_row: Mapping[int, RowStatus]
    is_ok: npt.NDArray[np.bool_] = field(compare=False)


@dataclass(frozen=True, eq=False)
class Selection:
    """The requested rows, -1 where the store has no such clip, with their clip ids."""

    rows: Rows
    store: Store
    requested: npt.NDArray[np.str_] | None = None

    def __getitem__(self, which: npt.NDArray[Any] | slice) -> Selection:
        requested = None if self.requested is None else self.requested[which]
        return Selection(self.rows[which], self.store, requested)

    @property
    def clip_ids(self) -> npt.NDArray[np.str_]:
        """The clips; the ids of the store are read only if this is used."""
        return (
            self.store.clip_ids_of(self.rows)
            if self.requested is None
            else self.requested
        )


@dataclass(frozen=True, eq=False)
class Matrix:
    """Rows of one array in the order in which they were requested.

    `present` is, for each requested row, whether it is there, and `reasons` why not, by clip. With
    `missing="drop"`, `values`, `rows` and `clip_ids` hold the present ones only. Two are equal if
    they have the same clips, numbers and reasons.
    """

    values: npt.NDArray[Any]
    present: npt.NDArray[np.bool_]
    selection: Selection
    reasons: Mapping[str, RowStatus]

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Matrix):
            return NotImplemented
        return (
            np.array_equal(self.clip_ids, other.clip_ids)
            and np.array_equal(self.present, other.present)
            and self.values.dtype == other.values.dtype
            and np.array_equal(self.values, other.values, equal_nan=True)
            and self.reasons == other.reasons
        )

    __hash__ = None  # type: ignore[assignment]

    def __array__(
        self, dtype: Any = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        return short_repr(
            "Matrix", f"{shape} {self.values.dtype}", f"{len(self.reasons)} missing"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `values`."""
        return self.values.shape

    def to_frame(self) -> Any:
        """Return a pandas DataFrame: one row for each clip, one column for each number."""
        numbers = self.values.reshape(len(self.values), math.prod(self.shape[1:])).T
        columns: dict[str, Any] = {str(i): column for i, column in enumerate(numbers)}
        columns["clip_id"] = self.clip_ids
        return data_frame(columns, index="clip_id")

    @property
    def rows(self) -> Rows:
        """The row of the store that each row of `values` is."""
        return self.selection.rows

    @property
    def clip_ids(self) -> npt.NDArray[np.str_]:
        """The clip that each row of `values` is."""
        return self.selection.clip_ids


def open_store(
    store: str | os.PathLike[str] | Files | Store,
    *,
    workspace: str | os.PathLike[str] | None = None,
    expect: str | None = None,
    version: int | None = None,
) -> Store:
    """Open a feature store; only one small file is read, whatever the size of the store.

    Args:
        store: A name in the workspace, a folder, a packed zip, an https://, s3:// or hf:// URL, or
            an object with the methods of `Files`. `#sha256=...` at its end is the same as `expect`,
            and `@2` before that the same as `version`. A store that is open already is returned as
            it is.
        workspace: The workspace, if it is not the current one.
        expect: The sha256 of its seal, from its publisher. Another store is an error.
        version: The version of the store, by default the newest; `obygaze store log` lists them.

    Example:
        >>> store = og.open_store("mine")
        >>> len(store), store.feature_arrays
        (72, ('clip',))
    """
    location: str | Path | Files
    if isinstance(store, Store):
        if expect is None and version is None:
            return store
        location = store._opened
    elif isinstance(store, str):
        location = Workspace.of(workspace).existing_store(store)
    elif isinstance(store, os.PathLike):
        # A path object is a path, never a name: "./mine" has become "mine" in it.
        location = Path(store)
    elif hasattr(store, "read"):
        location = store
    else:
        raise FixUsage(
            f"expected a store, its name or its folder, got {type(store).__name__}",
            hint="save the features with numpy.savez, then obygaze store import npz",
        )
    sha256 = ""
    if isinstance(location, str | Path):
        _, sha256 = split_expected(str(location), expect)
    elif expect is not None:
        _, sha256 = split_expected("", expect)
    files = open_files(location)
    if version is not None:
        files = _files_of_version(files, version)
        if not isinstance(location, str | Path):
            location = files
    plan = read_record(files, Plan)
    if plan is None:
        raise NotFound(
            "no store here: no store.json",
            where=files.location,
            hint="obygaze store ls",
        )
    opened = Store(files, plan, sha256, location)
    opened.commits.require_expected()
    return opened


def _files_of_version(files: Files, version: int) -> Files:
    """Return the files of a version; an error where the files are of another one already."""
    if not isinstance(files, FilesOfVersion):
        return files_of_version(files, version)
    if files.number == version:
        return files
    raise FixUsage(
        f"two versions of one store are asked for: {files.number} and {version}",
        where=files.location,
    )


class Store:
    """An open store. Threads may share it; it keeps the ids and the seal that it has read."""

    def __init__(
        self,
        files: Files,
        plan: Plan,
        expect: str = "",
        opened: str | Path | Files | None = None,
    ) -> None:
        self.files = files
        self.plan = plan
        self._expect = expect
        self._opened = files if opened is None else opened
        self.commits = Commits(files, plan, expect)
        self.arrays = Arrays(files, plan, self.commits)

    def with_array_files(self, files: Files) -> Store:
        """Return this store with the files of its arrays and texts read from another place.

        What lists them, and the ids, stay as they were read.
        """
        store = Store(self.files, self.plan, self._expect, self._opened)
        store.commits = self.commits
        if self.commits.index is None:
            store.clip_ids = self.clip_ids
            store.movie_ids = self.movie_ids
        store.arrays = Arrays(files, self.plan, self.commits)
        return store

    def __reduce__(self) -> tuple[Any, ...]:
        # The location names the commit of a store on the hub, but leaves out what may be secret.
        is_complete = (
            isinstance(self._opened, str | Path) and "***" not in self.location
        )
        opened = self.location if is_complete else self._opened
        expect = self._expect or None
        return partial(open_store, expect=expect), (opened,)

    def __repr__(self) -> str:
        location = self.location
        if len(location) > 60:
            location = f"...{location[-57:]}"
        names = [spec.name for spec in self.plan.arrays if spec.is_feature_array]
        return short_repr("Store", repr(location), f"{self.n_clips} clips", *names)

    def _repr_html_(self) -> str:
        facts = {
            "clips": f"{self.n_clips:,}",
            "arrays": ", ".join(self.feature_arrays),
            "backbone": self.recipe.title,
            "state": "sealed" if self.sealed else "not sealed",
        }
        return html_summary(f"Store {self.location}", facts)

    def __len__(self) -> int:
        return self.n_clips

    def __iter__(self) -> Iterator[str]:
        return iter(self.clip_ids.tolist())

    def __contains__(self, clip_id: object) -> bool:
        return clip_id in self._row_of

    def __getitem__(self, array: str) -> Matrix:
        """Return all rows of an array that are there; `matrix` has the choices."""
        if array not in self.feature_arrays:
            self.require_held([array])
            raise unknown_name("array", array, self.feature_arrays, where=self.location)
        return self.matrix(array, missing="drop")

    @property
    def location(self) -> str:
        """Where it was opened."""
        return self.files.location

    @property
    def recipe(self) -> Recipe:
        """How the features were made."""
        return self.plan.recipe

    @property
    def fingerprint(self) -> str:
        """The sha256 of the recipe: stores with the same one can be compared."""
        return self.plan.recipe.fingerprint

    def gives(self, fingerprint: str, array: str) -> bool:
        """Return whether an array is that of the recipe with a fingerprint.

        That recipe may be the one of this store with fewer levels beside the array.
        """
        if fingerprint == self.fingerprint:
            return True
        names = [spec.name for spec in self.plan.arrays]
        if array not in names:
            return False
        extracted = self.plan.array(array).derived_from or array
        return self.recipe.gives(fingerprint, extracted)

    @property
    def seal_sha256(self) -> str:
        """The sha256 of seal.json, which stands for the whole sealed store; "" if not sealed.

        The seal lists the sha256 of each file but itself and licence.json.
        """
        return self.commits.seal_sha256

    @property
    def version(self) -> int:
        """The number of this version of the store; the first is 1, also before it is sealed."""
        seal = self.commits.seal
        return 1 if seal is None else seal.version_number

    @property
    def n_clips(self) -> int:
        """The number of rows."""
        return self.plan.n_clips

    @property
    def feature_arrays(self) -> tuple[str, ...]:
        """The arrays that hold features, in the order of the plan.

        A partial copy has only those of which it holds a block.
        """
        return tuple(spec.name for spec in self.held_arrays if spec.is_feature_array)

    @property
    def held_arrays(self) -> tuple[ArraySpec, ...]:
        """The arrays of the plan; of a partial copy, those of which it has at least one block."""
        partial = self.commits.partial if self.commits.may_be_partial else None
        if partial is None:
            return self.plan.arrays
        return tuple(spec for spec in self.plan.arrays if partial.blocks.get(spec.name))

    def chosen_arrays(self, arrays: Sequence[str] | None = None) -> list[ArraySpec]:
        """Return the arrays to copy: those of these names, else all, and the times and masks here.

        An array that the plan does not have, or that is not in a partial copy, is an error.
        """
        if arrays is None:
            return list(self.held_arrays)
        wanted = {self.plan.array(name).name for name in arrays}
        self.require_held(arrays)
        return [
            spec
            for spec in self.held_arrays
            if spec.name in wanted or not spec.is_feature_array
        ]

    def require_held(self, names: Iterable[str]) -> None:
        """Raise an error for an array of the plan of which a partial copy has no block."""
        held = {spec.name for spec in self.held_arrays}
        absent = [
            spec.name
            for spec in self.plan.arrays
            if spec.name in names and spec.name not in held
        ]
        if absent:
            raise NotFound(
                f"this copy is partial and does not hold {' and '.join(absent)}",
                where=self.location,
                hint=f"{PULL_AGAIN}, or one of {', '.join(sorted(held))}",
            )

    @property
    def sealed(self) -> bool:
        """Whether the store is complete and closed."""
        return self.commits.is_sealed

    @cached_property
    def clip_ids(self) -> npt.NDArray[np.str_]:
        """The clip of each row."""
        return self.arrays.ids("clip_id")

    def clip_ids_of(self, rows: Rows) -> npt.NDArray[np.str_]:
        """Return the clips of some rows, from the index by film if that was read."""
        index = None if "clip_ids" in vars(self) else self.commits.index
        return self.clip_ids[rows] if index is None else index.clip_ids(rows)

    def movie_ids_of(self, rows: Rows) -> npt.NDArray[np.str_]:
        """Return the films of some rows, from the index by film if that was read."""
        index = None if "movie_ids" in vars(self) else self.commits.index
        return self.movie_ids[rows] if index is None else index.movie_ids(rows)

    @cached_property
    def movie_ids(self) -> npt.NDArray[np.str_]:
        """The film of each row."""
        return self.arrays.ids("movie_id")

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {clip: row for row, clip in enumerate(self.clip_ids.tolist())}

    @cached_property
    def licence_history(self) -> LicenceHistory | None:
        """What was stated about the licence after the store was planned; None for nothing."""
        history = read_record(self.files, LicenceHistory)
        if history is None or history.plan == self.plan.sha256:
            return history
        both = (history.plan, self.plan.sha256)
        if not all(has_version_with(self.files, store_sha256) for store_sha256 in both):
            raise Corrupt(
                f"{LicenceHistory.FILE} is of another store",
                where=self.location,
                hint="remove this file, and fetch it again from where the store is from",
            )
        return history

    @property
    def licence(self) -> str:
        """The licence of the store; "" if none is stated."""
        return self.terms.licence

    @property
    def citation(self) -> str:
        """What to cite for the store; "" if nothing is stated."""
        return self.terms.citation

    @property
    def terms(self) -> Terms:
        """The licence and the citation that count: those stated last."""
        history = self.licence_history
        return self.plan.terms if history is None else history.terms

    def text(self) -> TextTable | None:
        """Return the texts that go with the store, if there are any."""
        return self.arrays.text()

    def status(self) -> Status:
        """Return the status of every row; in a store that is not sealed this reads all markers."""
        self.arrays.check_rows()
        status_of_row = self.commits.statuses(self.feature_arrays)
        not_ok = {
            row: status for row, status in status_of_row.items() if not status.is_ok
        }
        is_ok = np.ones(self.n_clips, dtype=bool)
        is_ok[list(not_ok)] = False
        states = Counter(status.state for status in not_ok.values())
        return Status(
            {"ok": int(is_ok.sum()), **dict(sorted(states.items()))},
            status_of_row,
            is_ok,
        )

    def select(
        self,
        clips: Iterable[str] | None = None,
        films: Iterable[str] | None = None,
        mask: npt.ArrayLike | None = None,
    ) -> Selection:
        """Return the rows of clips (in their order), or of films or a mask (in the store's order).

        With several conditions, the rows that meet all of them. Films are named by their ids.
        """
        movie_ids: list[str] = []
        if films is not None:
            # The index is enough where nothing but films is asked for.
            index = None
            if clips is None and mask is None:
                index = self.commits.find_index()
            movie_ids = self._checked_films(films, index)
            if index is not None:
                return Selection(index.rows(movie_ids), self)
        self.arrays.check_rows()
        is_chosen = np.ones(self.n_clips, dtype=bool)
        if films is not None:
            is_chosen &= np.isin(self.movie_ids, np.array(movie_ids, dtype=np.str_))
        if mask is not None:
            is_chosen &= self._checked_mask(mask)
        if clips is None:
            return Selection(np.flatnonzero(is_chosen), self)
        selection = self._select_clips(clips)
        rows = selection.rows
        return selection[(rows < 0) | is_chosen[rows]]

    def _select_clips(self, clips: Iterable[str]) -> Selection:
        """Return the rows of clips, in their order; -1 for those that are not in the store."""
        if isinstance(clips, str):
            raise FixInput(f"clips must be a list of ids, got the string {clips!r}")
        requested = [str(clip) for clip in clips]
        rows = [self._row_of.get(clip, -1) for clip in requested]
        ids = np.array(requested, dtype=np.str_)
        return Selection(np.array(rows, dtype=np.int64), self, ids)

    def _checked_films(self, films: Iterable[str], index: Index | None) -> list[str]:
        """Return the ids of films; an error for one that the store does not have."""
        names = [films] if isinstance(films, str) else list(map(str, films))
        listed_ids = self.movie_ids.tolist() if index is None else index.films
        movie_ids = dict.fromkeys(map(str, listed_ids))
        for name in names:
            if name not in movie_ids:
                known_film(name, movie_ids, titles_of(movie_ids), where=self.location)
        return names

    def find_manifest(self, workspace: Workspace) -> Manifest | None:
        """Return the manifest of this name in a workspace, which may have changed since.

        None if the workspace has none, or it cannot be read.
        """
        name = self.plan.manifest_name
        # A name from outside is looked for here, and never followed as a path.
        if name not in workspace.names("manifests"):
            return None
        try:
            return read_manifest(workspace.manifest(name))
        except (ObygazeError, OSError):
            return None

    def _checked_mask(self, mask: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return a mask as an array; an error unless it has a boolean for each row."""
        bits = np.asarray(mask)
        if bits.dtype != np.bool_ or bits.shape != (self.n_clips,):
            raise FixInput(
                f"mask must be {self.n_clips} booleans, one for each row of the store, "
                f"got {bits.dtype} of shape {bits.shape}"
            )
        return bits

    def matrix(
        self,
        array: str,
        *,
        clips: Iterable[str] | None = None,
        films: Iterable[str] | None = None,
        mask: npt.ArrayLike | None = None,
        missing: Missing = "error",
    ) -> Matrix:
        """Return rows of one array, in the requested order.

        Args:
            array: the name of the array.
            clips: ids of clips, in the order of the result; by default all.
            films: only the clips of these films.
            mask: one boolean for each row of the store.
            missing: for rows that are missing or failed, an error that lists them with their
                reasons, rows of NaN, or no rows.
        """
        spec = self._askable(array, missing)
        return self._matrix(spec, self.select(clips, films, mask), missing)

    def frame(self, array: str) -> Any:
        """Return the rows of an array that are there as a pandas DataFrame."""
        return self[array].to_frame()

    def to_xarray(self) -> Any:
        """Return an xarray Dataset of all arrays of features; rows that are not there are NaN.

        It is read into memory. For arrays larger than that: `xarray.open_zarr` on data.zarr.
        """
        xarray = need("xarray", "frames", "Store.to_xarray")
        arrays = {}
        for name in self.feature_arrays:
            dims = (ROW_DIM, *self.plan.array(name).dims)
            arrays[name] = (dims, self.matrix(name, missing="nan").values)
        ids = {
            "clip_id": (ROW_DIM, self.clip_ids),
            "movie_id": (ROW_DIM, self.movie_ids),
        }
        return xarray.Dataset(
            arrays, coords=ids, attrs={"fingerprint": self.fingerprint}
        )

    def real_frames(self, array: str, rows: Rows) -> npt.NDArray[np.bool_] | None:
        """Return which frames [row, frame] of an array are real, not the padding of a short clip.

        None if the array has no vector for each frame, or the store has no mask.
        """
        mask = self.plan.mask_of(array)
        if mask is None:
            return None
        _, absent = self._presence(mask, Selection(rows, self))
        self._raise_absent(absent)
        return self.arrays.read(mask, rows).astype(np.bool_)

    def presence(
        self, array: str, clips: Iterable[str]
    ) -> tuple[npt.NDArray[np.bool_], Mapping[str, RowStatus]]:
        """Return whether each clip has an array, and why others have none; read no values."""
        return self._presence(self.plan.array(array), self.select(clips))

    def stream(
        self,
        array: str,
        *,
        clips: Iterable[str] | None = None,
        films: Iterable[str] | None = None,
        mask: npt.ArrayLike | None = None,
        missing: Missing = "error",
    ) -> Iterator[Matrix]:
        """Yield the rows of `matrix` block by block, in the order of the store.

        For arrays larger than memory; the parameters are those of `matrix`.
        """
        spec = self._askable(array, missing)
        selection = self.select(clips, films, mask)
        if missing == "error":
            _, absent = self._presence(spec, selection)
            self._raise_absent(absent)
        selection = selection[np.argsort(selection.rows, kind="stable")]
        blocks = selection.rows // self.plan.block_rows
        ends = np.flatnonzero(np.diff(blocks, append=-2)) + 1
        start = 0
        for stop in ends.tolist():
            yield self._matrix(spec, selection[start:stop], missing)
            start = stop

    def segments(
        self,
        segments: Iterable[Clip],
        array: str,
        *,
        rule: Rule = "touch",
        reduce: Reducer | None = None,
    ) -> Segments:
        """Return the windows of segments of films, from a store of windows.

        The times of a segment are in seconds from the first picture of its film. A segment without
        a window that has features is missing, with the reason.

        Args:
            segments: clips or segments of a manifest, each with its film and its times.
            array: the name of the array.
            rule: which windows belong to a segment: those that `touch` it (share a picture), those
                whose `centre` is in it, or those that are `within` it.
            reduce: make one vector of the windows of each segment: `max`, `mean`, `first`, `last`.
                Without it, all windows are returned, with offsets.

        Example:
            >>> found = og.open_store("films.xclip").segments(og.read_manifest("mobygaze"), "clip")
            >>> first = found.values[found.offsets[0] : found.offsets[1]]
        """
        return read_segments(self, segments, array, rule, reduce)

    def _askable(self, array: str, missing: Missing) -> ArraySpec:
        spec = self.plan.array(array)
        if missing not in ("error", "nan", "drop"):
            raise FixInput(f"missing must be 'error', 'nan' or 'drop', got {missing!r}")
        if missing == "nan" and not spec.is_float:
            raise FixInput(
                f"{spec.name} is {spec.dtype}, which has no NaN", hint='missing="drop"'
            )
        return spec

    def _matrix(
        self, spec: ArraySpec, selection: Selection, missing: Missing
    ) -> Matrix:
        present, reasons = self._presence(spec, selection)
        if missing == "error":
            self._raise_absent(reasons)
        if missing == "nan" and not present.all():
            values = self.arrays.reserve(spec, len(present))
            values[~present] = np.nan
            values[present] = self.arrays.read(spec, selection.rows[present])
            return Matrix(values, present, selection, reasons)
        if not present.all():
            selection = selection[present]
        values = self.arrays.read(spec, selection.rows)
        return Matrix(values, present, selection, reasons)

    def _presence(
        self, spec: ArraySpec, selection: Selection
    ) -> tuple[npt.NDArray[np.bool_], dict[str, RowStatus]]:
        rows = selection.rows
        blocks = np.unique(rows[rows >= 0] // self.plan.block_rows).tolist()
        bad = {-1: NOT_IN_STORE, **self.commits.not_ok(spec.name, blocks)}
        present = np.isin(rows, list(bad), invert=True)
        absent = selection[~present]
        if not len(absent.rows):
            return present, {}
        pairs = zip(absent.clip_ids.tolist(), absent.rows.tolist(), strict=True)
        return present, {clip: bad[row] for clip, row in pairs}

    def _similar_ids(self, clip: str) -> str:
        """Return what to do about a clip that the store does not list."""
        similar = difflib.get_close_matches(clip, map(str, self.clip_ids), n=3)
        if similar:
            return f"check their ids (the store has {', '.join(similar)})"
        return "check their ids"

    def _raise_absent(self, absent: Mapping[str, RowStatus]) -> None:
        if not absent:
            return
        lines = [f"{clip}: {status}" for clip, status in absent.items()]
        details = lines[:SHOWN_REASONS]
        if len(lines) > SHOWN_REASONS:
            details.append(f"... and {len(lines) - SHOWN_REASONS} more")
        remedy = "check their ids, extract them again"
        if all(status == NOT_FETCHED for status in absent.values()):
            remedy = PULL_AGAIN
        if all(status == NOT_IN_STORE for status in absent.values()):
            remedy = self._similar_ids(next(iter(absent)))
        raise NotFound(
            f"{len(absent)} of the requested clips are missing, the first is {lines[0]}",
            where=self.location,
            hint=f'{remedy}, or in Python missing="drop" or "nan"',
            details=details,
        )
