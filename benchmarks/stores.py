"""Reading and writing features, beside other formats that hold the same numbers and ids.

obygaze compares every byte that it uses with a checksum; np.load, HDF5 and lance do not. _Lance has
an index of clips and one of films; it is measured where it is installed (`pip install pylance`).
"""

from __future__ import annotations

import importlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.timing import Comparison, Contestant, compare
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import Corrupt
from obygaze_features.core.machine import duration
from obygaze_features.store.format.recipe import Recipe
from obygaze_features.store.format.schema import ArraySpec
from obygaze_features.store.read.reader import open_store
from obygaze_features.store.write.create import create_store
from obygaze_features.store.write.writer import StoreWriter

Array = npt.NDArray[Any]
PACKAGES = ("numpy", "zarr", "h5py", "pylance")
NPY = "np.load"
CLIPS_OF_A_FILM = 160
Open = Callable[[], Any]
Read = Callable[[Any], Array]


@dataclass(frozen=True)
class Data:
    """Made-up features of clips; normal numbers compress as little as real features do."""

    clips: list[str]
    films: list[str]
    arrays: Mapping[str, Array]


def make_up(n_clips: int, shapes: Mapping[str, tuple[int, ...]], dtype: str) -> Data:
    """Return made-up arrays of these shapes, the same every time."""
    random = np.random.default_rng(0)
    films = [f"tt{row // CLIPS_OF_A_FILM:07d}" for row in range(n_clips)]
    clips = [f"{film}-{row % CLIPS_OF_A_FILM:03d}" for row, film in enumerate(films)]
    arrays = {}
    for name, shape in shapes.items():
        values = np.empty((n_clips, *shape), dtype)
        for first in range(0, n_clips, 256):
            part = values[first : first + 256]
            part[:] = random.standard_normal(part.shape, dtype=np.float32)
        arrays[name] = values
    return Data(clips, films, arrays)


def write_store(path: Path, data: Data) -> None:
    """Write and seal a store."""
    arrays = []
    for name, values in data.arrays.items():
        arrays.append(ArraySpec(name, values.shape[1:], dtype=str(values.dtype)))
    create_store(
        path,
        recipe=Recipe.unknown("made up", {"purpose": "a benchmark"}),
        manifest_name="made-up",
        manifest_sha256="0" * 64,
        clip_ids=data.clips,
        movie_ids=data.films,
        arrays=arrays,
        licence="CC0-1.0",
        citation="",
    )
    writer = StoreWriter(path)
    for block in range(writer.plan.n_blocks):
        rows = slice(*writer.plan.block_range(block))
        of_block = {name: values[rows] for name, values in data.arrays.items()}
        writer.commit_block(block, of_block)
    writer.seal()


# Each format: how it is written, and an object that is opened to read rows.


class _Rows:
    """Arrays with their ids beside them; subclasses say how each is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ids: dict[str, Array] = {}

    def array(self, name: str) -> Any:
        """Return an array of which rows are taken."""
        raise NotImplementedError

    def load_ids(self, name: str) -> Array:
        """Return the ids of clips or films."""
        raise NotImplementedError

    def ids_of(self, name: str) -> Array:
        """Return ids, which are read once."""
        if name not in self.ids:
            self.ids[name] = self.load_ids(name)
        return self.ids[name]

    def all(self, array: str) -> Array:
        """Return all rows."""
        return np.asarray(self.array(array)[:])

    def of_clips(self, array: str, clips: Sequence[str]) -> Array:
        """Return the rows of clips, in their order."""
        ids = self.ids_of("clip_id")
        if len(clips) == 1:
            return self.take(array, np.flatnonzero(ids == clips[0]))
        order = np.argsort(ids, kind="stable")
        return self.take(array, order[np.searchsorted(ids[order], np.array(clips))])

    def take(self, array: str, rows: Array) -> Array:
        """Return rows in any order."""
        return np.asarray(self.array(array)[rows])

    def of_film(self, array: str, film: str) -> Array:
        """Return the rows of a film, which follow each other."""
        rows = np.flatnonzero(self.ids_of("movie_id") == film)
        return np.asarray(self.array(array)[int(rows[0]) : int(rows[-1]) + 1])


class _Npy(_Rows):
    """A file of NumPy for each array."""

    @staticmethod
    def write(path: Path, data: Data) -> None:
        """Write arrays and ids."""
        path.mkdir()
        np.save(path / "clip_id.npy", np.array(data.clips))
        np.save(path / "movie_id.npy", np.array(data.films))
        for name, values in data.arrays.items():
            np.save(path / f"{name}.npy", values)

    def all(self, array: str) -> Array:
        return np.asarray(np.load(self.path / f"{array}.npy"))

    def array(self, name: str) -> Any:
        return np.load(self.path / f"{name}.npy", mmap_mode="r")

    def load_ids(self, name: str) -> Array:
        return self.all(name)


class _Obygaze:
    """A store."""

    def __init__(self, path: Path) -> None:
        self.store = open_store(path)

    def all(self, array: str) -> Array:
        return self.store.matrix(array).values

    def of_clips(self, array: str, clips: Sequence[str]) -> Array:
        return self.store.matrix(array, clips=clips).values

    def of_film(self, array: str, film: str) -> Array:
        return self.store.matrix(array, films=[film]).values


class _ZarrAlone(_Rows):
    """The store of obygaze, read with zarr-python alone."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        import zarr

        self.group = zarr.open_group(path / "data.zarr", mode="r")

    def array(self, name: str) -> Any:
        return self.group[name]

    def take(self, array: str, rows: Array) -> Array:
        return np.asarray(self.array(array).oindex[rows])

    def load_ids(self, name: str) -> Array:
        return np.array(self.array(name)[:].tolist(), dtype=np.str_)


