"""Add the columns of a table to the clips of a manifest, by the ids of clips or of films."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from obygaze_features.core.console import count, few, table
from obygaze_features.core.errors import (
    LIKE_IDS,
    AlreadyThere,
    FixInput,
    NotFound,
    near,
)
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import (
    TableRow,
    read_table,
    thousands_text,
)
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.adapters import n_with_value, source_of
from obygaze_features.manifest.adapters.table_ids import hidden_columns
from obygaze_features.manifest.adapters.table_mapping import checked_times
from obygaze_features.manifest.adapters.table_reading import sheet_warnings
from obygaze_features.manifest.adapters.table_times import (
    CLOCK_COLUMNS,
    SPAN_COLUMNS,
    add_unclear,
    in_seconds,
    is_time,
)
from obygaze_features.manifest.annotators import columns_of_people
from obygaze_features.manifest.io import (
    WRITTEN_SECONDS,
    as_id,
    ids_of_names,
    manifest_path,
    read_manifest,
    update_manifest,
)
from obygaze_features.manifest.listing import TITLE
from obygaze_features.manifest.model import CLIP_COLUMNS, DIFFERS, NAME_COLUMN, Manifest
from obygaze_features.manifest.own_labels import column_words
from obygaze_features.manifest.spans import FILM_TIMES, FRAMES, RATE_COLUMN, frames_of

CLIP = "clip_id"
FILM = "movie_id"
ANNOTATOR = "annotator"
# What a table may state of a clip beside its id.
STATED = (FILM, *SPAN_COLUMNS, *FRAMES, RATE_COLUMN)


@dataclass(frozen=True)
class JoinedColumns:
    """A manifest with the columns of a table; `columns` has how many clips have a value in each.

    `n_by_id` rows say nothing of their clip that the manifest states too, but the id.
    """

    manifest: Manifest
    columns: Mapping[str, int]
    warnings: tuple[str, ...]
    n_by_id: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the number of clips by column, and what should be known of the table."""
        return {
            "name": self.manifest.name,
            "columns": dict(self.columns),
            "warnings": list(self.warnings),
            "by_id_alone": self.n_by_id,
        }

    def __str__(self) -> str:
        rows = []
        for name, n_clips in self.columns.items():
            # A number may have been several: 1,2 of a sheet is read as 1.2.
            rows.append((name, n_clips, column_words(self.manifest.clips, name)))
        return table(("column", "clips with a value", "values"), rows)

    @property
    def notes(self) -> list[str]:
        """How many rows are matched by their ids alone."""
        if not self.n_by_id:
            return []
        n_rows = count(self.n_by_id, "row")
        return [
            f"{n_rows} matched by the id alone: films (--map {FILM}=COLUMN) and times are not"
            " known on both sides"
        ]


def join_columns(
    manifest: PathLike,
    csv: str | Path,
    columns: Mapping[str, str] | None = None,
    *,
    sheet: str = "",
    force: bool = False,
    workspace: PathLike | None = None,
) -> JoinedColumns:
    """Add the columns of a table to the clips of a manifest.

    CSV has a column clip_id, or one that --map names. Several values of a clip, in one cell or in
    several rows, are joined with '|', and an expression tests each: joy in emotions. Where the
    table has films or times, too, they must be those of the clip.

    A table of films has movie_id in place of clip_id, or --map movie_id=COLUMN: all clips of a film
    get the values of its rows.

    Args:
        manifest: The manifest, which is written anew; a clip without a row gets empty cells.
        csv: The table: a CSV file or an .xlsx file.
        columns: Rename a column; times=m:ss or times=h:mm says what 1:10 is.
        sheet: The sheet of a spreadsheet. [default: the likely one]
        force: Replace columns of the manifest.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest join obygaze12 emotions.csv
        obygaze manifest join obygaze12 moods.csv --map clip_id=scene --map emotion=attribute
        obygaze manifest join obygaze12 book.xlsx --sheet Decades --map movie_id=film
    """
    path = manifest_path(manifest, workspace=workspace)
    before = read_manifest(path)
    joined = join(before, Path(csv), columns, sheet=sheet, force=force)
    update_manifest(before, joined.manifest, path)
    return joined


