"""Add the columns of a table to the clips of a manifest, by the ids of clips or of films."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    CsvTable,
    TableRow,
    read_table,
    thousands_text,
)
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.adapters import n_with_value, source_of
from obygaze_features.manifest.adapters.table_ids import hidden_columns
from obygaze_features.manifest.adapters.table_mapping import checked_times
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
        force: Replace columns of the manifest.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze manifest join obygaze12 emotions.csv
        obygaze manifest join obygaze12 moods.csv --map clip_id=scene --map emotion=attribute
        obygaze manifest join obygaze12 decades.csv --map movie_id=film
    """
    path = manifest_path(manifest, workspace=workspace)
    before = read_manifest(path)
    joined = join(before, Path(csv), columns, force=force)
    update_manifest(before, joined.manifest, path)
    return joined


def join(
    manifest: Manifest,
    csv: Path,
    columns: Mapping[str, str] | None = None,
    *,
    force: bool = False,
) -> JoinedColumns:
    """Return a manifest with the columns of a table, which `join_columns` writes."""
    source = source_of(csv)
    typed = dict(columns or {})
    # What 1:05 is, typed as if it were a column.
    short = checked_times(typed.pop("times", ""))
    read, mapped, key = _read_table(csv, typed, short)
    targets = {key: key, **mapped}
    given_ids = [row[targets[key]] for row in read.rows]
    noun = "film" if key == FILM else "clip"
    id_of_name = ids_of_names(given_ids, noun, str(csv))
    rows: dict[str, list[TableRow]] = {}
    n_without_id = 0
    for given_id, row in zip(given_ids, read.rows, strict=True):
        table_id = id_of_name[given_id]
        if table_id:
            rows.setdefault(table_id, []).append(row)
        else:
            n_without_id += 1
    # The table has the ids of clips, or with the key movie_id those of their films.
    id_in_table = {
        clip.clip_id: clip.movie_id if key == FILM else clip.clip_id
        for clip in manifest
    }
    _check_annotators(rows, targets.get(ANNOTATOR, ANNOTATOR), csv)
    n_by_id = 0
    if key == CLIP:
        n_by_id = _require_same(manifest, rows, targets, csv, short)
    if rows.keys().isdisjoint(id_in_table.values()):
        known_ids = manifest.films if key == FILM else manifest.clip_ids
        shown = few(known_ids, 2) or f"no {noun}s"
        raise NotFound(
            f"no {noun} has an id of this table, such as {next(iter(rows), '')!r}",
            where=str(csv),
            hint=f"the manifest has {shown}",
        )
    used = {"", *targets, *targets.values()}
    plan = {**targets, **{name: name for name in read.columns if name not in used}}
    # Times would become those in another file.
    of_manifest = [*CLIP_COLUMNS, NAME_COLUMN, DIFFERS]
    of_manifest += _shown_again(read, targets)
    added = {name: column for name, column in plan.items() if name not in of_manifest}
    # Scores of clips have the titles of films beside them.
    has_titles = TITLE in manifest.columns and TITLE not in targets
    if TITLE in added and len(added) > 1 and has_titles and not force:
        of_manifest.append(TITLE)
        del added[TITLE]
    taken = [name for name in added if name in manifest.columns]
    if not force:
        refuse_if(
            taken,
            AlreadyThere,
            "the manifest has these columns already",
            where=manifest.name,
            hint="--force, or --map OTHER=COLUMN",
        )
    joined = manifest
    for name, column in added.items():
        cells = {}
        for clip_id, table_id in id_in_table.items():
            cells[clip_id] = _joined(rows.get(table_id, ()), column)
        joined = joined.with_column(name, cells)
    left_out = [name for name in plan if name in of_manifest and name != key]
    warnings = [*read.unnamed, *_warnings(rows, id_in_table, left_out, key)]
    for column, number in read.maybe_thousands.items():
        warnings.append(thousands_text(column, number))
    hidden = hidden_columns(read.columns, mapped)
    if hidden:
        names = ", ".join(sorted(hidden))
        warnings.append(f"left out, something else is mapped to them: {names}")
    if n_without_id:
        warnings.append(f"left out, without a {key}: {count(n_without_id, 'row')}")
    header = structs.replace(
        joined.header,
        sources=(*joined.header.sources, source),
        said=columns_of_people(manifest),
    )
    joined = replace(joined, header=header)
    return JoinedColumns(
        joined,
        {name: n_with_value(joined, name) for name in added},
        tuple(f"{csv}: {warning}" for warning in warnings),
        n_by_id,
    )


