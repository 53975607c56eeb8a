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
from obygaze_features.manifest.spans import FILM_TIMES, FRAMES, RATE_COLUMN
from obygaze_features.manifest.vocabulary import canonical_level, concepts

# What people call the columns of films, clips, times and annotators, without accents.
NAMES = {
    "movie_id": "film filme films movie movies title titel titre titulo pelicula",
    "clip_id": "clip id shot scene szene no nr n num number nummer numero plan sequence",
    "start_s": "start begin begins beginn from von anfang debut in inicio",
    "end_s": "end ends ende to bis schluss fin stop out hasta",
    FRAMES[0]: "frame frames bild image",
    RATE_COLUMN: "framerate fps rate bildrate",
    ANNOTATOR: "annotator annotateur coder codeur rater kodierer kodiererin who person",
    "concepts": "concept concepts konzept konzepte",
    "label": "label code coding coder rater rating verdict judgement judgment urteil bewertung"
    " einstufung kodierung kodierer stufe niveau jugement codage codeur",
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
        _of_labels,
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
    named = _named("movie_id", free)
    # A title that each row has alone may be that of the clip.
    named.sort(key=lambda name: _are_unique(read, [name]))
    likely = [*named, *repeated]
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
        targets = dict(zip(SPAN_COLUMNS, pair, strict=True))
        noun = "times"
        if _named(FRAMES[0], pair) == pair:
            noun = "frames"
            rates = _named(RATE_COLUMN, _free_columns(read, mapping))
            targets = dict(zip((*FRAMES, RATE_COLUMN), [*pair, *rates], strict=False))
        yield TableQuestion(
            f"{start!r} and {end!r} look like the {noun} of the clips;"
            " --map COLUMN=COLUMN keeps a column as it is",
            TableMapping(columns=targets),
        )


def _of_coders(read: ReadTables, mapping: TableMapping) -> Questions:
    """Ask whether columns with the same words are those of people."""
    stated = ("level", ANNOTATOR)
    if mapping.coders or any(_is_stated(name, read, mapping) for name in stated):
        return
    free = _free_columns(read, mapping)
    columns = [name for name in free if _has_levels(read.cells(name))]
    target = ""
    if len(columns) < 2:
        columns = _columns_alike(read, free, are_named_alike=True)
        target = _names_of_people(columns)[1] if columns else ""
    if len(columns) > 1:
        yield TableQuestion(
            f"{' and '.join(map(repr, columns))} look like the words of {len(columns)} people;"
            " --map COLUMN=COLUMN keeps a column as it is",
            _coders(columns, target),
            ANNOTATOR,
        )


def _coders(columns: Sequence[str], target: str) -> TableMapping:
    """Return the columns of people; with a target, these are not the level but a column of it."""
    people = _names_of_people(columns)[0]
    keys = [f"{person}:{target}" if target else person for person in people]
    return TableMapping(coders=dict(zip(keys, columns, strict=True)))


def same_words(read: ReadTables, mapping: TableMapping) -> str:
    """Return the sentence on columns that may be those of people, as they have the same words.

    They may as well be what one person says on one scale, so that it is not likely, and not asked.
    """
    if mapping.coders or _is_stated(ANNOTATOR, read, mapping):
        return ""
    free = _free_columns(read, mapping)
    columns = _columns_alike(read, free, are_named_alike=False)
    if not columns:
        return ""
    answer = shell_line(_coders(columns, OWN_LABEL).typed())
    return (
        f"{', '.join(map(repr, columns))} have the same words; if they are those of people:"
        f" {answer} --rule agreed"
    )


def _columns_alike(
    read: ReadTables, columns: Sequence[str], *, are_named_alike: bool
) -> list[str]:
    """Return columns with the same few words; [] without any.

    Columns that are named alike have a word in their names that people use for a label.
    """
    words_of = {name: set(read.cells(name)) for name in columns}
    for first in columns:
        alike = [first]
        for other in columns[columns.index(first) + 1 :]:
            both = words_of[first] & words_of[other]
            n_all = len(words_of[first] | words_of[other])
            shared = _names_of_people([first, other])[1]
            are_named = bool(_named("label", [shared]))
            is_alike = len(both) > 1 and n_all <= min(MOST_WORDS, 2 * len(both))
            are_words = not any(map(NUMBER.fullmatch, both)) and not has_times([*both])
            if is_alike and are_words and are_named >= are_named_alike:
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
    words_of_names = [re.split(r"[\s_:=-]+", column) for column in columns]
    in_all = set(words_of_names[0]).intersection(*words_of_names)
    shared = [word for word in words_of_names[0] if word in in_all]
    own = []
    for words in words_of_names:
        own.append(" ".join(word for word in words if word not in in_all))
    if not all(own) or len(set(own)) < len(own):
        own = [" ".join(words) for words in words_of_names]
    return own, " ".join(shared)


def _of_ids(read: ReadTables, mapping: TableMapping) -> Questions:
    """Ask what the ids of the clips are, if no column has them."""
    if mapping.id or _is_stated("clip_id", read, mapping):
        return
    start = f"{{{COUNT}:03d}}" if mapping.films else f"{{movie_id}}-{{{COUNT}:03d}}"
    answer = TableMapping(id=start)
    numbers = ["scene"] if read.cells("scene") else []
    for column in (*_named("clip_id", _free_columns(read, mapping)), *numbers):
        cells = [row[column] for row in read.rows]
        if not all(cells) or re.search("[{}:]", column):
            continue
        are_numbers = all(whole_number(cell) is not None for cell in cells)
        if len(set(map(as_id, cells))) == len(cells) and not are_numbers:
            answer = TableMapping(columns={"clip_id": column})
            break
        key = [*_film_columns(mapping), column]
        if _are_unique(read, [*key, *_person_column(read, mapping, key)]):
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


def _person_column(
    read: ReadTables, mapping: TableMapping, key: Sequence[str]
) -> list[str]:
    """Return the column of the people who have rows of the same clips, if there is one.

    Args:
        read: The tables.
        mapping: What is known of them.
        key: The columns that name a clip.
    """
    if _is_stated(ANNOTATOR, read, mapping):
        return [] if mapping.coders else [mapping.columns.get(ANNOTATOR, ANNOTATOR)]
    if _are_unique(read, key):
        return []
    free = [name for name in _free_columns(read, mapping) if name not in key]
    likely = _named(ANNOTATOR, free)
    n_clips = len(set(_keys(read, key)))
    for name in free:
        words = set(read.cells(name))
        are_names = not any(map(NUMBER.fullmatch, words))
        # Where a few clips stand twice, this is rather an error.
        is_systematic = 2 * len(read.rows) >= 3 * n_clips
        if are_names and is_systematic and len(words) <= MOST_WORDS:
            likely.append(name)
    for column in likely:
        if _are_unique(read, [*key, column]):
            return [column]
    return []


def _are_unique(read: ReadTables, columns: Sequence[str]) -> bool:
    """Return whether no two rows have the same cells."""
    return len(set(_keys(read, columns))) == len(read.rows)


def _keys(read: ReadTables, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the cells of each row in some columns; an empty cell has the value above it."""
    above: dict[str, str] = {}
    keys = []
    for row in read.rows:
        for name in columns:
            # What is no column is a constant.
            above[name] = row.cells.get(name, name) or above.get(name, "")
        keys.append(tuple(above.values()))
    return keys


def _of_annotators(read: ReadTables, mapping: TableMapping) -> Questions:
    """Ask who has several rows of a clip, and how ids are made that several films have."""
    clip = mapping.columns.get("clip_id", "clip_id")
    if clip in read.columns and not mapping.id and not mapping.films:
        yield from _of_repeated_ids(read, mapping, clip)
    if mapping.coders or _is_stated(ANNOTATOR, read, mapping):
        return
    key = columns_of_form(mapping.id) or [clip]
    key = [mapping.columns.get(name, name) for name in key]
    if COUNT in key and COUNT not in read.columns:
        # Rows with equal times are one clip; without times each row is one.
        key = [mapping.columns.get(name, name) for name in SPAN_COLUMNS]
        if not {*key} <= {*read.columns}:
            return
    key += _film_columns(mapping)
    people = _person_column(read, mapping, key)
    if not people:
        return
    line_of: dict[tuple[str, ...], int] = {}
    repeated = []
    sentence = ""
    for row, cells in zip(read.rows, _keys(read, key), strict=True):
        first = line_of.setdefault(cells, row.line)
        if first != row.line:
            sentence = sentence or twice("-".join(dict.fromkeys(cells)), first)
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


def _of_labels(read: ReadTables, mapping: TableMapping) -> Questions:
    """Ask whether a column has levels, by its words, or concepts, by its name."""
    free = _free_columns(read, mapping)
    of_levels = [name for name in free if _has_levels(read.cells(name))]
    likely = {"level": of_levels, "concepts": _named("concepts", free)}
    for target, columns in likely.items():
        if columns and not mapping.coders and not _is_stated(target, read, mapping):
            yield TableQuestion(
                f"{columns[0]!r} looks like the column of {target};"
                " --map COLUMN=COLUMN keeps it as it is",
                TableMapping(columns={target: columns[0]}),
                target,
            )


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
    if not {*unknown} - {"0", "1"} <= {w for w in unknown if not NUMBER.fullmatch(w)}:
        # Ratings from 0 to 3 are no levels.
        likely = dict.fromkeys(unknown, UNKNOWN)
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
    n_cells: Counter[str] = Counter()
    for cell in unknown:
        n_cells.update(sign for sign in SEPARATORS if sign in cell)
    if mapping.separator or not n_cells or any("|" in cell for cell in unknown):
        return
    ((sign, _),) = n_cells.most_common(1)
    with_sign = [cell for cell in unknown if sign in cell]
    rows = []
    for cell in with_sign:
        rows += unknown[cell]
    sentence = f"unknown concept {with_sign[0]!r}; several concepts need a separator"
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
