"""What is published of a store: its card, Croissant, CITATION.cff, and a table in Parquet.

All of it is made from the record of the store and the terms in the head of its README.md.
"""

import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.console import listed
from obygaze_features.core.errors import AlreadyThere, FixUsage
from obygaze_features.core.files import pretty_json, write_exclusive
from obygaze_features.core.rendering import render
from obygaze_features.store.card import (
    HERE,
    PUBLISHED_TABLE,
    card_of_store,
    quoted,
    recipe_sentences,
    require_licence,
    spdx_of,
    with_edits,
)
from obygaze_features.store.exporting import (
    FACT_COLUMNS,
    Export,
    arrays_of_export,
    fact_columns,
    refuse_pictures,
    write_features_table,
)
from obygaze_features.store.formats import FORMATS
from obygaze_features.store.layout import ROWS_CSV, STORE_JSON, names_of_files
from obygaze_features.store.reading import Store, StoreName, name_of, open_store
from obygaze_features.store.records import SEVERAL_MANIFESTS, FileMark
from obygaze_features.store.rows import RowColumns
from obygaze_features.store.targets import hash_of

CROISSANT_FILE = "croissant.json"
CITATION_FILE = "CITATION.cff"
# What a publication has beside the files of a store.
PUBLISHED_FILES = (CROISSANT_FILE, CITATION_FILE, PUBLISHED_TABLE)
# Larger arrays are not in the table.
TABLE_BYTES = 2**30


@dataclass(frozen=True)
class RecordColumn:
    """A column of a published table; `shape` is that of its arrays, -1 for any length."""

    name: str
    type: str = "sc:Text"
    shape: tuple[int, ...] = ()
    description: str = ""


@dataclass(frozen=True)
class RecordTable:
    """A published file of rows, of which croissant.json lists the columns; the first is the key."""

    file: str
    description: str
    columns: Sequence[RecordColumn]


def number_type(dtype: str) -> str:
    """Return what Croissant calls a type of NumPy.

    >>> number_type("float16"), number_type("uint8")
    ('cr:Float16', 'cr:UInt8')
    """
    if dtype == "bool":
        return "sc:Boolean"
    name = dtype.replace("float", "Float").replace("int", "Int").replace("u", "U")
    return f"cr:{name}"


_ROWS_TABLE = RecordTable(
    ROWS_CSV,
    "The clips, one for each row of every array.",
    [
        RecordColumn("clip_id"),
        RecordColumn("movie_id"),
        RecordColumn("row", "sc:Integer"),
        RecordColumn("status"),
        RecordColumn("reason"),
    ],
)
_RECORD_COLUMNS = {
    "start_s": RecordColumn("start_s", "sc:Float"),
    "end_s": RecordColumn("end_s", "sc:Float"),
}


# --- The card ---


