"""Find the video of each clip under a folder: its own file, or a part of the file of its film.

Once a clip has a file of its own, its times in the film move to the columns `film_start_s` and
`film_end_s`; see `times`. The name that was looked for stays in the column `video_name`, so that
linking again, also to another folder, has the same result.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    near,
)
from obygaze_features.core.file_names import composed
from obygaze_features.core.files import (
    STILL_SUFFIXES,
    VIDEO_SUFFIXES,
    is_printable_name,
    leads_out,
    warn_of_unread,
)
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.schema_check import Violations
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import read_table
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
# The columns of a table of films and their files.
FILM_TABLE = ("movie_id", "video")
_SCENE = re.compile(r"(.+)_scene_0*([0-9]{1,9})")
Key = tuple[Any, ...]
_BORDER = re.compile(r"[^A-Za-z0-9]|$")


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

    def __repr__(self) -> str:
        linked = f"{len(self.by_name)} by name, {len(self.by_time)} by time"
        return short_repr("LinkReport", linked, f"{len(self.without)} without a video")

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
        if self.without:
            n_clips = count(len(self.without), "clip")
            notes.append(f"{n_clips} without a video: {few(self.without, SHOWN_CLIPS)}")
        if self.unmatched:
            n_files = count(len(self.unmatched), "video file")
            notes.append(
                f"{n_files} without a clip: {few(self.unmatched, SHOWN_CLIPS)}"
            )
        if self.past_end:
            clips = [
                f"{clip_id} ({end_s:.1f} of {length_s:.1f} s)"
                for clip_id, (end_s, length_s) in self.past_end.items()
            ]
            n_clips = count(len(clips), "clip")
            verb = "ends" if len(clips) == 1 else "end"
            notes.append(
                f"Warning: {n_clips} {verb} after the video: {few(clips, SHOWN_CLIPS)}"
            )
        if self.by_name or self.by_time:
            name = shell_word(self.manifest.name)
            notes.append(f"next: obygaze extract plan {name} -b descriptors")
        n_without = len(self.without) + len(self.ambiguous)
        if n_without:
            n_clips = count(len(self.manifest), "clip")
            # Clips of no film are found by their own names alone.
            way = (
                "; --table FILE states the files of films"
                if self.manifest.films
                else ""
            )
            notes.append(f"Warning: {n_without} of {n_clips} without a video{way}")
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
    videos: list[str] = []
    stills: list[str] = []
    others = []
    for name in sorted(_walk(folder)):
        path = folder / name
        ending = path.suffix.lower()
        is_picture = ending in (*VIDEO_SUFFIXES, *STILL_SUFFIXES)
        if path.name.startswith("._"):
            continue
        if is_picture and path.is_file():
            (stills if ending in STILL_SUFFIXES else videos).append(name)
        elif ending not in SUBTITLE_READERS:
            others.append(name)
    chosen = tuple(videos or stills)
    unusable = [
        name for name in chosen if leads_out(name) or not is_printable_name(name)
    ]
    refuse_if(
        [ascii(name)[1:-1] for name in unusable],
        FixInput,
        "these names cannot be in a manifest",
        where=folder,
        hint="rename these files",
    )
    return chosen, tuple(others + stills if videos else others)


def _walk(folder: Path) -> Iterator[str]:
    """Yield all files under a folder, relative to it."""
    entered: set[tuple[int, int]] = set()

    def enter(path: Path) -> bool:
        """Return whether a folder is entered for the first time."""
        try:
            status = path.stat()
        except OSError:
            return False
        n_before = len(entered)
        entered.add((status.st_dev, status.st_ino))
        return len(entered) > n_before

    enter(folder)
    for parent, folders, names in os.walk(folder, followlinks=True):
        # Sorted, so that of two names for one folder it is always the same that is used.
        folders[:] = [name for name in sorted(folders) if enter(Path(parent, name))]
        for name in names:
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


def link(
    manifest: Manifest, folder: Path, table: str | Path | None = None
) -> LinkReport:
    """Find the video of each clip; a clip that matches several files gets none.

    Args:
        manifest: The clips.
        folder: The folder with the videos, in any structure.
        table: A table with columns movie_id and video: the files of films.
    """
    originals = [original(clip) for clip in manifest]
    videos = require_videos(folder)
    file_of_film = {}
    if table is not None:
        file_of_film = _read_films(Path(table), manifest.films, videos)
    files = _Files(videos, originals, file_of_film)
    clips: list[Clip] = []
    by_name: list[str] = []
    by_time: list[str] = []
    without: list[str] = []
    ambiguous: dict[str, tuple[str, ...]] = {}
    matched: set[str] = set()
    own_files = [files.of_clip(clip) for clip in originals]
    in_parts = set()
    for clip, own in zip(originals, own_files, strict=True):
        if span_in_film(clip) and not own and files.of_film(clip):
            in_parts.add(clip.movie_id)
    for clip, files_of_clip in zip(originals, own_files, strict=True):
        span = span_in_film(clip)
        files_of_film: tuple[str, ...] = ()
        # A clip with the id of its film, and with times in it, is a part of the film's file.
        if span and not named_file(clip) and files_of_clip == files.of_film(clip):
            files_of_clip = ()
        # Where other clips are parts of the film's file, another film may have this clip's name.
        if span and files_of_clip and clip.movie_id in in_parts:
            named = named_file(clip)
            of_film = () if named else files.of_film(clip)
            files_of_clip = tuple(dict.fromkeys((*files_of_clip, *of_film)))
        # Times in a file that the table names say nothing of another file.
        has_times_in_file = bool(named_file(clip)) and clip.start_s is not None
        if span and not files_of_clip and not has_times_in_file:
            files_of_film = files.of_film(clip)
        candidates = files_of_clip or files_of_film
        matched.update(candidates)
        if not candidates:
            without.append(clip.clip_id)
            clips.append(clip)
        elif len(candidates) > 1:
            ambiguous[clip.clip_id] = candidates
            clips.append(clip)
        elif span and not files_of_clip:
            by_time.append(clip.clip_id)
            start_s, end_s = span
            in_film = replace(clip, video=candidates[0], start_s=start_s, end_s=end_s)
            clips.append(in_film)
        else:
            (by_time if has_times_in_file else by_name).append(clip.clip_id)
            clips.append(_in_own_file(clip, span, candidates[0]))
    linked = _with_links(manifest, clips, folder.resolve().as_posix())
    require_one_film_a_video(linked)
    unmatched = tuple(name for name in videos if name not in matched)
    return LinkReport(
        manifest=linked,
        by_name=tuple(by_name),
        by_time=tuple(by_time),
        ambiguous=ambiguous,
        without=tuple(without),
        unmatched=unmatched,
    )


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


def _read_films(
    path: Path, films: Sequence[str], videos: Sequence[str]
) -> dict[str, str]:
    """Return the file of each film in a table of films and files."""
    violations = Violations(path)
    table = read_table(
        path, required=FILM_TABLE, violations=violations, content="films"
    )
    file_of_film: dict[str, str] = {}
    film_of_file: dict[str, str] = {}
    known_films = frozenset(films)
    video_of_name = {composed(name): name for name in videos}
    for row in table.rows:
        film = row["movie_id"].strip()
        if film not in known_films:
            film = as_id(film)
        video = video_of_name.get(composed(row["video"].strip()), "")
        if film not in known_films:
            row.add("movie_id", f"no film {film!r}{near(film, films)}")
        if not video:
            shown = row["video"]
            row.add("video", f"no video file {shown!r}{near(shown, videos)}")
        elif film_of_file.setdefault(video, film) != film:
            of_both = f"{film_of_file[video]!r} and of {film!r}"
            row.add("video", f"{video!r} is the file of {of_both}")
        elif file_of_film.setdefault(film, video) != video:
            row.add("video", f"the film {film!r} has the file {file_of_film[film]!r}")
    violations.raise_if_any("the table of films cannot be read")
    return file_of_film


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


def _in_own_file(clip: Clip, span: tuple[float, float] | None, video: str) -> Clip:
    """Return a clip with a file of its own; its times in its film move to FILM_TIMES."""
    # With a file name, the times are times in that file already.
    if span is None or named_file(clip):
        return replace(clip, video=video)
    start_s, end_s = span
    film_times = dict(zip(FILM_TIMES, (repr(start_s), repr(end_s)), strict=True))
    extra = {**clip.extra, **film_times}
    return replace(clip, video=video, start_s=None, end_s=None, extra=extra)


class _Files:
    """The files of a folder, indexed by path, name, stem, scene and film."""

    def __init__(
        self,
        names: Iterable[str],
        clips: Sequence[Clip],
        file_of_film: Mapping[str, str],
    ) -> None:
        self.file_of_film = file_of_film
        self.films = frozenset(clip.movie_id for clip in clips if clip.movie_id)
        # For each name that the file of a clip may have, the films with such a clip.
        self.films_of: dict[str, set[str]] = defaultdict(set)
        for clip in clips:
            wanted = PurePosixPath(composed(named_file(clip)))
            for name in (clip.clip_id, wanted.stem, wanted.name):
                self.films_of[name].add(clip.movie_id)
        # The file of a scene is that of a clip if the scene has no other clip.
        self.n_clips_of_scene = Counter((clip.movie_id, clip.scene) for clip in clips)
        self.by_key: dict[Key, tuple[str, ...]] = defaultdict(tuple)
        for name in names:
            # macOS, and disks that it wrote, may have accents beside their letters.
            for key in self._keys(composed(name)):
                self.by_key[key] += (name,)
        # Two films may differ in capitals alone: then a file is that of its own.
        self.n_films_of_name = Counter(film.casefold() for film in self.films)

    def of_clip(self, clip: Clip) -> tuple[str, ...]:
        """Return the files of this clip alone: all files of the best kind of match."""
        if clip.clip_id == clip.movie_id and clip.movie_id in self.file_of_film:
            # The clip is called as its film, of which the table says the file.
            return self.of_film(clip)
        wanted = PurePosixPath(composed(named_file(clip)))
        has_times = clip.start_s is not None
        exact = ("path", str(wanted))
        files = self.by_key.get(("path", f"{clip.movie_id}/{wanted}"))
        if files:
            return files
        files = self.by_key.get(exact)
        # A path is that of one file; a name alone may be that of files of several films.
        if files and (has_times or len(wanted.parts) > 1):
            return files
        keys: list[Key] = [exact, ("name", wanted.name)]
        # A name without an ending may have dots, too.
        keys += [("stem", wanted.name), ("stem", wanted.stem)]
        # Times are times in the named file, so no other file can be used.
        if not (wanted.name and has_times):
            keys.append(("stem", clip.clip_id))
            if self.n_clips_of_scene[clip.movie_id, clip.scene] == 1:
                keys.append(("scene", clip.movie_id, clip.scene))
            keys.append(("stem as id", clip.clip_id))
        for key in keys:
            files = self._same_film(clip, self.by_key.get(key, ()))
            if files:
                return files
        return ()

    def of_film(self, clip: Clip) -> tuple[str, ...]:
        """Return the files of the clip's film."""
        if clip.movie_id in self.file_of_film:
            return (self.file_of_film[clip.movie_id],)
        keys: tuple[Key, ...] = (
            ("stem", clip.movie_id),
            # Where a table has the names of files as films, the id ends with that of the file.
            ("name", clip.movie_id),
            ("name as id", clip.movie_id),
            ("stem as id", clip.movie_id),
        )
        in_any_case = clip.movie_id.casefold()
        if self.n_films_of_name[in_any_case] == 1:
            keys += (("stem in any case", in_any_case),)
        for key in keys:
            files = self.by_key.get(key)
            if files:
                return files
        return ()

    def _keys(self, name: str) -> Iterator[Key]:
        """Yield the keys by which a file can be found."""
        path = PurePosixPath(name)
        yield from (("path", name), ("name", path.name), ("stem", path.stem))
        scene = _SCENE.fullmatch(path.stem)
        if scene:
            yield "scene", scene[1], int(scene[2])
        yield "name as id", ascii_id(path.name)
        stem_as_id = ascii_id(path.stem)
        if stem_as_id != path.stem:
            yield "stem as id", stem_as_id
        yield "stem in any case", stem_as_id.casefold()

    def _same_film(self, clip: Clip, names: Sequence[str]) -> tuple[str, ...]:
        """Return the files of the clip's film among these, or else those without a film."""
        same = []
        without_film = []
        for path in map(PurePosixPath, names):
            parts = (*path.parts[:-1], path.stem)
            films = {self._film_of(part) for part in parts} - {""}
            if clip.movie_id in films:
                same.append(str(path))
            elif not films:
                without_film.append(str(path))
        if same:
            return tuple(same)
        # `scene_1.mp4` alone could be from any film that has a clip of that name.
        for name in names:
            stem = PurePosixPath(composed(name)).stem
            if len(self.films_of.get(stem, ())) > 1:
                return ()
        return tuple(without_film)

    def _film_of(self, part: str) -> str:
        """Return the film whose id a name starts with: tt0108160 for `tt0108160.Sleepless`.

        A file may have blanks where an id has `_`: Les_Yeux for `Les Yeux (1960)`.
        """
        starts = [part[: match.start()] for match in _BORDER.finditer(part)]
        for start in reversed(starts):
            if start in self.films:
                return start
            if ascii_id(start) in self.films:
                return ascii_id(start)
        return ""
