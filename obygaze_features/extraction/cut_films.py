"""Cut whole films into windows.

A film is decoded only if the packets of its file have no reliable times.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeWarning
from obygaze_features.core.files import VIDEO_SUFFIXES
from obygaze_features.core.machine import usable_cores
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.frame_rate import frame_rate_text, parse_frame_rate
from obygaze_features.manifest.history import (
    command_line,
    manifest_word,
    with_command,
)
from obygaze_features.manifest.io import (
    read_manifest,
    saved_facts,
    write_manifest,
)
from obygaze_features.manifest.link import require_videos
from obygaze_features.manifest.model import Clip, Header, Manifest, with_columns_of
from obygaze_features.manifest.spans import MILLISECOND_S, RATE_COLUMN, span_in_film
from obygaze_features.manifest.windows import CutFilm, Grid, check_windows, span_id

if TYPE_CHECKING:
    from obygaze_features.video.index import FrameIndex

# The share of a picture by which a window may be shorter than one picture, because of rounding.
ROUNDING = 1e-6
# A shorter rest of a film after its last window is not mentioned, in seconds.
LEAST_REST_S = 0.1
# The time limit for reading a film, in seconds; it starts again with each sign of progress.
_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class WrittenWindows:
    """A manifest of windows and its file, and the films that were cut."""

    manifest: Manifest
    films: Sequence[CutFilm]
    grid: Grid
    path: Path

    def to_json(self) -> dict[str, Any]:
        """Return the facts of the manifest."""
        return {
            **saved_facts(self.manifest, self.path),
            "windows": len(self.manifest),
            "films": len(self.manifest.films),
            "grid": self.grid.to_json(),
        }

    @property
    def warnings(self) -> list[str]:
        """The films that have no window."""
        without = [one.movie_id for one in self.films if not self.grid.n_windows(one)]
        if not without:
            return []
        n_films = count(len(without), "film")
        return [f"{n_films} too short for a window: {few(without)}"]

    def __str__(self) -> str:
        films = count(len(self.manifest.films), "film")
        windows = count(len(self.manifest), "window")
        text = f"{self.path}: {windows} of {films} ({self.grid})"
        if self._longest_rest_s >= LEAST_REST_S:
            rest = f"{self._longest_rest_s:.1f} s"
            text += f"; up to {rest} at the end of a film are in no window"
        return text

    @property
    def _longest_rest_s(self) -> float:
        """The longest time from the end of the last window of a film to the end of the film."""
        last_end_s: dict[str, float] = {}
        for clip in self.manifest:
            last_end_s[clip.movie_id] = clip.end_s or 0.0
        rests_s = [
            film.end_s - last_end_s[film.movie_id]
            for film in self.films
            if film.movie_id in last_end_s
        ]
        return max(rests_s, default=0.0)


def write_windows(
    films: PathLike,
    name: str,
    *,
    window: int | None = None,
    stride: int | None = None,
    seconds: float | None = None,
    every: float | None = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> WrittenWindows:
    """Cut whole films into windows, the clips of a new manifest.

    Each film is read once. Use `window` and `stride`, or `seconds` and `every`. Without `stride` or
    `every`, each window begins where the window before it ends.

    Args:
        films: A folder of films, or a manifest whose clips are linked to films.
        name: Name of the new manifest.
        window: Length of a window, in pictures.
        stride: Number of pictures from the start of a window to the start of the next.
        seconds: Length of a window, in seconds.
        every: Seconds from the start of a window to the start of the next.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    here = Workspace.of(workspace)
    path = here.new_manifest(name)
    grid = Grid(window or 0, stride or 0, seconds or 0, every or 0)
    # A grid of both forms is refused below, in an error that names only what was passed.
    if not (grid.seconds or grid.every):
        grid = replace(grid, stride=grid.stride or grid.window)
    elif not (grid.window or grid.stride):
        grid = replace(grid, every=grid.every or grid.seconds)
    grid.check()
    manifest, cut = make_windows(films, grid, workspace=here, name=path.stem)
    parents = []
    word: str | Path = Path(films)
    if not Path(films).is_dir():
        parents = [read_manifest(here.existing_manifest(str(films)))]
        word = manifest_word(films, workspace)
    options: dict[str, Any] = {
        "--window": window,
        "--stride": stride,
        "--seconds": seconds,
    }
    options |= {"--every": every, "-o": path.stem}
    command = command_line("manifest windows", [word], options, workspace)
    manifest = with_command(manifest, command, *parents)
    write_manifest(manifest, path, force=force)
    return WrittenWindows(manifest, cut, grid, path)


