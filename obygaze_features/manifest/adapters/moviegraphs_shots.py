"""The shot files of MovieGraphs: scenes in shots, cuts in frames, frames in seconds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.core.schema_check import Violations
from obygaze_features.manifest.tables import numbered_lines

SCENES, VIDEO = "scene_boundaries", "video_boundaries"
_SUFFIX = ".scenes.gt"
_SCENE = re.compile(r"([0-9]{1,6})\s+([0-9]{1,6})\s+([0-9]{1,3})")
_CUT = re.compile(r"([0-9]{1,9})\s+([0-9]{1,6}(?:\.[0-9]{1,9})?)\s+CUT")
_FRAME = re.compile(r"([0-9]{1,9})\s+([0-9]{1,6}(?:\.[0-9]{1,9})?)")
# Cuts and frames give the same times, rounded; more than a frame apart they are of two copies.
_SAME_S = 0.05


@dataclass(frozen=True)
class SceneShots:
    """One clip: its shots (from 1), its frames (from 0), both ends in it; its times."""

    number: int
    line: int
    first_shot: int
    last_shot: int
    use: int
    start_frame: int
    end_frame: int
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Film:
    """The clips of one film, and the mean rate of its frames."""

    movie_id: str
    fps: float
    scenes: tuple[SceneShots, ...]


def shots(folder: Path) -> dict[str, tuple[Path, Path, Path]]:
    """Return the files of each film by its id: scenes, cuts, frames; all three must be there."""
    root = folder if (folder / SCENES).is_dir() else folder / "mg_videoinfo"
    films = {
        movie: (path, root / VIDEO / f"{movie}.videvents", root / VIDEO / f"{movie}.matidx")
        for path in sorted((root / SCENES).glob(f"*{_SUFFIX}"))
        for movie in [path.name.removesuffix(_SUFFIX)]
    }
    if not films:
        raise NotFound(f"no {SCENES}/*{_SUFFIX} in this folder", where=str(folder))
    missing = [path for paths in films.values() for path in paths if not path.is_file()]
    if missing:
        raise FixInput(
            "files of some films are missing",
            where=str(root),
            details=[f"{path}: no such file" for path in missing],
        )
    return films


def read_film(movie: str, paths: Sequence[Path]) -> tuple[Film, tuple[Violations, ...]]:
    """Return the clips of a film, and the violations of each of its files."""
    wrong = tuple(Violations(path) for path in paths)
    seconds = _frame_times(paths[2], wrong[2])
    cuts = _cuts(paths[1], seconds, wrong[1])
    scenes = _scenes(paths[0], cuts, seconds, wrong[0])
    return Film(movie, _rate(seconds), tuple(scenes)), wrong


def _rate(seconds: Sequence[float]) -> float:
    length = seconds[-1] - seconds[0] if seconds else 0.0
    return (len(seconds) - 1) / length if length > 0 else 25.0


def _frame_times(path: Path, wrong: Violations) -> list[float]:
    """Return the time of each frame; each has a line, counted from 0."""
    seconds: list[float] = []
    for line, text in numbered_lines(path, wrong):
        match = _FRAME.fullmatch(text)
        if match is None or int(match[1]) != len(seconds):
            expected = f"expected frame {len(seconds)} and its time"
            wrong.add(line, None, f"{expected}, got {text[:60]!r}; read no further")
            return seconds
        if seconds and float(match[2]) < seconds[-1]:
            wrong.add(line, None, f"frame {match[1]} is earlier than the one before it")
        seconds.append(float(match[2]))
    if len(seconds) < 2 and not wrong:
        wrong.add(None, None, "expected at least two frames")
    return seconds


def _cuts(path: Path, seconds: Sequence[float], wrong: Violations) -> list[int]:
    """Return the first frame of each shot but the first."""
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
            wrong.add(line, None, f"the cut at frame {frame} is not after the one before it")
        elif not 0 < frame < len(seconds):
            wrong.add(line, None, f"frame {frame} is the first frame, or not in the film")
        elif abs(seconds[frame] - time_s) > _SAME_S:
            wrong.add(line, None, f"frame {frame} is at {seconds[frame]} s, not at {time_s}")
        cuts.append(frame)
    return cuts


def _scenes(
    path: Path, cuts: Sequence[int], seconds: Sequence[float], wrong: Violations
) -> Iterator[SceneShots]:
    n_shots = len(cuts) + 1
    number = 0
    for line, text in numbered_lines(path, wrong):
        # The number of a scene is that of its line, also where other lines are invalid.
        number += 1
        match = _SCENE.fullmatch(text)
        if match is None:
            wrong.add(line, None, f"expected first shot, last shot and a flag, got {text[:60]!r}")
            continue
        first, last, use = (int(part) for part in match.groups())
        if not 1 <= first <= last:
            wrong.add(line, None, f"shots {first} to {last}: expected ascending numbers from 1")
        elif last > n_shots:
            wrong.add(line, None, f"shot {last}, but the film has {n_shots} shots")
        elif seconds and all(cut < len(seconds) for cut in cuts):
            yield _scene(number, line, (first, last, use), cuts, seconds)
    if not number and not wrong:
        wrong.add(None, None, "the file has no scenes")


def _scene(
    number: int,
    line: int,
    shots: tuple[int, int, int],
    cuts: Sequence[int],
    seconds: Sequence[float],
) -> SceneShots:
    first, last, use = shots
    start = cuts[first - 2] if first > 1 else 0
    after = cuts[last - 1] if last <= len(cuts) else len(seconds)
    # The film ends one frame's length after its last frame starts.
    end_s = seconds[after] if after < len(seconds) else seconds[-1] + 1 / _rate(seconds)
    start_s = seconds[start] if first > 1 else 0.0
    return SceneShots(number, line, first, last, use, start, after - 1, start_s, end_s)
