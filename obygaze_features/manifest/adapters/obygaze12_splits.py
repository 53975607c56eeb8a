"""The split files released with ObyGaze12: read and held against the clips, never regenerated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.core.schema_check import Violations
from obygaze_features.manifest.adapters.common import string_list
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.manifest.tables import TableRow, read_table, whole_number
from obygaze_features.manifest.views import view
from obygaze_features.manifest.vocabulary import canonical_concept

REQUIRED = ("id", "movie", "label", "reason", "fold")
# What each label means; the files by movie write 1 for S and 0 for whatever is opposed to it.
LEVELS_OF_LABEL = {
    "Easy Neg": ("EN",),
    "Hard Neg": ("HN",),
    "Sure": ("S",),
    "EN_HN": ("EN", "HN"),
    "S": ("S",),
    "0": ("EN", "HN"),
    "1": ("S",),
}


@dataclass(frozen=True)
class PublishedSplit:
    """One released split: its file, the levels it is about, and the hash it was released with."""

    file: str
    name: str
    levels: tuple[str, ...]
    sha256: str


SPLITS = (
    PublishedSplit(
        "02_EN_S.csv",
        "02_EN_S",
        ("EN", "S"),
        "05db000a1ee0c41043ca02cd650e79d48de7f0985b5210c681e92929cce19f99",
    ),
    PublishedSplit(
        "02_HN_S.csv",
        "02_HN_S",
        ("HN", "S"),
        "a4dbc2acc90e0a02d60bf25d1e7c6ebc481d8e445692e58133b3171f8f9b142e",
    ),
    PublishedSplit(
        "02_ENHN_S.csv",
        "02_ENHN_S",
        ("EN", "HN", "S"),
        "5c1dc8be8b8f6703335c25d2992a359e0b21bfe8d7d083a9ed2824207b26130f",
    ),
    PublishedSplit(
        "02_EN_HN_S.csv",
        "02_EN_HN_S",
        ("EN", "HN", "S"),
        "c662bbee6134132ac043bd7fc804c347da4fd3cb8229e3e87c78d45613d5a210",
    ),
    PublishedSplit(
        "by_movie/HN_S.csv",
        "by_movie_HN_S",
        ("HN", "S"),
        "61baee95302c3a791b08ae18f9714d891dd1a38813bed9a62e936545a4795d9f",
    ),
    PublishedSplit(
        "by_movie/ENHN_S.csv",
        "by_movie_ENHN_S",
        ("EN", "HN", "S"),
        "599a59a2a6aa7458270379032ab21770581266e8605f31b027f744444d7143e4",
    ),
)


@dataclass(frozen=True)
class SplitFile:
    """A released split, and where it lies here."""

    split: PublishedSplit
    path: Path


def find(folder: Path) -> tuple[SplitFile, ...]:
    """The released splits that a folder holds, in their fixed order; one at least."""
    if not folder.exists():
        raise NotFound("no such folder", where=str(folder))
    if not folder.is_dir():
        raise FixInput("the splits are given as the folder of their files", where=str(folder))
    candidates = (SplitFile(split, folder / split.file) for split in SPLITS)
    found = tuple(file for file in candidates if file.path.is_file())
    if not found:
        names = ", ".join(split.file for split in SPLITS)
        raise NotFound(f"none of the split files is here ({names})", where=str(folder))
    return found


def left_out(folder: Path, found: Iterable[SplitFile]) -> list[str]:
    """A warning for each table near the splits that is none of them, and for splits not there."""
    read_paths = {file.path for file in found}
    others = sorted({*folder.glob("*.csv"), *folder.glob("by_movie/*.csv")} - read_paths)
    main = {path for path in others if path.name.startswith("ObyGaze12")}
    warnings = [
        f"{path}: not one of the released splits, left out" for path in others if path not in main
    ]
    names = {file.split.name for file in found}
    missing = [split.file for split in SPLITS if split.name not in names]
    if missing:
        warnings.append(f"{folder}: has no {', '.join(missing)}")
    return warnings


def read(file: SplitFile, manifest: Manifest) -> tuple[dict[str, str], Violations]:
    """The fold of each clip by its id, and all in which the file contradicts the clips."""
    violations = Violations(file.path)
    table = read_table(
        file.path, required=REQUIRED, delimiter=";", skip_blank=True, violations=violations
    )
    clips = view(manifest, "visual").by_id
    folds: dict[str, str] = {}
    line_of: dict[str, int] = {}
    for row in table.rows:
        first = line_of.setdefault(row["id"], row.line)
        if first != row.line:
            violations.add(row.line, "id", f"{row['id']!r} stands on line {first} already")
        if (whole_number(row["fold"]) or 0) < 0 or whole_number(row["fold"]) is None:
            violations.add(row.line, "fold", f"{row['fold']!r} is not a fold")
        # Without clips there is an error about them already, and nothing to hold a split against.
        if clips:
            _compare(row, clips.get(row["id"]), file.split.levels, violations)
        folds[row["id"]] = row["fold"]
    return folds, violations


def _compare(
    row: TableRow, clip: Clip | None, levels: Sequence[str], violations: Violations
) -> None:
    if clip is None:
        violations.add(row.line, "id", f"{row['id']!r} is not among the clips")
        return
    if row["movie"] != clip.movie_id:
        violations.add(row.line, "movie", f"{row['movie']!r}, the clip is of {clip.movie_id!r}")
    meant = [level for level in LEVELS_OF_LABEL.get(row["label"], ()) if level in levels]
    if not meant:
        violations.add(row.line, "label", f"{row['label']!r} is not a label of this split")
    elif clip.level and clip.level not in meant:
        violations.add(
            row.line, "label", f"{row['label']!r}, the clip is {clip.level} in the visual view"
        )
    reason = string_list(row["reason"])
    if reason is None:
        violations.add(row.line, "reason", f"{row['reason']!r} is not a list of strings")
    elif {canonical_concept(word) for word in reason} != set(clip.concepts):
        seen = "|".join(clip.concepts) or "none"
        violations.add(row.line, "reason", f"{row['reason']!r}, the clip's concepts are {seen}")
