"""npz files: one array of ids, and arrays with a row for each of them."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.errors import Corrupt, FixInput, NotFound
from obygaze_features.store.format.limits import check_memory
from obygaze_features.store.interchange.source import (
    DAMAGE,
    Array,
    Columns,
    Source,
    file_origin,
    level_name,
    one_file,
    opened,
    texts,
)

ID_KEY, MOVIE_KEY = "clip_id", "movie_id"


def open_npz(
    paths: Sequence[Path],
    levels: Mapping[str, str],
    *,
    id_key: str | None = None,
    movie_key: str | None = None,
) -> Source:
    """The arrays of npz files; without `levels`, each array that has a row for each id."""
    return opened(paths, lambda path: _open_one(path, levels, id_key, movie_key))


def _open_one(
    path: Path, levels: Mapping[str, str], id_key: str | None, movie_key: str | None
) -> Columns:
    one_file(path)
    if not zipfile.is_zipfile(path):
        raise Corrupt("not an npz file", where=str(path))
    try:
        with np.load(path, allow_pickle=False) as packed:
            return _columns(_Members(path, packed), levels, id_key, movie_key)
    except DAMAGE as error:
        raise Corrupt(f"not a whole npz file: {error}", where=str(path)) from error


class _Members:
    """The arrays of an npz file, each checked for its size before it is read."""

    def __init__(self, path: Path, packed: Any) -> None:
        self.path, self.packed = path, packed
        self.names: list[str] = list(getattr(packed, "files", ()))

    def read(self, key: str) -> Array:
        """One array, or an error that says what there is instead."""
        if key not in self.names:
            there = ", ".join(self.names) or "nothing"
            raise FixInput(f"no array {key!r}; the file has {there}", where=str(self.path))
        self._check_size(key)
        try:
            return np.asarray(self.packed[key])
        except ValueError as error:
            if "allow_pickle" in str(error):
                raise FixInput(
                    f"{key!r} holds Python objects, which would have to be unpickled",
                    where=str(self.path),
                    hint="np.array(ids, dtype=str) when the file is made",
                ) from error
            raise Corrupt(f"{key!r} cannot be read: {error}", where=str(self.path)) from error

    def _check_size(self, key: str) -> None:
        member = key if key in self.packed.zip.namelist() else f"{key}.npy"
        shape, dtype = self._header(member)
        n_bytes = math.prod(shape) * dtype.itemsize
        if not dtype.hasobject and n_bytes > self.packed.zip.getinfo(member).file_size:
            raise Corrupt(f"{key!r} is shorter than its shape {shape}", where=str(self.path))
        check_memory(n_bytes, key, str(self.path))

    def _header(self, member: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        try:
            with self.packed.zip.open(member) as stream:
                version = np.lib.format.read_magic(stream)
                old = version == (1, 0)
                read = (
                    np.lib.format.read_array_header_1_0
                    if old
                    else np.lib.format.read_array_header_2_0
                )
                shape, _, dtype = read(stream)
        except DAMAGE as error:
            raise Corrupt(f"{member!r} is not an array: {error}", where=str(self.path)) from error
        return shape, dtype


def _columns(
    members: _Members, levels: Mapping[str, str], id_key: str | None, movie_key: str | None
) -> Columns:
    path = members.path
    id_key = id_key or ID_KEY
    ids = texts(members.read(id_key), f"{id_key!r}", str(path))
    if movie_key is None and MOVIE_KEY in members.names:
        movie_key = MOVIE_KEY
    movies = texts(members.read(movie_key), f"{movie_key!r}", str(path)) if movie_key else None
    if levels:
        arrays = {level: members.read(key) for level, key in levels.items()}
        return Columns(_origin(path, levels), ids, movies, arrays)
    others = {key: members.read(key) for key in members.names if key not in (id_key, movie_key)}
    found = {level_name(key): key for key, one in others.items() if _is_level(one, len(ids))}
    left_out = sorted(set(others) - set(found.values()))
    warnings = [f"{key} was left out: it is no array with a row for each id" for key in left_out]
    if not found:
        raise FixInput("no array has a row for each id", where=str(path), hint="--level NAME=KEY")
    arrays = {level: others[key] for level, key in found.items()}
    return Columns(_origin(path, found), ids, movies, arrays, warnings)


def _is_level(array: Array, n_clips: int) -> bool:
    return array.dtype.kind == "f" and 2 <= array.ndim <= 4 and len(array) == n_clips


def _origin(path: Path, levels: Mapping[str, str]) -> dict[str, Any]:
    return {**file_origin("npz", path), "levels": dict(levels)}


def read_arrays(path: Path) -> dict[str, Array]:
    """Every array of an npz file by its name, each as safely read as those of `open_npz`."""
    if not path.is_file():
        raise NotFound("no such file", where=str(path))
    if not zipfile.is_zipfile(path):
        raise Corrupt("not an npz file", where=str(path))
    try:
        with np.load(path, allow_pickle=False) as packed:
            members = _Members(path, packed)
            return {name: members.read(name) for name in members.names}
    except DAMAGE as error:
        raise Corrupt(f"not a whole npz file: {error}", where=str(path)) from error
