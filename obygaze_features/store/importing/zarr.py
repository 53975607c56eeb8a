"""Read groups of Zarr, version 2 or 3, whose arrays have a row for each clip.

Symbolic links, codecs that run code, packed numbers and arrays that exceed the memory are refused.
"""

from __future__ import annotations

import asyncio
import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from obygaze_features.core.console import count, few, human
from obygaze_features.core.errors import Corrupt, FixInput, FixUsage
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.shell import shell_word
from obygaze_features.store.decoding import ENTRY_BYTES
from obygaze_features.store.files import check_memory
from obygaze_features.store.importing.files import (
    EXPORT_KEY,
    FILM_KEY,
    ID_KEY,
    MOST_COMPRESSED,
    SPAN_KEYS,
    TIME_KEYS,
    FeatureFiles,
    Keys,
    Values,
    damaged,
    features_of_rows,
    problem_of_attributes,
)
from obygaze_features.store.layout import CRC_BYTES, STORE_JSON

DOCUMENTS = ("zarr.json", ".zgroup")
# The attribute of an export with the order of its arrays: folders have no order.
ORDER_KEY = "obygaze_arrays"
# Equal numbers take almost no space, so an array of at most this many bytes is read however small
# its files are.
MOST_REPEATED = 100_000_000
# The offset and the length of a chunk that is not in a shard.
MISSING = 2**64 - 1
# The codecs that are read. The codec `pickle` of Zarr 2 would run code.
CODECS = (
    *("bytes", "transpose", "vlen-utf8", "sharding_indexed"),
    *("blosc", "zstd", "gzip", "zlib", "lz4", "lzma", "bz2", "shuffle", "delta"),
    *("crc32c", "crc32", "adler32", "fletcher32"),
)
CHECKSUMS = ("crc32c", "crc32", "adler32", "fletcher32", "gzip", "zlib")
SECONDS = ("s", "sec", "second", "seconds")


def is_zarr(path: Path) -> bool:
    """Return whether a folder is a group of Zarr."""
    return any((path / name).is_file() for name in DOCUMENTS)


def files_of_group(path: Path) -> list[Path]:
    """Return all files of a group; raise an error for a symbolic link or a special file."""
    entries = sorted(path.rglob("*"))
    links = [entry for entry in entries if entry.is_symlink()]
    problem = "expected a folder without symbolic links, got"
    refuse_if(links, Corrupt, problem, where=str(path))
    files = [entry for entry in entries if not entry.is_dir()]
    special = [file for file in files if not file.is_file()]
    refuse_if(special, Corrupt, "expected regular files, got", where=str(path))
    return files


def open_zarr(
    path: Path,
    files: Sequence[Path],
    arrays: Keys,
    id_key: str | None,
    *,
    clip_ids: Sequence[str] | None = None,
    fill_missing: bool = False,
) -> FeatureFiles:
    """Open a group, whose arrays have a row for each id.

    Args:
        path: The folder of the group.
        files: All files below it.
        arrays: The keys of the requested arrays, by their names in the store.
        id_key: The key of the array of clip ids; None: `clip_id`.
        clip_ids: The clips of a manifest, which are those of the rows if the group has no ids.
        fill_missing: Read a chunk that is not there as fill values.
    """
    import zarr

    if (path / STORE_JSON).exists():
        raise FixUsage(
            "expected features of another program, got a store",
            where=str(path),
            hint="copy a store with obygaze store pull, or a part of it with obygaze store subset",
        )
    sizes = {file.relative_to(path).as_posix(): file.stat().st_size for file in files}
    with damaged("not a group of Zarr", path), without_warnings():
        # The documents of the arrays themselves are read: a consolidated one may name other places.
        group = zarr.open_group(path, mode="r", use_consolidated=False)
        stated: Any = group.attrs.get(ORDER_KEY, [])
        order = list(map(str, stated))
        nodes = dict(group.members(max_depth=None))
        names = [*filter(nodes.__contains__, order), *sorted({*nodes} - {*order})]
        columns: dict[str, Any] = {}
        for name in names:
            if isinstance(nodes[name], zarr.Array):
                columns[name] = ZarrArray(
                    name, nodes[name], path, sizes, fill_missing=fill_missing
                )
        is_export = EXPORT_KEY in group.attrs
    read = features_of_rows(
        path, columns, arrays, id_key, is_export=is_export, clip_ids=clip_ids
    )
    taken = {
        id_key or ID_KEY,
        FILM_KEY,
        *SPAN_KEYS,
        *read.unasked,
        *(read.keys or {}).values(),
    }
    _check_dimensions(
        {name: one for name, one in columns.items() if name in taken}, path
    )
    of_clips = {
        name for name, one in columns.items() if one.shape == (len(read.names),)
    }
    if clip_ids is None and of_clips - taken - {ID_KEY}:
        read.notes = [
            *read.notes,
            "labels are of a manifest, and not of a store; how to make one:"
            f" obygaze manifest import {shell_word(path)}",
        ]
    keys = (read.keys or {}).values()
    unchecked = [key for key in keys if not columns[key].has_checksums]
    if unchecked:
        read.notes = [
            *read.notes,
            f"chunks without a checksum, so a changed byte was not found: {few(unchecked)}",
        ]
    return read


