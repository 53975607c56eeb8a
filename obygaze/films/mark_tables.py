"""Read tables of marks: what annotators marked in films, and what they watched.

A row is a segment of a film: `movie_id`, `annotator`, `start_frame` and `end_frame` (both included;
or `start_s` and `end_s`, in seconds), `level`, `concepts` joined with '|', and where they are known
`framerate` and `comment`. The level `watched` says only that the annotator has seen these pictures;
a table `NAME.watched.csv` beside `NAME.csv` has more of these rows. Any other word that is no level
is an error.

Names and comments are one line: a line break is a blank. The marks of an annotator in a film are in
one file: the same name in two files may be two people.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from obygaze.films.film_rates import FilmRates, Fps, unknown_rate
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.file_names import single_line
from obygaze_features.core.schema_check import Violations, raise_together
from obygaze_features.core.tables import (
    CsvTable,
    TableRow,
    read_table,
    whole_number,
)
from obygaze_features.manifest.adapters.table_times import check_clocks
from obygaze_features.manifest.frame_rate import (
    frame_rate_text,
    known_frame_rate,
)
from obygaze_features.manifest.listing import TITLE
from obygaze_features.manifest.model import LEVELS, Clip
from obygaze_features.manifest.model import WATCHED as WATCHED
from obygaze_features.manifest.spans import Span, file_of, span_in_film
from obygaze_features.manifest.spelling import Spelling
from obygaze_features.manifest.times import (
    frames_between,
    frames_elsewhere,
    spans_in_films,
)
from obygaze_features.manifest.vocabulary import canonical_concept, canonical_level

SEGMENT_COLUMNS = (
    "movie_id",
    "annotator",
    "start_frame",
    "end_frame",
    "level",
    "concepts",
)
# `when` is in UTC, `mark` an id.
# `framerate` and the times make the table one that other programs can place on other clips.
MORE_COLUMNS = ("framerate", "start_s", "end_s", "comment", "when", "mark")
FRAME_COLUMNS = ("start_frame", "end_frame")
NEEDED_COLUMNS = ("movie_id", "annotator", "level")
TIME_COLUMNS = ("start_s", "end_s")
MISSING_FRAMES = "required column is missing; or start_s and end_s, in seconds"
NO_TIMES = "not known where the clip is in its film: film_start_s and film_end_s say it"
NAME = re.compile(r"\S(.*\S)?", re.DOTALL)
NAME_FORM = "a name without blanks around it"
FILM_SECONDS = re.compile(r"[0-9]{1,6}(\.[0-9]{1,20})?(e-[0-9]{1,2})?")


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of film that one annotator gave a level; both frames are part of it.

    The level `watched` says that the annotator has seen these frames.
    """

    movie_id: str
    annotator: str
    start_frame: int
    end_frame: int
    level: str
    concepts: tuple[str, ...] = ()
    comment: str = ""

    @property
    def is_watched(self) -> bool:
        """Whether it says only that its frames were watched; in manifests its comment does."""
        if self.level == WATCHED:
            return True
        return self.comment == WATCHED and not self.level and not self.concepts


@dataclass(frozen=True)
class Marks:
    """The segments of one or more tables, and rates and titles of films, as far as known."""

    segments: tuple[Segment, ...]
    rates: Mapping[str, Fraction] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)

    def rate_of(self, film: str) -> Fraction:
        """Return the frame rate of a film; an error where the tables do not say it."""
        rate = self.rates.get(film)
        if rate is None:
            raise unknown_rate(film)
        return rate


@dataclass(frozen=True)
class FilmSegments:
    """The segments of one film, and the file of the film where it is known."""

    movie_id: str
    fps: Fraction
    video: Path | None = None
    segments: list[Segment] = field(default_factory=list)

    def ms(self, frame: int) -> int:
        """Return the first whole millisecond at which a frame is shown."""
        return math.ceil(1000 * frame / self.fps)

    @property
    def marks(self) -> list[Segment]:
        """The segments that say more than that they were watched."""
        return [segment for segment in self.segments if not segment.is_watched]


class ReadMark(NamedTuple):
    """A mark in a file of another program, in seconds; level and comment may be empty."""

    annotator: str
    start_s: Fraction
    end_s: Fraction
    level: str = ""
    concepts: tuple[str, ...] = ()
    comment: str = ""


def plain(text: str) -> str:
    """Return text on one line, without characters that cannot be printed.

    Accents are in their letters, so that a name is one however it was typed.
    """
    return single_line("".join(c if c.isprintable() else " " for c in text))


def concept_of(word: str) -> str:
    """Return the concept of a word, or the word itself as the name of a concept."""
    text = plain(word)
    return canonical_concept(text) or text.replace("|", "/")


