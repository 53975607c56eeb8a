"""MovieGraphs: the time of each clip in its film.

The shot files of a film are its scenes in shots, its cuts in frames, its frames in seconds.
Frames are those of the data set's own copies of the films.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.core.schema_check import (
    Violations,
    raise_together,
)
from obygaze_features.core.tables import TableRow, numbered_lines
from obygaze_features.manifest.adapters import (
    ImportedManifest,
    published_header,
    source_of,
)
from obygaze_features.manifest.io import clips_of_table
from obygaze_features.manifest.model import Manifest

SHOT_COLUMNS = ("first_shot", "last_shot", "use", "start_frame", "end_frame", "fps")
SCENES = "scene_boundaries"
VIDEO = "video_boundaries"
# Cuts and frames give the same times, rounded; more than a frame apart they are of two copies.
SAME_S = 0.05
_SUFFIX = ".scenes.gt"
_SCENE = re.compile(r"([0-9]{1,6})\s+([0-9]{1,6})\s+([0-9]{1,3})")
_CUT = re.compile(r"([0-9]{1,9})\s+([0-9]{1,6}(?:\.[0-9]{1,9})?)\s+CUT")
_FRAME = re.compile(r"([0-9]{1,9})\s+([0-9]{1,6}(?:\.[0-9]{1,9})?)")


def read(
    source: str | Path,
    *,
    name: str = "moviegraphs",
) -> ImportedManifest:
    """Read the clip times of MovieGraphs.

    Args:
        source: The folder (mg_videoinfo) that holds scene_boundaries/ and video_boundaries/.
        name: The name of the manifest.
    """
    source = Path(source)
    if source.is_file():
        hint = "the folder mg_videoinfo"
        raise FixInput("expected a folder, got a file", where=str(source), hint=hint)
    violations: list[Violations] = []
    rows: list[tuple[TableRow, dict[str, str]]] = []
    sources = []
    for film, paths in _shot_files(source).items():
        violations_of_film = [Violations(path) for path in paths]
        violations += violations_of_film
        rows += _scenes(film, paths, violations_of_film)
        for path in paths:
            sources.append(source_of(path, path.relative_to(source).as_posix()))
    clips = clips_of_table(rows, columns=SHOT_COLUMNS)
    raise_together("these are not the shot files of MovieGraphs", *violations)
    header = published_header("moviegraphs", *sources)
    manifest = Manifest(name, header, clips, SHOT_COLUMNS)
    warnings = []
    for movie_id in _without_scenes(source, manifest.films):
        scenes = f"{SCENES}/{movie_id}{_SUFFIX}"
        warnings.append(f"{movie_id}: left out, because it has no {scenes}")
    return ImportedManifest(manifest, tuple(warnings))


def _root(folder: Path) -> Path:
    return folder if (folder / SCENES).is_dir() else folder / "mg_videoinfo"


def _without_scenes(folder: Path, films: Sequence[str]) -> list[str]:
    """Return the films that have cuts or frames, but are not among those with scenes."""
    paths = (_root(folder) / VIDEO).iterdir()
    with_video_files = {p.stem for p in paths if p.suffix in (".videvents", ".matidx")}
    return sorted(with_video_files - set(films))


def _shot_files(folder: Path) -> dict[str, tuple[Path, Path, Path]]:
    """Return the three files of each film by its id: scenes, cuts, frames."""
    root = _root(folder)
    films = {}
    missing = []
    for scenes in sorted((root / SCENES).glob(f"*{_SUFFIX}")):
        film = scenes.name.removesuffix(_SUFFIX)
        cuts = root / VIDEO / f"{film}.videvents"
        frames = root / VIDEO / f"{film}.matidx"
        films[film] = (scenes, cuts, frames)
        missing += [path for path in films[film] if not path.is_file()]
    if not films:
        raise NotFound(
            f"no {SCENES}/*{_SUFFIX} in this folder",
            where=str(folder),
        )
    if missing:
        raise FixInput(
            "files of some films are missing",
            where=str(root),
            details=[f"{path}: no such file" for path in missing],
        )
    return films


def _scenes(
    film: str, paths: Sequence[Path], wrong: Sequence[Violations]
) -> Iterator[tuple[TableRow, dict[str, str]]]:
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
            row.add(
                None, f"expected first shot, last shot and a flag, got {text[:60]!r}"
            )
            continue
        first, last, use = (int(part) for part in match.groups())
        if not 1 <= first <= last:
            row.add(None, f"shots {first} to {last}: expected ascending numbers from 1")
        elif last > len(cuts) + 1:
            row.add(None, f"shot {last}, but the film has {len(cuts) + 1} shots")
        elif seconds and all(cut < len(seconds) for cut in cuts):
            start = starts[first - 1]
            after = starts[last]
            cells = {
                "clip_id": f"{film}-{number:03d}",
                "movie_id": film,
                "scene": str(number),
            }
            cells |= {"first_shot": str(first), "last_shot": str(last), "use": str(use)}
            times = {"start_s": starts_s[start], "end_s": starts_s[after], "fps": fps}
            cells |= {name: repr(round(value, 6)) for name, value in times.items()}
            yield row, cells | {"start_frame": str(start), "end_frame": str(after - 1)}
    if not number and not wrong[0]:
        wrong[0].add(None, None, "the file has no scenes")


def _frame_times(path: Path, wrong: Violations) -> list[float]:
    """Return the time of each frame in seconds; the file has one line for each frame, from 0."""
    seconds: list[float] = []
    for line, text in numbered_lines(path, wrong):
        match = _FRAME.fullmatch(text)
        if match is None or int(match[1]) != len(seconds):
            expected = f"expected frame {len(seconds)} and its time"
            wrong.add(
                line, None, f"{expected}, got {text[:60]!r}; the rest is not read"
            )
            return seconds
        if seconds and float(match[2]) < seconds[-1]:
            wrong.add(
                line, None, f"frame {match[1]} is earlier than the previous frame"
            )
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
            wrong.add(
                line, None, f"expected a frame, its time and CUT, got {text[:60]!r}"
            )
            continue
        frame = int(match[1])
        time_s = float(match[2])
        if cuts and frame <= cuts[-1]:
            wrong.add(
                line, None, f"the cut at frame {frame} must be after the previous cut"
            )
        elif not 0 < frame < len(seconds):
            wrong.add(
                line, None, f"frame {frame} is the first frame or outside the film"
            )
        elif abs(seconds[frame] - time_s) > SAME_S:
            wrong.add(
                line, None, f"frame {frame} is at {seconds[frame]} s, not at {time_s}"
            )
        cuts.append(frame)
    return cuts
