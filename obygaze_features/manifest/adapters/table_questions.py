"""Find the questions about a table that only the user can answer, each with a likely answer.

Questions are about facts that nobody stated: which columns are films, ids, times or annotators,
what 1:05 is, what separates concepts, what words mean. `decide` takes the likely answer to each
question before it asks the next one. All answers together are a mapping, typed as one command.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain, combinations, pairwise, permutations
from pathlib import Path

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import near
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.shell import shell_line, shell_word
from obygaze_features.core.tables import TableRow, is_number, whole_number
from obygaze_features.core.unknown_words import (
    UNKNOWN,
    is_error,
    is_no_answer,
    no_answer_text,
)
from obygaze_features.manifest.adapters import unknown_level
from obygaze_features.manifest.adapters.table_cells import (
    answer_columns,
    source_columns,
)
from obygaze_features.manifest.adapters.table_mapping import (
    ANNOTATOR,
    BAR,
    COUNT,
    NEEDED,
    SHEET,
    TableMapping,
)
from obygaze_features.manifest.adapters.table_reading import TableCells
from obygaze_features.manifest.adapters.table_times import (
    ALL_TIMES,
    MILLISECONDS,
    MINUTES,
    SPAN_COLUMNS,
    comes_before,
    has_clock_times,
    has_times,
    header_words,
    is_short,
    is_time,
    says_milliseconds,
    says_minutes,
    says_seconds,
    time_size,
    unclear_time,
)
from obygaze_features.manifest.annotators import annotator_columns
from obygaze_features.manifest.film_names import (
    films_in_several_spellings,
    find_name,
    without_extension,
)
from obygaze_features.manifest.frame_rate import parse_frame_rate
from obygaze_features.manifest.io import annotators_path, as_id
from obygaze_features.manifest.model import (
    FILM_FILE,
    FOLD_PREFIX,
    LIKELY_WATCHED,
    NAME_COLUMN,
    NO_FILMS,
    TARGETS,
    WATCHED,
)
from obygaze_features.manifest.own_labels import MOST_WORDS
from obygaze_features.manifest.spans import FRAMES, RATE_COLUMN
from obygaze_features.manifest.vocabulary import canonical_level

FRAME = "frame"
DURATION = "duration"
STARTS = (
    "start starts startzeit starttime begin begins beginn beginning from von ab anfang anfangszeit"
    " debut depuis entree in inicio desde comienzo entrada inizio da onset"
)
ENDS = (
    "end ends ende endzeit endtime ending finish to until till bis schluss fin jusqu sortie stop"
    " out hasta final salida fine termine offset"
)
# Usual names of the columns of films, clips, times and annotators, without accents.
NAMES = {
    "movie_id": "film filme films movie movies title titel titre titulo pelicula",
    "clip_id": "clip id shot scene szene no nr n num number nummer numero plan sequence",
    "start_s": STARTS,
    "end_s": ENDS,
    FRAMES[0]: f"{STARTS} first erstes premiere startframe startbild",
    FRAMES[1]: f"{ENDS} last letztes derniere endframe endbild",
    FRAME: "frame frames bild bilder bildnummer image images fotogramma fotogrammi fotograma"
    " fotogramas photogramme photogrammes cuadro startframe endframe startbild endbild",
    RATE_COLUMN: "framerate fps rate bildrate",
    DURATION: "duration dauer duree durata duracion length lange longueur lunghezza",
    "video": "video file filename datei dateiname videodatei fichier",
    ANNOTATOR: "annotator annotateur coder codeur rater kodierer kodiererin who wer qui person"
    " participant teilnehmer teilnehmerin",
    "concepts": "concept concepts konzept konzepte",
    "label": "label code coding coder rater rating verdict judgement judgment urteil bewertung"
    " einstufung kodierung kodierer stufe niveau jugement codage codeur",
}
# A column with one of these names may also have the people in the film.
PEOPLE_IN_FILMS = "person who wer qui"
# Words of three languages, and the level that they usually mean.
LIKELY_LEVELS = {
    "EN": "en no nein non none never false",
    "HN": "hn rather almost eher fast plutot slight weak",
    "NS": "ns maybe perhaps unsure unclear vielleicht unklar unsicher peut_etre incertain",
    "S": "s yes ja oui si clear true x",
}
# Separators of the concepts in a cell, in addition to `|`.
SEPARATORS = (";", ",", "/")
_SIGNS = re.compile("[;,/]")
# In a column of levels, at least 8 of 10 cells are words of levels.
MOST_OF_TEN = 8
# Films have at least this frame rate.
LOWEST_RATE = 10
# The new name of a column `level` whose words are not levels.
OWN_LEVEL = "own_level"
KEEP = "if not, pass --map COLUMN=COLUMN to keep a column as it is"


@dataclass
class Questions:
    """The questions about a table, and the mapping that grows with each answer.

    Attributes:
        table: The table.
        mapping: The stated mapping, joined with the likely answers.
        answers: Only the likely answers.
        n_errors: The number of cells with errors of formulas that an answer calls unknown.
    """

    table: TableCells
    mapping: TableMapping
    answers: TableMapping
    n_errors: int = 0

    def ask(
        self,
        sentence: str,
        answer: TableMapping,
        column: str | None = None,
        rows: Sequence[TableRow] = (),
    ) -> None:
        """Add a question to the violations, and take its likely answer.

        Args:
            sentence: The question.
            answer: The likely answer.
            column: The column of the manifest; None: the question is about no column.
            rows: The rows that the question is about; empty: the whole table.
        """
        self.mapping = self.mapping.joined(answer)
        self.answers = self.answers.joined(answer)
        for violations in self.table.violations:
            violations.names = {**violations.names, **self.mapping.names_in_table}
        likely = shell_line(answer.typed())
        if likely:
            sentence = f"{sentence}; likely answer: {likely}"
        for row in rows:
            row.add(column, sentence)
        if not rows:
            self.table.violations[0].add(None, None, sentence)

    def is_stated(self, *targets: str) -> bool:
        """Return whether one of these columns of a manifest is in the table or is mapped."""
        mapping = self.mapping
        stated = {*mapping.columns, *self.table.cells, *mapping.annotator_targets}
        return not stated.isdisjoint(targets)

    @property
    def free(self) -> list[str]:
        """The columns of the table that are not empty and have no stated meaning."""
        mapping = self.mapping
        used = {"", *TARGETS, *mapping.columns.values(), *mapping.coders.values()}
        free = []
        for name in self.table.cells:
            is_fold = name.startswith(FOLD_PREFIX)
            if name not in used and not is_fold and any(self.table.column(name)):
                free.append(name)
        return free

    def named(self, target: str, columns: Sequence[str] | None = None) -> list[str]:
        """Return the columns whose names contain a usual name for a column of the manifest.

        Args:
            target: The column of the manifest.
            columns: The columns of the table; None: `free`.
        """
        columns = self.free if columns is None else columns
        return [column for column in columns if is_named(target, column)]

    def source(self, target: str) -> str:
        """Return the column of the table that is mapped to a column of the manifest."""
        return self.mapping.columns.get(target, target)

    def keys(self, columns: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the cells of each row in some columns."""
        return [*zip(*map(self.table.column, columns), strict=True)]

    def are_unique(self, columns: Sequence[str]) -> bool:
        """Return whether no two rows have the same cells in some columns."""
        return len(set(self.keys(columns))) == len(self.table.rows)

    def rows_of_words(
        self, target: str, separator: str = ""
    ) -> dict[str, list[TableRow]]:
        """Return the rows of each word of a column of the manifest, without errors of formulas.

        Args:
            target: The column of the manifest.
            separator: The separator of words in a cell; without it, a cell is one word.
        """
        rows_of_word: dict[str, list[TableRow]] = {}
        for column in self.mapping.sources(target):
            cells = self.table.column(column)
            for row, cell in zip(self.table.rows, cells, strict=True):
                for word in cell.split(separator) if separator else [cell]:
                    rows_of_word.setdefault(word.strip(), []).append(row)
        for word in ["", *filter(is_error, rows_of_word)]:
            rows_of_word.pop(word, None)
        return rows_of_word


