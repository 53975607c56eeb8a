"""MovieGraphs: the time of each clip in its film, from the shot files or from a table of times.

Frames are those of the data set's own copies of the films, unless an offset or a frame rate is
given: then they are computed from the times, for another copy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.schema_check import Violations, raise_together
from obygaze_features.manifest.adapters.common import ImportedManifest, published, source_of
from obygaze_features.manifest.adapters.moviegraphs_shots import Film, SceneShots, read_film, shots
from obygaze_features.manifest.io import ClipReader
from obygaze_features.manifest.model import COLUMNS, Clip, Manifest, SourceFile
from obygaze_features.manifest.tables import TableRow, read_table

TABLE_COLUMNS = ("clip_id", "movie_id", "start", "end")
FRAME_COLUMNS = ("start_frame", "end_frame", "fps")
SHOT_COLUMNS = ("first_shot", "last_shot", "use", *FRAME_COLUMNS)
MAX_OFFSET_S = 86_400.0
MIN_FPS, MAX_FPS = 1, 1000
PICKLES = (".pkl", ".pickle", ".p")
_SECONDS = re.compile(r"[0-9]{1,6}(\.[0-9]{1,9})?")
_SCENE_NUMBER = re.compile(r".*-([0-9]{1,5})")


@dataclass(frozen=True)
class _Clock:
    """How the times of the source become those of another copy of the films."""

    offsets: Mapping[str, float]
    fps: float | None

    def offset(self, movie: str) -> float:
        return self.offsets.get(movie, 0.0)

    def span(self, movie: str, start_s: float, end_s: float) -> tuple[float, float]:
        # In a copy that starts late, the start of the first clip is cut off.
        return max(0.0, start_s + self.offset(movie)), end_s + self.offset(movie)


def read(
    source: Path,
    *,
    offsets: Mapping[str, float] | None = None,
    fps: float | None = None,
    name: str = "moviegraphs",
) -> ImportedManifest:
    """Return the manifest of clip times.

    Args:
        source: The folder of the shot files (mg_videoinfo), or a table with the columns clip_id,
            movie_id, start, end and possibly fps.
        offsets: Seconds to add to the times, by film.
        fps: The frame rate to count frames at; needed where a table has no column fps.
        name: The name of the manifest.
    """
    clock = _checked(dict(offsets or {}), fps)
    if not source.exists():
        raise NotFound("no such file or folder", where=str(source))
    if source.suffix.lower() in PICKLES:
        raise FixInput(
            "pickle files are not opened: they can run any code",
            where=str(source),
            hint="the folder mg_videoinfo, which has the same times as text",
        )
    read_source = _from_shots if source.is_dir() else _from_table
    imported = read_source(source, clock, name)
    unknown = sorted(set(clock.offsets) - set(imported.manifest.movies))
    if unknown:
        raise FixUsage(
            f"offsets for unknown films: {', '.join(unknown)}",
            where=str(source),
            hint=f"one of {few(imported.manifest.movies)}",
        )
    return imported


def _checked(offsets: dict[str, float], fps: float | None) -> _Clock:
    for movie, offset in offsets.items():
        if not abs(offset) <= MAX_OFFSET_S:
            most = f"{MAX_OFFSET_S:.0f} seconds"
            raise FixUsage(f"the offset of {movie} must be at most {most}, got {offset}")
    if fps is not None and not MIN_FPS <= fps <= MAX_FPS:
        raise FixUsage(f"the frame rate must be from {MIN_FPS} to {MAX_FPS}, got {fps}")
    return _Clock(offsets, fps)


def _from_shots(folder: Path, clock: _Clock, name: str) -> ImportedManifest:
    sources: list[SourceFile] = []
    wrong: list[Violations] = []
    clips: list[Clip] = []
    early: list[str] = []
    reader = ClipReader((), SHOT_COLUMNS)
    for movie, paths in shots(folder).items():
        sources += [source_of(path, path.relative_to(folder).as_posix()) for path in paths]
        film, violations = read_film(movie, paths)
        for scene in film.scenes:
            row = TableRow(scene.line, {}, violations[0])
            clips.append(reader.clip_of(row, _shot_cells(film, scene, clock, row)))
        early += _early(movie, [scene.start_s for scene in film.scenes], clock)
        wrong += violations
    raise_together("these are not the shot files of MovieGraphs", *wrong)
    header = published("moviegraphs").header("moviegraphs", sources=tuple(sources))
    manifest = Manifest(name, header, tuple(clips), SHOT_COLUMNS)
    return ImportedManifest(manifest, tuple(early))


def _shot_cells(film: Film, scene: SceneShots, clock: _Clock, row: TableRow) -> dict[str, str]:
    start_s, end_s = clock.span(film.movie_id, scene.start_s, scene.end_s)
    fps, frames = film.fps, (scene.start_frame, scene.end_frame)
    if clock.fps is not None or film.movie_id in clock.offsets:
        fps = clock.fps or film.fps
        frames = _frames(start_s, end_s, fps)
    return {
        "clip_id": f"{film.movie_id}-{scene.number:03d}",
        "movie_id": film.movie_id,
        "scene": str(scene.number),
        "first_shot": str(scene.first_shot),
        "last_shot": str(scene.last_shot),
        "use": str(scene.use),
        **_time_cells(start_s, end_s),
        **_frame_cells(frames, fps, row),
    }


def _from_table(path: Path, clock: _Clock, name: str) -> ImportedManifest:
    source = source_of(path)
    violations = Violations(path, {"start_s": "start", "end_s": "end", "scene": "clip_id"})
    table = read_table(path, required=TABLE_COLUMNS, violations=violations, content="clips")
    for column in table.columns:
        if column in (*COLUMNS, *FRAME_COLUMNS[:2]) and column not in TABLE_COLUMNS:
            what = "unexpected column; `manifest import csv` can map any column"
            violations.add(1, column, what)
    has_fps = clock.fps is not None or "fps" in table.columns
    kept = tuple(name for name in table.columns if name not in (*TABLE_COLUMNS, *FRAME_COLUMNS))
    columns = (*kept, *(FRAME_COLUMNS if has_fps else ()))
    reader = ClipReader((), columns)
    starts: dict[str, list[float]] = {}
    clips = []
    for row in table.rows:
        cells = _table_cells(row, clock, starts)
        clips.append(reader.clip_of(row, {**{column: row[column] for column in kept}, **cells}))
    violations.raise_if_any("this is not a table of clip times")
    warnings = [text for movie, each in starts.items() for text in _early(movie, each, clock)]
    if not has_fps:
        warnings.append(f"{path}: no frame rate, so clips have times but no frames (--fps)")
    header = published("moviegraphs").header("moviegraphs", sources=(source,))
    manifest = Manifest(name, header, tuple(clips), columns)
    return ImportedManifest(manifest, tuple(warnings))


def _table_cells(row: TableRow, clock: _Clock, starts: dict[str, list[float]]) -> dict[str, str]:
    movie = row["movie_id"]
    number = _SCENE_NUMBER.fullmatch(row["clip_id"])
    scene = str(int(number[1])) if number else ""
    cells = {"clip_id": row["clip_id"], "movie_id": movie, "scene": scene}
    times = [row.matching(column, _SECONDS, "a time in seconds") for column in ("start", "end")]
    fps = _fps(row, clock)
    seconds = [float(match[0]) for match in times if match]
    if len(seconds) < 2:
        return cells
    starts.setdefault(movie, []).append(seconds[0])
    start_s, end_s = clock.span(movie, *seconds)
    cells |= _time_cells(start_s, end_s)
    if fps is None or end_s <= start_s:
        return cells
    return cells | _frame_cells(_frames(start_s, end_s, fps), fps, row)


def _fps(row: TableRow, clock: _Clock) -> float | None:
    if clock.fps is not None or "fps" not in row.cells:
        return clock.fps
    if not (_SECONDS.fullmatch(row["fps"]) and MIN_FPS <= float(row["fps"]) <= MAX_FPS):
        row.add("fps", f"{row['fps']!r} is not a frame rate")
        return None
    return float(row["fps"])


def _frames(start_s: float, end_s: float, fps: float) -> tuple[int, int]:
    """Return the frames of a span: from the one nearest its start to the one before its end."""
    return math.floor(start_s * fps + 0.5), math.floor(end_s * fps + 0.5) - 1


def _time_cells(start_s: float, end_s: float) -> dict[str, str]:
    # Sums of decimals are not decimals in binary: a millionth of a second is far below a frame.
    return {"start_s": repr(round(start_s, 6)), "end_s": repr(round(end_s, 6))}


def _frame_cells(frames: tuple[int, int], fps: float, row: TableRow) -> dict[str, str]:
    if frames[1] < frames[0]:
        row.add(None, f"shorter than one frame at {fps:g} frames per second")
    numbers = str(frames[0]), str(frames[1]), repr(round(fps, 6))
    return dict(zip(FRAME_COLUMNS, numbers, strict=True))


def _early(movie: str, starts: Sequence[float], clock: _Clock) -> Iterable[str]:
    offset = clock.offset(movie)
    n = sum(start + offset < 0 for start in starts)
    if n:
        clips = count(n, "clip")
        yield f"{movie}: with an offset of {offset:+g} s {clips} would start before the film"
