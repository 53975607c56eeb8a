"""Features in HDF5 files: one dataset a clip under some path, or one big array and ids.

An array is given by a path. With `{id}` in it there is one dataset a clip: `{id}`,
`{id}/features`, `v_{id}/c3d_features`, `features.s3d/{id}`. Without, it is one array of all
clips, whose ids lie under the id key. A folder of files has one clip a file.
"""

import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from obygaze_features.core.console import few
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.files import require_file
from obygaze_features.store.interchange.source import (
    DAMAGE,
    FILM_KEY,
    HDF5_NAMES,
    ID_KEYS,
    BadRow,
    FeatureSource,
    by_clip,
    clip_source,
    column_source,
    has_several,
    origin_of,
    plain_files,
)

ID = "{id}"
SUFFIXES = (".h5", ".hdf5", ".hdf")
LAYOUT = f"--array NAME=PATH, such as --array clip='{ID}/features'"
# The start of a block of texts.
TEXTS = b"GCOL\x01\0\0\0"


def open_one(
    path: Path, arrays: Mapping[str, str], *, id_key: str | None = None
) -> FeatureSource:
    """Open a file or a folder; without paths in `arrays`, a dataset for each clip, or ids."""
    # Other programs show paths from the root of the file: /features.
    arrays = {name: key.lstrip("/") for name, key in arrays.items()}
    id_key = None if id_key is None else id_key.lstrip("/")
    try:
        if path.is_dir():
            return _a_file_a_clip(path, arrays)
        require_file(path)
        handle = h5py.File(path, "r")
        key = id_key if id_key is not None or arrays else _id_key(handle)
        if key is None:
            source = _a_dataset_a_clip(
                path, handle, arrays or _arrays_of_file(handle, path)
            )
        else:
            source = column_source(
                path,
                [name for name, kind in _kinds(handle).items() if kind is h5py.Dataset],
                lambda key: _dataset(handle, key, path),
                arrays,
                origin=origin_of("hdf5", path),
                id_key=key,
            )
        source.handles = [handle]
        return source
    except DAMAGE as error:
        hint = "copy or download it again, or name its format: npz, npy or pth"
        raise Corrupt(
            f"not a complete HDF5 file: {error}", where=str(path), hint=hint
        ) from error


def _node(parent: Any, path: str, where: str) -> Any:
    """Return what is at a path; raise an error for links and for data in other files."""
    node = parent
    for word in path.split("/"):
        if not isinstance(node, h5py.Group) or word not in node:
            raise KeyError(path)
        if not isinstance(node.get(word, getlink=True), h5py.HardLink):
            raise FixInput(f"{path!r} is a link, which is not followed", where=where)
        node = node[word]
    if isinstance(node, h5py.Dataset) and (node.external or node.is_virtual):
        problem = f"{path!r} has its data in other files, which are not read"
        raise FixInput(
            problem, where=where, hint="a file that holds all data (h5repack)"
        )
    return node


def _dataset_of_clip(handle: Any, path: str, where: str) -> Any:
    try:
        node = _node(handle, path, where)
    except KeyError as error:
        raise BadRow(f"nothing under {path!r}") from error
    if not isinstance(node, h5py.Dataset):
        raise BadRow(f"{path!r} is a group, not an array")
    if node.dtype.hasobject:
        _check_texts(handle, node)
    return node


def _check_texts(handle: Any, node: Any = None) -> None:
    """Raise ValueError for texts longer than the file, and for one of no bytes in a block of texts.

    The HDF5 library (2.0 too) takes the memory for the first, and reads the second for ever; it has
    no function that checks them. So the bytes are looked at before it reads a text.
    """
    n_size = handle.id.get_create_plist().get_sizes()[1]
    with Path(handle.filename).open("rb") as stream:
        data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    start = data.find(TEXTS)
    while start >= 0:
        _check_block_of_texts(data, start, n_size)
        start = data.find(TEXTS, start + 1)
    if node is None or node.id.get_offset() is None:  # in chunks
        return
    item_bytes = node.id.get_storage_size() // max(node.size, 1)
    for index in range(node.size):
        offset = node.id.get_offset() + index * item_bytes
        if _number(data, offset, 4) > len(data):
            raise ValueError("a text that is longer than the file")


