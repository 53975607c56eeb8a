"""Split rows of several annotators into clips and annotations."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from obygaze_features.core.errors import Mismatch
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import TableRow
from obygaze_features.manifest.adapters.table_mapping import ANNOTATOR, TableMapping
from obygaze_features.manifest.adapters.table_times import SPAN_COLUMNS
from obygaze_features.manifest.annotators import annotator_columns, make_annotations
from obygaze_features.manifest.model import CLIP_COLUMNS, Annotation, Clip
from obygaze_features.manifest.spans import FRAMES, RATE_COLUMN
from obygaze_features.manifest.spelling import Spelling

OF_CLIPS = ("movie_id", "scene", "video", *SPAN_COLUMNS)
# The columns that `_compare_files` compares.
PLACES = ("movie_id", *SPAN_COLUMNS, *FRAMES, RATE_COLUMN)


def has_annotator_rows(
    cells: dict[str, Sequence[str]],
    rows: Sequence[TableRow],
    mapping: TableMapping,
    spelling: Spelling,
) -> bool:
    """Return whether clips have rows of several annotators.

    In `cells`, the name of each annotator gets one spelling.

    Rows without an annotator, and two rows of an annotator for one clip, are violations.
    """
    ids = cells["clip_id"]
    if not mapping.coders and len(set(ids)) == len(ids):
        return False
    names = []
    for cell in cells.get(ANNOTATOR, [""] * len(rows)):
        names.append(spelling.cell(cell, ANNOTATOR))
    has_names = any(names)
    first_of: dict[tuple[str, str], TableRow] = {}
    problem = ""
    for number, row in enumerate(rows):
        clip_id = ids[number]
        if not clip_id:
            # A missing id is a violation already.
            names[number] = ""
            continue
        name = names[number]
        first = first_of.setdefault((clip_id, name), row)
        if has_names and not name:
            row.add(
                ANNOTATOR,
                "is empty, but required where a clip has several rows",
            )
        elif has_names and first is not row:
            row.add(
                ANNOTATOR,
                f"{name!r} already has a row for {clip_id!r} on line {first.line}",
            )
            names[number] = ""
        elif first is not row:
            # Repeated ids mostly have one cause, so all of them get the same sentence.
            problem = problem or (
                f"{clip_id!r} is already on line {first.line}; if rows are of several annotators,"
                " pass --map annotator=COLUMN"
            )
            row.add("clip_id", problem)
    cells[ANNOTATOR] = names
    return True


def split_annotations(
    rows: Sequence[TableRow],
    clips: Sequence[Clip],
    mapping: TableMapping,
    files: Sequence[Violations],
) -> tuple[tuple[Clip, ...], tuple[Annotation, ...]]:
    """Return each clip once, and the annotations of all rows.

    If annotators have columns of their own, only these are annotations. All other columns are
    facts, which must be equal in all rows of a clip; a row that differs is a violation. If
    annotators have files of their own, a fact may be missing in some of them, and `_compare_files`
    compares films and times.

    Args:
        rows: The rows.
        clips: The clip of each row.
        mapping: How the table is read.
        files: The violations of each file.
    """
    columns = [*clips[0].extra] if clips else []
    said = annotator_columns(mapping.annotator_targets or columns)
    facts = [name for name in columns if name not in (*said, ANNOTATOR)]
    if len(files) > 1:
        _compare_files(rows, clips, files)
    once: dict[str, tuple[TableRow, Clip]] = {}
    for row, clip in zip(rows, clips, strict=True):
        first_row, kept = once.setdefault(clip.clip_id, (row, clip))
        is_other_file = first_row.violations.path != row.violations.path
        # A row without an annotator is a violation already.
        for column in (*OF_CLIPS, *facts) if clip.extra[ANNOTATOR] else ():
            expected = "|".join(kept.values(column))
            got = "|".join(clip.values(column))
            if is_other_file and not expected:
                kept = _with_fact(kept, column, clip)
            elif got != expected and not (
                is_other_file and (column in PLACES or not got)
            ):
                of_file = f" of {first_row.violations.path}" if is_other_file else ""
                row.add(
                    column,
                    f"expected {expected or 'nothing'!r} as on line {first_row.line}{of_file}"
                    f" for the same clip {clip.clip_id!r}, got {got or 'nothing'!r}",
                )
                break
        once[clip.clip_id] = first_row, kept
    without_people = []
    for _, clip in once.values():
        extra = {name: cell for name, cell in clip.extra.items() if name != ANNOTATOR}
        without_people.append(replace(clip, level="", concepts=(), extra=extra))
    return tuple(without_people), make_annotations(clips, said)


def _with_fact(clip: Clip, column: str, other: Clip) -> Clip:
    """Return a clip with a fact from a different row of the same clip."""
    if column in CLIP_COLUMNS:
        return replace(clip, **{column: getattr(other, column)})
    return replace(clip, extra={**clip.extra, column: other.extra[column]})


def _compare_files(
    rows: Sequence[TableRow], clips: Sequence[Clip], files: Sequence[Violations]
) -> None:
    """Add a violation for each pair of files with different films or times for a clip."""
    # Imported here because it loads NumPy, which would slow down the help of commands.
    from obygaze_features.manifest.clip_table import ClipTable
    from obygaze_features.manifest.same_clips import same_clips

    clips_of_file: dict[str, dict[str, Clip]] = {file.path: {} for file in files}
    for row, clip in zip(rows, clips, strict=True):
        clips_of_file[row.violations.path].setdefault(clip.clip_id, clip)
    stated = {}
    for path, of_file in clips_of_file.items():
        stated[path] = ClipTable.of_clips([*of_file.values()])
    for one, other in combinations(files, 2):
        try:
            names = one.path, other.path
            same_clips(stated[one.path], stated[other.path]).require(names)
        except Mismatch as error:
            other.add(None, None, error.message)