def is_named(target: str, column: str) -> bool:
    """Return whether a header contains a usual name for a column of the manifest."""
    return not header_words(column).isdisjoint(NAMES[target].split())


def is_tier(column: str) -> bool:
    """Return whether a header is that of the tiers, as ELAN writes it."""
    return "tier" in header_words(column)


def decide(
    table: TableCells, stated: TableMapping, sheets: Sequence[str] = ()
) -> Questions:
    """Return the questions about a table, with a mapping that answers all of them.

    Args:
        table: The table.
        stated: The mapping that was typed.
        sheets: The sheets that were read together, although the user named none.
    """
    # The likely sheet is not a part of the mapping: the next workbook may call it differently.
    questions = Questions(table, stated, TableMapping(sheets=table.sheets))
    if sheets:
        questions.ask(
            f"the sheets {' and '.join(map(repr, sheets))} have the same columns; if each is of one"
            f" annotator, or with --map movie_id={SHEET} of one film, read them together; if not,"
            " pass --sheet NAME for one of them",
            TableMapping(sheets=sheets),
        )
    _ask_films(questions)
    _ask_film_names(questions)
    _ask_times(questions)
    _ask_rate(questions)
    _ask_film_files(questions)
    _ask_watched(questions)
    _ask_coders(questions)
    _ask_ids(questions)
    _ask_repeated_ids(questions)
    _ask_labels(questions)
    _ask_milliseconds(questions)
    _ask_clocks(questions)
    _ask_levels(questions)
    _ask_concepts(questions)
    ask_answers(questions)
    return questions