def make_windows(
    films: PathLike, grid: Grid, *, workspace: Workspace, name: str
) -> tuple[Manifest, list[CutFilm]]:
    """Return the manifest of the windows of whole films, and the films.

    Each film is read once, and its index is kept in the workspace. A film is decoded only if the
    packets of its file have no reliable times.

    Args:
        films: A folder of films, or the name of a manifest.
        grid: How each film is cut.
        workspace: The workspace of the manifests and of the indexes.
        name: The name of the manifest.
    """
    # PyAV is loaded only where films are read, and not by the help of the command.
    from obygaze_features.extraction.film_frames import make_cut_film
    from obygaze_features.video.film import film_index, is_incomplete
    from obygaze_features.video.index import CLOCK_SET_BACK
    from obygaze_features.video.pool import DecodePool, in_order
    from obygaze_features.video.worker import DecodeJob

    source, folder, videos = _find_videos(films, workspace)
    indexes = workspace.folder("indexes")
    jobs = [
        DecodeJob(folder / video, (), indexes=str(indexes)) for video in videos.values()
    ]
    with DecodePool(usable_cores(), timeout_s=_TIMEOUT_S) as pool:
        results = [result for _, result in in_order(pool.submit, jobs, pool.ahead)]
    errors = [result.error for result in results if result.error is not None]
    if errors:
        raise FixInput(
            f"{count(len(errors), 'film')} cannot be read",
            details=[f"{error.where}: {error.message}" for error in errors],
        )
    cut = []
    clips: list[Clip] = []
    incomplete = []
    for movie_id, video in sorted(videos.items()):
        index, _ = film_index(folder / video, indexes)
        if grid.seconds and not index.has_clock:
            raise FixInput(
                CLOCK_SET_BACK,
                where=str(folder / video),
                hint="use --window and --stride, which count pictures",
            )
        film = make_cut_film(movie_id, video, index)
        refuse_short(grid, film)
        cut.append(film)
        check_windows(grid, cut)
        clips += _windows_of_film(grid, film, index)
        if is_incomplete(folder / video, indexes):
            incomplete.append(movie_id)
    if not clips:
        raise FixInput("every film is shorter than one window", where=str(films))
    if incomplete:
        warnings.warn(
            f"{count(len(incomplete), 'incomplete film')}: pictures are missing from the file; a"
            f" missing end has no windows: {few(incomplete)}",
            ObygazeWarning,
            stacklevel=2,
        )
    header = structs.replace(source, video_root=folder.resolve().as_posix())
    columns = with_columns_of(clips, ())
    return Manifest(name, header, tuple(clips), columns), cut


def _windows_of_film(grid: Grid, film: CutFilm, index: FrameIndex) -> list[Clip]:
    """Return the windows of a film as clips."""
    rate = parse_frame_rate(Fraction(film.fps).limit_denominator(1001))
    extra = {} if rate is None else {RATE_COLUMN: frame_rate_text(rate)}
    clips = []
    for window in range(grid.n_windows(film)):
        if grid.seconds:
            span_s = grid.span_s(window, film)
        else:
            first = window * grid.stride
            after = first + grid.window
            span_s = _border_s(first, film, index), _border_s(after, film, index)
        ids = (span_id(film.movie_id, *span_s), film.movie_id, None, film.video)
        clips.append(Clip(*ids, *span_s, extra=extra))
    return clips


def _border_s(picture: int, film: CutFilm, index: FrameIndex) -> float:
    """Return the time at which a window begins with a picture, or ends before it.

    It is the time by the frame rate. Where the container has rounded it down, so that the picture
    is shown a little earlier, it is the time of the picture.
    """
    border_s = film.begins_s + picture / film.fps
    if picture < film.n_frames:
        border_s = min(border_s, float(index.times_s[picture]))
    return max(border_s, 0.0)


def refuse_short(grid: Grid, film: CutFilm) -> None:
    """Raise an error if a window is shorter than a picture of a film."""
    picture_s = film.duration_s / film.n_frames
    if film.fps:
        picture_s = 1 / film.fps
    if 0 < grid.seconds < picture_s * (1 - ROUNDING):
        raise FixUsage(
            f"a window has at least one picture: expected at least {picture_s:.4g} s, one picture"
            f" of {film.video}, got {grid.seconds:g} s",
            where=film.movie_id,
            hint="use a longer window",
        )


def _refuse_parts_of_films(clips: Iterable[Clip], where: str) -> None:
    """Raise an error for a file that has only a part of its film, and begins later than the film.

    Windows have times in the file, and marks have times in the film. For such a file, these two
    differ.
    """
    for clip in clips:
        in_film = span_in_film(clip)
        start_s = clip.start_s or 0.0
        if in_film is not None and abs(in_film[0] - start_s) > MILLISECOND_S:
            raise FixInput(
                f"{clip.video} is not the whole film {clip.movie_id}: {clip.clip_id} begins at"
                f" {start_s:g} s of this file and {in_film[0]:g} s of the film, so windows of the"
                " file would have wrong times",
                where=where,
                hint="use the folder of the whole films instead of the manifest",
            )


def _find_videos(
    films: PathLike, workspace: Workspace
) -> tuple[Header, Path, dict[str, str]]:
    """Return the header of the films, their folder, and the video of each film."""
    path = Path(films)
    if path.is_dir():
        header = Header(ascii_id(path.resolve().name) or "films")
        folder = path
        pairs = [(ascii_id(Path(video).stem), video) for video in require_videos(path)]
    elif path.suffix.lower() in VIDEO_SUFFIXES and path.is_file():
        raise FixInput(
            "expected a folder of films, got a video",
            where=str(films),
            hint="pass a folder that has only this video",
        )
    else:
        manifest = read_manifest(workspace.existing_manifest(str(films)))
        header = structs.replace(manifest.header, concepts={})
        folder = Path(header.video_root)
        # Without a folder, the paths of videos are not known.
        linked = [clip for clip in manifest if clip.video and header.video_root]
        _refuse_parts_of_films(linked, str(films))
        pairs = [(clip.movie_id, clip.video) for clip in linked]
        films_with_video = dict(pairs)
        without = [film for film in manifest.films if film not in films_with_video]
        if films_with_video and without:
            warnings.warn(
                f"{count(len(without), 'film')} without a video, and so without windows:"
                f" {few(without)}",
                ObygazeWarning,
                stacklevel=3,
            )
    videos: dict[str, str] = {}
    for movie_id, video in pairs:
        if videos.setdefault(movie_id, video) != video:
            raise FixInput(
                f"two videos for the film {movie_id!r}: {videos[movie_id]} and {video}",
                where=str(films),
            )
    if not videos:
        raise FixInput(
            "no film has a video",
            where=str(films),
            hint="link clips to their films: obygaze manifest link --help",
        )
    return header, folder, videos
