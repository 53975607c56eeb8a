"""What several people said in one table: a row or columns for each; it becomes one clip a row.

Columns of people are turned into rows of people first, so that both tables are read in one way.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from obygaze_features.core.errors import FixUsage
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import TableRow
from obygaze_features.manifest.annotators import (
    annotations_of,
    of_nobody,
    said_columns,
)
from obygaze_features.manifest.model import Annotation, Clip
from obygaze_features.manifest.spelling import Spelling

ANNOTATOR = "annotator"
# How --map begins where it names the column of a person: coder:ada=COLUMN.
CODER = "coder:"
OF_CLIPS = ("scene", "video", "start_s", "end_s")

Cells = dict[str, str]


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


def check_coders(coders: Mapping[str, str], mapped: Mapping[str, str]) -> None:
    """Raise an error if a column is mapped both for all rows and for each person."""
    for target in made_of_coders(coders):
        if target in mapped:
            raise FixUsage(
                f"{target} is mapped to {mapped[target]!r} and to columns of people",
                hint=f"leave out {shell_word(f'{target}={mapped[target]}')}, and the column"
                f" {mapped[target]!r} keeps its name",
            )


def rows_of_coders(
    rows: Sequence[TableRow], cells: Sequence[Cells], coders: Mapping[str, str]
) -> tuple[list[TableRow], list[Cells]]:
    """Return a row for each person, where people have columns; else the rows as they are."""
    if not coders:
        return [*rows], [*cells]
    targets = targets_of_coders(coders)
    expanded: list[TableRow] = []
    cells_of_expanded = []
    for row, values in zip(rows, cells, strict=True):
        for name, columns in columns_of_coders(coders).items():
            said = {**dict.fromkeys(targets, ""), ANNOTATOR: name}
            for target, column in columns.items():
                said[target] = row[column]
            expanded.append(row)
            cells_of_expanded.append({**values, **said})
    return expanded, cells_of_expanded


def are_of_people(
    rows: Sequence[TableRow],
    cells: Sequence[Cells],
    coders: Mapping[str, str],
    spelling: Spelling,
) -> bool:
    """Return whether clips have rows of several people, and spell each name in one way."""
    ids = [values["clip_id"] for values in cells]
    if not coders and len(set(ids)) == len(ids):
        return False
    has_names = any(values.get(ANNOTATOR) for values in cells)
    line_of: dict[str, int] = {}
    line_of_person: dict[tuple[str, str], int] = {}
    problem = ""
    for row, values, clip_id in zip(rows, cells, ids, strict=True):
        name = spelling.cell(values.get(ANNOTATOR, ""), ANNOTATOR)
        values[ANNOTATOR] = name
        first = line_of.setdefault(clip_id, row.line)
        if not has_names and clip_id and first != row.line:
            # One sentence for all of them, as they mostly have one reason.
            problem = problem or (
                f"{clip_id!r} is already on line {first}; if rows are of several annotators,"
                " --map annotator=COLUMN"
            )
            row.add("clip_id", problem)
        elif has_names and not name:
            row.add(
                ANNOTATOR,
                "is empty, and each row needs one where a clip has several rows",
            )
        elif has_names and (clip_id, name) in line_of_person:
            line = line_of_person[clip_id, name]
            row.add(ANNOTATOR, f"{name!r} has a row of {clip_id!r} on line {line}")
            values[ANNOTATOR] = ""
        else:
            line_of_person[clip_id, name] = row.line
    return True


def clips_and_annotations(
    rows: Sequence[TableRow],
    clips: Sequence[Clip],
    columns: Iterable[str],
    coders: Mapping[str, str],
) -> tuple[tuple[Clip, ...], tuple[Annotation, ...]]:
    """Return each clip once, and what each person said of it.

    Of people with columns, a column for all is not said by them. What is not said must be the same
    in all rows of a clip; else each other row is a violation.
    """
    said = said_columns(made_of_coders(coders) or [*columns])
    facts = [name for name in columns if name not in (*said, ANNOTATOR)]
    first_of: dict[str, tuple[TableRow, Clip]] = {}
    for row, clip in zip(rows, clips, strict=True):
        first_row, first = first_of.setdefault(clip.clip_id, (row, clip))
        if not clip.extra[ANNOTATOR]:
            continue  # a violation already
        for column in (*OF_CLIPS, *facts):
            ours = _fact(clip, column)
            theirs = _fact(first, column)
            if ours != theirs:
                row.add(
                    column,
                    f"expected {theirs or 'nothing'!r} as on line {first_row.line}, which is also"
                    f" of the clip {clip.clip_id!r}, got {ours or 'nothing'!r}",
                )
                break
    once = []
    for _, clip in first_of.values():
        once.append(replace(of_nobody(clip), level="", concepts=()))
    return tuple(once), annotations_of(clips, said)


def _fact(clip: Clip, column: str) -> str:
    """Return what a row says of its clip."""
    return "|".join(clip.values(column))
