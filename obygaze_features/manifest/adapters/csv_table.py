"""Read any table of clips, with a mapping to the columns and words of a manifest.

There are three steps: read the table as texts (`table_reading`), decide what the texts mean
(`table_questions`), and make clips of them (`table_cells`). One error lists all questions and all
invalid cells, with one command that answers the questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from msgspec import structs

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage, near
from obygaze_features.core.schema_check import raise_together
from obygaze_features.core.shell import shell_line, shell_word
from obygaze_features.core.tables import is_number
from obygaze_features.manifest.adapters import ImportedManifest, source_file
from obygaze_features.manifest.adapters.table_cells import (
    TableClips,
    make_clips,
)
from obygaze_features.manifest.adapters.table_mapping import (
    ANNOTATOR,
    TableMapping,
    mapping_of_options,
)
from obygaze_features.manifest.adapters.table_questions import (
    Questions,
    decide,
    unread_times,
)
from obygaze_features.manifest.adapters.table_reading import (
    SUMMARY,
    TableCells,
    read_tables,
)
from obygaze_features.manifest.adapters.table_times import (
    CLOCK_COLUMNS,
    SPAN_COLUMNS,
    has_clock_times,
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
    DIFFERS,
    FILM_FILE,
    FOLD_PREFIX,
    NO_FILMS,
    NO_LEVEL,
    TARGETS,
    WATCHED,
    Clip,
    Header,
    Manifest,
    own_columns,
    with_equal_numbers,
)
from obygaze_features.manifest.own_labels import MOST_WORDS, column_words
from obygaze_features.manifest.spans import FILM_TIMES, FRAMES

CORRECT = "correct the table in each place that is listed"
LIKELY = "the command below has the likely answers; check each"


def read(
    csv: str | Path | Sequence[str | Path],
    columns: Mapping[str, str] | None = None,
    *,
    form: str = "",
    films: Literal["none"] | None = None,
    sheet: str | Sequence[str] = (),
    words: Mapping[str, str] | None = None,
    rule: str = "",
    orders: Mapping[str, str] | None = None,
    film_names: Mapping[str, str] | None = None,
    name: str | None = None,
    command: Sequence[str] = (),
) -> ImportedManifest:
    """Read any table, with a mapping of its columns.

    Args:
        csv: The table: text, a spreadsheet or parquet. If there are several tables, each has the
            annotations of one annotator about the same clips.
        columns: For columns of the manifest, the column of the table or a constant (`=value`).
        form: The form of clip ids, such as `{movie_id}-{count:03d}`.
        films: "none" if the table states no films.
        sheet: The name of the sheet of a spreadsheet, or the names of several, each of which is the
            name of an annotator; (): the sheet that is probably meant.
        words: The level or the concepts of each word of the table.
        rule: The rule that makes one label where annotators differ.
        orders: The words of columns from the lowest, separated by commas.
        film_names: The new name of films of the table.
        name: The name of the manifest; None: the name of the file.
        command: The words of the typed command, without the options of tables.
    """
    paths = [Path(csv)] if isinstance(csv, str | Path) else [Path(path) for path in csv]
    called = name or paths[0].stem
    options = {
        "id": form,
        "films": films,
        "sheets": sheet,
        "rule": rule,
        "orders": orders,
        "film_names": film_names,
    }
    stated = mapping_of_options(columns or {}, words or {}, **options)
    table = read_tables(paths, stated)
    sheets = table.sheets_of_annotators
    if sheets:
        # All other questions are about the rows of all these sheets.
        table = read_tables(paths, stated.joined(TableMapping(sheets=sheets)))
    _check_targets(stated, table)
    n_before = table.n_problems
    questions = decide(table, stated, sheets)
    decided = questions.mapping
    n_asked = table.n_problems - n_before + questions.n_errors
    made = make_clips(questions.table, decided)
    manifest = _manifest(paths, called, made, decided)
    if not decided.rule and (len(table.tables) > 1 or made.annotations):
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
        _refuse(questions, n_asked, line, stated)
    if decided.rule and not _has_people(paths[0], made, decided.rule):
        raise FixUsage(
            f"--rule {decided.rule} makes labels from those of several annotators, and the table"
            " states none",
            where=str(paths[0]),
            hint="name the annotators by --map annotator=COLUMN or --map coder:NAME=COLUMN, or"
            " remove --rule",
        )
    manifest = _labelled(manifest, paths[0], made, decided)
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
        is_known = target in (*TARGETS, WATCHED, source) or target.startswith(
            FOLD_PREFIX
        )
        if not is_known and not is_renamed:
            raise FixUsage(
                f"unknown target {target!r} of the column {source!r}{near(target, TARGETS)}",
                hint=f"use one of {', '.join((*TARGETS, WATCHED))}, fold:NAME; or remove the"
                " option, and the column keeps its name",
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
    stated: TableMapping,
) -> None:
    """Raise one error that lists all questions and all invalid cells.

    Args:
        questions: The table, and the likely answers.
        n_asked: The number of violations of the table that are questions, or have an answer.
        command: The command that imports the table, without options of tables.
        stated: The mapping that was typed.
    """
    table = questions.table
    has_answers = bool(n_asked and questions.answers.typed())
    hint = CORRECT
    if has_answers:
        hint = shell_line([*command, *stated.joined(questions.answers).typed()])
    if has_answers and table.n_problems > n_asked:
        hint = f"{CORRECT}, then: {hint}"
    try:
        raise_together(SUMMARY, *table.violations, hint=hint)
    except FixInput as error:
        if has_answers:
            error.details += (LIKELY,)
        raise


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
        of_files,
        mapping.known_concepts,
        films=NO_FILMS if mapping.films else "",
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
                f"the column {name!r} of the table is not imported, because an option sets {name}"
                " in a different way"
            )
    folder = manifest.header.video_root
    videos = sorted({clip.video for clip in manifest if clip.video and folder})
    missing = [repr(video) for video in videos if not _is_file(Path(folder, video))]
    if missing:
        n_missing = count(len(missing), "video")
        warnings.append(f"{n_missing} missing in {Path(folder)}: {few(missing, 3)}")
    warnings += table.number_warnings(mapping)
    warnings += made.warnings
    warnings += _negatives_with_concepts(made, mapping)

    words: dict[str, list[str]] = {}
    if mapping.levels:
        for word in _words("level", mapping, table):
            words.setdefault(mapping.level(word) or NO_LEVEL, []).append(word)
        if "" in mapping.levels:
            words.setdefault(mapping.levels[""], []).append("(no text)")
    own = own_columns(manifest.columns)
    times = [name for name in own if has_clock_times(table.filled(name))]
    times = times or unread_times(own, table)
    of_times = (*SPAN_COLUMNS, *CLOCK_COLUMNS, *FRAMES, *FILM_TIMES)
    has_times = any(clip.start_s is not None for clip in manifest)
    if times and not has_times and targets.isdisjoint(of_times):
        warnings.append(
            f"clips have no times, but columns may: {few(times, 5)}, such as"
            f" {table.filled(times[0])[0]!r}; if they are start and end, pass --map start_s=COLUMN"
            " --map end_s=COLUMN for seconds or clock times, such as 65.5 or 0:01:05.5"
        )
    kept = [f"{name} ({column_words(manifest.clips, name)})" for name in own]
    notes = [f"columns kept under their own name: {few(kept, 12)}"] if kept else []
    people = [] if manifest.annotators else _numbers_alike(table, own)
    if people:
        coders = {f"{name}:rating": name for name in people}
        line = shell_line(TableMapping(coders=coders).typed())
        notes.append(
            f"columns with the same numbers: {few(people, 3)}; if each is of one annotator, pass"
            f" {line}"
        )
    n_later = sum(bool(clip.extra.get(FILM_FILE)) for clip in manifest)
    if n_later:
        notes.append(
            f"{count(n_later, 'clip')} with frames in the files of films: manifest link finds"
            " their times"
        )
    facts = {"level_words": words} if words else {}
    return ImportedManifest(manifest, tuple(warnings), tuple(notes), facts)


def _numbers_alike(table: TableCells, columns: Sequence[str]) -> list[str]:
    """Return columns with the same few numbers, each of which may be of one annotator."""
    words_of = {name: frozenset(table.filled(name)) for name in columns}
    numbers_of = {}
    for name, words in words_of.items():
        if 2 < len(words) <= MOST_WORDS and all(map(is_number, words)):
            numbers_of[name] = words
    for numbers in numbers_of.values():
        alike = [name for name, others in numbers_of.items() if others == numbers]
        if len(alike) > 1:
            return alike
    return []


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