def _check_dimensions(columns: Mapping[str, ZarrArray], path: Path) -> None:
    """Raise an error unless the first dimension of all arrays is that of the clips, by its name.

    Arrays of as many features as clips have the same shape if they are transposed.
    """
    first_dims = {name: one.dims[0] for name, one in columns.items() if one.dims}
    if len({*first_dims.values()}) > 1:
        named = few([f"{dim} in {name}" for name, dim in first_dims.items()])
        raise FixInput(
            f"expected clips along the first dimension of each array, got {named}",
            where=str(path),
            hint="write the group anew with data.transpose(CLIPS, ...) in xarray; --array"
            " NAME=KEY names the arrays of the clips",
        )
    is_named = any(len(one.dims) == 1 for one in columns.values())
    for name, one in columns.items():
        if one.dims and not is_named and one.shape.count(one.shape[0]) > 1:
            raise FixInput(
                f"{name} has the dimensions {', '.join(map(str, one.dims))} of one size, and no"
                " array of ids names that of the clips",
                where=str(path),
                hint=f"add an array {ID_KEY} with the name of its dimension to the group",
            )


def lines_of_labels(path: Path) -> list[str]:
    """Return the lines of Python that make a manifest of what a group states of its clips.

    These are the arrays with one value per clip. xarray decodes their times, if they have names of
    dimensions; without such names, they are numbers and texts as they stand.
    """
    import zarr

    files = files_of_group(path)
    sizes = {file.relative_to(path).as_posix(): file.stat().st_size for file in files}
    with damaged("not a group of Zarr", path), without_warnings():
        group = zarr.open_group(path, mode="r", use_consolidated=False)
        arrays = dict(sorted(group.arrays()))
    dims = {name: dims_of(array) or array.shape for name, array in arrays.items()}
    rows = Counter(one[0] for one in dims.values() if one)
    ((row, _),) = rows.most_common(1) or [("", 0)]
    is_named = isinstance(row, str)
    keys = [name for name, one in dims.items() if one == (row,)]
    incomplete = {}
    for key in keys:
        column = ZarrArray(key, arrays[key], path, sizes, fill_missing=False)
        problem = column.missing_chunks()
        if problem:
            incomplete[key] = problem
    keys = [key for key in keys if key not in incomplete]
    if not keys:
        raise FixInput("no array has one value per clip", where=str(path))
    if is_named:
        left_out = ""
        if incomplete:
            left_out = f", drop_variables={[*incomplete]}"
        table = f"xarray.open_zarr({str(path)!r}{left_out})[{keys}].to_dataframe()"
        if row not in keys:
            table += ".reset_index(drop=True)"
    else:
        group_of_path = f"zarr.open_group({str(path)!r}, mode='r')"
        table = f"pandas.DataFrame({{key: {group_of_path}[key][:] for key in {keys}}})"
    return [
        *(
            f"# left out; add it if no file was lost: {one}"
            for one in incomplete.values()
        ),
        "import obygaze as og",
        "import xarray" if is_named else "import pandas, zarr",
        f"table = {table}",
        f"made = og.manifest.import_(table, {ascii_id(path.stem)!r})",
        "print(made, *made.notes, sep='\\n')",
    ]