# --- The columns ---


def _ask_films(questions: Questions) -> None:
    """Ask which column has the films, if the column movie_id is missing or empty."""
    column = questions.source("movie_id")
    cells = questions.table.cells
    is_empty = column in cells and not any(cells[column])
    if questions.mapping.films or (questions.is_stated("movie_id") and not is_empty):
        return
    # A title that is different in each row may be the title of the clip.
    likely = sorted(
        questions.named("movie_id"), key=lambda name: questions.are_unique([name])
    )
    free = (*questions.free, "video")
    people = [name for name in free if is_named(ANNOTATOR, name) or is_tier(name)]
    others = [name for name in free if name not in people]
    of_films = [name for name in others if _are_of_films(questions, name)]
    likely += sorted(of_films, key=lambda name: not _are_files(questions, name))
    likely += [name for name in free if _are_files(questions, name)]
    answer = TableMapping(films=NO_FILMS)
    if questions.table.sheet_of and not likely:
        questions.table = questions.table.with_films_of_sheets()
        answer = TableMapping(columns={"movie_id": SHEET})
    if likely:
        video = {"video": "video"} if likely[0] == "video" else {}
        answer = TableMapping(columns={"movie_id": likely[0], **video})
    elif "movie_id" in questions.mapping.columns_of_id:
        answer = TableMapping()
    questions.ask(
        "no row of the table has a film; pass --map movie_id=COLUMN for the column of the films, or"
        " --films none if there is no such column",
        answer,
        "movie_id",
    )


def _are_files(questions: Questions, column: str) -> bool:
    """Return whether all cells of a column of the table are names of videos."""
    cells = [row.cells.get(column, "") for row in questions.table.rows]
    return all(without_extension(name) != name for name in cells)


def _are_of_films(questions: Questions, column: str) -> bool:
    """Return whether words may be films: each word is in several rows that follow each other.

    The tables of other annotators than the first have the same films.
    """
    first = questions.table.rows[0].violations.path
    cells = []
    for row in questions.table.rows:
        cell = row.cells.get(column, "")
        if row.violations.path == first and questions.table.words.is_answer(cell):
            cells.append(cell)
    n_changes = sum(one != other for one, other in pairwise(cells))
    n_words = len(set(cells))
    return _are_words(cells) and 1 < n_words <= len(cells) / 2 and n_changes < n_words


def _are_words(cells: Sequence[str]) -> bool:
    """Return whether a column has words: no cell is a number, and most cells are not times."""
    return not any(map(is_number, cells)) and not has_times(cells)


def _ask_film_names(questions: Questions) -> None:
    """Ask whether films that differ in spelling only are one film, and rename films."""
    table = questions.table
    column = questions.source("movie_id")
    cells = table.cells.get(column, ())
    n_rows = Counter(filter(None, cells))
    new_name = {}
    films = {name: without_extension(name) for name in n_rows}
    if len(set(films.values())) == len(films):
        new_name = {name: film for name, film in films.items() if film != name}
    for typed, new in questions.mapping.film_names.items():
        new_name[find_name(typed, n_rows, "film of the table")] = new
    # A film that keeps its name is no spelling of another.
    names = [name for name in n_rows if name not in new_name]
    names += [new for name, new in new_name.items() if new != name]
    for same in films_in_several_spellings(dict.fromkeys(names)):
        stated = [name for name in same if name in new_name.values()]
        first = (stated or sorted(same, key=lambda name: -n_rows[name]))[0]
        for other in same:
            if other not in (first, *stated):
                kept = shell_word(f"{other}={other}")
                questions.ask(
                    f"{other!r} may be the film {first!r}; if not, pass --film {kept}",
                    TableMapping(film_names={other: first}),
                    "movie_id",
                    [
                        row
                        for row, cell in zip(table.rows, cells, strict=True)
                        if cell == other
                    ],
                )
                new_name[other] = first
    if new_name:
        renamed = [new_name.get(cell, cell) for cell in cells]
        questions.table = replace(table, cells={**table.cells, column: renamed})


