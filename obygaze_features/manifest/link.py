"""Find the video of each clip under a folder: its own file, or a part of the file of its film.

Once a clip has a file of its own, its times in the film move to the columns `film_start_s` and
`film_end_s`; see `times`. The name that was looked for stays in the column `video_name`, so that
linking again, also to another folder, has the same result.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import structs

from obygaze_features.core.console import count, few
from obygaze_features.core.cues import READERS as SUBTITLE_READERS
from obygaze_features.core.errors import (
    FixInput,
    NotFound,
    ObygazeError,
)
from obygaze_features.core.file_names import composed
from obygaze_features.core.files import (
    STILL_SUFFIXES,
    VIDEO_SUFFIXES,
    is_printable_name,
    leads_out,
    warn_of_unread,
)
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.io import (
    as_id,
    read_manifest,
)
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.manifest.spans import (
    FILM_TIMES,
    NAME_COLUMN,
    frames_of,
    named_file,
    span_in_film,
)

# The clips and the films without a video that are shown without -v.
SHOWN_CLIPS = 3
_BORDER = re.compile(r"[^A-Za-z0-9]|$")
SCENE = re.compile(r"(.+)_scene_0*([0-9]{1,9})")  # the file of a scene of MovieGraphs


@dataclass(frozen=True, repr=False)
class LinkReport:
    """The manifest with its videos, and how the video of each clip was found.

    `unmatched` are videos that match no clip, and `past_end` clips that end after their video: when
    they end, and when it does, in seconds.
    """

    manifest: Manifest
    by_name: tuple[str, ...]
    by_time: tuple[str, ...]
    ambiguous: Mapping[str, tuple[str, ...]]
    without: tuple[str, ...]
    unmatched: tuple[str, ...] = ()
    past_end: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the report as one JSON document."""
        clips = dict(vars(self))
        del clips["manifest"]
        return {"video_root": self.manifest.header.video_root, **clips}

    def __str__(self) -> str:
        return (
            f"{count(len(self.by_name), 'clip')} with a file of their own,"
            f" {len(self.by_time)} as parts of films, {len(self.without)} without a video,"
            f" {len(self.ambiguous)} with several files that match"
        )

    @property
    def notes(self) -> list[str]:
        """Files without a clip, the next command, and last how many clips have no video."""
        notes = [
            f"{clip_id}: not linked, matches {', '.join(files)}"
            for clip_id, files in self.ambiguous.items()
        ]
        past_end = [
            f"{clip_id} ({end_s:.1f} of {length_s:.1f} s)"
            for clip_id, (end_s, length_s) in self.past_end.items()
        ]
        for names, noun, problem in (
            (self.without, "clip", "without a video"),
            (self.unmatched, "video file", "without a clip"),
            (past_end, "clip", "ending after the video"),
        ):
            if names:
                shown = few(names, SHOWN_CLIPS)
                notes.append(f"{count(len(names), noun)} {problem}: {shown}")
        if self.by_name or self.by_time:
            name = shell_word(self.manifest.name)
            notes.append(f"next: obygaze extract plan {name} -b descriptors")
        n_without = len(self.without) + len(self.ambiguous)
        if n_without:
            n_clips = count(len(self.manifest), "clip")
            notes.append(f"Warning: {n_without} of {n_clips} without a video")
        return notes

    @property
    def details(self) -> list[str]:
        """Every clip that has no video, and every video file that matches no clip."""
        clips = [f"{clip_id}: no video" for clip_id in self.without]
        return clips + [f"{name}: no clip" for name in self.unmatched]


def find_videos(folder: Path) -> tuple[str, ...]:
    """Return the video files under a folder by their extension, relative to it, sorted.

    In a folder without videos, these are its still pictures. Linked folders are followed, but no
    folder is entered twice. The `._` files that macOS leaves beside others are no videos.

    It is an error if a file has a name that a manifest cannot have: control characters, bytes that
    are not UTF-8, or what Windows takes for a drive (`C:x.mp4`).
    """
    return _videos_and_others(folder)[0]


