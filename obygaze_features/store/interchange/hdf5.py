"""HDF5 files as they are met: one dataset a clip under some path, or one big array and ids.

A level is told by a path. With `{id}` in it there is one dataset a clip: `{id}`,
`{id}/features`, `v_{id}/c3d_features`, `features.s3d/{id}`. Without, it is one array of all
clips, whose ids lie under the id key. A folder of files has one clip a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.store.interchange.hdf5_layouts import ID, found_levels, kinds_of
from obygaze_features.store.interchange.source import (
    DAMAGE,
    Array,
    BadRow,
    Columns,
    Shape,
    Source,
    file_origin,
    folder_origin,
    level_name,
    one_file,
    opened,
    plain_files,
    texts,
)

SUFFIXES = (".h5", ".hdf5", ".hdf")
ID_KEYS = ("clip_id", "ids", "id", "names", "video_names", "keys")
MOVIE = "movie_id"


def open_hdf5(
    paths: Sequence[Path],
    levels: Mapping[str, str] | None = None,
    *,
    id_key: str | None = None,
    movie_key: str | None = None,
) -> Source:
    """The source that fits the files and the paths; without paths, the layout is looked for."""
    return opened(paths, lambda path: _open_one(path, dict(levels or {}), id_key, movie_key))


def _open_one(
    path: Path, given: dict[str, str], id_key: str | None, movie_key: str | None
) -> Source:
    try:
        if path.is_dir():
            return FileEach(path, given)
        return _one_file(one_file(path), given, id_key, movie_key)
    except DAMAGE as error:
        raise _not_whole(error, path) from error


def _one_file(
    path: Path, given: dict[str, str], id_key: str | None, movie_key: str | None
) -> Source:
    handle = _opened(path)
    try:
        if id_key is not None or (not given and _id_key(handle)):
            return _columns(path, handle, given, id_key or _id_key(handle), movie_key)
        return KeyEach(path, handle, given or found_levels(handle, path))
    except BaseException:
        handle.close()
        raise


def _opened(path: Path) -> Any:
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise _not_whole(error, path) from error


def _not_whole(error: Exception, path: Path) -> Corrupt:
    return Corrupt(f"not a whole HDF5 file: {error}", where=str(path))


def _plain(parent: Any, path: str, where: str) -> Any:
    """What lies under a path; links that lead elsewhere and data kept elsewhere are refused."""
    node = parent
    for word in path.split("/"):
        if not isinstance(node, h5py.Group) or word not in node:
            raise KeyError(path)
        if not isinstance(node.get(word, getlink=True), h5py.HardLink):
            raise FixInput(f"{path!r} is a link, which may lead out of the file", where=where)
        node = node[word]
    if isinstance(node, h5py.Dataset) and (node.external or node.is_virtual):
        raise FixInput(f"{path!r} keeps its data in other files", where=where)
    return node


def _id_key(handle: Any) -> str | None:
    kinds = kinds_of(handle)
    names = (name for name in ID_KEYS if kinds.get(name) is h5py.Dataset)
    return next((name for name in names if handle[name].ndim == 1), None)


def _columns(
    path: Path, handle: Any, levels: Mapping[str, str], id_key: str | None, movie_key: str | None
) -> Columns:
    ids = _texts_at(handle, id_key or "", path)
    arrays = [name for name, kind in kinds_of(handle).items() if kind is h5py.Dataset]
    if movie_key is None and MOVIE in arrays:
        movie_key = MOVIE
    movies = _texts_at(handle, movie_key, path) if movie_key else None
    if not levels:
        levels = {
            level_name(name): name
            for name in arrays
            if (node := handle[name]).dtype.kind == "f"
            and 2 <= node.ndim <= 4
            and len(node) == len(ids)
        }
    if not levels:
        raise FixInput("no array has a row for each id", where=str(path), hint="--level NAME=PATH")
    found = {level: _dataset(handle, key, path) for level, key in levels.items()}
    origin = {**file_origin("hdf5", path), "levels": dict(levels)}
    return Columns(origin, ids, movies, found, handle=handle)


def _texts_at(handle: Any, key: str, path: Path) -> list[str]:
    node = _dataset(handle, key, path)
    if node.dtype.kind == "O":
        node = node.asstr()
    return texts(node[:], repr(key), str(path))


def _dataset(handle: Any, key: str, path: Path) -> Any:
    try:
        node = _plain(handle, key, str(path))
    except KeyError as error:
        there = ", ".join(list(handle)[:20])
        raise FixInput(f"nothing under {key!r}; the file has {there}", where=str(path)) from error
    if not isinstance(node, h5py.Dataset):
        raise FixInput(f"{key!r} is a group, not an array", where=str(path))
    return node


class _Keyed:
    """Clips that each have their own dataset."""

    movie_ids: Sequence[str] | None = None
    warnings: list[str]

    def _node(self, level: str, index: int) -> Any:
        raise NotImplementedError

    def shape(self, level: str, index: int) -> Shape:
        """From the dataset's header."""
        try:
            node = self._node(level, index)
            return Shape(tuple(node.shape), str(node.dtype))
        except DAMAGE as error:
            raise BadRow(f"{level} cannot be read: {error}") from error

    def row(self, level: str, index: int) -> Array:
        """The dataset itself."""
        try:
            return np.asarray(self._node(level, index)[()])
        except DAMAGE as error:
            raise BadRow(f"{level} cannot be read: {error}") from error


