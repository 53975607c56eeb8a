"""Find the video of each clip under a folder: its own file, or a part of the file of its film.

`start_s` and `end_s` of a clip are times within its `video`. Where no video is named they are
times within the film; once a clip has a file of its own, its film times move to the columns
`film_start_s` and `film_end_s`. The name that was looked for stays in the column `video_name`,
so that linking again, also to another folder, has the same result.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.core.files import leads_out
from obygaze_features.core.notebook import short_repr
from obygaze_features.manifest.model import Clip, Manifest

EXTENSIONS = (
    *(".mp4", ".m4v", ".mkv", ".avi", ".mov", ".webm", ".mpg", ".mpeg", ".m2ts", ".ts"),
    *(".wmv", ".flv", ".ogv", ".3gp", ".vob", ".divx"),
)
FILM_COLUMNS = ("film_start_s", "film_end_s")
NAME_COLUMN = "video_name"
_SCENE = re.compile(r"(.+)_scene_0*([0-9]{1,9})")
_CLIP = re.compile(r".+-[0-9]{1,4}")
_BORDER = re.compile(r"[^A-Za-z0-9]|$")


@dataclass(frozen=True, repr=False)
class LinkReport:
    """The manifest with its videos, and how the video of each clip was found."""

    manifest: Manifest
    by_name: tuple[str, ...]
    by_time: tuple[str, ...]
    ambiguous: Mapping[str, tuple[str, ...]]
    without: tuple[str, ...]

    def __repr__(self) -> str:
        found = f"{len(self.by_name)} by name, {len(self.by_time)} by time"
        return short_repr("LinkReport", found, f"{len(self.without)} without a video")

    def to_json(self) -> dict[str, Any]:
        """Return the report as one JSON document."""
        return {
            "video_root": self.manifest.header.video_root,
            "by_name": list(self.by_name),
            "by_time": list(self.by_time),
            "ambiguous": {clip_id: list(files) for clip_id, files in self.ambiguous.items()},
            "without": list(self.without),
        }


def film_span(clip: Clip) -> tuple[float, float] | None:
    """Return start and end of a clip in its film, in seconds; None where they are unknown."""
    first, last = (clip.extra.get(column, "") for column in FILM_COLUMNS)
    if first and last:
        return float(first), float(last)
    # With a file name, the times are times in that file.
    if _file_name(clip) or clip.start_s is None or clip.end_s is None:
        return None
    return clip.start_s, clip.end_s


def find_videos(folder: Path) -> tuple[str, ...]:
    """Return the video files under a folder by their extension, relative to it, sorted.

    Linked folders are followed, but no folder is entered twice. A name that a manifest cannot
    have (not UTF-8, or one that would lead out of the folder) is skipped.
    """
    if not folder.exists():
        raise NotFound("no such folder", where=str(folder), hint="check the path")
    if not folder.is_dir():
        raise FixInput("expected a folder, got a file", where=str(folder), hint="name its folder")
    return tuple(sorted(name for name in _walk(folder) if _is_valid_name(name)))


def link(manifest: Manifest, folder: Path) -> LinkReport:
    """Find the video of each clip; a clip that matches several files gets none.

    Args:
        manifest: The clips.
        folder: The folder with the videos, in any structure.
    """
    originals = [_original(clip) for clip in manifest]
    files = _Files(find_videos(folder), originals)
    clips: list[Clip] = []
    by_name: list[str] = []
    by_time: list[str] = []
    without: list[str] = []
    ambiguous: dict[str, tuple[str, ...]] = {}
    for clip in originals:
        own = files.of_clip(clip)
        found = own or files.of_film(clip)
        if len(found) == 1:
            (by_name if own else by_time).append(clip.clip_id)
            clip = _own_file(clip, found[0]) if own else _part_of_film(clip, found[0])
        elif found:
            ambiguous[clip.clip_id] = found
        else:
            without.append(clip.clip_id)
        clips.append(clip)
    linked = _linked(manifest, clips, folder)
    return LinkReport(linked, tuple(by_name), tuple(by_time), ambiguous, tuple(without))


def _file_name(clip: Clip) -> str:
    """Return the name of the file to look for; empty where the data set has none."""
    return clip.extra.get(NAME_COLUMN, clip.video)


def _original(clip: Clip) -> Clip:
    """Return the clip as it was before it was linked for the first time."""
    name, video = _file_name(clip), PurePosixPath(clip.video)
    # It is linked to its film instead of a file of its own: its times are from the film columns.
    by_time = bool(name and clip.extra.get(FILM_COLUMNS[0])) and (
        video.stem not in ("", PurePosixPath(name).stem)
    )
    times: dict[str, Any] = {"start_s": None, "end_s": None} if by_time else {}
    return replace(clip, video="", extra={**clip.extra, NAME_COLUMN: name}, **times)


def _own_file(clip: Clip, name: str) -> Clip:
    span = None if _file_name(clip) else film_span(clip)
    if span is None:
        return replace(clip, video=name)
    columns = dict(zip(FILM_COLUMNS, map(repr, span), strict=True))
    return replace(clip, video=name, start_s=None, end_s=None, extra={**clip.extra, **columns})


def _part_of_film(clip: Clip, name: str) -> Clip:
    start_s, end_s = film_span(clip) or (None, None)
    return replace(clip, video=name, start_s=start_s, end_s=end_s)


def _linked(manifest: Manifest, clips: Sequence[Clip], folder: Path) -> Manifest:
    """Return the manifest with the linked clips and the columns that linking adds."""
    wanted = [NAME_COLUMN]
    if any(clip.extra.get(FILM_COLUMNS[0]) for clip in clips):
        wanted += FILM_COLUMNS
    added = [column for column in wanted if column not in manifest.columns]
    blank = dict.fromkeys(added, "")
    header = replace(manifest.header, video_root=str(folder.resolve()))
    return replace(
        manifest,
        header=header,
        clips=tuple(replace(clip, extra={**blank, **clip.extra}) for clip in clips),
        columns=(*manifest.columns, *added),
    )


def _walk(folder: Path) -> Iterator[str]:
    entered: set[tuple[int, int]] = set()
    _enter(folder, entered)
    for parent, folders, names in os.walk(folder, followlinks=True):
        # Sorted, so that of two names for one folder it is always the same that is used.
        folders[:] = [name for name in sorted(folders) if _enter(Path(parent, name), entered)]
        for name in names:
            path = Path(parent, name)
            if path.suffix.lower() in EXTENSIONS and path.is_file():
                yield path.relative_to(folder).as_posix()


def _enter(path: Path, entered: set[tuple[int, int]]) -> bool:
    """Return whether a folder is entered for the first time."""
    try:
        status = path.stat()
    except OSError:
        return False
    key = status.st_dev, status.st_ino
    first_time = key not in entered
    entered.add(key)
    return first_time


def _is_valid_name(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return name.isprintable() and not leads_out(name)


class _Files:
    """The files of a folder, indexed by path, name, stem, scene and film."""

    def __init__(self, names: Iterable[str], clips: Sequence[Clip]) -> None:
        self.movies = frozenset(clip.movie_id for clip in clips)
        # For each name that the file of a clip may have, the films with such a clip.
        self.films_of = _grouped(
            {
                (stem, clip.movie_id)
                for clip in clips
                for stem in (clip.clip_id, PurePosixPath(_file_name(clip)).stem)
            }
        )
        self.by_key = _grouped((key, name) for name in names for key in self._keys(name))

    def of_clip(self, clip: Clip) -> tuple[str, ...]:
        """Return the files of this clip alone: all files of the best kind of match."""
        wanted = PurePosixPath(_file_name(clip))
        a_part, exact = clip.start_s is not None, ("path", str(wanted))
        found = self._get("path", f"{clip.movie_id}/{wanted}") or (a_part and self._get(*exact))
        if found:
            return found
        keys: list[tuple[Any, ...]] = [exact, ("name", wanted.name), ("stem", wanted.stem)]
        # Times are times in the named file, so no other file can be used.
        if not (wanted.name and a_part):
            keys += [("stem", clip.clip_id), ("stem", clip.extra.get("given_clip_id"))]
            keys += [("scene", clip.movie_id, clip.scene)]
        return next((fit for key in keys if (fit := self._same_film(clip, self._get(*key)))), ())

    def of_film(self, clip: Clip) -> tuple[str, ...]:
        """Return the files of the clip's film, where the times of the clip in it are known."""
        if not film_span(clip):
            return ()
        given = ("stem", clip.extra.get("given_movie_id"))
        keys = (("film", clip.movie_id), given, ("film and more", clip.movie_id))
        return next((found for key in keys if (found := self._get(*key))), ())

    def _get(self, *key: Any) -> tuple[str, ...]:
        return self.by_key.get(key, ())

    def _keys(self, name: str) -> Iterator[tuple[Any, ...]]:
        """Yield the keys by which a file can be found."""
        path = PurePosixPath(name)
        yield from (("path", name), ("name", path.name), ("stem", path.stem))
        scene, film = _SCENE.fullmatch(path.stem), self._film_of(path.stem)
        if scene:
            yield "scene", scene[1], int(scene[2])
        if film == path.stem:
            yield "film", film
        elif film and not (scene or path.stem in self.films_of or _CLIP.fullmatch(path.stem)):
            yield "film and more", film

    def _same_film(self, clip: Clip, names: Sequence[str]) -> tuple[str, ...]:
        """Return the files of the clip's film among these, or else those without a film."""
        films = {name: self._films_in(PurePosixPath(name)) for name in names}
        same = tuple(name for name in names if clip.movie_id in films[name])
        if same:
            return same
        # `scene_1.mp4` alone could be from any film that has a clip of that name.
        one_film = all(len(self.films_of.get(PurePosixPath(name).stem, ())) < 2 for name in names)
        return tuple(name for name in names if not films[name]) if one_film else ()

    def _films_in(self, path: PurePosixPath) -> set[str]:
        return {film for part in (*path.parts[:-1], path.stem) if (film := self._film_of(part))}

    def _film_of(self, part: str) -> str:
        """Return the film whose id a name starts with: tt0108160 for `tt0108160.Sleepless`."""
        starts = [part[: match.start()] for match in _BORDER.finditer(part)]
        return next((start for start in reversed(starts) if start in self.movies), "")


def _grouped(pairs: Iterable[tuple[Any, str]]) -> dict[Any, tuple[str, ...]]:
    groups: dict[Any, list[str]] = {}
    for key, name in pairs:
        groups.setdefault(key, []).append(name)
    return {key: tuple(names) for key, names in groups.items()}
