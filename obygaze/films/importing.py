"""Import ELAN files and tables as a table of marks.

ELAN files have times in whole milliseconds. An export rounds times up, so that a player that seeks
to the start of a mark shows the first picture of the mark. If the film is linked to its file, an
import moves each time to the nearest boundary of pictures.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze.films.elan import ElanFile, Tier
from obygaze.films.marks import (
    COMMENT,
    CONCEPTS_COLUMN,
    ELAN,
    FOLDER,
    NO_UNKNOWN,
    SCORE,
    UNKNOWN,
    WATCHED,
    Mark,
    MarkReader,
    at_pictures,
    columns_in,
    is_likely_watched,
    marks_by_film,
    people_of,
    written,
)
from obygaze.films.pictures import LinkedFilms
from obygaze.films.projection import MARK_ROUNDING_S, covered_s
from obygaze_features.core.console import count, few, table
from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.file_names import compose_accents, printable_line
from obygaze_features.core.files import find_files, write_all_new
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.notebook import unknown_name
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.adapters.table_questions import SEPARATORS
from obygaze_features.manifest.io import as_id
from obygaze_features.manifest.vocabulary import canonical_concept

# A mark of a whole film may leave out this much, because people draw it by hand.
MOST_UNMARKED_S = 1.0
MOST_WORDS = 30  # The printed result shows at most this many words of a column.


@dataclass(frozen=True)
class ImportedMarks:
    """A table of marks that was written.

    Attributes:
        path: The table.
        marks: The marks.
        left_out: What the files contain and the table does not, with counts.
        empty: The tiers without annotations.
        guessed: Warnings about empty annotations, about files that name a different video than
            the linked one or start later than their film, and about tiers that name no annotator.
            A file gets the last warning if other tiers of the file name an annotator, or if
            several tiers become one column.
        is_of_draw: Whether a tier of sampled clips was read.
        moves_s: How far each mark was moved to the nearest pictures of a linked film.
        clips: A manifest with clips of all these films, or "".
    """

    path: Path
    marks: tuple[Mark, ...]
    left_out: tuple[str, ...]
    empty: tuple[str, ...]
    guessed: tuple[str, ...]
    is_of_draw: bool
    moves_s: tuple[float, ...] = ()
    clips: str = ""

    @property
    def words(self) -> dict[str, dict[str, int]]:
        """The words of each column with their counts, the most frequent first."""
        columns = (*columns_in(self.marks), WATCHED)
        counts = {column: Counter[str]() for column in columns}
        for mark in self.marks:
            counts[mark.column][mark.value] += 1
        return {column: dict(words.most_common()) for column, words in counts.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the path and the contents of the table, and what was excluded."""
        return {
            "path": str(self.path),
            "films": sorted(marks_by_film(self.marks)),
            "annotators": people_of(self.marks),
            "marks": len(self.marks),
            "columns": self.words,
            "left_out": list(self.left_out),
            "empty": list(self.empty),
        }

    def __str__(self) -> str:
        rows: list[tuple[object, ...]] = []
        for column, words in self.words.items():
            shown = [] if column == COMMENT else [*words.items()][:MOST_WORDS]
            rows += [(column, word, n) for word, n in shown]
            others = sum(words.values()) - sum(n for _, n in shown)
            if others:
                rows.append((column, "(others)", others))
        return table(("column", "word", "marks"), rows)

    @property
    def notes(self) -> list[str]:
        """Return sentences on the table and on tiers without annotations, and the next command."""
        people = few(people_of(self.marks), 5)
        films = few(sorted(marks_by_film(self.marks)), 5)
        notes = [
            f"wrote {self.path}: {count(len(self.marks), 'mark')} of {people} in {films}"
        ]
        moves_s = [move_s for move_s in self.moves_s if move_s > MARK_ROUNDING_S]
        if moves_s:
            notes.append(
                f"moved to the nearest pictures of linked films: {count(len(moves_s), 'mark')},"
                f" by up to {max(moves_s):.3f} s"
            )
        if self.empty:
            notes.append(
                f"tiers without annotations: {few(self.empty, 5)}; if the whole film was coded"
                " for one of them, pass --coded COLUMN"
            )
        name = shell_word(self.path.stem)
        clips = f"--clips {shell_word(self.clips)}" if self.clips else "--every SECONDS"
        clips = "--clips SAMPLE" if self.is_of_draw else clips
        notes.append(f"next: obygaze marks clips {name} {clips} -o CLIPS")
        return notes

    @property
    def warnings(self) -> list[str]:
        """Return sentences on excluded contents, on what was assumed, and on doubtful words."""
        sentences = [f"ignored: {reason}" for reason in self.left_out]
        sentences += self.guessed
        columns = {WATCHED, *columns_in(self.marks)}
        for column in sorted(filter(is_likely_watched, columns - {WATCHED})):
            option = f"--tier {shell_word(f'{column}={WATCHED}')}"
            sentences.append(
                f"the tier {column} may state what was watched; if it does, pass {option}"
            )
        unknown = sorted(self.words[WATCHED].keys() - columns)
        if unknown:
            shown = few([*map(repr, unknown)], 5)
            sentences.append(
                f"{WATCHED}: expected the name of a column with marks, several with | between, or"
                f" {WATCHED} for all columns, got {shown}; a column without marks gets no labels"
            )
        lists = []
        for word in self.words.get(CONCEPTS_COLUMN, {}):
            if canonical_concept(word) is None and any(map(word.count, SEPARATORS)):
                lists.append(repr(word))
        if lists:
            sentences.append(
                f"read as one concept: {few(lists, 5)}; if it is a list of concepts, pass"
                " --word 'A, B=A|B'"
            )
        return sentences