class _Hdf5(_Rows):
    """A file of HDF5."""

    @staticmethod
    def write(path: Path, data: Data) -> None:
        """Write arrays and ids."""
        import h5py

        with h5py.File(path, "w") as file:
            file["clip_id"] = np.array(data.clips).astype("S")
            file["movie_id"] = np.array(data.films).astype("S")
            for name, values in data.arrays.items():
                file[name] = values

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        import h5py

        self.file = h5py.File(path, "r")

    def array(self, name: str) -> Any:
        return self.file[name]

    def take(self, array: str, rows: Array) -> Array:
        # HDF5 takes rows in ascending order.
        order = np.argsort(rows)
        return np.asarray(self.file[array][rows[order]][np.argsort(order)])

    def load_ids(self, name: str) -> Array:
        return self.all(name).astype(np.str_)


class _Lance:
    """A table of lance, with indices of clips and films."""

    @staticmethod
    def write(path: Path, data: Data) -> None:
        """Write a table, and index both ids."""
        lance = importlib.import_module("lance")
        pyarrow = importlib.import_module("pyarrow")
        columns = {"clip_id": data.clips, "movie_id": data.films}
        for name, values in data.arrays.items():
            flat = pyarrow.array(values.reshape(-1))
            n_numbers = int(np.prod(values.shape[1:]))
            columns[name] = pyarrow.FixedSizeListArray.from_arrays(flat, n_numbers)
        dataset = lance.write_dataset(pyarrow.table(columns), path)
        dataset.create_scalar_index("clip_id", "BTREE")
        dataset.create_scalar_index("movie_id", "BTREE")

    def __init__(self, path: Path) -> None:
        self.dataset = importlib.import_module("lance").dataset(path)

    def _rows(self, array: str, column: Any) -> Array:
        flat = np.concatenate([part.flatten().to_numpy() for part in column.chunks])
        return flat.reshape(len(column), -1)

    def all(self, array: str) -> Array:
        return self._rows(array, self.dataset.to_table(columns=[array])[array])

    def of_clips(self, array: str, clips: Sequence[str]) -> Array:
        names = ", ".join(f"'{clip}'" for clip in clips)
        wanted = f"clip_id IN ({names})"
        found = self.dataset.to_table(columns=["clip_id", array], filter=wanted)
        values = self._rows(array, found[array])
        row_of = {clip: row for row, clip in enumerate(found["clip_id"].to_pylist())}
        return values[[row_of[clip] for clip in clips]]

    def of_film(self, array: str, film: str) -> Array:
        found = self.dataset.to_table(columns=[array], filter=f"movie_id = '{film}'")
        return self._rows(array, found[array])


# The file or folder of each format, and what writes it.
WRITERS: Mapping[str, tuple[str, Callable[[Path, Data], None]]] = {
    NPY: ("npy", _Npy.write),
    "obygaze": ("store", write_store),
    "lance": ("rows.lance", _Lance.write),
    "HDF5": ("rows.h5", _Hdf5.write),
}
READERS: Mapping[str, tuple[str, Callable[[Path], Any]]] = {
    NPY: ("npy", _Npy),
    "obygaze": ("store", _Obygaze),
    "zarr alone": ("store", _ZarrAlone),
    "lance": ("rows.lance", _Lance),
    "HDF5": ("rows.h5", _Hdf5),
}


def is_installed(name: str) -> bool:
    """Say whether a format can be measured; lance is not among the packages of obygaze."""
    return name != "lance" or find_spec("lance") is not None


def write_all(root: Path, data: Data) -> dict[str, Open]:
    """Write the data in each format; return what opens each of them."""
    root.mkdir(parents=True)
    for name, (file, write) in WRITERS.items():
        if is_installed(name):
            write(root / file, data)
    openers: dict[str, Open] = {}
    for name, (file, opened) in READERS.items():
        if is_installed(name):
            openers[name] = partial(opened, root / file)
    return openers


def measure_reads(quick: bool) -> str:
    """Return the CPU time of each kind of read; the temporary folder needs 6 GB."""
    rounds = 2 if quick else 15
    with tempfile.TemporaryDirectory(prefix="obygaze-bench-") as folder:
        return reads_text(list(_reads(Path(folder), quick, rounds)))


