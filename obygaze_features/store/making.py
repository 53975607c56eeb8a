"""Write a new store from a source of rows: build its folder, then give it its name.

Import, subset, merge and the sealing of an extraction use this module. One file is written after
another, so the features of at most one file are in memory. `store.json` is written last; after it,
the folder gets its name.
"""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec
import numpy as np

from obygaze_features import __version__
from obygaze_features.core.errors import (
    AlreadyThere,
    FixInput,
    FixUsage,
)
from obygaze_features.core.files import is_listed, name_in_errors
from obygaze_features.core.temporary_names import final_path, remove_leftovers
from obygaze_features.core.workspace import Workspace
from obygaze_features.store.atomic_files import (
    filling_path,
    link_file,
    make_folder,
    make_hidden,
    remove_tree,
    store_above,
    sync_tree,
    take_name,
    write_file,
)
from obygaze_features.store.card import Terms, card_of_store, with_text_of_people
from obygaze_features.store.encoding import (
    Values,
    encode_file,
    encode_texts,
    fill_rows,
    stored_dtype,
    zarr_documents,
)
from obygaze_features.store.layout import (
    CARD,
    CHECKS,
    STORE_JSON,
    TIMES,
    Array,
    check_arrays,
    check_store_name,
    column_of,
    most_whole_bytes,
    names_of_files,
    power_of_two,
    with_file_rows,
)
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import (
    FileMark,
    Maker,
    ManifestMark,
    Origin,
    StoreRecord,
    encode,
    seal_of,
)
from obygaze_features.store.rows import OK_CODE, STATUSES, Counts, RowSource
from obygaze_features.store.table import Column, check_rows, new_table
from obygaze_features.store.text_columns import TextColumn

# Bytes that are read, checked and encoded at a time.
_STEP_BYTES = 2**23
NO_TERMS = Terms()


class FinishedFile(NamedTuple):
    """An existing file of an array, which is linked into the new store.

    Args:
        path: The path of the file.
        mark: The length and the SHA-256 of the file.
        checks: The CRC32C of each chunk of the file, 4 bytes each.
    """

    path: Path
    mark: FileMark
    checks: bytes


@runtime_checkable
class LinkingSource(RowSource, Protocol):
    """A source of rows that may have finished files of the new store."""

    def finished_file(self, array: Array, number: int) -> FinishedFile | None:
        """Return a file with exactly the rows of file `number` of an array, or None."""


class Contents(NamedTuple):
    """The facts of a new store, without its rows; `write_store` describes them.

    `replaces` has the seals of the stores that the new store replaces, and `earlier_manifests` the
    names of their manifests. `cards_before` has the card of the store before, as this program
    writes it and as it is now.
    """

    arrays: Sequence[Array]
    recipe: Recipe
    manifest: ManifestMark
    makers: Sequence[Maker] = ()
    replaces: Sequence[str] = ()
    origins: Sequence[Origin] = ()
    terms: Terms = NO_TERMS
    earlier_manifests: Sequence[str] = ()
    cards_before: tuple[str, bytes] | None = None


class Written(NamedTuple):
    """A store that was written: its folder and its seal."""

    path: Path
    seal: str


def new_store(workspace: Workspace, path: str | os.PathLike[str]) -> Path:
    """Return the folder for a new store's name or path; raise an error if it is taken."""
    target = workspace.new_store(path)
    check_store_name(target.name, str(target))
    check_not_inside_store(target)
    check_name_is_free(target)
    return target


def check_not_inside_store(target: Path) -> None:
    """Raise an error if a new store would be inside another store."""
    above = store_above(target)
    if above is not None:
        raise AlreadyThere(
            "expected a folder outside this store",
            where=str(above),
            hint="choose a different name or folder",
        )