def _read_table(
    path: Path, columns: Mapping[str, str], short: str
) -> tuple[CsvTable, dict[str, str], str]:
    """Return a table, its column of each target, and whether it is of clips or films: the key."""
    violations = Violations(path, columns)
    required = list(dict.fromkeys(columns.values()))
    read = read_table(path, required=required, violations=violations, content="rows")
    mapped = dict(columns)
    has_times = False
    for target in (*SPAN_COLUMNS, *FILM_TIMES):
        column = mapped.get(target, target)
        if column in read.columns:
            times = [row[column] for row in read.rows]
            has_times = has_times or any(times)
            if not short:
                add_unclear(read.rows, column, times)
    named = {*mapped, *read.columns}
    key = CLIP if CLIP in named else FILM
    if key not in named and not violations:
        violations.add(None, CLIP, "required column is missing, and so is movie_id")
    elif key == FILM and has_times:
        problem = (
            "required column is missing: rows with times are of clips, not of films"
        )
        violations.add(None, CLIP, problem)
    hint = None
    if CLIP not in named or not {*required}.issubset(read.columns):
        columns_of_table = few(read.filled_columns)
        hint = f"--map clip_id=COLUMN; the columns of the table: {columns_of_table}"
    violations.raise_if_any("the table cannot be joined", hint)
    return read, mapped, key


def _shown_again(table: CsvTable, targets: Mapping[str, str]) -> list[str]:
    """Return the columns of a table that show the times of its clips as a person reads them."""
    if not {*SPAN_COLUMNS} <= {*table.columns}:
        return []
    shown = []
    for column in CLOCK_COLUMNS:
        if column in table.columns and column not in targets:
            cells = filter(None, (row[column] for row in table.rows))
            if all(map(is_time, cells)):
                shown.append(column)
    return shown


def _check_annotators(
    rows: Mapping[str, Sequence[TableRow]], column: str, path: Path
) -> None:
    """Raise an error if an id has rows of several annotators: a joined cell is of no one."""
    for rows_of_id in rows.values():
        names = {row.cells.get(column, "").strip() for row in rows_of_id} - {""}
        if len(names) > 1:
            raise FixInput(
                f"the column {column} has several annotators of one clip: {few(sorted(names))}",
                where=str(path),
                hint="obygaze manifest import reads what each annotator says; or join a table"
                " of one of them",
            )


def _require_same(
    manifest: Manifest,
    rows: Mapping[str, Sequence[TableRow]],
    targets: Mapping[str, str],
    path: Path,
    short: str,
) -> int:
    """Return how many rows are matched by their ids alone; rows of other clips are an error."""
    # NumPy is not loaded for the help of commands.
    from obygaze_features.manifest.clip_facts import ClipFacts, require_same

    clips = []
    stated = []
    for clip in manifest:
        for row in rows.get(clip.clip_id, ()):
            clips.append(clip)
            stated.append(
                {name: row.cells.get(targets.get(name, name), "") for name in STATED}
            )
    in_table = ClipFacts.of(
        [clip.clip_id for clip in clips],
        [as_id(cells[FILM]) for cells in stated],
        [_seconds(cells["start_s"], short) for cells in stated],
        [_seconds(cells["end_s"], short) for cells in stated],
        map(frames_of, stated),
    )
    return require_same(
        ClipFacts.of_clips(clips),
        in_table,
        (f"the manifest {manifest.name}", "the table"),
        where=str(path),
        hint=f"the columns of its films and times: --map {FILM}=COLUMN --map start_s=COLUMN",
    )


def _seconds(cell: str, short: str) -> float | None:
    """Return a time of a table in seconds; None where it has none."""
    text = in_seconds(cell, has_decimal_comma=True, short=short)
    return float(text) if WRITTEN_SECONDS.fullmatch(text) else None


def _warnings(
    rows: Mapping[str, object],
    id_in_table: Mapping[str, str],
    left_out: Sequence[str],
    key: str,
) -> list[str]:
    """Return what a user should know of clips, rows and columns that were not joined."""
    warnings = []
    noun = "clips"
    if key == FILM:
        noun = "films"
        warnings.append("joined by movie_id: all clips of a film get its values")
    n_without = sum(table_id not in rows for table_id in id_in_table.values())
    if n_without:
        warnings.append(
            f"without a row: {n_without} of {count(len(id_in_table), 'clip')}"
        )
    unknown = sorted(rows.keys() - set(id_in_table.values()))
    if unknown:
        # Only what has no row yet can be meant.
        free = set(id_in_table.values()) - rows.keys()
        named = [f"{name}{near(name, free, LIKE_IDS)}" for name in unknown[:3]]
        listed = few([*named, *unknown[3:]], 3)
        warnings.append(f"not {noun} of the manifest: {listed}")
    if left_out:
        warnings.append(f"left out, manifests have their own: {', '.join(left_out)}")
    if "level" in left_out:
        warnings.append("--map NAME=COLUMN joins the levels under a name of your own")
    return warnings


def _joined(rows: Iterable[TableRow], column: str) -> str:
    """Return the different values of some rows, joined with '|'."""
    values: dict[str, None] = {}
    for row in rows:
        for part in row[column].split("|"):
            values.setdefault(part.strip())
    return "|".join(value for value in values if value)