def _ask_times(questions: Questions) -> None:
    """Ask whether two columns are start and end, if the table has no other times."""
    if questions.is_stated(*SPAN_COLUMNS, *FRAMES):
        return
    of_times = [
        name for name in questions.free if has_times(questions.table.filled(name))
    ]
    # Of the same times in several formats, milliseconds are the last choice.
    of_times.sort(key=says_milliseconds)
    in_frames = questions.named(FRAME, of_times)
    in_seconds = [name for name in of_times if name not in in_frames]
    for noun, targets, columns in (
        ("times", SPAN_COLUMNS, in_seconds),
        ("frames", FRAMES, in_frames),
    ):
        starts, ends = (questions.named(target, columns) for target in targets)
        if starts and ends:
            rates = _columns_of_rates(questions)
            if noun == "times" and rates and _may_be_frames(questions, starts, ends):
                seconds = dict(zip(SPAN_COLUMNS, (starts[0], ends[0]), strict=True))
                questions.ask(
                    f"{starts[0]!r} and {ends[0]!r} look like the first and last frames of the"
                    f" clips, because {rates[0]!r} looks like a frame rate; for seconds, pass"
                    f" {shell_line(TableMapping(columns=seconds).typed())}",
                    TableMapping(
                        columns=dict(zip(FRAMES, seconds.values(), strict=True))
                    ),
                )
                return
            pair = dict(zip(targets, (starts[0], ends[0]), strict=True))
            sentence = f"{starts[0]!r} and {ends[0]!r} look like the {noun} of the clips; {KEEP}"
            questions.ask(sentence, TableMapping(columns=pair))
            return
    starts, ends, durations = (
        questions.named(target, of_times) for target in (*SPAN_COLUMNS, DURATION)
    )
    if starts and durations and not ends:
        questions.ask(
            f"{starts[0]!r} looks like the start of the clips, and no column has their ends: add a"
            f" column of {starts[0]!r} + {durations[0]!r}; {KEEP}",
            TableMapping(),
        )
        return
    # Headers with other words.
    cells = {name: questions.table.column(name) for name in in_seconds}
    of_clocks = [name for name in in_seconds if has_clock_times(cells[name])]
    for first, second in combinations(of_clocks, 2):
        # A duration is before most starts, too.
        is_end = second not in questions.named(SPAN_COLUMNS[0], in_seconds)
        if is_end and comes_before(cells[first], cells[second]):
            sentence = f"{first!r} and {second!r} may be the times of the clips; {KEEP}"
            pair = dict(zip(SPAN_COLUMNS, (first, second), strict=True))
            questions.ask(sentence, TableMapping(columns=pair))
            return


def unread_times(columns: Sequence[str], table: TableCells) -> list[str]:
    """Return a column of starts and one of ends, by their headers, also if no time is read."""
    found = []
    for target in SPAN_COLUMNS:
        for column in columns:
            cells = table.filled(column)
            n_digits = sum(any(map(str.isdigit, cell)) for cell in cells)
            if is_named(target, column) and 2 * n_digits > len(cells):
                found.append(column)
                break
    return found if len(found) == len(SPAN_COLUMNS) else []


def _ask_rate(questions: Questions) -> None:
    """Ask whether a column has the frame rates, if the table counts frames."""
    if not questions.is_stated(*FRAMES) or questions.is_stated(RATE_COLUMN):
        return
    for column in _columns_of_rates(questions)[:1]:
        questions.ask(
            f"{column!r} looks like the frame rate of the films; {KEEP}",
            TableMapping(columns={RATE_COLUMN: column}),
        )


def _columns_of_rates(questions: Questions) -> list[str]:
    """Return the columns that look like frame rates; a rate of 1 to 5 is a rating."""
    columns = []
    for column in questions.named(RATE_COLUMN):
        rates = map(parse_frame_rate, questions.table.filled(column))
        if all(rate and rate >= LOWEST_RATE for rate in rates):
            columns.append(column)
    return columns


def _may_be_frames(
    questions: Questions, starts: Sequence[str], ends: Sequence[str]
) -> bool:
    """Return whether the first start and end are whole numbers, and no header has a unit."""
    columns = (starts[0], ends[0])
    if any(
        says_milliseconds(one) or says_minutes(one) or says_seconds(one)
        for one in columns
    ):
        return False
    filled = map(questions.table.filled, columns)
    return None not in map(whole_number, chain.from_iterable(filled))