def import_files_of_marks(
    sources: str | Path | Sequence[str | Path],
    name: str | None = None,
    *,
    tiers: Mapping[str, str] | None = None,
    words: Mapping[str, str] | None = None,
    film_names: Mapping[str, str] | None = None,
    coded: Sequence[str] = (),
    force: bool = False,
    workspace: PathLike | None = None,
) -> ImportedMarks:
    """Read ELAN files or tables of marks, and write their marks as `segments/NAME.csv`.

    The columns of a table of marks are movie_id, start_s, end_s, column, value and annotator. An
    ELAN file belongs to the film of the first video that it names.

    Args:
        sources: An ELAN file, a folder of them, a table of marks, or a list of these.
        name: Name of the table of marks; by default the name of the source.
        tiers: The column of each renamed tier, such as level, or level@anna for a column and an
            annotator; an empty text excludes the tier.
        words: The new word of each word; `?` stands for not known, and an empty text excludes the
            marks with this word.
        film_names: The film of each name that the files have for it.
        coded: Columns that were coded in the whole film, even if a tier is empty.
        force: Replace the table if it exists.
        workspace: The workspace, if it is not the current one.
    """
    typed = [sources] if isinstance(sources, str | Path) else list(sources)
    paths = [Path(source) for source in typed]
    here = Workspace.of(workspace)
    called = here.new_manifest(_default_name(paths) if name is None else name).stem
    path = here.folder(FOLDER) / f"{called}.csv"
    files = _files_in(paths)
    columns = {
        printable_line(tier): _parse_target(to) for tier, to in (tiers or {}).items()
    }
    meanings = {
        printable_line(word): printable_line(new) for word, new in (words or {}).items()
    }
    looked_for = [printable_line(column) for column in coded]
    names = film_names or {}
    for film in names.values():
        if not as_id(film) or "|" in as_id(film):
            raise FixUsage(f"--film: expected the name of a film, got {film!r}")
    reader = _ElanReader(LinkedFilms(here), columns, meanings, looked_for, names)
    for file in files:
        if file.suffix.lower() == ELAN:
            reader.read_elan(ElanFile(file))
        else:
            reader.read_table(file)
    reader.add_watched_parts()
    where = ", ".join(map(str, files))
    typed_names: dict[str, Iterable[str]] = {"tier": columns, "word": meanings}
    typed_names |= {"column": looked_for, "film": names}
    for noun, asked in typed_names.items():
        for one in asked:
            if one not in reader.found[noun]:
                raise unknown_name(noun, one, sorted(reader.found[noun]), where=where)
    read = reader.marks(where)
    placed = at_pictures(read, reader.films)
    moves_s = []
    for mark, new in zip(read, placed, strict=True):
        if not mark.frames:
            starts_and_ends = (mark.start_s - new.start_s, mark.end_s - new.end_s)
            moves_s.append(max(map(abs, starts_and_ends)))
    marks = tuple(sorted({*placed}))
    if not marks:
        raise FixInput(
            "the files have no marks",
            where=where,
            hint="pass --coded COLUMN for a tier that is empty because nothing was found"
            if reader.empty
            else None,
        )
    write_all_new({path: written(marks)}, force=force)
    left_out = [f"{what}: {n}" for what, n in (+reader.n_left_out).items()]
    if reader.n_unknown:
        of_columns = [f"{column} {n}" for column, n in reader.n_unknown.items()]
        reader.guessed.append(f"empty annotations, read as ?: {few(of_columns)}")
    return ImportedMarks(
        path,
        marks,
        tuple(left_out),
        tuple(reader.empty),
        tuple(reader.guessed),
        reader.is_of_draw,
        tuple(moves_s),
        reader.films.clips_of(marks_by_film(marks).keys()),
    )


