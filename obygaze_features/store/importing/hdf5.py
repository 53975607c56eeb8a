"""Read HDF5: arrays with a row for each clip, or a data set for each clip under some path.

Symbolic links, data in other files, and arrays that exceed the memory are refused.
"""

from __future__ import annotations

import math
import mmap
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.console import few, human
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.shell import shell_word
from obygaze_features.store.importing.files import (
    EXPORT_KEY,
    MOST_COMPRESSED,
    NAME_IT,
    PACKED,
    SPAN_KEYS,
    STATE_MISSING,
    ArrayOfClips,
    BadRow,
    FeatureFiles,
    Keys,
    damaged,
    features_of_rows,
    problem_of_attributes,
)
from obygaze_features.store.layout import MASK, N_WORDS

CLIP_MARK = "{id}"
# A compressed chunk larger than this cache would be unpacked again for each row.
CACHE_BYTES = 2**26
# The first bytes of a block of texts.
TEXTS = re.compile(rb"GCOL\x01\0\0\0")


def open_hdf5(path: Path, arrays: Keys, id_key: str | None) -> FeatureFiles:
    """Open an HDF5 file.

    Arrays are named by paths. A path with `{id}` names one data set per clip: `{id}` (MAD,
    Charades), `v_{id}/c3d_features` (ActivityNet), `{id}/features` (SumMe, TVSum). Other paths name
    one array of all clips; the ids of the clips are at the path `id_key`.
    """
    import h5py

    # Other programs write paths from the root: /features.
    paths = {name: key.strip("/") for name, key in arrays.items()}
    with damaged("not a complete HDF5 file", path, BadRow):
        file = _Hdf5(path, h5py)
        if id_key is None and any(CLIP_MARK in key for key in paths.values()):
            return file.clips(paths)
        file.refuse_unread_companions(paths, [""])
        columns = {}
        for key in [*file.root, *paths.values(), *filter(None, [id_key])]:
            if file.is_there(key):
                columns[key] = file.data_set(key)
        is_export = EXPORT_KEY in file.root.attrs
        read = features_of_rows(path, columns, paths, id_key, is_export=is_export)
        for key in {*SPAN_KEYS, *read.unasked, *(read.keys or {}).values()} & {
            *columns
        }:
            file.plain_data_set(key)
        return read


