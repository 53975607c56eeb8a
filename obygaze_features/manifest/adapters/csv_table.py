"""Read any table of clips, with a mapping to the columns and words of a manifest.

There are three steps: read the table as texts (`table_reading`), decide what the texts mean
(`table_questions`), and make clips of them (`table_cells`). One error lists all questions and all
invalid cells, with one command that answers the questions.
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
from obygaze_features.manifest.adapters import ImportedManifest, source_file
from obygaze_features.manifest.adapters.table_cells import (
    TableClips,
    make_clips,
    source_columns,
)
from obygaze_features.manifest.adapters.table_mapping import (
    ANNOTATOR,
    TableMapping,
    choose_mapping,
)
from obygaze_features.manifest.adapters.table_questions import Questions, decide
from obygaze_features.manifest.adapters.table_reading import (
    SUMMARY,
    TableCells,
    read_tables,
)
from obygaze_features.manifest.annotators import (
    AGREED,
    BY,
    HIGHEST,
    UNJUDGED,
    WAYS_OF_RULES,
    WAYS_OF_UNJUDGED,
    apply_rule,
    differences_text,
    differing_clips,
    has_unjudged_concepts,
    parse_orders,
    sort_annotations,
)
from obygaze_features.manifest.expression import CONCEPTS
from obygaze_features.manifest.io import annotators_path, read_annotations
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    DIFFERS,
    FOLD_PREFIX,
    NO_FILMS,
    NO_LEVEL,
    TARGETS,
    Clip,
    Header,
    Manifest,
    own_columns,
    with_equal_numbers,
)
from obygaze_features.manifest.own_labels import column_words
from obygaze_features.manifest.spans import RATE_COLUMN

CORRECT = "correct the table in each place that is listed"


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
        csv: The table: text, a spreadsheet or parquet. If there are several tables, each has the
            annotations of one annotator about the same clips.
        columns: For columns of the manifest, the column of the table or a constant (`=value`).
            These take precedence over `mapping`.
        mapping: The mapping, or its file.
        form: The form of clip ids, such as `{movie_id}-{count:03d}`.
        films: "none" if the table states no films.
        sheet: The name of the sheet of a spreadsheet; "": the sheet that is probably meant.
        words: The level or the concepts of each word of the table.
        rule: The rule that makes one label where annotators differ.
        orders: The words of columns from the lowest, separated by commas.
        write_mapping: A file for the mapping that was used. If the table leaves questions open, the
            file is a draft with the likely answers.
        name: The name of the manifest; None: the name of the file.
        command: The words of the typed command, without the options of tables.
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
    stated, typed = choose_mapping(
        paths[0], mapping, columns or {}, words or {}, **options
    )
    table = read_tables(paths, stated)
    _check_targets(stated, table)
    n_before = table.n_problems
    questions = decide(table, stated)
    decided = questions.mapping
    n_asked = table.n_problems - n_before
    made = make_clips(table, decided)
    manifest = _manifest(paths, called, made, decided)
    if not decided.rule and (len(paths) > 1 or made.annotations):
        differing = differing_clips(manifest)
        if has_unjudged_concepts(manifest):
            sentence = f"{UNJUDGED}; {WAYS_OF_UNJUDGED}"
            questions.ask(sentence, TableMapping(rule=HIGHEST))
            n_asked += 1
        elif differing:
            sentence = f"{differences_text(manifest, differing)}; {WAYS_OF_RULES}"
            questions.ask(sentence, TableMapping(rule=AGREED))
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
        _refuse(questions, n_asked, line, typed, write_mapping)
    if decided.rule and not _has_people(paths[0], made, decided.rule):
        raise FixUsage(
            f"--rule {decided.rule} makes labels from those of several annotators, and the table"
            " states none",
            where=str(paths[0]),
            hint="name the annotators by --map annotator=COLUMN or --map coder:NAME=COLUMN, or"
            " remove --rule",
        )
    manifest = _labelled(manifest, paths[0], made, decided)
    if write_mapping is not None:
        try:
            write_new(
                Path(write_mapping), complete_mapping(decided, table).toml().encode()
            )
        except AlreadyThere as error:
            error.hint = "choose another name, or delete the file"
            raise
    return _imported(table, decided, made, manifest)


def _has_people(path: Path, made: TableClips, rule: str) -> bool:
    """Return whether a rule can be applied: there are annotators, here or in a second table."""
    # Each clip may have the row of one annotator. Then all rules but by:NAME change nothing.
    has_names = ANNOTATOR in made.columns and not rule.startswith(BY)
    return bool(made.annotations) or has_names or annotators_path(path).is_file()


def _check_targets(mapping: TableMapping, table: TableCells) -> None:
    """Raise an error if the target of a mapped column is unknown, or is mapped twice.

    A target is a column of the manifest. If the table has a column whose name is a target, this
    column may be renamed: it may be mapped to any name.
    """
    if mapping.films and "movie_id" in (*mapping.columns, *mapping.columns_of_id):
        raise FixUsage(
            'films = "none" is for a table without films, got a column for movie_id',
            hint="remove --films none, or the column of films",
        )
    for target, source in mapping.columns.items():
        is_renamed = source in (*TARGETS, *CONCEPTS) and source in table.cells
        is_known = target in (*TARGETS, source) or target.startswith(FOLD_PREFIX)
        if not is_known and not is_renamed:
            raise FixUsage(
                f"unknown target {target!r} of the column {source!r}{near(target, TARGETS)}",
                hint=f"use one of {', '.join(TARGETS)}, fold:NAME; or remove the option, and the"
                " column keeps its name",
            )
        if target in mapping.annotator_targets:
            raise FixUsage(
                f"{target} is mapped to the column {source!r} and to columns of annotators",
                hint=f"remove {shell_word(f'{target}={source}')}, and the column {source!r}"
                " keeps its name",
            )


# --- Refusals: all questions, and all invalid cells ---


def _refuse(
    questions: Questions,
    n_asked: int,
    command: Sequence[str],
    typed: TableMapping,
    draft: str | Path | None,
) -> None:
    """Raise one error that lists all questions and all invalid cells.

    Args:
        questions: The table, and the likely answers.
        n_asked: The number of violations of the table that are questions.
        command: The command that imports the table, without options of tables.
        typed: The part of the mapping that was typed.
        draft: The file for a mapping with the likely answers. An existing file is not replaced,
            because the user may have edited it. None: no draft is written.
    """
    table = questions.table
    line = shell_line([*command, *typed.joined(questions.answers).typed()])
    to_file = shell_word(f"{Path(next(iter(table.tables))).stem}-mapping.toml")
    hint = line
    ways = "the command below has the likely answers; check each"
    if table.n_problems > n_asked:
        hint = CORRECT
        ways = f"for the corrected table, the likely answers are: {line}"
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
        comments = ["Likely answers to these questions. Check each.", *problems]
        mapping = questions.mapping.toml(map(printable_line, comments))
        try:
            write_new(Path(draft), mapping.encode())
        except AlreadyThere:
            shown = shell_word(draft)
            error.hint = (
                f"edit the existing file {shown}, then run {again}; or pass a new name"
            )
            raise error from None
        raise DraftWritten(Draft(Path(draft), problems, again)) from error


@dataclass(frozen=True)
class Draft:
    """A draft of a mapping that was written in place of a manifest.

    `problems` are the questions and the invalid cells; `again` is the command that uses the draft.
    """

    path: Path
    problems: Sequence[str]
    again: str

    def to_json(self) -> dict[str, Any]:
        """Return the path of the draft, and the problems of the table."""
        return {"draft": str(self.path), "problems": list(self.problems)}

    def __str__(self) -> str:
        return f"{self.path}: draft of the mapping; no manifest is written yet"

    @property
    def notes(self) -> list[str]:
        """The problems of the table, and the next command."""
        look = f"check the answers in {shell_word(self.path)}"
        return [*self.problems, f"next: {look}, then run {self.again}"]


class DraftWritten(FixInput):
    """A table has open questions, and a draft of its mapping was written."""

    def __init__(self, draft: Draft) -> None:
        super().__init__(str(draft), details=draft.problems)
        self.draft = draft


# --- The manifest ---


def _manifest(
    paths: Sequence[Path], name: str, made: TableClips, mapping: TableMapping
) -> Manifest:
    """Return the manifest of clips; clips with several annotators have no labels yet."""
    folder = paths[0].parent
    videos = {clip.video for clip in made.clips if clip.video}
    # Where no name is an existing file, `manifest link` finds the videos later.
    is_linked = any(_is_file(folder / video) for video in videos)
    of_files = paths[0].stem if len(paths) == 1 else name
    header = Header(
        mapping.dataset or of_files,
        mapping.known_concepts,
        films=NO_FILMS if mapping.films else "",
        licence=mapping.licence,
        citation=mapping.citation,
        video_root=folder.resolve().as_posix() if is_linked else "",
        sources=tuple(map(source_file, paths)),
    )
    clips = made.clips
    if DIFFERS in made.columns:
        clips = tuple(map(_without_decided, clips))
    return Manifest(name, header, clips, made.columns, made.annotations)


def _without_decided(clip: Clip) -> Clip:
    """Return a clip without the names in DIFFERS that have a value, which somebody filled in."""
    cells = {**clip.extra, "level": clip.level}
    left_open = []
    for name in clip.extra[DIFFERS].split("|"):
        if name not in clip.concepts and not cells.get(name):
            left_open.append(name)
    return replace(clip, extra={**clip.extra, DIFFERS: "|".join(left_open)})


def _is_file(path: Path) -> bool:
    """Return whether a file exists; False also for a name that no file can have."""
    try:
        return path.is_file()
    except OSError:
        return False


def _labelled(
    manifest: Manifest, path: Path, made: TableClips, mapping: TableMapping
) -> Manifest:
    """Return the manifest with one label per clip.

    The annotations may be in a second table in the same folder (`annotators_path`).
    """
    annotations_file = annotators_path(path)
    if annotations_file.is_file():
        header = manifest.header
        said = read_annotations(
            annotations_file, manifest.by_id, header.concepts, made.spelling
        )
        if said and made.annotations:
            raise FixInput(
                f"expected annotations in one table, got annotations here and in"
                f" {annotations_file.name}",
                where=str(path),
                hint="move one of the two tables to a different folder",
            )
        if said:
            sources = (*header.sources, source_file(annotations_file))
            header = structs.replace(header, sources=sources)
            numbers = made.spelling.equal_numbers()
            clips, said = with_equal_numbers(manifest.clips, said, numbers)
            said = sort_annotations(said)
            manifest = replace(manifest, header=header, clips=clips, annotations=said)
            # A table with annotations next to it was exported with its labels. Without a rule, the
            # labels stay.
            if not mapping.rule:
                return manifest
    return apply_rule(manifest, mapping.rule or None, parse_orders(mapping.orders))


# --- Warnings and notes ---


def _imported(
    table: TableCells, mapping: TableMapping, made: TableClips, manifest: Manifest
) -> ImportedManifest:
    """Return the manifest, with warnings and notes about how the table was read."""
    warnings = [*table.warnings]
    of_people = dict.fromkeys(mapping.annotator_targets, "")
    targets = {*of_people, *mapping.columns}
    if mapping.id:
        targets.add("clip_id")
    used = {*mapping.columns.values(), *mapping.columns_of_id}
    for name in table.cells:
        if name in targets and name not in used:
            warnings.append(
                f"the column {name!r} of the table is not imported, because the mapping sets {name}"
                " in a different way"
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
    warnings += _negatives_with_concepts(made, mapping)

    words: dict[str, list[str]] = {}
    if mapping.levels:
        for word in _words("level", mapping, table):
            words.setdefault(mapping.level(word) or NO_LEVEL, []).append(word)
        if "" in mapping.levels:
            words.setdefault(mapping.levels[""], []).append("(no text)")
    kept = [
        f"{name} ({column_words(manifest.clips, name)})"
        for name in own_columns(manifest.columns)
    ]
    notes = [f"columns kept under their own name: {few(kept, 12)}"] if kept else []
    facts = {"level_words": words} if words else {}
    return ImportedManifest(manifest, tuple(warnings), tuple(notes), facts)


def _negatives_with_concepts(made: TableClips, mapping: TableMapping) -> list[str]:
    """Return a warning about easy negatives with concepts, which may be hard negatives."""
    labels = made.annotations or made.clips
    negative = [one for one in labels if one.level == "EN"]
    with_concepts = [one for one in negative if one.concepts]
    if not with_concepts:
        return []
    noun = "label" if made.annotations else "clip"
    names = {name for one in with_concepts for name in one.concepts}
    words = [word for word, level in mapping.levels.items() if level == "EN"]
    ways = " or ".join(f"--word {shell_word(f'{word}=HN')}" for word in words)
    way = f"pass {ways}" if ways else "their level is HN"
    return [
        f"easy negatives (EN) with concepts: {len(with_concepts)} of"
        f" {count(len(negative), noun)} ({few(sorted(names), 3)}); an easy negative has none; if"
        f" these are hard negatives, {way}"
    ]


def _words(target: str, mapping: TableMapping, table: TableCells) -> list[str]:
    """Return the distinct cells of the columns that are mapped to a column of the manifest."""
    words: dict[str, None] = {}
    for column in mapping.sources(target):
        words.update(dict.fromkeys(filter(None, table.column(column))))
    return [*words]


def complete_mapping(mapping: TableMapping, table: TableCells) -> TableMapping:
    """Return the mapping with all columns and words that were used, stated or not."""
    columns: dict[str, str] = {}
    for target, source in source_columns(table, mapping).items():
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
