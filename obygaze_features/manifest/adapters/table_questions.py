"""What only a person can decide about a table, each question with its likely answer.

A question is about what a table has and nobody stated: which columns are films, ids, times or
people, what 1:05 is, what stands between concepts, what words mean. `decide` answers all of them by
what is likely, one after another, so that each is asked of what the answers before make of the
table. The answers together are a mapping, which is one command to type.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise, permutations

from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.shell import shell_line, shell_word
from obygaze_features.core.tables import TableRow, whole_number
from obygaze_features.manifest.adapters import unknown_level
from obygaze_features.manifest.adapters.table_mapping import (
    ANNOTATOR,
    BAR,
    COUNT,
    NEEDED,
    TableMapping,
)
from obygaze_features.manifest.adapters.table_reading import TableCells
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
from obygaze_features.manifest.model import FOLD_PREFIX, NO_FILMS, TARGETS
from obygaze_features.manifest.spans import FILM_TIMES, FRAMES, RATE_COLUMN
from obygaze_features.manifest.vocabulary import canonical_level

# What people call the columns of films, clips, times and annotators, without accents.
NAMES = {
    "movie_id": "film filme films movie movies title titel titre titulo pelicula",
    "clip_id": "clip id shot scene szene no nr n num number nummer numero plan sequence",
    "start_s": "start begin begins beginn from von anfang debut in inicio",
    "end_s": "end ends ende to bis schluss fin stop out hasta",
    FRAMES[0]: "frame frames bild image",
    RATE_COLUMN: "framerate fps rate bildrate",
    ANNOTATOR: "annotator annotateur coder codeur rater kodierer kodiererin who wer qui person",
    "concepts": "concept concepts konzept konzepte",
    "label": "label code coding coder rater rating verdict judgement judgment urteil bewertung"
    " einstufung kodierung kodierer stufe niveau jugement codage codeur",
}
# Words of three languages that mostly mean a level.
LIKELY_LEVELS = {
    "EN": "en no nein non none never false",
    "HN": "hn rather almost eher fast plutot slight weak",
    "NS": "ns maybe perhaps unsure unclear vielleicht unklar unsicher peut_etre incertain",
    "S": "s yes ja oui si clear true x",
}
# What a table may have between the concepts of a cell, beside `|`.
SEPARATORS = (";", ",", "/")
# Columns of people have no more words, and as many cells of each ten are words of levels.
MOST_WORDS = 12
MOST_OF_TEN = 8
# Columns are of people who code the same if they agree more than this, beyond chance.
LEAST_AGREEMENT = 0.4
# How a column `level` is called whose words are no levels.
OWN_LEVEL = "own_level"
KEEP = "--map COLUMN=COLUMN keeps a column as it is"


@dataclass
class Known:
    """What is known of a table: a mapping that says more with each question.

    Attributes:
        table: The table.
        mapping: What was stated, and the likely answers.
        answers: The likely answers alone.
    """

    table: TableCells
    mapping: TableMapping
    answers: TableMapping

    def ask(
        self,
        sentence: str,
        answer: TableMapping,
        column: str | None = None,
        rows: Sequence[TableRow] = (),
    ) -> None:
        """Add a question to what is refused, and take its likely answer.

        Args:
            sentence: What was found, and how it may be answered.
            answer: The likely answer.
            column: The column of the manifest that it is about.
            rows: The rows that it is about, if it is not the whole table.
        """
        self.mapping = self.mapping.joined(answer)
        self.answers = self.answers.joined(answer)
        for violations in self.table.violations:
            violations.names = {**violations.names, **self.mapping.names_in_table}
        likely = shell_line(answer.typed())
        if likely:
            sentence = f"{sentence}; likely {likely}"
        for row in rows:
            row.add(column, sentence)
        if not rows:
            self.table.violations[0].add(None, None, sentence)

    def is_stated(self, *targets: str) -> bool:
        """Return whether one of some columns of the manifest is one of the table, or is mapped."""
        mapping = self.mapping
        stated = {*mapping.columns, *self.table.cells, *mapping.made_of_people}
        return not stated.isdisjoint(targets)

    @property
    def free(self) -> list[str]:
        """The columns with cells of which nobody has stated what they are."""
        mapping = self.mapping
        used = {"", *TARGETS, *mapping.columns.values(), *mapping.coders.values()}
        free = []
        for name in self.table.cells:
            is_fold = name.startswith(FOLD_PREFIX)
            if name not in used and not is_fold and any(self.table.column(name)):
                free.append(name)
        return free

    def named(self, target: str, columns: Sequence[str] | None = None) -> list[str]:
        """Return the columns whose names have a word that people use for one of the manifest."""
        named = []
        for column in self.free if columns is None else columns:
            words = re.findall("[a-z]+", ascii_id(column).casefold())
            if not {*words}.isdisjoint(NAMES[target].split()):
                named.append(column)
        return named

    def source(self, target: str) -> str:
        """Return the column of the table for one of the manifest."""
        return self.mapping.columns.get(target, target)

    def keys(self, columns: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the cells of each row in some columns."""
        return [*zip(*map(self.table.column, columns), strict=True)]

    def are_unique(self, columns: Sequence[str]) -> bool:
        """Return whether no two rows have the same cells."""
        return len(set(self.keys(columns))) == len(self.table.rows)

    def rows_of_words(
        self, target: str, separator: str = ""
    ) -> dict[str, list[TableRow]]:
        """Return the words in the cells for a column of the manifest, each with its rows.

        Args:
            target: The column of the manifest.
            separator: What stands between the words of a cell, which else is one.
        """
        rows_of_word: dict[str, list[TableRow]] = {}
        for column in self.mapping.sources(target):
            cells = self.table.column(column)
            for row, cell in zip(self.table.rows, cells, strict=True):
                for word in cell.split(separator) if separator else [cell]:
                    rows_of_word.setdefault(word.strip(), []).append(row)
        rows_of_word.pop("", None)
        return rows_of_word