def _default_name(paths: Sequence[Path]) -> str:
    """Return the name of a table of marks if the user gives none."""
    if len(paths) > 1:
        raise FixUsage("--output is required for several files", hint="pass -o NAME")
    return ascii_id(paths[0].resolve().stem) or "marks"


def _files_in(paths: Iterable[Path]) -> list[Path]:
    """Return the files, and the ELAN files of the folders among them."""
    files: list[Path] = []
    for path in paths:
        if not path.exists():
            raise NotFound(
                "no such file or folder", where=str(path), hint="check the name"
            )
        found = find_files(path, (ELAN,)) if path.is_dir() else [path]
        if not found:
            raise NotFound("the folder has no ELAN files", where=str(path))
        files += found
    return files


def _parse_target(text: str) -> tuple[str, str]:
    """Return the column and the annotator of a text COLUMN or COLUMN@NAME, each "" if missing."""
    before, sign, after = text.partition("@")
    column = printable_line(before)
    person = printable_line(after)
    if sign and not (column and person):
        raise FixUsage(
            f"--tier: expected TIER=COLUMN or TIER=COLUMN@NAME, got {text!r}"
        )
    return column, person


class _ElanReader(MarkReader):
    """A reader of marks that can also read ELAN files, and collects warnings about their tiers."""

    def __init__(
        self,
        films: LinkedFilms,
        tiers: Mapping[str, tuple[str, str]],
        words: Mapping[str, str],
        coded: Collection[str],
        film_names: Mapping[str, str],
    ) -> None:
        super().__init__(tiers, words, film_names)
        self.films = films
        self.coded = coded
        self.empty: list[str] = []
        self.guessed: list[str] = []
        # The empty annotations of each column.
        self.n_unknown: Counter[str] = Counter()
        self.is_of_draw = False
        # The file of each film and annotator whose times start later than the film.
        self._with_offset: dict[tuple[str, str], ElanFile] = {}

    def read_elan(self, file: ElanFile) -> None:
        """Add the marks of a file.

        Tiers that name no annotator get that of the file. A warning lists these tiers if they may
        be by several annotators.
        """
        name = elan_film_name(file)
        stated = self.stated_film(name)
        film = "" if stated else find_elan_film(file, self.films)
        film = film or self.film(name)
        linked = self.films.file_of(film)
        named = [*map(compose_accents, (file.video, file.video_as_written))]
        if file.video and linked and compose_accents(linked.name) not in named:
            self.guessed.append(
                f"{file.path.name} names {file.video}, and the linked file of {film} is"
                f" {linked.name}: check that the times of both are the same"
            )
        of_file = elan_annotator(file)
        names_of: dict[str, set[str]] = {}
        unnamed: list[tuple[str, str]] = []
        coded: list[tuple[str, str]] = []
        others_are_named = False
        for tier in file.tiers():
            column, person = self.column_of(
                tier.name, tier.annotator, file.path, tier.column
            )
            others_are_named |= bool(person) and tier.column != SCORE
            # An export splits overlapping marks of a column into numbered tiers: they are one tier.
            names_of.setdefault(column, set()).add(tier.column)
            if not column:
                self.n_left_out[f"the tier {tier.name}"] += len(tier.annotations)
                continue
            if not person and (tier.annotations or column in self.coded):
                unnamed.append((column, tier.name))
            tier = tier._replace(annotator=person or of_file)
            self._add_tier(file, film, column, tier)
            if column in self.coded and not tier.is_drawn:
                coded.append((column, tier.annotator))
            if file.origin_ms > 0:
                self._with_offset[film, tier.annotator] = file
        # All marks of the file are known here, also those of the tier of watched spans.
        for column, name in coded:
            self._add_coded(file, film, column, name)
        without = [column for column in self.coded if column not in names_of]
        if without:
            self.guessed.append(
                f"{file.path.name} has no tier for --coded {few(without)}: it does not count as"
                " coded"
            )
        are_one = any(len(names_of[column]) > 1 for column, _ in unnamed)
        if unnamed and (others_are_named or are_one):
            column, name = unnamed[-1]
            shown = few([tier_name for _, tier_name in unnamed], 5)
            self.guessed.append(
                f"{file.path.name}: {shown} without an annotator; assumed {of_file}. For"
                f" another annotator, pass --tier {shell_word(f'{name}={column}@NAME')}"
            )

    def _add_tier(self, file: ElanFile, film: str, column: str, tier: Tier) -> None:
        """Add the marks of a tier.

        An empty annotation was not judged: it becomes `?`. In a tier of sampled clips, an empty
        annotation becomes no mark, and each annotation with a text also becomes a `watched` mark,
        because the annotator has watched only these clips.
        """
        where = f"annotations of {column} without times in the film"
        self.n_left_out[where] += tier.n_without_times
        self.is_of_draw |= tier.is_drawn
        for start_s, end_s, text in tier.annotations:
            mark = Mark(film, start_s, end_s, column, text, tier.annotator)
            if column == WATCHED and not text:
                mark = mark._replace(value=WATCHED)
            is_blank = not mark.value and not self.words.get("")
            if is_blank and not tier.is_drawn and column not in NO_UNKNOWN:
                self.n_unknown[column] += 1
                mark = mark._replace(value=UNKNOWN)
            if tier.is_drawn and is_blank:
                # In a copy for another person, this is still empty: it is a mark of nobody.
                self.found["word"].add("")
                self.n_left_out[f"empty marks of {column}"] += 1
                continue
            self.add(mark, file.path)
            if tier.is_drawn:
                self.add(mark._replace(column=WATCHED, value=column), file.path)
        is_coded = column in self.coded and not tier.is_drawn
        if not (is_coded or tier.annotations or tier.n_without_times):
            self.empty.append(f"{column} of {tier.annotator} in {file.path.name}")

    def _add_coded(self, file: ElanFile, film: str, column: str, name: str) -> None:
        """Add the mark of a column that an annotator has coded in the whole film.

        Raise an error if the length of the film is unknown, or if the annotator's own `watched`
        marks for this column leave a part of the film out.
        """
        boundaries = self.films.boundaries(film)
        if boundaries is None:
            raise FixInput(
                f"--coded {column} of {name}: the length of the film {film} is unknown, because"
                " there is no linked file of the whole film",
                where=str(file.path),
                hint="import the folder of the film: obygaze manifest import FOLDER; or mark the"
                f" whole film with the word {column} in a tier {WATCHED}",
            )
        offset_s = max(0, file.origin_ms) / 1000
        first_s = max(boundaries[0], offset_s)
        whole = Mark(film, first_s, boundaries[-1], WATCHED, column, name)
        watched = self._watched(film, column, name)
        watched_s = covered_s(sorted(at_pictures(watched, self.films)), whole)
        length_s = whole.end_s - whole.start_s
        if watched and watched_s < length_s - MOST_UNMARKED_S:
            raise FixInput(
                f"--coded {column} of {name}: the marks of {WATCHED} state that {watched_s:.3f} s"
                f" of the film {film} were watched, not all {length_s:.3f} s",
                where=str(file.path),
                hint=f"import without --coded {column}; in the file of a film that was coded whole,"
                f" mark the whole film with the word {column} in a tier {WATCHED}",
            )
        self.add(whole._replace(start_s=offset_s), file.path)

    def add_watched_parts(self) -> None:
        """Add marks of what could be watched in files whose times start later than their film.

        This is for columns of which no mark states what was watched: of these, the whole film would
        count as watched, also the start that the file does not have.
        """
        for (film, name), file in self._with_offset.items():
            said = {mark.column for mark in self.marks_of(film, name)} - {*NO_UNKNOWN}
            columns = [
                one for one in sorted(said) if not self._watched(film, one, name)
            ]
            if not columns:
                continue
            start_s = file.origin_ms / 1000
            boundaries = self.films.boundaries(film)
            ends_s = [mark.end_s for mark in self._marks if mark.movie_id == film]
            end_s = boundaries[-1] if boundaries else max(ends_s)
            for column in columns:
                self.add(Mark(film, start_s, end_s, WATCHED, column, name), file.path)
            self.guessed.append(
                f"{file.path.name} starts at {start_s:.3f} s of the film {film}: {few(columns)} of"
                f" {name} counts as watched from there on"
            )

    def _watched(self, film: str, column: str, name: str) -> list[Mark]:
        """Return the marks that state what an annotator watched for a column."""
        words = (WATCHED, column.casefold())
        return [
            mark
            for mark in self.marks_of(film, name)
            if mark.column == WATCHED and mark.value.casefold() in words
        ]


