"""Features in HDF5 files: one data set for each clip under some path, or one big array and ids.

An array is given by a path. With `{id}` in it there is one data set for each clip: `{id}` (MAD,
Charades), `v_{id}/c3d_features` (ActivityNet), `{id}/features` (SumMe, TVSum),
`features.s3d/{id}` (MMT). Without, it is one array of all clips, whose ids lie under the id key.
With `{film}` in a path, the file has a group for each film: `{film}/{id}`.
"""

import math
import mmap
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from obygaze_features.core.console import few, human
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.shell import shell_word
from obygaze_features.store.importing.reader import (
    FILM_KEY,
    FOREIGN_DAMAGE,
    GENERIC,
    ID_KEY,
    MOST_BYTES,
    MOST_COMPRESSED,
    TIME_KEYS,
    BadRow,
    Reader,
    Times,
    array_reader,
    clip_reader,
    name_by_shape,
)
from obygaze_features.store.layout import MASK, N_WORDS

ID = "{id}"
FILM = "{film}"
LAYOUTS = (
    f"--array clip='{ID}/features' for a data set a clip, --array clip=PATH --id-key PATH for one"
    f" array of all, --array clip='{FILM}/{ID}' for a group a film"
)
# What is looked at to know where arrays and ids are: the first groups and data sets of a file.
MOST_NODES = 10_000
# What must be read with the features beside which it is, and what it says.
BESIDE = {
    MASK: "a mask, which says which frames are real",
    N_WORDS: "n_words, which says which clips have words",
}
# The start of a block of texts.
TEXTS = b"GCOL\x01\0\0\0"


def open_hdf5(
    path: Path, arrays: Mapping[str, str], *, id_key: str | None = None
) -> Reader:
    """Open a file; without paths in `arrays`, with a data set for each clip, or with ids."""
    # Other programs show paths from the root of the file: /features.
    paths = {name: key.lstrip("/") for name, key in arrays.items()}
    try:
        # A compressed chunk that is larger than the cache would be unpacked for each row.
        handle = h5py.File(path, "r", rdcc_nbytes=MOST_BYTES)
        is_plain = id_key is None and not arrays
        if is_plain and (ID_KEY in _data_sets(handle) or _may_have_ids(handle)):
            id_key = ID_KEY
        if id_key is None:
            reader = _a_data_set_a_clip(path, handle, paths)
        else:
            id_key = id_key.lstrip("/")
            refuse_if(
                [key for key in (id_key, *paths.values()) if FILM in key],
                FixInput,
                "with --id-key, one array has the rows of all films",
                where=path,
                hint=LAYOUTS,
            )
            for array, key in paths.items():
                if "/" in key:  # a mask at the root is found and read
                    _refuse_what_is_beside(handle, array, paths, [key])
            reader = array_reader(
                str(path),
                _data_sets(handle),
                partial(_column, handle, path),
                paths,
                id_key=id_key,
            )
        reader.handles = [handle]
        groups = []
        if is_plain:
            kinds = _kinds(handle)
            groups = [name for name, kind in kinds.items() if kind is h5py.Group]
        if groups:
            note = f"groups were left out: {few(groups, 3)}; --array clip='GROUP/{ID}' takes one"
            reader.notes = [*reader.notes, note]
        return reader
    except FOREIGN_DAMAGE as error:
        raise Corrupt(
            f"not a complete HDF5 file: {error}",
            where=str(path),
            hint="copy or download it again",
        ) from error


def _is_unsafe(dtype: Any) -> bool:
    """Return whether values are objects and no texts.

    The HDF5 library may crash over them, such as those of a type that is neither, by damage.
    """
    return dtype.hasobject and h5py.check_string_dtype(dtype) is None


def _attribute(node: Any, name: str) -> Any:
    """Return an attribute, a number or a text."""
    if _is_unsafe(node.attrs.get_id(name).dtype):
        raise ValueError(f"{name} is neither a number nor a text")
    return node.attrs[name]


def text_of(node: Any, name: str) -> str:
    """Return a text or a whole number that is an attribute; "" if it is something else."""
    value = _attribute(node, name)
    if isinstance(value, np.integer):
        return str(value)
    if isinstance(value, str):
        # h5py makes characters that no text has of bytes that are not UTF-8.
        value = value.encode("utf-8", "surrogateescape")
    return value.decode("utf-8") if isinstance(value, bytes) else ""


