"""Read any table of clips, with a mapping of its columns and words to those of a manifest.

Three steps stand apart. The table is read as texts (`table_reading`). It is decided what they mean:
what nobody stated is a question with a likely answer (`table_questions`). And clips are made, in
which nothing is asked any more (`table_cells`). All questions, and all cells that are wrong, are
refused together, with one command that answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from msgspec import structs

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage, near
from obygaze_features.core.file_names import printable_line
from obygaze_features.core.files import write_new
from obygaze_features.core.schema_check import raise_together
from obygaze_features.core.shell import shell_line, shell_word
from obygaze_features.core.tables import thousands_text
from obygaze_features.manifest.adapters import ImportedManifest, source_of
from obygaze_features.manifest.adapters.table_cells import (
    MadeClips,
    make_clips,
    sources_of,
)
from obygaze_features.manifest.adapters.table_mapping import (
    TableMapping,
    chosen_mapping,
)
from obygaze_features.manifest.adapters.table_questions import Known, decide
from obygaze_features.manifest.adapters.table_reading import (
    SUMMARY,
    TableCells,
    read_tables,
)
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
from obygaze_features.manifest.io import annotators_of, read_annotations
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    FOLD_PREFIX,
    NO_FILMS,
    NO_LEVEL,
    TARGETS,
    Header,
    Manifest,
    own_columns,
)
from obygaze_features.manifest.own_labels import column_words
from obygaze_features.manifest.spans import RATE_COLUMN

CORRECT = "correct the table, as the lines above say"


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
    options = {
        "id": form,
        "films": films,
        "sheet": sheet,
        "rule": rule,
        "orders": orders,
    }
    stated, typed = chosen_mapping(
        paths[0], mapping, columns or {}, words or {}, **options
    )
    table = read_tables(paths, stated)
    _check_targets(stated, table)
    n_before = table.n_problems
    known = decide(table, stated)
    decided = known.mapping
    n_asked = table.n_problems - n_before
    made = make_clips(table, decided)
    manifest = _manifest(paths, called, made, decided)
    if not decided.rule and (len(paths) > 1 or made.annotations):
        # A row without a name is a violation.
        named = tuple(one for one in manifest.annotations if one.annotator)
        differing = differing_clips(replace(manifest, annotations=named))
        if differing:
            sentence = f"{how_they_differ(manifest, differing)}; {WAYS_OF_RULES}"
            known.ask(sentence, TableMapping(rule=AGREED))
            n_asked += 1
    if table.n_problems:
        line = [*command] or [
            "obygaze",
            "manifest",
            "import",
            *map(str, paths),
            "-o",
            called,
        ]
        if isinstance(mapping, str | Path):
            line += ["--mapping", str(mapping)]
        _refuse(known, n_asked, line, typed, write_mapping)
    manifest = _labelled(manifest, paths[0], made, decided)
    if write_mapping is not None:
        try:
            write_new(Path(write_mapping), used_mapping(decided, table).toml().encode())
        except AlreadyThere as error:
            error.hint = "choose another name, or delete the file"
            raise
    return _imported(table, decided, made, manifest)


def _check_targets(mapping: TableMapping, table: TableCells) -> None:
    """Raise an error for a target that no manifest has, or that is stated in two ways.

    A column that is called as one of a manifest, and is none, may get a name of its own.
    """
    if mapping.films and "movie_id" in (*mapping.columns, *mapping.columns_of_id):
        raise FixUsage(
            'films = "none" says that the table states no films, and movie_id is asked for',
            hint="leave out one of the two",
        )
    for target, source in mapping.columns.items():
        is_renamed = source in (*TARGETS, *CONCEPTS) and source in table.cells
        is_known = target in (*TARGETS, source) or target.startswith(FOLD_PREFIX)
        if not is_known and not is_renamed:
            raise FixUsage(
                f"a manifest has no column {target!r}{near(target, TARGETS)}",
                hint=f"leave it out, and the column {source!r} keeps its name; or"
                f" --map TARGET=COLUMN with one of {', '.join(TARGETS)}, fold:NAME",
            )
        if target in mapping.made_of_people:
            raise FixUsage(
                f"{target} is mapped to {source!r} and to columns of people",
                hint=f"leave out {shell_word(f'{target}={source}')}, and the column {source!r}"
                " keeps its name",
            )


# --- What is refused: all questions, and all cells that are wrong ---


def _refuse(
    known: Known,
    n_asked: int,
    command: Sequence[str],
    typed: TableMapping,
    draft: str | Path | None,
) -> None:
    """Raise one error of all questions and all cells that are wrong.

    Args:
        known: The table, and the likely answers.
        n_asked: How many problems of the table are questions.
        command: The command that imports the table, without options of tables.
        typed: The part of the mapping that was typed.
        draft: The file for a mapping with the likely answers. One that is there is not replaced, as
            a person may have written into it.
    """
    table = known.table
    line = shell_line([*command, *typed.joined(known.answers).typed()])
    to_file = shell_word(f"{Path(next(iter(table.tables))).stem}-mapping.toml")
    hint = line
    ways = "the line below has the likely answers, to be looked through"
    if table.n_problems > n_asked:
        hint = CORRECT
        ways = f"of the corrected table, the likely answers are: {line}"
    try:
        raise_together(SUMMARY, *table.violations, hint=hint)
    except FixInput as error:
        problems = error.details
        if n_asked:
            error.details += (
                f"{ways}; --write-mapping {to_file} writes them to a file",
            )
        if not n_asked or draft is None:
            raise
        again = shell_line([*command, "--mapping", draft])
        comments = ["Likely answers to these questions. Look through them.", *problems]
        mapping = known.mapping.toml(map(printable_line, comments))
        try:
            write_new(Path(draft), mapping.encode())
        except AlreadyThere:
            shown = shell_word(draft)
            error.hint = (
                f"{shown} is there: correct it, then {again}; or name another file"
            )
            raise error from None
        raise DraftWritten(Draft(Path(draft), problems, again)) from error


@dataclass(frozen=True)
class Draft:
    """A draft of a mapping that was written, in place of a manifest.

    `problems` are why the table does not fit, and `again` is the command that takes the draft.
    """

    path: Path
    problems: Sequence[str]
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

    def __init__(self, draft: Draft) -> None:
        super().__init__(str(draft), details=draft.problems)
        self.draft = draft


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
        mapping.known_concepts,
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
    if beside.is_file():
        header = manifest.header
        said = read_annotations(beside, manifest.by_id, header.concepts, made.spelling)
        if said and made.annotations:
            raise FixInput(
                f"what annotators say is in {beside.name} beside this table, and in the table"
                " itself",
                where=str(path),
                hint="move one of the two tables to another folder",
            )
        if said:
            sources = (*header.sources, source_of(beside))
            header = structs.replace(header, sources=sources)
            said = sorted_annotations(said)
            manifest = replace(manifest, header=header, annotations=said)
            # The clips of a table with what annotators say beside it have labels.
            if not mapping.rule:
                return manifest
    return labelled(manifest, mapping.rule or None, orders_of(mapping.orders))


# --- What a person should know ---


def _imported(
    table: TableCells, mapping: TableMapping, made: MadeClips, manifest: Manifest
) -> ImportedManifest:
    """Return the manifest with warnings and notes on how the table was read."""
    warnings = [*table.warnings]
    of_people = dict.fromkeys(mapping.made_of_people, "")
    targets = {*of_people, *mapping.columns}
    if mapping.id:
        targets.add("clip_id")
    used = {*mapping.columns.values(), *mapping.columns_of_id}
    for name in table.cells:
        if name in targets and name not in used:
            warnings.append(
                f"the column {name!r} of the table is left out, because {name} is something else"
            )
    folder = manifest.header.video_root
    videos = sorted({clip.video for clip in manifest if clip.video and folder})
    missing = [repr(video) for video in videos if not _is_file(Path(folder, video))]
    if missing:
        n_missing = count(len(missing), "video")
        warnings.append(f"{n_missing} missing in {Path(folder)}: {few(missing, 3)}")
    for of_file in table.tables.values():
        for column, number in of_file.maybe_thousands.items():
            # A rate such as 23,976 has decimals.
            if column not in mapping.sources(RATE_COLUMN):
                warnings.append(thousands_text(column, number))
    warnings += made.changed_ids

    words: dict[str, list[str]] = {}
    if mapping.levels:
        for word in _words("level", mapping, table):
            words.setdefault(mapping.level(word) or NO_LEVEL, []).append(word)
        if "" in mapping.levels:
            words.setdefault(mapping.levels[""], []).append("(no text)")
    kept = []
    for name in own_columns(manifest.columns):
        if name not in mapping.columns_of_id:
            kept.append(f"{name} ({column_words(manifest.clips, name)})")
    notes = [f"columns kept under their own name: {few(kept, 12)}"] if kept else []
    facts = {"level_words": words} if words else {}
    return ImportedManifest(manifest, tuple(warnings), tuple(notes), facts)


def _words(target: str, mapping: TableMapping, table: TableCells) -> list[str]:
    """Return the different cells of the columns for one of the manifest."""
    words: dict[str, None] = {}
    for column in mapping.sources(target):
        words.update(dict.fromkeys(table.filled(column)))
    return [*words]


def used_mapping(mapping: TableMapping, table: TableCells) -> TableMapping:
    """Return a mapping with all columns and words of tables that it, or the program, reads."""
    columns: dict[str, str] = {}
    for target, source in sources_of(table, mapping).items():
        is_made = target == "clip_id" and mapping.id
        if target == source and target in (*CLIP_COLUMNS, "annotator", "movie_title"):
            columns |= {} if is_made else {target: target}
    levels = {}
    for word in _words("level", mapping, table):
        level = mapping.level(word)
        if level and level != word:
            levels[word] = level
    meanings = {}
    for cell in _words("concepts", mapping, table):
        for word in mapping.parts(cell):
            concept = mapping.concept(word)
            if concept and concept != word:
                meanings[word] = concept
    read_by_itself = TableMapping(columns=columns, levels=levels, concepts=meanings)
    return read_by_itself.joined(mapping)