def join(
    manifest: Manifest,
    csv: Path,
    columns: Mapping[str, str] | None = None,
    *,
    sheet: str = "",
    force: bool = False,
) -> JoinedColumns:
    """Return a manifest with the columns of a table, which `join_columns` writes."""
    source = source_of(csv)
    table = _read(csv, columns or {}, sheet)
    # The table has the ids of clips, or with the key movie_id those of their films.
    id_in_table = {clip.clip_id: getattr(clip, table.key) for clip in manifest}
    n_by_id = _require_same(manifest, table) if table.key == CLIP else 0
    _require_some(manifest, table, id_in_table)
    added = _added(manifest, table, force=force)
    joined = manifest
    for name in added:
        cells = {}
        for clip_id, table_id in id_in_table.items():
            cells[clip_id] = _joined(table.rows.get(table_id, ()), name)
        joined = joined.with_column(name, cells)
    header = structs.replace(
        joined.header,
        sources=(*joined.header.sources, source),
        said=columns_of_people(manifest),
    )
    joined = replace(joined, header=header)
    left_out = [name for name in table.columns if name not in (*added, table.key)]
    warnings = _warnings(table, id_in_table, left_out)
    return JoinedColumns(
        joined,
        {name: n_with_value(joined, name) for name in added},
        tuple(f"{csv}: {warning}" for warning in warnings),
        n_by_id,
    )


@dataclass(frozen=True)
class _KeyedTable:
    """The rows of a table by the ids of clips, or of films.

    Attributes:
        path: The table.
        key: The column of the manifest whose ids these are.
        columns: The columns of the table, as the manifest calls them.
        rows: The rows of each id, with the cells of these columns.
        typed: The columns that were named.
        short: What 1:05 is.
        warnings: What should be known of the table.
    """

    path: Path
    key: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[TableRow]]
    typed: Collection[str]
    short: str
    warnings: Sequence[str]

    @property
    def noun(self) -> str:
        """What the ids are of."""
        return "film" if self.key == FILM else "clip"


def _read(path: Path, columns: Mapping[str, str], sheet: str) -> _KeyedTable:
    """Return the rows of a table by their ids; all that is wrong is one error."""
    typed = dict(columns)
    # What 1:05 is, typed as if it were a column.
    short = checked_times(typed.pop("times", ""))
    violations = Violations(path, typed)
    required = list(dict.fromkeys(typed.values()))
    read = read_table(
        path,
        required=required,
        violations=violations,
        content="rows",
        sheet=sheet,
        assume_sheet=True,
    )
    used = {"", *typed, *typed.values()} - {CLIP, FILM}
    unmapped = {name: name for name in read.columns if name not in used}
    sources = {**typed, **unmapped, **typed}
    rows = []
    for row in read.rows:
        cells = {target: row[source] for target, source in sources.items()}
        rows.append(replace(row, cells=cells))
    key = CLIP if CLIP in sources else FILM
    times = [name for name in (*SPAN_COLUMNS, *FILM_TIMES) if name in sources]
    if not short:
        for name in times:
            add_unclear(rows, name, [row[name] for row in rows])
    if key not in sources and not violations:
        violations.add(None, CLIP, "required column is missing, and so is movie_id")
    elif key == FILM and any(_has_value(row, times) for row in rows):
        problem = (
            "required column is missing: rows with times are of clips, not of films"
        )
        violations.add(None, CLIP, problem)
    hint = None
    if CLIP not in sources or not {*required}.issubset(read.columns):
        columns_of_table = few(read.filled_columns)
        hint = f"--map clip_id=COLUMN; the columns of the table: {columns_of_table}"
    violations.raise_if_any("the table cannot be joined", hint)
    warnings = [*read.unnamed, *sheet_warnings(read)]
    for column, number in read.maybe_thousands.items():
        warnings.append(thousands_text(column, number))
    hidden = hidden_columns(read.columns, typed)
    if hidden:
        names = ", ".join(sorted(hidden))
        warnings.append(f"left out, something else is mapped to them: {names}")
    by_id = _rows_by_id(rows, key, path)
    return _KeyedTable(path, key, [*sources], by_id, typed, short, warnings)


def _rows_by_id(
    rows: Iterable[TableRow], key: str, path: Path
) -> dict[str, list[TableRow]]:
    """Return the rows of each id; of several annotators, a joined cell would be of no one."""
    by_name: dict[str, list[TableRow]] = {}
    for row in rows:
        by_name.setdefault(row[key], []).append(row)
    id_of_name = ids_of_names(by_name, "film" if key == FILM else "clip", str(path))
    by_id: dict[str, list[TableRow]] = {}
    for name, of_name in by_name.items():
        by_id.setdefault(id_of_name[name], []).extend(of_name)
    for id_, of_id in by_id.items():
        names = {row.cells.get(ANNOTATOR, "").strip() for row in of_id} - {""}
        if id_ and len(names) > 1:
            raise FixInput(
                f"the table has several annotators of one clip: {few(sorted(names))}",
                where=str(path),
                hint="obygaze manifest import reads what each annotator says; or join a table"
                " of one of them",
            )
    return by_id


