"""Make clips from the cells of a table whose mapping is complete.

An invalid cell is a violation of its row. The clips of rows with violations must not be used.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from obygaze_features.core.console import few
from obygaze_features.core.tables import (
    TableRow,
    maybe_thousands,
    number_of_cell,
    whole_number,
)
from obygaze_features.core.unknown_words import UNKNOWN
from obygaze_features.manifest.adapters.table_coders import (
    has_annotator_rows,
    split_annotations,
)
from obygaze_features.manifest.adapters.table_mapping import (
    ANNOTATOR,
    BAR,
    COUNT,
    NEEDED,
    PART_OF_ID,
    TableMapping,
)
from obygaze_features.manifest.adapters.table_reading import TOTALS, TableCells
from obygaze_features.manifest.adapters.table_times import (
    ALL_TIMES,
    CLOCK_COLUMNS,
    SPAN_COLUMNS,
    check_clock,
    in_seconds,
)
from obygaze_features.manifest.annotators import FREE_TEXT, annotator_columns
from obygaze_features.manifest.expression import plain_value
from obygaze_features.manifest.frame_rate import frame_times_s, parse_frame_rate
from obygaze_features.manifest.io import as_id, clips_of_table
from obygaze_features.manifest.listing import TITLE
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    DIFFERS,
    FILM_FILE,
    NAME_COLUMN,
    Annotation,
    Clip,
    with_equal_numbers,
)
from obygaze_features.manifest.spans import FRAMES, RATE_COLUMN
from obygaze_features.manifest.spelling import Spelling

# Rows of several annotators are about the same clip if these columns are equal.
PLACES = (*ALL_TIMES, *FRAMES, "video")

UNKNOWN_CONCEPTS = (
    "expected concepts, got ?: a level without concepts means that there are none; empty this cell,"
    " and if the level is not known either, its cell"
)

FROM_0 = "subtract 1 from the first and the last frames: obygaze counts from 0"
# Rounded times of frames are at most this part of a frame away.
WITHIN_FRAME = 0.25

# Columns in which a word such as NA is a part of a text, or is read in another way.
NO_ANSWER_COLUMNS = (
    *(*ALL_TIMES, *FRAMES, *CLOCK_COLUMNS, RATE_COLUMN, "video", NAME_COLUMN),
    *(FILM_FILE, TITLE, DIFFERS, "level", "concepts"),
)

# The cells of all rows by column.
Cells = dict[str, Sequence[str]]


@dataclass(frozen=True)
class TableClips:
    """The clips of a table, and their annotations.

    Attributes:
        clips: The clips.
        annotations: The annotations if clips have several annotators, else empty.
        columns: The extra columns of the clips.
        warnings: Sentences with the first ids that differ from the names in the table, and about
            frames that seem to count from 1.
        spelling: The spelling of the words that were read.
    """

    clips: tuple[Clip, ...]
    annotations: tuple[Annotation, ...]
    columns: tuple[str, ...]
    warnings: list[str]
    spelling: Spelling


def make_clips(table: TableCells, mapping: TableMapping) -> TableClips:
    """Return the clips of a table that a mapping describes."""
    blank = [""] * len(table.rows)
    cells: Cells = dict.fromkeys(NEEDED, blank)
    for target, source in source_columns(table, mapping).items():
        cells[target] = table.column(source)
    for column in SPAN_COLUMNS:
        cells.setdefault(column, blank)
    files = mapping.columns.get("video", "")
    if files and files == mapping.columns.get("movie_id"):
        # Films may have new names, their files have not.
        cells["video"] = [row.cells.get(files, "") for row in table.rows]
    for column in answer_columns(cells):
        words = table.words
        if not annotator_columns([column]):
            # A film may have the name of a word that is not known.
            words = words.without(words.unknown)
        cells[column] = [*map(words.known, cells[column])]
    _use_seconds(cells, table, mapping)
    _check_totals(cells, table, mapping)
    if mapping.id:
        cells["clip_id"] = _names_of_form(cells, table, mapping)
    warnings = _use_ids(cells, table.rows)
    warnings += _check_first_frames(cells, table)
    _use_times_of_frames(cells, table.rows)
    rows = table.rows
    if mapping.coders:
        # Make a row for each annotator, so that tables of both forms are read in one way.
        people = mapping.people
        rows = [row for row in rows for _ in people]
        for name, of_rows in cells.items():
            cells[name] = [cell for cell in of_rows for _ in people]
        for target in mapping.annotator_targets:
            of_people = [table.column(one.get(target, "=")) for one in people.values()]
            cells[target] = [
                cell for of_row in zip(*of_people, strict=True) for cell in of_row
            ]
            if answer_columns([target]):
                cells[target] = [*map(table.words.known, cells[target])]
        cells[ANNOTATOR] = [*people] * len(table.rows)
    spelling = Spelling()
    is_of_people = has_annotator_rows(cells, rows, mapping, spelling)
    _use_words(cells, rows, mapping)
    columns = [name for name in cells if name not in CLIP_COLUMNS]
    pairs = []
    for row, of_row in zip(rows, zip(*cells.values(), strict=True), strict=True):
        pairs.append((row, dict(zip(cells, of_row, strict=True))))
    clips = clips_of_table(
        pairs,
        mapping.known_concepts,
        tuple(columns),
        is_of_people=is_of_people,
        spelling=spelling,
        has_films=not mapping.films,
    )
    clips, _ = with_equal_numbers(clips, (), spelling.equal_numbers())
    annotations: tuple[Annotation, ...] = ()
    if is_of_people:
        columns.remove(ANNOTATOR)
        clips, annotations = split_annotations(rows, clips, mapping, table.violations)
    return TableClips(clips, annotations, tuple(columns), warnings, spelling)


def answer_columns(columns: Iterable[str]) -> list[str]:
    """Return the columns whose words may mean that there is no answer, such as NA."""
    kept = (*NO_ANSWER_COLUMNS, *FREE_TEXT)
    return [name for name in columns if name.casefold() not in kept]


def source_columns(table: TableCells, mapping: TableMapping) -> dict[str, str]:
    """Return the column of the table, or the constant, for each column of the manifest."""
    # A column of ids also stays under its own name. The unnamed first column that some programs
    # write is a row number, not data.
    used = {*mapping.columns.values()} - {*NEEDED} | {"", *mapping.columns}
    used |= {*mapping.coders.values(), *mapping.annotator_targets}
    unmapped = {name: name for name in table.cells if name not in used}
    return {**mapping.columns, **unmapped}


def _use_seconds(cells: Cells, table: TableCells, mapping: TableMapping) -> None:
    """Replace clock times by seconds, and check the clock times next to them."""
    for column in ALL_TIMES:
        if column in cells:
            texts_of_file: dict[str, dict[str, str]] = {
                path: {} for path in table.tables
            }
            for row, text in zip(table.rows, cells[column], strict=True):
                texts_of_file[row.violations.path][text] = text
            for path, texts in texts_of_file.items():
                # Between commas, 1,234 may be 1234 or 1.234.
                is_unclear = table.tables[path].delimiter == "," and maybe_thousands(
                    texts
                )
                for text in texts:
                    texts[text] = in_seconds(
                        text,
                        has_decimal_comma=not is_unclear,
                        form=mapping.form_of(column),
                    )
            seconds = []
            for row, text in zip(table.rows, cells[column], strict=True):
                seconds.append(texts_of_file[row.violations.path][text])
            cells[column] = seconds
    for column, clock in zip(SPAN_COLUMNS, CLOCK_COLUMNS, strict=True):
        shown = cells.get(clock, ())
        for row, text, seconds_shown in zip(
            table.rows, shown, cells[column], strict=False
        ):
            check_clock(row, text, seconds_shown, (clock, column))


def _check_totals(cells: Cells, table: TableCells, mapping: TableMapping) -> None:
    """Add violations for rows that may be totals.

    In a table with times, these are the rows whose only cells are ids. In any table, the last row
    may be totals if its name is a word of TOTALS, and if no other row has its film.
    """
    of_ids = {"", *mapping.columns_of_id}
    of_ids |= {mapping.columns.get(name, name) for name in NEEDED}
    others = [column for name, column in table.cells.items() if name not in of_ids]
    for number, row in enumerate(table.rows if any(cells["start_s"]) else ()):
        if not any(column[number] for column in others):
            row.add(
                None,
                "all cells but the ids are empty; delete the row if it is a row of totals",
            )
    films = cells["movie_id"]
    # An id that is made of the film and a number is never such a word.
    name = cells[NEEDED[bool(mapping.id)]][-1]
    if len(films) > 1 and films.count(films[-1]) == 1 and name.casefold() in TOTALS:
        problem = f"{name!r} names a row of totals; delete the row, or rename the clip"
        table.rows[-1].add("clip_id", problem)


def _names_of_form(cells: Cells, table: TableCells, mapping: TableMapping) -> list[str]:
    """Return the id of each clip, made from the cells of its row by the template for ids.

    The clips of each film are counted from 1; rows with equal times are the same clip. Without
    times, rows of several annotators cannot be matched: each is a violation.
    """
    of_form = {**table.cells, **cells}
    if COUNT in mapping.columns_of_id and COUNT not in of_form:
        places_of_film: dict[str, dict[tuple[str, ...], str]] = {}
        counts = []
        stated = [name for name in PLACES if name in cells]
        annotators = cells.get(ANNOTATOR, [""] * len(table.rows))
        for number, row in enumerate(table.rows):
            place = tuple(plain_value(cells[name][number], name) for name in stated)
            if not any(place):
                if annotators[number]:
                    problem = f"{{{COUNT}}} in --id requires times if there are several annotators"
                    row.add(None, problem)
                place = (str(number),)
            places = places_of_film.setdefault(as_id(cells["movie_id"][number]), {})
            counts.append(places.setdefault(place, str(len(places) + 1)))
        of_form[COUNT] = counts
    parts = []
    for match in PART_OF_ID.finditer(mapping.id):
        column = match["column"]
        digits = int(match["digits"] or 0)
        texts = []
        for row, cell in zip(table.rows, of_form[column], strict=True):
            whole = whole_number(cell) if digits else 0
            if not cell and column != "movie_id":
                row.add(column, "is empty, but --id makes the id of it")
            elif whole is None or whole < 0:
                row.add(column, f"{cell!r} is not a whole number")
            texts.append(f"{whole or 0:0{digits}d}" if digits else cell)
        parts.append(texts)
    form = PART_OF_ID.sub("{}", mapping.id)
    return [form.format(*of_row) for of_row in zip(*parts, strict=True)]


def _use_ids(cells: Cells, rows: Sequence[TableRow]) -> list[str]:
    """Replace the names of clips and films by ids, and return sentences about changed names.

    Different names with the same id are violations, and so are ids that differ only in capitals:
    two such ids may be one film in two spellings, and they are the same file on some disks.
    """
    sentences = []
    for column in NEEDED:
        names = cells[column]
        id_of = {name: as_id(name) for name in dict.fromkeys(names)}
        name_of: dict[str, str] = {}
        spelling_of: dict[str, str] = {}
        for row, name in zip(rows, names, strict=True):
            id_ = id_of[name]
            first = name_of.setdefault(id_, name)
            if first != name:
                problem = f"{first!r} and {name!r} both become {id_!r}; rename one"
                row.add(column, problem)
            spelling = spelling_of.setdefault(id_.casefold(), id_)
            if spelling != id_:
                row.add(column, f"{id_!r} differs from {spelling!r} only in case")
        changes = [f"{a!r} is now {b!r}" for a, b in id_of.items() if a != b]
        if changes:
            rule = "ids have letters a-z, digits, . _ + - only and are unique"
            sentences.append(f"{column}: {rule}; {few(changes, 3)}")
        if column == "movie_id" and changes:
            # Names of films that are not ids are kept as titles.
            cells.setdefault(TITLE, names)
        cells[column] = [id_of[name] for name in names]
    scenes = []
    for clip_id, movie_id in zip(cells["clip_id"], cells["movie_id"], strict=True):
        film, _, text = clip_id.rpartition("-")
        number = whole_number(text) if film and film == movie_id else None
        scenes.append("" if number is None else str(number))
    cells.setdefault("scene", scenes)
    return sentences


def _check_first_frames(cells: Cells, table: TableCells) -> list[str]:
    """Return a sentence if the frames of a table seem to count from 1.

    Where all times of the table say that they do, this is a violation.
    """
    if not {*FRAMES} <= cells.keys():
        return []
    rates = cells.get(RATE_COLUMN, [""] * len(table.rows))
    smallest = math.inf
    n_with_times = n_earlier = 0
    for cell, written, start in zip(
        cells[FRAMES[0]], rates, cells["start_s"], strict=True
    ):
        first = number_of_cell(cell)
        start_s = number_of_cell(start)
        rate = parse_frame_rate(written)
        smallest = smallest if first is None else min(smallest, first)
        if first is not None and start_s is not None and rate is not None:
            n_with_times += 1
            n_earlier += abs(start_s * float(rate) - (first - 1)) < WITHIN_FRAME
    if n_with_times > 1 and n_earlier == n_with_times:
        table.violations[0].add(
            None,
            None,
            f"the frames count from 1, because each time is one frame earlier; {FROM_0}",
        )
    elif smallest == 1 and not n_with_times:
        return [f"the smallest {FRAMES[0]} is 1; if the table counts from 1, {FROM_0}"]
    return []


def _use_times_of_frames(cells: Cells, rows: Sequence[TableRow]) -> None:
    """Add the times of rows that state only frames in the film, computed by the frame rate.

    If each of these rows names a file of its own, the clips are these whole files, and get no
    times: the frames may count in a different file. If clips share files, these must be the files
    of the films (`_use_film_files`).
    """
    if not {*FRAMES} <= cells.keys():
        return
    blank = [""] * len(rows)
    # pandas writes 91.0 where a column has empty cells.
    for name in FRAMES:
        cells[name] = [plain_value(cell, name) for cell in cells[name]]
    starts, ends = ([*cells[name]] for name in SPAN_COLUMNS)
    only_frames = []
    for number in range(len(rows)):
        has_frames = any(cells[name][number] for name in FRAMES)
        if has_frames and not (starts[number] or ends[number]):
            only_frames.append(number)
    of_files = _use_film_files(cells, rows, only_frames)
    rates = cells.get(RATE_COLUMN, blank)
    film_files = cells.get(FILM_FILE, blank)
    for number in only_frames:
        if number in of_files:
            continue
        row = rows[number]
        frames = {name: cells[name][number] for name in FRAMES}
        rate = parse_frame_rate(rates[number])
        span = replace(row, cells=frames).frames()
        if rate is None and not film_files[number]:
            row.add(
                FRAMES[0],
                f"the {RATE_COLUMN} of the film is missing; pass --map {RATE_COLUMN}==25, or add a"
                " column of rates or the columns start_s and end_s; or, if a column"
                " names the file of each film, pass --map video=COLUMN: obygaze manifest link then"
                " finds the times in these files",
            )
        elif rate is not None and span is not None:
            starts[number], ends[number] = map(repr, frame_times_s(*span, rate))
    cells["start_s"] = starts
    cells["end_s"] = ends


def _use_film_files(
    cells: Cells, rows: Sequence[TableRow], only_frames: Sequence[int]
) -> set[int]:
    """Move names of files to FILM_FILE if they are the files of films, in which frames count.

    They are if clips share them, and each film has one file. `manifest link` then finds the times
    of the frames there. If clips share other files, these clips are violations.

    Return those of the rows that still name a file.
    """
    blank = [""] * len(rows)
    files_named = (cells.get("video", blank), cells.get(NAME_COLUMN, blank))
    videos = [video or name for video, name in zip(*files_named, strict=True)]
    with_file = {number for number in only_frames if videos[number]}
    # A clip counts once, also if several annotators have rows of it.
    clips = {(videos[number], cells["clip_id"][number]) for number in with_file}
    n_clips_of_file = Counter(video for video, _ in clips)
    shared = {video for video, n_clips in n_clips_of_file.items() if n_clips > 1}
    films = {(videos[number], cells["movie_id"][number]) for number in with_file}
    n_films = len({film for _, film in films})
    if not shared or len(films) > min(n_films, len(n_clips_of_file)):
        for number in with_file:
            if videos[number] in shared:
                problem = (
                    f"frames give no times in the file {videos[number]}, because its film has"
                    " several files, or the file several films; add start_s and end_s"
                )
                rows[number].add(FRAMES[0], problem)
        return with_file
    film_files = [*cells.get(FILM_FILE, blank)]
    for number in with_file:
        film_files[number] = videos[number]
    cells[FILM_FILE] = film_files
    for column in ("video", NAME_COLUMN):
        if column in cells:
            left = enumerate(cells[column])
            cells[column] = ["" if n in with_file else name for n, name in left]
    return set()


def _use_words(cells: Cells, rows: Sequence[TableRow], mapping: TableMapping) -> None:
    """Replace words by levels and concepts, and unknown words by nothing.

    `table_questions` has already asked for the meaning of the unknown words. If somebody could not
    tell the concepts of a row with a label, this is a violation: the row would state that there
    are none.
    """
    if "level" in cells:
        level_of = {word: mapping.level(word) or "" for word in {*cells["level"]}}
        cells["level"] = [level_of[word] for word in cells["level"]]
    if "concepts" in cells:
        levels = cells.get("level", [""] * len(rows))
        for row, level, cell in zip(rows, levels, cells["concepts"], strict=True):
            words = mapping.parts(cell)
            has_label = level or words != [UNKNOWN]
            if UNKNOWN in words and has_label and not mapping.concept(UNKNOWN):
                row.add("concepts", UNKNOWN_CONCEPTS)
        names_of = {}
        for cell in {*cells["concepts"]}:
            names: dict[str, None] = {}
            for word in mapping.parts(cell):
                names.update(dict.fromkeys((mapping.concept(word) or "").split(BAR)))
            names_of[cell] = BAR.join(filter(None, names))
        cells["concepts"] = [names_of[cell] for cell in cells["concepts"]]
