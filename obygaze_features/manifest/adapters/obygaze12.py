"""Read the released files of ObyGaze12: one table of clips, and split files.

The splits are read and compared with the clips; they are not computed.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from obygaze_features.core.errors import NotFound
from obygaze_features.core.schema_check import Violations, raise_together
from obygaze_features.core.tables import TableRow, read_table
from obygaze_features.manifest.adapters import (
    ImportedManifest,
    dataset_entry,
    known_sources,
    published_header,
    read_concepts,
    read_level,
    read_strings,
    unread_columns,
)
from obygaze_features.manifest.io import clips_of_table
from obygaze_features.manifest.model import FOLD_PREFIX, Clip, Manifest
from obygaze_features.manifest.vocabulary import canonical_concept, concepts

REQUIRED = (
    *("util", "clip", "label", "overlap_ratio", "concepts", "id", "movie"),
    *("srt_name", "video_name", "graph_number"),
)
NUMBERS = ("", "idx")  # columns that number the rows
KEPT = ("clip", "overlap_ratio", "util", "srt_name", "video_name", "graph_number")
EXTRA = ("clip", "first_shot", "last_shot", *KEPT[1:])
NAMES = {
    **{"clip_id": "id", "movie_id": "movie", "video": "video_name", "level": "label"},
    **{"scene": "clip", "first_shot": "clip", "last_shot": "clip"},
}
SPLIT_COLUMNS = ("id", "movie", "label", "reason", "fold")
# The levels that each label stands for. The split files by film have 1 for S, and 0 for EN or HN.
LEVELS_OF_LABEL = {
    "Easy Neg": ("EN",),
    "Hard Neg": ("HN",),
    "Sure": ("S",),
    "EN_HN": ("EN", "HN"),
    "S": ("S",),
    "0": ("EN", "HN"),
    "1": ("S",),
}
_CLIP = re.compile(r"(.+?)scene-([0-9]{1,5})\.ss-([0-9]{1,6})\.es-([0-9]{1,6})")
_NUMBER = re.compile(r"-?[0-9]{1,15}")
_RATIO = re.compile(r"0(\.[0-9]+)?|1(\.0+)?")


def read(
    csv: str | Path,
    *,
    splits: str | Path | None = None,
    name: str = "obygaze12",
) -> ImportedManifest:
    """Read the clips and labels of ObyGaze12, with its splits.

    Args:
        csv: The released file, `ObyGaze12_thresh_02.csv`.
        splits: Folder of the published split files.
        name: The name of the manifest.
    """
    csv = Path(csv)
    data = dataset_entry("obygaze12")
    files = {csv: (csv.name, data["sha256"])}
    split_files = {}
    for file, facts in data["splits"].items() if splits else ():
        path = Path(splits or "", file)
        if path.is_file():
            split_files[file] = path
            files[path] = (file, [facts["sha256"]])
    if splits and not split_files:
        raise NotFound(
            "no folder with split files of ObyGaze12",
            where=str(splits),
            hint=f"pass --splits FOLDER, a folder with {', '.join(data['splits'])}",
        )
    sources, unknown = known_sources(files)
    warnings = list(unknown)
    header = published_header("obygaze12", *sources, concepts=concepts())
    violations = Violations(csv, NAMES)
    table = read_table(csv, required=REQUIRED, violations=violations, content="clips")
    warnings += unread_columns(csv, table.columns, *REQUIRED, *NUMBERS)
    clips = clips_of_table(
        ((row, _cells(row)) for row in table.rows), concepts(), EXTRA
    )
    manifest = Manifest(name, header, clips, EXTRA)
    clips_as_seen = manifest.view("visual").by_id
    wrong = [violations]
    for file, path in split_files.items():
        wrong.append(Violations(path))
        levels = data["splits"][file]["levels"]
        folds = _read_split(levels, path, clips_as_seen, wrong[-1])
        column = FOLD_PREFIX + file.removesuffix(".csv").replace("/", "_")
        manifest = manifest.with_column(column, folds)
    raise_together("these are not the files of ObyGaze12", *wrong)
    missing = [file for file in data["splits"] if file not in split_files]
    if splits and missing:
        warnings.append(f"{splits}: missing split files: {', '.join(missing)}")
    return ImportedManifest(manifest, tuple(warnings))


def _cells(row: TableRow) -> dict[str, str]:
    scene, first, last = _scene_and_shots(row)
    row.match("overlap_ratio", _RATIO, "a share from 0 to 1")
    row.match("graph_number", _NUMBER, "a whole number")
    return {
        **{column: row[column] for column in KEPT},
        "clip_id": row["id"],
        "movie_id": row["movie"],
        "scene": scene,
        "video": f"{row['movie']}/{row['video_name']}" if row["video_name"] else "",
        "level": read_level(row),
        "concepts": "|".join(read_concepts(row)),
        "first_shot": first,
        "last_shot": last,
    }


def _scene_and_shots(row: TableRow) -> tuple[str, str, str]:
    """Return scene, first and last shot of a name such as `tt0108160scene-011.ss-0053.es-0056`."""
    match = _CLIP.fullmatch(row["clip"])
    if match is None or match[1] != row["movie"]:
        form = f"{row['movie']}scene-000.ss-0000.es-0000"
        row.add("clip", f"{row['clip']!r} is not of the form {form}")
        return "", "", ""
    scene, first, last = (int(text) for text in match.groups()[1:])
    if not 1 <= first <= last:
        row.add("clip", f"shots {first} to {last}: expected ascending numbers from 1")
    if not row["id"].endswith(f"-{match[2]}"):
        row.add("id", f"{row['id']!r} is not the id of scene {match[2]}")
    return str(scene), str(first), str(last)


def _read_split(
    levels: Sequence[str], path: Path, clips: Mapping[str, Clip], violations: Violations
) -> dict[str, str]:
    """Return the fold of each clip by its id; contradictions with the clips are violations."""
    table = read_table(path, required=SPLIT_COLUMNS, violations=violations)
    line_of: dict[str, int] = {}
    for row in table.rows:
        row.unique("id", line_of)
        row.whole("fold", "a fold")
        # If there are no clips, the table of clips is invalid, and the split is not compared.
        if clips:
            _compare(row, clips.get(row["id"]), levels)
    return {row["id"]: row["fold"] for row in table.rows if row["id"] in clips}


def _compare(row: TableRow, clip: Clip | None, levels: Sequence[str]) -> None:
    if clip is None:
        row.add("id", f"{row['id']!r} is not the id of a clip")
        return
    if row["movie"] != clip.movie_id:
        row.add(
            "movie",
            f"expected the film of the clip, {clip.movie_id!r}, got {row['movie']!r}",
        )
    of_label = LEVELS_OF_LABEL.get(row["label"], ())
    meant = [level for level in of_label if level in levels]
    if not meant or (clip.level and clip.level not in meant):
        problem = f"{row['label']!r} is not valid in this split"
        row.add(
            "label",
            f"{problem} for a clip with the level {clip.level} in the visual view",
        )
    before = len(row.violations)
    reason = {canonical_concept(word) for word in read_strings(row, "reason")}
    if len(row.violations) == before and reason != set(clip.concepts):
        expected = "|".join(clip.concepts) or "none"
        problem = (
            f"expected the concepts of the clip, {expected}, got {row['reason']!r}"
        )
        row.add("reason", problem)
