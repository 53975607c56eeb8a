"""Make clips of a table that is fully described: its cells become those of a manifest.

Nothing is asked here, and each function makes new rows. A cell that is wrong is a violation of its
row; the clips of rows with violations must not be used.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from obygaze_features.core.tables import TableRow
from obygaze_features.manifest.adapters.table_coders import (
    ANNOTATOR,
    clips_and_annotations,
    compare_files,
    made_of_coders,
    rows_of_coders,
    with_people,
)
from obygaze_features.manifest.adapters.table_ids import (
    columns_of_form,
    with_ids,
    with_names,
)
from obygaze_features.manifest.adapters.table_mapping import (
    BAR,
    CONSTANT,
    NEEDED,
    TableMapping,
)
from obygaze_features.manifest.adapters.table_reading import TOTALS, ReadTables
from obygaze_features.manifest.adapters.table_times import (
    SPAN_COLUMNS,
    check_clock,
    in_seconds,
)
from obygaze_features.manifest.expression import plain_value
from obygaze_features.manifest.frame_rate import known_frame_rate, seconds_of_frames
from obygaze_features.manifest.io import clips_of_table
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    NAME_COLUMN,
    Annotation,
    Clip,
)
from obygaze_features.manifest.spans import FILM_TIMES, FRAMES, RATE_COLUMN
from obygaze_features.manifest.spelling import Spelling
from obygaze_features.manifest.vocabulary import concepts

ALL_TIMES = (*SPAN_COLUMNS, *FILM_TIMES)


@dataclass(frozen=True)
class MadeClips:
    """The clips of a table, and what people said of them.

    Attributes:
        clips: The clips.
        annotations: What each person said, if there are several.
        columns: The further columns of the clips.
        named: The rows with the names that the table has for clips and films.
        rows: The same rows with their ids.
        spelling: The words that were read.
    """

    clips: tuple[Clip, ...]
    annotations: tuple[Annotation, ...]
    columns: tuple[str, ...]
    named: list[TableRow]
    rows: list[TableRow]
    spelling: Spelling


def make_clips(read: ReadTables, mapping: TableMapping) -> MadeClips:
    """Return the clips of a table that a mapping describes."""
    sources = sources_of(read, mapping)
    timed = _with_seconds(_by_target(read, sources), read, mapping)
    _check_totals(timed, read, mapping)
    named = with_names(timed, read.rows, mapping)
    rows = _with_times_of_frames(with_ids(named, mapping))
    spelling = Spelling()
    of_coders = rows_of_coders(rows, read.rows, mapping.coders)
    have_columns = bool(mapping.coders)
    people = with_people(of_coders, have_columns=have_columns, spelling=spelling)
    worded = [_with_words(row, mapping) for row in people or of_coders]
    columns = [name for name in worded[0].cells if name not in CLIP_COLUMNS]
    clips = clips_of_table(
        ((row, row.cells) for row in worded),
        {**concepts(), **mapping.modalities},
        tuple(columns),
        is_of_people=people is not None,
        spelling=spelling,
        has_films=not mapping.films,
    )
    annotations: tuple[Annotation, ...] = ()
    if people is not None:
        columns.remove(ANNOTATOR)
        if len(read.tables) > 1:
            compare_files(worded, clips, read.violations)
        stated = _stated_columns(read, sources, [*rows[0].cells])
        clips, annotations = clips_and_annotations(worded, clips, mapping, stated)
    return MadeClips(clips, annotations, tuple(columns), named, rows, spelling)


def sources_of(read: ReadTables, mapping: TableMapping) -> dict[str, str]:
    """Return the column of the table, or the constant, for each column of the manifest."""
    # A column of ids stays under its own name, also where another column is made of it. The
    # unnamed first column that some programs write is a row number, not data.
    used = set(mapping.columns.values()) - set(NEEDED) | {"", *mapping.columns}
    used |= {*mapping.coders.values(), *made_of_coders(mapping.coders)}
    unmapped = {name: name for name in read.columns if name not in used}
    return {**mapping.columns, **unmapped}


def _by_target(read: ReadTables, sources: Mapping[str, str]) -> list[TableRow]:
    """Return rows whose cells stand under the columns of the manifest."""
    blank = {name: "" for name in NEEDED if name not in sources}
    rows = []
    for row in read.rows:
        cells = {}
        for target, source in sources.items():
            is_constant = source.startswith(CONSTANT)
            cells[target] = (
                source.removeprefix(CONSTANT) if is_constant else row[source]
            )
        rows.append(replace(row, cells={**blank, **cells}))
    return rows


def _stated_columns(
    read: ReadTables, sources: Mapping[str, str], made: Sequence[str]
) -> dict[str, set[str]]:
    """Return the columns of the manifest that each table states, and those made of them."""
    stated = {}
    for path, table in read.tables.items():
        missing = set(read.columns).difference(table.columns)
        stated[path] = {name for name in made if sources.get(name) not in missing}
    return stated


def _with_seconds(
    rows: Iterable[TableRow], read: ReadTables, mapping: TableMapping
) -> list[TableRow]:
    """Return rows with times in seconds."""
    timed = []
    for row in rows:
        cells = {**row.cells}
        for column in SPAN_COLUMNS:
            cells.setdefault(column, "")
        for column in ALL_TIMES:
            if column in cells:
                cells[column] = in_seconds(
                    cells[column],
                    has_decimal_comma=read.has_decimal_comma,
                    short=mapping.times,
                )
        timed.append(replace(row, cells=cells))
        check_clock(timed[-1])
    return timed


def _check_totals(
    rows: Sequence[TableRow], read: ReadTables, mapping: TableMapping
) -> None:
    """Add a violation for rows of ids alone, where others have times, and for a last total."""
    of_ids = {"", *columns_of_form(mapping.id)}
    of_ids |= {mapping.columns.get(name, name) for name in NEEDED}
    if any(row["start_s"] for row in rows):
        for row in read.rows:
            filled_columns = {name for name, cell in row.cells.items() if cell}
            if filled_columns <= of_ids:
                row.add(None, "only ids; delete the row if it is a row of totals")
    # An id that is made of the film is never called so.
    columns = NEEDED if mapping.id else NEEDED[:1]
    last = rows[-1]
    films = [row["movie_id"] for row in rows]
    is_alone = len(films) > 1 and films.count(last["movie_id"]) == 1
    if is_alone and any(last[column].casefold() in TOTALS for column in columns):
        last.add(
            "clip_id",
            f"{last['clip_id']!r} names a row of totals; delete the row, or rename the clip",
        )


def _with_times_of_frames(rows: Sequence[TableRow]) -> list[TableRow]:
    """Return rows of which those have times, too, that have only pictures in their film.

    Where a file is named, they may be pictures of another one; a clip alone in its file is the
    whole file.
    """
    named = [row.cells.get("video") or row.cells.get(NAME_COLUMN, "") for row in rows]
    # Annotators may have several rows of a clip.
    files = {(video, row["clip_id"]) for video, row in zip(named, rows, strict=True)}
    n_clips_of_file = Counter(video for video, _ in files)
    timed = []
    for row, video in zip(rows, named, strict=True):
        # pandas writes 91.0 where a column has empty cells.
        frames = {n: plain_value(row[n], n) for n in FRAMES if n in row.cells}
        has_frames = len(frames) == len(FRAMES) and any(frames.values())
        if row["start_s"] or row["end_s"] or not has_frames:
            timed.append(row)
        elif video:
            if n_clips_of_file[video] > 1:
                problem = (
                    f"does not say where in {video} the clip is; start_s and end_s do"
                )
                row.add(FRAMES[0], problem)
            timed.append(row)
        else:
            row = replace(row, cells={**row.cells, **frames})
            timed.append(_with_times(row))
    return timed


def _with_times(row: TableRow) -> TableRow:
    """Return a row with the times of its frames, by the rate that it states."""
    rate = known_frame_rate(row.cells.get(RATE_COLUMN, ""))
    if rate is None:
        row.add(
            FRAMES[0],
            f"needs the {RATE_COLUMN} of the film (--map {RATE_COLUMN}==25, or a column of rates),"
            " or start_s and end_s",
        )
        return row
    numbers = row.frames()
    if numbers is None:
        return row
    times = map(repr, seconds_of_frames(*numbers, rate))
    return replace(
        row, cells={**row.cells, **dict(zip(SPAN_COLUMNS, times, strict=True))}
    )


def _with_words(row: TableRow, mapping: TableMapping) -> TableRow:
    """Return a row with the words of manifests; words that nobody knows are asked about before."""
    level = mapping.level(row.cells.get("level", "")) or ""
    names: list[str] = []
    for word in mapping.parts(row.cells.get("concepts", "")):
        # An empty part between separators is an unknown word.
        name = mapping.concept(word)
        if name is None:
            row.add("concepts", f"unknown concept {word!r}")
        names += filter(None, (name or "").split(BAR))
    own = {"level": level, "concepts": BAR.join(dict.fromkeys(names))}
    return replace(row, cells={**row.cells, **own})
