"""Marks and scores in files of ELAN and in tables of marks.

ELAN has whole milliseconds. They are rounded up, so that a player that seeks to one shows the
picture; an import takes the nearest boundary of pictures where the film is linked.
"""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from obygaze.films.elan import ElanFile, Tier, write_elan
from obygaze.films.marks import (
    COMMENT,
    CONCEPTS_COLUMN,
    FOLDER,
    LEVEL,
    SCORE,
    WATCHED,
    Mark,
    columns_in,
    in_one_spelling,
    marks_by_film,
    people_of,
    read_marks,
    read_table_of_marks,
    require_one_file,
    table_of_marks,
    word_of,
    written,
)
from obygaze.films.pictures import LinkedFilms
from obygaze.films.predictions import read_predictions
from obygaze.films.sampling import is_drawn
from obygaze_features.core.console import count, few, table
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.file_names import printable_line
from obygaze_features.core.files import write_all_new
from obygaze_features.core.notebook import unknown_name
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import number_of_cell
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.core.written_tables import write_table
from obygaze_features.manifest import read_manifest
from obygaze_features.manifest.annotators import made_columns
from obygaze_features.manifest.expression import plain_value
from obygaze_features.manifest.io import (
    annotations_to_csv,
    annotators_of,
    as_id,
    ids_of_names,
    stale_annotations,
    toml_lines,
)
from obygaze_features.manifest.model import (
    LEVELS,
    NO_FILMS,
    Header,
    Manifest,
    own_columns,
    require_films,
    with_columns_of,
)
from obygaze_features.manifest.times import spans_in_films
from obygaze_features.manifest.vocabulary import concepts

ELAN = ".eaf"
# The tier of clips that are to be marked.
TO_MARK = "to mark"
MOST_WORDS = 30  # of a column in the text of an import
MOST_LETTERS = 28  # of the name of a class or concept in an annotation
_SCORES = re.compile(r"score|cosine|p:.*|score:.*")


# ---- import --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImportedMarks:
    """A table of marks that was written.

    Attributes:
        path: The table.
        marks: The marks.
        left_out: What the files have, and the table has not.
        empty: The tiers without annotations.
        guessed: Tiers of each file that name no annotator, where others do, or where several are
            one column.
        is_of_draw: Whether a tier of drawn clips was read, which a person has filled in.
    """

    path: Path
    marks: tuple[Mark, ...]
    left_out: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    is_of_draw: bool = False

    @property
    def words(self) -> dict[str, dict[str, int]]:
        """The words of each column with their counts, the most frequent first."""
        columns = (*columns_in(self.marks), WATCHED)
        counts = {column: Counter[str]() for column in columns}
        for mark in self.marks:
            counts[mark.column][mark.value] += 1
        return {column: dict(words.most_common()) for column, words in counts.items()}

    def to_json(self) -> dict[str, Any]:
        """Return where the table is, its words, and what was left out."""
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
                rows.append((column, "(others)" if shown else "(texts)", others))
        return table(("column", "word", "marks"), rows)

    @property
    def notes(self) -> list[str]:
        """Return the table, tiers without annotations, and the next command."""
        n_marks = count(len(self.marks), "mark")
        people = few(people_of(self.marks), 5)
        films = few(sorted(marks_by_film(self.marks)), 5)
        notes = [f"wrote {self.path}: {n_marks} of {people} in {films}"]
        if self.empty:
            notes.append(
                f"tiers without annotations: {few(self.empty, 5)}; where the whole film was"
                " looked through for one, --coded COLUMN"
            )
        name = shell_word(self.path.stem)
        # Of clips that were not drawn, one without a mark would be a negative.
        clips = "--clips DRAWN" if self.is_of_draw else "--every SECONDS"
        notes.append(f"next: obygaze manifest project {name} {clips} -o CLIPS")
        return notes

    @property
    def warnings(self) -> list[str]:
        """Return what was left out, and what says nothing of what was watched."""
        sentences = [f"left out: {reason}" for reason in self.left_out]
        sentences += self.guessed
        columns = {WATCHED, *columns_in(self.marks)}
        unknown = sorted(self.words[WATCHED].keys() - columns)
        if unknown:
            shown = few([*map(repr, unknown)], 5)
            sentences.append(
                f"{WATCHED} names a column that was looked for, or {WATCHED} for all; no mark is"
                f" of the column {shown}"
            )
        return sentences


