"""Read the values of imported files: pool them, apply masks, and find invalid numbers.

Each array is read once, into temporary files. A later change of an imported file therefore does not
change the new store. If the rows keep their order, the temporary files are files of the new store,
which are linked into it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import Progress
from obygaze_features.core.errors import FixInput
from obygaze_features.core.untrusted_text import safe_text
from obygaze_features.store.atomic_files import HashedStream, new_file
from obygaze_features.store.decoding import (
    Rows,
    index_bytes,
    shard_index,
    stored_chunk_bytes,
)
from obygaze_features.store.encoding import (
    finish_chunks,
    rows_of_chunks,
    stored_dtype,
)
from obygaze_features.store.files import check_memory
from obygaze_features.store.importing.clips import Clips
from obygaze_features.store.importing.files import (
    ArrayOfClips,
    BadRow,
    FeatureFiles,
    Values,
    damaged,
    unnamed_file,
)
from obygaze_features.store.layout import (
    COMPANIONS,
    CRC_BYTES,
    MASK,
    MOST_DIMENSIONS,
    N_WORDS,
    OF_FRAMES,
    TIMES,
    Array,
    belongs_to,
    power_of_two,
    with_file_rows,
)
from obygaze_features.store.making import FinishedFile, rows_not_finite
from obygaze_features.store.rows import FAILED, OK, RowColumns

POOLED = "pooled"
# The ways of pooling several vectors of a clip, with their names in recipes.
POOLINGS = {"mean": "mean", "max": "maximum", "last": "last"}
NOT_IN_FILES = "not in the files"
# Bytes of a batch of rows: it fits into the cache of a processor.
BATCH_BYTES = 2**20
LEAST_ROW_BYTES = 2**8
# Bytes of the chunks that are written at a time.
STEP_BYTES = 2**21


class StagedFiles:
    """The files of an array of the new store, written once, while its rows are read.

    Some chunks are in memory at a time: they stay in the cache of a processor.

    Args:
        array: The array.
        path: The path of the files, without the number at its end.
        n_rows: The number of rows.
    """

    def __init__(self, array: Array, path: Path, n_rows: int) -> None:
        self.array = array
        self._path = path
        self._n_rows = n_rows
        self._files: list[FinishedFile] = []
        # The file that is open: its bytes, and the checksums of its chunks.
        self._open = ExitStack()
        self._stream: HashedStream
        self._checks: list[bytes] = []
        # The chunks that are written next, and their rows.
        n_chunks = power_of_two(
            STEP_BYTES // array.chunk_bytes, most=array.chunks_of_a_file
        )
        self._chunks = np.empty((n_chunks, stored_chunk_bytes(array)), np.uint8)
        self._rows = rows_of_chunks(array, self._chunks)
        self._n_written = 0

    def put(self, first: int, rows: Values) -> None:
        """Add rows from number `first`, in ascending order.

        A file without one of its rows is not linked, so the bytes of such a row do not matter.
        """
        chunk_rows = self.array.chunk_rows
        while len(rows):
            number, start = divmod(first, chunk_rows)
            self._write(number - number % len(self._chunks))
            some = rows[: chunk_rows - start]
            place = number % len(self._chunks)
            self._rows[place, start : start + len(some)] = some
            first += len(some)
            rows = rows[len(some) :]

    def close(self) -> None:
        """Write the last chunks."""
        self._write(self.array.n_chunks(self._n_rows))
        del self._chunks, self._rows

    def _write(self, n_chunks: int) -> None:
        """Write chunks, until there are `n_chunks`."""
        array = self.array
        while self._n_written < n_chunks:
            first = self._n_written * array.chunk_rows
            if first % array.file_rows == 0:
                path = self._path.with_name(f"{self._path.name}.{len(self._files)}")
                stream = self._open.enter_context(new_file(path))
                self._stream = HashedStream(stream)
                self._checks = []
            n_rows = min(len(self._chunks) * array.chunk_rows, self._n_rows - first)
            chunks = self._chunks[: array.n_chunks(n_rows)]
            self._checks.append(finish_chunks(array, chunks, n_rows))
            try:
                self._stream.write(chunks.reshape(-1).data)
            except OSError:
                # A full disk: to close the file fails again.
                with suppress(OSError):
                    self._open.close()
                raise
            self._n_written += len(chunks)
            after = first + n_rows
            if after == self._n_rows or after % array.file_rows == 0:
                self._finish()

    def _finish(self) -> None:
        """Write the index of the open file, and close it."""
        checks = b"".join(self._checks)
        self._stream.write(shard_index(self.array, len(checks) // CRC_BYTES))
        self._open.close()
        path = self._path.with_name(f"{self._path.name}.{len(self._files)}")
        self._files.append(FinishedFile(path, self._stream.mark(), checks))

    def file(self, number: int) -> FinishedFile:
        """Return a file."""
        return self._files[number]

    def read(self, rows: Rows) -> Values:
        """Return rows, from the chunks of the files."""
        array = self.array
        values = np.empty((len(rows), *array.shape), stored_dtype(array))
        files, places = np.divmod(rows, array.file_rows)
        for number in np.unique(files).tolist():
            is_here = files == number
            data = np.memmap(self._files[number].path, np.uint8, "r")
            n_chunks = (len(data) - index_bytes(array)) // stored_chunk_bytes(array)
            chunks = data[: n_chunks * stored_chunk_bytes(array)].reshape(n_chunks, -1)
            stored = rows_of_chunks(array, np.asarray(chunks))
            values[is_here] = stored[np.divmod(places[is_here], array.chunk_rows)]
        return values


class ImportedRows:
    """The rows of the new store.

    Attributes:
        arrays: The arrays of the new store.
        problems: The reasons of rows without features, by row number.
        pooling: The pooling, in words; "" if nothing was pooled.
        left_out: The arrays of the files that are not stored.
        narrowed: The stored arrays whose numbers have a wider type in the files.
    """

    def __init__(
        self,
        files: FeatureFiles,
        clips: Clips,
        folder: Path,
        progress: Progress,
        *,
        pool: str | None,
        keep_frames: bool,
        are_named: bool,
    ) -> None:
        """Read the files; temporary files are made in `folder`.

        A pooled array is called `pooled` if its frames are stored too, or if it is the only array
        that is pooled and the user gave it no name. Any other pooled array keeps its name.
        """
        self.arrays: list[Array] = []
        self.pooling = ""
        self.narrowed: dict[str, str] = {}
        self._files = files
        self._folder = folder
        self._progress = progress
        self._places = clips.places
        self._is_used = np.zeros(len(files.names), bool)
        self._is_used[clips.places[clips.places >= 0]] = True
        n_rows = len(clips.places)
        several = []
        for name, array in files.arrays.items():
            if len(array.shape) > 2 and name not in COMPANIONS:
                several.append(name)
        # For each source: the name in the store, the array of the files, and the pooling or None.
        sources: list[tuple[str, str, str | None]] = []
        if pool and keep_frames:
            # Pooled arrays come first: experiments read the first array.
            sources = [(POOLED, name, pool) for name in several]
        for name in files.arrays:
            is_renamed = several == [name] and not (are_named or POOLED in files.arrays)
            if keep_frames or not pool:
                sources.append((name, name, None))
            elif name not in OF_FRAMES:
                sources.append((POOLED if is_renamed else name, name, pool))
        progress.expect(len(sources) * (len(files.names) + n_rows))
        self._values_of: dict[str, Values] = {}
        self._staged: dict[str, StagedFiles] = {}
        # If each row of the store is the row of the same number in the files, the files of the
        # store are written while these are read.
        self._is_in_order = np.array_equal(clips.places, np.arange(len(files.names)))
        self._file_rows = self._expect_file_rows(sources)
        problem_of_place = {-1: NOT_IN_FILES}
        used = set()
        for name, key, how in sources:
            problems: dict[int, str] = {}
            array = self._stage(name, key, how, problems)
            is_needed = key not in files.unasked
            if array and not is_needed:
                is_needed = any(belongs_to(array, one) for one in self.arrays)
            if array and is_needed:
                self.arrays.append(array)
                used.add(key)
                problem_of_place = {**problems, **problem_of_place}
        if self.pooling:
            used.add(MASK)
        self.left_out = [name for name in files.arrays if name not in used]
        self.problems: dict[int, str] = {}
        statuses = [OK] * n_rows
        reasons = [""] * n_rows
        for row in np.flatnonzero(np.isin(clips.places, [*problem_of_place])).tolist():
            problem = problem_of_place[int(clips.places[row])]
            statuses[row] = FAILED
            reasons[row] = safe_text(problem, "terminal")
            self.problems[row] = reasons[row]
        if len(self.problems) == n_rows:
            first = next(iter(problem_of_place.values()))
            problem = f"no clip has usable features; the first clip: {first}"
            raise FixInput(problem, where=files.where)
        self._rows = replace(clips.rows, statuses=statuses, reasons=reasons)

    def columns(self) -> RowColumns:
        """Return the facts of all rows of the new store, as columns."""
        return self._rows

    def read(self, array: Array, first: int, after: int) -> npt.NDArray[np.generic]:
        """Return the rows of an array from number `first` to number `after - 1`."""
        self._progress.advance(after - first)
        # Values of rows without features are ignored.
        places = np.maximum(self._places[first:after], 0)
        staged = self._staged.get(array.name)
        if staged is not None:
            return staged.read(places).astype(array.dtype, copy=False)
        values = self._values_of[array.name]
        if np.array_equal(places, places[0] + np.arange(len(places))):
            values = values[places[0] : places[0] + len(places)]
        else:
            values = values[places]
        return values.astype(array.dtype, copy=False)

    def finished_file(self, array: Array, number: int) -> FinishedFile | None:
        """Return the staged file of an array if it has the rows of this file as they are stored."""
        staged = self._staged.get(array.name)
        if staged is None or staged.array != array:
            return None
        first = number * array.file_rows
        rows = range(first, min(first + array.file_rows, len(self._places)))
        if self.problems and any(row in self.problems for row in rows):
            return None
        self._progress.advance(len(rows))
        return staged.file(number)

    def _expect_file_rows(self, sources: Sequence[tuple[str, str, str | None]]) -> int:
        """Return the number of rows of each file of the new store, or 0 if it is not known yet."""
        expected = []
        for name, key, pool in sources:
            column = self._files.arrays[key]
            if key in self._files.unasked:
                continue
            if isinstance(column, ArrayOfClips):
                return 0
            shape = column.shape[1:]
            if pool:
                shape = shape[-1:]
            dtype = stored_type(name, column.dtype, len(shape) + 1)
            expected.append(Array.of(name, dtype.name, shape))
        return min((array.file_rows for array in expected), default=0)

    def _stage(
        self, name: str, key: str, pool: str | None, problems: dict[int, str]
    ) -> Array | None:
        """Read an array of the files, and add the problems of clips to `problems`.

        Return the array of the store. If no clip has values, return None for an array that was not
        requested, and raise an error for any other array.
        """
        names = self._files.names
        shape: tuple[int, ...] | None = None
        types = set()
        wide = np.dtype(np.float64 if name in (*TIMES, N_WORDS) else np.float32)
        file = None
        staged = None
        is_direct = self._is_in_order and self._file_rows > 0
        is_direct = is_direct and not isinstance(self._files.arrays[key], ArrayOfClips)
        todo = self._batches(key)
        while todo:
            batch = todo.pop()
            if not self._is_used[batch].any():
                continue
            try:
                values, wrong = self._values(name, key, pool, batch)
            except BadRow as error:
                if batch.stop - batch.start == 1:
                    problems[batch.start] = f"{key}: {error}"
                else:
                    places = range(batch.start, batch.stop)
                    todo += [slice(place, place + 1) for place in reversed(places)]
                continue
            for problem, is_wrong in wrong.items():
                for row in np.flatnonzero(is_wrong).tolist():
                    problems.setdefault(batch.start + row, problem)
            if shape not in (None, values.shape[1:]):
                raise FixInput(
                    f"{key}: expected one shape for all clips, got {shape}, and"
                    f" {values.shape[1:]} for {names[batch.start]}",
                    where=self._files.where,
                    hint="pass --pool max to keep one vector of each clip, or --manifest NAME to"
                    " import only the clips of a manifest",
                )
            shape = values.shape[1:]
            types.add(values.dtype)
            if is_direct:
                if staged is None:
                    array = _array_of(name, values.dtype, shape)
                    (array,) = with_file_rows([array], self._file_rows)
                    path = self._folder / f"{len(self._staged)}.{name}"
                    staged = StagedFiles(array, path, len(names))
                staged.put(batch.start, values)
            else:
                file = file or unnamed_file(self._folder)
                rows = np.ascontiguousarray(values, wide)
                file.seek(batch.start * rows[0].nbytes)
                file.write(rows.data)
            self._progress.advance(len(values))
        if shape is None:
            if key in self._files.unasked:
                return None
            first = next(iter(problems.values()), "none")
            problem = f"{key}: no clip has usable values; the first clip: {first}"
            raise FixInput(problem, where=self._files.where)
        if staged is not None:
            staged.close()
            self._staged[name] = staged
        if file is not None:
            file.truncate(len(names) * math.prod(shape) * wide.itemsize)
            mapped = np.memmap(file, wide, "r", 0, (len(names), *shape))
            self._values_of[name] = np.asarray(mapped)
        return _array_of(name, np.result_type(*types), shape)

    def _batches(self, key: str) -> list[slice]:
        """Return the batches of rows, the last batch first."""
        column = self._files.arrays[key]
        n_clips = len(self._files.names)
        row_bytes = math.prod(column.shape[1:]) * column.dtype.itemsize
        check_memory(row_bytes, f"one row of {key}", self._files.where)
        n_rows = max(1, BATCH_BYTES // max(row_bytes, LEAST_ROW_BYTES))
        if isinstance(column, ArrayOfClips):
            n_rows = 1
        starts = range(0, n_clips, n_rows)
        return [slice(one, min(one + n_rows, n_clips)) for one in reversed(starts)]

    def _values(
        self, name: str, key: str, pool: str | None, batch: slice
    ) -> tuple[Values, dict[str, Values]]:
        """Return the values of a batch of rows as they are stored, and their problems.

        The problems are a dictionary: for the words of a problem, which rows of the batch have it.
        """
        values = self._read(key, batch)
        type_in_files = values.dtype
        mask = self._mask(key, values, batch)
        wrong = {}
        if mask is not None:
            is_other = (mask != mask.astype(bool)).any(axis=1)
            wrong[f"{MASK} has numbers other than 0 and 1"] = is_other
            wrong[f"{MASK} has no real frame"] = ~mask.any(axis=1)
        if pool and values.ndim > 2:
            vectors = "all tokens" if mask is None else "the real frames"
            self.pooling = f"{POOLINGS[pool]} over {vectors}, by the importer"
            values = _pool(values, mask, pool)
        if name == MASK and values.ndim == 2:
            return values.astype(bool), wrong
        if name in TIMES:
            # Times may be NaN: the padding of a short clip has no times.
            return values.astype(np.float64), wrong
        dtype = stored_type(name, values.dtype, values.ndim)
        if type_in_files.kind == "f" and type_in_files.itemsize > dtype.itemsize:
            self.narrowed[name] = f"{type_in_files} numbers are stored as {dtype}"
        with np.errstate(over="ignore"):
            stored = values.astype(dtype, copy=False)
        is_wrong = np.zeros(len(stored), bool)
        is_wrong[rows_not_finite(stored)] = True
        if values.dtype.kind in "iu":
            is_wrong |= (stored != values).reshape(len(stored), -1).any(axis=1)
        elif dtype.itemsize < values.dtype.itemsize:
            had_numbers = values.reshape(len(stored), -1).any(axis=1)
            is_wrong |= had_numbers & ~stored.reshape(len(stored), -1).any(axis=1)
        wrong[f"{name} has NaN, infinity or numbers beyond {dtype}"] = is_wrong
        return stored, wrong

    def _read(self, key: str, batch: slice) -> Values:
        """Return rows of an array of the files; raise BadRow unless they are numbers."""
        with damaged(f"{key} cannot be read", self._files.where):
            values = np.asarray(self._files.arrays[key][batch])
        if values.dtype.kind not in "fiub":
            raise BadRow(f"expected real numbers, got {values.dtype}")
        if not values.size or values.ndim > 1 + MOST_DIMENSIONS:
            raise BadRow(
                f"expected at most {MOST_DIMENSIONS} dimensions, not empty, got {values.shape[1:]}"
            )
        return values

    def _mask(self, key: str, values: Values, batch: slice) -> Values | None:
        """Return which frames of each row are real, or None if the files have no mask."""
        if key == MASK:
            return values if values.ndim == 2 else None
        if MASK not in self._files.arrays or values.ndim < 3:
            return None
        mask = self._read(MASK, batch)
        if mask.shape == values.shape[:2]:
            return mask
        if self._files.is_export:
            # It is the mask of a different array.
            return None
        raise BadRow(
            f"expected one value of {MASK} for each frame of {key}, got the shape"
            f" {mask.shape[1:]} for clips of the shape {values.shape[1:]}"
        )


def stored_type(name: str, dtype: np.dtype[Any], n_dimensions: int) -> np.dtype[Any]:
    """Return the type in which features, or numbers of words, are stored.

    Args:
        name: The name of the array in the store.
        dtype: The type in the files.
        n_dimensions: The number of dimensions of the array, with that of the rows.
    """
    if name == N_WORDS and n_dimensions == 1 and dtype.kind in "iu":
        return np.dtype(np.int32)
    # One vector per clip is stored as float32, as in all stores.
    is_half = dtype == np.float16 and n_dimensions > 2
    return np.dtype(np.float16 if is_half else np.float32)


def _array_of(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Return an array of the new store."""
    dims = []
    if name in OF_FRAMES and len(shape) == 1:
        dims = [f"t{size}" for size in shape]
    return Array.of(name, dtype.name, shape, dims)


def _pool(values: Values, mask: Values | None, pool: str) -> Values:
    """Return one vector per row, pooled over the real frames only."""
    vectors = values.reshape(len(values), -1, values.shape[-1])
    if vectors.dtype.kind != "f":
        vectors = vectors.astype(np.float64)
    is_real = np.ones(vectors.shape[:2], dtype=bool)
    counted: Any = True
    if mask is not None:
        # Each frame may have several vectors.
        n_each = vectors.shape[1] // mask.shape[1]
        is_real = np.repeat(mask.astype(bool), n_each, axis=1)
        counted = is_real[:, :, None]
    if pool == "last":
        last = vectors.shape[1] - 1 - is_real[:, ::-1].argmax(axis=1)
        pooled: Values = vectors[np.arange(len(vectors)), last]
    elif pool == "max":
        pooled = vectors.max(axis=1, initial=-np.inf, where=counted)
    else:
        n_vectors = np.maximum(is_real.sum(axis=1, keepdims=True), 1)
        pooled = vectors.sum(axis=1, dtype=np.float64, where=counted) / n_vectors
    return pooled