class KeyEach(_Keyed):
    """One file in which each clip has its own dataset."""

    def __init__(self, path: Path, handle: Any, levels: Mapping[str, str]) -> None:
        self.path, self.handle, self.patterns = path, handle, dict(levels)
        self.levels: Sequence[str] = list(levels)
        self.warnings = []
        found: dict[str, None] = {}
        for pattern in levels.values():
            found.update(dict.fromkeys(_ids(handle, pattern, path)))
        if not found:
            raise FixInput(f"no dataset is under {list(levels.values())}", where=str(path))
        self.clip_ids: Sequence[str] = list(found)
        self.movie_ids = self._movies()
        self.origin: Mapping[str, Any] = {**file_origin("hdf5", path), "levels": dict(levels)}

    def _movies(self) -> list[str] | None:
        """As `export` writes them: an attribute of each dataset or group."""
        pattern = next(iter(self.patterns.values()))
        words = pattern.split("/")
        place = next(i for i, word in enumerate(words) if ID in word)
        top = "/".join(words[: place + 1])
        movies = []
        for clip in self.clip_ids:
            node = self.handle.get(top.replace(ID, clip))
            movie = None if node is None else node.attrs.get(MOVIE)
            if not isinstance(movie, str):
                return None
            movies.append(movie)
        return movies

    def _node(self, level: str, index: int) -> Any:
        key = self.patterns[level].replace(ID, self.clip_ids[index])
        try:
            node = _plain(self.handle, key, str(self.path))
        except KeyError as error:
            raise BadRow(f"nothing under {key!r}") from error
        if not isinstance(node, h5py.Dataset):
            raise BadRow(f"{key!r} is a group, not an array")
        return node

    def close(self) -> None:
        """Close the file."""
        self.handle.close()


class FileEach(_Keyed):
    """A folder in which each clip has its own file."""

    def __init__(self, root: Path, levels: dict[str, str]) -> None:
        self.root, self.files = root, plain_files(root, SUFFIXES)
        if not self.files:
            raise FixInput("no HDF5 file in this folder", where=str(root))
        self.paths = levels or self._found()
        if any(ID in path for path in self.paths.values()):
            raise FixInput(f"in a folder of files {ID} is the file's name", where=str(root))
        self.levels: Sequence[str] = list(self.paths)
        self.clip_ids: Sequence[str] = [file.stem for file in self.files]
        self.warnings = []
        self.origin: Mapping[str, Any] = {
            **folder_origin("hdf5", root, self.files),
            "levels": dict(self.paths),
        }
        self._last: tuple[int, Any] | None = None

    def _found(self) -> dict[str, str]:
        with _opened(self.files[0]) as first:
            names = [
                name
                for name, kind in kinds_of(first).items()
                if kind is h5py.Dataset and first[name].dtype.kind == "f" and first[name].ndim
            ]
        if len(names) != 1:
            raise FixInput(
                f"{self.files[0].name} holds {', '.join(names) or 'no array'}",
                where=str(self.root),
                hint="--level NAME=PATH for each of those that are wanted",
            )
        return {level_name(names[0]): names[0]}

    def _node(self, level: str, index: int) -> Any:
        try:
            return _plain(self._file(index), self.paths[level], str(self.files[index]))
        except KeyError as error:
            raise BadRow(f"nothing under {self.paths[level]!r}") from error
        except Corrupt as error:
            raise BadRow(error.what) from error

    def _file(self, index: int) -> Any:
        if self._last is None or self._last[0] != index:
            self.close()
            self._last = (index, _opened(self.files[index]))
        return self._last[1]

    def close(self) -> None:
        """Close the file that was read last."""
        if self._last is not None:
            self._last[1].close()
            self._last = None


def _ids(handle: Any, pattern: str, path: Path) -> Iterator[str]:
    """The ids for which the pattern may lead to a dataset."""
    words = pattern.split("/")
    places = [i for i, word in enumerate(words) if ID in word]
    if len(places) != 1 or words[places[0]].count(ID) != 1:
        raise FixInput(f"{pattern!r} must hold {ID} once", where=str(path), hint="or --id-key")
    place = places[0]
    try:
        parent = _plain(handle, "/".join(words[:place]), str(path)) if place else handle
    except KeyError as error:
        raise FixInput(f"nothing under {pattern!r}", where=str(path)) from error
    if not isinstance(parent, h5py.Group):
        raise FixInput(f"{'/'.join(words[:place])!r} is no group", where=str(path))
    before, after = words[place].split(ID)
    matcher = re.compile(f"{re.escape(before)}(.+){re.escape(after)}", re.DOTALL)
    wanted = h5py.Dataset if place + 1 == len(words) else h5py.Group
    kinds = kinds_of(parent)
    for name in parent:
        match = matcher.fullmatch(name)
        # A link is refused, by name, when it is read.
        if match and kinds.get(name, wanted) is wanted:
            yield match[1]
