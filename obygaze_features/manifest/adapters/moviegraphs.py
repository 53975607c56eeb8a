"""MovieGraphs: the time of each clip in its film, from the shot files or from a table of times.

The shot files of a film are its scenes in shots, its cuts in frames, its frames in seconds.
Frames are those of the data set's own copies of the films, unless an offset or a frame rate is
given: then they are computed from the times, for another copy.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.schema_check import Violations, raise_together
from obygaze_features.manifest.adapters import ImportedManifest, published_header, source_of
from obygaze_features.manifest.io import clips_of
from obygaze_features.manifest.model import COLUMNS, Clip, Manifest, SourceFile
from obygaze_features.manifest.tables import TableRow, numbered_lines, read_table

TABLE_COLUMNS = ("clip_id", "movie_id", "start", "end")
FRAME_COLUMNS = ("start_frame", "end_frame", "fps")
SHOT_COLUMNS = ("first_shot", "last_shot", "use", *FRAME_COLUMNS)
MAX_OFFSET_S = 86_400.0
MIN_FPS, MAX_FPS = 1, 1000
PICKLES = (".pkl", ".pickle", ".p")
SCENES, VIDEO = "scene_boundaries", "video_boundaries"
# Cuts and frames give the same times, rounded; more than a frame apart they are of two copies.
SAME_S = 0.05
_SUFFIX = ".scenes.gt"
_SECONDS = re.compile(r"[0-9]{1,6}(\.[0-9]{1,9})?")
_SCENE_NUMBER = re.compile(r".*-([0-9]{1,5})")
_SCENE = re.compile(r"([0-9]{1,6})\s+([0-9]{1,6})\s+([0-9]{1,3})")
_CUT = re.compile(r"([0-9]{1,9})\s+([0-9]{1,6}(?:\.[0-9]{1,9})?)\s+CUT")
_FRAME = re.compile(r"([0-9]{1,9})\s+([0-9]{1,6}(?:\.[0-9]{1,9})?)")

_Row = tuple[TableRow, dict[str, str]]
_Found = tuple[tuple[Clip, ...], tuple[str, ...], list[SourceFile]]


@dataclass(frozen=True)
class _Clock:
    """Converts the times of the source to those of another copy of the films.

    `early` counts the clips of each film that would start before the film.
    """

    offsets: Mapping[str, float]
    fps: float | None
    early: Counter[str] = field(default_factory=Counter)

    def cells(
        self,
        row: TableRow,
        movie: str,
        time_s: tuple[float, float],
        fps: float | None,
        frames: tuple[int, int] | None = None,
    ) -> dict[str, str]:
        """Return the cells of a clip's time; without a frame rate it has no frames.

        `frames` are those of the data set's own copy; both are part of the clip.
        """
        offset, fps = self.offsets.get(movie, 0.0), self.fps or fps
        self.early[movie] += time_s[0] + offset < 0
        # In a copy that starts late, the start of the first clip is cut off.
        start_s, end_s = max(0.0, time_s[0] + offset), time_s[1] + offset
        # Sums of decimals are not decimals in binary: a millionth of a second is below a frame.
        cells = {"start_s": repr(round(start_s, 6)), "end_s": repr(round(end_s, 6))}
        if fps is None or end_s <= start_s:
            return cells
        if frames is None or self.fps is not None or movie in self.offsets:
            # From the frame nearest the start to the one before the end.
            frames = math.floor(start_s * fps + 0.5), math.floor(end_s * fps + 0.5) - 1
        if frames[1] < frames[0]:
            row.add(None, f"shorter than one frame at {fps:g} frames per second")
        numbers = str(frames[0]), str(frames[1]), repr(round(fps, 6))
        return cells | dict(zip(FRAME_COLUMNS, numbers, strict=True))


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
    clock = _Clock(dict(offsets or {}), fps)
    for movie, offset in clock.offsets.items():
        if not abs(offset) <= MAX_OFFSET_S:
            most = f"{MAX_OFFSET_S:.0f} seconds"
            raise FixUsage(f"the offset of {movie} must be at most {most}, got {offset}")
    if fps is not None and not MIN_FPS <= fps <= MAX_FPS:
        raise FixUsage(f"the frame rate must be from {MIN_FPS} to {MAX_FPS}, got {fps}")
    if not source.exists():
        raise NotFound("no such file or folder", where=str(source))
    if source.suffix.lower() in PICKLES:
        raise FixInput(
            "pickle files are not read, because they can run code",
            where=str(source),
            hint="give the folder mg_videoinfo, which has the same times as text",
        )
    clips, columns, sources = (_from_shots if source.is_dir() else _from_table)(source, clock)
    manifest = Manifest(name, published_header("moviegraphs", *sources), clips, columns)
    unknown = sorted(set(clock.offsets) - set(manifest.movies))
    if unknown:
        what, hint = f"offsets for unknown films: {few(unknown)}", f"one of {few(manifest.movies)}"
        raise FixUsage(what, where=str(source), hint=hint)
    warnings = [
        f"{movie}: with an offset of {clock.offsets[movie]:+g} s {count(n, 'clip')}"
        " would start before the film"
        for movie, n in clock.early.items()
        if n
    ]
    if FRAME_COLUMNS[0] not in columns:
        warnings.append(f"{source}: no frame rate, so clips have times but no frames (--fps)")
    return ImportedManifest(manifest, tuple(warnings))


def _from_shots(folder: Path, clock: _Clock) -> _Found:
    wrong: list[Violations] = []
    rows: list[_Row] = []
    films = _shot_files(folder)
    for movie, paths in films.items():
        wrong += [Violations(path) for path in paths]
        rows += _scenes(movie, paths, wrong[-3:], clock)
    clips = clips_of(rows, columns=SHOT_COLUMNS)
    raise_together("these are not the shot files of MovieGraphs", *wrong)
    files = [path for paths in films.values() for path in paths]
    sources = [source_of(path, path.relative_to(folder).as_posix()) for path in files]
    return clips, SHOT_COLUMNS, sources


def _from_table(path: Path, clock: _Clock) -> _Found:
    violations = Violations(path, {"start_s": "start", "end_s": "end", "scene": "clip_id"})
    table = read_table(path, required=TABLE_COLUMNS, violations=violations, content="clips")
    for column in table.columns:
        if column in (*COLUMNS, *FRAME_COLUMNS[:2]) and column not in TABLE_COLUMNS:
            what = "unexpected column; `manifest import csv` can map any column"
            violations.add(1, column, what)
    has_fps = clock.fps is not None or "fps" in table.columns
    kept = tuple(name for name in table.columns if name not in (*TABLE_COLUMNS, *FRAME_COLUMNS))
    columns = (*kept, *(FRAME_COLUMNS if has_fps else ()))
    rows = ((row, {name: row[name] for name in kept} | _cells(row, clock)) for row in table.rows)
    clips = clips_of(rows, columns=columns)
    violations.raise_if_any("this is not a table of clip times")
    return clips, columns, [source_of(path)]


def _cells(row: TableRow, clock: _Clock) -> dict[str, str]:
    movie, number = row["movie_id"], _SCENE_NUMBER.fullmatch(row["clip_id"])
    scene = str(int(number[1])) if number else ""
    cells = {"clip_id": row["clip_id"], "movie_id": movie, "scene": scene}
    start, end = (row.matching(name, _SECONDS, "a time in seconds") for name in ("start", "end"))
    fps = None
    if clock.fps is None and "fps" in row.cells:
        rate = row.matching("fps", _SECONDS, "a frame rate")
        fps = float(rate[0]) if rate else None
        if fps is not None and not MIN_FPS <= fps <= MAX_FPS:
            row.add("fps", f"{row['fps']!r} is not a frame rate")
            fps = None
    if start is None or end is None:
        return cells
    return cells | clock.cells(row, movie, (float(start[0]), float(end[0])), fps)


def _shot_files(folder: Path) -> dict[str, tuple[Path, Path, Path]]:
    """Return the three files of each film by its id: scenes, cuts, frames."""
    root = folder if (folder / SCENES).is_dir() else folder / "mg_videoinfo"
    films = {
        movie: (path, root / VIDEO / f"{movie}.videvents", root / VIDEO / f"{movie}.matidx")
        for path in sorted((root / SCENES).glob(f"*{_SUFFIX}"))
        for movie in [path.name.removesuffix(_SUFFIX)]
    }
    if not films:
        hint = "the folder of MovieGraphs that holds scene_boundaries and video_boundaries"
        raise NotFound(f"no {SCENES}/*{_SUFFIX} in this folder", where=str(folder), hint=hint)
    missing = [path for paths in films.values() for path in paths if not path.is_file()]
    if missing:
        raise FixInput(
            "files of some films are missing",
            where=str(root),
            details=[f"{path}: no such file" for path in missing],
        )
    return films


def _scenes(
    movie: str, paths: Sequence[Path], wrong: Sequence[Violations], clock: _Clock
) -> Iterator[_Row]:
    """Yield the row and the cells of each scene of a film; violations are added to its files."""
    seconds = _frame_times(paths[2], wrong[2])
    cuts = _cuts(paths[1], seconds, wrong[1])
    length = seconds[-1] - seconds[0] if seconds else 0.0
    fps = (len(seconds) - 1) / length if length > 0 else 25.0
    # The first frame of each shot, and the time of each; the film ends one frame after its last.
    starts = [0, *cuts, len(seconds)]
    starts_s = [0.0, *seconds[1:], seconds[-1] + 1 / fps] if seconds else []
    number = 0
    for line, text in numbered_lines(paths[0], wrong[0]):
        # The number of a scene is that of its line, also where other lines are invalid.
        number += 1
        row = TableRow(line, {}, wrong[0])
        match = _SCENE.fullmatch(text)
        if match is None:
            row.add(None, f"expected first shot, last shot and a flag, got {text[:60]!r}")
            continue
        first, last, use = (int(part) for part in match.groups())
        if not 1 <= first <= last:
            row.add(None, f"shots {first} to {last}: expected ascending numbers from 1")
        elif last > len(cuts) + 1:
            row.add(None, f"shot {last}, but the film has {len(cuts) + 1} shots")
        elif seconds and all(cut < len(seconds) for cut in cuts):
            start, after = starts[first - 1], starts[last]
            cells = {"clip_id": f"{movie}-{number:03d}", "movie_id": movie, "scene": str(number)}
            cells |= {"first_shot": str(first), "last_shot": str(last), "use": str(use)}
            time_s = starts_s[start], starts_s[after]
            yield row, cells | clock.cells(row, movie, time_s, fps, (start, after - 1))
    if not number and not wrong[0]:
        wrong[0].add(None, None, "the file has no scenes")


def _frame_times(path: Path, wrong: Violations) -> list[float]:
    """Return the time of each frame in seconds; the file has one line for each frame, from 0."""
    seconds: list[float] = []
    for line, text in numbered_lines(path, wrong):
        match = _FRAME.fullmatch(text)
        if match is None or int(match[1]) != len(seconds):
            expected = f"expected frame {len(seconds)} and its time"
            wrong.add(line, None, f"{expected}, got {text[:60]!r}; the rest is not read")
            return seconds
        if seconds and float(match[2]) < seconds[-1]:
            wrong.add(line, None, f"frame {match[1]} is earlier than the previous frame")
        seconds.append(float(match[2]))
    if len(seconds) < 2 and not wrong:
        wrong.add(None, None, "expected at least two frames")
    return seconds


def _cuts(path: Path, seconds: Sequence[float], wrong: Violations) -> list[int]:
    """Return the first frame of each shot except the first shot."""
    cuts: list[int] = []
    lines = numbered_lines(path, wrong)
    line, header = next(lines, (1, ""))
    if not header or _CUT.fullmatch(header):
        wrong.add(line, None, "the header line is missing; a cut may be missing too")
    for line, text in lines:
        match = _CUT.fullmatch(text)
        if match is None:
            wrong.add(line, None, f"expected a frame, its time and CUT, got {text[:60]!r}")
            continue
        frame, time_s = int(match[1]), float(match[2])
        if cuts and frame <= cuts[-1]:
            wrong.add(line, None, f"the cut at frame {frame} must be after the previous cut")
        elif not 0 < frame < len(seconds):
            wrong.add(line, None, f"frame {frame} is the first frame or outside the film")
        elif abs(seconds[frame] - time_s) > SAME_S:
            wrong.add(line, None, f"frame {frame} is at {seconds[frame]} s, not at {time_s}")
        cuts.append(frame)
    return cuts