def _ask_film_files(questions: Questions) -> None:
    """Ask whether a column has the files of films, if the table counts frames without a rate."""
    stated = (RATE_COLUMN, "video", NAME_COLUMN, FILM_FILE, *SPAN_COLUMNS)
    if questions.is_stated(*FRAMES) and not questions.is_stated(*stated):
        films = questions.source("movie_id")
        files = [films] if _are_files(questions, films) else []
        for column in (files + questions.named("video"))[:1]:
            questions.ask(
                f"{column!r} looks like the files in which the frames count; {KEEP}",
                TableMapping(columns={"video": column}),
            )


def _ask_watched(questions: Questions) -> None:
    """Ask whether a column of a table with times states what was watched, by its name."""
    if questions.is_stated(WATCHED) or not questions.is_stated(*SPAN_COLUMNS, *FRAMES):
        return
    names = {WATCHED, "level", "concepts", *map(str.casefold, questions.table.cells)}
    for column in questions.free:
        if column.casefold() in LIKELY_WATCHED:
            words = {word.casefold() for word in questions.table.filled(column)}
            target = WATCHED if words <= names else column
            questions.ask(
                f"{column!r} may state what was watched: this needs --map"
                f" {shell_word(f'{WATCHED}={column}')}, and in its cells the name of the column"
                f" that was coded, or {WATCHED} for all columns; {KEEP}",
                TableMapping(columns={target: column}),
            )
            return


def _ask_coders(questions: Questions) -> None:
    """Ask whether columns with levels, or with the same words, are columns of annotators."""
    if questions.mapping.coders or questions.is_stated(ANNOTATOR):
        return
    _ask_named_coders(questions)
    if questions.mapping.coders or questions.is_stated("level"):
        return
    free = questions.free
    of_people = questions.named(ANNOTATOR)
    target = ""
    columns = [name for name in free if _has_levels(questions.table.filled(name))]
    if len(columns) < 2:
        columns = []
        target = "label"
        words_of = {}
        for name in free:
            different = {*questions.table.filled(name)}
            # Numbers of several columns may be alike, so that only a header tells whose they are.
            is_label = name in of_people or _are_words([*different])
            if 1 < len(different) <= MOST_WORDS and is_label:
                words_of[name] = different
        for one, other in permutations(words_of, 2):
            n_both = len(words_of[one] & words_of[other])
            n_all = len(words_of[one] | words_of[other])
            if one not in columns and 1 < n_both <= n_all <= min(
                MOST_WORDS, 2 * n_both
            ):
                in_both = set(_split_words(one)).intersection(_split_words(other))
                if any(
                    questions.named(one, [*in_both]) for one in ("label", ANNOTATOR)
                ):
                    columns.append(one)
    if not columns:
        return
    in_all = set(_split_words(columns[0])).intersection(*map(_split_words, columns))
    coders = {}
    for column in columns:
        words = _split_words(column)
        person = " ".join(word for word in words if word not in in_all)
        if target:
            target = " ".join(word for word in words if word in in_all) or target
        coders[f"{person}:{target}" if target else person] = column
    listed = " and ".join(map(repr, columns))
    questions.ask(
        f"{listed} look like the labels of {len(columns)} annotators; {KEEP}",
        TableMapping(coders=coders),
        ANNOTATOR,
    )


def _ask_named_coders(questions: Questions) -> None:
    """Ask whether the columns that `manifest show -o` names level:ada are what the rule needs."""
    path, *others = map(Path, questions.table.tables)
    if not questions.mapping.rule or others or annotators_path(path).is_file():
        return
    coders = {}
    for column in questions.free:
        target, _, person = column.partition(":")
        if person and target in ("level", "concepts", *questions.table.cells):
            coders[person if target == "level" else f"{person}:{target}"] = column
    if coders:
        people = {coder.partition(":")[0] for coder in coders}
        questions.ask(
            f"--rule makes labels from those of annotators, and {few([*coders.values()])} look like"
            f" the labels of {count(len(people), 'annotator')}",
            TableMapping(coders=coders),
            ANNOTATOR,
        )


def _split_words(name: str) -> list[str]:
    return re.split(r"[\s_:=-]+", name)


