"""MObyGaze: the segments that two experts a film marked, each expert's kept apart.

The rows serve as they are as the segments of `obygaze manifest project`. A segment's id is made
of the film, the annotator, and the number in `clip_index`.
"""

import re
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from obygaze_features.core.console import count, few
from obygaze_features.core.schema_check import Violations
from obygaze_features.manifest.adapters import (
    ImportedManifest,
    concepts_of,
    known_sources,
    level_of,
    published,
    published_header,
    strings_of,
)
from obygaze_features.manifest.io import clips_of
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.manifest.projection import RATE
from obygaze_features.manifest.tables import TableRow, read_table
from obygaze_features.manifest.vocabulary import concepts

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
_INDEX = re.compile(r"id_([0-9]{1,6})")
_WORD = re.compile(r"[^\W_]+")


def read(csv: Path, *, name: str = "mobygaze", strict: bool = False) -> ImportedManifest:
    """Return the manifest of the released table of segments.

    Args:
        csv: The released file, `mobygaze_dataframe.csv`.
        name: The name of the manifest.
        strict: Refuse a file whose hash is not that of the released one.
    """
    known = published("mobygaze")["sha256"]
    sources, warnings = known_sources({csv: (csv.name, known)}, strict=strict)
    violations = Violations(csv, NAMES)
    table = read_table(
        csv, required=REQUIRED, delimiter=";", violations=violations, content="segments"
    )
    clips = clips_of(((row, _cells(row)) for row in table.rows), concepts(), EXTRA)
    violations.raise_if_any("this is not the table of MObyGaze")
    inconsistencies = _inconsistencies(table.rows, clips)
    facts = {"concepts": concepts(), "unit": "segment", "notes": inconsistencies}
    header = published_header("mobygaze", *sources, **facts)
    return ImportedManifest(Manifest(name, header, clips, EXTRA), (*warnings, *inconsistencies))


def _cells(row: TableRow) -> dict[str, str]:
    """Return the cells of a clip; its times are exact, from whole frames and the frame rate."""
    index = row.matching("clip_index", _INDEX, "of the form id_0")
    word = row.matching("annotator", _WORD, "a word")
    # A wrong part of the id is a violation already; the line makes the id unique.
    number = f"{int(index[1]):04d}" if index else f"line{row.line}"
    frames, rate = row.frames(), row.matching("framerate", RATE, "a frame rate")
    span = (frames[0], frames[1] + 1) if frames and rate else ()
    times = [repr(float(frame / Fraction(row["framerate"]))) for frame in span] or ["", ""]
    return {
        **{column: row[column] for column in EXTRA},
        "clip_id": f"{row['imdb_key']}-{row['annotator'] if word else 'unknown'}-{number}",
        "movie_id": row["imdb_key"],
        **dict(zip(("start_s", "end_s"), times, strict=True)),
        "level": level_of(row, "label"),
        "concepts": "|".join(dict.fromkeys(concepts_of(row, "concepts"))),
        "comment": " | ".join(strings_of(row, "comment")),
    }


def _inconsistencies(rows: Iterable[TableRow], clips: tuple[Clip, ...]) -> tuple[str, ...]:
    """Describe the inconsistencies of the annotations; only repeated concepts are corrected."""
    pairs = list(zip(rows, clips, strict=True))
    repeated = [
        str(row.line)
        for row, clip in pairs
        if len(strings_of(row, "concepts")) > len(clip.concepts)
    ]
    bare = [str(row.line) for row, clip in pairs if clip.level != "EN" and not clip.concepts]
    easy = [str(row.line) for row, clip in pairs if clip.level == "EN" and clip.concepts]
    findings = [
        (repeated, "with a concept named more than once, kept once"),
        (bare, "of HN, NS or S without a concept"),
        (easy, "of EN with a concept"),
    ]
    inconsistencies = [
        f"{count(len(lines), 'segment')} {text} (line{'s' * (len(lines) > 1)} {few(lines, 5)})"
        for lines, text in findings
        if lines
    ]
    cells = [(clip.movie_id, clip.extra) for clip in clips]
    frames = sorted(
        ((movie_id, own["annotator"]), int(own["start_frame"]), int(own["end_frame"]))
        for movie_id, own in cells
    )
    # How many frames are left out before a segment; below 0 where it shares some with the last.
    steps = [
        start - end - 1 for (one, _, end), (other, start, _) in pairwise(frames) if one == other
    ]
    shared, gaps = sum(step < 0 for step in steps), sum(step > 0 for step in steps)
    if shared or gaps:
        inconsistencies.append(
            f"segments of one annotator do not tile the film: {shared} share frames with the one"
            f" before, {gaps} leave frames out"
        )
    return tuple(inconsistencies)