class SourceFiles(dict[tuple[str, str], Path]):
    """The file that has the marks of a film by an annotator."""

    def add(self, film: str, annotator: str, path: Path) -> None:
        """Add a mark of a file; an error if the annotator has marks of the film in another one."""
        earlier = self.setdefault((film, annotator), path)
        if earlier != path:
            raise FixInput(
                f"two files have marks of {annotator!r} in the film {film}:"
                " they may be of two people",
                where=f"{earlier}, {path}",
                hint="of two people, give each a name (in ELAN, the annotator of the tier), or"
                " import the files of each alone, with a --mapping whose [annotators] says who made"
                " a tier, then obygaze manifest agree with both manifests; of one, make them one"
                " file (in ELAN, File, Merge Transcriptions)",
            )


def watched_path(table: Path) -> Path:
    """Return the table beside a table of marks that says what its annotator has watched."""
    return table.with_name(f"{table.stem}.{WATCHED}.csv")


def own_tables(tables: Sequence[Path]) -> list[Path]:
    """Return each table once, without those beside another, which are read together with it."""
    beside_others = {watched_path(table) for table in tables}
    return [table for table in dict.fromkeys(tables) if table not in beside_others]


def read_marks(tables: Path | Sequence[Path], *, fps: Fps | FilmRates = None) -> Marks:
    """Return the segments of tables, with what was watched; one error has all violations.

    Args:
        tables: One or more tables of marks, or the rows of manifests of segments.
        fps: Frames per second of films without a `framerate` in a table; another rate than that of
            a table is an error.
    """
    given_rates = fps if isinstance(fps, FilmRates) else FilmRates(fps)
    paths = own_tables([tables] if isinstance(tables, Path) else tables)
    rows: list[TableRow] = []
    recorded: set[str] = set()
    sources = SourceFiles()
    spelling = Spelling()
    all_violations = []
    lacks_columns = False
    for path in paths:
        violations = Violations(path)
        table = _read(path, violations, spelling)
        lacks_columns |= not {*NEEDED_COLUMNS}.issubset(table.columns)
        rows_of_table = list(table.rows)
        all_violations.append(violations)
        beside = watched_path(path)
        if beside.is_file():
            violations_beside = Violations(beside)
            rows_of_table += _read(beside, violations_beside, spelling).rows
            all_violations.append(violations_beside)
            recorded.update(row["annotator"] for row in rows_of_table)
        if not rows_of_table and not violations:
            violations.add(None, None, "the table has no segments")
        for row in rows_of_table:
            sources.add(row["movie_id"], row["annotator"], path)
        rows += rows_of_table
    rates = _rates_of_films(rows, given_rates)
    segments = []
    for row in rows:
        segment = segment_of(row, rates, given_rates)
        if segment is not None:
            segments.append(segment)
    hint = None
    if lacks_columns:
        hint = "obygaze manifest import --help; its manifest of such a table is read here, too"
    raise_together("the marks cannot be read", *all_violations, hint=hint)
    segments += _seen_in_marks(segments, recorded)
    titles = {}
    for row in rows:
        title = row.cells.get(TITLE, "")
        if title:
            titles[row["movie_id"]] = title
    return Marks(tuple(segments), rates, titles)


def _seen_in_marks(
    segments: Iterable[Segment], recorded: Collection[str]
) -> list[Segment]:
    """Return the marks as watched segments where nothing else of their film was watched.

    Args:
        segments: Marks, and what was watched.
        recorded: The annotators for whom a table says what they watched, though that be nothing.
    """
    marks: dict[tuple[str, str], list[Segment]] = {}
    with_watched = set()
    for segment in segments:
        key = (segment.movie_id, segment.annotator)
        if segment.is_watched:
            with_watched.add(key)
        elif segment.annotator in recorded:
            marks.setdefault(key, []).append(segment)
    seen = []
    for key, marks_of_film in marks.items():
        if key not in with_watched:
            for mark in marks_of_film:
                frames = (mark.start_frame, mark.end_frame)
                seen.append(Segment(*key, *frames, WATCHED))
    return seen


def read_mark_table(path: Path, data: bytes | None = None) -> Marks:
    """Return the segments of one table, without what is beside it.

    `data` are the bytes of the file, where they were read before.
    """
    violations = Violations(path)
    table = _read(path, violations, Spelling(), data)
    rates = rates_of_rows(table.rows)
    try:
        segments = [segment_of(row, rates) for row in table.rows]
    except FixUsage as error:
        error.hint = "write it in a column framerate of the table"  # there is no --fps
        raise
    violations.raise_if_any("the segments cannot be read")
    return Marks(tuple(filter(None, segments)), rates)


