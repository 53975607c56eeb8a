"""Find the video of each clip in a folder: its own file, or a part of the file of its film.

When a clip gets a file of its own, its times in the film move to the columns `film_start_s` and
`film_end_s`; see `times`. The column `video_name` keeps the file that the table names. Because of
this column, a second linking starts from the same facts, even with a different folder.
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
from obygaze_features.core.errors import (
    FixInput,
    NotFound,
    ObygazeError,
)
from obygaze_features.core.file_names import compose_accents
from obygaze_features.core.files import (
    STILL_SUFFIXES,
    VIDEO_SUFFIXES,
    is_printable_name,
    leads_out,
    warn_of_unread,
)
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import SUBTITLES
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.film_names import (
    film_options,
    films_of_names,
    find_name,
    in_other_spelling,
    likely_names,
)
from obygaze_features.manifest.io import (
    as_id,
    read_manifest,
)
from obygaze_features.manifest.model import FILM_FILE, Clip, Manifest
from obygaze_features.manifest.spans import (
    FILM_TIMES,
    NAME_COLUMN,
    named_file,
    span_in_film,
)

# The number of clips and files that a note lists; -v lists all.
SHOWN_CLIPS = 3
_BORDER = re.compile(r"[^A-Za-z0-9]|$")
SCENE = re.compile(r"(.+)_scene_0*([0-9]{1,9})")  # the file of a scene of MovieGraphs


@dataclass(frozen=True, repr=False)
class LinkReport:
    """The linked manifest, and how the video of each clip was found.

    `by_name` lists the clips that are a whole file, `by_time` the clips that are a part of a file,
    and `without` the clips without a file. `ambiguous` maps each clip that matches several files to
    these files. `unmatched` lists the videos that match no clip. `past_end` maps each clip that
    ends after its video to the two ends (clip, video) in seconds. `unreadable` maps each linked
    video that cannot be opened to the reason; the videos of clips without an end are not opened.
    `in_other_spelling` lists the videos of films whose names differ from the film in spelling.
    `likely` maps films without any video to the video that may be meant.
    """

    manifest: Manifest
    by_name: tuple[str, ...]
    by_time: tuple[str, ...]
    ambiguous: Mapping[str, tuple[str, ...]]
    without: tuple[str, ...]
    unmatched: tuple[str, ...] = ()
    past_end: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    in_other_spelling: Sequence[str] = ()
    likely: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the report as one JSON document."""
        clips = dict(vars(self))
        del clips["manifest"]
        return {"video_root": self.manifest.header.video_root, **clips}

    def __str__(self) -> str:
        return (
            f"{count(len(self.by_name), 'clip')} linked to their own files, {len(self.by_time)} to"
            f" parts of films; {len(self.without)} without a video, {len(self.ambiguous)} with"
            " several videos"
        )

    @property
    def warnings(self) -> list[str]:
        """The linked videos that cannot be opened."""
        if not self.unreadable:
            return []
        files = [f"{video}: {reason}" for video, reason in self.unreadable.items()]
        n_files = count(len(files), "linked video file")
        return [f"{n_files} cannot be read: {few(files, SHOWN_CLIPS)}"]

    @property
    def notes(self) -> list[str]:
        """Ambiguous clips, missing videos, unmatched files, the next command, and a warning."""
        notes = [
            f"{clip_id}: not linked, because several videos match: {', '.join(files)}"
            for clip_id, files in self.ambiguous.items()
        ]
        past_end = [
            f"{clip_id} ({end_s:.1f} s, video {length_s:.1f} s)"
            for clip_id, (end_s, length_s) in self.past_end.items()
        ]
        for names, noun, problem in (
            (self.without, "clip", "without a video"),
            (self.unmatched, "video file", "without a clip"),
            (past_end, "clip", "ending after the video"),
            (
                self.in_other_spelling,
                "video file",
                "with the film's name in another spelling",
            ),
        ):
            if names:
                shown = few(names, SHOWN_CLIPS)
                notes.append(f"{count(len(names), noun)} {problem}: {shown}")
        if self.likely:
            options = film_options(self.likely)
            notes.append(f"if these films have another name, link again with {options}")
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
    """Return the sorted video files under a folder, found by extension, relative to the folder.

    In a folder without videos, the still pictures are returned. Symbolic links are followed, but no
    folder is entered twice. The `._` files of macOS are ignored.

    Raise an error for a file name that a manifest cannot hold: with control characters, with bytes
    that are not UTF-8, or with a drive of Windows (`C:x.mp4`).
    """
    return _videos_and_others(folder)[0]


