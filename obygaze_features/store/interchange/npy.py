"""Folders of npy files: one a clip, or one a level beside clip_id.npy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.store.interchange.source import (
    DAMAGE,
    Array,
    BadRow,
    Columns,
    Shape,
    Source,
    folder_origin,
    level_name,
    one_folder,
    opened,
    plain_files,
    texts,
)

ID_FILE, MOVIE_FILE = "clip_id.npy", "movie_id.npy"
LEVELS_FILE = "levels.txt"  # written by export: which folders are levels
SUFFIXES = (".npy",)
MAGIC = b"\x93NUMPY"


def open_npy(paths: Sequence[Path], levels: Mapping[str, str] | None = None) -> Source:
    """A folder with clip_id.npy holds a file for each level; any other one for each clip.

    `levels` name the files of levels, or the sub-folders that hold the clips' files.
    """
    return opened(paths, lambda path: _open_one(path, dict(levels or {})))


def _open_one(path: Path, levels: dict[str, str]) -> Source:
    root = one_folder(path)
    return _columns(root, levels) if (root / ID_FILE).is_file() else NpyEach(root, levels)


def _mapped(path: Path) -> Array:
    """An array that stays in its file; its size is that of the file, or it is refused."""
    with path.open("rb") as stream:
        if stream.read(len(MAGIC)) != MAGIC:  # NumPy would take it for a pickle
            raise Corrupt("not a whole npy file", where=str(path))
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGE as error:
        if "allow_pickle" in str(error) or "Python objects" in str(error):
            raise FixInput(
                "this file holds Python objects, which would have to be unpickled",
                where=str(path),
                hint="np.array(values, dtype=...) when the file is made",
            ) from error
        raise Corrupt(f"not a whole npy file: {error}", where=str(path)) from error
    return array


def _columns(root: Path, levels: dict[str, str]) -> Columns:
    ids = texts(_mapped(root / ID_FILE), ID_FILE, str(root))
    movie = root / MOVIE_FILE
    movies = texts(_mapped(movie), MOVIE_FILE, str(root)) if movie.is_file() else None
    files = plain_files(root, SUFFIXES)
    if not levels:
        names = [file.stem for file in files if file.parent == root]
        levels = {level_name(name): name for name in names if name not in ("clip_id", "movie_id")}
    arrays = {}
    for level, name in levels.items():
        path = root / f"{name.removesuffix('.npy')}.npy"
        if path not in files:
            raise FixInput(f"there is no {path.name}", where=str(root))
        arrays[level] = _mapped(path)
    origin = {**folder_origin("npy", root, files), "levels": levels}
    return Columns(origin, ids, movies, arrays)


class NpyEach:
    """One npy file a clip, all in one folder, in one for each movie, or in one for each level."""

    def __init__(self, root: Path, levels: dict[str, str]) -> None:
        self.root, self.warnings = root, list[str]()
        folders = levels or self._found(root)
        self.files = {level: self._in(root / folder, level) for level, folder in folders.items()}
        found: dict[str, Path] = {}
        for files in self.files.values():
            found.update({clip: file for clip, file in files.items() if clip not in found})
        self.levels: Sequence[str] = list(folders)
        self.clip_ids: Sequence[str] = list(found)
        tops = {root, *(root / folder for folder in folders.values())}
        nested = all(file.parent not in tops for file in found.values())
        self.movie_ids: Sequence[str] | None = (
            [file.parent.name for file in found.values()] if nested else None
        )
        every = [file for files in self.files.values() for file in files.values()]
        self.origin: Mapping[str, Any] = {
            **folder_origin("npy", root, every),
            "levels": {level: folder or "." for level, folder in folders.items()},
        }

    def _found(self, root: Path) -> dict[str, str]:
        if (root / LEVELS_FILE).is_file():
            names = (root / LEVELS_FILE).read_text(encoding="utf-8").split()
            return {name: name for name in names}
        first = next(iter(plain_files(root, SUFFIXES)), None)
        if first is None:
            raise FixInput("no npy file in this folder", where=str(root))
        return {"frames" if _mapped(first).ndim > 1 else "clip": ""}

    def _in(self, folder: Path, level: str) -> dict[str, Path]:
        files: dict[str, Path] = {}
        if not folder.resolve().is_relative_to(self.root.resolve()) or not folder.is_dir():
            raise FixInput(f"no folder for the level {level!r}", where=str(folder))
        for file in plain_files(folder, SUFFIXES):
            if files.setdefault(file.stem, file) != file:
                raise FixInput(f"two files are of the clip {file.stem!r}", where=str(file))
        return files

    def _load(self, level: str, index: int) -> Array:
        file = self.files[level].get(self.clip_ids[index])
        if file is None:
            raise BadRow(f"no file for {level}")
        try:
            return _mapped(file)
        except Corrupt as error:
            raise BadRow(f"{file.name}: {error.what}") from error

    def shape(self, level: str, index: int) -> Shape:
        """From the file's header."""
        array = self._load(level, index)
        return Shape(array.shape, str(array.dtype))

    def row(self, level: str, index: int) -> Array:
        """The file itself."""
        return np.asarray(self._load(level, index))

    def close(self) -> None:
        """No file stays open."""
