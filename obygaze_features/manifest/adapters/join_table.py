"""Add the columns of a table to the clips of a manifest, by the ids of clips or of films."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import structs

from obygaze_features.core.console import count, few, table
from obygaze_features.core.errors import (
    LIKE_IDS,
    AlreadyThere,
    FixInput,
    FixUsage,
    NotFound,
    near,
)
from obygaze_features.core.shell import shell_line
from obygaze_features.core.tables import TableRow
from obygaze_features.core.unknown_words import UNKNOWN
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.adapters import (
    count_with_value,
    source_file,
    unknown_level,
)
from obygaze_features.manifest.adapters.table_cells import (
    Cells,
    source_columns,
)
from obygaze_features.manifest.adapters.table_mapping import (
    ANNOTATOR,
    TableMapping,
    mapping_of_options,
)
from obygaze_features.manifest.adapters.table_questions import (
    Questions,
    ask_answers,
)
from obygaze_features.manifest.adapters.table_reading import TableCells, read_tables
from obygaze_features.manifest.adapters.table_times import (
    ALL_TIMES,
    CLOCK_COLUMNS,
    SHORT_TIMES,
    SPAN_COLUMNS,
    in_seconds,
    is_short,
    is_time,
    unclear_time,
)
from obygaze_features.manifest.annotators import annotated_columns
from obygaze_features.manifest.film_names import (
    film_options,
    films_of_names,
    find_name,
    in_other_spelling,
    likely_names,
    require_one_name,
)
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
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    DIFFERS,
    FILM_FILE,
    NAME_COLUMN,
    Manifest,
    own_columns,
)
from obygaze_features.manifest.own_labels import column_words
from obygaze_features.manifest.spans import (
    FILM_TIMES,
    FRAMES,
    RATE_COLUMN,
    stated_frames,
)
from obygaze_features.manifest.spelling import Spelling

CLIP = "clip_id"
FILM = "movie_id"
# What a table states for each clip, by column: a cell, "" if it is unknown, None for nothing.
Values = dict[str, dict[str, str | None]]


@dataclass(frozen=True)
class JoinedColumns:
    """A manifest with the columns of a table.

    `columns` counts the clips that have a value in each column. `n_by_id` counts the rows that were
    matched by their ids only: the table and the manifest state no other common fact. `changed`
    counts the cells of each column that an update changed.
    """

    manifest: Manifest
    columns: Mapping[str, int]
    warnings: tuple[str, ...]
    n_by_id: int = 0
    changed: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the number of clips by column, and the warnings."""
        return {
            "name": self.manifest.name,
            "columns": dict(self.columns),
            "warnings": list(self.warnings),
            "by_id_alone": self.n_by_id,
            "changed": dict(self.changed),
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
        if self.changed:
            cells = [f"{name} {n_cells}" for name, n_cells in self.changed.items()]
            notes.append(
                f"changed cells: {few(cells, 12)}; all other cells are as before"
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
    film_names: Mapping[str, str] | None = None,
    words: Mapping[str, str] | None = None,
    update: bool = False,
    force: bool = False,
    workspace: PathLike | None = None,
) -> JoinedColumns:
    """Add the columns of a table to the clips of a manifest.

    The table needs a column clip_id, which `columns` may name. Several values of a clip, in one
    cell or in several rows, are joined with '|', and 'joy in emotions' tests each of them. If
    the table has films or times, they must equal those of the clip.

    A table of films needs movie_id in place of clip_id: all clips of a film get the values of its
    rows.

    An update changes the cells of the clips that have a row, in the columns that the manifest has,
    and in level and concepts; all other cells stay. In `differs`, it removes what has a value now.
    No join empties a cell unless the table has ? there.

    Args:
        manifest: The manifest, which is replaced; a clip without a row gets empty cells.
        csv: The table: a CSV file or an .xlsx file.
        columns: The column of the table for each name, such as {"clip_id": "scene"}; the value of
            "times" is the format of 1:10, m:ss or h:mm, or ms for milliseconds.
        sheet: The sheet of a spreadsheet; by default the likely one.
        film_names: The film of the manifest for each film that has another name in the table.
        words: NA=? if NA means not known, NA=NA if NA is an answer; in an update also ja=S.
        update: Change the cells of the clips of the table only.
        force: Replace columns of the manifest.
        workspace: The workspace, if it is not the current one.
    """
    path = manifest_path(manifest, workspace=workspace)
    before = read_manifest(path)
    typed = ["obygaze", "manifest", "join", str(manifest), str(csv)]
    typed += ["--update"] if update else []
    typed += ["--force"] if force else []
    joined = join(
        before,
        Path(csv),
        columns,
        sheet=sheet,
        film_names=film_names,
        words=words,
        update=update,
        force=force,
        command=typed,
    )
    options: dict[str, Any] = {"--map": columns, "--sheet": sheet, "--word": words}
    options |= {"--film": film_names, "--update": update, "--force": force}
    arguments = [manifest_word(path, workspace), Path(csv)]
    command = command_line("manifest join", arguments, options, workspace)
    joined = replace(joined, manifest=with_command(joined.manifest, command, before))
    update_manifest(before, joined.manifest, path)
    return joined


def join(
    manifest: Manifest,
    csv: Path,
    columns: Mapping[str, str] | None = None,
    *,
    sheet: str = "",
    film_names: Mapping[str, str] | None = None,
    words: Mapping[str, str] | None = None,
    update: bool = False,
    force: bool = False,
    command: Sequence[str] = (),
) -> JoinedColumns:
    """Return the manifest with the columns of a table, as `join_columns` writes it.

    `command` has the words of the typed command, without --map, --sheet, --film and --word.
    """
    if update and force:
        raise FixUsage(
            "--update changes some cells of a column, and --force replaces the column",
            hint="remove one of the two",
        )
    source = source_file(csv)
    mapping = mapping_of_options(
        columns or {}, words or {}, sheets=sheet, film_names=film_names
    )
    read = read_tables([csv], mapping)
    cells: Cells = {}
    for target, column in source_columns(read, mapping).items():
        cells[target] = read.column(column)
    key = CLIP if CLIP in cells else FILM
    noun = "clip" if key == CLIP else "film"
    n_before = read.n_problems
    questions = Questions(read, mapping, TableMapping())
    ask_answers(questions)
    n_asked = read.n_problems - n_before
    line = shell_line([*command, *questions.mapping.typed()])
    # A clip, a film or a person may have the name of a word that is not known.
    of_names = read.words.without(read.words.unknown)
    for name in {CLIP, FILM, ANNOTATOR} & cells.keys():
        cells[name] = [*map(of_names.known, cells[name])]
    _check_columns(cells, key, read, mapping, n_asked, line)
    other_spelling = _use_films(cells, manifest, mapping, csv)
    rows_of_id = _rows_of_ids(cells, key, csv)
    n_without_id = len(rows_of_id.pop("", ()))
    # For each clip, the id that its rows have in the table: of the clip, or of its film.
    id_in_table = {clip.clip_id: getattr(clip, key) for clip in manifest}
    n_by_id = 0
    if key == CLIP:
        n_by_id = _require_same(manifest, cells, rows_of_id, mapping, csv)
    if rows_of_id.keys().isdisjoint(id_in_table.values()):
        known = manifest.clip_ids if key == CLIP else manifest.films
        hint = f"the manifest has {few(known, 2) or f'no {noun}s'}"
        if key == FILM:
            hint += _ways_of_films(rows_of_id, manifest.films)
        raise NotFound(
            f"no {noun} of the manifest has an id of this table, such as"
            f" {next(iter(rows_of_id), '')!r}",
            where=str(csv),
            hint=hint,
        )
    rows_of_clip = {}
    for clip_id, table_id in id_in_table.items():
        rows_of_clip[clip_id] = rows_of_id.get(table_id, ())
    added = _added(manifest, cells, key, mapping, update=update, force=force)
    values = _values(manifest, added, cells, rows_of_clip, read, mapping)
    _refuse_emptied(manifest, values, rows_of_clip, csv, update=update, force=force)
    changed: dict[str, int] = {}
    if update:
        joined, changed = _updated(manifest, values, _open_names(cells, rows_of_clip))
    else:
        joined = manifest
        for name, cell_of in values.items():
            filled = {clip_id: cell or "" for clip_id, cell in cell_of.items()}
            joined = joined.with_column(name, filled)
    header = structs.replace(
        joined.header,
        sources=(*joined.header.sources, source),
        said=annotated_columns(manifest),
    )
    joined = replace(joined, header=header)

    warnings = [*read.warnings, *read.number_warnings(mapping)]
    if key == FILM:
        warnings.append("joined by movie_id: all clips of a film get its values")
    if other_spelling:
        warnings.append(f"films matched in another spelling: {few(other_spelling, 3)}")
    n_without = sum(not rows for rows in rows_of_clip.values())
    if n_without:
        unchanged = ", and unchanged" if update else ""
        warnings.append(
            f"{n_without} of {count(len(id_in_table), 'clip')} without a row{unchanged}"
        )
    unknown = sorted(rows_of_id.keys() - {*id_in_table.values()})
    if unknown:
        # Suggest only ids that have no row.
        free = set(id_in_table.values()) - rows_of_id.keys()
        named = [f"{name}{near(name, free, LIKE_IDS)}" for name in unknown[:3]]
        listed = few([*named, *unknown[3:]], 3)
        ways = _ways_of_films(unknown, free) if key == FILM else ""
        warnings.append(f"ids of no {noun} of the manifest: {listed}{ways}")
    left_out = [name for name in cells if name not in (*added, key)]
    if left_out:
        names = ", ".join(left_out)
        reason = "each manifest has its own"
        if update:
            reason = "they identify clips, or are not in the manifest"
        warnings.append(f"columns not joined, because {reason}: {names}")
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
        changed,
    )