def read_watched(path: Path, annotator: str, columns: Sequence[str]) -> Marks:
    """Return what an annotator watched, from a table of nothing else, which may have no rows.

    Args:
        path: The table.
        annotator: The only annotator that it may have.
        columns: The columns that it may have: who writes it anew would lose others.
    """
    violations = Violations(path)
    table = _read(path, violations, Spelling())
    refuse_other_columns(table, columns, violations)
    rates = rates_of_rows(table.rows)
    segments = []
    for row in table.rows:
        if row["level"] != WATCHED:
            row.add(
                "level",
                f"expected {WATCHED}, got {row['level']!r}: marks have their table",
            )
        if row["annotator"] != annotator:
            row.add("annotator", f"expected {annotator}, got {row['annotator']!r}")
        segment = segment_of(row, rates)
        if segment is not None:
            segments.append(segment)
    violations.raise_if_any("this table of what was watched cannot be read")
    return Marks(tuple(segments), rates)


def refuse_other_columns(
    table: CsvTable, columns: Sequence[str], violations: Violations
) -> None:
    """Add the columns that would be lost, because the page writes the table anew."""
    for name in table.filled_columns:
        if name not in columns:
            problem = "remove this column: the page writes the table anew"
            violations.add(1, name, problem)


def segment_of(
    row: TableRow,
    rates: Mapping[str, Fraction] | None = None,
    given_rates: FilmRates | None = None,
) -> Segment | None:
    """Return the segment of a row; violations of its values are added.

    With the frame rates of films, a row may have times in place of frames.
    """
    for column in ("movie_id", "annotator"):
        row.matching(column, NAME, NAME_FORM)
    given_rate = given_rates.given(row["movie_id"]) if given_rates else None
    _check_rate(row, rates or {}, given_rate)
    frames = _frames_of(row, rates)
    written = row["level"]
    comment = plain(row.cells.get("comment", ""))
    level = canonical_level(written) if written else None
    concepts = _concepts_of(row)
    # A manifest has no level for it: there it is a comment.
    if written == WATCHED or not (written or concepts or comment != WATCHED):
        level = WATCHED
    if level is None:
        row.add("level", f"{row['level']!r} is not one of {', '.join(LEVELS)}")
    if level == WATCHED:
        if concepts or comment not in ("", WATCHED):
            row.add(
                "level", f"{WATCHED} is for time that has no concept and no comment"
            )
        comment = ""
    if frames is None or level is None:
        return None
    annotator = row["annotator"]
    return Segment(row["movie_id"], annotator, *frames, level, concepts, comment)


def _read(
    path: Path,
    violations: Violations,
    spelling: Spelling,
    data: bytes | None = None,
) -> CsvTable:
    """Return a table that has the frames of segments, or their times in seconds.

    A person has one name, as a concept has, however it was typed: that of `spelling`.
    """
    table = read_table(
        path,
        required=NEEDED_COLUMNS,
        violations=violations,
        data=data,
    )
    rows = []
    for row in table.rows:
        cells = dict(row.cells)
        cells["annotator"] = spelling.cell(plain(row["annotator"]), "annotator")
        words = map(plain, cells.get("concepts", "").split("|"))
        cells["concepts"] = "|".join(_spelled(word, spelling) for word in words)
        rows.append(replace(row, cells=cells))
    table = replace(table, rows=tuple(rows))
    columns = set(table.columns)
    has_spans = columns >= {*FRAME_COLUMNS} or columns >= {*TIME_COLUMNS}
    if table.rows and not has_spans:
        missing = next(name for name in FRAME_COLUMNS if name not in columns)
        violations.add(1, missing, MISSING_FRAMES)
        return CsvTable(table.columns, ())
    check_clocks(table.rows, [row.cells for row in table.rows])
    if "video" in columns and not all(map(has_frames, table.rows)):
        return replace(table, rows=_in_films(table.rows))
    return table


def _spelled(concept: str, spelling: Spelling) -> str:
    """Return a concept; one that the vocabulary does not have, in its one spelling."""
    if canonical_concept(concept):
        return concept
    return spelling.word(concept, "concepts")


def has_frames(row: TableRow) -> bool:
    """Return whether frames say where a row is; in merged tables, some rows have only times."""
    return all(row.cells.get(name) for name in FRAME_COLUMNS)


