"""What only a person can decide about a table, each question with its likely answer.

A question is about what a table has and nobody stated: which columns are films, ids, times or
people, what 1:05 is, what stands between concepts, what words mean. `decide` answers all of them by
what is likely, one after another, so that each is asked of what the answers before make of the
table. The answers together are a mapping, which is one command to type.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise

from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.shell import shell_line
from obygaze_features.core.tables import TableRow, whole_number
from obygaze_features.manifest.adapters import unknown_level
from obygaze_features.manifest.adapters.table_coders import (
    ANNOTATOR,
    made_of_coders,
    source_columns,
    twice,
)
from obygaze_features.manifest.adapters.table_ids import (
    COUNT,
    columns_of_form,
    form_of_films,
    of_two_films,
)
from obygaze_features.manifest.adapters.table_mapping import (
    TableMapping,
)
from obygaze_features.manifest.adapters.table_reading import ReadTables
from obygaze_features.manifest.adapters.table_times import (
    MINUTES,
    SPAN_COLUMNS,
    has_times,
    is_short,
    unclear_time,
)
from obygaze_features.manifest.annotators import UNKNOWN
from obygaze_features.manifest.expression import NUMBER
from obygaze_features.manifest.io import as_id
from obygaze_features.manifest.model import (
    FOLD_PREFIX,
    LEVELS,
    NO_FILMS,
    TARGETS,
)
from obygaze_features.manifest.spans import FILM_TIMES, FRAMES
from obygaze_features.manifest.vocabulary import canonical_level, concepts

# What people call the columns of films, clips, times and annotators, without accents.
NAMES = {
    "movie_id": "film filme films movie movies title titel titre titulo pelicula",
    "clip_id": "clip id shot scene szene no nr n num number nummer numero plan sequence",
    "start_s": "start begin begins beginn from von anfang debut in inicio",
    "end_s": "end ends ende to bis schluss fin stop out hasta",
    ANNOTATOR: "annotator annotateur coder codeur rater kodierer kodiererin who",
}
# Words of three languages that mostly mean a level.
LIKELY_LEVELS = {
    "EN": "no nein non none never 0 false",
    "HN": "rather almost eher fast plutot slight weak",
    "NS": "maybe perhaps unsure unclear vielleicht unklar unsicher peut_etre incertain",
    "S": "yes ja oui si clear 1 true x",
}
# What a table may have between the concepts of a cell, beside `|`.
SEPARATORS = (";", ",", "/")
# Columns of people have no more words, and as many cells of each ten are words of levels.
MOST_WORDS = 12
MOST_OF_TEN = 8
# How a column `level` is called whose words are no levels.
OWN_LEVEL = "own_level"
OWN_LABEL = "label"


@dataclass(frozen=True)
class TableQuestion:
    """A question about a table.

    Attributes:
        sentence: What was found, and how it may be answered.
        answer: The likely answer.
        column: The column of the manifest that it is about.
        rows: The rows that it is about, if it is not the whole column.
    """

    sentence: str
    answer: TableMapping
    column: str | None = None
    rows: Sequence[TableRow] = ()

    def add_to(self, read: ReadTables) -> None:
        """Add the question to what is refused, at its rows or at the table."""
        answer = shell_line(self.answer.typed())
        sentence = f"{self.sentence}; likely {answer}"
        for row in self.rows:
            row.add(self.column, sentence)
        if not self.rows:
            read.violations[0].add(None, None, sentence)


Questions = Iterator[TableQuestion]


def decide(
    read: ReadTables, stated: TableMapping
) -> tuple[TableMapping, list[TableQuestion]]:
    """Return a mapping that says all that a table needs, and the questions that it answers."""
    mapping = stated.joined(TableMapping(sheet=read.sheet))
    questions = []
    steps: tuple[Callable[[ReadTables, TableMapping], Questions], ...] = (
        _of_films,
        _of_times,
        _of_coders,
        _of_ids,
        _of_annotators,
        _of_level_column,
        _of_clocks,
        _of_level_words,
        _of_separator,
        _of_concepts,
    )
    for step in steps:
        for question in step(read, mapping):
            questions.append(question)
            mapping = mapping.joined(question.answer)
    return mapping, questions


# --- The columns ---


def _is_stated(target: str, read: ReadTables, mapping: TableMapping) -> bool:
    """Return whether a column of the manifest is one of the table, or is mapped."""
    return target in (*mapping.columns, *read.columns, *made_of_coders(mapping.coders))


def _free_columns(read: ReadTables, mapping: TableMapping) -> list[str]:
    """Return the columns with cells of which nobody has stated what they are."""
    used = {"", *TARGETS, *mapping.columns.values(), *mapping.coders.values()}
    free = []
    for name in dict.fromkeys(read.columns):
        if name not in used and not name.startswith(FOLD_PREFIX) and read.cells(name):
            free.append(name)
    return free


def _named(target: str, columns: Sequence[str]) -> list[str]:
    """Return the columns whose names have a word that people use for one of the manifest."""
    words = NAMES[target].split()
    named = []
    for column in columns:
        parts = re.findall("[a-z]+", ascii_id(column).casefold())
        if not {*parts}.isdisjoint(words):
            named.append(column)
    return named


def _of_films(read: ReadTables, mapping: TableMapping) -> Questions:
    """Ask which column has the films, if the one of the manifest is missing or empty."""
    column = mapping.columns.get("movie_id", "movie_id")
    is_empty = column in read.columns and not read.cells(column)
    if mapping.films or (_is_stated("movie_id", read, mapping) and not is_empty):
        return
    sentence = (
        "no row of the table has a film; --map movie_id=COLUMN names the column of the films, and"
        " --films none says that the table states none"
    )
    free = _free_columns(read, mapping)
    repeated = [name for name in free if _stands_together(read.cells(name))]
    likely = [*_named("movie_id", free), *repeated]
    answer = TableMapping(films=NO_FILMS)
    if likely:
        answer = TableMapping(columns={"movie_id": likely[0]})
    elif _stands_together(read.cells("video")):
        answer = TableMapping(columns={"movie_id": "video", "video": "video"})
    elif "movie_id" in columns_of_form(mapping.id):
        # The form needs a film.
        return
    yield TableQuestion(sentence, answer, "movie_id")


def _stands_together(cells: Sequence[str]) -> bool:
    """Return whether words are those of films: each in several rows, one below another."""
    n_changes = sum(one != other for one, other in pairwise(cells))
    n_words = len(set(cells))
    are_words = not any(map(NUMBER.fullmatch, cells)) and not has_times(cells)
    return are_words and 1 < n_words <= len(cells) / 2 and n_changes == n_words - 1


def _of_times(read: ReadTables, mapping: TableMapping) -> Questions:
    """Ask whether two columns are start and end, if the table has no other times."""
    known = (*SPAN_COLUMNS, *FRAMES)
    if any(_is_stated(target, read, mapping) for target in known):
        return
    of_times = []
    for name in _free_columns(read, mapping):
        if has_times(read.cells(name)):
            of_times.append(name)
    pair = [next(iter(_named(name, of_times)), "") for name in SPAN_COLUMNS]
    clocks = [
        name for name in of_times if any(":" in cell for cell in read.cells(name))
    ]
    if not all(pair) and len(clocks) == 2:
        pair = clocks
    if all(pair):
        start, end = pair
        yield TableQuestion(
            f"{start!r} and {end!r} look like the times of the clips;"
            " --map COLUMN=COLUMN keeps a column as it is",
            TableMapping(columns=dict(zip(SPAN_COLUMNS, pair, strict=True))),
            "start_s",
        )


def _of_coders(read: ReadTables, mapping: TableMapping) -> Questions:
    """Ask whether columns with the same words are those of people."""
    stated = ("level", ANNOTATOR)
    if mapping.coders or any(_is_stated(name, read, mapping) for name in stated):
        return
    free = _free_columns(read, mapping)
    of_levels = [name for name in free if _has_levels(read.cells(name))]
    columns = of_levels if len(of_levels) > 1 else _columns_alike(read, free)
    if len(columns) < 2:
        return
    people, shared = _names_of_people(columns)
    target = "" if of_levels == columns else f":{shared or OWN_LABEL}"
    coders = {}
    for person, column in zip(people, columns, strict=True):
        coders[f"{person}{target}"] = column
    yield TableQuestion(
        f"{' and '.join(map(repr, columns))} look like the words of {len(columns)} people;"
        " --map COLUMN=COLUMN keeps a column as it is",
        TableMapping(coders=coders),
        ANNOTATOR,
    )


def _columns_alike(read: ReadTables, columns: Sequence[str]) -> list[str]:
    """Return columns with the same few words, which may be those of people; [] without any.

    Of columns whose names have nothing in common, three words must be the same.
    """
    words_of = {name: set(read.cells(name)) for name in columns}
    for first in columns:
        alike = [first]
        for other in columns[columns.index(first) + 1 :]:
            both = words_of[first] & words_of[other]
            n_all = len(words_of[first] | words_of[other])
            n_least = 2 if _names_of_people([first, other])[1] else 3
            is_alike = n_least <= len(both) and n_all <= min(MOST_WORDS, 2 * len(both))
            if is_alike and not any(map(NUMBER.fullmatch, both)):
                alike.append(other)
        if len(alike) > 1:
            return alike
    return []


def _has_levels(cells: Sequence[str]) -> bool:
    """Return whether most cells of a column are words of levels, of which there are several."""
    levels = [level for level in map(canonical_level, cells) if level]
    return len(set(levels)) > 1 and 10 * len(levels) >= MOST_OF_TEN * len(cells)


def _names_of_people(columns: Sequence[str]) -> tuple[list[str], str]:
    """Return the names of people in those of their columns, and the words that all have."""
    words = [re.split(r"[\s_:=-]+", column) for column in columns]
    shared = [word for word in words[0] if all(word in name for name in words)]
    own = [" ".join(word for word in name if word not in shared) for name in words]
    if not all(own) or len(set(own)) < len(own):
        own = [" ".join(name) for name in words]
    label = " ".join(shared)
    return own, "" if label in TARGETS else label


def _of_ids(read: ReadTables, mapping: TableMapping) -> Questions:
    """Ask what the ids of the clips are, if no column has them."""
    if mapping.id or _is_stated("clip_id", read, mapping):
        return
    start = f"{{{COUNT}:03d}}" if mapping.films else f"{{movie_id}}-{{{COUNT}:03d}}"
    answer = TableMapping(id=start)
    for column in _named("clip_id", _free_columns(read, mapping)):
        cells = [row[column] for row in read.rows]
        if not all(cells) or re.search("[{}:]", column):
            continue
        are_numbers = all(whole_number(cell) is not None for cell in cells)
        if len(set(map(as_id, cells))) == len(cells) and not are_numbers:
            answer = TableMapping(columns={"clip_id": column})
            break
        people = _person_columns(read, mapping)
        if _are_unique(read, [*_film_columns(mapping), column, *people]):
            form = f"{{{column}}}" if mapping.films else f"{{movie_id}}-{{{column}}}"
            answer = TableMapping(id=form)
            break
    yield TableQuestion(
        "no column has the ids of the clips; --map clip_id=COLUMN names one, and --id"
        f" '{start}' counts the clips of each film",
        answer,
        "clip_id",
    )


def _film_columns(mapping: TableMapping) -> list[str]:
    return [] if mapping.films else [mapping.columns.get("movie_id", "movie_id")]


def _person_columns(read: ReadTables, mapping: TableMapping) -> list[str]:
    """Return the column of the people who have rows, if there is one."""
    if _is_stated(ANNOTATOR, read, mapping):
        return [] if mapping.coders else [mapping.columns.get(ANNOTATOR, ANNOTATOR)]
    return _named(ANNOTATOR, _free_columns(read, mapping))[:1]


def _are_unique(read: ReadTables, columns: Sequence[str]) -> bool:
    """Return whether no two rows have the same cells."""
    rows = {tuple(row.cells.get(name, name) for name in columns) for row in read.rows}
    return len(rows) == len(read.rows)


def _of_annotators(read: ReadTables, mapping: TableMapping) -> Questions:
    """Ask who has several rows of a clip, and how ids are made that several films have."""
    clip = mapping.columns.get("clip_id", "clip_id")
    if clip in read.columns and not mapping.id and not mapping.films:
        yield from _of_repeated_ids(read, mapping, clip)
    if mapping.coders or _is_stated(ANNOTATOR, read, mapping):
        return
    people = _person_columns(read, mapping)
    key = columns_of_form(mapping.id) or [clip]
    key = [mapping.columns.get(name, name) for name in key]
    if COUNT in key:
        key = [mapping.columns.get(name, name) for name in SPAN_COLUMNS]
    key += _film_columns(mapping)
    if not people or _are_unique(read, key) or not _are_unique(read, [*key, *people]):
        return
    line_of: dict[tuple[str, ...], int] = {}
    repeated = []
    sentence = ""
    for row in read.rows:
        cells = tuple(row.cells.get(name, name) for name in key)
        first = line_of.setdefault(cells, row.line)
        if first != row.line:
            sentence = sentence or twice(cells[0], first)
            repeated.append(row)
    answer = TableMapping(columns={ANNOTATOR: people[0]})
    yield TableQuestion(sentence, answer, "clip_id", repeated)


def _of_repeated_ids(read: ReadTables, mapping: TableMapping, clip: str) -> Questions:
    """Ask how ids are made if several films of a table have one."""
    film = mapping.columns.get("movie_id", "movie_id")
    film_of_clip: dict[tuple[str, str], str] = {}
    repeated = []
    sentence = ""
    for row in read.rows:
        name = row.cells.get(film, film)
        key = (row.violations.path, row[clip])
        first = film_of_clip.setdefault(key, name) if row[clip] and name else name
        if first != name:
            sentence = sentence or of_two_films(row[clip], first, name, mapping)
            repeated.append(row)
    if repeated and not re.search("[{}:]", f"{clip}{film}"):
        answer = TableMapping(id=form_of_films(mapping))
        yield TableQuestion(sentence, answer, "clip_id", repeated)


def _of_level_column(read: ReadTables, mapping: TableMapping) -> Questions:
    """Ask whether a column of words of levels is that of the level."""
    if _is_stated("level", read, mapping) or mapping.coders:
        return
    for column in _free_columns(read, mapping):
        if _has_levels(read.cells(column)):
            yield TableQuestion(
                f"{column!r} has words of levels; --map COLUMN=COLUMN keeps it as it is",
                TableMapping(columns={"level": column}),
                "level",
            )
            return


# --- The cells ---


def _of_clocks(read: ReadTables, mapping: TableMapping) -> Questions:
    """Ask whether times of two numbers are minutes or hours."""
    if mapping.times:
        return
    for target in (*SPAN_COLUMNS, *FILM_TIMES):
        column = mapping.columns.get(target, target)
        rows = [row for row in read.rows if is_short(row.cells.get(column, ""))]
        if rows:
            sentence = unclear_time(rows[0][column])
            yield TableQuestion(sentence, TableMapping(times=MINUTES), target, rows)


def _of_level_words(read: ReadTables, mapping: TableMapping) -> Questions:
    """Ask what the words of levels mean that nobody knows."""
    columns = source_columns("level", mapping)
    rows_of_word = _rows_of_words(read, columns, lambda cell: [cell])
    unknown = [word for word in rows_of_word if mapping.level(word) is None]
    likely = {word: _likely_level(word) for word in unknown}
    # A column of this name that has no level at all is a label of a person's own.
    is_own = "level" not in mapping.columns and not mapping.coders
    is_own = is_own and len(unknown) == len(rows_of_word)
    is_own = is_own and {*likely.values()} == {UNKNOWN}
    first_of: dict[str, str] = {}
    for word in unknown:
        # Words that differ by capitals alone have one answer.
        first = first_of.setdefault(word.casefold(), word)
        answer = TableMapping(levels={first: likely[first]})
        if is_own:
            answer = TableMapping(columns={OWN_LEVEL: "level"})
        yield TableQuestion(unknown_level(word), answer, "level", rows_of_word[word])


def _rows_of_words(
    read: ReadTables, columns: Sequence[str], parts: Callable[[str], Collection[str]]
) -> Mapping[str, list[TableRow]]:
    """Return the words in the cells of columns, each with its rows."""
    rows_of_word: dict[str, list[TableRow]] = {}
    for row in read.rows:
        for column in columns:
            for word in parts(row.cells.get(column, "")):
                rows = rows_of_word.setdefault(word, [])
                if word and row not in rows[-1:]:
                    rows.append(row)
    rows_of_word.pop("", None)
    return rows_of_word


def _likely_level(word: str) -> str:
    """Return the level that a word mostly means, or that it is not known."""
    plain = ascii_id(word).casefold()
    for level, words in LIKELY_LEVELS.items():
        if plain in words.split():
            return level
    known = {level.casefold(): level for level in LEVELS}
    return known.get(plain, UNKNOWN)


def _of_separator(read: ReadTables, mapping: TableMapping) -> Questions:
    """Ask what stands between the concepts of a cell."""
    columns = source_columns("concepts", mapping)
    unknown: dict[str, list[TableRow]] = {}
    for cell, rows in _rows_of_words(read, columns, lambda cell: [cell]).items():
        if mapping.concept(cell) is None:
            unknown[cell] = rows
    if mapping.separator:
        return
    n_cells = Counter(sign for cell in unknown for sign in SEPARATORS if sign in cell)
    if not n_cells or any("|" in cell for cell in unknown):
        return
    ((sign, _),) = n_cells.most_common(1)
    shown = next(cell for cell in unknown if sign in cell)
    sentence = f"unknown concept {shown!r}; several concepts need a separator"
    rows = [row for cell, of_cell in unknown.items() if sign in cell for row in of_cell]
    yield TableQuestion(sentence, TableMapping(separator=sign), "concepts", rows)


def _of_concepts(read: ReadTables, mapping: TableMapping) -> Questions:
    """Ask what the words of concepts mean that nobody knows."""
    columns = source_columns("concepts", mapping)
    known = {name.casefold(): name for name in (*concepts(), *mapping.modalities)}
    first_of: dict[str, str] = {}
    for word, rows in _rows_of_words(read, columns, mapping.parts).items():
        if mapping.concept(word) is None:
            first = first_of.setdefault(word.casefold(), word)
            alike = get_close_matches(word.casefold(), known, 1, 0.8)
            answer = TableMapping(modalities={first: "visual"})
            if not any(map(str.isalnum, word)):
                answer = TableMapping(concepts={first: UNKNOWN})
            elif alike:
                answer = TableMapping(concepts={first: known[alike[0]]})
            yield TableQuestion(f"unknown concept {word!r}", answer, "concepts", rows)