def _use_films(
    cells: Cells, manifest: Manifest, mapping: TableMapping, path: Path
) -> list[str]:
    """Replace the names of films by the films of the manifest, as far as it has them.

    Return the names that were matched in another spelling.
    """
    names = [*dict.fromkeys(filter(None, cells.get(FILM, ())))]
    stated = {}
    for name, film in mapping.film_names.items():
        known_film = find_name(film, manifest.films, "film of the manifest")
        stated[find_name(name, names, "film of the table")] = known_film
    film_of = films_of_names(names, manifest.films, stated)
    require_one_name(film_of, str(path), stated)
    if names:
        cells[FILM] = [film_of.get(name, name) for name in cells[FILM]]
    matched = {name: film for name, film in film_of.items() if name not in stated}
    return in_other_spelling(matched)


def _ways_of_films(names: Iterable[str], films: Iterable[str]) -> str:
    """Return what to pass for films that may have another name in the manifest, or ""."""
    likely = likely_names(names, films)
    if not likely:
        return ""
    return f"; if these films have another name there, pass {film_options(likely)}"


def _values(
    manifest: Manifest,
    columns: Sequence[str],
    cells: Cells,
    rows_of_clip: Mapping[str, Sequence[int]],
    read: TableCells,
    mapping: TableMapping,
) -> Values:
    """Return what the table states for each clip, by column.

    Levels and concepts are in the words of the manifest; other words are violations.
    """
    values: Values = {}
    for name in columns:
        cell_of: dict[str, str | None] = {}
        for clip_id, rows in rows_of_clip.items():
            parts: dict[str, None] = {}
            for row in rows:
                for word in cells[name][row].split("|"):
                    parts[
                        _label(word.strip(), name, read.rows[row], manifest, mapping)
                    ] = None
            parts.pop("", None)
            known = [word for word in parts if not read.words.is_unknown(word)]
            if name == "level" and len(known) > 1:
                problem = f"expected one level of the clip {clip_id}, got {few(known)}"
                read.rows[rows[0]].add(name, problem)
            cell_of[clip_id] = "|".join(known) if parts else None
        values[name] = cell_of
    read.violations[0].raise_if_any("the table cannot be joined")
    return values