def _may_have_ids(handle: Any) -> bool:
    """Return whether a list of texts stands beside an array with as many rows: they may be ids."""
    n_texts = set()
    n_rows = set()
    for name in islice(_data_sets(handle), MOST_NODES):
        # A damaged one is a failed row where it is read.
        with suppress(*FOREIGN_DAMAGE):
            node = handle[name]
            if node.ndim > 1:
                n_rows.add(len(node))
            elif node.ndim and node.dtype.kind in "SO":
                n_texts.add(len(node))
    return not n_texts.isdisjoint(n_rows)


def _refuse_what_is_beside(
    handle: Any, array: str, arrays: Mapping[str, str], paths: Collection[str]
) -> None:
    """Raise an error for a mask beside an array that is read: without it, padding would count.

    The same holds for numbers of words: without them, silent clips would count as others.

    Args:
        handle: The file.
        array: The array.
        arrays: The pattern of each array that is read.
        paths: Where the array is in the file.
    """
    words = arrays[array].split("/")
    places = [place for place, word in enumerate(words) if not {*"{}"} & {*word}]
    if not places:
        return
    for name, meaning in BESIDE.items():
        if name in (*arrays, words[places[-1]]):
            continue
        for path in paths:
            beside = path.split("/")
            beside[places[-1]] = name
            # A link is refused, by name, when the array is read.
            with suppress(KeyError, Corrupt):
                _node(handle, "/".join(beside), handle.filename)
                raise FixInput(
                    f"beside {path} is {meaning}",
                    where=handle.filename,
                    hint=f"--array {shell_word(name)}=PATH reads it too",
                )


def _a_data_set_a_clip(path: Path, handle: Any, arrays: Mapping[str, str]) -> Reader:
    """Open one file in which each clip has its own data set, or each film has a group of them."""
    path_of_array = dict(arrays) or {"": ID}
    paths = list(path_of_array.values())
    has_films = any(FILM in pattern for pattern in paths)
    clips: dict[tuple[str, str], None] = {}
    for pattern in paths:
        films = _names_at(handle, pattern, FILM, path) if has_films else [""]
        for film in films:
            for clip in _names_at(handle, pattern.replace(FILM, film), ID, path):
                clips[film, clip] = None
    if not clips:
        raise FixInput(f"no data set at {few(paths)}", where=str(path), hint=LAYOUTS)
    (_, first), *others = clips
    if "" in path_of_array and first in GENERIC and not others:
        raise FixInput(
            f"one array {first!r}, and no ids of clips",
            where=str(path),
            hint="add the ids of its rows: --array NAME=KEY --id-key KEY",
        )
    keys = {}
    for array, pattern in path_of_array.items():
        keys[array] = {
            (film, clip): pattern.replace(FILM, film).replace(ID, clip)
            for film, clip in clips
        }
        _refuse_what_is_beside(handle, array, path_of_array, keys[array].values())
    is_unnamed = "" in path_of_array
    reader = clip_reader(
        str(path),
        clips,
        keys,
        partial(_data_set, handle, str(path)),
        least_dimensions=1 if is_unnamed else 0,
    )
    _read_facts(handle, next(iter(keys.values())).values(), paths[0], reader)
    if is_unnamed:
        name_by_shape(reader, "frames")
    reader.asked = path_of_array
    return reader


def _read_facts(
    handle: Any, paths: Iterable[str], pattern: str, reader: Reader
) -> None:
    """Read films and times where the data sets or groups of clips have them as attributes."""
    words = pattern.split("/")
    depth = next(place for place, word in enumerate(words) if ID in word)
    films = []
    times: list[Times] = []
    is_checked = False
    for path, film_of_path in zip(paths, reader.movie_ids, strict=True):
        film = film_of_path
        start_s = end_s = None
        # A damaged one is a failed row where it is read.
        with suppress(*FOREIGN_DAMAGE, Corrupt):
            node = _node(handle, "/".join(path.split("/")[: depth + 1]), reader.where)
            if FILM_KEY in node.attrs and not film:
                if not is_checked:
                    check_texts(handle)
                    is_checked = True
                film = text_of(node, FILM_KEY)
            start_s, end_s = (_time_of(node, key) for key in TIME_KEYS)
        films.append(film)
        times.append((start_s, end_s))
    reader.movie_ids = films
    if any(of_clip != (None, None) for of_clip in times):
        reader.times = times


def _time_of(node: Any, key: str) -> float | None:
    """Return a time that is an attribute; None if it is not there."""
    return float(_attribute(node, key)) if key in node.attrs else None