def _has_levels(cells: Sequence[str]) -> bool:
    """Return whether most cells of a column are words of levels, of at least two levels."""
    levels = [level for level in map(canonical_level, cells) if level]
    return len(set(levels)) > 1 and 10 * len(levels) >= MOST_OF_TEN * len(cells)


def _ask_ids(questions: Questions) -> None:
    """Ask for the ids of the clips, if no column has them."""
    if questions.mapping.id or questions.is_stated("clip_id"):
        return
    of_film = "" if questions.mapping.films else "{movie_id}-"
    counted = f"{of_film}{{{COUNT}:03d}}"
    ways = f"such a column, or --id '{counted}' to number the clips of each film"
    answer = TableMapping(id=counted)
    are_of_people = len(questions.table.tables) > 1 or questions.is_stated(ANNOTATOR)
    if are_of_people and not questions.is_stated(*SPAN_COLUMNS, *FRAMES):
        # Without times, nothing says which rows of two annotators are of one clip.
        ways = "such a column, with the same id in the rows of each annotator"
        answer = TableMapping()
    scenes = ["scene"] if questions.table.filled("scene") else []
    for column in (*questions.named("clip_id"), *scenes):
        cells = questions.table.cells[column]
        key = [column]
        if of_film:
            key.append(questions.source("movie_id"))
        if not all(cells) or re.search("[{}:]", column):
            continue
        ids = [*map(as_id, cells)]
        tables = [row.violations.path for row in questions.table.rows]
        is_of_one_row = len({*zip(tables, ids, strict=True)}) == len(ids)
        # Each annotator may have a row of each clip.
        is_of_one_row = is_of_one_row or bool(_person_column(questions, [column]))
        # Each annotator may have a table, with the ids of the others.
        is_of_one_film = len(set(questions.keys(key))) == len(set(ids))
        if is_of_one_row and is_of_one_film and None in map(whole_number, cells):
            answer = TableMapping(columns={"clip_id": column})
            break
        if questions.are_unique(key) or _person_column(questions, key):
            answer = TableMapping(id=f"{of_film}{{{column}}}")
            break
    questions.ask(
        f"no column has the ids of the clips; pass --map clip_id=COLUMN for {ways}",
        answer,
        "clip_id",
    )


def _person_column(questions: Questions, key: Sequence[str]) -> str:
    """Return the column of the annotators who have rows of the same clips, or "".

    Args:
        questions: The questions about the table.
        key: The columns that identify a clip.
    """
    stated = [questions.source(ANNOTATOR)] if questions.is_stated(ANNOTATOR) else []
    for column in stated or questions.named(ANNOTATOR):
        if column not in key and questions.are_unique([*key, column]):
            return column
    return ""


def _ask_repeated_ids(questions: Questions) -> None:
    """Ask how to make ids unique across films, and who annotated clips with several rows."""
    table = questions.table
    clip, film = (questions.source(name) for name in NEEDED)
    repeated = []
    sentence = ""
    if clip in table.cells and not questions.mapping.id and not questions.mapping.films:
        form = f"{{{film}}}-{{{clip}}}"
        film_of_clip: dict[tuple[str, str], str] = {}
        for row, (name, of_row) in zip(
            table.rows, questions.keys([clip, film]), strict=True
        ):
            first = film_of_clip.setdefault((row.violations.path, name), of_row)
            if first != of_row and name and of_row:
                repeated.append(row)
                sentence = sentence or (
                    f"{name!r} is a clip of {first!r} and of {of_row!r}; for unique ids, pass --id"
                    f" {shell_word(form)}"
                )
        if repeated:
            has_form = not re.search("[{}:]", f"{clip}{film}")
            answer = TableMapping(id=form if has_form else "")
            questions.ask(sentence, answer, "clip_id", repeated)
    if questions.is_stated(ANNOTATOR):
        return
    key = [
        questions.source(name)
        for name in questions.mapping.columns_of_id or ["clip_id"]
    ]
    if COUNT in key and COUNT not in table.cells:
        # Rows with equal times are one clip; a row without times is a clip of its own.
        key = [questions.source(name) for name in SPAN_COLUMNS]
        if not {*key} <= {*table.cells}:
            return
    if not questions.mapping.films:
        key.append(film)
    person = "" if questions.are_unique(key) else _person_column(questions, key)
    if person:
        n_clips = len(set(questions.keys(key)))
        questions.ask(
            f"{len(table.rows)} rows are of {n_clips} clips; if rows are of several annotators,"
            " pass --map annotator=COLUMN",
            TableMapping(columns={ANNOTATOR: person}),
            ANNOTATOR,
        )
        return
    person = _column_of_overlaps(questions)
    if person:
        questions.ask(
            f"rows with different words in {person!r} are of the same seconds of a film; if rows"
            f" are of several annotators, pass --map annotator=COLUMN; {KEEP}",
            TableMapping(columns={ANNOTATOR: person}),
            ANNOTATOR,
        )


