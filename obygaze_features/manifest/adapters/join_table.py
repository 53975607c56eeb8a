"""Add the columns of a table to the clips of a manifest, by the ids of clips or of films."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from obygaze_features.core.tables import thousands_text
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.adapters import count_with_value, source_file
from obygaze_features.manifest.adapters.table_cells import (
    ALL_TIMES,
    Cells,
    source_columns,
)
from obygaze_features.manifest.adapters.table_mapping import (
    ANNOTATOR,
    TableMapping,
    choose_mapping,
)
from obygaze_features.manifest.adapters.table_reading import TableCells, read_tables
from obygaze_features.manifest.adapters.table_times import (
    CLOCK_COLUMNS,
    SPAN_COLUMNS,
    in_seconds,
    is_short,
    is_time,
    unclear_time,
)
from obygaze_features.manifest.annotators import annotated_columns
from obygaze_features.manifest.history import (
    command_line,
    manifest_word,
    with_command,
)
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
from obygaze_features.manifest.spans import (
    FILM_TIMES,
    FRAMES,
    RATE_COLUMN,
    stated_frames,
)

CLIP = "clip_id"
FILM = "movie_id"


@dataclass(frozen=True)
class JoinedColumns:
    """A manifest with the columns of a table.

    `columns` counts the clips that have a value in each column. `n_by_id` counts the rows that were
    matched by their ids only: the table and the manifest state no other common fact.
    """

    manifest: Manifest
    columns: Mapping[str, int]
    warnings: tuple[str, ...]
    n_by_id: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the number of clips by column, and the warnings."""
        return {
            "name": self.manifest.name,
            "columns": dict(self.columns),
            "warnings": list(self.warnings),
            "by_id_alone": self.n_by_id,
        }

    def __str__(self) -> str:
        rows = []
        for name, n_clips in self.columns.items():
            # The values are shown because 1,2 in a sheet may mean two values, and is read as 1.2.
            rows.append((name, n_clips, column_words(self.manifest.clips, name)))
        return table(("column", "clips with a value", "values"), rows)

    @property
    def notes(self) -> list[str]:
        """The number of rows that were matched by their ids only; whom the manifest cites."""
        notes = []
        if self.n_by_id:
            n_rows = count(self.n_by_id, "row")
            notes.append(
                f"{n_rows} matched by id only: table and manifest share neither films (--map"
                f" {FILM}=COLUMN) nor times"
            )
        header = self.manifest.header
        if header.licence or header.citation:
            notes.append(
                "licence and citation of the manifest are unchanged; if the table has others, edit"
                f" them in {self.manifest.name}.toml"
            )
        return notes


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

    The table needs a column clip_id, or --map clip_id=COLUMN. Several values of a clip, in one cell
    or in several rows, are joined with '|', and an expression tests each: joy in emotions. If the
    table has films or times, they must equal those of the clip.

    A table of films needs movie_id in place of clip_id, or --map movie_id=COLUMN: all clips of a
    film get the values of its rows.

    Args:
        manifest: The manifest, which is replaced; a clip without a row gets empty cells.
        csv: The table: a CSV file or an .xlsx file.
        columns: Rename a column; times=m:ss or times=h:mm is the format of 1:10.
        sheet: The sheet of a spreadsheet. [default: the likely one]
        force: Replace columns of the manifest.
        workspace: The workspace, if it is not the current one.
    """
    path = manifest_path(manifest, workspace=workspace)
    before = read_manifest(path)
    joined = join(before, Path(csv), columns, sheet=sheet, force=force)
    options = {"--map": columns, "--sheet": sheet, "--force": force}
    words = [manifest_word(path, workspace), Path(csv)]
    command = command_line("manifest join", words, options, workspace)
    joined = replace(joined, manifest=with_command(joined.manifest, command, before))
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
    """Return the manifest with the columns of a table, as `join_columns` writes it."""
    source = source_file(csv)
    mapping, _ = choose_mapping(csv, None, columns or {}, {}, sheet=sheet)
    read = read_tables([csv], mapping)
    cells: Cells = {}
    for target, column in source_columns(read, mapping).items():
        cells[target] = read.column(column)
    key = CLIP if CLIP in cells else FILM
    noun = "clip" if key == CLIP else "film"
    _check_columns(cells, key, read, mapping)
    rows_of_id = _rows_of_ids(cells, key, csv)
    n_without_id = len(rows_of_id.pop("", ()))
    # For each clip, the id that its rows have in the table: of the clip, or of its film.
    id_in_table = {clip.clip_id: getattr(clip, key) for clip in manifest}
    n_by_id = 0
    if key == CLIP:
        n_by_id = _require_same(manifest, cells, rows_of_id, mapping.times, csv)
    if rows_of_id.keys().isdisjoint(id_in_table.values()):
        known = manifest.clip_ids if key == CLIP else manifest.films
        raise NotFound(
            f"no {noun} of the manifest has an id of this table, such as"
            f" {next(iter(rows_of_id), '')!r}",
            where=str(csv),
            hint=f"the manifest has {few(known, 2) or f'no {noun}s'}",
        )
    added = _added(manifest, cells, key, mapping, force=force)
    joined = manifest
    for name in added:
        values = {}
        for clip_id, table_id in id_in_table.items():
            parts: dict[str, None] = {}
            for row in rows_of_id.get(table_id, ()):
                parts.update(dict.fromkeys(map(str.strip, cells[name][row].split("|"))))
            values[clip_id] = "|".join(filter(None, parts))
        joined = joined.with_column(name, values)
    header = structs.replace(
        joined.header,
        sources=(*joined.header.sources, source),
        said=annotated_columns(manifest),
    )
    joined = replace(joined, header=header)

    warnings = [*read.warnings]
    for column, number in read.tables[str(csv)].maybe_thousands.items():
        warnings.append(thousands_text(column, number))
    if key == FILM:
        warnings.append("joined by movie_id: all clips of a film get its values")
    n_without = sum(one not in rows_of_id for one in id_in_table.values())
    if n_without:
        warnings.append(
            f"{n_without} of {count(len(id_in_table), 'clip')} without a row"
        )
    unknown = sorted(rows_of_id.keys() - {*id_in_table.values()})
    if unknown:
        # Suggest only ids that have no row.
        free = set(id_in_table.values()) - rows_of_id.keys()
        named = [f"{name}{near(name, free, LIKE_IDS)}" for name in unknown[:3]]
        listed = few([*named, *unknown[3:]], 3)
        warnings.append(f"ids of no {noun} of the manifest: {listed}")
    left_out = [name for name in cells if name not in (*added, key)]
    if left_out:
        names = ", ".join(left_out)
        warnings.append(
            f"columns not joined, because each manifest has its own: {names}"
        )
    hidden = {*mapping.columns} & {*read.cells} - {*mapping.columns.values()}
    if hidden:
        names = ", ".join(sorted(hidden))
        warnings.append(
            f"columns not joined, because --map gives their names to others: {names}"
        )
    if n_without_id:
        n_rows = count(n_without_id, "row")
        warnings.append(f"not joined, because {key} is empty: {n_rows}")
    return JoinedColumns(
        joined,
        {name: count_with_value(joined, name) for name in added},
        tuple(f"{csv}: {warning}" for warning in warnings),
        n_by_id,
    )


def _check_columns(
    cells: Cells, key: str, read: TableCells, mapping: TableMapping
) -> None:
    """Raise one error if the table has no ids, or has times that may be minutes or hours."""
    violations = read.violations[0]
    times = [name for name in ALL_TIMES if name in cells]
    for name in times if not mapping.times else ():
        short = [text for text in cells[name] if is_short(text)]
        for row, text in zip(read.rows, cells[name], strict=True):
            if is_short(text):
                row.add(name, unclear_time(short[0]))
    hint = None
    if key == FILM and (key not in cells or any(any(cells[name]) for name in times)):
        problem = "required column is missing, and no column is movie_id"
        if key in cells:
            problem = "required column is missing in a table of times"
        violations.add(None, CLIP, problem)
        columns = few(read.tables[violations.path].filled_columns)
        hint = f"pass --map clip_id=COLUMN with a column of the table: {columns}"
    violations.raise_if_any("the table cannot be joined", hint)


def _rows_of_ids(cells: Cells, key: str, path: Path) -> dict[str, list[int]]:
    """Return the rows of each id. Raise an error if a clip has rows of several annotators."""
    id_of = ids_of_names(cells[key], "film" if key == FILM else "clip", str(path))
    annotators = cells.get(ANNOTATOR, [""] * len(cells[key]))
    rows_of_id: dict[str, list[int]] = {}
    names_of_id: dict[str, set[str]] = {}
    for row, name in enumerate(cells[key]):
        rows_of_id.setdefault(id_of[name], []).append(row)
        names_of_id.setdefault(id_of[name], set()).add(annotators[row])
    for id_, names in names_of_id.items():
        named = sorted(names - {""})
        if id_ and len(named) > 1:
            raise FixInput(
                f"the table has rows of several annotators for one clip: {few(named)}",
                where=str(path),
                hint="use obygaze manifest import for several annotators, or join the rows of one",
            )
    return rows_of_id


def _require_same(
    manifest: Manifest,
    cells: Cells,
    rows_of_id: Mapping[str, Sequence[int]],
    short: str,
    path: Path,
) -> int:
    """Raise an error if the table and the manifest state different films or spans for a clip.

    Return the number of rows that were matched by id only, without any other common fact.
    """
    # Imported here because it loads NumPy, which would slow down the help of commands.
    import numpy as np

    from obygaze_features.manifest.clip_table import ClipTable
    from obygaze_features.manifest.same_clips import same_clips

    clips = []
    stated = []
    for clip in manifest:
        for row in rows_of_id.get(clip.clip_id, ()):
            clips.append(clip)
            stated.append({name: column[row] for name, column in cells.items()})

    def seconds(column: str) -> list[float | None]:
        times: list[float | None] = []
        for of_row in stated:
            cell = of_row.get(column, "")
            text = in_seconds(cell, has_decimal_comma=True, short=short)
            times.append(float(text) if WRITTEN_SECONDS.fullmatch(text) else None)
        return times

    in_table = ClipTable.of(
        [clip.clip_id for clip in clips],
        [as_id(of_row.get(FILM, "")) for of_row in stated],
        frames=map(stated_frames, stated),
        **{name: seconds(name) for name in (*SPAN_COLUMNS, *FILM_TIMES)},
    )
    found = same_clips(ClipTable.of_clips(clips), in_table, np.arange(len(clips)))
    found.require(
        (f"the manifest {manifest.name}", "the table"),
        tell=False,
        where=str(path),
        hint=f"name the columns of films and times: --map {FILM}=COLUMN --map start_s=COLUMN",
    )
    return found.n_by_ids


def _added(
    manifest: Manifest, cells: Cells, key: str, mapping: TableMapping, *, force: bool
) -> list[str]:
    """Return the columns to add.

    Without `force`, raise an error if the manifest has one of them.
    """
    # The times of the table are not added, because they may count in a different file.
    own = {*CLIP_COLUMNS, NAME_COLUMN, DIFFERS, ANNOTATOR}
    if key == CLIP:
        # Frames and times in the film that the manifest also has are compared, not added.
        compared = {*FRAMES, RATE_COLUMN, *FILM_TIMES}
        own |= compared.intersection(manifest.columns) - {*mapping.columns}
    for clock in CLOCK_COLUMNS:
        # Clock times next to the seconds are the same times.
        is_clock = clock not in mapping.columns and {*SPAN_COLUMNS} <= cells.keys()
        if is_clock and all(map(is_time, filter(None, cells.get(clock, ())))):
            own.add(clock)
    added = [name for name in cells if name not in own]
    # Tables of scores repeat the titles of films.
    has_titles = TITLE in manifest.columns and TITLE not in mapping.columns
    if TITLE in added and len(added) > 1 and has_titles and not force:
        added.remove(TITLE)
    taken = [name for name in added if name in manifest.columns]
    if not force:
        refuse_if(
            taken,
            AlreadyThere,
            "the manifest has these columns already",
            where=manifest.name,
            hint="pass --force to replace them, or --map OTHER=COLUMN to rename a column",
        )
    return added
