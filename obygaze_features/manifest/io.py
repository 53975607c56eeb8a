"""Manifests on disk: `NAME.toml` and `NAME.csv`, read strictly, written whole."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath

from obygaze_features.core.errors import AlreadyThere, FixInput, NotFound
from obygaze_features.core.files import locked, sha256_bytes, write_all_new, write_atomic
from obygaze_features.core.schema_check import Violations
from obygaze_features.manifest.header import header_to_toml, parse_header
from obygaze_features.manifest.model import COLUMNS, FOLD_PREFIX, LEVELS, Clip, Manifest
from obygaze_features.manifest.tables import TableRow, read_table, table_of_bytes

# An id becomes a key in HDF5 files and a name of files: no separators, no leading dot.
ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,199}")
# As repr() writes floats; float() itself would take 1_0, blanks and the digits of any script.
SECONDS = re.compile(r"[0-9]+(\.[0-9]*)?(e[+-]?[0-9]{1,3})?")


def read_manifest(path: Path) -> Manifest:
    """The manifest whose TOML file is `path`; every violation of its rows at once."""
    if not path.is_file():
        raise NotFound("no such manifest", where=str(path), hint="obygaze manifest ls")
    header = parse_header(path.read_bytes(), path)
    rows = path.with_suffix(".csv")
    violations = Violations(rows)
    table = read_table(rows, required=COLUMNS, violations=violations)
    columns = tuple(name for name in table.columns if name not in COLUMNS)
    parse = ClipParser(header.concepts, columns, violations)
    clips = [parse.clip(row) for row in table.rows]
    violations.raise_if_any("the manifest is not valid")
    return Manifest(path.stem, header, tuple(clips), columns)


def rows_to_csv(manifest: Manifest) -> bytes:
    """The rows of a manifest as the CSV half of the pair."""
    lines = [(*COLUMNS, *manifest.columns)]
    for clip in manifest:
        lines.append((*_cells(clip), *(clip.extra.get(name, "") for name in manifest.columns)))
    return "".join(",".join(map(_quoted, cells)) + "\n" for cells in lines).encode("utf-8")


def _quoted(cell: str) -> str:
    # Python's own writer leaves a lone \r bare, which its reader then takes for a line's end.
    if any(mark in cell for mark in ',"\n\r'):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def manifest_sha256(manifest: Manifest) -> str:
    """The hash that stores and runs remember a manifest by: that of its CSV half."""
    return sha256_bytes(rows_to_csv(manifest))


def write_manifest(manifest: Manifest, path: Path, *, force: bool = False) -> None:
    """Write a new pair; it is checked as a reader would before anything is on disk."""
    toml, rows = check_manifest(manifest)
    # The TOML file is what makes a manifest: it comes last, so that half a pair is none.
    files = {path.with_suffix(".csv"): rows, path: toml}
    if force and not (path.is_file() and b"obygaze-manifest/" in path.read_bytes()):
        # One of the two may be the table or the mapping that is being imported.
        _refuse_other_files(files)
    write_all_new(files, force=force)


def _refuse_other_files(files: Mapping[Path, bytes]) -> None:
    for path, data in files.items():
        if os.path.lexists(path) and not (path.is_file() and path.read_bytes() == data):
            raise AlreadyThere(
                "this exists and is not part of an obygaze manifest",
                where=str(path),
                hint="another name with -o, or move this away",
            )


def update_manifest(before: Manifest, after: Manifest, path: Path) -> None:
    """Replace a manifest by a later state of itself (videos linked, folds added).

    `before` is what was read; an error where another process has changed it since.
    """
    toml, rows = check_manifest(after)
    with locked(path.parent):
        if read_manifest(path) != before:
            raise AlreadyThere(
                "this manifest was changed by another command meanwhile",
                where=str(path),
                hint="the same command again",
            )
        write_atomic(path.with_suffix(".csv"), rows)
        write_atomic(path, toml)


def check_manifest(manifest: Manifest) -> tuple[bytes, bytes]:
    """The two files of a manifest, read as a reader would: what is written can be read back."""
    rows_path = Path(f"{manifest.name}.csv")
    violations = Violations(rows_path)
    try:
        toml, rows = header_to_toml(manifest.header).encode("utf-8"), rows_to_csv(manifest)
    except UnicodeEncodeError as error:
        raise FixInput(
            f"{error.object[error.start : error.end]!r} is not a character that UTF-8 can hold",
            where=manifest.name,
        ) from error
    parse_header(toml, rows_path.with_suffix(".toml"))
    table = table_of_bytes(rows, rows_path, required=COLUMNS, violations=violations)
    parse = ClipParser(manifest.header.concepts, manifest.columns, violations)
    for row in table.rows:
        parse.clip(row)
    violations.raise_if_any("this would not be a valid manifest")
    return toml, rows


def _cells(clip: Clip) -> tuple[str, ...]:
    numbers = ("" if value is None else repr(value) for value in (clip.start_s, clip.end_s))
    scene = "" if clip.scene is None else str(clip.scene)
    ids = (clip.clip_id, clip.movie_id, scene, clip.video)
    return (*ids, *numbers, clip.level, "|".join(clip.concepts))


def leads_out(path: str) -> bool:
    """Whether a relative path could lead out of the folder it is relative to."""
    pure, foreign = PurePosixPath(path), PureWindowsPath(path)
    return pure.is_absolute() or bool(foreign.drive or foreign.root) or ".." in foreign.parts


class ClipParser:
    """Turns rows into clips and notes everything that is wrong with them."""

    def __init__(
        self, concepts: Iterable[str], columns: tuple[str, ...], violations: Violations
    ) -> None:
        self.concepts = frozenset(concepts)
        self.columns = columns
        self.violations = violations
        self.line_of: dict[str, int] = {}

    def clip(self, row: TableRow) -> Clip:
        """The clip of one row; where a cell is wrong that is noted, and the clip of no use."""
        start_s, end_s = self._span(row)
        return Clip(
            clip_id=self._clip_id(row),
            movie_id=self._id(row, "movie_id"),
            scene=self._whole(row, "scene"),
            video=self._video(row),
            start_s=start_s,
            end_s=end_s,
            level=self._level(row),
            concepts=self._concepts(row),
            extra=self._extra(row),
        )

    def _clip_id(self, row: TableRow) -> str:
        clip_id = self._id(row, "clip_id")
        first = self.line_of.setdefault(clip_id, row.line)
        if first != row.line:
            self._add(row, "clip_id", f"{clip_id!r} stands on line {first} already")
        return clip_id

    def _id(self, row: TableRow, column: str) -> str:
        if not ID.fullmatch(row[column]):
            self._add(row, column, f"{row[column]!r} is not an id (letters, digits, . _ + -)")
        return row[column]

    def _whole(self, row: TableRow, column: str) -> int | None:
        text = row[column]
        if text and not (text.isascii() and text.isdigit() and len(text) < 10):
            self._add(row, column, f"{text!r} is not a whole number")
            return None
        return int(text) if text else None

    def _video(self, row: TableRow) -> str:
        if row["video"] and leads_out(row["video"]):
            self._add(row, "video", f"{row['video']!r} leaves the folder of the videos")
        elif not row["video"].isprintable():  # it could command the terminal it is shown on
            self._add(row, "video", f"{row['video']!r} holds what cannot be printed")
        return row["video"]

    def _span(self, row: TableRow) -> tuple[float | None, float | None]:
        start_s, end_s = self._seconds(row, "start_s"), self._seconds(row, "end_s")
        if bool(row["start_s"]) != bool(row["end_s"]):
            self._add(row, "end_s", "a start needs an end, and an end a start")
        elif start_s is not None and end_s is not None and end_s <= start_s:
            self._add(row, "end_s", f"the end {end_s} is not after the start {start_s}")
        return start_s, end_s

    def _seconds(self, row: TableRow, column: str) -> float | None:
        if not row[column]:
            return None
        value = float(row[column]) if SECONDS.fullmatch(row[column]) else math.inf
        if value == math.inf:
            self._add(row, column, f"{row[column]!r} is not a time in seconds")
            return None
        return value

    def _level(self, row: TableRow) -> str:
        if row["level"] and row["level"] not in LEVELS:
            self._add(row, "level", f"{row['level']!r} is not one of {', '.join(LEVELS)}")
        return row["level"]

    def _concepts(self, row: TableRow) -> tuple[str, ...]:
        names = tuple(row["concepts"].split("|")) if row["concepts"] else ()
        for name in dict.fromkeys(names):
            if name not in self.concepts:
                self._add(row, "concepts", f"{name!r} is not in the manifest's vocabulary")
            elif names.count(name) > 1:
                self._add(row, "concepts", f"{name!r} stands there more than once")
        return names

    def _extra(self, row: TableRow) -> Mapping[str, str]:
        for column in self.columns:
            if column.startswith(FOLD_PREFIX):
                self._whole(row, column)
        return {column: row[column] for column in self.columns}

    def _add(self, row: TableRow, column: str, message: str) -> None:
        self.violations.add(row.line, column, message)
