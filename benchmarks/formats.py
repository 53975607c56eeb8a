"""Files of features in several formats: how each is written, opened and read.

`python benchmarks/formats.py` does one job in a new process: it reads the job as JSON from standard
input, and prints what the job costs. It is started by its path, not as a module of the package, so
that nothing of obygaze is imported where another format is measured.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]
Arrays = Mapping[str, Values]
CLIP_ID = "clip_id"
MOVIE_ID = "movie_id"
WARM_READS = 5
# Of a chunk of HDF5.
HDF5_ROWS = 2048


class _Obygaze:
    """A store."""

    module = "obygaze_features.store.reading"

    @staticmethod
    def write(path: Path, arrays: Arrays) -> None:
        from obygaze_features.store import Array, Recipe, write_store
        from obygaze_features.store.records import ManifestMark
        from obygaze_features.store.rows import RowColumns

        values = dict(arrays)
        clip_ids = values.pop(CLIP_ID).tolist()
        movie_ids = values.pop(MOVIE_ID).tolist()
        described = []
        for name, rows in values.items():
            described.append(Array.of(name, str(rows.dtype), rows.shape[1:]))
        write_store(
            path,
            _Source(RowColumns.of_clips(clip_ids, movie_ids), values),
            arrays=described,
            recipe=Recipe.unknown("made up", {"purpose": "a benchmark"}),
            manifest=ManifestMark("made-up", "0" * 64),
        )

    def __init__(self, path: Path | str) -> None:
        from obygaze_features.store import open_store

        self.store = open_store(path)

    def all(self, name: str) -> Values:
        return self.store.matrix(name).values

    def of_clips(self, name: str, clips: Sequence[str]) -> Values:
        return self.store.matrix(name, clips=clips).values

    def of_film(self, name: str, film: str) -> Values:
        return self.store.matrix(name, films=[film]).values


class _Source:
    """Rows in memory, as `write_store` asks for them."""

    def __init__(self, rows: Any, values: Arrays) -> None:
        self.rows = rows
        self.values = values

    def columns(self) -> Any:
        return self.rows

    def read(self, array: Any, first: int, after: int) -> Values:
        return self.values[array.name][first:after]


class _Npy:
    """A file of NumPy for each array, with the ids beside them; other formats differ in little."""

    module = "numpy"

    @staticmethod
    def write(path: Path, arrays: Arrays) -> None:
        path.mkdir()
        for name, values in arrays.items():
            np.save(path / f"{name}.npy", values)

    def __init__(self, path: Path) -> None:
        self.path = path
        self.row_of_clip: dict[str, int] = {}
        self.films: list[str] = []

    def array(self, name: str) -> Any:
        """Return an array of which rows are taken."""
        return np.load(self.path / f"{name}.npy", mmap_mode="r")

    def all(self, name: str) -> Values:
        return np.asarray(np.load(self.path / f"{name}.npy"))

    def take(self, name: str, rows: Values) -> Values:
        """Return rows in any order."""
        return np.asarray(self.array(name)[rows])

    def of_clips(self, name: str, clips: Sequence[str]) -> Values:
        if not self.row_of_clip:
            ids = self.all(CLIP_ID).astype(np.str_).tolist()
            self.row_of_clip = dict(zip(ids, range(len(ids)), strict=True))
        return self.take(name, np.array([self.row_of_clip[clip] for clip in clips]))

    def of_film(self, name: str, film: str) -> Values:
        if not self.films:
            self.films = self.all(MOVIE_ID).astype(np.str_).tolist()
        # The rows of a film follow each other.
        first = self.films.index(film)
        return np.asarray(self.array(name)[first : first + self.films.count(film)])


class _Hdf5(_Npy):
    """A file of HDF5 with a checksum of each chunk, as a store has."""

    module = "h5py"

    @staticmethod
    def write(path: Path, arrays: Arrays) -> None:
        import h5py

        with h5py.File(path, "w") as file:
            for name, values in arrays.items():
                chunks = (min(HDF5_ROWS, len(values)), *values.shape[1:])
                data = _without_unicode(values)
                file.create_dataset(name, data=data, chunks=chunks, fletcher32=True)

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.file = importlib.import_module("h5py").File(path, "r")

    def array(self, name: str) -> Any:
        return self.file[name]

    def all(self, name: str) -> Values:
        return np.asarray(self.file[name][:])

    def take(self, name: str, rows: Values) -> Values:
        # HDF5 takes rows in ascending order.
        order = np.argsort(rows)
        return np.asarray(self.file[name][rows[order]][np.argsort(order)])


class _PlainHdf5(_Hdf5):
    """A file of HDF5 without checksums."""

    @staticmethod
    def write(path: Path, arrays: Arrays) -> None:
        import h5py

        with h5py.File(path, "w") as file:
            for name, values in arrays.items():
                file[name] = _without_unicode(values)


class _Zarr(_Hdf5):
    """A group of zarr, as zarr-python writes arrays if nothing is said of chunks."""

    module = "zarr"

    @staticmethod
    def write(path: Path, arrays: Arrays) -> None:
        import zarr

        group = zarr.open_group(path, mode="w")
        for name, values in arrays.items():
            group.create_array(name, data=_without_unicode(values))

    def __init__(self, path: Path) -> None:
        _Npy.__init__(self, path)
        self.file = importlib.import_module("zarr").open_group(path, mode="r")

    def take(self, name: str, rows: Values) -> Values:
        return np.asarray(self.file[name].oindex[rows])


def _without_unicode(values: Values) -> Values:
    return values.astype("S") if values.dtype.kind == "U" else values


class _Lance:
    """A table of lance, with indices of clips and films."""

    module = "lance"

    @staticmethod
    def write(path: Path, arrays: Arrays) -> None:
        lance = importlib.import_module("lance")
        pyarrow = importlib.import_module("pyarrow")
        columns = {}
        for name, values in arrays.items():
            column = pyarrow.array(values.reshape(-1))
            if values.ndim > 1:
                n_numbers = values[0].size
                column = pyarrow.FixedSizeListArray.from_arrays(column, n_numbers)
            columns[name] = column
        dataset = lance.write_dataset(pyarrow.table(columns), path)
        dataset.create_scalar_index(CLIP_ID, "BTREE")
        dataset.create_scalar_index(MOVIE_ID, "BTREE")

    def __init__(self, path: Path) -> None:
        self.dataset = importlib.import_module("lance").dataset(path)

    def all(self, name: str, wanted: str | None = None) -> Values:
        return _flat(self.dataset.to_table(columns=[name], filter=wanted)[name])

    def of_clips(self, name: str, clips: Sequence[str]) -> Values:
        names = ", ".join(f"'{clip}'" for clip in clips)
        wanted = f"{CLIP_ID} IN ({names})"
        found = self.dataset.to_table(columns=[CLIP_ID, name], filter=wanted)
        row_of = {clip: row for row, clip in enumerate(found[CLIP_ID].to_pylist())}
        return _flat(found[name])[[row_of[clip] for clip in clips]]

    def of_film(self, name: str, film: str) -> Values:
        return self.all(name, f"{MOVIE_ID} = '{film}'")


def _flat(column: Any) -> Values:
    """Return a column of lance as an array of two dimensions."""
    flat = np.concatenate([part.flatten().to_numpy() for part in column.chunks])
    return flat.reshape(len(column), -1)


FORMATS: Mapping[str, Any] = {
    "np.load": _Npy,
    "obygaze": _Obygaze,
    "HDF5": _Hdf5,
    "HDF5, unchecked": _PlainHdf5,
    "zarr": _Zarr,
    "lance": _Lance,
}


# The jobs of a new process.


def read(format: str, path: str, method: str, arguments: list[Any]) -> Any:
    """Return the CPU seconds of the first read and of later ones, and the CRC of what was read.

    `start` is the CPU time of the whole process until the first rows are there.
    """
    importlib.import_module(FORMATS[format].module)
    begin = time.process_time()
    rows = getattr(FORMATS[format](Path(path)), method)
    values = rows(*arguments)
    start_s = time.process_time()
    crc = zlib.crc32(values.tobytes())
    del values
    warm = [_seconds(lambda: rows(*arguments)) for _ in range(WARM_READS)]
    warm_s = statistics.median(warm)
    return {"cold": start_s - begin, "warm": warm_s, "start": start_s, "crc": crc}


def write(format: str, path: str, source: str) -> Any:
    """Return the CPU seconds that it takes to write the arrays of an .npz file."""
    importlib.import_module(FORMATS[format].module)
    arrays = _arrays_in(source)
    return {"write": _seconds(lambda: FORMATS[format].write(Path(path), arrays))}


def convert(format: str, path: str, source: str) -> Any:
    """Return the CPU seconds that it takes to read an .npz file and write its arrays."""
    importlib.import_module(FORMATS[format].module)
    if format == "obygaze":
        from obygaze_features.store.importing import import_features

        # What writes a store imports it, and no reader.
        importlib.import_module("zarr")
        return {"write": _seconds(lambda: import_features(source, Path(path)))}
    rival = FORMATS[format]
    return {"write": _seconds(lambda: rival.write(Path(path), _arrays_in(source)))}


def _arrays_in(source: str) -> Arrays:
    with np.load(source) as file:
        return {name: file[name] for name in file.files}


def _seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


JOBS: Mapping[str, Callable[..., Any]] = {
    "read": read,
    "write": write,
    "convert": convert,
}

if __name__ == "__main__":
    job = json.load(sys.stdin)
    sys.stdout.write(json.dumps(JOBS[job.pop("job")](**job)))