@dataclass(frozen=True)
class StoreCard:
    """The card of a store in Markdown; `croissant` is the file of metadata that was written."""

    name: str
    text: str
    croissant: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the name of the store, and the card."""
        return {"name": self.name, "card": self.text}

    def __str__(self) -> str:
        return self.text.rstrip()

    @property
    def notes(self) -> list[str]:
        """The file that was written."""
        return [] if self.croissant is None else [f"wrote {self.croissant}"]


def describe_as_card(
    store: StoreName,
    *,
    croissant: str | os.PathLike[str] | None = None,
    workspace: str | os.PathLike[str] | None = None,
) -> StoreCard:
    """Print the card of a store, as the hub shows it."""
    opened = open_store(store, workspace=workspace)
    text = full_card(opened).decode("utf-8", "replace")
    if croissant is None:
        return StoreCard(name_of(store), text)
    path = Path(croissant)
    data = croissant_of(opened)
    if not write_exclusive(path, data) and path.read_bytes() != data:
        problem = "this file exists and has other contents"
        raise AlreadyThere(problem, where=str(path), hint="choose another name")
    return StoreCard(name_of(store), text, path)


def full_card(store: Store, *, has_table: bool = False) -> bytes:
    """Return the card of a store with its seal, and with what a person edited in it."""
    rows = RowColumns.of(store.rows)
    card = card_of_store(
        store.record, rows, store.terms, seal=store.seal, has_table=has_table
    )
    return with_edits(card, store.card_edits())


# --- All files of a publication ---


def published_files(
    store: Store, folder: Path, creators: Sequence[str]
) -> dict[str, Path]:
    """Write what a publication has beside store and card into a folder; return files by name."""
    paths = {}
    table = None
    job = published_table(store)
    if job is not None:
        paths[PUBLISHED_TABLE] = folder / secrets.token_hex(4)
        write_features_table(job, paths[PUBLISHED_TABLE])
        table = (record_table(job), hash_of(paths[PUBLISHED_TABLE]))
    texts = {
        CROISSANT_FILE: croissant_of(store, creators=creators, table=table),
        CITATION_FILE: citation_file(store, creators).encode(),
    }
    for name, text in texts.items():
        paths[name] = folder / name
        paths[name].write_bytes(text)
    return paths


def croissant_of(
    store: Store,
    *,
    creators: Sequence[str] = (),
    table: tuple[RecordTable, FileMark] | None = None,
) -> bytes:
    """Return the Croissant metadata of a store; the checksums in it are those of the store.

    Args:
        store: The store.
        creators: Who made it, each as "Family, Given" or the name of an institution.
        table: The Parquet file beside the store.
    """
    record = store.record
    listed = {STORE_JSON: FileMark(len(store.store_json()), store.seal)}
    tables = [_ROWS_TABLE]
    if table is not None:
        tables.append(table[0])
        listed[PUBLISHED_TABLE] = table[1]
    names = names_of_files((), record.rows.total)
    names += [array.zarr_json for array in record.arrays]
    for name in sorted(names):
        listed[name] = record.files[name]
    text = render(
        CROISSANT_FILE,
        HERE,
        publication=_facts_of(store, creators),
        listed=listed,
        tables=tables,
        arrays=record.arrays,
    )
    return pretty_json({key: value for key, value in json.loads(text).items() if value})


def _facts_of(store: Store, creators: Sequence[str]) -> dict[str, Any]:
    """Return the facts about a store for any form of metadata; it must have a licence."""
    terms = store.terms
    require_licence(terms, store.location)
    require_names(creators)
    record = store.record
    title = store.recipe.title
    manifest = record.manifest
    source = manifest.name or SEVERAL_MANIFESTS
    n_rows = record.rows.total
    return {
        "name": f"{source}.{title}",
        "title": f"Features of {source}: {title}",
        "description": f"Features of clips of {manifest.text}: {n_rows:,} rows,"
        f" {record.rows.ok:,} of them with features.",
        "collection": f"Computed from the clips of {manifest.text}, sha256"
        f" {manifest.sha256}.",
        "licence": terms.licence,
        "citation": terms.citation,
        "created": record.created[:10],
        "creators": creators,
        "recipe": recipe_sentences(store.recipe),
        "n_rows": n_rows,
        "n_absent": n_rows - record.rows.ok,
        "seal": f"sha256:{store.seal}",
    }


def require_names(creators: Sequence[str]) -> None:
    """Raise an error for a creator without a name."""
    if not all(name.strip() for name in creators):
        raise FixUsage(
            "a publication needs the name of who made it", hint='--creator "Doe, Jane"'
        )


def _parts_of_name(creator: str) -> tuple[str, str]:
    """Return family name and given name of a person; of an institution, the name and ""."""
    family, _, given = creator.partition(", ")
    return family, given


def creators_as_read(creators: Sequence[str]) -> str:
    """Return who is named as an author, a person with both names or an institution."""
    read = []
    for creator in creators:
        family, given = _parts_of_name(creator)
        if given:
            read.append(f"the person with family name {family!r}, given name {given!r}")
        else:
            read.append(f"the institution {family!r}")
    return f"authors: {listed(read)}; a comma separates the names of a person"


def citation_file(store: Store, creators: Sequence[str]) -> str:
    """Return CITATION.cff of a store: authors, licence and seal."""
    facts = _facts_of(store, creators)
    message = "If you use these files, please cite them"
    citation = facts["citation"]
    message += f", and: {citation}" if citation else "."
    lines = [
        "cff-version: 1.2.0",
        f"message: {quoted(message)}",
        "type: dataset",
        f"title: {quoted(facts['title'])}",
        f"abstract: {quoted(facts['description'])}",
        "authors:",
    ]
    for name in creators:
        family, given = _parts_of_name(name)
        if given:
            lines.append(f"  - family-names: {quoted(family)}")
            lines.append(f"    given-names: {quoted(given)}")
        else:
            lines.append(f"  - name: {quoted(name)}")
    lines += [
        "identifiers:",
        "  - type: other",
        f"    value: {quoted(facts['seal'])}",
        "    description: The sha256 of store.json, which lists every file of the store",
        f"date-released: {quoted(facts['created'])}",
    ]
    spdx = spdx_of(facts["licence"])
    if spdx:
        lines.append(f"license: {spdx}")
    lines.append("keywords: [video features, film studies, obygaze]")
    return "\n".join(lines) + "\n"


# --- The table ---


def published_table(store: Store) -> Export | None:
    """Return the arrays with one vector a clip that a publication has as a table; None if none."""
    refuse_pictures(store)
    n_rows = store.record.rows.total
    names = []
    for array in map(store.array, store.feature_arrays):
        is_small = array.row_bytes * n_rows <= TABLE_BYTES
        if len(array.shape) == 1 and is_small and array.name not in FACT_COLUMNS:
            names.append(array.name)
    if not names or not store.record.rows.ok:
        return None
    return Export(store, arrays_of_export(store, FORMATS["parquet"], names))


def record_table(job: Export) -> RecordTable:
    """Return what Croissant says of the table."""
    description = "The clips with features, a row each, and their vectors."
    columns = []
    for name in fact_columns(job):
        columns.append(_RECORD_COLUMNS.get(name, RecordColumn(name)))
    for array in job.arrays:
        columns.append(
            RecordColumn(
                array.name,
                number_type(array.dtype),
                array.shape,
                f"The array {array.name} of the store.",
            )
        )
    return RecordTable(PUBLISHED_TABLE, description, columns)