def _column_of_overlaps(questions: Questions) -> str:
    """Return a column of annotators, by its name, two of whom have rows that overlap, or ""."""
    films = [] if questions.mapping.films else [questions.source("movie_id")]
    for targets in (SPAN_COLUMNS, FRAMES):
        times = [questions.source(name) for name in targets]
        if not {*films, *times} <= {*questions.table.cells}:
            continue
        for column in questions.named(ANNOTATOR):
            if not header_words(column).isdisjoint(PEOPLE_IN_FILMS.split()):
                continue
            last: dict[tuple[str, ...], tuple[float, str]] = {}
            rows = []
            for *film, start, end, name in questions.keys([*films, *times, column]):
                if is_time(start) and is_time(end) and name:
                    rows.append((tuple(film), time_size(start), time_size(end), name))
            for of_film, start_size, end_size, name in sorted(rows):
                before, other = last.get(of_film, (0.0, name))
                if start_size < before and other != name:
                    return column
                last[of_film] = max((before, other), (end_size, name))
    return ""


def _ask_labels(questions: Questions) -> None:
    """Ask whether a column has levels (by its words) or concepts (by its name)."""
    # `manifest show -o` writes what each person said: level:ada, concepts:ada.
    of_people = ("level:", "concepts:")
    free = [name for name in questions.free if not name.startswith(of_people)]
    of_levels = [name for name in free if _has_levels(questions.table.filled(name))]
    likely = {"level": of_levels, "concepts": questions.named("concepts", free)}
    for target, columns in likely.items():
        if columns and not questions.mapping.coders and not questions.is_stated(target):
            sentence = f"{columns[0]!r} looks like the column of {target}; {KEEP}"
            questions.ask(sentence, TableMapping(columns={target: columns[0]}), target)


# --- The cells ---


def _ask_milliseconds(questions: Questions) -> None:
    """Ask whether times are in milliseconds, if the header of a column says so.

    Minutes are refused: 1.5 minutes would be 1.5 seconds.
    """
    if questions.mapping.times:
        return
    for target in ALL_TIMES:
        column = questions.source(target)
        is_of_clock = any(":" in cell for cell in questions.table.filled(column))
        if column == target or column not in questions.table.cells or is_of_clock:
            continue
        if says_minutes(column):
            questions.table.violations[0].add(
                None,
                target,
                f"{column!r} has minutes or hours by its name: write seconds or clock times such as"
                " 1:05:00; if it has seconds, rename it",
            )
        elif says_milliseconds(column):
            questions.ask(
                f"{column!r} has milliseconds by its name; if it has seconds, rename it",
                TableMapping(times=MILLISECONDS),
                target,
            )
            return


def _ask_clocks(questions: Questions) -> None:
    """Ask whether times of two numbers are minutes or hours."""
    if questions.mapping.times:
        return
    for target in ALL_TIMES:
        cells = questions.table.column(questions.source(target))
        short = [number for number, cell in enumerate(cells) if is_short(cell)]
        if short:
            rows = [questions.table.rows[number] for number in short]
            sentence = unclear_time(cells[short[0]])
            questions.ask(sentence, TableMapping(times=MINUTES), target, rows)


def _ask_levels(questions: Questions) -> None:
    """Ask for the meaning of unknown words of levels."""
    rows_of_word = questions.rows_of_words("level")
    rows_of_word.pop(UNKNOWN, None)
    known = {}
    for word in rows_of_word:
        level = questions.mapping.level(word)
        if level:
            known[word.casefold()] = level
    likely = {}
    sentences = {}
    for word in rows_of_word:
        if questions.mapping.level(word) is None:
            plain = ascii_id(word).casefold()
            levels = [
                name for name, words in LIKELY_LEVELS.items() if plain in words.split()
            ]
            similar = get_close_matches(word.casefold(), known, 1, 0.8)
            levels += [known[name] for name in similar]
            likely[word] = levels[0] if levels else UNKNOWN
            sentences[word] = unknown_level(word)
            if similar:
                sentences[word] += near(word, rows_of_word.keys() - likely, 0.8)
    is_mapped = bool("level" in questions.mapping.columns or questions.mapping.coders)
    # A column `level` without any known level is a label of the user's own.
    is_own = len(likely) == len(rows_of_word) and {*likely.values()} == {UNKNOWN}
    for word, level in likely.items():
        answer = TableMapping(levels={word: level})
        if is_own and not is_mapped:
            answer = TableMapping(columns={OWN_LEVEL: "level"})
        # Words that differ only in capitals have the same answer.
        if questions.mapping.level(word) is None:
            questions.ask(sentences[word], answer, "level", rows_of_word[word])