class _Hdf5:
    """An open HDF5 file."""

    def __init__(self, path: Path, h5py: Any) -> None:
        self.h5py = h5py
        self.where = str(path)
        self.root: Any = h5py.File(path, "r", rdcc_nbytes=CACHE_BYTES)

    def node(self, path: str) -> Any:
        """Return the node at a path, or None.

        Raise an error for a symbolic or external link, and for data in other files.
        """
        node = self.root
        for word in filter(None, path.split("/")):
            if not isinstance(node, self.h5py.Group) or word not in node:
                return None
            if not isinstance(node.get(word, getlink=True), self.h5py.HardLink):
                problem = f"{path!r} is a link, which is not followed"
                raise Corrupt(problem, where=self.where)
            node = node[word]
        if self.is_array(node) and (node.external or node.is_virtual):
            problem = f"{path!r} has its data in other files, which are not read"
            raise Corrupt(problem, where=self.where)
        return node

    def is_array(self, node: Any) -> bool:
        """Return whether this is a data set."""
        return isinstance(node, self.h5py.Dataset)

    def data_set(self, path: str) -> Any:
        """Return the data set at a path; raise BadRow if it has no readable values."""
        node = self.node(path)
        if not self.is_array(node):
            raise BadRow(f"the file has no data set {path!r}")
        dtype = node.dtype
        if dtype.hasobject and self.h5py.check_string_dtype(dtype) is None:
            # The HDF5 library may crash on such a type, which damage can produce.
            raise BadRow(f"{path!r}: expected numbers or texts")
        n_bytes = node.size * dtype.itemsize
        if n_bytes > MOST_COMPRESSED * self.root.id.get_filesize():
            # HDF5 returns fill values for missing chunks, which would take hours.
            problem = f"{path!r} has {human(n_bytes)}, more than the file can hold"
            raise Corrupt(problem, where=self.where)
        if not _is_written(node):
            raise BadRow(f"{path!r} has values that were never written")
        if dtype.hasobject:
            _check_texts(self.root, node)
        return node

    def plain_data_set(self, path: str) -> Any:
        """Return the data set at a path; raise Corrupt if its numbers stand for other numbers."""
        node = self.data_set(path)
        attributes = {}
        for key in (*PACKED, *STATE_MISSING):
            if key in node.attrs and node.attrs.get_id(key).dtype.kind in "fiu":
                attributes[key] = np.ravel(node.attrs[key])[0]
        problem = problem_of_attributes(attributes, node.dtype)
        if problem:
            raise Corrupt(f"{path!r} {problem}", where=self.where)
        return node

    def clips(self, patterns: Keys) -> FeatureFiles:
        """Return features with one data set per clip; `patterns` are paths with `{id}`."""
        clips: list[str] = []
        for pattern in patterns.values():
            if pattern.count(CLIP_MARK) != 1:
                problem = f"expected {CLIP_MARK} once in the path, got {pattern!r}"
                raise FixInput(problem, where=self.where, hint=NAME_IT)
            above, below = pattern.split(CLIP_MARK)
            group, _, before = above.rpartition("/")
            after = below.partition("/")[0]
            form = re.compile(f"{re.escape(before)}(.+){re.escape(after)}", re.DOTALL)
            parent = self.node(group)
            names = parent if isinstance(parent, self.h5py.Group) else ()
            found = [match[1] for match in map(form.fullmatch, names) if match]
            clips += [one for one in found if self.is_there(pattern, one)]
        clips = list(dict.fromkeys(clips))
        if not clips:
            problem = f"no data set at {few(list(patterns.values()))}"
            raise FixInput(problem, where=self.where, hint=NAME_IT)
        self.refuse_unread_companions(patterns, clips)

        def read(pattern: str, place: int) -> Any:
            return self.plain_data_set(pattern.replace(CLIP_MARK, clips[place]))

        arrays = {}
        for name, pattern in patterns.items():
            arrays[name] = ArrayOfClips(partial(read, pattern), len(clips))
        films = [""] * len(clips)
        return FeatureFiles(self.where, clips, arrays, films, keys=patterns)

    def is_there(self, pattern: str, clip: str = "") -> bool:
        """Return whether a data set exists at the path of a clip."""
        return self.is_array(self.node(pattern.replace(CLIP_MARK, clip)))

    def refuse_unread_companions(self, patterns: Keys, clips: list[str]) -> None:
        """Raise an error if a read array has a mask or numbers of words that are not read.

        Without the mask, padding would count as frames. Without the numbers of words, clips without
        words would count as clips with words. If the arrays have a row for each clip, the mask and
        the numbers of words at the root of the file are read without a request.
        """
        for pattern in patterns.values():
            words = pattern.split("/")
            named = [n for n, word in enumerate(words) if CLIP_MARK not in word]
            for name in {MASK, N_WORDS} - patterns.keys():
                if len(words) > 1:
                    words[named[-1]] = name
                beside = "/".join(words)
                if beside != pattern and any(
                    self.is_there(beside, one) for one in clips
                ):
                    problem = f"{name} next to {pattern} is not read, but belongs to it"
                    hint = f"pass --array {shell_word(f'{name}={beside}')} too"
                    raise FixInput(problem, where=self.where, hint=hint)


def _is_written(node: Any) -> bool:
    """Return whether all values of a data set were written to the file.

    For values that a killed program did not write, HDF5 returns zeros.
    """
    if node.chunks is None:
        return not node.size or node.id.get_storage_size() > 0
    sizes = zip(node.shape, node.chunks, strict=True)
    n_chunks = math.prod(math.ceil(size / of_chunk) for size, of_chunk in sizes)
    return bool(node.id.get_num_chunks() >= n_chunks)


def _check_texts(root: Any, node: Any) -> None:
    """Raise ValueError for a text that is longer than the file, or for a damaged block of texts.

    The HDF5 library (version 2.0 included) reserves memory for a text of any stated length, and it
    never ends if an entry of a block has 0 bytes. It has no function that checks texts, so their
    bytes are checked here before the library reads them. An entry of a block begins with its number
    in 2 bytes; the number 0 marks the free space after the last entry. The length of the entry
    begins at its byte 8, and is stored in `n_size` bytes.
    """
    n_size = root.id.get_create_plist().get_sizes()[1]
    with Path(root.filename).open("rb") as stream:
        data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)

    def number(offset: int, n_bytes: int) -> int:
        return int.from_bytes(data[offset : offset + n_bytes], "little")

    for block in TEXTS.finditer(data):
        offset = block.start() + 16
        end = block.start() + number(block.start() + 8, n_size)
        while offset + 16 <= end <= len(data):
            n_bytes = number(offset + 8, n_size)
            is_text = number(offset, 2) > 0
            offset += 16 + -(-n_bytes // 8) * 8 if is_text else n_bytes or end
        if not offset <= end <= len(data):
            raise ValueError("an entry of a text has the wrong size")
    offset = node.id.get_offset()
    if offset is not None:  # else it is in chunks
        item_bytes = node.id.get_storage_size() // max(node.size, 1)
        lengths = np.ndarray((node.size,), "<u4", data, offset, (item_bytes,))
        if (lengths > len(data)).any():
            raise ValueError("a text is longer than the file")