def decide(table: TableCells, stated: TableMapping) -> Known:
    """Return a mapping that says all that a table needs; what nobody stated is asked."""
    sheet = TableMapping(sheet=table.sheet)
    known = Known(table, stated.joined(sheet), sheet)
    _ask_films(known)
    _ask_times(known)
    _ask_coders(known)
    _ask_ids(known)
    _ask_repeated_ids(known)
    _ask_labels(known)
    _ask_clocks(known)
    _ask_levels(known)
    _ask_concepts(known)
    return known


# --- The columns ---


def _ask_films(known: Known) -> None:
    """Ask which column has the films, if the one of the manifest is missing or empty."""
    column = known.source("movie_id")
    is_empty = column in known.table.cells and not known.table.filled(column)
    if known.mapping.films or (known.is_stated("movie_id") and not is_empty):
        return
    # A title that each row has alone may be that of the clip.
    likely = sorted(known.named("movie_id"), key=lambda name: known.are_unique([name]))
    for name in (*known.free, "video"):
        if _are_of_films(known.table.filled(name)):
            likely.append(name)
    answer = TableMapping(films=NO_FILMS)
    if likely:
        video = {"video": "video"} if likely[0] == "video" else {}
        answer = TableMapping(columns={"movie_id": likely[0], **video})
    elif "movie_id" in known.mapping.columns_of_id:
        answer = TableMapping()
    known.ask(
        "no row of the table has a film; --map movie_id=COLUMN names the column of the films, and"
        " --films none says that the table states none",
        answer,
        "movie_id",
    )


def _are_of_films(cells: Sequence[str]) -> bool:
    """Return whether words are those of films: each in several rows, one below another."""
    n_changes = sum(one != other for one, other in pairwise(cells))
    n_words = len(set(cells))
    return _are_words(cells) and 1 < n_words <= len(cells) / 2 and n_changes < n_words


def _are_words(cells: Sequence[str]) -> bool:
    """Return whether a column has neither numbers nor times."""
    return not any(map(NUMBER.fullmatch, cells)) and not has_times(cells)


def _ask_times(known: Known) -> None:
    """Ask whether two columns are start and end, if the table has no other times."""
    if known.is_stated(*SPAN_COLUMNS, *FRAMES):
        return
    of_times = [name for name in known.free if has_times(known.table.filled(name))]
    pair = [
        name for target in SPAN_COLUMNS for name in known.named(target, of_times)[:1]
    ]
    if len(pair) != 2:
        return
    noun = "times"
    targets = dict(zip(SPAN_COLUMNS, pair, strict=True))
    if known.named(FRAMES[0], pair) == pair:
        noun = "frames"
        rates = known.named(RATE_COLUMN)
        targets = dict(zip((*FRAMES, RATE_COLUMN), [*pair, *rates], strict=False))
    start, end = pair
    sentence = f"{start!r} and {end!r} look like the {noun} of the clips; {KEEP}"
    known.ask(sentence, TableMapping(columns=targets))


