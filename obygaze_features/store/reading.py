"""Read the features of a store by clip or film; by default, missing features are an error."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from obygaze_features.core.clip_ids import each_name
from obygaze_features.core.console import count
from obygaze_features.core.errors import (
    Corrupt,
    FixInput,
    FixUsage,
    Mismatch,
    NotFound,
    ObygazeError,
    near_id,
    remove_secrets,
)
from obygaze_features.core.lazy import import_optional
from obygaze_features.core.notebook import (
    data_frame,
    html_repr,
    short_repr,
    unknown_name,
)
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import (
    EXPECTED,
    Workspace,
    is_url,
)
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.store.arrays import Arrays
from obygaze_features.store.atomic_files import filling_path
from obygaze_features.store.card import (
    MOST_CARD_BYTES,
    Terms,
    has_head,
    read_terms,
)
from obygaze_features.store.decoding import Rows
from obygaze_features.store.files import (
    MOST_DOCUMENT_BYTES,
    Files,
    FolderFiles,
    ListedFiles,
    store_replaced_error,
)
from obygaze_features.store.layout import (
    BEFORE,
    BLOCKS,
    CARD,
    CLAIM,
    GROUP_JSON,
    MASK,
    N_WORDS,
    NEXT,
    PLAN_JSON,
    ROW_DIMENSION,
    STORE_JSON,
    Array,
    arrays_of_features,
    belongs_to,
    default_array,
    power_of_two,
    with_companions,
)
from obygaze_features.store.network import JOIN_LATER, Unreachable, open_remote
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import (
    StoreRecord,
    decode,
    seal_of,
)
from obygaze_features.store.rows import OK, Row
from obygaze_features.store.rows import Reason as Reason
from obygaze_features.store.table import RowTable
from obygaze_features.store.torch_dataset import TorchDataset

if TYPE_CHECKING:
    from obygaze_features.manifest.clip_table import ClipTable

EXTRACT_AGAIN = "obygaze extract run MANIFEST -b BACKBONE --store BACKBONE=NAME"
IMPORT_AGAIN = "obygaze store import FILE --manifest MANIFEST -o NAME"
Missing = Literal["error", "nan", "drop"]
SHOWN_REASONS = 20
TIMES_OF_ROWS = ("start_s", "end_s")
STREAMED_BYTES = 2**24
_SHA256 = re.compile(r"[0-9a-f]{64}")


NOT_IN_STORE = Reason("missing", "the store has no clip of this id")


# The hint for a join if one store is needed.
ONLY_READ = (
    "pass one store; only run, train, models test and models predict read a join"
)


class BeingFilled(Corrupt):
    """A store is unfinished: continue its extraction, or wait for it.

    Args:
        n_blocks: The number of finished blocks.
        folder: The folder in which the store is filled.
    """

    def __init__(self, n_blocks: int, folder: Path) -> None:
        self.progress = f"{count(n_blocks, 'block')} finished"
        super().__init__(
            f"this store is being filled, {self.progress}",
            where=str(folder),
            hint="run the same extraction again to continue",
        )


@dataclass(frozen=True)
class Status:
    """The status of all rows: counts by status, and the reason of each row without features."""

    counts: Mapping[str, int]
    reasons: Mapping[int, Reason]
    is_ok: npt.NDArray[np.bool_] = field(compare=False)


@dataclass(frozen=True, eq=False)
class Selection:
    """The requested rows of a store, and their clip ids.

    `rows` has the numbers of the rows; -1 if the store does not have the clip. `requested` has the
    requested clip ids. If it is None, the ids are read from the store.
    """

    rows: Rows
    store: Store
    requested: npt.NDArray[np.str_] | None = None

    def __getitem__(self, which: npt.NDArray[Any] | slice) -> Selection:
        requested = None if self.requested is None else self.requested[which]
        return Selection(self.rows[which], self.store, requested)

    @property
    def clip_ids(self) -> npt.NDArray[np.str_]:
        """The requested clip ids; if none were requested, the ids of the rows in the store."""
        if self.requested is not None:
            return self.requested
        return self.store.table.clip_ids_of(self.rows)


@dataclass(frozen=True, eq=False)
class Matrix:
    """Rows of one array in the order in which they were requested.

    `present` states for each requested clip whether it has features. `reasons` has, by clip, why
    the clips without features have none. With `missing="drop"`, `values`, `rows` and `clip_ids`
    have only the clips with features.
    """

    values: npt.NDArray[Any]
    present: npt.NDArray[np.bool_]
    selection: Selection
    reasons: Mapping[str, Reason]

    def __len__(self) -> int:
        return len(self.values)

    def __array__(
        self, dtype: Any = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)

    def __getitem__(self, places: Any) -> Any:
        """Return rows or numbers of `values`, by their places as in NumPy."""
        return self.values[places]

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
        return data_frame(columns)

    @property
    def rows(self) -> Rows:
        """The row number in the store of each row of `values`."""
        return self.selection.rows

    @property
    def clip_ids(self) -> npt.NDArray[np.str_]:
        """The clip id of each row of `values`."""
        return self.selection.clip_ids


def name_of(store: StoreName) -> str:
    """Return the name, folder or URL by which a store was given, without secrets."""
    given = store.location if isinstance(store, Store) else os.fspath(store)
    return remove_secrets(given)


def open_store(
    store: str | os.PathLike[str] | Files | Store,
    *,
    workspace: str | os.PathLike[str] | None = None,
    expect: str | None = None,
) -> Store:
    """Open a feature store; only one small file is read, whatever the size of the store.

    Args:
        store: A name in the workspace, a folder, an https://, s3:// or hf:// URL, or an object with
            the methods of `Files`. `#sha256=...` at its end is the same as `expect`. An open store
            is returned as it is.
        workspace: The workspace, if it is not the current one.
        expect: The seal that the store must have, from its publisher; any other is an error.

    Example:
        >>> store = og.open_store("mine")
        >>> len(store), store.feature_arrays
        (72, ('clip',))
    """
    if isinstance(store, Store):
        if len(store.stores) > 1:
            raise FixUsage(
                f"expected one store, got the join {store.location}",
                hint=ONLY_READ,
            )
        if expect is None or store.seal == parse_seal(expect):
            return store
        raise seal_mismatch(store.seal, parse_seal(expect), store.location)
    if isinstance(store, str | os.PathLike):
        location, expected = split_expected(os.fspath(store), expect)
        # A path object is a path, never a name: Path("./mine") is "mine".
        if isinstance(store, str):
            location = location_of(location, workspace)
        files = open_files(location)
    elif hasattr(store, "read_ranges"):
        _, expected = split_expected("", expect)
        files = store
    else:
        raise FixUsage(
            f"expected the name or the folder of a store, got {type(store).__name__}",
            hint="pass a name such as 'films.xclip', or a path",
        )
    try:
        data = files.read(STORE_JSON, MOST_DOCUMENT_BYTES).tobytes()
    except FileNotFoundError as error:
        raise _no_store_error(files) from error
    seal = seal_of(data)
    if expected and seal != expected:
        raise seal_mismatch(seal, expected, files.location)
    record = decode(data, StoreRecord, f"{files.location}/{STORE_JSON}")
    return Store(files, record, seal)


def split_expected(location: str, expect: str | None = None) -> tuple[str, str]:
    """Return a location without `#sha256=...`, and the seal that this ending or `expect` states.

    The seal is "" if none is stated.
    """
    address, sign, stated = location.rpartition(EXPECTED)
    if not sign:
        address = location
    if is_url(address) and "#" in address:
        # Servers never receive the text after #: a misspelled word would check nothing.
        _, _, ending = address.partition("#")
        raise FixUsage(
            f"unknown ending '#{ending}' of a URL",
            where=address,
            hint="use URL#sha256=SEAL, or a URL without #",
        )
    in_location = parse_seal(stated) if sign else ""
    # "" is refused too: an empty variable would check nothing.
    in_option = "" if expect is None else parse_seal(expect)
    if in_location and in_option and in_location != in_option:
        raise FixUsage(f"#sha256= and --expect differ: {in_location} and {in_option}")
    return address, in_location or in_option


def parse_seal(text: str) -> str:
    """Return a typed seal in lower case; raise an error unless it is a SHA-256."""
    seal = text.strip().lower().removeprefix("sha256:")
    if not _SHA256.fullmatch(seal):
        raise FixUsage(f"a seal has 64 hex digits, got {text!r}")
    return seal


def seal_mismatch(
    seal: str, expected: str, where: str, kind: str = "store"
) -> Mismatch:
    """Return the error for a store or a model with an unexpected seal."""
    return Mismatch(
        f"different {kind}: expected the seal {expected}, got {seal}",
        where=where,
    )


def location_of(name: str, workspace: str | os.PathLike[str] | None) -> str:
    """Return the location of a store: a URL or path as given, or a folder of the workspace.

    Replaced stores and unfinished stores cannot be named: they are opened by their paths.
    """
    here = Workspace.of(workspace)
    location = here.store(name)
    is_path = is_url(name) or "/" in name
    if not is_path and (BEFORE in name or name.endswith(NEXT)):
        raise NotFound(
            f"{name} cannot be the name of a store",
            where=location,
            hint=f"to open this folder, pass ./{name} or the whole path",
        )
    if is_path or location == name:
        return location
    path = Path(location)
    # The store may be in the process of being filled.
    if path.exists() or filling_path(path).exists():
        return location
    if "+" in name:
        raise FixUsage(f"expected one store, got the join {name!r}", hint=ONLY_READ)
    return here.existing_store(name)


def open_files(location: str) -> Files:
    """Return the files of a folder or URL."""
    if is_url(location):
        return open_remote(location)
    path = Path(location)
    if path.exists() and not path.is_dir():
        raise FixInput(
            "expected the folder of a store, got a file",
            where=location,
            hint="import features with obygaze store import, or unpack an archive",
        )
    being_filled = None if path.exists() else find_filling(path)
    if being_filled is not None:
        raise being_filled
    # The store may have been finished meanwhile.
    if not path.is_dir():
        raise NotFound("no such file or folder", where=location, hint="check the name")
    return FolderFiles(path)


def _no_store_error(files: Files) -> ObygazeError:
    """Return the error for a location without store.json."""
    message = "no store here: store.json is missing"
    hint = "check the address: expected the folder with store.json"
    if isinstance(files, FolderFiles):
        being_filled = find_filling(Path(files.address))
        if being_filled is not None:
            return being_filled
        hint = "obygaze ls lists the stores"
        if (Path(files.address) / GROUP_JSON).is_file():
            message += ", but this is a group of Zarr"
            hint = (
                f"obygaze store import {shell_word(files.address)} -o NAME makes a store of a"
                " group; where zarr's mode='w' has removed a store, obygaze store pull SOURCE"
                " copies it again"
            )
    elif "+" in files.location:
        hint += JOIN_LATER
    with suppress(FileNotFoundError, ObygazeError):
        files.length(CLAIM)
        message += ", because a push was not finished"
        hint = "run the same push again to continue"
    return NotFound(message, where=files.location, hint=hint)


def find_filling(path: Path) -> BeingFilled | None:
    """Return the error that a store is being filled; None if it is not being filled.

    The error has the number of finished blocks.

    Args:
        path: The folder NAME or NAME.next of the store.
    """
    for folder in (path, filling_path(path)):
        if (folder / PLAN_JSON).is_file():
            # Another process may finish the store and remove this folder meanwhile.
            with suppress(FileNotFoundError):
                names = [entry.name for entry in (folder / BLOCKS).iterdir()]
                return BeingFilled(sum(name.isdigit() for name in names), folder)
    return None


class Store:
    """An open store. Threads may share it; it keeps the columns of rows that it has read."""

    def __init__(self, files: Files, record: StoreRecord, seal: str) -> None:
        self.files = files
        self.record = record
        self.seal = seal
        self.listed = ListedFiles(files, record.files, seal)
        self.arrays = Arrays(self.listed, record)
        self.table = RowTable(self.arrays, record)

    def __reduce__(self) -> tuple[Any, ...]:
        # In another process, a name or a relative path may mean a different store.
        return partial(_reopen, expect=self.seal), (self.files.address,)

    def __repr__(self) -> str:
        location = self.location
        if len(location) > 60:
            location = f"...{location[-57:]}"
        return short_repr(
            "Store", repr(location), f"{len(self)} clips", *self.feature_arrays
        )

    def _repr_html_(self) -> str:
        arrays = []
        for array in self.record.arrays:
            shape = " x ".join(map(str, (len(self), *array.shape)))
            arrays.append(f"{array.name} ({shape} {array.dtype})")
        counts = self.status().counts
        n_of_each = [f"{n} {status}" for status, n in counts.items()]
        facts = {
            "features": self.recipe.title,
            "clips": f"{sum(counts.values())} ({', '.join(n_of_each)})",
            "arrays": ", ".join(arrays),
            "manifest": self.record.manifests_text,
            "licence": self.terms.licence,
            "cite": self.terms.citation,
        }
        return html_repr(f"Store {self.location}", facts)

    def __len__(self) -> int:
        return self.record.rows.total

    def torch(self, array: str | None = None) -> TorchDataset:
        """Return the clips that have features as a map-style data set of PyTorch.

        Args:
            array: The array; the default is `default_array`.

        Example:
            >>> dataset = og.open_store("films").torch("clip")
            >>> features, clip_id = dataset[0]
        """
        read = partial(self.read, self.array(array or self.default_array).name)
        rows = np.flatnonzero(self.status().is_ok)
        return TorchDataset(read, rows, self.clip_ids[rows].tolist())

    def store_json(self) -> bytes:
        """Return the bytes of store.json, whose SHA-256 is the seal.

        Raise an error if the store was replaced after it was opened.
        """
        data = self.files.read(STORE_JSON, MOST_DOCUMENT_BYTES).tobytes()
        if seal_of(data) != self.seal:
            raise store_replaced_error(self.location)
        return data

    def __iter__(self) -> Iterator[str]:
        return iter(self.clip_ids.tolist())

    def __contains__(self, clip_id: object) -> bool:
        return isinstance(clip_id, str) and self.table.find([clip_id])[0] >= 0

    def __getitem__(self, array: str) -> Matrix:
        """Return all rows of an array that have features; `matrix` has more options."""
        return self.matrix(array, missing="drop")

    @property
    def location(self) -> str:
        """The folder or URL from which the store was opened."""
        return self.files.location

    @property
    def stores(self) -> tuple[Store, ...]:
        """This store alone; for a join, the stores of its parts."""
        return (self,)

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe of the features."""
        return Recipe.from_json(self.record.recipe)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the recipe; features with equal fingerprints can be compared."""
        return self.record.fingerprint

    @property
    def made_of(self) -> list[str]:
        """The seals of this store, of the stores it replaced, and of the sources of its rows."""
        origins = [origin.seal for origin in self.record.origins]
        return list(dict.fromkeys((self.seal, *self.record.replaces, *origins)))

    @property
    def card(self) -> bytes:
        """The current bytes of README.md.

        They are b"" if the file is missing, or if a server sends a different text, such as the page
        of an error.
        """
        is_in_folder = isinstance(self.files, FolderFiles)
        try:
            card = self.files.read(CARD, MOST_CARD_BYTES).tobytes()
        except FileNotFoundError:
            return b""
        except ObygazeError as error:
            if is_in_folder or isinstance(error, Unreachable):
                raise
            # A server may deny a file that is not listed.
            return b""
        # Error pages of servers have no head.
        return card if is_in_folder or has_head(card) else b""

    @property
    def terms(self) -> Terms:
        """The licence and the citation, as the YAML header of README.md states them now."""
        return read_terms(self.card)

    @property
    def feature_arrays(self) -> tuple[str, ...]:
        """The arrays of features or pictures, without their times and masks."""
        return tuple(array.name for array in arrays_of_features(self.record.arrays))

    @property
    def default_array(self) -> str:
        """The name of the array that is read if none is named; see `layout.default_array`."""
        return default_array(self.record.arrays)

    def array(self, name: str) -> Array:
        """Return an array by its name; raise an error for an unknown name."""
        array = self.record.array(name)
        if array is None:
            known = [array.name for array in self.record.arrays]
            raise unknown_name("array", name, known, where=self.location)
        return array

    @property
    def clip_ids(self) -> npt.NDArray[np.str_]:
        """The clip id of each row."""
        return self.table.clip_ids

    @property
    def movie_ids(self) -> npt.NDArray[np.str_]:
        """The film id of each row; "" in all rows if no film is stated."""
        return self.table.movie_ids

    def movie_ids_of(self, rows: Rows) -> npt.NDArray[np.str_]:
        """Return the film ids of rows."""
        return self.table.movie_ids_of(rows)

    @cached_property
    def rows(self) -> Sequence[Row]:
        """All rows of the table of rows."""
        return self.table.rows()

    def read(self, array: str | Array, rows: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the values of rows in the order of `rows`, whatever their status.

        Rows that are not ok have the fill value: NaN, or 0 in arrays of whole numbers.

        Args:
            array: The array, or its name.
            rows: The numbers of the rows.
        """
        wanted = np.asarray(rows)
        if (wanted.dtype.kind not in "iu" and wanted.size) or wanted.ndim != 1:
            raise FixInput(
                f"rows must be a list of whole numbers, got {wanted.dtype} of shape"
                f" {wanted.shape}",
                where=self.location,
            )
        known = array if isinstance(array, Array) else self.array(array)
        return self._read(known, wanted.astype(np.int64))

    def _read(self, array: Array, rows: Rows) -> npt.NDArray[Any]:
        return self.arrays.read(array, rows)

    def is_ok(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return for each of these rows whether it has features."""
        is_ok: npt.NDArray[np.bool_] = self.table.is_ok[rows]
        return is_ok

    def status(self) -> Status:
        """Return the status of every row."""
        is_ok, reason_of_clip = self._presence(Selection(self.table.all_rows(), self))
        not_ok = np.flatnonzero(~is_ok).tolist()
        reasons = dict(zip(not_ok, reason_of_clip.values(), strict=True))
        counts = Counter(reason.status for reason in reasons.values())
        return Status({OK: int(is_ok.sum()), **counts}, reasons, is_ok)

    def select(
        self,
        clips: Iterable[str | Clip] | None = None,
        films: Iterable[str] | None = None,
    ) -> Selection:
        """Return the rows of clips (in their order), or of films (in the order of the store).

        By default, return all rows. If `clips` and `films` are both given, clips of other films are
        left out. Films are named by their ids. A clip of a manifest must have the same film and
        times as the clip with the same id in the store. A warning counts clips that are matched by
        their ids alone.
        """
        names = None if films is None else self._check_films(films)
        rows = None if names is None else self.table.rows_of(names)
        if clips is None:
            return Selection(self.table.all_rows() if rows is None else rows, self)
        if isinstance(clips, str):
            raise FixInput(f"expected a list of ids as clips, got the string {clips!r}")
        listed = list(clips)
        requested = []
        for clip in listed:
            requested.append(clip.clip_id if isinstance(clip, Clip) else str(clip))
        found = self.table.find(requested)
        is_clip = np.array([isinstance(clip, Clip) for clip in listed], dtype=bool)
        if is_clip.any():
            of_manifest = [clip for clip in listed if isinstance(clip, Clip)]
            found[is_clip] = self.match(of_manifest)
        selection = Selection(found, self, np.array(requested, dtype=np.str_))
        if names is None or rows is None:
            return selection
        # An id states no film.
        films_of_clips = [getattr(clip, "movie_id", "") for clip in listed]
        is_missing = (found < 0) & np.isin(films_of_clips, [*names, ""])
        return selection[is_missing | np.isin(found, rows)]

    def match(self, clips: Sequence[Clip]) -> Rows:
        """Return the row of each clip of a manifest; -1 if the store does not have the clip.

        Raise an error for a clip that has a different film or span in the store. Warn of clips that
        are matched by their ids alone.
        """
        # Imported late: few commands compare clips, and it imports all readers of tables.
        from obygaze_features.manifest.clip_table import ClipTable
        from obygaze_features.manifest.same_clips import same_clips

        rows = self.table.find([clip.clip_id for clip in clips])
        known = np.flatnonzero(rows >= 0)
        again = IMPORT_AGAIN if self.recipe.is_unknown else EXTRACT_AGAIN
        same_clips(
            ClipTable.of_clips([clips[place] for place in known.tolist()]),
            self.facts_of(rows[known]),
            np.arange(len(known)),
        ).require(
            ("the manifest", "the store"),
            where=self.location,
            hint="use the manifest of these clips, or make a new store with another name:"
            f" {again}",
        )
        return rows

    def facts_of(self, rows: Rows, *, videos: bool = False) -> ClipTable:
        """Return what the store states of the clips of rows: ids, films, times and frames.

        With `videos`, the table also has the length and the hash of the video of each clip.
        """
        from obygaze_features.manifest.clip_table import (
            FILE_TIMES,
            FRAME_COLUMNS,
            ClipTable,
        )
        from obygaze_features.manifest.spans import FILM_TIMES

        columns = {}
        names = [*FILE_TIMES, *FILM_TIMES, *FRAME_COLUMNS]
        for name in (*names, "video_bytes") if videos else names:
            values = self.table.numbers(name, rows).astype(np.float64)
            values[values < 0] = np.nan
            columns[name] = values
        clips = ClipTable.of(
            self.table.clip_ids_of(rows), self.table.movie_ids_of(rows), **columns
        )
        return clips.with_columns(video_hash=self.files_of(rows)) if videos else clips

    def files_of(self, rows: Rows) -> list[str]:
        """Return the quick hashes of the videos of rows; "" for an unknown hash."""
        return self.table.texts("video_hash", rows)

    def _check_films(self, films: Iterable[str]) -> list[str]:
        """Return the ids of films; raise an error for an unknown film."""
        names = list(map(str, each_name(films)))
        known: dict[str, None] = {}
        for store in self.stores:
            known.update(dict.fromkeys(store.table.films))
        for name in names:
            if name not in known:
                raise unknown_name("film", name, list(known), where=self.location)
        return names

    def find_manifest(self, workspace: Workspace) -> Manifest | None:
        """Return the manifest in a workspace that has the name of the manifest of this store.

        The manifest may have been changed after the store was made. Return None if the workspace
        has no such manifest, or if it cannot be read. Return None too if it has no clip of this
        store: another laboratory may use the same name for a different manifest.
        """
        # Imported late: few commands need it, and it imports all readers of tables.
        from obygaze_features.manifest.io import read_manifest

        name = self.record.manifest.name
        # An untrusted name is only compared, and never used as a path.
        if name not in workspace.names("manifests"):
            return None
        try:
            manifest = read_manifest(workspace.manifest(name))
        except (ObygazeError, OSError):
            return None
        return manifest if (self.table.find(manifest.clip_ids) >= 0).any() else None

    def matrix(
        self,
        array: str | None = None,
        *,
        clips: Iterable[str | Clip] | None = None,
        films: Iterable[str] | None = None,
        missing: Missing = "error",
    ) -> Matrix:
        """Return rows of one array, in the requested order.

        Args:
            array: the name of the array; not needed if the store has only one array of features.
            clips: ids of clips, or clips of a manifest, in the order of the result; by default all.
            films: only the clips of these films.
            missing: what clips without features become: `error` raises an error that lists them
                with their reasons, `nan` returns rows of NaN, `drop` returns no rows for them.
        """
        known = self._check_request(array, missing)
        return self._matrix(known, self.select(clips, films), missing)

    def frame(self, array: str) -> Any:
        """Return the rows of an array that have features, as a pandas DataFrame."""
        return self[array].to_frame()

    def to_xarray(self) -> Any:
        """Return an xarray Dataset of all arrays of features, with the masks and times of frames.

        Rows without features are NaN, or 0 in arrays of whole numbers. All arrays are read into
        memory. For larger arrays, use `xarray.open_zarr` on the folder.
        """
        xarray = import_optional("xarray", "xarray", "Store.to_xarray")
        features = [self.array(name) for name in self.feature_arrays]
        arrays = {}
        for array in with_companions(features, self.record.arrays):
            dims = (ROW_DIMENSION, *array.dims)
            arrays[array.name] = (dims, self.read(array, self.table.all_rows()))
        labels: dict[str, Any] = {
            "clip_id": (ROW_DIMENSION, self.clip_ids),
            "movie_id": (ROW_DIMENSION, self.movie_ids),
        }
        for name in TIMES_OF_ROWS:
            times = self.table.numbers(name, self.table.all_rows())
            labels[name] = (ROW_DIMENSION, times)
        return xarray.Dataset(
            arrays, coords=labels, attrs={"fingerprint": self.fingerprint}
        )

    def real_frames(self, array: str, rows: Rows) -> npt.NDArray[np.bool_] | None:
        """Return which frames [row, frame] of an array are real, not the padding of a short clip.

        Return None if the array has no frames, or the store has no mask.
        """
        mask = self.record.array(MASK)
        if mask is None or not belongs_to(mask, self.array(array)):
            return None
        _, reasons = self._presence(Selection(rows, self))
        self._raise_absent(reasons)
        return self.read(mask, rows).astype(np.bool_)

    def has_words(self, array: str, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return for each row whether its clip has words.

        If the array is not of words, return True for each row. A clip without words has the vector
        of the empty text, which is similar to some texts.
        """
        n_words = self.record.array(N_WORDS)
        if n_words is None or not belongs_to(n_words, self.array(array)):
            return np.ones(len(rows), np.bool_)
        has_words: npt.NDArray[np.bool_] = self.read(n_words, rows) > 0
        return has_words

    def presence(
        self, clips: Iterable[str | Clip]
    ) -> tuple[npt.NDArray[np.bool_], Mapping[str, Reason]]:
        """Return which clips have features, and for each other clip the reason why it has none.

        No features are read.
        """
        return self._presence(self.select(clips))

    def stream(
        self,
        array: str | None = None,
        *,
        clips: Iterable[str | Clip] | None = None,
        missing: Missing = "error",
    ) -> Iterator[Matrix]:
        """Yield the rows that `matrix` returns, some MB at a time and in the order of the store.

        Use this for arrays that are larger than the memory. See `matrix` for the parameters.
        """
        known = self._check_request(array, missing)
        selection = self.select(clips)
        if missing == "error":
            _, reasons = self._presence(selection)
            self._raise_absent(reasons)
        selection = selection[np.argsort(selection.rows, kind="stable")]
        step = power_of_two(STREAMED_BYTES // known.row_bytes, most=known.file_rows)
        step = max(step, known.chunk_rows)
        for first in range(0, len(selection.rows), step):
            yield self._matrix(known, selection[first : first + step], missing)

    def _check_request(self, array: str | None, missing: Missing) -> Array:
        names = self.feature_arrays
        if array is None and len(names) != 1:
            raise FixUsage(
                f"the name of the array is required: one of {', '.join(names)}",
                where=self.location,
            )
        known = self.array(names[0] if array is None else array)
        if missing not in ("error", "nan", "drop"):
            raise FixInput(f"missing must be 'error', 'nan' or 'drop', got {missing!r}")
        if missing == "nan" and not known.is_float:
            raise FixInput(
                f"{known.name} is {known.dtype}, but missing='nan' requires floats",
                hint='use missing="drop"',
            )
        return known

    def _matrix(self, array: Array, selection: Selection, missing: Missing) -> Matrix:
        present, reasons = self._presence(selection)
        if missing == "error":
            self._raise_absent(reasons)
        if missing == "nan" and not present.all():
            values = self.arrays.reserve(array, len(present))
            values[~present] = np.nan
            values[present] = self._read(array, selection.rows[present])
            return Matrix(values, present, selection, reasons)
        if not present.all():
            selection = selection[present]
        values = self._read(array, selection.rows)
        return Matrix(values, present, selection, reasons)

    def _presence(
        self, selection: Selection
    ) -> tuple[npt.NDArray[np.bool_], dict[str, Reason]]:
        """Return which rows have features, and for each other clip the reason why it has none."""
        rows = selection.rows
        is_known = rows >= 0
        present = is_known.copy()
        present[is_known] = self.is_ok(rows[is_known])
        if present.all():
            return present, {}
        reasons = dict.fromkeys(selection[~present].clip_ids.tolist(), NOT_IN_STORE)
        not_ok = selection[is_known & ~present]
        clip_ids = not_ok.clip_ids.tolist()
        reasons.update(zip(clip_ids, self.table.reasons(not_ok.rows), strict=True))
        return present, reasons

    def _raise_absent(self, reasons: Mapping[str, Reason]) -> None:
        if not reasons:
            return
        lines = [f"{clip}: {reason}" for clip, reason in reasons.items()]
        meant = near_id(next(iter(reasons)), self)
        details = lines[:SHOWN_REASONS]
        if len(lines) > SHOWN_REASONS:
            details.append(f"... and {len(lines) - SHOWN_REASONS} more")
        raise NotFound(
            f"no features for {len(reasons)} of the requested clips; the first: {lines[0]}{meant}",
            where=self.location,
            hint="obygaze store info STORE --clips shows the reasons; to read the other clips in"
            ' Python, pass missing="drop" or "nan"',
            details=details,
        )


def _reopen(address: str, expect: str) -> Store:
    """Open a pickled store; raise an error if a different store is there now."""
    return open_store(address if is_url(address) else Path(address), expect=expect)


# The name of a store, or an open store.
StoreName = str | os.PathLike[str] | Store