def _require_same(manifest: Manifest, table: _KeyedTable) -> int:
    """Return how many rows are matched by their ids alone; rows of other clips are an error."""
    # NumPy is not loaded for the help of commands.
    from obygaze_features.manifest.clip_facts import ClipFacts, require_same

    clips = []
    stated = []
    for clip in manifest:
        for row in table.rows.get(clip.clip_id, ()):
            clips.append(clip)
            stated.append({name: row.cells.get(name, "") for name in STATED})
    in_table = ClipFacts.of(
        [clip.clip_id for clip in clips],
        [as_id(cells[FILM]) for cells in stated],
        [_seconds(cells["start_s"], table.short) for cells in stated],
        [_seconds(cells["end_s"], table.short) for cells in stated],
        map(frames_of, stated),
    )
    return require_same(
        ClipFacts.of_clips(clips),
        in_table,
        (f"the manifest {manifest.name}", "the table"),
        where=str(table.path),
        hint=f"the columns of its films and times: --map {FILM}=COLUMN --map start_s=COLUMN",
    )


def _seconds(cell: str, short: str) -> float | None:
    """Return a time of a table in seconds; None where it has none."""
    text = in_seconds(cell, has_decimal_comma=True, short=short)
    return float(text) if WRITTEN_SECONDS.fullmatch(text) else None


def _require_some(
    manifest: Manifest, table: _KeyedTable, id_in_table: Mapping[str, str]
) -> None:
    """Raise an error if no clip has an id of the table."""
    ids = table.rows.keys() - {""}
    if ids.isdisjoint(id_in_table.values()):
        known = manifest.films if table.key == FILM else manifest.clip_ids
        first = next((id_ for id_ in table.rows if id_), "")
        raise NotFound(
            f"no {table.noun} has an id of this table, such as {first!r}",
            where=str(table.path),
            hint=f"the manifest has {few(known, 2) or f'no {table.noun}s'}",
        )


def _added(manifest: Manifest, table: _KeyedTable, *, force: bool) -> list[str]:
    """Return the columns that are added; without `force`, none that the manifest has."""
    # Times would become those in another file.
    own = {*CLIP_COLUMNS, NAME_COLUMN, DIFFERS, *_shown_again(table)}
    if table.key == CLIP:
        # They are compared with those of the manifest.
        own |= {*FRAMES, RATE_COLUMN}.intersection(manifest.columns) - {*table.typed}
    added = [name for name in table.columns if name not in own]
    # Scores of clips have the titles of films beside them.
    has_titles = TITLE in manifest.columns and TITLE not in table.typed
    if TITLE in added and len(added) > 1 and has_titles and not force:
        added.remove(TITLE)
    taken = [name for name in added if name in manifest.columns]
    if not force:
        refuse_if(
            taken,
            AlreadyThere,
            "the manifest has these columns already",
            where=manifest.name,
            hint="--force, or --map OTHER=COLUMN",
        )
    return added


def _shown_again(table: _KeyedTable) -> list[str]:
    """Return the columns of a table that show the times of its clips as a person reads them."""
    shown = []
    for column in CLOCK_COLUMNS:
        is_free = column in table.columns and column not in table.typed
        if is_free and {*SPAN_COLUMNS} <= {*table.columns}:
            cells = [row[column] for rows in table.rows.values() for row in rows]
            if all(is_time(cell) for cell in cells if cell):
                shown.append(column)
    return shown


def _warnings(
    table: _KeyedTable, id_in_table: Mapping[str, str], left_out: Sequence[str]
) -> list[str]:
    """Return what a user should know of clips, rows and columns that were not joined."""
    warnings = []
    if table.key == FILM:
        warnings.append("joined by movie_id: all clips of a film get its values")
    n_without = sum(table_id not in table.rows for table_id in id_in_table.values())
    if n_without:
        warnings.append(
            f"without a row: {n_without} of {count(len(id_in_table), 'clip')}"
        )
    unknown = sorted(table.rows.keys() - {"", *id_in_table.values()})
    if unknown:
        # Only what has no row yet can be meant.
        free = set(id_in_table.values()) - table.rows.keys()
        named = [f"{name}{near(name, free, LIKE_IDS)}" for name in unknown[:3]]
        listed = few([*named, *unknown[3:]], 3)
        warnings.append(f"not {table.noun}s of the manifest: {listed}")
    if left_out:
        warnings.append(f"left out, manifests have their own: {', '.join(left_out)}")
    if "level" in left_out:
        warnings.append("--map NAME=COLUMN joins the levels under a name of your own")
    n_without_id = len(table.rows.get("", ()))
    if n_without_id:
        n_rows = count(n_without_id, "row")
        warnings.append(f"left out, without a {table.key}: {n_rows}")
    return [*table.warnings, *warnings]


def _joined(rows: Iterable[TableRow], column: str) -> str:
    """Return the different values of some rows, joined with '|'."""
    values: dict[str, None] = {}
    for row in rows:
        for part in row[column].split("|"):
            values.setdefault(part.strip())
    return "|".join(value for value in values if value)


def _has_value(row: TableRow, columns: Sequence[str]) -> bool:
    """Return whether a row has a value in one of some columns."""
    return any(row[name] for name in columns)
