"""MObyGaze: the segments that two experts a film marked, each expert's kept apart.

The rows serve as they are as the segments of `obygaze manifest project`. A segment's id is made
of what the file itself counts by: film, annotator, and the number in `clip_index`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from obygaze_features.core.console import count
from obygaze_features.core.schema_check import Violations
from obygaze_features.manifest.adapters.common import (
    ClipReader,
    ImportedManifest,
    Renamed,
    check_known,
    concepts_of,
    level_of,
    named_lines,
    source_of,
    string_list,
)
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.tables import TableRow, read_table, whole_number
from obygaze_features.manifest.vocabulary import concepts

# The released table with its subtitle column emptied; the subtitles are not ours to hand on.
SHA256 = ("6ca6726d32701febe1cad75140b48f5e1540d73ce1ff26fa5e9769c64e455f09",)
REQUIRED = (
    *("clip_index", "annotator", "label", "concepts", "comment", "start_frame", "end_frame"),
    *("imdb_key", "movie_title", "framerate"),
)
EXTRA = (
    *("annotator", "start_frame", "end_frame", "framerate", "movie_title", "clip_index"),
    "comment",
)
NAMES = {
    **{"clip_id": "clip_index", "movie_id": "imdb_key", "level": "label"},
    **{"start_s": "start_frame", "end_s": "end_frame"},
}
CITATION = (
    "J. Tores et al. MObyGaze: a film dataset of multimodal objectification densely annotated by "
    "experts. 2025."
)
NOTES = (
    "start_frame and end_frame are whole frames, both ends part of the segment; start_s and end_s"
    " are start_frame / framerate and (end_frame + 1) / framerate.",
    "Left out: subtitle (the text of the films), start_clip and end_clip (frame // 16).",
)
_FPS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,6})?")
_INDEX = re.compile(r"id_([0-9]{1,6})")


def read(csv: Path, *, name: str = "mobygaze", strict: bool = False) -> ImportedManifest:
    """The manifest of the released table of segments."""
    source = source_of(csv)
    warnings = check_known([(csv, source, SHA256)], strict=strict)
    violations = Renamed(csv, NAMES)
    table = read_table(csv, required=REQUIRED, delimiter=";", violations=violations)
    if not table.rows and not violations:
        violations.add(None, None, "there are no segments in it")
    reader = ClipReader(concepts(), EXTRA, violations)
    clips = tuple(reader.clip(row.line, _cells(row, violations)) for row in table.rows)
    violations.raise_if_any("this is not the table of MObyGaze")
    oddities = _oddities(table.rows, clips)
    header = Header(
        "mobygaze",
        concepts(),
        unit="segment",
        citation=CITATION,
        notes=(*NOTES, *oddities),
        sources=(source,),
    )
    return ImportedManifest(Manifest(name, header, clips, EXTRA), (*warnings, *oddities))


def _cells(row: TableRow, violations: Violations) -> dict[str, str]:
    comment = string_list(row["comment"])
    if comment is None:
        violations.add(row.line, "comment", f"{row['comment']!r} is not a list of strings")
    start_s, end_s = _span(row, violations)
    return {
        **{column: row[column] for column in EXTRA},
        "clip_id": _clip_id(row, violations),
        "movie_id": row["imdb_key"],
        "start_s": start_s,
        "end_s": end_s,
        "level": level_of(row, "label", violations),
        "concepts": "|".join(dict.fromkeys(concepts_of(row, "concepts", violations))),
        "comment": " | ".join(comment or ()),
    }


def _clip_id(row: TableRow, violations: Violations) -> str:
    index = _INDEX.fullmatch(row["clip_index"])
    if index is None:
        violations.add(row.line, "clip_index", f"{row['clip_index']!r} is not of the form id_0")
    if not row["annotator"].isalnum():
        violations.add(row.line, "annotator", f"{row['annotator']!r} is not a word")
    # Where a part of the id is wrong that has been told; the line keeps the id apart from others.
    number = f"{int(index[1]):04d}" if index else f"line{row.line}"
    annotator = row["annotator"] if row["annotator"].isalnum() else "unknown"
    return f"{row['imdb_key']}-{annotator}-{number}"


def _span(row: TableRow, violations: Violations) -> tuple[str, str]:
    """Start and end in seconds, from whole frames and the rate as written: exact until the end."""
    frames = []
    for column in ("start_frame", "end_frame"):
        frame = whole_number(row[column])
        if frame is None or frame < 0:
            violations.add(row.line, column, f"{row[column]!r} is not the number of a frame")
        else:
            frames.append(frame)
    fps = Fraction(row["framerate"]) if _FPS.fullmatch(row["framerate"]) else Fraction(0)
    if not fps:
        violations.add(row.line, "framerate", f"{row['framerate']!r} is not a rate")
    if len(frames) < 2 or not fps:
        return "", ""
    start, end = frames
    if end < start:
        violations.add(row.line, "end_frame", f"the end {end} is before the start {start}")
        return "", ""
    return repr(float(start / fps)), repr(float((end + 1) / fps))


def _oddities(rows: Iterable[TableRow], clips: tuple[Clip, ...]) -> tuple[str, ...]:
    """What is odd in the annotations, and kept as it is but for concepts named twice."""
    pairs = list(zip(rows, clips, strict=True))
    repeated = [row.line for row, clip in pairs if len(_words(row)) > len(clip.concepts)]
    bare = [row.line for row, clip in pairs if clip.level != "EN" and not clip.concepts]
    easy = [row.line for row, clip in pairs if clip.level == "EN" and clip.concepts]
    overlaps, gaps = _seams(clips)
    told = [
        (repeated, "with a concept named more than once, kept once"),
        (bare, "of HN, NS or S without a concept"),
        (easy, "of EN with a concept"),
    ]
    oddities = [
        f"{count(len(lines), 'segment')} {text} ({named_lines(lines)})"
        for lines, text in told
        if lines
    ]
    if overlaps or gaps:
        oddities.append(
            f"segments of one annotator do not tile the film: {overlaps} share frames with the"
            f" one before, {gaps} leave frames out"
        )
    return tuple(oddities)


def _words(row: TableRow) -> tuple[str, ...]:
    return string_list(row["concepts"]) or ()


def _seams(clips: Iterable[Clip]) -> tuple[int, int]:
    """How often a segment starts before, and how often after, the frame that follows the last."""
    spans: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for clip in clips:
        span = int(clip.extra["start_frame"]), int(clip.extra["end_frame"])
        spans.setdefault((clip.movie_id, clip.extra["annotator"]), []).append(span)
    seams = Counter(
        (after > end + 1) - (after <= end)
        for of_one in spans.values()
        for (_, end), (after, _) in pairwise(sorted(of_one))
    )
    return seams[-1], seams[1]