def _ask_coders(known: Known) -> None:
    """Ask whether columns with levels, or with the same words, are those of people."""
    if known.mapping.coders or known.is_stated("level", ANNOTATOR):
        return
    free = known.free
    target = ""
    columns = [name for name in free if _has_levels(known.table.filled(name))]
    if len(columns) < 2:
        columns = []
        target = "label"
        words_of = {}
        for name in free:
            different = {*known.table.filled(name)}
            if 1 < len(different) <= MOST_WORDS and _are_words([*different]):
                words_of[name] = different
        for one, other in permutations(words_of, 2):
            n_both = len(words_of[one] & words_of[other])
            n_all = len(words_of[one] | words_of[other])
            if one not in columns and 1 < n_both <= n_all <= min(
                MOST_WORDS, 2 * n_both
            ):
                in_both = set(_words_of(one)).intersection(_words_of(other))
                cells = known.table.column(one), known.table.column(other)
                if known.named("label", [*in_both]) or _agree(*cells):
                    columns.append(one)
    if not columns:
        return
    in_all = set(_words_of(columns[0])).intersection(*map(_words_of, columns))
    coders = {}
    for column in columns:
        words = _words_of(column)
        person = " ".join(word for word in words if word not in in_all)
        if target:
            target = " ".join(word for word in words if word in in_all) or target
        coders[f"{person}:{target}" if target else person] = column
    listed = " and ".join(map(repr, columns))
    known.ask(
        f"{listed} look like the words of {len(columns)} people; {KEEP}",
        TableMapping(coders=coders),
        ANNOTATOR,
    )


def _words_of(name: str) -> list[str]:
    return re.split(r"[\s_:=-]+", name)


def _has_levels(cells: Sequence[str]) -> bool:
    """Return whether most cells of a column are words of levels, of which there are several."""
    levels = [level for level in map(canonical_level, cells) if level]
    return len(set(levels)) > 1 and 10 * len(levels) >= MOST_OF_TEN * len(cells)


