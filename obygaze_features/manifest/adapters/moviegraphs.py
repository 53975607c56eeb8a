"""Read MovieGraphs: the times of each clip in its film.

Each film has three files: the shots of each scene, the frame of each cut, and the time of each
frame. Frames are counted in the data set's own copies of the films.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.core.schema_check import Violations, raise_together
from obygaze_features.core.tables import TableRow, numbered_lines
from obygaze_features.manifest.adapters import (
    ImportedManifest,
    published_header,
    source_file,
)
from obygaze_features.manifest.io import clips_of_table
from obygaze_features.manifest.model import Manifest

SHOT_COLUMNS = ("first_shot", "last_shot", "use", "start_frame", "end_frame", "fps")
SCENES = "scene_boundaries"
VIDEO = "video_boundaries"
# Both files state the times of cuts, rounded; a larger difference means two copies of the film.
SAME_S = 0.05
_SUFFIX = ".scenes.gt"
# The extensions of the files of cuts and of frames.
ENDINGS = (".videvents", ".matidx")
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
        hint = "pass the folder mg_videoinfo"
        raise FixInput("expected a folder, got a file", where=str(source), hint=hint)
    root = source if (source / SCENES).is_dir() else source / "mg_videoinfo"
    violations: list[Violations] = []
    rows: list[tuple[TableRow, dict[str, str]]] = []
    sources = []
    missing = []
    for scenes in sorted((root / SCENES).glob(f"*{_SUFFIX}")):
        film = scenes.name.removesuffix(_SUFFIX)
        video = root / VIDEO / film
        paths = [scenes, *(Path(f"{video}{ending}") for ending in ENDINGS)]
        missing_here = [f"{path}: no such file" for path in paths if not path.is_file()]
        missing += missing_here
        if not missing_here:
            of_film = [Violations(path) for path in paths]
            rows += _scenes(film, of_film)
            violations += of_film
            for path in paths:
                sources.append(source_file(path, path.relative_to(source).as_posix()))
    if missing:
        problem = "files of some films are missing"
        raise FixInput(problem, where=str(root), details=missing)
    if not sources:
        problem = f"no {SCENES}/*{_SUFFIX} in this folder"
        raise NotFound(problem, where=str(source))
    clips = clips_of_table(rows, columns=SHOT_COLUMNS)
    raise_together("these are not the shot files of MovieGraphs", *violations)
    header = published_header("moviegraphs", *sources)
    manifest = Manifest(name, header, clips, SHOT_COLUMNS)
    warnings = []
    of_videos = [p for p in (root / VIDEO).iterdir() if p.suffix in ENDINGS]
    for film in sorted({p.stem for p in of_videos}.difference(manifest.films)):
        scenes_of_film = f"{SCENES}/{film}{_SUFFIX}"
        warnings.append(f"{film}: not imported, because {scenes_of_film} is missing")
    return ImportedManifest(manifest, tuple(warnings))


def _scenes(
    film: str, wrong: Sequence[Violations]
) -> Iterator[tuple[TableRow, dict[str, str]]]:
    """Yield the row and the cells of each scene of a film; violations are added to its files."""
    of_scenes, of_cuts, of_frames = wrong
    seconds = _frame_times(of_frames)
    cuts = _cuts(of_cuts, seconds)
    length = seconds[-1] - seconds[0] if seconds else 0.0
    fps = (len(seconds) - 1) / length if length > 0 else 25.0
    # `starts` are the first frames of shots, and `starts_s` the times of all frames. Both end with
    # the end of the film, one frame after the start of the last frame.
    starts = [0, *cuts, len(seconds)]
    starts_s = [0.0, *seconds[1:], seconds[-1] + 1 / fps] if seconds else []
    number = 0
    expected = "first shot, last shot and a flag"
    for line, match in _matches(_SCENE, expected, of_scenes):
        number += 1
        first, last, use = map(int, match.groups())
        if not 1 <= first <= last <= len(cuts) + 1:
            problem = (
                f"shots {first} to {last}: expected ascending numbers of the film's"
            )
            of_scenes.add(line, None, f"{problem} {len(cuts) + 1} shots")
        elif not of_cuts and not of_frames:
            start = starts[first - 1]
            after = starts[last]
            times = {"start_s": starts_s[start], "end_s": starts_s[after], "fps": fps}
            cells = {name: repr(round(value, 6)) for name, value in times.items()}
            whole = {
                "scene": number,
                "first_shot": first,
                "last_shot": last,
                "use": use,
            }
            whole |= {"start_frame": start, "end_frame": after - 1}
            cells |= {name: str(value) for name, value in whole.items()}
            ids = {"clip_id": f"{film}-{number:03d}", "movie_id": film}
            yield TableRow(line, {}, of_scenes), cells | ids
    if not number and not of_scenes:
        of_scenes.add(None, None, "the file has no scenes")


def _matches(
    form: re.Pattern[str], expected: str, wrong: Violations, n_before: int = 0
) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield the lines that match `form`, with their numbers, after the first `n_before` lines.

    A line after these that does not match is a violation.
    """
    for place, (line, text) in enumerate(numbered_lines(Path(wrong.path))):
        match = form.fullmatch(text)
        if match is not None and place >= n_before:
            yield line, match
        elif place >= n_before:
            wrong.add(line, None, f"expected {expected}, got {text[:60]!r}")


def _frame_times(wrong: Violations) -> list[float]:
    """Return the time of each frame in seconds; the file has one line for each frame, from 0."""
    seconds: list[float] = []
    for line, match in _matches(_FRAME, "a frame and its time", wrong):
        time_s = float(match[2])
        if int(match[1]) != len(seconds) or time_s < max(seconds[-1:], default=0.0):
            expected = f"expected frame {len(seconds)} and its time, in ascending order"
            wrong.add(line, None, f"{expected}, got {match[0]!r}; the rest is not read")
            break
        seconds.append(time_s)
    if len(seconds) < 2 and not wrong:
        wrong.add(None, None, "expected at least two frames")
    return seconds


def _cuts(wrong: Violations, seconds: Sequence[float]) -> list[int]:
    """Return the first frame of each shot except the first shot."""
    line, header = next(numbered_lines(Path(wrong.path)), (1, ""))
    if not header or _CUT.fullmatch(header):
        wrong.add(line, None, "the header line is missing; a cut may be missing too")
    cuts = [0]
    for line, match in _matches(_CUT, "a frame, its time and CUT", wrong, 1):
        frame = int(match[1])
        time_s = float(match[2])
        if not cuts[-1] < frame < len(seconds):
            problem = (
                f"frame {frame} is not after the previous cut, or is outside the film"
            )
            wrong.add(line, None, problem)
        elif abs(seconds[frame] - time_s) > SAME_S:
            problem = f"expected {seconds[frame]} s for frame {frame}, got {time_s}"
            wrong.add(line, None, problem)
        cuts.append(frame)
    return cuts[1:]