def _data_set(handle: Any, where: str, path: str) -> Any:
    """Return the data set at a path; raise BadRow where there is none."""
    try:
        node = _node(handle, path, where)
    except KeyError as error:
        raise BadRow(f"nothing under {path!r}") from error
    if not isinstance(node, h5py.Dataset):
        raise BadRow(f"{path!r} is a group, not an array")
    # Each look at it takes time.
    dtype = node.dtype
    if _is_unsafe(dtype):
        raise BadRow(f"{path!r} holds neither numbers nor texts")
    n_bytes = node.size * dtype.itemsize
    if n_bytes > MOST_COMPRESSED * handle.id.get_filesize():
        # HDF5 returns fill values for what a file does not hold, which takes hours.
        raise Corrupt(
            f"{path!r} has {human(n_bytes)}, more than the file can hold", where=where
        )
    if not _is_written(node):
        raise BadRow(f"{path!r} has values that were never written")
    if dtype.hasobject:
        check_texts(handle, node)
    return node


def _is_written(node: Any) -> bool:
    """Return whether a file holds all values of a data set.

    HDF5 returns zeros for those that a program was killed before it wrote.
    """
    if node.chunks is None:
        return not node.size or node.id.get_storage_size() > 0
    n_chunks = 1
    for size, chunk_size in zip(node.shape, node.chunks, strict=True):
        n_chunks *= math.ceil(size / chunk_size)
    return bool(node.id.get_num_chunks() >= n_chunks)


def _column(handle: Any, path: Path, key: str) -> Any:
    """Return the array of all clips under a key."""
    try:
        return _data_set(handle, str(path), key)
    except BadRow as error:
        if isinstance(error.__cause__, KeyError):
            raise KeyError(key) from error
        raise FixInput(str(error), where=str(path), hint=LAYOUTS) from error


def _node(parent: Any, path: str, where: str) -> Any:
    """Return what is at a path; raise an error for links and for data in other files."""
    node = parent
    for word in path.split("/"):
        if not isinstance(node, h5py.Group) or word not in node:
            raise KeyError(path)
        if not isinstance(node.get(word, getlink=True), h5py.HardLink):
            raise Corrupt(f"{path!r} is a link, which is not followed", where=where)
        node = node[word]
    if isinstance(node, h5py.Dataset) and (node.external or node.is_virtual):
        problem = f"{path!r} has its data in other files, which are not read"
        raise Corrupt(problem, where=where)
    return node


def _data_sets(handle: Any) -> list[str]:
    """Return the names of the data sets of a file that are in no group."""
    return [name for name, kind in _kinds(handle).items() if kind is h5py.Dataset]


def _kinds(group: Any) -> dict[str, Any]:
    """Return the class, group or data set, of each name in a group that is not a link."""
    kinds = {}
    for name in group:
        if isinstance(group.get(name, getlink=True), h5py.HardLink):
            kinds[name] = group.get(name, getclass=True)
    return kinds


def _names_at(handle: Any, pattern: str, mark: str, path: Path) -> Iterator[str]:
    """Yield the ids, or films, for which the pattern may lead to a data set."""
    words = pattern.split("/")
    depths = [place for place, word in enumerate(words) if mark in word]
    if len(depths) != 1 or words[depths[0]].count(mark) != 1:
        raise FixInput(
            f"{pattern!r} must contain {mark} once",
            where=str(path),
            hint=f"--id-key KEY for one array of all clips, or {LAYOUTS}",
        )
    depth = depths[0]
    above = "/".join(words[:depth])
    try:
        parent = _node(handle, above, str(path)) if above else handle
    except KeyError as error:
        problem = f"no group for the path {pattern!r}"
        hint = LAYOUTS
        raise FixInput(problem, where=str(path), hint=hint) from error
    if not isinstance(parent, h5py.Group):
        raise FixInput(f"{above!r} is not a group", where=str(path), hint=LAYOUTS)
    before, after = words[depth].split(mark)
    matcher = re.compile(f"{re.escape(before)}(.+){re.escape(after)}", re.DOTALL)
    wanted = h5py.Dataset if depth + 1 == len(words) else h5py.Group
    kinds = _kinds(parent)
    for name in parent:
        match = matcher.fullmatch(name)
        # A link is refused, by name, when it is read.
        if match and kinds.get(name, wanted) is wanted:
            yield match[1]


def check_texts(handle: Any, node: Any = None) -> None:
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
    lengths = np.ndarray((node.size,), "<u4", data, node.id.get_offset(), (item_bytes,))
    if (lengths > len(data)).any():
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