def require_videos(folder: Path) -> tuple[str, ...]:
    """Return the videos of `find_videos`. Raise an error if there are none.

    A warning counts the other files, by extension, and broken links.
    Subtitles are not counted.
    """
    videos, others = _videos_and_others(folder)
    warn_of_unread(folder, others, "videos")
    if not videos:
        raise FixInput(
            "no video in this folder",
            where=str(folder),
            hint="pass the folder of the videos: .mp4, .mkv, .mov, .avi",
        )
    return videos


def _videos_and_others(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the videos under a folder, and all other files except subtitles."""
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
        "names of videos are not valid in a manifest",
        where=folder,
        hint="rename these files",
    )
    others = [name for name in names if name not in chosen]
    return tuple(videos), tuple(n for n in others if not n.lower().endswith(SUBTITLES))


def _is_a(suffixes: Sequence[str], path: Path) -> bool:
    return path.suffix.lower() in suffixes and path.is_file()


def _walk(folder: Path) -> Iterator[str]:
    """Yield all files under a folder, relative to it, without the `._` files of macOS."""
    entered: set[Path] = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        # The names are sorted, so that a folder with two names (by a link) has the first one.
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

    Manifests that cannot be read are skipped.
    """
    for name in workspace.names("manifests"):
        path = workspace.manifest(name)
        with suppress(ObygazeError, OSError):
            # The tables of manifests without videos are not read, because they may be large.
            if b"video_root" in path.read_bytes():
                yield read_manifest(path)


def link(
    manifest: Manifest, folder: Path, film_names: Mapping[str, str] | None = None
) -> LinkReport:
    """Return a report with the linked manifest; a clip that matches several files gets no video.

    Args:
        manifest: The clips.
        folder: The folder with the videos, in any structure.
        film_names: The name of the file of each film that has another name there.
    """
    originals = [remove_link(clip) for clip in manifest]
    videos = require_videos(folder)
    stated = _stated_films(film_names or {}, videos, manifest.films)
    files = _Files(videos, originals, stated)
    in_parts = {
        clip.movie_id
        for clip in originals
        if _is_part(clip) and not files.of_clip(clip) and files.of_film(clip)
    }
    clips: list[Clip] = []
    by_name: list[str] = []
    by_time: list[str] = []
    without: list[str] = []
    ambiguous: dict[str, tuple[str, ...]] = {}
    matched: set[str] = set()
    film_of_stem: dict[str, str] = {}
    for clip in originals:
        candidates, is_own = _candidates(clip, files, in_parts)
        matched.update(candidates)
        if len(candidates) == 1:
            if not is_own:
                film_of_stem[PurePosixPath(candidates[0]).stem] = clip.movie_id
            clip = _linked(clip, candidates[0], is_own=is_own)
            is_part = clip.start_s is not None or not is_own
            (by_time if is_part else by_name).append(clip.clip_id)
        elif candidates:
            ambiguous[clip.clip_id] = candidates
        else:
            without.append(clip.clip_id)
        clips.append(clip)
    linked = _with_links(manifest, clips, folder.resolve().as_posix())
    unmatched = tuple(name for name in videos if name not in matched)
    for stem in stated:
        film_of_stem.pop(stem, None)
    require_one_film_a_video(linked)
    return LinkReport(
        manifest=linked,
        by_name=tuple(by_name),
        by_time=tuple(by_time),
        ambiguous=ambiguous,
        without=tuple(without),
        unmatched=unmatched,
        in_other_spelling=in_other_spelling(film_of_stem),
        likely=_likely_files(linked, unmatched),
    )


def _stated_films(
    film_names: Mapping[str, str], videos: Iterable[str], films: Collection[str]
) -> dict[str, str]:
    """Return the film of each name of a file that the user states: `--film FILM=FILE`."""
    stems: dict[str, None] = {}
    stem_of_name = {}
    for video in videos:
        path = PurePosixPath(compose_accents(video))
        stems[path.stem] = None
        stem_of_name[path.name] = path.stem
    stated = {}
    for film, file in film_names.items():
        stem = stem_of_name.get(compose_accents(file), file)
        known_film = find_name(film, films, "film")
        stated[find_name(stem, stems, "video file")] = known_film
    return stated


def _likely_files(manifest: Manifest, unmatched: Sequence[str]) -> dict[str, str]:
    """Return the video that may be meant for each film of which no clip has a video."""
    with_video = {clip.movie_id for clip in manifest if clip.video}
    stems = [PurePosixPath(compose_accents(video)).stem for video in unmatched]
    films = [film for film in manifest.films if film not in with_video]
    return likely_names(films, stems)


def _candidates(
    clip: Clip, files: "_Files", in_parts: Collection[str]
) -> tuple[tuple[str, ...], bool]:
    """Return the files that may hold a clip, and whether they count as files of this clip only."""
    own = files.of_clip(clip)
    span = span_in_film(clip)
    if named_file(clip):
        # Times in the file that the table names are not times in a different file.
        is_part = bool(span) and clip.start_s is None and not own
        return (files.of_film(clip), False) if is_part else (own, True)
    of_film = files.of_film(clip) if _is_part(clip) else ()
    # A clip with the id of its film and with times in the film is a part of the film's file.
    if not own or own == of_film:
        return of_film, False
    # If other clips are parts of the film's file, a file with the clip's name may be another film.
    both = (*own, *of_film) if clip.movie_id in in_parts else own
    return tuple(dict.fromkeys(both)), True


def _is_part(clip: Clip) -> bool:
    """Return whether a clip is a part of its film: by its times, or by frames in a named file."""
    return span_in_film(clip) is not None or bool(clip.extra.get(FILM_FILE))


def _linked(clip: Clip, video: str, *, is_own: bool) -> Clip:
    """Return a clip with its file.

    If the clip gets a file of its own, its times in the film move to FILM_TIMES. If the table names
    a file for the clip, `start_s` and `end_s` are times in this file, and stay.
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
    """Return a manifest with linked clips, and with the columns that links need."""
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
        "expected one film per video file, got several",
        where=manifest.name,
        hint="use one movie_id for all clips of a film, or one file per film",
    )


def remove_link(clip: Clip) -> Clip:
    """Return a clip as it was before it was linked.

    If the table names no file, `start_s` and `end_s` are times in the film again, and FILM_TIMES
    are empty. The times of frames stay those of the file, because the film may begin late.
    """
    name = named_file(clip)
    extra = {**clip.extra, NAME_COLUMN: name}
    span = span_in_film(clip)
    if span and not name:
        extra |= {column: "" for column in FILM_TIMES if column in extra}
        return replace(clip, video="", start_s=span[0], end_s=span[1], extra=extra)
    linked_stem = compose_accents(PurePosixPath(clip.video).stem)
    wanted = PurePosixPath(compose_accents(name))
    # A clip that is linked to its film instead of its own file has its times from FILM_TIMES.
    is_of_film = linked_stem not in ("", wanted.stem, wanted.name)
    if extra.get(FILM_TIMES[0]) and is_of_film:
        clip = replace(clip, start_s=None, end_s=None)
    return replace(clip, video="", extra=extra)


def is_linked(clip: Clip) -> bool:
    """Return whether `link` found the video of a clip."""
    return bool(clip.video) and NAME_COLUMN in clip.extra


class _Files:
    """The files of a folder, indexed by path, name and id."""

    def __init__(
        self,
        videos: Iterable[str],
        clips: Iterable[Clip],
        stated: Mapping[str, str],
    ) -> None:
        self.stated = stated
        self.films = {clip.movie_id for clip in clips} - {""}
        # For each possible name of a clip's file, the films with such a clip.
        self.films_of: dict[str, set[str]] = defaultdict(set)
        for clip in clips:
            for name in (clip.clip_id, PurePosixPath(named_file(clip)).stem):
                self.films_of[as_id(name)].add(clip.movie_id)
        # The file of a scene is the file of a clip only if the scene has no other clip.
        self.n_clips_of_scene = Counter((clip.movie_id, clip.scene) for clip in clips)
        self.by_key: dict[tuple[str, str], tuple[str, ...]] = defaultdict(tuple)
        # On disks of macOS, accents may be separate characters.
        paths = {video: PurePosixPath(compose_accents(video)) for video in videos}
        stems = [path.stem for path in paths.values()]
        film_of_stem = films_of_names(stems, self.films, stated)
        for video, path in paths.items():
            ids = {("id", as_id(path.stem)), ("id", as_id(path.name))}
            names = {("path", str(path)), ("name", path.name), ("stem", path.stem)}
            scene = SCENE.fullmatch(path.stem)
            if scene:
                names.add(("scene", f"{scene[1]} {int(scene[2])}"))
            if path.stem in film_of_stem:
                names.add(("film", film_of_stem[path.stem]))
            for key in (*names, *ids):
                self.by_key[key] += (video,)

    def of_clip(self, clip: Clip) -> tuple[str, ...]:
        """Return the files that hold only this clip, found by path, name, scene or id.

        Only the files of the first of these matches that finds any are returned.
        """
        named = compose_accents(named_file(clip))
        path = PurePosixPath(named)
        has_times = clip.start_s is not None
        exact = [f"{clip.movie_id}/{named}"]
        # A path identifies one file; files of several films may have the same name.
        exact += [named] if has_times or len(path.parts) > 1 else []
        for one in exact:
            if self.by_key.get(("path", one)):
                return self.by_key["path", one]
        keys = []
        if named:
            # A name without an extension may contain dots.
            keys += [("path", named), ("name", path.name)]
            keys += [("id", as_id(path.name)), ("id", as_id(path.stem))]
        # Times count in the named file, so no other file can be used.
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
        """Return the files of the film of a clip; those with exactly its name, if there are any.

        The files that the user states come before these, and then the file that the table names.
        """
        keys = [(kind, clip.movie_id) for kind in ("stem", "id", "film")]
        # The path may be one of Windows.
        film_file = compose_accents(clip.extra.get(FILM_FILE, "")).replace("\\", "/")
        if clip.movie_id in self.stated.values():
            keys = keys[-1:]
        elif film_file:
            path = PurePosixPath(film_file)
            named = [("path", film_file), ("name", path.name)]
            named += [("id", as_id(path.name)), ("id", as_id(path.stem))]
            keys = named + keys
        return next(filter(None, (self.by_key.get(key) for key in keys)), ())

    def _of_its_film(self, clip: Clip, files: Sequence[str]) -> tuple[str, ...]:
        """Return the files whose path names the film of a clip.

        If there are none, return the files whose path names no film. A file such as `scene_1.mp4`
        is not returned if several films have a clip of this name.
        """
        films_in = {file: self._films_in(file) for file in files}
        same = [file for file, films in films_in.items() if clip.movie_id in films]
        if same:
            return tuple(same)
        stems = {as_id(PurePosixPath(compose_accents(file)).stem) for file in files}
        if any(len(self.films_of.get(stem, ())) > 1 for stem in stems):
            return ()
        return tuple(file for file, films in films_in.items() if not films)

    def _films_in(self, file: str) -> set[str]:
        """Return the films that a path names: tt0108160 for `tt0108160.Sleepless/1.mp4`."""
        path = PurePosixPath(compose_accents(file))
        films = set()
        for part in map(as_id, (*path.parts[:-1], path.stem)):
            starts = [part[: border.start()] for border in _BORDER.finditer(part)]
            films.update([start for start in starts if start in self.films][-1:])
        return films