def _label(
    word: str, column: str, row: TableRow, manifest: Manifest, mapping: TableMapping
) -> str:
    """Return a word as the manifest has it; an unknown level or concept is a violation."""
    if word in ("", UNKNOWN):
        return word
    if column == "level":
        level = mapping.level(word)
        if level is None:
            row.add(column, unknown_level(word))
        return level or UNKNOWN
    if column == "concepts" and word not in manifest.header.concepts:
        concept = mapping.concept(word)
        if concept not in manifest.header.concepts:
            row.add(
                column,
                f"unknown concept {word!r}{near(word, manifest.header.concepts)}",
            )
        return concept or UNKNOWN
    return word


def _refuse_emptied(
    manifest: Manifest,
    values: Values,
    rows_of_clip: Mapping[str, Sequence[int]],
    path: Path,
    *,
    update: bool,
    force: bool,
) -> None:
    """Raise an error if columns would be replaced without `force`, or cells would be emptied."""
    n_emptied = {}
    for name, cell_of in values.items():
        if name not in (*manifest.columns, *CLIP_COLUMNS):
            continue
        n_emptied[name] = 0
        for clip in manifest:
            is_kept = update and not rows_of_clip[clip.clip_id]
            if cell_of[clip.clip_id] is None and not is_kept and clip.values(name):
                n_emptied[name] += 1
    n_cells = sum(n_emptied.values())
    listed = few([f"{name} {n:,}" for name, n in n_emptied.items() if n], 6)
    emptied = (
        f"{n_cells:,} {'cell' if n_cells == 1 else 'cells'} with a value ({listed})"
    )
    if n_emptied and not (update or force):
        problem = f"the manifest has these columns already: {few([*n_emptied], 6)}"
        if n_cells:
            problem += f"; replacing them would empty {emptied}"
        raise AlreadyThere(
            problem,
            where=manifest.name,
            hint="pass --update to change the cells of the clips of the table, --force to replace"
            " the columns, or --map OTHER=COLUMN to rename a column",
        )
    if n_cells:
        way = "write ? into the cells to empty, and the value into the others"
        if force:
            way = f"pass --update to change the cells of the clips of the table only; or {way}"
        raise FixInput(
            f"the table would empty {emptied} of {manifest.name}, because it states none for them",
            where=str(path),
            hint=way,
        )