def _in_films(rows: Sequence[TableRow]) -> tuple[TableRow, ...]:
    """Return the rows of a manifest of clips with their times in the film.

    Such a row may have times in the file of its clip, which say nothing of the film.
    """
    clips = [clip_of_row(row, f"line {row.line}") for row in rows]
    span_of_clip = spans_in_films(clips)
    in_films = []
    for row, clip in zip(rows, clips, strict=True):
        span = span_of_clip.get(clip.clip_id)
        if has_frames(row):
            in_films.append(row)
            continue
        if span is not None:
            times = dict(zip(TIME_COLUMNS, map(repr, span), strict=True))
            row = replace(row, cells={**row.cells, **times})
        elif file_of(clip):
            row.add(TIME_COLUMNS[0], NO_TIMES)
        in_films.append(row)
    return tuple(in_films)


def clip_of_row(row: TableRow, clip_id: str) -> Clip:
    """Return the clip of a row, without times where its cells are none."""
    start_s, end_s = (_seconds(row.cells.get(name, "")) for name in TIME_COLUMNS)
    concepts = row.cells.get("concepts", "")
    return Clip(
        clip_id=clip_id,
        movie_id=row["movie_id"],
        scene=whole_number(row.cells.get("scene", "")),
        video=row.cells.get("video", ""),
        start_s=start_s,
        end_s=end_s,
        level=row.cells.get("level", ""),
        concepts=tuple(concepts.split("|")) if concepts else (),
        extra=row.cells,
    )


def _seconds(cell: str) -> float | None:
    return float(cell) if FILM_SECONDS.fullmatch(cell) else None


def rates_of_rows(rows: Iterable[TableRow]) -> dict[str, Fraction]:
    """Return the frame rate of each film, as far as its rows say it."""
    return _rates_of_films(rows, FilmRates())


def _rates_of_films(
    rows: Iterable[TableRow], given_rates: FilmRates
) -> dict[str, Fraction]:
    """Return the frame rate of each film: the first of its segments, else that of elsewhere."""
    rates: dict[str, Fraction] = {}
    films: dict[str, None] = {}
    for row in rows:
        film = row["movie_id"]
        films[film] = None
        rate = known_frame_rate(row.cells.get("framerate", ""))
        if rate is not None:
            rates.setdefault(film, rate)
    for film in films:
        found = None if film in rates else given_rates.rate_of(film)
        if found is not None:
            rates[film] = found
    return rates


def _check_rate(
    row: TableRow, rates: Mapping[str, Fraction], given_rate: Fraction | None
) -> None:
    """Add what is wrong with the frame rate of a row."""
    written = row.cells.get("framerate", "")
    if not written:
        return
    rate = known_frame_rate(written)
    rate_of_film = rates.get(row["movie_id"])
    if rate is None:
        row.add("framerate", f"{written!r} is not a frame rate")
    elif given_rate not in (None, rate):
        row.add(
            "framerate", f"{written} is not the rate given by --fps; leave out --fps"
        )
    elif rate_of_film not in (None, rate):
        shown = frame_rate_text(rate_of_film)
        row.add("framerate", f"{written} is not that of the film's other rows, {shown}")


def _frames_of(
    row: TableRow, rates: Mapping[str, Fraction] | None
) -> tuple[int, int] | None:
    """Return the first and the last frame of a row, from its times where it has no frames."""
    has_times = all(row.cells.get(name) for name in TIME_COLUMNS)
    is_of_frames = not has_times and row.cells.keys() >= {*FRAME_COLUMNS}
    if rates is None or is_of_frames or has_frames(row):
        frames = row.frames()
        if rates is not None:
            times_s = span_in_film(clip_of_row(row, f"line {row.line}"))
            check_times(row, frames, rates.get(row["movie_id"]), times_s)
        return frames
    start = row.matching("start_s", FILM_SECONDS, "a time in seconds")
    end = row.matching("end_s", FILM_SECONDS, "a time in seconds")
    if start is None or end is None:
        return None
    rate = rates.get(row["movie_id"])
    if rate is None:
        raise unknown_rate(row["movie_id"])
    first, last = frames_between(Fraction(start[0]), Fraction(end[0]), rate)
    if last < first:
        row.add(
            "end_s",
            f"no frame is between these times at {float(rate):g} frames per second",
        )
        return None
    return first, last


def check_times(
    row: TableRow,
    frames: tuple[int, int] | None,
    rate: Fraction | None,
    times_s: Span | None,
) -> None:
    """Add that the frames of a row are not at its times in the film, at the rate of the marks."""
    if frames is None or rate is None or times_s is None:
        return
    problem = frames_elsewhere(frames, rate, times_s)
    if problem:
        row.add(FRAME_COLUMNS[0], problem)


def _concepts_of(row: TableRow) -> tuple[str, ...]:
    text = row.cells.get("concepts", "")
    if text.startswith("["):
        row.add("concepts", f"{text!r} is a list; join concepts with '|'")
    names = map(plain, text.split("|"))
    return tuple(dict.fromkeys(name for name in names if name))