def find_elan_film(file: ElanFile, films: LinkedFilms) -> str:
    """Return the film whose linked video an ELAN file names, or "" if there is none."""
    return films.film_of_file(file.video) or films.film_of_file(file.video_as_written)


def elan_film_name(file: ElanFile) -> str:
    """Return the name of the film of an ELAN file: the name of its video, or of the file itself."""
    return Path(file.video).stem or file.path.stem


def elan_annotator(file: ElanFile) -> str:
    """Return the annotator of the tiers of an ELAN file that name none.

    It is the author of the file; else what the name of the file has beside the name of the film,
    such as anna in `lake_anna.eaf`; else the name of the folder, such as anna in `anna/lake.eaf`.
    """
    if file.author:
        return file.author
    name = printable_line(compose_accents(file.path.stem))
    film = printable_line(compose_accents(elan_film_name(file)))
    before = name[: -len(film)]
    after = name[len(film) :]
    begins_with_film = name[: len(film)].casefold() == film.casefold()
    ends_with_film = name[-len(film) :].casefold() == film.casefold()
    if begins_with_film and not after[:1].isalnum():
        name = after
    elif ends_with_film and not before[-1:].isalnum():
        name = before
    folder = printable_line(file.path.resolve().parent.name)
    return name.strip(" _-.()") or folder or film
