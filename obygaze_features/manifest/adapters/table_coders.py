"""What several people said in one table: a row or columns for each; it becomes one clip a row.

Columns of people are turned into rows of people first, so that both tables are read in one way.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from obygaze_features.core.errors import FixUsage, Mismatch
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import TableRow
from obygaze_features.manifest.adapters.table_mapping import CODER, TableMapping
from obygaze_features.manifest.adapters.table_times import SPAN_COLUMNS
from obygaze_features.manifest.annotators import annotations_of, said_columns
from obygaze_features.manifest.model import Annotation, Clip
from obygaze_features.manifest.spans import FRAMES, RATE_COLUMN
from obygaze_features.manifest.spelling import Spelling

ANNOTATOR = "annotator"

OF_CLIPS = ("scene", "video", *SPAN_COLUMNS)
PLACES = (*SPAN_COLUMNS, *FRAMES, RATE_COLUMN)


def columns_of_coders(coders: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the table's columns of each person by those of the manifest.

    >>> columns_of_coders({"ada": "Ada", "ada:concepts": "Why"})
    {'ada': {'level': 'Ada', 'concepts': 'Why'}}
    """
    columns: dict[str, dict[str, str]] = {}
    for key, column in coders.items():
        name, _, target = key.partition(":")
        target = target or "level"
        if not name or (
            target not in ("level", "concepts") and not said_columns([target])
        ):
            raise FixUsage(
                f"not a column of a person: {CODER}{key}",
                hint="--map coder:NAME=COLUMN is the level of a person;"
                " coder:NAME:concepts=COLUMN and coder:NAME:OWN=COLUMN are other columns",
            )
        columns.setdefault(name, {})[target] = column
    return columns


