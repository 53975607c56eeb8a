"""MovieGraphs: when in its film each clip is, from the shot files or from a plain table of times.

Frames are those of the data set's own copies of the films as long as nothing else is asked for.
With an offset or a frame rate they are counted anew from the times, for a copy of one's own.
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
from obygaze_features.manifest.adapters.common import (
    ClipReader,
    ImportedManifest,
    Renamed,
    source_of,
)
from obygaze_features.manifest.adapters.moviegraphs_shots import (
    Film,
    SceneShots,
    film_files,
    read_film,
)
from obygaze_features.manifest.model import COLUMNS, Clip, Header, Manifest, SourceFile
from obygaze_features.manifest.tables import TableRow, read_table

TABLE_COLUMNS = ("clip_id", "movie_id", "start", "end")
FRAME_COLUMNS = ("start_frame", "end_frame", "fps")
SHOT_COLUMNS = ("first_shot", "last_shot", "use", *FRAME_COLUMNS)
MOST_OFFSET_S = 86_400.0
MIN_FPS, MAX_FPS = 1, 1000
PICKLES = (".pkl", ".pickle", ".p")
CITATION = (
    "P. Vicol, M. Tapaswi, L. Castrejon, S. Fidler. MovieGraphs: Towards Understanding "
    "Human-Centric Situations from Videos. CVPR 2018."
)
NOTE = "start_s and end_s are times in the film; start_frame and end_frame are both in the clip."
_SECONDS = re.compile(r"[0-9]{1,6}(\.[0-9]{1,9})?")
_SCENE_NUMBER = re.compile(r".*-([0-9]{1,5})")


@dataclass(frozen=True)
class _Clock:
    """How the times of the source become those of the films at hand."""

    offsets: Mapping[str, float]
    fps: float | None

    def span(self, movie: str, start_s: float, end_s: float) -> tuple[float, float]:
        offset = self.offsets.get(movie, 0.0)
        # A copy that starts late has lost the first moments of the first clip, not the clip.
        return max(0.0, start_s + offset), end_s + offset


def read(
    source: Path,
    *,
    offsets: Mapping[str, float] | None = None,
    fps: float | None = None,
    name: str = "moviegraphs",
) -> ImportedManifest:
    """The manifest of clip times, from the folder of the shot files or from a table.

    `offsets` are seconds to add, by film; `fps` is the rate that frames are counted at, needed
    where the table names none.
    """
    clock = _checked(dict(offsets or {}), fps)
    if not source.exists():
        raise NotFound("no such file or folder", where=str(source))
    if source.suffix.lower() in PICKLES:
        raise FixInput(
            "a pickle can run any code, so none is ever opened",
            where=str(source),
            hint="the folder mg_videoinfo, which holds the same times as text",
        )
    read_source = _from_shots if source.is_dir() else _from_table
    imported = read_source(source, clock, name)
    unknown = sorted(set(clock.offsets) - set(imported.manifest.movies))
    if unknown:
        raise FixUsage(
            f"offsets for films that are not here: {', '.join(unknown)}",
            where=str(source),
            hint=f"one of {few(imported.manifest.movies)}",
        )
    return imported


def _checked(offsets: dict[str, float], fps: float | None) -> _Clock:
    for movie, offset in offsets.items():
        if not abs(offset) <= MOST_OFFSET_S:
            raise FixUsage(f"an offset of {offset} seconds for {movie} is not within a day")
    if fps is not None and not MIN_FPS <= fps <= MAX_FPS:
        raise FixUsage(f"{fps} is not a frame rate from {MIN_FPS} to {MAX_FPS}")
    return _Clock(offsets, fps)


def _from_shots(folder: Path, clock: _Clock, name: str) -> ImportedManifest:
    sources: list[SourceFile] = []
    wrong: list[Violations] = []
    clips: list[Clip] = []
    early: list[str] = []
    for files in film_files(folder):
        sources += [source_of(path, path.relative_to(folder).as_posix()) for path in files.paths]
        film, violations = read_film(files)
        reader = ClipReader((), SHOT_COLUMNS, violations[0])
        for scene in film.scenes:
            cells = _shot_cells(film, scene, clock, violations[0])
            clips.append(reader.clip(scene.line, cells))
        early += _early(film.movie_id, [scene.start_s for scene in film.scenes], clock)
        wrong += violations
    raise_together("these are not the shot files of MovieGraphs", *wrong)
    return ImportedManifest(
        Manifest(name, _header(sources), tuple(clips), SHOT_COLUMNS), tuple(early)
    )


def _shot_cells(film: Film, scene: SceneShots, clock: _Clock, found: Violations) -> dict[str, str]:
    start_s, end_s = clock.span(film.movie_id, scene.start_s, scene.end_s)
    if clock.fps is None and film.movie_id not in clock.offsets:
        fps, frames = film.fps, (scene.start_frame, scene.end_frame)
    else:
        fps = clock.fps or film.fps
        frames = _frames(start_s, end_s, fps)
    if frames[1] < frames[0]:
        found.add(scene.line, None, f"shorter than a frame at {fps:g} frames a second")
    return {
        "clip_id": f"{film.movie_id}-{scene.number:03d}",
        "movie_id": film.movie_id,
        "scene": str(scene.number),
        **_times(start_s, end_s),
        "first_shot": str(scene.first_shot),
        "last_shot": str(scene.last_shot),
        "use": str(scene.use),
        **_frame_cells(frames, fps),
    }


def _from_table(path: Path, clock: _Clock, name: str) -> ImportedManifest:
    source = source_of(path)
    violations = Renamed(path, {"start_s": "start", "end_s": "end", "scene": "clip_id"})
    table = read_table(path, required=TABLE_COLUMNS, violations=violations)
    for column in table.columns:
        if column in (*COLUMNS, *FRAME_COLUMNS[:2]) and column not in TABLE_COLUMNS:
            violations.add(1, column, "has no place here; `manifest import csv` maps any column")
    if not table.rows and not violations:
        violations.add(None, None, "there are no clips in it")
    has_fps = clock.fps is not None or "fps" in table.columns
    kept = tuple(name for name in table.columns if name not in (*TABLE_COLUMNS, *FRAME_COLUMNS))
    columns = (*kept, *(FRAME_COLUMNS if has_fps else ()))
    reader = ClipReader((), columns, violations)
    starts: dict[str, list[float]] = {}
    clips = []
    for row in table.rows:
        cells = _table_cells(row, clock, violations, starts)
        clips.append(reader.clip(row.line, {**{column: row[column] for column in kept}, **cells}))
    violations.raise_if_any("this is not a table of clip times")
    warnings = [text for movie, each in starts.items() for text in _early(movie, each, clock)]
    if not has_fps:
        warnings.append(f"{path}: no frame rate, so clips have times but no frames (--fps)")
    return ImportedManifest(
        Manifest(name, _header([source]), tuple(clips), columns), tuple(warnings)
    )


def _table_cells(
    row: TableRow, clock: _Clock, violations: Violations, starts: dict[str, list[float]]
) -> dict[str, str]:
    movie = row["movie_id"]
    number = _SCENE_NUMBER.fullmatch(row["clip_id"])
    cells = {
        "clip_id": row["clip_id"],
        "movie_id": movie,
        "scene": str(int(number[1])) if number else "",
    }
    start_s, end_s = (_seconds(row, column, violations) for column in ("start", "end"))
    fps = _fps(row, clock, violations)
    if start_s is None or end_s is None:
        return cells
    starts.setdefault(movie, []).append(start_s)
    start_s, end_s = clock.span(movie, start_s, end_s)
    cells |= _times(start_s, end_s)
    if fps is None or end_s <= start_s:
        return cells
    frames = _frames(start_s, end_s, fps)
    if frames[1] < frames[0]:
        violations.add(row.line, "end", f"shorter than a frame at {fps} frames a second")
    return cells | _frame_cells(frames, fps)


def _seconds(row: TableRow, column: str, violations: Violations) -> float | None:
    if not _SECONDS.fullmatch(row[column]):
        violations.add(row.line, column, f"{row[column]!r} is not a time in seconds")
        return None
    return float(row[column])


def _fps(row: TableRow, clock: _Clock, violations: Violations) -> float | None:
    if clock.fps is not None:
        return clock.fps
    if "fps" not in row.cells:
        return None
    if not (_SECONDS.fullmatch(row["fps"]) and MIN_FPS <= float(row["fps"]) <= MAX_FPS):
        violations.add(row.line, "fps", f"{row['fps']!r} is not a frame rate")
        return None
    return float(row["fps"])


def _frames(start_s: float, end_s: float, fps: float) -> tuple[int, int]:
    """The frames of a span: from the one nearest its start to the one before its end."""
    return math.floor(start_s * fps + 0.5), math.floor(end_s * fps + 0.5) - 1


def _times(start_s: float, end_s: float) -> dict[str, str]:
    # Sums of decimals are not decimals in binary: a millionth of a second is far below a frame.
    return {"start_s": repr(round(start_s, 6)), "end_s": repr(round(end_s, 6))}


def _frame_cells(frames: tuple[int, int], fps: float) -> dict[str, str]:
    numbers = str(frames[0]), str(frames[1]), repr(round(fps, 6))
    return dict(zip(FRAME_COLUMNS, numbers, strict=True))


def _early(movie: str, starts: Sequence[float], clock: _Clock) -> Iterable[str]:
    offset = clock.offsets.get(movie, 0.0)
    n = sum(start + offset < 0 for start in starts)
    if n:
        clips = count(n, "clip")
        yield f"{movie}: with an offset of {offset:+g} s {clips} would start before the film"


def _header(sources: Iterable[SourceFile]) -> Header:
    return Header("moviegraphs", {}, citation=CITATION, notes=(NOTE,), sources=tuple(sources))