def _reads(root: Path, quick: bool, rounds: int) -> Iterator[Comparison]:
    pooled = make_up(130 if quick else 1914, {"pooled": (512,)}, "float32")
    frames = make_up(130 if quick else 1914, {"frames": (16 * 512,)}, "float16")
    tokens = make_up(20 if quick else 400, {"tokens": (12 * 50 * 512,)}, "float16")
    for data in (pooled, frames, tokens):
        (name,) = data.arrays
        openers = write_all(root / name, data)
        if data is pooled:
            yield _compare("open", openers, None, rounds)
        some = np.random.default_rng(1).permutation(len(data.clips))[:100].tolist()
        hundred = [data.clips[row] for row in some]
        one = [data.clips[len(data.clips) // 2]]
        reads: dict[str, Read] = {
            f"{name}, one clip": partial(_of_clips, name, one),
            f"{name}, 100 clips": partial(_of_clips, name, hundred),
            f"{name}, all": partial(_all, name),
        }
        for title, read in reads.items():
            yield from _cold_and_warm(title, openers, read, rounds)
    many = make_up(1_000 if quick else 1_000_000, {"pooled": (256,)}, "float32")
    openers = write_all(root / "many", many)
    film = many.films[len(many.films) // 2]
    title = f"one film of {len(many.clips):,} clips"
    yield from _cold_and_warm(title, openers, partial(_of_film, "pooled", film), rounds)


def _of_clips(array: str, clips: Sequence[str], opened: Any) -> Any:
    return opened.of_clips(array, clips)


def _all(array: str, opened: Any) -> Any:
    return opened.all(array)


def _of_film(array: str, film: str, opened: Any) -> Any:
    return opened.of_film(array, film)


def _cold_and_warm(
    title: str,
    openers: Mapping[str, Open],
    read: Read,
    rounds: int,
) -> Iterator[Comparison]:
    yield _compare(f"{title}, cold", openers, read, rounds)
    opened = {name: opener() for name, opener in openers.items()}
    warm = {name: partial(lambda o: o, already) for name, already in opened.items()}
    yield _compare(f"{title}, warm", warm, read, rounds)


def _compare(
    title: str,
    openers: Mapping[str, Open],
    read: Read | None,
    rounds: int,
) -> Comparison:
    """Compare one kind of read, after a look whether all return the same numbers."""

    def work(opener: Open) -> Any:
        opened = opener()
        return None if read is None else read(opened)

    contestants = []
    first = work(openers[NPY])
    for name, opener in openers.items():
        values = work(opener)
        if first is not None and not np.array_equal(values, first):
            raise Corrupt(f"{name} does not return what was written: {title}")
        contestants.append(Contestant(name, partial(work, opener)))
    return compare(
        title, contestants, reference=NPY, rounds=rounds, warmups=2, packages=PACKAGES
    )


def reads_text(results: Sequence[Comparison]) -> str:
    """Return one table of all reads."""
    names = [timing.name for timing in results[0].timings]
    rows = []
    for result in results:
        cells = []
        for name in names:
            cell = duration(float(np.median(result.timing(name).cpu_s)))
            if name != NPY:
                cell += f" ({result.ratio(name):.2g}x)"
            cells.append(cell)
        rows.append([result.title, *cells])
    about = (
        "CPU time with all threads, median of rounds taken in turns "
        f"({len(results[0].timings[0].cpu_s)}); in brackets, times that of {NPY!r}. "
        "Cold: opened for each read; warm: open already. Files are in the cache of the system."
    )
    return f"{table(['', *names], rows)}\n{about}\n{results[0].machine.line()}"


def measure_writes(quick: bool) -> str:
    """Return the CPU time to write the features of 1,914 clips, and the files that result."""
    n_clips = 130 if quick else 1914
    pooled = make_up(n_clips, {"pooled": (512,)}, "float32")
    frames = make_up(n_clips, {"frames": (16, 512)}, "float16")
    data = Data(pooled.clips, pooled.films, {**pooled.arrays, **frames.arrays})
    with tempfile.TemporaryDirectory(prefix="obygaze-bench-") as folder:
        contestants = []
        paths = {}
        for name, (file, write) in WRITERS.items():
            if is_installed(name):
                paths[name] = Path(folder, file)
                work = partial(write, paths[name], data)
                prepare = partial(_remove, paths[name])
                contestants.append(Contestant(name, work, prepare))
        result = compare(
            f"Writing 512 numbers and 16 frames of {n_clips:,} clips",
            contestants,
            reference=NPY,
            rounds=2 if quick else 9,
            packages=PACKAGES,
        )
        rows = []
        for name, path in paths.items():
            files = [path] if path.is_file() else list(path.rglob("*"))
            sizes = [file.stat().st_size for file in files if file.is_file()]
            rows.append([name, human(sum(sizes)), str(len(sizes))])
    return f"{result.to_text()}\n\n{table(['', 'on disk', 'files'], rows)}"


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