def targets_of_coders(coders: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the table's columns of all people by those of the manifest."""
    targets: dict[str, list[str]] = {}
    for columns in columns_of_coders(coders).values():
        for target, column in columns.items():
            targets.setdefault(target, []).append(column)
    return targets


def made_of_coders(coders: Mapping[str, str]) -> list[str]:
    """Return the columns of the manifest that are made of those of people."""
    return [ANNOTATOR, *targets_of_coders(coders)] if coders else []


def source_columns(target: str, mapping: TableMapping) -> list[str]:
    """Return the columns of the table for one of the manifest: several if people have each."""
    of_people = targets_of_coders(mapping.coders).get(target)
    if of_people or target in mapping.columns:
        return of_people or [mapping.columns[target]]
    # A column of this name may be another one of the manifest.
    return [] if target in mapping.columns.values() else [target]


def check_coders(mapping: TableMapping) -> None:
    """Raise an error if a column is mapped both for all rows and for each person."""
    for target in made_of_coders(mapping.coders):
        if target in mapping.columns:
            column = mapping.columns[target]
            raise FixUsage(
                f"{target} is mapped to {column!r} and to columns of people",
                hint=f"leave out {shell_word(f'{target}={column}')}, and the column"
                f" {column!r} keeps its name",
            )


def rows_of_coders(
    rows: Sequence[TableRow], written: Sequence[TableRow], coders: Mapping[str, str]
) -> list[TableRow]:
    """Return a row for each person, where people have columns; else the rows as they are.

    Args:
        rows: The rows by the columns of the manifest.
        written: The same rows by the columns of the table.
        coders: The columns of each person.
    """
    if not coders:
        return [*rows]
    blank = dict.fromkeys(targets_of_coders(coders), "")
    expanded = []
    for row, as_written in zip(rows, written, strict=True):
        for name, columns in columns_of_coders(coders).items():
            said = {target: as_written[column] for target, column in columns.items()}
            cells = {**row.cells, **blank, ANNOTATOR: name, **said}
            expanded.append(replace(row, cells=cells))
    return expanded


def with_people(
    rows: Sequence[TableRow], *, have_columns: bool, spelling: Spelling
) -> list[TableRow] | None:
    """Return rows with each name of a person in one spelling; None if each clip has one row.

    Args:
        rows: The rows.
        have_columns: Whether people have columns, so that a clip may have one row.
        spelling: The words that were read before.
    """
    ids = [row["clip_id"] for row in rows]
    if not have_columns and len(set(ids)) == len(ids):
        return None
    has_names = any(row.cells.get(ANNOTATOR) for row in rows)
    line_of: dict[str, int] = {}
    line_of_person: dict[tuple[str, str], int] = {}
    problem = ""
    named = []
    for row in rows:
        clip_id = row["clip_id"]
        name = spelling.cell(row.cells.get(ANNOTATOR, ""), ANNOTATOR)
        first = line_of.setdefault(clip_id, row.line)
        if not has_names and clip_id and first != row.line:
            # One sentence for all of them, as they mostly have one reason.
            problem = problem or twice(clip_id, first)
            row.add("clip_id", problem)
        elif has_names and not name:
            row.add(
                ANNOTATOR,
                "is empty, and each row needs one where a clip has several rows",
            )
        elif has_names and (clip_id, name) in line_of_person:
            line = line_of_person[clip_id, name]
            row.add(ANNOTATOR, f"{name!r} has a row of {clip_id!r} on line {line}")
            name = ""
        else:
            line_of_person[clip_id, name] = row.line
        named.append(replace(row, cells={**row.cells, ANNOTATOR: name}))
    return named


def twice(clip_id: str, line: int) -> str:
    """Return the sentence on a clip that has another row on this line."""
    return (
        f"{clip_id!r} is already on line {line}; if rows are of several annotators,"
        " --map annotator=COLUMN"
    )


def clips_and_annotations(
    rows: Sequence[TableRow],
    clips: Sequence[Clip],
    mapping: TableMapping,
    columns_of_file: Mapping[str, Collection[str]],
) -> tuple[tuple[Clip, ...], tuple[Annotation, ...]]:
    """Return each clip once, and what each person said of it.

    Of people with columns, a column for all is not said by them. What is not said must be the same
    in all rows of a clip; else each other row is a violation. Where people have a file each, a fact
    may be missing in one of them, and films and times were compared by `compare_files`.

    Args:
        rows: The rows.
        clips: The clip of each row.
        mapping: How the table is read.
        columns_of_file: The columns of the manifest that each file states.
    """
    columns = [*clips[0].extra] if clips else []
    said = said_columns(made_of_coders(mapping.coders) or columns)
    facts = [name for name in columns if name not in (*said, ANNOTATOR)]
    first_of: dict[tuple[str, str], tuple[TableRow, Clip]] = {}
    once: dict[str, Clip] = {}
    for row, clip in zip(rows, clips, strict=True):
        kept = once.setdefault(clip.clip_id, clip)
        if not clip.extra[ANNOTATOR]:
            continue  # a violation already
        stated = columns_of_file[row.violations.path]
        for column in (*OF_CLIPS, *facts):
            if column not in stated:
                continue
            first_row, first = first_of.setdefault((clip.clip_id, column), (row, clip))
            if first is clip:
                kept = kept if kept is clip else _with_fact(kept, column, clip)
                continue
            problem = _contradiction(column, (first_row, first), (row, clip))
            if problem:
                row.add(column, problem)
                break
        once[clip.clip_id] = kept
    without_people = []
    for clip in once.values():
        extra = {name: cell for name, cell in clip.extra.items() if name != ANNOTATOR}
        without_people.append(replace(clip, level="", concepts=(), extra=extra))
    return tuple(without_people), annotations_of(clips, said)


def compare_files(
    rows: Sequence[TableRow], clips: Sequence[Clip], files: Sequence[Violations]
) -> None:
    """Add a violation for each two files that state other films or times of their clips."""
    # NumPy is not loaded for the help of commands.
    from obygaze_features.manifest.clip_facts import ClipFacts, require_same_shared

    clips_of_file: dict[str, dict[str, Clip]] = {file.path: {} for file in files}
    for row, clip in zip(rows, clips, strict=True):
        clips_of_file[row.violations.path].setdefault(clip.clip_id, clip)
    for one, other in combinations(files, 2):
        ours, theirs = (clips_of_file[file.path].values() for file in (one, other))
        facts = ClipFacts.of_clips([*ours]), ClipFacts.of_clips([*theirs])
        try:
            require_same_shared(*facts, (one.path, other.path))
        except Mismatch as error:
            other.add(None, None, error.message)


def _with_fact(clip: Clip, column: str, other: Clip) -> Clip:
    """Return a clip with a fact that another row of it states."""
    if column not in OF_CLIPS:
        return replace(clip, extra={**clip.extra, column: other.extra[column]})
    return replace(clip, **{column: getattr(other, column)})


def _contradiction(
    column: str, first: tuple[TableRow, Clip], other: tuple[TableRow, Clip]
) -> str:
    """Return the sentence on a row that states another fact of its clip than the first one."""
    first_row, first_clip = first
    row, clip = other
    expected = "|".join(first_clip.values(column))
    got = "|".join(clip.values(column))
    is_other_file = first_row.violations.path != row.violations.path
    if expected == got or (is_other_file and column in PLACES):
        return ""
    of_file = f" of {first_row.violations.path}" if is_other_file else ""
    return (
        f"expected {expected or 'nothing'!r} as on line {first_row.line}{of_file}, which is also"
        f" of the clip {clip.clip_id!r}, got {got or 'nothing'!r}"
    )