def _agree(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Return whether two columns agree beyond chance (kappa)."""
    n = len(ours)
    n_of_word = Counter(filter(None, theirs))
    by_chance = sum(n_of_word[word] for word in ours) / n
    n_equal = sum(one == other != "" for one, other in zip(ours, theirs, strict=True))
    return n_equal - by_chance > LEAST_AGREEMENT * (n - by_chance)


def _ask_ids(known: Known) -> None:
    """Ask what the ids of the clips are, if no column has them."""
    if known.mapping.id or known.is_stated("clip_id"):
        return
    of_film = "" if known.mapping.films else "{movie_id}-"
    counted = f"{of_film}{{{COUNT}:03d}}"
    answer = TableMapping(id=counted)
    scenes = ["scene"] if known.table.filled("scene") else []
    for column in (*known.named("clip_id"), *scenes):
        cells = known.table.cells[column]
        key = [column, *([known.source("movie_id")] if of_film else [])]
        if not all(cells) or re.search("[{}:]", column):
            continue
        ids = set(map(as_id, cells))
        if len(ids) == len(cells) and None in map(whole_number, cells):
            answer = TableMapping(columns={"clip_id": column})
            break
        if known.are_unique(key) or _person_column(known, key):
            answer = TableMapping(id=f"{of_film}{{{column}}}")
            break
    known.ask(
        "no column has the ids of the clips; --map clip_id=COLUMN names one, and --id"
        f" '{counted}' counts the clips of each film",
        answer,
        "clip_id",
    )


def _person_column(known: Known, key: Sequence[str]) -> str:
    """Return the column of the people who have rows of the same clips, or "" if there is none.

    Args:
        known: What is known of the table.
        key: The columns that name a clip.
    """
    stated = [known.source(ANNOTATOR)] if known.is_stated(ANNOTATOR) else []
    for column in stated or known.named(ANNOTATOR):
        if column not in key and known.are_unique([*key, column]):
            return column
    return ""


def _ask_repeated_ids(known: Known) -> None:
    """Ask how ids are made that several films have, and who has several rows of a clip."""
    table = known.table
    clip, film = (known.source(name) for name in NEEDED)
    repeated = []
    sentence = ""
    if clip in table.cells and not known.mapping.id and not known.mapping.films:
        form = f"{{{film}}}-{{{clip}}}"
        film_of_clip: dict[tuple[str, str], str] = {}
        for row, (name, of_row) in zip(
            table.rows, known.keys([clip, film]), strict=True
        ):
            first = film_of_clip.setdefault((row.violations.path, name), of_row)
            if first != of_row and name and of_row:
                repeated.append(row)
                sentence = sentence or (
                    f"{name!r} is a clip of {first!r} and of {of_row!r}; --id {shell_word(form)}"
                    " makes unique ids"
                )
        if repeated:
            has_form = not re.search("[{}:]", f"{clip}{film}")
            answer = TableMapping(id=form if has_form else "")
            known.ask(sentence, answer, "clip_id", repeated)
    if known.is_stated(ANNOTATOR):
        return
    key = [known.source(name) for name in known.mapping.columns_of_id or ["clip_id"]]
    if COUNT in key and COUNT not in table.cells:
        # Rows with equal times are one clip; without times each row is one.
        key = [known.source(name) for name in SPAN_COLUMNS]
        if not {*key} <= {*table.cells}:
            return
    if not known.mapping.films:
        key.append(film)
    person = "" if known.are_unique(key) else _person_column(known, key)
    if person:
        n_clips = len(set(known.keys(key)))
        known.ask(
            f"{len(table.rows)} rows are of {n_clips} clips; if rows are of several people, --map"
            " annotator=COLUMN",
            TableMapping(columns={ANNOTATOR: person}),
            ANNOTATOR,
        )


def _ask_labels(known: Known) -> None:
    """Ask whether a column has levels, by its words, or concepts, by its name."""
    of_levels = [name for name in known.free if _has_levels(known.table.filled(name))]
    likely = {"level": of_levels, "concepts": known.named("concepts")}
    for target, columns in likely.items():
        if columns and not known.mapping.coders and not known.is_stated(target):
            sentence = f"{columns[0]!r} looks like the column of {target}; {KEEP}"
            known.ask(sentence, TableMapping(columns={target: columns[0]}), target)


# --- The cells ---


def _ask_clocks(known: Known) -> None:
    """Ask whether times of two numbers are minutes or hours."""
    if known.mapping.times:
        return
    for target in (*SPAN_COLUMNS, *FILM_TIMES):
        cells = known.table.column(known.source(target))
        short = [number for number, cell in enumerate(cells) if is_short(cell)]
        if short:
            rows = [known.table.rows[number] for number in short]
            sentence = unclear_time(cells[short[0]])
            known.ask(sentence, TableMapping(times=MINUTES), target, rows)


def _ask_levels(known: Known) -> None:
    """Ask what the words of levels mean that nobody knows."""
    rows_of_word = known.rows_of_words("level")
    likely = {}
    for word in rows_of_word:
        if known.mapping.level(word) is None:
            plain = ascii_id(word).casefold()
            levels = [
                name for name, words in LIKELY_LEVELS.items() if plain in words.split()
            ]
            likely[word] = levels[0] if levels else UNKNOWN
    is_mapped = bool("level" in known.mapping.columns or known.mapping.coders)
    # A column of this name that has no level at all is a label of a person's own.
    is_own = len(likely) == len(rows_of_word) and {*likely.values()} == {UNKNOWN}
    for word, level in likely.items():
        answer = TableMapping(levels={word: level})
        if is_own and not is_mapped:
            answer = TableMapping(columns={OWN_LEVEL: "level"})
        # Words that differ by capitals alone have one answer.
        if known.mapping.level(word) is None:
            known.ask(unknown_level(word), answer, "level", rows_of_word[word])


def _ask_concepts(known: Known) -> None:
    """Ask what stands between the concepts of a cell, and what words mean that nobody knows."""
    rows_of_cell = known.rows_of_words("concepts")
    unknown = [cell for cell in rows_of_cell if known.mapping.concept(cell) is None]
    for sign in SEPARATORS:
        with_sign = [cell for cell in unknown if sign in cell]
        if with_sign and not known.mapping.separator and BAR not in "".join(unknown):
            rows = [row for cell in with_sign for row in rows_of_cell[cell]]
            sentence = (
                f"unknown concept {with_sign[0]!r}; several concepts need a separator"
            )
            known.ask(sentence, TableMapping(separator=sign), "concepts", rows)
    names = {name.casefold(): name for name in known.mapping.known_concepts}
    separator = known.mapping.separator or BAR
    for word, rows in known.rows_of_words("concepts", separator).items():
        if known.mapping.concept(word) is None:
            is_word = any(map(str.isalnum, word))
            answer = TableMapping(concepts={word: "visual" if is_word else UNKNOWN})
            for name in get_close_matches(word.casefold(), names, 1, 0.8):
                answer = TableMapping(concepts={word: names[name]})
            known.ask(f"unknown concept {word!r}", answer, "concepts", rows)
