"""Read any table of clips, with a mapping of its columns and words to those of a manifest.

Three steps stand apart. The table is read as texts (`table_reading`). It is decided what they mean:
what nobody stated is a question with a likely answer (`table_questions`). And clips are made, in
which nothing is asked any more (`table_cells`). All questions, and all cells that are wrong, are
refused together, with one command that answers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from msgspec import structs

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage, near
from obygaze_features.core.file_names import printable_line
from obygaze_features.core.files import is_workbook, write_new
from obygaze_features.core.schema_check import raise_together
from obygaze_features.core.shell import shell_line, shell_word
from obygaze_features.core.tables import thousands_text
from obygaze_features.manifest.adapters import ImportedManifest, source_of
from obygaze_features.manifest.adapters.table_cells import (
    ALL_TIMES,
    MadeClips,
    make_clips,
    sources_of,
)
from obygaze_features.manifest.adapters.table_coders import (
    check_coders,
    made_of_coders,
    source_columns,
)
from obygaze_features.manifest.adapters.table_ids import (
    changed_ids,
    columns_of_form,
    hidden_columns,
)
from obygaze_features.manifest.adapters.table_mapping import (
    TableMapping,
    chosen_mapping,
    typed_mapping,
    write_mapping_file,
)
from obygaze_features.manifest.adapters.table_questions import (
    TableQuestion,
    decide,
    same_words,
)
from obygaze_features.manifest.adapters.table_reading import ReadTables, read_tables
from obygaze_features.manifest.adapters.table_times import in_seconds, is_short
from obygaze_features.manifest.annotators import (
    AGREED,
    WAYS_OF_RULES,
    differing_clips,
    how_they_differ,
    labelled,
    orders_of,
    sorted_annotations,
)
from obygaze_features.manifest.expression import CONCEPTS
from obygaze_features.manifest.io import annotators_of, read_annotations, toml_string
from obygaze_features.manifest.listing import TITLE
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    FOLD_PREFIX,
    NAME_COLUMN,
    NO_FILMS,
    NO_LEVEL,
    TARGETS,
    Header,
    Manifest,
    own_columns,
)
from obygaze_features.manifest.own_labels import column_words, words_alike
from obygaze_features.manifest.spans import RATE_COLUMN, span_in_file
from obygaze_features.manifest.vocabulary import concepts

SUMMARY = "the table cannot be imported"
CORRECT = "correct the table, as the lines above say"
# A time of a sheet that is shown with seconds and has none.
WHOLE_MINUTES = re.compile(r"(?!0:00)[0-9]+:[0-9]{2}:00")


def read(
    csv: str | Path | Sequence[str | Path],
    columns: Mapping[str, str] | None = None,
    *,
    mapping: TableMapping | str | Path | None = None,
    form: str = "",
    films: Literal["none"] | None = None,
    sheet: str = "",
    words: Mapping[str, str] | None = None,
    rule: str = "",
    orders: Mapping[str, str] | None = None,
    write_mapping: str | Path | None = None,
    name: str | None = None,
    command: Sequence[str] = (),
) -> ImportedManifest:
    """Read any table, with a mapping of its columns.

    Args:
        csv: The table: text, a spreadsheet or parquet. Several are those of several people, about
            the same clips.
        columns: The column of the table, or `=value`, for each of the manifest; it takes precedence
            over the mapping.
        mapping: The mapping, or its file.
        form: What clip ids are made of.
        films: "none" if the table states no films.
        sheet: The name of the sheet of a spreadsheet, by default the likely one.
        words: The level or the concepts that a word of the table means.
        rule: What becomes the label where people differ.
        orders: The words of a column from the lowest, separated by commas.
        write_mapping: A file for the mapping that was used; of a table that leaves questions open,
            for a draft with the likely answers.
        name: The name of the manifest, by default that of the file.
        command: The words of the command that was typed, without the options of tables.
    """
    paths = [Path(csv)] if isinstance(csv, str | Path) else [Path(path) for path in csv]
    called = name or paths[0].stem
    options = {"id": form, "films": films, "sheet": sheet, "rule": rule}
    typed = typed_mapping(columns or {}, words or {}, orders=orders, **options)
    stated = chosen_mapping(paths[0], mapping, typed)
    _check_films_none(stated)
    check_coders(stated)
    tables = read_tables(paths, stated)
    _check_targets(stated, tables.columns)
    names = [*map(str, paths)]
    words_typed = [*command] or ["obygaze", "manifest", "import", *names, "-o", called]
    is_file = isinstance(mapping, str | Path)
    with_mapping = ["--mapping", str(mapping)] if is_file else []
    asked = _Asked(tables, typed, write_mapping, words_typed, with_mapping)
    decided, questions = decide(tables, stated)
    asked.add(questions, decided)
    made = make_clips(tables, decided)
    manifest = _manifest(paths, called, made, decided)
    if not decided.rule and (len(paths) > 1 or made.annotations):
        asked.add(_question_of_rule(manifest), decided)
    asked.refuse(stated)
    manifest = _labelled(manifest, paths[0], made, decided)
    if write_mapping is not None:
        write_mapping_file(Path(write_mapping), used_mapping(decided, tables))
    return _imported(tables, decided, made, manifest)


def _check_films_none(mapping: TableMapping) -> None:
    """Raise an error if a table without films is to have a column of films."""
    if mapping.films and "movie_id" in (
        *mapping.columns,
        *columns_of_form(mapping.id),
    ):
        raise FixUsage(
            'films = "none" says that the table states no films, and movie_id is asked for',
            hint="leave out one of the two",
        )


def _check_targets(mapping: TableMapping, columns: Collection[str]) -> None:
    """Raise an error for a target that no manifest has.

    A column that is called as one of a manifest, and is none, may get a name of its own.
    """
    mapped = mapping.columns
    unknown = [
        target
        for target, source in mapped.items()
        if target not in (*TARGETS, source)
        and not target.startswith(FOLD_PREFIX)
        and not (source in (*TARGETS, *CONCEPTS) and source in columns)
    ]
    for target in unknown:
        raise FixUsage(
            f"a manifest has no column {target!r}{near(target, TARGETS)}",
            hint=f"leave it out, and the column {mapped[target]!r} keeps its name; or"
            f" --map TARGET=COLUMN with one of {', '.join(TARGETS)}, fold:NAME",
        )


# --- What is refused: all questions, and all cells that are wrong ---


@dataclass
class _Asked:
    """What is asked of a table, and how it is answered.

    Attributes:
        tables: The tables.
        typed: What was typed.
        target: The file of the mapping, if one is asked for.
        command: The command that imports the table, without options of tables.
        with_mapping: The option of the mapping that was typed.
        questions: The questions.
        n_asked: How many problems of the tables are questions.
    """

    tables: ReadTables
    typed: TableMapping
    target: str | Path | None
    command: list[str]
    with_mapping: list[str]
    questions: list[TableQuestion] = field(default_factory=list)
    n_asked: int = 0

    def add(self, questions: Iterable[TableQuestion], decided: TableMapping) -> None:
        """Add questions, at the columns that are likely to be meant."""
        n_before = self._n_problems
        for question in questions:
            for violations in self.tables.violations:
                violations.names = {**violations.names, **decided.names_in_table}
            question.add_to(self.tables)
            self.questions.append(question)
        self.n_asked += self._n_problems - n_before

    @property
    def _n_problems(self) -> int:
        return sum(map(len, self.tables.violations))

    def refuse(self, stated: TableMapping) -> None:
        """Raise one error of all questions and all cells that are wrong, if there are any."""
        if not self._n_problems:
            return
        answers = TableMapping(sheet=self.tables.sheet)
        for question in self.questions:
            answers = answers.joined(question.answer)
        typed = self.typed.joined(answers).typed()
        line = shell_line([*self.command, *self.with_mapping, *typed])
        path = Path(next(iter(self.tables.tables)))
        draft = shell_word(f"{path.stem}-mapping.toml")
        to_file = f"--write-mapping {draft} writes them to a file"
        try:
            raise_together(SUMMARY, *self.tables.violations, hint=CORRECT)
        except FixInput as error:
            if self._n_problems > self.n_asked:
                ways = (
                    f"of the corrected table, the likely answers are: {line}; {to_file}"
                )
            else:
                ways = f"the line below has the likely answers, to be looked through; {to_file}"
                error.hint = line
            if self.questions:
                remark = same_words(self.tables, stated.joined(answers))
                error.details += (*filter(None, [remark]), ways)
                if self.target is not None:
                    self._write(Path(self.target), stated.joined(answers), error)
            raise

    def _write(self, path: Path, mapping: TableMapping, error: FixInput) -> None:
        """Write the mapping with the likely answers, and raise that it was written.

        A file that is there is not replaced, as a person may have written into it; then the error
        of the import says so.
        """
        again = shell_line([*self.command, "--mapping", path])
        try:
            comments = self._comments(mapping, error.details[:-1])
            write_new(path, mapping.toml(comments).encode("utf-8"))
        except AlreadyThere:
            shown = shell_word(path)
            error.hint = (
                f"{shown} is there: correct it, then {again}; or name another file"
            )
            return
        draft = Draft(path, error.details[:-1], again)
        raise DraftWritten(str(draft), draft=draft, details=draft.problems) from error

    def _comments(self, mapping: TableMapping, problems: Sequence[str]) -> list[str]:
        """Return what a draft says: the questions that it answers, and the columns that stay."""
        comments = ["Likely answers to these questions. Look through them.", *problems]
        stay = own_columns(sources_of(self.tables, mapping))
        if stay:
            comments.append("These columns keep their names:")
        for column in stay:
            words = few([*dict.fromkeys(self.tables.cells(column))], 3)
            comments.append(f"  {column}: {words}")
        return [printable_line(comment) for comment in comments]


@dataclass(frozen=True)
class Draft:
    """A draft of a mapping that was written, in place of a manifest.

    `problems` are why the table does not fit, and `again` is the command that takes the draft.
    """

    path: Path
    problems: tuple[str, ...]
    again: str

    def to_json(self) -> dict[str, Any]:
        """Return where the draft is, and why the table does not fit."""
        return {"draft": str(self.path), "problems": list(self.problems)}

    def __str__(self) -> str:
        return f"{self.path}: a draft of a mapping; no manifest is made yet"

    @property
    def notes(self) -> list[str]:
        """Return why the table does not fit, and what to do with the draft."""
        look = f"look through the answers in {shell_word(self.path)}"
        return [*self.problems, f"next: {look}, then {self.again}"]


class DraftWritten(FixInput):
    """A table does not fit, and a draft of its mapping was written, as somebody asked."""

    def __init__(self, message: str, *, draft: Draft, details: Sequence[str]) -> None:
        super().__init__(message, details=details)
        self.draft = draft


def _question_of_rule(manifest: Manifest) -> list[TableQuestion]:
    """Return the question what the label is where annotators differ, if they do."""
    # A row without a name is a violation.
    named = tuple(one for one in manifest.annotations if one.annotator)
    differing = differing_clips(replace(manifest, annotations=named))
    if not differing:
        return []
    sentence = f"{how_they_differ(manifest, differing)}; {WAYS_OF_RULES}"
    return [TableQuestion(sentence, TableMapping(rule=AGREED))]


# --- The manifest ---


def _manifest(
    paths: Sequence[Path], name: str, made: MadeClips, mapping: TableMapping
) -> Manifest:
    """Return the manifest of clips, without labels of what several people said."""
    folder = paths[0].parent
    videos = {clip.video for clip in made.clips if clip.video}
    # Names of which none is a path wait for `manifest link`.
    is_linked = any(_is_file(folder / video) for video in videos)
    header = Header(
        mapping.dataset or (paths[0].stem if len(paths) == 1 else name),
        {**concepts(), **mapping.modalities},
        films=NO_FILMS if mapping.films else "",
        licence=mapping.licence,
        citation=mapping.citation,
        video_root=folder.resolve().as_posix() if is_linked else "",
        sources=tuple(map(source_of, paths)),
    )
    return Manifest(name, header, made.clips, made.columns, made.annotations)


def _is_file(path: Path) -> bool:
    """Return whether a file is there; False also for a name that no file can have."""
    try:
        return path.is_file()
    except OSError:
        return False


def _labelled(
    manifest: Manifest, path: Path, made: MadeClips, mapping: TableMapping
) -> Manifest:
    """Return the manifest with one label a clip, also of what stands in a table beside a table."""
    beside = annotators_of(path)
    if not beside.is_file():
        return labelled(manifest, mapping.rule or None, orders_of(mapping.orders))
    ids = {clip.clip_id for clip in made.clips}
    said = read_annotations(beside, ids, manifest.header.concepts, made.spelling)
    if said and made.annotations:
        raise FixInput(
            f"what annotators say is in {beside.name} beside this table, and in the table itself",
            where=str(path),
            hint="move one of the two tables to another folder",
        )
    header = manifest.header
    if said:
        sources = (*header.sources, source_of(beside))
        header = structs.replace(header, sources=sources)
    manifest = replace(
        manifest,
        header=header,
        annotations=sorted_annotations(said) or made.annotations,
    )
    # The clips of a table with what annotators say beside it have labels.
    if said and not mapping.rule:
        return manifest
    return labelled(manifest, mapping.rule or None, orders_of(mapping.orders))


# --- What a person should know ---


def _imported(
    tables: ReadTables, mapping: TableMapping, made: MadeClips, manifest: Manifest
) -> ImportedManifest:
    """Return the manifest with warnings and notes on how the table was read."""
    warnings = [
        *tables.warnings,
        *_left_out(tables, mapping),
        *_missing_videos(manifest),
        *_maybe_thousands(tables, mapping),
        *changed_ids(made.named, made.rows),
        *_read_as_others(used_mapping(mapping, tables), mapping),
        *words_alike(manifest.clips),
    ]
    words = _words_of_levels(tables, mapping) if mapping.levels else {}
    facts = {"level_words": words} if words else {}
    remark = same_words(tables, mapping)
    notes = [*_notes(manifest, mapping), *_notes_of_times(tables, mapping)]
    notes += filter(None, [remark])
    return ImportedManifest(manifest, tuple(warnings), tuple(notes), facts)


def used_mapping(mapping: TableMapping, tables: ReadTables) -> TableMapping:
    """Return a mapping with all columns and words of tables that it, or the program, reads."""
    made = [*made_of_coders(mapping.coders)]
    if mapping.id:
        made.append("clip_id")
    columns = {}
    for target in (*CLIP_COLUMNS, "annotator", TITLE):
        if target in tables.columns and target not in made:
            columns[target] = target
    levels = {}
    for word in dict.fromkeys(tables.cells(*source_columns("level", mapping))):
        level = mapping.level(word)
        if level and level != word:
            levels[word] = level
    meanings = {}
    for cell in dict.fromkeys(tables.cells(*source_columns("concepts", mapping))):
        for word in mapping.parts(cell):
            concept = mapping.concept(word)
            if concept and concept != word:
                meanings[word] = concept
    read_by_itself = TableMapping(columns=columns, levels=levels, concepts=meanings)
    return read_by_itself.joined(mapping)


def _words_of_levels(tables: ReadTables, mapping: TableMapping) -> dict[str, list[str]]:
    """Return the words of a table for each level."""
    words: dict[str, list[str]] = {}
    for word in dict.fromkeys(tables.cells(*source_columns("level", mapping))):
        words.setdefault(mapping.level(word) or NO_LEVEL, []).append(word)
    if "" in mapping.levels:
        words.setdefault(mapping.levels[""], []).append("(no text)")
    return words


def _left_out(tables: ReadTables, mapping: TableMapping) -> list[str]:
    """Return a sentence on each column whose name another column of the manifest takes."""
    targets = {**dict.fromkeys(made_of_coders(mapping.coders), ""), **mapping.columns}
    hidden = hidden_columns(tables.columns, targets, mapping.id)
    return [
        f"the column {name!r} of the table is left out, because {name} is something else"
        for name in hidden
    ]


def _missing_videos(manifest: Manifest) -> list[str]:
    """Return a sentence on videos that are not in the folder of the table, if others are."""
    folder = manifest.header.video_root
    videos = sorted({clip.video for clip in manifest if clip.video})
    missing = [repr(video) for video in videos if not _is_file(Path(folder, video))]
    if not folder or not missing:
        return []
    n_missing = count(len(missing), "video")
    return [f"{n_missing} missing in {Path(folder)}: {few(missing, 3)}"]


def _maybe_thousands(tables: ReadTables, mapping: TableMapping) -> list[str]:
    """Return a sentence on each column whose decimal commas may be those of thousands."""
    # A rate such as 23,976 has decimals.
    rates = mapping.columns.get(RATE_COLUMN, RATE_COLUMN)
    sentences = []
    for table in tables.tables.values():
        for column, number in table.maybe_thousands.items():
            if column != rates:
                sentences.append(thousands_text(column, number))
    return sentences


def _read_as_others(used: TableMapping, mapping: TableMapping) -> list[str]:
    """Return a sentence on concepts that have another name in the vocabulary, if there are any."""
    others = []
    own = {word.casefold() for word in (*mapping.concepts, *mapping.modalities)}
    for word, name in used.concepts.items():
        if word.casefold() not in (*own, name.casefold()):
            others.append(f"{word!r} is {name!r} in the vocabulary")
    return [f"concepts: {few(others, 3)}"] if others else []


def _notes(manifest: Manifest, mapping: TableMapping) -> list[str]:
    """Return where times are, and what the columns have that keep their name."""
    notes = []
    if any(span_in_file(clip) and not clip.video for clip in manifest):
        notes.append(
            f"start_s and end_s are times in the file that {NAME_COLUMN} names; times in the film"
            " are film_start_s and film_end_s"
        )
    in_ids = columns_of_form(mapping.id)
    kept = [name for name in own_columns(manifest.columns) if name not in in_ids]
    named = [f"{column} ({column_words(manifest.clips, column)})" for column in kept]
    if named:
        notes.append(f"columns kept under their own name: {few(named, 12)}")
    return notes


def _notes_of_times(tables: ReadTables, mapping: TableMapping) -> list[str]:
    """Return how the whole minutes in a sheet were read, which may be meant as seconds."""
    if not mapping.times or not all(map(is_workbook, map(Path, tables.tables))):
        return []
    times = tables.cells(*(mapping.columns.get(name, name) for name in ALL_TIMES))
    with_two_numbers = [cell for cell in times if is_short(cell)]
    with_hours = [cell for cell in times if WHOLE_MINUTES.fullmatch(cell)]
    read_as = []
    for of_form in (with_two_numbers, with_hours):
        if of_form:
            n_times = count(len(of_form), "time")
            seconds = in_seconds(
                of_form[0], has_decimal_comma=True, short=mapping.times
            )
            read_as.append(f"{n_times} such as {of_form[0]} ({float(seconds):.10g} s)")
    if not read_as:
        return []
    return [f"with times = {toml_string(mapping.times)}: {', '.join(read_as)}"]