def _open_names(
    cells: Cells, rows_of_clip: Mapping[str, Sequence[int]]
) -> dict[str, set[str]]:
    """Return what the table lists in the column `differs`, by clip."""
    open_names = {}
    for clip_id, rows in rows_of_clip.items() if DIFFERS in cells else ():
        if rows:
            named = [cells[DIFFERS][row].split("|") for row in rows]
            open_names[clip_id] = {*chain.from_iterable(named)}
    return open_names


def _updated(
    manifest: Manifest, values: Values, open_names: Mapping[str, set[str]]
) -> tuple[Manifest, dict[str, int]]:
    """Return the manifest with the changed cells, and their number by column.

    A column or concept that has a value now, or that the table does not list as open any more, is
    no longer open.
    """
    joined = manifest
    for name, cell_of in values.items():
        if name in CLIP_COLUMNS:
            continue
        # A new cell gets the spelling of the others.
        spelling = Spelling()
        cells = {}
        for clip in manifest:
            cells[clip.clip_id] = spelling.cell(clip.extra.get(name, ""), name)
        for clip_id, stated in cell_of.items():
            if stated is not None:
                cells[clip_id] = spelling.cell(stated, name)
        joined = joined.with_column(name, cells)
    clips = []
    for before, clip in zip(manifest, joined, strict=True):
        new: dict[str, str] = {}
        for name, cell_of in values.items():
            text = cell_of[clip.clip_id]
            if text is not None:
                new[name] = text
        concepts = before.concepts
        if "concepts" in new:
            concepts = tuple(filter(None, new["concepts"].split("|")))
        decided = {*concepts, *filter(new.get, new)}
        extra = dict(clip.extra)
        if before.extra.get(DIFFERS):
            names = before.extra[DIFFERS].split("|")
            listed = open_names.get(clip.clip_id, names)
            left = [name for name in names if name in listed and name not in decided]
            extra[DIFFERS] = "|".join(left)
        level = new.get("level", before.level)
        clips.append(replace(clip, level=level, concepts=concepts, extra=extra))
    joined = replace(joined, clips=tuple(clips))
    changed = {}
    for name in values:
        n_changed = 0
        for before, after in zip(manifest, joined, strict=True):
            n_changed += before.values(name) != after.values(name)
        changed[name] = n_changed
    return joined, changed


def _check_columns(
    cells: Cells,
    key: str,
    read: TableCells,
    mapping: TableMapping,
    n_asked: int,
    line: str,
) -> None:
    """Raise one error if the table has no ids, or has times that may be minutes or hours.

    The error also lists the other violations of the table.

    Args:
        cells: The cells by column of the manifest.
        key: The column of the ids.
        read: The table.
        mapping: How the table is read.
        n_asked: The number of violations that are questions about words such as NA.
        line: The command with the likely answers to these questions.
    """
    violations = read.violations[0]
    times = [name for name in ALL_TIMES if name in cells]
    unclear = [] if mapping.times in SHORT_TIMES else times
    for name in unclear:
        short = [text for text in cells[name] if is_short(text)]
        for row, text in zip(read.rows, cells[name], strict=True):
            if is_short(text):
                row.add(name, unclear_time(short[0]))
    hint = line if len(violations) == n_asked else None
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
    mapping: TableMapping,
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
            form = mapping.form_of(column)
            text = in_seconds(cell, has_decimal_comma=True, form=form)
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
        hint=f"name the columns of films and times: --map {FILM}=COLUMN --map start_s=COLUMN; a"
        " film with another name: --film NAME=FILM",
    )
    return found.n_by_ids


def _added(
    manifest: Manifest,
    cells: Cells,
    key: str,
    mapping: TableMapping,
    *,
    update: bool,
    force: bool,
) -> list[str]:
    """Return the columns to add; in an update, the columns to change."""
    # The times of the table are not added, because they may count in a different file.
    own = {*CLIP_COLUMNS, NAME_COLUMN, FILM_FILE, DIFFERS, ANNOTATOR}
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
    if not update:
        return added
    changed = [name for name in added if name in manifest.columns]
    changed += [name for name in ("level", "concepts") if name in cells]
    if not changed:
        known = ["level", "concepts", *own_columns(manifest.columns)]
        raise FixInput(
            "the table has no column that the manifest has, too",
            where=manifest.name,
            hint=f"the manifest has {few(known)}",
        )
    return changed
