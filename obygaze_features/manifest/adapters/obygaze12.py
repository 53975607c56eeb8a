"""ObyGaze12 as its authors released it: one table of clips, and the split files beside it."""

from __future__ import annotations

import re
from pathlib import Path

from obygaze_features.core.errors import NotFound
from obygaze_features.core.schema_check import Violations, raise_together
from obygaze_features.manifest.adapters import obygaze12_splits
from obygaze_features.manifest.adapters.common import (
    ClipReader,
    ImportedManifest,
    Renamed,
    check_known,
    concepts_of,
    level_of,
    source_of,
)
from obygaze_features.manifest.link import FILM_COLUMNS, film_span
from obygaze_features.manifest.model import FOLD_PREFIX, Clip, Header, Manifest
from obygaze_features.manifest.tables import TableRow, read_table, whole_number
from obygaze_features.manifest.vocabulary import concepts

SHA256 = "3296d488624dfa8b105ad434ca01fe415834e37bb784a718d41d19098729c963"
REQUIRED = (
    *("util", "clip", "label", "overlap_ratio", "concepts", "id", "movie"),
    *("srt_name", "video_name", "graph_number"),
)
KEPT = ("clip", "overlap_ratio", "util", "srt_name", "video_name", "graph_number")
EXTRA = ("clip", "first_shot", "last_shot", *KEPT[1:])
FRAME_COLUMNS = ("start_frame", "end_frame")
NAMES = {
    **{"clip_id": "id", "movie_id": "movie", "video": "video_name", "level": "label"},
    **{"scene": "clip", "first_shot": "clip", "last_shot": "clip"},
}
CITATION = (
    "J. Tores et al. Visual Objectification in Films: Towards a New AI Task for Video "
    "Interpretation. CVPR 2024."
)
NOTES = (
    "video names the file that was looked for; `obygaze manifest link` puts the one found there.",
    "util is kept, but does not say whether a clip has a video: an empty video does.",
    "srt_name is unique within a film only.",
)
_CLIP = re.compile(r"(.+?)scene-([0-9]{1,5})\.ss-([0-9]{1,6})\.es-([0-9]{1,6})")
_RATIO = re.compile(r"0(\.[0-9]+)?|1(\.0+)?")


def read(
    csv: Path,
    *,
    splits: Path | None = None,
    times: Manifest | None = None,
    name: str = "obygaze12",
    strict: bool = False,
) -> ImportedManifest:
    """The manifest of the released table, in the raw view.

    `splits` is the folder of the released split files, which become fold columns. `times` is a
    manifest that knows when in the film each clip is (adapter moviegraphs).
    """
    split_files = obygaze12_splits.find(splits) if splits else ()
    sources = [source_of(csv), *(source_of(found.path, found.split.file) for found in split_files)]
    known = [SHA256, *(found.split.sha256 for found in split_files)]
    paths = [csv, *(found.path for found in split_files)]
    warnings = list(
        check_known(zip(paths, sources, ([sha] for sha in known), strict=True), strict=strict)
    )
    header = Header("obygaze12", concepts(), citation=CITATION, notes=NOTES, sources=tuple(sources))
    violations = Renamed(csv, NAMES)
    manifest = Manifest(name, header, _clips(csv, violations), EXTRA)
    found_in_splits = []
    for found in split_files:
        folds, wrong = obygaze12_splits.read(found, manifest)
        manifest = manifest.with_column(FOLD_PREFIX + found.split.name, folds)
        found_in_splits.append(wrong)
    raise_together("these are not the files of ObyGaze12", violations, *found_in_splits)
    if splits:
        warnings += obygaze12_splits.left_out(splits, split_files)
    if times is not None:
        manifest, without = _with_times(manifest, times)
        if without:
            warnings.append(f"{without} of {len(manifest)} clips have no times in {times.name}")
    return ImportedManifest(manifest, tuple(warnings))


def _clips(csv: Path, violations: Violations) -> tuple[Clip, ...]:
    # The released file's second line is empty but for its semicolons.
    table = read_table(
        csv, required=REQUIRED, delimiter=";", skip_blank=True, violations=violations
    )
    if not table.rows and not violations:
        violations.add(None, None, "there are no clips in it")
    reader = ClipReader(concepts(), EXTRA, violations)
    return tuple(reader.clip(row.line, _cells(row, violations)) for row in table.rows)


def _cells(row: TableRow, violations: Violations) -> dict[str, str]:
    scene, first, last = _place(row, violations)
    if not _RATIO.fullmatch(row["overlap_ratio"]):
        text = row["overlap_ratio"]
        violations.add(row.line, "overlap_ratio", f"{text!r} is not a share between 0 and 1")
    if whole_number(row["graph_number"]) is None:
        text = row["graph_number"]
        violations.add(row.line, "graph_number", f"{text!r} is not a whole number")
    return {
        **{column: row[column] for column in KEPT},
        "clip_id": row["id"],
        "movie_id": row["movie"],
        "scene": scene,
        "video": f"{row['movie']}/{row['video_name']}" if row["video_name"] else "",
        "level": level_of(row, "label", violations),
        "concepts": "|".join(concepts_of(row, "concepts", violations)),
        "first_shot": first,
        "last_shot": last,
    }


def _place(row: TableRow, violations: Violations) -> tuple[str, str, str]:
    """Scene, first and last shot, out of `tt0108160scene-011.ss-0053.es-0056`."""
    match = _CLIP.fullmatch(row["clip"])
    if match is None or match[1] != row["movie"]:
        form = f"{row['movie']}scene-000.ss-0000.es-0000"
        violations.add(row.line, "clip", f"{row['clip']!r} is not of the form {form}")
        return "", "", ""
    scene, first, last = (int(text) for text in match.groups()[1:])
    if not 1 <= first <= last:
        violations.add(row.line, "clip", f"shots {first} to {last}: they count from 1, upwards")
    if not row["id"].endswith(f"-{match[2]}"):
        violations.add(row.line, "id", f"{row['id']!r} is not the id of scene {match[2]}")
    return str(scene), str(first), str(last)


def _with_times(manifest: Manifest, times: Manifest) -> tuple[Manifest, int]:
    """When in the film each clip is, beside its own file rather than as a part of that file."""
    spans = {clip.clip_id: span for clip in times if (span := film_span(clip)) is not None}
    spans = {clip_id: span for clip_id, span in spans.items() if clip_id in manifest.by_id}
    if not spans:
        raise NotFound(
            "none of the clips is in the manifest that should know their times", where=times.name
        )
    for place, column in enumerate(FILM_COLUMNS):
        values = {clip_id: repr(span[place]) for clip_id, span in spans.items()}
        manifest = manifest.with_column(column, values)
    for column in FRAME_COLUMNS:
        if column in times.columns:
            values = {clip.clip_id: clip.extra.get(column, "") for clip in times}
            manifest = manifest.with_column(column, values)
    return manifest, len(manifest) - len(spans)
