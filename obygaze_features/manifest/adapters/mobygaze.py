"""Read MObyGaze: each segment that one of the two experts of a film marked becomes a clip.

The clips can be the segments of `obygaze marks clips`. The id of a segment is made from the
film, the annotator, and the number in `clip_index`.
"""

import re
from pathlib import Path

from obygaze_features.core.schema_check import Violations
from obygaze_features.core.tables import TableRow, read_table
from obygaze_features.manifest.adapters import (
    ImportedManifest,
    dataset_entry,
    known_sources,
    published_header,
    read_concepts,
    read_level,
    read_strings,
    string_list,
    unread_columns,
)
from obygaze_features.manifest.frame_rate import frame_times_s, parse_frame_rate
from obygaze_features.manifest.io import clips_of_table
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.vocabulary import concepts

REQUIRED = (
    *("clip_index", "annotator", "label", "concepts", "comment"),
    *("start_frame", "end_frame", "imdb_key", "movie_title", "framerate"),
)
EXTRA = (
    *("annotator", "start_frame", "end_frame", "framerate"),
    *("movie_title", "clip_index", "comment"),
)
# The columns that make the id of a segment, and the column of its subtitles.
TEXTS = ("imdb_key", "annotator", "clip_index", "subtitle")
# Columns that are not kept: row numbers, numbers of films, and columns described in the notes.
LEFT_OUT = ("", "movie_id", "subtitle", "start_clip", "end_clip")
NAMES = {
    **{"clip_id": "clip_index", "movie_id": "imdb_key", "level": "label"},
    **{"start_s": "start_frame", "end_s": "end_frame"},
}
OVERLAP = (
    "segments of the two annotators overlap, and each segment is a clip; to use one annotator, pass"
    " --set 'data.where=annotator == annotator1' to obygaze run"
)
_INDEX = re.compile(r"id_([0-9]{1,6})")
_WORD = re.compile(r"[^\W_]+")


def read(csv: str | Path, *, name: str = "mobygaze") -> ImportedManifest:
    """Read the segments of MObyGaze from both annotators of each film.

    Args:
        csv: The released file, `mobygaze_dataframe.csv`.
        name: The name of the manifest.
    """
    csv = Path(csv)
    known = dataset_entry("mobygaze")["sha256"]
    sources, warnings = known_sources({csv: (csv.name, known)})
    violations = Violations(csv, NAMES)
    table = read_table(
        csv, required=REQUIRED, violations=violations, content="segments"
    )
    clips = clips_of_table(
        ((row, _cells(row)) for row in table.rows), concepts(), EXTRA
    )
    violations.raise_if_any("this is not the table of MObyGaze")
    unread = unread_columns(csv, table.columns, *REQUIRED, *LEFT_OUT)
    header = published_header(
        "mobygaze", *sources, concepts=concepts(), said=("comment",)
    )
    manifest = Manifest(name, header, clips, EXTRA)
    return ImportedManifest(manifest, (*warnings, *unread), (OVERLAP,))


def _cells(row: TableRow) -> dict[str, str]:
    """Return the cells of a clip; its times are computed exactly from frames and frame rate."""
    start_s, end_s = _times(row)
    return {
        **{column: row[column] for column in EXTRA},
        "clip_id": _clip_id(row),
        "movie_id": row["imdb_key"],
        "start_s": start_s,
        "end_s": end_s,
        "level": read_level(row),
        "concepts": "|".join(dict.fromkeys(read_concepts(row))),
        "comment": " | ".join(read_strings(row, "comment")),
    }


def texts_of_segments(csv: Path) -> dict[str, str]:
    """Return the subtitles of each segment, by the id of the segment in the manifest."""
    violations = Violations(csv, NAMES)
    table = read_table(csv, required=TEXTS, violations=violations, content="segments")
    texts: dict[str, str] = {}
    for row in table.rows:
        segment = _clip_id(row)
        if segment in texts:
            row.add("clip_index", f"the segment {segment} has several rows")
        strings = string_list(row["subtitle"])
        texts[segment] = row["subtitle"] if strings is None else " ".join(strings)
    violations.raise_if_any("this is not the table of MObyGaze")
    return texts


def _clip_id(row: TableRow) -> str:
    """Return the id of a segment."""
    index = row.match("clip_index", _INDEX, "of the form id_0")
    word = row.match("annotator", _WORD, "a word")
    # A wrong part of the id is a violation already; the line makes the id unique.
    number = f"{int(index[1]):04d}" if index else f"line{row.line}"
    return f"{row['imdb_key']}-{row['annotator'] if word else 'unknown'}-{number}"


def _times(row: TableRow) -> tuple[str, str]:
    """Return the start and the end of a segment in seconds, or "" for invalid cells."""
    frames = row.frames()
    rate = parse_frame_rate(row["framerate"])
    if not row["framerate"]:
        row.add("framerate", "is empty")
    if frames is None or rate is None:
        return "", ""
    start_s, end_s = frame_times_s(*frames, rate)
    return repr(start_s), repr(end_s)
