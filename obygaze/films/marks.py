"""The table of marks: each row has a span of a film, a column, a word and an annotator.

Times are in seconds on the clock of the decoded pictures; a mark ends before `end_s`. If a mark
counts frames, the times of the frames come from the file of the film; if no file is linked, they
are frame / rate. All words that one annotator gives to one span in one column belong together, and
so do a level and its concepts. Four columns have a fixed meaning:

- `level` and `concepts` have the words of the papers on ObyGaze12 and MObyGaze;
- `watched` states what was watched: its word is the name of the column that was coded, or `watched`
  for all columns;
- `comment` is free text.

All other columns are the annotators' own. The word `none` means that nothing was found, and `?`
means that the annotator could not tell.

A manifest can be read as marks: each of its cells is a mark in the column of the cell. A cell
without a word becomes a mark with the value "": it says nothing of its span, not even `none`. A row
whose only word is in `watched` has no such marks: it states only what was watched.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple, Self

from obygaze.films.pictures import Floats, LinkedFilms, pictures_of
from obygaze_features.core.console import few
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.file_names import printable_line
from obygaze_features.core.files import TABLE_ENDINGS, csv_bytes, find_files
from obygaze_features.core.notebook import unknown_name
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import TableRow, number_of_cell, read_table
from obygaze_features.core.unknown_words import UNKNOWN as UNKNOWN
from obygaze_features.core.unknown_words import UnknownWords, is_error, word_option
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.annotators import annotated_columns
from obygaze_features.manifest.expression import plain_value
from obygaze_features.manifest.frame_rate import frame_rate_text, parse_frame_rate
from obygaze_features.manifest.io import (
    as_id,
    ids_of_names,
    read_header_of,
    read_manifest,
)
from obygaze_features.manifest.model import (
    LEVELS,
    LIKELY_WATCHED,
    Manifest,
    own_columns,
)
from obygaze_features.manifest.model import WATCHED as WATCHED
from obygaze_features.manifest.spans import (
    FRAMES,
    RATE_COLUMN,
    FrameSpan,
    stated_frames,
)
from obygaze_features.manifest.spelling import Spelling
from obygaze_features.manifest.times import FrameClocks, spans_in_films
from obygaze_features.manifest.vocabulary import canonical_concept, canonical_level

COLUMNS = ("movie_id", "start_s", "end_s", "column", "value", "annotator")
LEVEL = "level"
CONCEPTS_COLUMN = "concepts"
COMMENT = "comment"
# A tier with this name has the scores of a model, which are not marks.
SCORE = "score"
NOTHING = "none"
# The columns of a table whose marks count frames.
COLUMNS_WITH_FRAMES = (*COLUMNS, *FRAMES, RATE_COLUMN)
FOLDER = "segments"
ELAN = ".eaf"
# A mark may end this long after the last picture, because sound may be longer than the pictures.
MOST_BEHIND_S = 1.0
# Tables state times with this many decimals of a second; smaller differences are rounding errors.
DIGITS = 9
# In these columns, a cell without a word says nothing else than that there is no word.
NO_UNKNOWN = (COMMENT, CONCEPTS_COLUMN, WATCHED)
# A column with more words is probably no mark.
MOST_WORDS = 12
OTHER_TABLES = (
    "for any other table: obygaze manifest import TABLE -o NAME, and pass this manifest"
)


class Mark(NamedTuple):
    """A span of a film with the word of an annotator in one column.

    `frames` has the frames of the span with their rate; it is empty if the table counts no frames.
    """

    movie_id: str
    start_s: float
    end_s: float
    column: str
    value: str
    annotator: str
    frames: FrameSpan | tuple[()] = ()

    def at_rate(self) -> Self:
        """Return the mark without its frames.

        If the mark has frames and a rate, its times become frame / rate. If it does not, its times
        stay unchanged.
        """
        times_s = self.frames.times_s if self.frames else None
        start_s, end_s = times_s or (self.start_s, self.end_s)
        return self._replace(start_s=start_s, end_s=end_s, frames=())


@dataclass(frozen=True)
class Marks:
    """The marks of tables in their order, and the frame rate that the tables state for each film.

    Iterating yields the marks.
    """

    marks: tuple[Mark, ...]
    rates: Mapping[str, Fraction] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Mark]:
        return iter(self.marks)


# ---- reading -------------------------------------------------------------------------------------


class MarkReader:
    """A reader of marks that gives each word one spelling.

    Args:
        tiers: The new column and the annotator of each renamed tier or column. A column "" excludes
            the tier; an annotator "" is the annotator that the file names.
        words: The replacement of each changed word; "" excludes the marks with this word.
        film_names: The film of each name that stands for another film.
    """

    def __init__(
        self,
        tiers: Mapping[str, tuple[str, str]] | None = None,
        words: Mapping[str, str] | None = None,
        film_names: Mapping[str, str] | None = None,
    ) -> None:
        self.tiers = tiers or {}
        self.film_names = film_names or {}
        self.words = words or {}
        unknown = [word for word, new in self.words.items() if new == UNKNOWN]
        typed = {word.casefold() for word in self.words}
        self._typed = UnknownWords(
            frozenset(map(str.casefold, unknown)), frozenset(typed)
        )
        self.n_left_out: Counter[str] = Counter()
        self.clocks = FrameClocks()
        # The tiers, words and columns that the files have.
        self.found: dict[str, set[str]] = {
            "tier": set(),
            "film": set(),
            # The reader of tables replaces errors of formulas.
            "word": {*filter(is_error, self.words)},
            "column": set(),
        }
        self._spelling = Spelling()
        self._marks: dict[Mark, None] = {}
        self._films: dict[str, None] = {}
        self._no_levels: Counter[str] = Counter()
        # Words such as NA whose meaning nobody stated.
        self._no_answers: Counter[str] = Counter()
        self._file_of: dict[tuple[str, str], Path] = {}

    def film(self, name: str) -> str:
        """Return the id of the film that a file calls `name`."""
        name = self.stated_film(name) or name
        self._films[name] = None
        return as_id(name)

    def stated_film(self, name: str) -> str:
        """Return the film that `film_names` states for a name, or ""."""
        self.found["film"].add(name)
        for typed, film in self.film_names.items():
            if as_id(typed) == as_id(name):
                self.found["film"].add(typed)
                return film
        return ""

    def column_of(
        self, tier: str, stated: str, path: Path, column: str = ""
    ) -> tuple[str, str]:
        """Return the column of a tier and its annotator, each "" if there is none.

        A tier of scores has no column, so its scores do not become marks.

        Args:
            tier: The name of the tier.
            stated: The annotator that the file names, or "".
            path: The file.
            column: The name of the tier, without @ and the annotator after it; "": the name of the
                tier has no annotator.
        """
        column = column or tier
        self.found["tier"] |= {tier, column}
        own = "" if column == SCORE else column
        named, person = self.tiers.get(tier, self.tiers.get(column, (own, "")))
        self.found["column"].add(named)
        if named and person and stated not in ("", person):
            raise FixUsage(
                f"--tier {tier}: expected the annotator {stated}, got {person}",
                where=str(path),
            )
        return named, person or stated

    def add(self, said: Mark, path: Path, row: TableRow | None = None) -> None:
        """Add a mark for each word of a text; `|` separates words.

        Args:
            said: The span, the column, the text, and the annotator.
            path: The file.
            row: The row of the table, which collects violations; None for ELAN files.
        """
        person = self._spelling.word(said.annotator, "annotator")
        said = said._replace(annotator=person)
        earlier = self._file_of.setdefault((said.movie_id, person), path)
        if earlier != path:
            raise FixInput(
                f"two files have marks of {said.annotator!r} in the film {said.movie_id}: two"
                " annotators have this name, or one file is a copy of the other",
                where=f"{earlier}, {path}",
                hint="if they are two, import each file alone, with its annotator: obygaze marks"
                f" import FILE --tier {shell_word(f'{said.column}={said.column}@NAME')} -o NAME;"
                " marks clips takes several tables; if one is a copy, import only one of the files"
                " or folders",
            )
        whole = self._meaning(said.value, said.column)
        parts = [whole] if said.column == COMMENT else whole.split("|")
        for part in parts:
            word = printable_line(part)
            if whole == said.value:
                word = self._meaning(word, said.column)
            if (said.column, word) == (CONCEPTS_COLUMN, UNKNOWN):
                raise FixInput(
                    f"expected concepts, got ? by {person!r} at {said.start_s:.3f} s of the film"
                    f" {said.movie_id}: a level without concepts means that there are none",
                    where=str(path),
                    hint="remove this mark; if the level is not known either, mark it as ?",
                )
            value = self._read_word(said.column, word)
            if value:
                is_asked = self._typed.is_asked(word) and not is_own_table(path)
                if is_asked and said.column not in (LEVEL, COMMENT, WATCHED):
                    self._no_answers[word] += 1
                self._marks[said._replace(value=value)] = None
            elif not word:
                self.n_left_out[f"empty marks of {said.column}"] += 1
            elif row is not None:
                row.add(
                    said.column, f"expected one of {', '.join(LEVELS)}, got {word!r}"
                )
            else:
                self._no_levels[word] += 1

    def read_table(self, path: Path) -> None:
        """Add the marks of a table like `segments/NAME.csv`; one error lists all its violations."""
        violations = Violations(path)
        table = read_table(
            path, required=COLUMNS, violations=violations, words=self._typed
        )
        violations.raise_if_any("the marks cannot be read", OTHER_TABLES)
        others = [name for name in table.columns if name not in COLUMNS_WITH_FRAMES]
        if others:
            raise FixInput(
                f"expected the columns {', '.join(COLUMNS)}, got also {few(others)}",
                where=str(path),
                hint=OTHER_TABLES,
            )
        for row in table.rows:
            annotator = printable_line(row["annotator"])
            column = printable_line(row["column"])
            for name, text in (
                ("movie_id", as_id(row["movie_id"])),
                ("annotator", annotator),
            ):
                if not text or "|" in text:
                    row.add(name, f"expected one name, got {text!r}")
            film = self.film(row["movie_id"])
            span = self._read_span(row, film)
            named, person = self.column_of(column, annotator, path)
            if not column or not printable_line(row["value"]):
                row.add("column", "expected a column and a word")
            elif column == SCORE and column not in self.tiers:
                row.add(column, "this name is for scores of models; rename the column")
            elif not named:
                self.n_left_out[f"the tier {column}"] += 1
            elif span is not None:
                start_s, end_s, frames = span
                said = Mark(film, start_s, end_s, named, row["value"], person, frames)
                self.add(said, path, row)
        violations.raise_if_any("the marks cannot be read")

    def marks_of(self, film: str, annotator: str) -> list[Mark]:
        """Return the marks that were added so far for a film and an annotator."""
        person = self._spelling.word(annotator, "annotator")
        return [m for m in self._marks if (m.movie_id, m.annotator) == (film, person)]

    def read_manifest(
        self, manifest: Manifest, path: Path, columns: Sequence[str]
    ) -> None:
        """Add the cells of a manifest as marks.

        Args:
            manifest: The manifest.
            path: Its table.
            columns: The columns that are marks; empty: they are stated by the manifest.
        """
        names = columns_of_marks(manifest, columns)
        spans_s = spans_in_films(manifest)
        refuse_if(
            [clip.clip_id for clip in manifest if clip.clip_id not in spans_s],
            FixInput,
            "no times in the film for the clips",
            where=manifest.name,
            hint="marks need start_s and end_s, or frames and a framerate",
        )
        rows = rows_of_people(manifest)
        filled = [name for name in names if any(cells[name] for _, _, cells in rows)]
        if WATCHED in filled:
            _check_watched(manifest, rows)
        only_watched = _rows_of_watched(manifest.name, rows, filled)
        for clip_id, annotator, cells in rows:
            clip = manifest[clip_id]
            film = self.film(clip.movie_id)
            frames = stated_frames(clip.extra)
            if frames is None or frames.rate is None:
                frames = None
            elif self.clocks.rate_problem(film, frames.rate):
                problem = self.clocks.rate_problem(film, frames.rate)
                raise FixInput(problem, where=manifest.name)
            row = (clip_id, annotator)
            for name in filled:
                said = Mark(
                    film, *spans_s[clip_id], name, cells[name], annotator, frames or ()
                )
                if said.value:
                    self.add(said, path)
                elif name not in NO_UNKNOWN and row not in only_watched:
                    self._marks[said] = None

    def marks(self, where: str) -> tuple[Mark, ...]:
        """Return the marks, sorted. Raise an error for unknown levels, and for words such as NA.

        Raise an error if two names of films become the same id. Equal numbers get one spelling.
        """
        ids_of_names(self._films, "film", where)
        if self._no_levels:
            shown = [f"{word!r} ({n})" for word, n in self._no_levels.most_common()]
            raise FixInput(
                f"{LEVEL}: expected the words {', '.join(LEVELS)}, got {few(shown)}",
                where=where,
                hint="pass --word OLD=S to replace a word, or --tier OLD=COLUMN to read the tier as"
                " another column",
            )
        if self._no_answers:
            shown = [f"{word!r} ({n})" for word, n in self._no_answers.most_common()]
            options = " ".join(map(word_option, self._no_answers))
            raise FixInput(
                f"words that usually mean that there is no answer: {few(shown)}",
                where=where,
                hint=f"pass {options} to obygaze marks import if these answers are not known, or"
                " --word NA=NA to keep a word such as NA as an answer",
            )
        spelled = self._spelling.equal_numbers()
        # What was watched names a column, perhaps in other capitals.
        columns = sorted({mark.column for mark in self._marks})
        watched = {mark.value for mark in self._marks if mark.column == WATCHED}
        for word in watched.difference(columns):
            named = [one for one in columns if one.casefold() == word.casefold()]
            if len(named) == 1:
                spelled.setdefault(WATCHED, {})[word] = named[0]
        marks = set()
        for mark in self._marks:
            value = spelled.get(mark.column, {}).get(mark.value, mark.value)
            marks.add(mark._replace(value=value))
        return tuple(sorted(marks))

    def _meaning(self, word: str, column: str) -> str:
        """Return the replacement of a word in a column, or the word itself if it has none.

        Comments, and the columns that `watched` marks name, are not replaced.
        """
        if column in (COMMENT, WATCHED):
            return word
        self.found["word"].add(word)
        for asked, meaning in self.words.items():
            if plain_value(asked, column) == plain_value(word, column):
                self.found["word"].add(asked)
                return meaning
        return word

    def _read_word(self, column: str, word: str) -> str:
        """Return a word of a column in one spelling, or "" if the column does not allow it."""
        if column == LEVEL:
            return word if word == UNKNOWN else canonical_level(word) or ""
        if column == CONCEPTS_COLUMN:
            word = canonical_concept(word) or word
        # A comment is free text, and a `watched` mark names a column: both stay unchanged.
        if column in (COMMENT, WATCHED):
            return word
        # The projection writes this word, so other capitals would make two words of it.
        if word.lower() == NOTHING:
            return NOTHING
        return self._spelling.word(word, column)

    def _read_span(
        self, row: TableRow, film: str
    ) -> tuple[float, float, FrameSpan | tuple[()]] | None:
        """Return start and end of a row in seconds, and its frames; None for invalid times.

        The frames are () if the row counts no frames or states no rate.
        """
        text = row.cells.get(RATE_COLUMN, "")
        rate = parse_frame_rate(text)
        if text and rate is None:
            row.add(RATE_COLUMN, f"{text!r} is not a frame rate")
        elif rate is not None and self.clocks.rate_problem(film, rate):
            row.add(RATE_COLUMN, self.clocks.rate_problem(film, rate))
        start_s, end_s = map(number_of_cell, (row["start_s"], row["end_s"]))
        if start_s is None or end_s is None or not 0 <= start_s < end_s:
            got = f"{row['start_s']} and {row['end_s']}"
            row.add(
                "start_s",
                f"expected seconds in the film, the start before the end, got {got}",
            )
            return None
        frames = stated_frames(row.cells)
        if not frames or frames.rate is None:
            return start_s, end_s, ()
        problem = self.clocks.span_problem(film, frames, (start_s, end_s))
        if problem:
            row.add(FRAMES[0], problem)
        return start_s, end_s, frames


def is_own_table(path: Path) -> bool:
    """Return whether this program wrote a table: it is in the folder of marks or of manifests."""
    return path.absolute().parent.name in (FOLDER, "manifests")


def rows_of_people(
    manifest: Manifest,
) -> list[tuple[str, str, dict[str, str]]]:
    """Return a row for each clip and annotator: the clip id, the annotator, and the cells.

    Without annotators, all rows are of one, who has the name of the manifest.
    """
    if manifest.annotations:
        return [
            (
                one.clip_id,
                one.annotator,
                {LEVEL: one.level, CONCEPTS_COLUMN: "|".join(one.concepts), **one.own},
            )
            for one in manifest.annotations
        ]
    rows = []
    for clip in manifest:
        said = {LEVEL: clip.level, CONCEPTS_COLUMN: "|".join(clip.concepts)}
        cells = {**dict.fromkeys(manifest.columns, ""), **clip.extra, **said}
        rows.append((clip.clip_id, cells.get("annotator", manifest.name), cells))
    refuse_if(
        [clip_id for clip_id, annotator, _ in rows if not annotator],
        FixInput,
        "no annotator in the rows of the clips",
        where=manifest.name,
        hint="name the annotator of each row of the table, and import it again",
    )
    refuse_if(
        dict.fromkeys(name for _, name, _ in rows if "|" in name),
        FixInput,
        "expected one annotator in each row, got",
        where=manifest.name,
        hint="make a row for each annotator, and import the table again",
    )
    return rows


def is_likely_watched(column: str) -> bool:
    """Return whether a column has a name that likely states what was watched."""
    return column.casefold() in LIKELY_WATCHED


def _check_watched(
    manifest: Manifest, rows: Iterable[tuple[str, str, Mapping[str, str]]]
) -> None:
    """Raise an error if a word in `watched` is no name of a column: it would count for none."""
    known = {LEVEL, CONCEPTS_COLUMN, WATCHED, *map(str.casefold, manifest.columns)}
    unknown = set()
    for _, _, cells in rows:
        words = map(str.strip, cells[WATCHED].split("|"))
        unknown |= {word for word in words if word and word.casefold() not in known}
    if unknown:
        raise FixInput(
            f"{WATCHED}: expected the name of a column, several with | between, or {WATCHED} for"
            f" all columns, got {few([*map(repr, sorted(unknown))])}",
            where=manifest.name,
            hint="correct these cells of the table, or add the column; and import it again",
        )


def _rows_of_watched(
    name: str, rows: Iterable[tuple[str, str, Mapping[str, str]]], filled: Sequence[str]
) -> set[tuple[str, str]]:
    """Return the clip and annotator of each row whose only word is in `watched`.

    Raise an error if other rows have words beside that of `watched`. Then an empty cell of such a
    row may be `?`, because a manifest keeps `?` as an empty cell.
    """
    only: set[tuple[str, str]] = set()
    others: set[tuple[str, str]] = set()
    for clip_id, annotator, cells in rows:
        if WATCHED in filled and cells[WATCHED]:
            words = [cells[one] for one in filled if one not in (WATCHED, COMMENT)]
            (others if any(words) else only).add((clip_id, annotator))
    if others:
        refuse_if(
            sorted({clip_id for clip_id, _ in only}),
            FixInput,
            f"an empty cell beside a word in {WATCHED} may mean nothing or ?, in the clips",
            where=name,
            hint=f"if nothing was found there, write {NOTHING} (EN in {LEVEL}) into these cells of"
            f" the table; if it is not known, empty the cells of {WATCHED}; and import it again",
        )
    return only


def columns_of_marks(manifest: Manifest, columns: Sequence[str]) -> list[str]:
    """Return the columns of a manifest whose cells are marks.

    Args:
        manifest: The manifest.
        columns: The columns that the user names; `watched` is always among them. Without them, the
            columns are the levels, the concepts, and those that the header lists; any other column
            of the user is an error.
    """
    stated = [LEVEL, CONCEPTS_COLUMN, *annotated_columns(manifest)]
    known = dict.fromkeys((*stated, *own_columns(manifest.columns)))
    for name in columns:
        if manifest.annotations and name in known and name not in stated:
            raise FixInput(
                f"no annotator has the column {name!r}, so its cells are marks of nobody",
                where=manifest.name,
                hint=f"pass --column with one of {few(stated, 10)}",
            )
        if name not in known:
            raise unknown_name("column", name, [*known], where=manifest.name)
    if SCORE in columns:
        raise FixInput(
            f"the name {SCORE} is for scores of models",
            where=manifest.name,
            hint="rename the column in the table, and import it again",
        )
    if columns:
        return [name for name in known if name in (*columns, WATCHED)]
    words_of: dict[str, set[str]] = {name: set() for name in stated}
    for _, _, cells in rows_of_people(manifest):
        for name, words in words_of.items():
            words.add(cells.get(name, ""))
    filled = [name for name, words in words_of.items() if words - {""}]
    are_stated = {LEVEL, CONCEPTS_COLUMN, COMMENT, WATCHED}.issuperset(filled)
    if not are_stated and manifest.header.said is None:
        likely = [name for name in filled if len(words_of[name]) <= MOST_WORDS]
        watched = [name for name in filled if is_likely_watched(name)]
        asked = [name for name in likely or filled if name not in watched]
        hint = f"pass {' '.join(f'--column {shell_word(name)}' for name in asked)}"
        if watched and WATCHED not in filled:
            hint += (
                f"; if {watched[0]} states what was watched, import the table again with --map"
                f" {shell_word(f'{WATCHED}={watched[0]}')}"
            )
        raise FixUsage(
            f"it is not stated which columns are marks: {few(filled, 10)}",
            where=manifest.name,
            hint=hint,
        )
    return filled


def read_marks(
    tables: Iterable[Path],
    workspace: PathLike | None = None,
    columns: Sequence[str] = (),
) -> Marks:
    """Return the marks of tables; one error lists all violations of a table.

    Args:
        tables: Tables of marks, and the tables of manifests.
        workspace: The workspace of the linked films, whose files give the times of frames.
        columns: The columns of manifests that are marks; empty: those that they state.

    Raises:
        FixInput: A cell is invalid; a film does not have the frames or the rate of a mark; or two
            tables have marks of the same annotator in the same film.
    """
    reader = MarkReader()
    paths = [*dict.fromkeys(tables)]
    for path in paths:
        if read_header_of(path) is None:
            reader.read_table(path)
        else:
            reader.read_manifest(read_manifest(path), path, columns)
    marks = reader.marks(", ".join(map(str, paths)))
    if any(mark.frames for mark in marks):
        films = LinkedFilms(workspace)
        marks = tuple(sorted(at_frames(mark, films) for mark in marks))
    return Marks(marks, reader.clocks.rates)


# ---- tables of a workspace -----------------------------------------------------------------------


def table_of_marks(name: PathLike, workspace: PathLike | None = None) -> Path:
    """Return the file of a table of marks, or the table of a manifest.

    A name is looked up among the tables of the workspace, then among its manifests.
    """
    path = Path(name)
    if path.suffix.lower() in TABLE_ENDINGS or path.is_file():
        return path
    here = Workspace.of(workspace)
    own = here.folder(FOLDER) / f"{path.name}.csv"
    if own.is_file() and path.name == str(name):
        return own
    is_manifest = here.manifest(str(name)).is_file()
    if path.is_dir() and not is_manifest and find_files(path, (ELAN,)):
        raise FixUsage(
            "expected a table of marks, got a folder of ELAN files",
            where=str(name),
            hint=f"obygaze marks import {shell_word(path)} -o NAME",
        )
    return here.existing_manifest(str(name)).with_suffix(".csv")


def find_marks(name: PathLike, workspace: PathLike | None = None) -> Path | None:
    """Return the file of a table of marks, or None if the name is that of a manifest.

    Raise an error if the workspace has a table of marks and a manifest with this name.
    """
    here = Workspace.of(workspace)
    path = table_of_marks(name, here)
    header = here.manifest(str(name))
    # Another TOML file, such as a protocol, may lie beside a table of marks.
    has_clips = header.is_file() and b"obygaze-manifest/" in header.read_bytes()
    if has_clips and path.parent == here.folder(FOLDER):
        raise FixUsage(
            "a table of marks and a manifest have this name",
            where=str(name),
            hint="pass a file: segments/NAME.csv, or manifests/NAME.toml",
        )
    return None if has_clips else path


def at_frames(mark: Mark, films: LinkedFilms) -> Mark:
    """Return a mark with the times of its frames in the file of its film.

    A mark without frames, or of a film without a file, stays unchanged.
    """
    film = films.frames(mark.movie_id) if mark.frames else None
    if film is None or not mark.frames:
        return mark
    problem = film.problem_with(mark.frames)
    if problem:
        raise FixInput(
            f"the frames of a mark of {mark.annotator!r} contradict the film {mark.movie_id}:"
            f" {problem}",
            where=str(films.file_of(mark.movie_id)),
        )
    start_s, end_s = film.find_times(mark.frames)
    return mark._replace(start_s=start_s, end_s=end_s)


def at_pictures(marks: Iterable[Mark], films: LinkedFilms) -> list[Mark]:
    """Return marks with times at boundaries of pictures.

    A mark that counts frames gets the times of its frames. The times of each other mark are moved
    to the nearest boundaries. Marks of a film without a linked file stay unchanged.
    """
    placed = []
    for mark in marks:
        boundaries = films.boundaries(mark.movie_id)
        if mark.frames:
            mark = at_frames(mark, films)
        elif boundaries is not None:
            refuse_behind_end(mark, boundaries)
            first, last = pictures_of(boundaries, mark.start_s, mark.end_s)
            mark = mark._replace(start_s=boundaries[first], end_s=boundaries[last + 1])
        placed.append(mark)
    return placed


def refuse_behind_end(mark: Mark, boundaries: Floats) -> None:
    """Raise an error for a mark that ends after its film.

    Such a mark was made on a different copy of the film.
    """
    end_s = boundaries[-1]
    if mark.end_s > end_s + MOST_BEHIND_S:
        raise FixInput(
            f"a mark of {mark.annotator!r} ends at {mark.end_s:.3f} s, after the end of the film"
            f" {mark.movie_id} at {end_s:.3f} s: the mark was made on a different copy"
        )


def written(marks: Iterable[Mark]) -> bytes:
    """Return the CSV table of marks, with columns of frames if a mark counts frames."""
    in_order = sorted(set(marks))
    columns: Sequence[str] = COLUMNS
    if any(mark.frames for mark in in_order):
        columns = COLUMNS_WITH_FRAMES
    rows = []
    for mark in in_order:
        times_s = [round(time_s, DIGITS) for time_s in mark[1:3]]
        first, last, rate = mark.frames or ("", "", None)
        frames = (first, last, frame_rate_text(rate) if rate else "")
        row = (mark.movie_id, *times_s, *mark[3:6], *frames)
        rows.append(row[: len(columns)])
    return csv_bytes(columns, rows)


def marks_by_film(marks: Iterable[Mark]) -> dict[str, list[Mark]]:
    """Return the marks of each film, sorted."""
    films: dict[str, list[Mark]] = {}
    for mark in sorted(marks):
        films.setdefault(mark.movie_id, []).append(mark)
    return films


def columns_in(marks: Iterable[Mark]) -> tuple[str, ...]:
    """Return the columns of marks in this order: `level`, `concepts`, own columns, `comment`.

    `watched` is not among them. If a `watched` mark states that a film was watched for levels,
    `level` is among them even if no mark has a level.
    """
    found = set()
    for mark in marks:
        is_of_levels = mark.column == WATCHED and mark.value == LEVEL
        found.add(LEVEL if is_of_levels else mark.column)
    found.discard(WATCHED)
    place = {LEVEL: 0, CONCEPTS_COLUMN: 1, COMMENT: 3}
    return tuple(sorted(found, key=lambda column: (place.get(column, 2), column)))


def people_of(marks: Iterable[Mark]) -> list[str]:
    """Return the annotators of the marks, sorted."""
    return sorted({mark.annotator for mark in marks})