def import_marks(
    files: Sequence[str | Path],
    name: str,
    *,
    tiers: Mapping[str, str] | None = None,
    words: Mapping[str, str] | None = None,
    coded: Collection[str] = (),
    force: bool = False,
    workspace: PathLike | None = None,
) -> ImportedMarks:
    """Write the marks of ELAN files or tables of marks as the table `segments/NAME.csv`.

    The film of an `.eaf` is that of the first video that it names.

    Args:
        files: The files; those with another ending are tables of marks.
        name: The name of the table.
        tiers: The column of a tier, where it is not called as the tier; "" leaves it out.
        words: What words stand for, where they are not themselves; "" leaves marks out.
        coded: Columns that the people looked for in the whole film, also where a tier is empty.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    here = Workspace.of(workspace)
    path = here.folder(FOLDER) / f"{here.new_manifest(name).stem}.csv"
    reader = _Reader(LinkedFilms(here), tiers or {}, words or {}, coded)
    for file in files:
        reader.read(Path(file))
    marks = reader.all_marks(", ".join(map(str, files)))
    write_all_new({path: written(marks)}, force=force)
    reasons = [f"{what}: {n}" for what, n in (+reader.n_left_out).items()]
    return ImportedMarks(
        path,
        marks,
        left_out=tuple(reasons),
        empty=tuple(reader.empty),
        guessed=tuple(reader.guessed),
        is_of_draw=reader.is_of_draw,
    )


class _Reader:
    """Collects the marks of files, under the columns and words that are asked for."""

    def __init__(
        self,
        films: LinkedFilms,
        tiers: Mapping[str, str],
        words: Mapping[str, str],
        coded: Collection[str],
    ) -> None:
        self.films = films
        self.columns = {
            printable_line(tier): _asked(text) for tier, text in tiers.items()
        }
        self.words = {
            printable_line(word): printable_line(new) for word, new in words.items()
        }
        self.coded = [printable_line(column) for column in coded]
        self.marks: list[Mark] = []
        self.n_left_out: Counter[str] = Counter()
        self.empty: list[str] = []
        self.guessed: list[str] = []
        self._read_tiers: dict[str, None] = {}
        self._read_words: dict[str, None] = {}
        self._read_columns: dict[str, None] = {}
        self._no_levels: Counter[str] = Counter()
        self._names_of_films: dict[str, None] = {}
        self._file_of: dict[tuple[str, str], Path] = {}

    @property
    def is_of_draw(self) -> bool:
        """Whether a tier of drawn clips was read."""
        return TO_MARK in self._read_tiers

    def read(self, path: Path) -> None:
        """Add the marks of a file."""
        if path.suffix.lower() == ELAN:
            self._read_elan(path)
        else:
            self._add_all(read_table_of_marks(path).marks, path)

    def all_marks(self, where: str) -> tuple[Mark, ...]:
        """Return the marks with the times of pictures; an error for names that no file has."""
        ids_of_names(self._names_of_films, "film", where)
        known: dict[str, tuple[Collection[str], Collection[str]]] = {
            "tier": (self.columns, self._read_tiers),
            "word": (self.words, self._read_words),
            "column": (self.coded, self._read_columns),
        }
        for noun, (asked, read) in known.items():
            for name in asked:
                if name not in read:
                    raise unknown_name(noun, name, [*read], where=where)
        if self._no_levels:
            shown = [f"{word!r} ({n})" for word, n in self._no_levels.most_common()]
            raise FixInput(
                f"{LEVEL} has the words {', '.join(LEVELS)}, got {few(shown)}",
                where=where,
                hint="--word OLD=S says what a word stands for, --tier OLD=COLUMN makes a column"
                " of your own",
            )
        if not self.marks:
            raise FixInput(
                "the files have no marks",
                where=where,
                hint="--coded COLUMN, of tiers that are empty because nothing was found"
                if self.empty
                else None,
            )
        return in_one_spelling(self.films.at_pictures(self.marks))

    def _read_elan(self, path: Path) -> None:
        file = ElanFile(path)
        film = film_of_elan(file, self.films)
        if film == as_id(_name_of_elan(file)):
            self._names_of_films[_name_of_elan(file)] = None
        tiers: list[tuple[str, Tier]] = []
        for tier in file.tiers():
            column, person = self._column(tier.name, tier.column)
            if not column:
                self.n_left_out[f"the tier {tier.name}"] += len(tier.annotations)
                tiers.append((column, tier))
                continue
            if person:
                stated = tier.annotator if tier.names_annotator else ""
                _refuse_another(person, stated, tier.name, path)
                tier = tier._replace(annotator=person, names_annotator=True)
            tiers.append((column, tier))
            where = f"annotations of {column} without times in the film"
            self.n_left_out[where] += tier.n_without_times
            for start_s, end_s, text in tier.annotations:
                mark = Mark(film, start_s, end_s, column, text, tier.annotator)
                self._add(mark, path)
            if column in self.coded:
                self._add_watched(file, film, column, tier)
            elif not tier.annotations and not tier.n_without_times:
                self.empty.append(f"{column} of {tier.annotator} in {file.path.name}")
        self._say_guessed(path, tiers)

    def _say_guessed(self, path: Path, tiers: Sequence[tuple[str, Tier]]) -> None:
        """Say whose tiers without an annotator became, where they may be of several people.

        Args:
            path: The file.
            tiers: All its tiers, each with its column, "" if it is left out.
        """
        guessed = []
        names_of: dict[str, set[str]] = {}
        for column, tier in tiers:
            # Marks that overlap are in several tiers of one column.
            names_of.setdefault(column, set()).add(tier.column)
            says_something = bool(tier.annotations) or column in self.coded
            if column and says_something and not tier.names_annotator:
                guessed.append((column, tier))
        others_are_named = any(
            tier.names_annotator for _, tier in tiers if tier.column != SCORE
        )
        several_are_one = any(len(names_of[column]) > 1 for column, _ in guessed)
        if guessed and (others_are_named or several_are_one):
            column, last = guessed[-1]
            shown = few([tier.name for _, tier in guessed], 5)
            option = f"--tier {shell_word(f'{last.name}={column}@NAME')}"
            self.guessed.append(
                f"{path.name}: no annotator is named by {shown}: taken for {last.annotator}'s;"
                f" {option} says whose a tier is"
            )

    def _add_watched(self, file: ElanFile, film: str, column: str, tier: Tier) -> None:
        """Add that a person looked for a column in the whole film, but for empty annotations.

        They are to be filled in: what nobody has judged is no negative.
        """
        boundaries = self.films.boundaries(film)
        end_s = file.end_s if boundaries is None else float(boundaries[-1])
        if not end_s:
            raise FixInput(
                f"the length of the film {film} is not known, which {tier.annotator} has watched"
                f" for {column}",
                where=str(file.path),
                hint="obygaze manifest import FOLDER, the folder of the film, links it",
            )
        to_fill = [
            (one.start_s, one.end_s)
            for one in tier.annotations
            if not one.text and not self.words.get("") and one.start_s < end_s
        ]
        reached_s = 0.0
        for start_s, after_s in sorted([*to_fill, (end_s, end_s)]):
            if reached_s < start_s:
                watched = Mark(
                    film, reached_s, start_s, WATCHED, column, tier.annotator
                )
                require_one_file(self._file_of, watched, file.path)
                self.marks.append(watched)
            reached_s = max(reached_s, after_s)

    def _column(self, tier: str, column: str) -> tuple[str, str]:
        """Return the column of a tier, "" for none, and whom an option names for it.

        Scores of models are no marks.
        """
        self._read_tiers |= {tier: None, column: None}
        by_default = "" if column == SCORE else column, ""
        named, person = self.columns.get(tier, self.columns.get(column, by_default))
        self._read_columns[named] = None
        return named, person

    def _add_all(self, marks: Iterable[Mark], path: Path) -> None:
        """Add marks whose columns are not called otherwise yet."""
        for mark in marks:
            column, person = self._column(mark.column, mark.column)
            if column:
                if person:
                    _refuse_another(person, mark.annotator, mark.column, path)
                    mark = mark._replace(annotator=person)
                self._add(mark._replace(column=column), path)
            else:
                self.n_left_out[f"the tier {mark.column}"] += 1

    def _add(self, mark: Mark, path: Path) -> None:
        """Add a mark of a file, a mark for each word of its text."""
        text = self._meaning(mark.value, mark.column)
        require_one_file(self._file_of, mark, path)
        parts = [text] if mark.column == COMMENT else text.split("|")
        for part in parts:
            word = printable_line(part)
            if text == mark.value:
                word = self._meaning(word, mark.column)
            value = word_of(mark.column, word)
            if value:
                self.marks.append(mark._replace(value=value))
            elif word:
                self._no_levels[word] += 1
            else:
                self.n_left_out[f"{mark.column} without a word"] += 1

    def _meaning(self, word: str, column: str) -> str:
        """Return what an option says that a word of a column stands for, else the word."""
        self._read_words[word] = None
        for asked, meaning in self.words.items():
            if plain_value(asked, column) == plain_value(word, column):
                self._read_words[asked] = None
                return meaning
        return word


def _asked(text: str) -> tuple[str, str]:
    """Return the column that a tier is read as, and whose it is; "" where neither is said."""
    before, sign, after = text.partition("@")
    column = printable_line(before)
    person = printable_line(after)
    if sign and not (column and person):
        raise FixUsage(f"--tier has COLUMN or COLUMN@NAME, got {text!r}")
    return column, person


def _refuse_another(person: str, stated: str, tier: str, path: Path) -> None:
    """Raise an error if an option names another person for a tier than its file does."""
    if stated and stated != person:
        raise FixUsage(
            f"the tier {tier} is {stated}'s, got {person}",
            where=str(path),
            hint="--tier names the person of a tier that does not; correct another one in the file",
        )


def film_of_elan(file: ElanFile, films: LinkedFilms) -> str:
    """Return the film of a file: that of its video, which a manifest may be linked to."""
    return films.film_of_file(file.video) or as_id(_name_of_elan(file))


def _name_of_elan(file: ElanFile) -> str:
    """Return how a file calls its film: as its video, else as itself."""
    return Path(file.video).stem or file.path.stem


# ---- export --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExportedFiles:
    """The files of an export, and what they do not have.

    Attributes:
        files: The files.
        without_times: The clips that are left out, as nobody knows where they are.
        left_out: What the files do not say.
        mapping: A sentence if an import of the table needs a mapping that says them, else "".
    """

    files: tuple[Path, ...]
    without_times: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    mapping: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the files, and what is left out."""
        return {
            "written": [str(path) for path in self.files],
            "without_times": list(self.without_times),
            "left_out": list(self.left_out),
        }

    def __str__(self) -> str:
        return "\n".join(map(str, self.files))

    @property
    def warnings(self) -> list[str]:
        """What is left out."""
        sentences = []
        if self.without_times:
            n_clips = count(len(self.without_times), "clip")
            sentences.append(f"{n_clips} without times: {few(self.without_times, 5)}")
        if self.left_out:
            sentences.append(f"the files do not say: {', '.join(self.left_out)}")
        if self.mapping:
            sentences.append(self.mapping)
        return sentences