def _ask_concepts(questions: Questions) -> None:
    """Ask for the separator of concepts, and for the meaning of unknown words."""
    rows_of_cell = questions.rows_of_words("concepts")
    unknown = [cell for cell in rows_of_cell if questions.mapping.concept(cell) is None]
    with_sign: dict[str, list[TableRow]] = {}
    for sign in SEPARATORS:
        with_sign[sign] = []
        for cell in unknown:
            if sign in cell:
                with_sign[sign] += rows_of_cell[cell]
    # The sign of most cells separates concepts; other signs may be typing errors.
    sign, rows = max(with_sign.items(), key=lambda item: len(item[1]))
    if rows and not questions.mapping.separator and BAR not in "".join(unknown):
        first = next(cell for cell in unknown if sign in cell)
        sentence = (
            f"unknown concept {first!r}; a separator is required between concepts"
        )
        questions.ask(sentence, TableMapping(separator=sign), "concepts", rows)
    names = {name.casefold(): name for name in questions.mapping.known_concepts}
    separator = questions.mapping.separator or BAR
    rows_of_word = questions.rows_of_words("concepts", separator)
    for word in rows_of_word:
        # A word may be a slip of a known word of the table, such as Gaz for Gaze.
        meaning = questions.mapping.concept(word)
        if meaning:
            names.setdefault(word.casefold(), meaning)
    # `table_cells` refuses `?` or leaves it out.
    rows_of_word.pop(UNKNOWN, None)
    for word in sorted(rows_of_word, key=_has_sign):
        if questions.mapping.concept(word) is None:
            others = []
            for other in rows_of_word:
                # Words that differ only in capitals have the same answer.
                if other.casefold() != word.casefold():
                    others.append(other)
            sentence = f"unknown concept {word!r}{near(word, others, 0.8)}"
            if _has_sign(word):
                sentence += (
                    f"; if it is a list of concepts, separate them with {separator}"
                )
            # Signs and words such as `none` mean that there is no concept.
            is_word = any(map(str.isalnum, word)) and not is_no_answer(word)
            is_nothing = ascii_id(word).casefold() in LIKELY_LEVELS["EN"].split()
            is_concept = is_word and not is_nothing
            meaning = "visual" if is_concept else UNKNOWN
            for name in get_close_matches(word.casefold(), names, 1, 0.8):
                meaning = names[name]
            # Words without signs already have a meaning.
            parts = [part.strip() for part in _SIGNS.split(word)]
            of_parts = [questions.mapping.concept(part) for part in parts]
            if len(parts) > 1 and all(of_parts):
                meaning = BAR.join(dict.fromkeys(filter(None, of_parts)))
            answer = TableMapping(concepts={word: meaning})
            questions.ask(sentence, answer, "concepts", rows_of_word[word])


def _has_sign(word: str) -> bool:
    """Return whether a word contains a sign that may separate concepts."""
    return _SIGNS.search(word) is not None


def ask_answers(questions: Questions) -> None:
    """Ask whether words such as NA are answers, in columns other than levels and concepts."""
    mapping = questions.mapping
    columns = dict.fromkeys(source_columns(questions.table, mapping))
    for target in answer_columns([*columns, *mapping.annotator_targets]):
        rows_of_word = questions.rows_of_words(target, BAR)
        # The reader of the table has listed these cells, with this option.
        for column in mapping.sources(target):
            cells = (
                questions.table.column(column) if annotator_columns([target]) else ()
            )
            errors = [*filter(is_error, cells)]
            answer = TableMapping(answers=dict.fromkeys(errors, UNKNOWN))
            questions.n_errors += len(errors)
            questions.mapping = questions.mapping.joined(answer)
            questions.answers = questions.answers.joined(answer)
        for word in mapping.unknown_words.asked_in(rows_of_word):
            # Words that differ only in capitals have the same answer.
            if questions.mapping.unknown_words.is_asked(word):
                answer = TableMapping(answers={word: UNKNOWN})
                questions.ask(no_answer_text(word), answer, target, rows_of_word[word])