def require_videos(folder: Path) -> tuple[str, ...]:
    """Return the videos of `find_videos`, of which there must be one.

    Warns of the files that are not read as videos: their endings, and links to files that are not
    there. Subtitles belong to films, and are not named.
    """
    videos, others = _videos_and_others(folder)
    warn_of_unread(folder, others, "videos")
    if not videos:
        raise FixInput(
            "no video in this folder",
            where=str(folder),
            hint="give the folder of the videos: files that end in .mp4, .mkv, .mov, .avi or in"
            " another ending of videos",
        )
    return videos


def _videos_and_others(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the videos under a folder, and the files that are not read as videos."""
    if not folder.exists():
        raise NotFound("no such folder", where=str(folder))
    if not folder.is_dir():
        raise FixInput("expected a folder, got a file", where=str(folder))
    names = sorted(_walk(folder))
    videos = [name for name in names if _is_a(VIDEO_SUFFIXES, folder / name)]
    videos = videos or [name for name in names if _is_a(STILL_SUFFIXES, folder / name)]
    chosen = frozenset(videos)
    refuse_if(
        [
            ascii(name)[1:-1]
            for name in videos
            if leads_out(name) or not is_printable_name(name)
        ],
        FixInput,
        "these names cannot be in a manifest",
        where=folder,
        hint="rename these files",
    )
    beside = (*SUBTITLE_READERS,)
    others = [name for name in names if name not in chosen]
    return tuple(videos), tuple(n for n in others if not n.lower().endswith(beside))


def _is_a(suffixes: Sequence[str], path: Path) -> bool:
    return path.suffix.lower() in suffixes and path.is_file()


def _walk(folder: Path) -> Iterator[str]:
    """Yield all files under a folder, relative to it, but for those of macOS."""
    entered: set[Path] = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        # Sorted, so that of two names for one folder it is always the same that is used.
        entered.add(Path(parent).resolve())
        kept: dict[Path, str] = {}
        for name in sorted(folders):
            kept.setdefault(Path(parent, name).resolve(), name)
        folders[:] = [name for place, name in kept.items() if place not in entered]
        entered.update(kept)
        for name in names:
            if not name.startswith("._"):
                yield Path(parent, name).relative_to(folder).as_posix()


def manifests_with_videos(workspace: Workspace) -> Iterator[Manifest]:
    """Yield the manifests of a workspace that have a folder of videos.

    A manifest that cannot be read does not hide the others.
    """
    for name in workspace.names("manifests"):
        path = workspace.manifest(name)
        with suppress(ObygazeError, OSError):
            # Tables of many clips without videos are not read.
            if b"video_root" in path.read_bytes():
                yield read_manifest(path)


def link(manifest: Manifest, folder: Path) -> LinkReport:
    """Find the video of each clip; a clip that matches several files gets none.

    Args:
        manifest: The clips.
        folder: The folder with the videos, in any structure.
    """
    originals = [original(clip) for clip in manifest]
    videos = require_videos(folder)
    files = _Files(videos, originals)
    in_parts = {
        clip.movie_id
        for clip in originals
        if span_in_film(clip) and not files.of_clip(clip) and files.of_film(clip)
    }
    clips: list[Clip] = []
    by_name: list[str] = []
    by_time: list[str] = []
    without: list[str] = []
    ambiguous: dict[str, tuple[str, ...]] = {}
    matched: set[str] = set()
    for clip in originals:
        candidates, is_own = _candidates(clip, files, in_parts)
        matched.update(candidates)
        if len(candidates) == 1:
            clip = _linked(clip, candidates[0], is_own=is_own)
            (by_name if clip.start_s is None else by_time).append(clip.clip_id)
        elif candidates:
            ambiguous[clip.clip_id] = candidates
        else:
            without.append(clip.clip_id)
        clips.append(clip)
    linked = _with_links(manifest, clips, folder.resolve().as_posix())
    require_one_film_a_video(linked)
    return LinkReport(
        manifest=linked,
        by_name=tuple(by_name),
        by_time=tuple(by_time),
        ambiguous=ambiguous,
        without=tuple(without),
        unmatched=tuple(name for name in videos if name not in matched),
    )


def _candidates(
    clip: Clip, files: "_Files", in_parts: Collection[str]
) -> tuple[tuple[str, ...], bool]:
    """Return the files that a clip may be in, and whether they are its own, not its film's."""
    own = files.of_clip(clip)
    span = span_in_film(clip)
    if named_file(clip):
        # Times in a file that the table names say nothing of another file.
        is_part = bool(span) and clip.start_s is None and not own
        return (files.of_film(clip), False) if is_part else (own, True)
    of_film = files.of_film(clip) if span else ()
    # A clip with the id of its film, and with times in it, is a part of the film's file.
    if not own or own == of_film:
        return of_film, False
    # Where other clips are parts of the film's file, another film may have this clip's name.
    both = (*own, *of_film) if clip.movie_id in in_parts else own
    return tuple(dict.fromkeys(both)), True


def _linked(clip: Clip, video: str, *, is_own: bool) -> Clip:
    """Return a clip with its file.

    With a file of its own, its times in its film move to FILM_TIMES, unless they are times in that
    file already because the table names it.
    """
    span = span_in_film(clip)
    if span is None or (is_own and named_file(clip)):
        return replace(clip, video=video)
    start_s, end_s = span
    if not is_own:
        return replace(clip, video=video, start_s=start_s, end_s=end_s)
    film_times = dict(zip(FILM_TIMES, (repr(start_s), repr(end_s)), strict=True))
    extra = {**clip.extra, **film_times}
    return replace(clip, video=video, start_s=None, end_s=None, extra=extra)


def _with_links(manifest: Manifest, clips: Iterable[Clip], video_root: str) -> Manifest:
    """Return a manifest with linked clips, which all have the columns that links need."""
    linked = tuple(clips)
    new_columns = [NAME_COLUMN]
    if any(clip.extra.get(FILM_TIMES[0]) for clip in linked):
        new_columns += FILM_TIMES
    blank = dict.fromkeys(new_columns, "")
    return replace(
        manifest,
        header=structs.replace(manifest.header, video_root=video_root),
        clips=tuple(replace(clip, extra={**blank, **clip.extra}) for clip in linked),
        columns=tuple(dict.fromkeys((*manifest.columns, *blank))),
    )


def require_one_film_a_video(manifest: Manifest) -> None:
    """Raise an error if clips of two films are in one video file."""
    films_of_video: dict[str, set[str]] = defaultdict(set)
    for clip in manifest:
        if clip.video and clip.movie_id:
            films_of_video[clip.video].add(clip.movie_id)
    problems = []
    for video, films in films_of_video.items():
        if len(films) > 1:
            problems.append(f"{video} ({', '.join(sorted(films))})")
    refuse_if(
        problems,
        FixInput,
        "video files with clips of several films",
        where=manifest.name,
        hint="one movie_id for all clips of a film, or a file for each film",
    )


def original(clip: Clip) -> Clip:
    """Return the clip as it was before it was linked; without a named file, its times in the film.

    Wherever it was linked to, these are in `start_s` and `end_s`, and in no other columns. The
    times of frames that `link` found in the file are those of their rate again.
    """
    name = named_file(clip)
    extra = {**clip.extra, NAME_COLUMN: name}
    span = span_in_film(clip)
    frames = frames_of(clip.extra)
    is_part = is_linked(clip) and clip.start_s is not None
    if is_part and frames is not None:
        span = frames.times_s or span
    if span and not name:
        extra |= {column: "" for column in FILM_TIMES if column in extra}
        return replace(clip, video="", start_s=span[0], end_s=span[1], extra=extra)
    linked_stem = composed(PurePosixPath(clip.video).stem)
    wanted = PurePosixPath(composed(name))
    # It is linked to its film instead of a file of its own: its times are from the film columns.
    is_of_film = linked_stem not in ("", wanted.stem, wanted.name)
    if extra.get(FILM_TIMES[0]) and is_of_film:
        clip = replace(clip, start_s=None, end_s=None)
    return replace(clip, video="", extra=extra)


def is_linked(clip: Clip) -> bool:
    """Return whether `link` has found the video of a clip."""
    return bool(clip.video) and NAME_COLUMN in clip.extra


class _Files:
    """The files of a folder by their paths, names and ids."""

    def __init__(self, videos: Iterable[str], clips: Iterable[Clip]) -> None:
        self.films = {clip.movie_id for clip in clips} - {""}
        self.n_films_of_name = Counter(film.casefold() for film in self.films)
        # For each name that the file of a clip may have, the films with such a clip.
        self.films_of: dict[str, set[str]] = defaultdict(set)
        for clip in clips:
            for name in (clip.clip_id, PurePosixPath(named_file(clip)).stem):
                self.films_of[as_id(name)].add(clip.movie_id)
        # The file of a scene is that of a clip if the scene has no other clip.
        self.n_clips_of_scene = Counter((clip.movie_id, clip.scene) for clip in clips)
        self.by_key: dict[tuple[str, str], tuple[str, ...]] = defaultdict(tuple)
        for video in videos:
            # macOS, and disks that it wrote, may have accents beside their letters.
            path = PurePosixPath(composed(video))
            id_of_stem = as_id(path.stem)
            ids = {("id", id_of_stem), ("id", as_id(path.name))}
            names = {("path", str(path)), ("name", path.name), ("stem", path.stem)}
            scene = SCENE.fullmatch(path.stem)
            if scene:
                names.add(("scene", f"{scene[1]} {int(scene[2])}"))
            for key in (*names, *ids, ("any case", id_of_stem.casefold())):
                self.by_key[key] += (video,)

    def of_clip(self, clip: Clip) -> tuple[str, ...]:
        """Return the files of this clip alone: all files of the best kind of match."""
        named = composed(named_file(clip))
        path = PurePosixPath(named)
        has_times = clip.start_s is not None
        exact = [f"{clip.movie_id}/{named}"]
        # A path is that of one file; a name alone may be that of files of several films.
        exact += [named] if has_times or len(path.parts) > 1 else []
        for one in exact:
            if self.by_key.get(("path", one)):
                return self.by_key["path", one]
        keys = []
        if named:
            # A name without an ending may have dots, too.
            keys += [("path", named), ("name", path.name)]
            keys += [("id", as_id(path.name)), ("id", as_id(path.stem))]
        # Times are times in the named file, so no other file can be used.
        if not (named and has_times):
            keys.append(("stem", clip.clip_id))
            if self.n_clips_of_scene[clip.movie_id, clip.scene] == 1:
                keys.append(("scene", f"{clip.movie_id} {clip.scene}"))
            keys.append(("id", clip.clip_id))
        for key in keys:
            files = self._of_its_film(clip, self.by_key.get(key, ()))
            if files:
                return files
        return ()

    def of_film(self, clip: Clip) -> tuple[str, ...]:
        """Return the files of the clip's film; of films that differ by capitals, each its own."""
        film = clip.movie_id
        keys = [("stem", film), ("id", film)]
        if self.n_films_of_name[film.casefold()] == 1:
            keys.append(("any case", film.casefold()))
        return next(filter(None, (self.by_key.get(key) for key in keys)), ())

    def _of_its_film(self, clip: Clip, files: Sequence[str]) -> tuple[str, ...]:
        """Return the files whose path says the film of a clip, else those whose path says none.

        `scene_1.mp4` alone could be from any film that has a clip of that name.
        """
        films_in = {file: self._films_in(file) for file in files}
        same = [file for file, films in films_in.items() if clip.movie_id in films]
        if same:
            return tuple(same)
        stems = {as_id(PurePosixPath(composed(file)).stem) for file in files}
        if any(len(self.films_of.get(stem, ())) > 1 for stem in stems):
            return ()
        return tuple(file for file, films in films_in.items() if not films)

    def _films_in(self, file: str) -> set[str]:
        """Return the films that a path says, such as tt0108160 for `tt0108160.Sleepless/1.mp4`."""
        path = PurePosixPath(composed(file))
        films = set()
        for part in map(as_id, (*path.parts[:-1], path.stem)):
            starts = [part[: border.start()] for border in _BORDER.finditer(part)]
            films.update([start for start in starts if start in self.films][-1:])
        return films