def write_store(
    target: Path,
    source: RowSource,
    *,
    arrays: Sequence[Array],
    recipe: Recipe,
    manifest: ManifestMark,
    makers: Sequence[Maker] = (),
    origins: Sequence[Origin] = (),
    terms: Terms = NO_TERMS,
) -> Written:
    """Write a store and give it its name.

    Args:
        target: The folder of the new store; folders above it are made.
        source: The rows. The finished files of a `LinkingSource` are linked.
        arrays: The arrays of the store.
        recipe: The recipe of the features.
        manifest: The manifest of the rows.
        makers: The makers of the rows; empty: unknown.
        origins: The stores or files from which the rows were copied.
        terms: Licence and citation, for the card.
    """
    check_store_name(target.name, str(target))
    check_name_is_free(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    contents = Contents(
        with_file_rows(arrays),
        recipe,
        manifest,
        makers,
        origins=origins,
        terms=terms,
    )
    hidden = make_hidden(target)
    try:
        seal = build_store(hidden, source, contents)
        if not take_name(hidden, target):
            raise store_exists_error(target)
    finally:
        remove_tree(hidden)
    return Written(target, seal)


def check_name_is_free(target: Path) -> None:
    """Raise an error if a file, a store or a store that is being filled has this name."""
    remove_leftovers(target)
    if is_listed(filling_path(target)):
        raise AlreadyThere(
            "this store is unfinished",
            where=str(filling_path(target)),
            hint="finish this store first, or remove the folder to discard the store",
        )
    if is_listed(target):
        raise store_exists_error(target)


OTHER_NAME = "choose another store name (-o NAME), or remove the folder if the store is not needed"


def store_exists_error(target: Path) -> AlreadyThere:
    """Return the error for a new store whose name is taken."""
    return AlreadyThere(
        "a file or folder of this name exists",
        where=str(target),
        hint=OTHER_NAME,
    )


def build_store(folder: Path, source: RowSource, contents: Contents) -> str:
    """Write all files of a store into an empty folder; return its seal."""
    arrays = tuple(contents.arrays)
    rows = source.columns()
    where = str(final_path(folder))
    _check_texts(contents, where)
    check_arrays(arrays, where)
    check_rows(rows, where)
    table = new_table(rows)
    columns = tuple(column_of(name, len(rows)) for name in table)
    is_ok = np.asarray(table["status"]) == OK_CODE
    marks: dict[str, FileMark] = {}
    checks = []
    for array in (*columns, *arrays):
        make_folder(folder / array.name)
        column = table.get(array.name)
        for number in range(array.n_files(len(rows))):
            name = array.file_name(number)
            with name_in_errors(Path(where)):
                if column is not None:
                    written = _write_column(folder / name, array, column, number)
                else:
                    written = _write_features(
                        folder / name, array, source, number, is_ok, rows.clip_ids
                    )
            marks[name], file_checks = written
            checks.append(file_checks)
    for name, document in zarr_documents((*columns, *arrays), len(rows)).items():
        marks[name] = write_file(folder / name, document)
    marks[CHECKS] = write_file(folder / CHECKS, b"".join(checks))
    names = names_of_files((*columns, *arrays), len(rows))
    counts = np.bincount(table["status"], minlength=len(STATUSES)).tolist()
    store = StoreRecord(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        program=f"obygaze {__version__}",
        manifest=contents.manifest,
        earlier_manifests=tuple(contents.earlier_manifests),
        recipe=contents.recipe.to_json(),
        fingerprint=contents.recipe.fingerprint,
        columns=columns,
        arrays=arrays,
        rows=Counts(len(rows), *counts),
        makers=tuple(contents.makers),
        replaces=tuple(contents.replaces),
        origins=tuple(contents.origins),
        files={name: marks[name] for name in names},
    )
    store_json = encode(store)
    seal = seal_of(store_json)
    card = card_of_store(store, rows, contents.terms, seal)
    written_card = card.encode()
    if contents.cards_before is not None:
        written_card = with_text_of_people(card, *contents.cards_before)
    (folder / CARD).write_bytes(written_card)
    write_file(folder / STORE_JSON, store_json)
    sync_tree(folder)
    return seal


def _check_texts(contents: Contents, where: str) -> None:
    """Raise an error for a text of the makers, origins or terms that UTF-8 cannot encode.

    Names of files and words of the command line may have bytes of a different encoding. This check
    comes before the features are read, so the user does not wait for the error.
    """
    try:
        msgspec.json.encode((contents.makers, contents.origins, contents.terms))
    except UnicodeEncodeError as error:
        raise FixUsage(
            f"expected UTF-8 in the texts of a store, got {error.object!r}",
            where=where,
            hint="rename the file or folder, or type the text in UTF-8",
        ) from error


def _write_column(
    path: Path, array: Array, column: Column, number: int
) -> tuple[FileMark, bytes]:
    """Write a file of a column; return its length and hash, and the checksums of its chunks."""
    first = number * array.file_rows
    after = min(first + array.file_rows, len(column))
    if isinstance(column, TextColumn):
        data, checks = encode_texts(array, column[first:after])
    else:
        data, checks = encode_file(array, column[first:after])
    most_bytes = most_whole_bytes(after - first)
    if array.is_text and len(data) > most_bytes:
        raise FixInput(
            f"the ids or reasons of the rows are too long: expected at most {most_bytes} bytes of"
            f" {array.name} for {after - first} rows, got {len(data)}"
        )
    return write_file(path, data.data), checks


def _write_features(
    path: Path,
    array: Array,
    source: RowSource,
    number: int,
    is_ok: Values,
    clip_ids: Sequence[str],
) -> tuple[FileMark, bytes]:
    """Write or link a file of an array; return its length and hash, and its checksums."""
    if isinstance(source, LinkingSource):
        finished = source.finished_file(array, number)
        if finished is not None:
            link_file(finished.path, path, finished.mark)
            return finished.mark, finished.checks
    step = power_of_two(_STEP_BYTES // array.row_bytes, most=array.file_rows)
    step = max(step, array.chunk_rows)
    first = number * array.file_rows
    after = min(first + array.file_rows, len(is_ok))
    rows = np.empty((after - first, *array.shape), stored_dtype(array))
    for start in range(first, after, step):
        end = min(start + step, after)
        rows[start - first : end - first] = _rows_of_source(
            source, array, start, is_ok[start:end], clip_ids
        )
    data, checks = encode_file(array, rows)
    return write_file(path, data.data), checks


def _rows_of_source(
    source: RowSource,
    array: Array,
    first: int,
    is_ok: Values,
    clip_ids: Sequence[str],
) -> Values:
    """Return rows as they are stored: rows that are not ok have the fill value."""
    if not is_ok.any():
        return fill_rows(array, len(is_ok))
    rows = np.asarray(source.read(array, first, first + len(is_ok)))
    shape = (len(is_ok), *array.shape)
    if rows.shape != shape or rows.dtype != np.dtype(array.dtype):
        raise FixInput(
            f"rows of {array.name} are {rows.dtype} {rows.shape}, expected {array.dtype}"
            f" {shape}"
        )
    if not is_ok.all():
        stored = fill_rows(array, len(is_ok))
        stored[is_ok] = rows[is_ok]
        rows = stored
    # Times may be NaN: the padding of a short clip has no times.
    if array.name not in TIMES:
        for place in rows_not_finite(rows):
            if is_ok[place]:
                raise not_finite_error(array, clip_ids[first + place])
    return rows


def rows_not_finite(rows: Values) -> list[int]:
    """Return the indexes of rows with a NaN or an infinite value."""
    if rows.dtype.kind != "f":
        return []
    is_finite = np.isfinite(rows)
    if is_finite.all():
        return []
    of_rows = is_finite.reshape(len(rows), -1).all(axis=1)
    places: list[int] = np.flatnonzero(~of_rows).tolist()
    return places


def not_finite_error(array: Array, clip_id: str) -> FixInput:
    """Return the error that a feature of a clip is NaN or infinite."""
    return FixInput(
        f"{array.name} of clip {clip_id!r} has values that are NaN or infinite",
    )