def dims_of(array: Any) -> tuple[Any, ...]:
    """Return the names of the dimensions of an array; empty if none has a name."""
    names = getattr(array.metadata, "dimension_names", None)
    names = names or array.attrs.get("_ARRAY_DIMENSIONS")
    return tuple(names) if any(names or ()) else ()


@contextmanager
def without_warnings() -> Iterator[None]:
    """Hide the warnings of zarr about types that its specification does not have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class ZarrArray:
    """An array of Zarr, read in whole chunks, of which the last ones are kept.

    Attributes:
        shape: The shape.
        dtype: The data type.
        dims: The names of the dimensions; empty if none has a name.
        has_checksums: Whether a codec compares a checksum of each chunk.
    """

    def __init__(
        self,
        name: str,
        array: Any,
        folder: Path,
        sizes: Mapping[str, int],
        *,
        fill_missing: bool,
    ) -> None:
        """Check what the document of an array states.

        Args:
            name: The name of the array in the group.
            array: The array of zarr.
            folder: The folder of the group.
            sizes: The bytes of each file of the group, by name.
            fill_missing: Read a chunk that is not there as fill values.
        """
        self.shape: tuple[int, ...] = array.shape
        self.dtype = array.dtype
        self.dims = dims_of(array)
        self._name = name
        self._array = array
        self._folder = folder
        self._sizes = sizes
        self._fill_missing = fill_missing
        self._document = array.metadata.to_dict()
        codecs = list(_codecs_of(self._document))
        unknown = sorted({codec["name"] for codec in codecs} - {*CODECS})
        if unknown:
            self._refuse(f"has a codec that is not read: {few(unknown)}")
        self.has_checksums = any(map(_is_checksum, codecs))
        self._is_checked = False
        # The rows that are kept: the first one, and the one after the last.
        self._kept: tuple[int, int] = (0, 0)
        self._values: Values = np.empty(0)

    def __getitem__(self, places: slice) -> Values:
        """Return rows."""
        if not self._is_checked:
            self._check()
            self._is_checked = True
        first, after, _ = places.indices(self.shape[0])
        if not self._kept[0] <= first <= after <= self._kept[1]:
            start = first - first % self._file_shape[0]
            end = start + max(after - start, self._file_shape[0])
            self._kept = (start, min(end, self.shape[0]))
            with without_warnings(), ThreadPoolExecutor(1) as thread:
                # A loop of its own ends all reads if one raises an error: zarr's loop leaves the
                # others, and Python prints a traceback for each when the program ends.
                read = self._array.async_array.getitem(slice(*self._kept))
                self._values = np.asarray(thread.submit(asyncio.run, read).result())
        return self._values[first - self._kept[0] : after - self._kept[0]]

    @property
    def _file_shape(self) -> tuple[int, ...]:
        """The shape of what one file holds: a chunk, or a shard of several chunks."""
        shape: tuple[int, ...] = self._array.shards or self._array.chunks
        return shape

    @property
    def _fill_for_missing(self) -> Any:
        """The fill value where xarray reads it as a missing value: in Zarr 2. zarr writes 0."""
        is_old = self._document["zarr_format"] == 2
        return self._array.fill_value or None if is_old else None

    def _refuse(self, problem: str) -> NoReturn:
        raise Corrupt(f"{self._name} {problem}", where=str(self._folder))

    def _check(self) -> None:
        """Raise an error unless the array can be read, and all its chunks are there."""
        attributes = self._document["attributes"]
        problem = problem_of_attributes(attributes, self.dtype, self._fill_for_missing)
        if problem:
            self._refuse(problem)
        unit = attributes.get("units", SECONDS[0])
        if self._name in TIME_KEYS and unit not in SECONDS:
            self._refuse(f"is in {unit!r}, expected seconds")
        n_bytes = math.prod(self.shape) * self.dtype.itemsize
        if n_bytes > max(MOST_REPEATED, MOST_COMPRESSED * sum(self._sizes.values())):
            self._refuse(f"has {human(n_bytes)}, more than the files can hold")
        row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        check_memory(
            self._file_shape[0] * row_bytes,
            f"the rows of one chunk of {self._name}",
            str(self._folder),
        )
        missing_chunks = "" if self._fill_missing else self.missing_chunks()
        if missing_chunks:
            raise FixInput(
                missing_chunks,
                where=str(self._folder),
                hint="if no file was lost, pass --fill-missing too, to read them as this value",
            )

    def missing_chunks(self) -> str:
        """Return the problem that chunks are missing, or ""."""
        n_missing = self._n_missing_chunks()
        if not n_missing:
            return ""
        n_all = math.prod(_n_parts(self.shape, self._array.chunks))
        fill = np.asarray(self._array.fill_value).tolist()
        return (
            f"{self._name}: {n_missing} of {count(n_all, 'chunk')} missing; zarr writes no"
            f" chunk that has only the fill value, here {fill!r}, and a chunk that was lost looks"
            " the same"
        )

    def _n_missing_chunks(self) -> int:
        """Return the number of chunks of the array that are in no file."""
        shape, chunks, files = self.shape, self._array.chunks, self._file_shape
        n_missing = 0
        for cell in np.ndindex(_n_parts(shape, files)):
            # The last file of a dimension may reach beyond the array.
            inside = [
                min(of_file, size - place * of_file)
                for of_file, size, place in zip(files, shape, cell, strict=True)
            ]
            n_chunks = _n_parts(inside, chunks)
            file = f"{self._name}/{self._array.metadata.encode_chunk_key(cell)}"
            if file not in self._sizes:
                n_missing += math.prod(n_chunks)
            elif self._array.shards:
                n_missing += self._n_missing_in_shard(file, n_chunks)
        return n_missing

    def _n_missing_in_shard(self, file: str, n_chunks: tuple[int, ...]) -> int:
        """Return the number of chunks that the index of a shard states as missing.

        Args:
            file: The name of the file.
            n_chunks: The number of chunks within the array, along each dimension.
        """
        (sharding,) = self._document["codecs"]
        settings = sharding["configuration"]
        names = [codec["name"] for codec in settings["index_codecs"]]
        if names not in (["bytes"], ["bytes", "crc32c"]):
            self._refuse(f"has an index of shards that is not read: {few(names)}")
        n_parts = _n_parts(self._file_shape, self._array.chunks)
        n_index = ENTRY_BYTES * math.prod(n_parts)
        n_crc = CRC_BYTES * (len(names) - 1)
        if self._sizes[file] < n_index + n_crc:
            self._refuse(f"is damaged: {file} is shorter than its index")
        is_at_end = settings["index_location"] == "end"
        with (self._folder / file).open("rb") as stream:
            stream.seek(self._sizes[file] - n_index - n_crc if is_at_end else 0)
            data = stream.read(n_index)
        endian = settings["index_codecs"][0]["configuration"]["endian"]
        order = "<u8" if endian == "little" else ">u8"
        index = np.frombuffer(data, order).reshape(*n_parts, 2)
        within = index[tuple(slice(n) for n in n_chunks)]
        return int((within == MISSING).all(axis=-1).sum())


def _n_parts(shape: Sequence[int], part: Sequence[int]) -> tuple[int, ...]:
    """Return how many parts cover a shape, along each dimension."""
    sizes = zip(shape, part, strict=True)
    return tuple(math.ceil(size / of_part) for size, of_part in sizes)


def _codecs_of(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the codecs in a document of an array, those within shards too.

    Each has a `name` and a `configuration`.
    """
    if document.get("zarr_format") == 2:
        filters = document["filters"] or ()
        for codec in filter(None, (*filters, document["compressor"])):
            yield {"name": codec["id"], "configuration": codec}
        return
    for codec in document["codecs"]:
        yield codec
        yield from _codecs_of(
            {"codecs": codec.get("configuration", {}).get("codecs", ())}
        )


def _is_checksum(codec: Mapping[str, Any]) -> bool:
    """Return whether a codec compares a checksum of the bytes that it decodes."""
    is_zstd = codec["name"] == "zstd"
    stated = codec.get("configuration", {}).get("checksum") is True
    return codec["name"] in CHECKSUMS or (is_zstd and stated)
