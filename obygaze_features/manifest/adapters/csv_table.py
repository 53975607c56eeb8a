"""Read any table of clips, with a mapping of its columns and words to those of a manifest."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.files import is_workbook
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import (
    SAVE_AS,
    CsvTable,
    TableRow,
    read_table,
    thousands_text,
    whole_number,
)
from obygaze_features.manifest.adapters import (
    ImportedManifest,
    source_of,
    unknown_level,
)
from obygaze_features.manifest.adapters.table_coders import (
    are_of_people,
    clips_and_annotations,
    made_of_coders,
    rows_of_coders,
    targets_of_coders,
)
from obygaze_features.manifest.adapters.table_ids import (
    COUNT,
    add_ids,
    changed_ids,
    check_clip_ids,
    columns_of_form,
    hidden_columns,
)
from obygaze_features.manifest.adapters.table_mapping import (
    CONSTANT,
    NEEDED,
    SEPARATORS,
    TableMapping,
    chosen_mapping,
    draft_hint,
    draft_of,
    used_mapping,
    without_no_values,
    words_of_levels,
    write_draft,
    write_mapping_file,
)
from obygaze_features.manifest.adapters.table_times import (
    SPAN_COLUMNS,
    add_unclear,
    check_clocks,
    in_seconds,
    is_short,
)
from obygaze_features.manifest.annotators import (
    labelled,
    orders_of,
    sorted_annotations,
)
from obygaze_features.manifest.expression import CONCEPTS, plain_value
from obygaze_features.manifest.frame_rate import known_frame_rate, seconds_of_frames
from obygaze_features.manifest.io import (
    annotators_of,
    as_id,
    clips_of_table,
    read_annotations,
    toml_string,
)
from obygaze_features.manifest.listing import TITLE
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    FOLD_PREFIX,
    NAME_COLUMN,
    NO_FILMS,
    TARGETS,
    Annotation,
    Clip,
    Header,
    Manifest,
    own_columns,
)
from obygaze_features.manifest.own_labels import column_words, words_alike
from obygaze_features.manifest.spans import (
    FILM_TIMES,
    FRAMES,
    RATE_COLUMN,
    span_in_file,
)
from obygaze_features.manifest.spelling import Spelling
from obygaze_features.manifest.vocabulary import concepts

WAYS_OF_FILMS = (
    "--map movie_id=COLUMN names the column of the films, and --films none says that the table"
    " states none"
)
WAYS_OF_IDS = (
    "--map clip_id=COLUMN names the column of ids, and --id '{movie_id}-{count:03d}' counts the"
    " clips of each film"
)
ALL_TIMES = (*SPAN_COLUMNS, *FILM_TIMES)
# How the last row of a table is called if it is a row of totals.
TOTALS = ("total", "totals", "sum", "summe", "gesamt", "all")
# A time of a sheet that is shown with seconds and has none.
WHOLE_MINUTES = re.compile(r"(?!0:00)[0-9]+:[0-9]{2}:00")


def read(
    csv: str | Path,
    columns: Mapping[str, str] | None = None,
    *,
    mapping: TableMapping | str | Path | None = None,
    form: str = "",
    films: Literal["none"] | None = None,
    sheet: str = "",
    rule: str = "",
    orders: Mapping[str, str] | None = None,
    write_mapping: str | Path | None = None,
    name: str | None = None,
) -> ImportedManifest:
    """Read any table, with a mapping of its columns.

    Args:
        csv: The table: text, a spreadsheet or parquet.
        columns: The column of the table, or `=value`, for each of the manifest; it takes precedence
            over the mapping.
        mapping: The mapping, or its file.
        form: What clip ids are made of.
        films: "none" if the table states no films.
        sheet: The name of the sheet of a spreadsheet, by default of the only one with data.
        rule: What becomes the label where people differ.
        orders: The words of a column from the lowest, separated by commas.
        write_mapping: A file for the mapping that was used; of a table that does not fit, for a
            draft.
        name: The name of the manifest, by default that of the file.
    """
    path = Path(csv)
    chosen = chosen_mapping(
        path,
        mapping,
        columns=columns or {},
        sheet=sheet,
        id=form,
        films=films,
        rule=rule,
        orders=orders,
    )
    try:
        imported, used = _read(path, chosen, name or path.stem, mapping)
    except FixInput as error:
        _write_draft(path, chosen, write_mapping, error)
        raise
    if write_mapping is not None:
        write_mapping_file(Path(write_mapping), used)
    return imported


def _read(
    path: Path, chosen: TableMapping, name: str, given: object
) -> tuple[ImportedManifest, TableMapping]:
    """Return the manifest of a table, and the mapping with all that was read by it.

    Hints name the mapping that was given, if it is one of a file.
    """
    required = _required(chosen)
    names_in_table = _names_in_table(chosen)
    for target, columns in targets_of_coders(chosen.coders).items():
        names_in_table[target] = ", ".join(columns)
    violations = Violations(path, names_in_table)
    table = read_table(
        path,
        required=required,
        violations=violations,
        content="clips",
        sheet=chosen.sheet,
        header_row=chosen.header_row,
        texts=_texts(chosen),
        as_written=_files(chosen),
    )
    if table.rows:
        table = without_no_values(table, chosen)
    _check_targets(chosen, table.columns)
    sources = _sources(table, chosen)
    of_coders = made_of_coders(chosen.coders)
    given_ids: list[dict[str, str]] = []
    no_film = {"movie_id": ""} if chosen.films else {}
    cells = []
    written_times = []
    for row in table.rows:
        as_written = {**no_film, **_cells_by_target(row, sources)}
        written_times += [as_written.get(name, "") for name in ALL_TIMES]
        cells.append(
            _with_seconds(as_written, chosen, has_decimal_comma=table.delimiter != ",")
        )
    _check_times(table.rows, cells)
    check_clocks(table.rows, cells)
    if not chosen.films:
        _check_films(cells, path)
    if chosen.id:
        has_films = not chosen.films
        add_ids(table.rows, cells, chosen.id, sources, has_films=has_films)
    for values in cells:
        given_ids.append({column: values[column] for column in NEEDED})
        for column in NEEDED:
            values[column] = as_id(values[column])
        values.setdefault("scene", _scene_in(values["clip_id"], values["movie_id"]))
    _add_times_of_frames(table.rows, cells)
    _check_totals(table.rows, cells, chosen)
    check_clip_ids(table.rows, cells, given_ids, chosen.columns)
    extra = dict.fromkeys(name for name in sources if name not in CLIP_COLUMNS)
    if TITLE not in sources:
        extra |= _add_titles(cells, given_ids)
    extra |= dict.fromkeys(name for name in of_coders if name not in CLIP_COLUMNS)
    spelling = Spelling()
    rows, cells_of_rows = rows_of_coders(table.rows, cells, chosen.coders)
    for row, values in zip(rows, cells_of_rows, strict=True):
        _read_words(row, values, chosen)
    is_of_people = are_of_people(rows, cells_of_rows, chosen.coders, spelling)
    if is_of_people:
        extra["annotator"] = None
    modality_of = {**concepts(), **chosen.modalities}
    clips = clips_of_table(
        zip(rows, cells_of_rows, strict=True),
        modality_of,
        tuple(extra),
        is_of_people=is_of_people,
        spelling=spelling,
        has_films=not chosen.films,
    )
    annotations: tuple[Annotation, ...] = ()
    if is_of_people:
        del extra["annotator"]
        clips, annotations = clips_and_annotations(rows, clips, extra, chosen.coders)
    if violations:
        draft = draft_hint(f"{path.stem}-mapping.toml", given)
        hint = _hint(table, required, draft)
        violations.raise_if_any("the table cannot be imported", hint)
    said = _read_beside(path, clips, modality_of, spelling)
    if said and is_of_people:
        raise FixInput(
            f"what annotators say is in {annotators_of(path).name} beside this table, and in the"
            " table itself",
            where=str(path),
            hint="move one of the two tables to another folder",
        )
    folder = path.parent
    names_of_videos = {clip.video for clip in clips if clip.video}
    missing = sorted(name for name in names_of_videos if not _is_file(folder / name))
    # Names of which none is a path wait for `manifest link`.
    is_linked = len(missing) < len(names_of_videos)
    files = [path, annotators_of(path)] if said else [path]
    video_root = folder.resolve().as_posix() if is_linked else ""
    header = Header(
        chosen.dataset or path.stem,
        modality_of,
        films=NO_FILMS if chosen.films else "",
        licence=chosen.licence,
        citation=chosen.citation,
        video_root=video_root,
        sources=tuple(source_of(file) for file in files),
    )
    warnings = table.unnamed
    targets = {**dict.fromkeys(of_coders, ""), **chosen.columns}
    for hidden in hidden_columns(table, targets, chosen.id):
        warnings.append(
            f"the column {hidden!r} of the table is left out, because {hidden} is something else"
        )
    if is_linked and missing:
        names = few([repr(name) for name in missing], 3)
        n_missing = count(len(missing), "video")
        warnings.append(f"{n_missing} missing in {folder.resolve()}: {names}")
    rates = sources.get(RATE_COLUMN, "")
    for column, number in table.maybe_thousands.items():
        # A rate such as 23,976 has decimals.
        if column != rates:
            warnings.append(thousands_text(column, number))
    warnings += changed_ids(cells, given_ids)
    used = used_mapping(chosen, table.rows)
    warnings += _words_read_as_others(used, chosen)
    warnings += words_alike(clips)
    manifest = Manifest(name, header, clips, tuple(extra), said or annotations)
    # The clips of a table with what annotators say beside it have labels.
    if chosen.rule or not said:
        manifest = labelled(manifest, chosen.rule or None, orders_of(chosen.orders))
    words = words_of_levels(chosen, table.rows) if chosen.levels else {}
    facts = {"level_words": words} if words else {}
    in_ids = columns_of_form(chosen.id)
    kept = [name for name in own_columns(manifest.columns) if name not in in_ids]
    notes = _notes(manifest.clips, kept)
    if is_workbook(path) and chosen.times:
        notes += _notes_of_times(written_times, chosen.times)
    return ImportedManifest(manifest, tuple(warnings), tuple(notes), facts), used


def _read_beside(
    path: Path,
    clips: Iterable[Clip],
    concepts_of_table: Collection[str],
    spelling: Spelling,
) -> tuple[Annotation, ...]:
    """Return what annotators say in the table beside a table, as an export writes it."""
    beside = annotators_of(path)
    if not beside.is_file():
        return ()
    ids = {clip.clip_id for clip in clips}
    said = read_annotations(beside, ids, concepts_of_table, spelling)
    return sorted_annotations(said)


def _notes_of_times(cells: Sequence[str], short: str) -> list[str]:
    """Return how the whole minutes in a sheet were read, which may be meant as seconds."""
    with_two_numbers = [cell for cell in cells if is_short(cell)]
    with_hours = [cell for cell in cells if WHOLE_MINUTES.fullmatch(cell)]
    read_as = []
    for of_form in (with_two_numbers, with_hours):
        if of_form:
            n_times = count(len(of_form), "time")
            seconds = float(in_seconds(of_form[0], has_decimal_comma=True, short=short))
            read_as.append(f"{n_times} such as {of_form[0]} ({seconds:.10g} s)")
    if not read_as:
        return []
    return [f"with times = {toml_string(short)}: {', '.join(read_as)}"]


def _notes(clips: Sequence[Clip], kept: Sequence[str]) -> list[str]:
    """Return where times are, and what the columns have that keep their name."""
    notes = []
    if any(span_in_file(clip) and not clip.video for clip in clips):
        notes.append(
            f"start_s and end_s are times in the file that {NAME_COLUMN} names; times in the film"
            " are film_start_s and film_end_s"
        )
    named = [f"{column} ({column_words(clips, column)})" for column in kept]
    if named:
        notes.append(f"columns kept under their own name: {few(named, 12)}")
    return notes


def _texts(chosen: TableMapping) -> list[str]:
    """Return the columns of a table whose commas are no decimal ones: 1,2 are two concepts."""
    return [*chosen.columns_of("concepts"), *chosen.columns_of(TITLE)]


def _files(chosen: TableMapping) -> list[str]:
    """Return the columns of a table with names of files."""
    return [*chosen.columns_of("video"), *chosen.columns_of(NAME_COLUMN)]


def _write_draft(
    path: Path,
    chosen: TableMapping,
    target: str | Path | None,
    error: FixInput,
) -> None:
    """Write a draft of the mapping of a table that cannot be imported, and raise that it was."""
    if target is None or not error.details or error.hint == SAVE_AS:
        return
    table = read_table(
        path,
        required=(),
        violations=Violations(path),
        sheet=chosen.sheet,
        header_row=chosen.header_row,
        texts=_texts(chosen),
    )
    table = without_no_values(table, chosen)
    write_draft(target, draft_of(table, chosen), error)


def _names_in_table(mapping: TableMapping) -> dict[str, str]:
    """Return the column of the table for each mapped column that is no constant."""
    return {
        target: column
        for target, column in mapping.columns.items()
        if not column.startswith(CONSTANT)
    }


def _is_file(path: Path) -> bool:
    """Return whether a file is there; False also for a name that no file can have."""
    try:
        return path.is_file()
    except OSError:
        return False


def _required(mapping: TableMapping) -> list[str]:
    """Return the columns that the table must have."""
    sources = [*_names_in_table(mapping).values(), *mapping.coders.values()]
    needed = [*NEEDED, *columns_of_form(mapping.id)]
    if mapping.id:
        needed.remove("clip_id")
    if mapping.films:
        needed.remove("movie_id")
        if "movie_id" in (*mapping.columns, *columns_of_form(mapping.id)):
            raise FixUsage(
                'films = "none" says that the table states no films, and movie_id is asked for',
                hint="leave out one of the two",
            )
    sources += [
        name for name in needed if name not in mapping.columns and name != COUNT
    ]
    return list(dict.fromkeys(sources))


def _check_films(cells: Sequence[Mapping[str, str]], path: Path) -> None:
    """Raise an error if the column of the films is empty in all rows."""
    if cells and not any(values.get("movie_id", "").strip() for values in cells):
        raise FixInput(
            "no row of the table has a film", where=str(path), hint=WAYS_OF_FILMS
        )


def _check_targets(mapping: TableMapping, columns: Collection[str]) -> None:
    """Raise an error for a target that no manifest has.

    A column that is called as one of a manifest, and is none, may get a name of its own.
    """
    mapped = mapping.columns
    unknown = [
        target
        for target, source in mapped.items()
        if target not in (*TARGETS, source)
        and not target.startswith(FOLD_PREFIX)
        and not (source in (*TARGETS, *CONCEPTS) and source in columns)
    ]
    for target in unknown:
        raise FixUsage(
            f"a manifest has no column {target!r}{near(target, TARGETS)}",
            hint=f"leave it out, and the column {mapped[target]!r} keeps its name; or"
            f" --map TARGET=COLUMN with one of {', '.join(TARGETS)}, fold:NAME",
        )


def _sources(table: CsvTable, mapping: TableMapping) -> dict[str, str]:
    """Return the column of the table, or the constant, for each column of the manifest."""
    # A column of ids stays under its own name, also where another column is made of it. The
    # unnamed first column that some programs write is a row number, not data.
    used = set(mapping.columns.values()) - set(NEEDED) | {"", *mapping.columns}
    used |= {*mapping.coders.values(), *made_of_coders(mapping.coders)}
    unmapped = {name: name for name in table.columns if name not in used}
    return {**mapping.columns, **unmapped}


def _cells_by_target(row: TableRow, sources: Mapping[str, str]) -> dict[str, str]:
    """Return the cells of a row by the columns of the manifest, as they are in the table."""
    cells = {}
    for target, source in sources.items():
        if source.startswith(CONSTANT):
            cells[target] = source.removeprefix(CONSTANT)
        else:
            cells[target] = row[source]
    return cells


def _hint(table: CsvTable, required: Sequence[str], draft: str) -> str:
    """Return what to do about a table that cannot be imported; `draft` is about its mapping."""
    if not table.columns:
        return "save the table as CSV (UTF-8) or as .xlsx"
    missing = [name for name in required if name not in table.columns]
    if not missing:
        return f"correct the table, as the lines above say; or {draft}"
    ways = [draft]
    if "movie_id" in missing:
        ways.append(WAYS_OF_FILMS)
    if "clip_id" in missing:
        ways.append(WAYS_OF_IDS)
    columns = f"the columns of the table: {few([*filter(None, table.columns)])}"
    return "; ".join(filter(None, [*ways, table.doubt, columns]))


def _with_seconds(
    given: Mapping[str, str], mapping: TableMapping, *, has_decimal_comma: bool
) -> dict[str, str]:
    """Return the cells of one row with times in seconds."""
    cells = dict(given)
    for column in SPAN_COLUMNS:
        cells.setdefault(column, "")
    for column in ALL_TIMES:
        if column in cells:
            cells[column] = in_seconds(
                cells[column],
                has_decimal_comma=has_decimal_comma,
                short=mapping.times,
            )
    return cells


def _read_words(row: TableRow, cells: dict[str, str], mapping: TableMapping) -> None:
    """Put canonical words in place of those of one row."""
    word = cells.get("level", "")
    cells["level"] = mapping.level(word) or ""
    if word and not cells["level"]:
        row.add("level", unknown_level(word))
    cells["concepts"] = _concepts_of(row, cells.get("concepts", ""), mapping)


def _check_times(rows: Sequence[TableRow], cells: Sequence[dict[str, str]]) -> None:
    """Add a violation for each column with times that may be minutes or hours, and empty these."""
    for pair in (SPAN_COLUMNS, FILM_TIMES):
        for column in pair:
            add_unclear(rows, column, [values.get(column, "") for values in cells])
        for values in cells:
            if any(is_short(values.get(column, "")) for column in pair):
                values.update(dict.fromkeys(pair, ""))


def _add_times_of_frames(
    rows: Sequence[TableRow], cells: Sequence[dict[str, str]]
) -> None:
    """Add the times of clips that have only their first and last picture in the film.

    Where a file is named, they may be pictures of another one; a clip alone in its file is the
    whole file.
    """
    named = [values.get("video") or values.get(NAME_COLUMN, "") for values in cells]
    # Annotators may have several rows of a clip.
    files = {(video, c["clip_id"]) for video, c in zip(named, cells, strict=True)}
    n_clips_of_file = Counter(video for video, _ in files)
    for row, values, video in zip(rows, cells, named, strict=True):
        frames = {}
        for column in FRAMES:
            if column in values:
                # pandas writes 91.0 where a column has empty cells.
                frames[column] = plain_value(values[column], column)
        has_frames = len(frames) == len(FRAMES) and any(frames.values())
        if values["start_s"] or values["end_s"] or not has_frames:
            continue
        rate = known_frame_rate(values.get(RATE_COLUMN, ""))
        if video and n_clips_of_file[video] > 1:
            problem = f"does not say where in {video} the clip is; start_s and end_s do"
            row.add(FRAMES[0], problem)
        elif not video and rate is None:
            row.add(
                FRAMES[0],
                f"needs the {RATE_COLUMN} of the film (--map {RATE_COLUMN}==25, or a column"
                " of rates), or start_s and end_s",
            )
        elif not video and rate is not None:
            values.update(frames)
            numbers = replace(row, cells=frames).frames()
            if numbers is not None:
                start_s, end_s = seconds_of_frames(*numbers, rate)
                values["start_s"] = repr(start_s)
                values["end_s"] = repr(end_s)


def _concepts_of(row: TableRow, cell: str, mapping: TableMapping) -> str:
    names: list[str] = []
    # An empty cell has no concepts; an empty part between separators is an unknown word.
    words = cell.split(mapping.separator) if cell else []
    for word in words:
        name = mapping.concept(word.strip())
        if name is None:
            row.add("concepts", _unknown_concept(word.strip()))
            continue
        names += name.split("|")
    return "|".join(dict.fromkeys(names))


def _unknown_concept(word: str) -> str:
    """Return the sentence on an unknown concept; one with a `,` may be several concepts."""
    sentence = f"unknown concept {word!r}"
    for sign in SEPARATORS:
        if sign in word:
            return f"{sentence}; several concepts need separator = {toml_string(sign)} in a mapping"
    return sentence


def _scene_in(clip_id: str, movie_id: str) -> str:
    """Return the scene number of an id such as `tt0108160-011`, or an empty string."""
    film, _, text = clip_id.rpartition("-")
    number = whole_number(text)
    return "" if not film or film != movie_id or number is None else str(number)


def _words_read_as_others(used: TableMapping, chosen: TableMapping) -> list[str]:
    """Return a sentence on concepts that have another name in the vocabulary, if there are any."""
    others = []
    own = {word.casefold() for word in (*chosen.concepts, *chosen.modalities)}
    for word, name in used.concepts.items():
        if word.casefold() not in (*own, name.casefold()):
            others.append(f"{word!r} is {name!r} in the vocabulary")
    return [f"concepts: {few(others, 3)}"] if others else []


def _add_titles(
    cells: Iterable[dict[str, str]], given_ids: Iterable[Mapping[str, str]]
) -> dict[str, None]:
    """Add the name of each film in the table as its title, if any is not the id of its film.

    Returns the column that was added, if there is such a film.
    """
    of_rows = list(zip(cells, given_ids, strict=True))
    if all(values["movie_id"] == given["movie_id"] for values, given in of_rows):
        return {}
    for values, given in of_rows:
        values[TITLE] = given["movie_id"]
    return {TITLE: None}


def _check_totals(
    rows: Sequence[TableRow],
    cells: Sequence[Mapping[str, str]],
    mapping: TableMapping,
) -> None:
    """Add a violation for rows of ids alone, where others have times, and for a last total."""
    of_ids = {"", *columns_of_form(mapping.id)}
    of_ids |= {mapping.columns.get(name, name) for name in NEEDED}
    if any(values["start_s"] for values in cells):
        for row in rows:
            filled_columns = {name for name, cell in row.cells.items() if cell}
            if filled_columns <= of_ids:
                row.add(None, "only ids; delete the row if it is a row of totals")
    # An id that is made of the film is never called so.
    columns = NEEDED if mapping.id else NEEDED[:1]
    films = [values["movie_id"] for values in cells]
    is_alone = len(films) > 1 and films.count(films[-1]) == 1
    if is_alone and any(cells[-1][column].casefold() in TOTALS for column in columns):
        rows[-1].add(
            "clip_id",
            f"{cells[-1]['clip_id']!r} names a row of totals; delete the row, or rename the clip",
        )