def _check_block_of_texts(data: mmap.mmap, start: int, n_size: int) -> None:
    """Raise ValueError unless the entries of a block of texts end where the block does.

    An entry has its number in 2 bytes, 0 for the free space after the last, and its size, which
    has `n_size` bytes, after 8 bytes.
    """
    offset = start + 16
    end = start + _number(data, start + 8, n_size)
    while offset + 16 <= end <= len(data):
        n_bytes = _number(data, offset + 8, n_size)
        is_text = _number(data, offset, 2) > 0
        if is_text:
            offset += 16 + -(-n_bytes // 8) * 8
        else:
            offset += n_bytes or end
    if not offset <= end <= len(data):
        raise ValueError("an entry among its texts does not have the right size")


def _number(data: mmap.mmap, offset: int, n_bytes: int) -> int:
    return int.from_bytes(data[offset : offset + n_bytes], "little")


def _dataset(handle: Any, key: str, path: Path) -> Any:
    try:
        return _dataset_of_clip(handle, key, str(path))
    except BadRow as error:
        there = ", ".join(list(handle)[:20])
        raise FixInput(f"{error}; the file has {there}", where=str(path)) from error


def _kinds(group: Any) -> dict[str, Any]:
    """Return the class, group or dataset, of each name in a group that is not a link."""
    return {
        name: group.get(name, getclass=True)
        for name in group
        if isinstance(group.get(name, getlink=True), h5py.HardLink)
    }


def _id_key(handle: Any) -> str | None:
    """Return the array of ids in a file of arrays of all clips; None in a file by clip.

    A clip may have the name of an array of ids, such as `keys`.
    """
    if HDF5_NAMES in handle.attrs:
        return None
    kinds = _kinds(handle)
    for name in ID_KEYS:
        if kinds.get(name) is not h5py.Dataset:
            continue
        if handle[name].ndim == 1 and handle[name].dtype.kind != "f":
            return name
    return None


def _a_dataset_a_clip(
    path: Path, handle: Any, arrays: Mapping[str, str]
) -> FeatureSource:
    """Open one file in which each clip has its own dataset."""
    paths = list(arrays.values())
    ids: list[str] = []
    for pattern in paths:
        ids += _ids(handle, pattern, path)
    clips = list(dict.fromkeys(ids))
    if not clips:
        hint = f"--array NAME=PATH; the file has {few(list(handle))}"
        raise FixInput(f"no dataset at {few(paths)}", where=str(path), hint=hint)
    keys = {}
    for array, pattern in arrays.items():
        keys[array] = {clip: pattern.replace(ID, clip) for clip in clips}
    return clip_source(
        origin_of("hdf5", path),
        keys,
        lambda key: _dataset_of_clip(handle, key, str(path)),
        arrays,
        film_of_clip=_films(handle, paths[0], clips, path),
    )


def _films(
    handle: Any, pattern: str, clips: Sequence[str], path: Path
) -> dict[str, str]:
    """Return the films, which `export` writes as an attribute of each dataset or group."""
    words = pattern.split("/")
    id_depth = next(i for i, word in enumerate(words) if ID in word)
    top = "/".join(words[: id_depth + 1])
    films: dict[str, str] = {}
    is_checked = False
    for clip in clips:
        try:
            node = _node(handle, top.replace(ID, clip), str(path))
        except KeyError:
            continue
        if FILM_KEY not in node.attrs:
            continue
        if not is_checked:
            _check_texts(handle)
            is_checked = True
        film = _id_of(node.attrs[FILM_KEY])
        if film is None:
            raise FixInput(
                f"the attribute {FILM_KEY!r} of {clip!r} is not one text or whole number",
                where=str(path),
                hint="correct it, or remove this attribute from all clips",
            )
        if film:
            films[clip] = film
    return films


def _id_of(attribute: Any) -> str | None:
    """Return the id that an attribute has; None if it has none.

    Of one text h5py makes a str, NumPy bytes of a fixed length, and MATLAB an array of one.
    """
    values = np.asarray(attribute)
    if values.size != 1:
        return None
    value = values.reshape(-1)[0]
    if isinstance(value, np.integer):
        return str(value)
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return None
    return str(value) if isinstance(value, str) else None


def _a_file_a_clip(root: Path, arrays: Mapping[str, str]) -> FeatureSource:
    """Open a folder in which each clip has its own file."""
    files = plain_files(root, SUFFIXES)
    if not arrays or any(ID in path for path in arrays.values()):
        problem = (
            f"each array of a folder of files needs its path in a file, without {ID}"
        )
        raise FixInput(problem, where=str(root), hint="--array clip=features")
    clips = by_clip(files)
    keys = {}
    for array, path in arrays.items():
        keys[array] = {clip: (file, path) for clip, file in clips.items()}
    return clip_source(origin_of("hdf5", root, files), keys, _dataset_in_file, arrays)


def _dataset_in_file(key: tuple[Path, str]) -> Any:
    """Return the dataset of a file, which is open as long as the dataset is used."""
    file, path = key
    return _dataset_of_clip(h5py.File(file, "r"), path, str(file))


def _ids(handle: Any, pattern: str, path: Path) -> Iterator[str]:
    """Yield the ids for which the pattern may lead to a dataset."""
    words = pattern.split("/")
    id_depths = [i for i, word in enumerate(words) if ID in word]
    if len(id_depths) != 1 or words[id_depths[0]].count(ID) != 1:
        raise FixInput(
            f"{pattern!r} must contain {ID} once",
            where=str(path),
            hint="or add --id-key",
        )
    id_depth = id_depths[0]
    try:
        parent = (
            _node(handle, "/".join(words[:id_depth]), str(path)) if id_depth else handle
        )
    except KeyError as error:
        raise FixInput(f"no group for the path {pattern!r}", where=str(path)) from error
    if not isinstance(parent, h5py.Group):
        raise FixInput(
            f"{'/'.join(words[:id_depth])!r} is not a group", where=str(path)
        )
    before, after = words[id_depth].split(ID)
    matcher = re.compile(f"{re.escape(before)}(.+){re.escape(after)}", re.DOTALL)
    wanted = h5py.Dataset if id_depth + 1 == len(words) else h5py.Group
    kinds = _kinds(parent)
    for name in parent:
        match = matcher.fullmatch(name)
        # A link is refused, by name, when it is read.
        if match and kinds.get(name, wanted) is wanted:
            yield match[1]


def _exported_names(handle: Any) -> list[str]:
    """Return the arrays that `export` wrote; none for files of other programs."""
    if HDF5_NAMES not in handle.attrs:
        return []
    _check_texts(handle)
    return [str(name) for name in handle.attrs[HDF5_NAMES]]


def _arrays_of_file(handle: Any, path: Path) -> dict[str, str]:
    """Return the paths of arrays: as `export` wrote them, else of one dataset for each clip."""
    exported = _exported_names(handle)
    arrays = [name for name, kind in _kinds(handle).items() if kind is h5py.Dataset]
    if not arrays and exported:
        return {name: f"{ID}/{name}" for name in exported}
    if not arrays:
        there = few(list(handle)) or "nothing"
        raise FixInput(
            f"no dataset at the top of the file, only {there}",
            where=str(path),
            hint=LAYOUT,
        )
    if len(exported) == 1:
        return {exported[0]: ID}
    n_dimensions = (handle[name].ndim for name in arrays)
    return {"frames" if has_several(n_dimensions) else "clip": ID}