def export_elan(
    source: PathLike | Manifest,
    output: Path,
    *,
    predictions: PathLike | None = None,
    into: PathLike | None = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> ExportedFiles:
    """Write a table of marks, or the clips of a manifest as marks, as a file for each film.

    Args:
        source: The table of marks or its name, or the manifest.
        output: The file, if there is one film; else the folder.
        predictions: A table of scores of the clips, in place of their labels.
        into: A file of ELAN; it is written as `output`, with the marks of its film as new tiers.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    said = _said_in(source, predictions, workspace)
    if not said.marks:
        raise FixInput("nothing to export: there are no marks", where=str(source))
    marks_of = marks_by_film(said.marks)
    films = LinkedFilms(workspace)
    if into is not None:
        file = ElanFile(Path(into))
        film = film_of_elan(file, films)
        if film not in marks_of:
            raise FixInput(
                f"the file is of the film {film!r}, and the marks are of {few([*marks_of])}",
                where=str(into),
                hint="obygaze manifest link, to the video that the file names",
            )
        scored = {mark.annotator for mark in marks_of[film] if mark.column == SCORE}
        for tier in file.tiers():
            n_to_judge = sum(not text for *_, text in tier.annotations)
            if scored and tier.column == TO_MARK and n_to_judge:
                raise FixInput(
                    f"the tier {tier.name} has {count(n_to_judge, 'clip')} that nobody has judged:"
                    " whoever sees scores would mark what the model says",
                    where=str(into),
                    hint="fill in the tier first",
                )
            if tier.column == SCORE and tier.annotator in scored:
                raise FixInput(
                    f"the file has scores of {tier.annotator} already, in the tier {tier.name}",
                    where=str(into),
                    hint="--into the file without scores",
                )
        path = output if output.suffix.lower() == ELAN else output / file.path.name
        files = {path: file.with_tiers(marks_of[film])}
    else:
        files = _files_of(marks_of, output, films)
    write_all_new(files, force=force)
    return ExportedFiles(tuple(files), tuple(said.without_times), tuple(said.left_out))


def _files_of(
    marks_of: Mapping[str, Sequence[Mark]],
    output: Path,
    films: LinkedFilms,
) -> dict[Path, bytes]:
    """Return a file for each film: of one film the output, else in its folder."""
    is_file = output.suffix.lower() == ELAN
    if is_file and len(marks_of) > 1:
        raise FixUsage(
            f"{output.name} is of one film, and the marks are of {len(marks_of)}",
            hint="a folder and --as elan: a file for each film",
        )
    folder = output.parent if is_file else output
    files = {}
    for film, marks in marks_of.items():
        if film != Path(film).name or "\\" in film:
            raise FixInput(f"the film {film!r} cannot be the name of a file")
        video = films.file_of(film)
        name = film
        # People look for the file by the name of the video.
        if video is not None and as_id(video.stem) == film:
            name = video.stem
        path = output if is_file else folder / f"{name}{ELAN}"
        files[path] = write_elan(marks, video, _relative_path(video, folder))
    return files


class _Said(NamedTuple):
    """The marks of an export, the clips that have no times, and what the files will not say."""

    marks: Sequence[Mark]
    without_times: Sequence[str] = ()
    left_out: Sequence[str] = ()


def _said_in(
    source: PathLike | Manifest,
    predictions: PathLike | None,
    workspace: PathLike | None,
) -> _Said:
    """Return the marks of a table, or those that the clips of a manifest stand for."""
    if not isinstance(source, Manifest) and predictions is None:
        path = table_of_marks(source, workspace)
        folder = Workspace.of(workspace).folder(FOLDER)
        if path == Path(source) or path.parent == folder:
            return _Said(read_marks([path]).marks)
    manifest = read_manifest(source, workspace=workspace)
    films = [clip.movie_id for clip in manifest]
    require_films(films, manifest.name, "clips are marks of no film")
    left_out: list[str] = []
    if predictions is not None:
        said = _predicted(manifest, Path(predictions))
    elif is_drawn(manifest):
        said = [(clip.clip_id, "", TO_MARK, "") for clip in manifest]
        n_labelled = sum(bool(clip.level or clip.concepts) for clip in manifest)
        if n_labelled:
            n_clips = count(n_labelled, "clip")
            left_out.append(f"the labels of {n_clips}, which are to be judged anew")
    else:
        said = _labels_of(manifest)
        left_out += _header_left_out(manifest.header)
        if manifest.annotations:
            left_out.append("the label that a rule made of what each annotator says")
        n_unlabelled = len({*manifest.clip_ids} - {clip_id for clip_id, *_ in said})
        if n_unlabelled:
            left_out.append(f"{count(n_unlabelled, 'clip')} without a label")
    spans_s = spans_in_films(manifest)
    without_times: dict[str, None] = {}
    marks = []
    for clip_id, annotator, column, value in said:
        if clip_id not in spans_s:
            without_times[clip_id] = None
            continue
        film = manifest[clip_id].movie_id
        start_s, end_s = spans_s[clip_id]
        texts = map(printable_line, (column, value, annotator))
        marks.append(Mark(film, start_s, end_s, *texts))
    if not marks and without_times:
        n_clips = count(len(without_times), "clip")
        raise FixInput(
            f"nothing to export: {n_clips} without times in a film", where=manifest.name
        )
    if not marks:
        raise FixInput(
            "nothing to export: no clip has a level or a concept",
            where=manifest.name,
            hint="--predictions TABLE, for what a model says of the clips",
        )
    return _Said(marks, tuple(without_times), left_out)


def _labels_of(manifest: Manifest) -> list[tuple[str, str, str, str]]:
    """Return clip, annotator, column and word of each label: of people where they are known."""
    rows = [
        (one.clip_id, one.annotator, one.level, one.concepts, one.own)
        for one in manifest.annotations
    ]
    if not rows:
        for clip in manifest:
            annotator = clip.extra.get("annotator") or manifest.name
            labels = (clip.level, clip.concepts, clip.extra)
            rows.append((clip.clip_id, annotator, *labels))
    made = made_columns(manifest)
    said = []
    for clip_id, annotator, level, names, cells in rows:
        texts = [(LEVEL, level), *((CONCEPTS_COLUMN, name) for name in names)]
        for column in own_columns(cells):
            if column in made:
                continue
            texts += [(column, word) for word in cells[column].split("|")]
        texts.append((COMMENT, cells.get(COMMENT, "")))
        for column, text in texts:
            if text.strip():
                said.append((clip_id, annotator, column, text))
    return said


def _predicted(
    manifest: Manifest, predictions: Path
) -> list[tuple[str, str, str, str]]:
    """Return what models say of clips: the decision, whether the clip was seen, and scores."""
    table_of_scores = read_predictions(manifest, predictions)
    scored = [name for name in table_of_scores.columns if _SCORES.fullmatch(name)]
    if not scored:
        # Concept vectors have nothing else.
        scored = [n for n in table_of_scores.columns if n.startswith("margin:")]
    score_names = {name: _cut(name) for name in scored}
    if len(scored) == 1 and scored[0].startswith("score:"):
        score_names[scored[0]] = SCORE  # the decision names the task
    said: dict[tuple[str, str, str, str], None] = {}
    for clip, model, row in table_of_scores.clips:
        facts = [_cut(row.cells.get("decision", "")), row.cells.get("basis", "")]
        for name in scored:
            if row[name]:
                facts.append(f"{score_names[name]} {_short(row[name])}")
        said[clip.clip_id, model, SCORE, ", ".join(filter(None, facts))] = None
    return list(said)


def _relative_path(video: Path | None, folder: Path) -> str:
    """Return the path of a video as it is seen from a folder, in the form of ELAN."""
    if video is None:
        return ""
    try:
        path = Path(os.path.relpath(video.resolve(), folder.resolve())).as_posix()
    except ValueError:
        path = video.name  # on another drive of Windows: no path leads there
    return path if path.startswith("../") else f"./{path}"


def _cut(name: str) -> str:
    """Return the beginning of a name, as it is read in ELAN: classes may be expressions."""
    return name if len(name) <= MOST_LETTERS else f"{name[:MOST_LETTERS]}..."


def _short(cell: str) -> str:
    """Return a score with four digits, as it is read in ELAN."""
    number = number_of_cell(cell)
    return cell if number is None else f"{number:.4g}"


def export_table(
    manifest: PathLike | Manifest,
    output: Path,
    *,
    force: bool = False,
    workspace: PathLike | None = None,
) -> ExportedFiles:
    """Write all clips of a manifest as a table, and beside it what annotators say."""
    marked = read_manifest(manifest, workspace=workspace)
    # Windows have the rate of their film, which is no column of their manifest.
    columns = with_columns_of(marked.clips, marked.columns)
    cells = replace(marked, columns=columns).cells_by_column()
    said = annotations_to_csv(marked.annotations)
    beside = {annotators_of(output): said} if said else {}
    stale = stale_annotations(beside, output, force=force)
    path = write_table(output, cells, force=force)
    write_all_new(beside, force=force)
    if stale is not None:
        stale.unlink()
    left_out = _header_left_out(marked.header)
    if marked.header.unit != "clip":
        left_out += (f"that the rows are {marked.header.unit}s",)
    mapping = _mapping_of_header(marked.header)
    return ExportedFiles((path, *beside), left_out=left_out, mapping=mapping)


def _header_left_out(header: Header) -> tuple[str, ...]:
    """Return what the header of a manifest says of its clips, and its clips do not."""
    said = ("licence", "citation", "notes")
    left_out = [name for name in said if getattr(header, name)]
    if header.view != "raw":
        left_out.append(f"that the levels are those of the {header.view} view")
    own = _own_concepts(header)
    if own:
        left_out.append(f"the modality of {few([*own], 3)}")
    return tuple(left_out)


def _own_concepts(header: Header) -> dict[str, str]:
    """Return the concepts whose modality is not that of the vocabulary, with it."""
    known = concepts()
    return {
        name: modality
        for name, modality in header.concepts.items()
        if known.get(name, "unknown") != modality
    }


def _mapping_of_header(header: Header) -> str:
    """Return a sentence on what a mapping must say of a table without this header; "" if nothing.

    Without the modality of a concept of its own, the table is refused.
    """
    of_mapping = []
    if header.films == NO_FILMS:
        of_mapping.append('the line films = "none"')
    if header.licence or header.citation:
        of_mapping.append("its licence and its citation, as lines licence and citation")
    own = _own_concepts(header)
    if own:
        lines = few(toml_lines(own), 3)
        of_mapping.append(f"its own concepts, in a table [concepts]: {lines}")
    if not of_mapping:
        return ""
    return (
        "send with the file what manifest import reads from a --mapping file:"
        f" {'; '.join(of_mapping)}"
    )
