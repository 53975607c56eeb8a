"""The CPU time of each kind of read, beside other formats that hold the same numbers and ids."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.store import layouts
from benchmarks.store.layouts import Activations
from benchmarks.store.over_http import LATENCY_S, LinkCost, serve
from benchmarks.timing import Comparison, Contestant, Settings, compare
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import Corrupt
from obygaze_features.core.machine import duration
from obygaze_features.store.format.schema import ArraySpec
from obygaze_features.store.read.reader import open_store
from obygaze_features.store.remote import open_files
from obygaze_features.store.remote.files import CountedFiles
from obygaze_features.store.write.writer import StoreWriter

Array = npt.NDArray[Any]
PACKAGES = ("numpy", "zarr", "h5py", "pylance")
OBYGAZE = "obygaze"
NPY = "np.load"
ZARR = "zarr alone"
LANCE = "lance"
HDF5 = "HDF5"
POOLED = ArraySpec("pooled", (512,))
FRAMES = ArraySpec("frames", (16, 512), dtype="float16")
TOKENS = ArraySpec("tokens", (12, 50, 512), dtype="float16")
WIDE = ArraySpec("pooled", (256,))
ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Sizes:
    """The number of clips, of clips with tokens, of clips of the large store, and of rounds."""

    n_clips: int = 1914
    n_with_tokens: int = 400
    n_many: int = 1_000_000
    rounds: int = 15


QUICK = Sizes(130, 20, 1_000, 2)


class Opened(Protocol):
    """A collection that is open: rows of one array, all or by the ids of clips or of a film."""

    def all(self, array: str) -> Array:
        """Return all rows."""

    def clips(self, array: str, clips: Sequence[str]) -> Array:
        """Return the rows of clips, in their order."""

    def film(self, array: str, film: str) -> Array:
        """Return the rows of a film."""


Open = Callable[[], Opened]


@dataclass(frozen=True)
class RivalComparison:
    """CPU times of all reads, and what a film of the large store costs over http."""

    results: Sequence[Comparison]
    link: Sequence[LinkCost]

    def to_json(self) -> dict[str, Any]:
        """Return every single time as JSON."""
        results = [result.to_json() for result in self.results]
        return {"results": results, "link": [vars(cost) for cost in self.link]}

    def to_text(self) -> str:
        """Return one table of all reads, and one of the requests."""
        names = [timing.name for timing in self.results[0].timings]
        rows = []
        for result in self.results:
            rows.append([result.title, *(_cell(result, name) for name in names)])
        n_rounds = len(self.results[0].timings[0].cpu_s)
        about = (
            "CPU time of this process with all its threads, median of rounds taken in turns "
            f"({n_rounds}); in brackets, times that of {NPY!r} in the same round. Cold: opened for "
            "each read; warm: open already. Files are in the cache of the system."
        )
        links = [
            [cost.part, str(cost.n_requests), human(cost.n_bytes)] for cost in self.link
        ]
        machine = self.results[0].machine.line()
        title = f"Over http, {LATENCY_S * 1000:.0f} ms a request"
        parts = [f"{table(['', *names], rows)}\n{about}\n{machine}"]
        if links:
            parts.append(f"{title}\n{table(('', 'requests', 'bytes'), links)}")
        return "\n\n".join(parts)


def _cell(result: Comparison, name: str) -> str:
    timing = result.timing(name)
    took = duration(float(np.median(timing.cpu_s)))
    if name == NPY:
        return took
    return f"{took} ({result.ratio(name, 'cpu_s'):.2g}x)"


def measure(settings: Settings) -> RivalComparison:
    """Measure everything in the temporary folder, which needs 8 GB of free disk."""
    sizes = QUICK if settings.quick else Sizes()
    rounds = settings.rounds or sizes.rounds
    with tempfile.TemporaryDirectory(prefix="obygaze-bench-") as name:
        root = Path(name)
        results: list[Comparison] = []
        results += _vectors(root / "vectors", sizes, rounds)
        results += _tokens(root / "tokens", sizes, rounds)
        results += _many(root / "many", sizes, rounds)
        link = _over_http(root, sizes)
    return RivalComparison(results, link)


def _vectors(root: Path, sizes: Sizes, rounds: int) -> Iterator[Comparison]:
    clips, films = layouts.ids(sizes.n_clips)
    openers = write_all(root, clips, films, [POOLED, FRAMES])
    random = np.random.default_rng(1)
    one = [clips[sizes.n_clips // 2]]
    hundred = [clips[row] for row in random.permutation(sizes.n_clips)[:100].tolist()]
    yield _compare("open", openers, lambda opened: None, None, rounds)
    reads: dict[str, Callable[[Opened], Array]] = {
        "pooled, one clip": lambda opened: opened.clips("pooled", one),
        "pooled, 100 random clips": lambda opened: opened.clips("pooled", hundred),
        "pooled, all": lambda opened: opened.all("pooled"),
        "frames, one clip": lambda opened: opened.clips("frames", one),
        "frames, 100 random clips": lambda opened: opened.clips("frames", hundred),
        "frames, all": lambda opened: opened.all("frames"),
    }
    for title, read in reads.items():
        yield _compare(f"{title}, cold", openers, read, None, rounds)
        yield _compare(f"{title}, warm", openers, read, _opened(openers), rounds)


def _tokens(root: Path, sizes: Sizes, rounds: int) -> Iterator[Comparison]:
    clips, films = layouts.ids(sizes.n_with_tokens)
    openers = write_all(root, clips, films, [POOLED, TOKENS])
    rows = np.random.default_rng(2).permutation(len(clips))[:100].tolist()
    chosen = [clips[row] for row in rows]

    def read(opened: Opened) -> Array:
        return opened.clips("tokens", chosen)

    yield _compare("tokens, 100 random clips, cold", openers, read, None, rounds)
    opened = _opened(openers)
    yield _compare("tokens, 100 random clips, warm", openers, read, opened, rounds)


def _many(root: Path, sizes: Sizes, rounds: int) -> Iterator[Comparison]:
    clips, films = layouts.ids(sizes.n_many)
    openers = write_all(root, clips, films, [WIDE])
    film = films[len(films) // 2]

    def read(opened: Opened) -> Array:
        return opened.film("pooled", film)

    title = f"one film of {sizes.n_many:,} clips"
    yield _compare(f"{title}, cold", openers, read, None, rounds)
    yield _compare(f"{title}, warm", openers, read, _opened(openers), rounds)


def _over_http(root: Path, sizes: Sizes) -> list[LinkCost]:
    """Return what reading parts of the stores costs over http."""
    _, films = layouts.ids(sizes.n_many)
    film = films[len(films) // 2]
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        f"pooled, all of {sizes.n_clips:,} clips": ("vectors", {}),
        f"pooled, one film of {sizes.n_many:,} clips": ("many", {"films": [film]}),
    }
    costs = []
    for part, (folder, selection) in ways.items():
        with serve(root / folder / "store", LATENCY_S) as url:
            files = CountedFiles(open_files(url))
            _ = open_store(files).matrix("pooled", **selection).values
            costs.append(LinkCost(part, files.n_requests, files.n_bytes, 0.0))
    return costs


def _opened(openers: Mapping[str, Open]) -> dict[str, Opened]:
    return {name: opener() for name, opener in openers.items()}


def _compare(
    title: str,
    openers: Mapping[str, Open],
    read: Callable[[Opened], Array | None],
    opened: Mapping[str, Opened] | None,
    rounds: int,
) -> Comparison:
    """Compare one kind of read, of collections that are open or that are opened for each."""
    works = {}
    for name, opener in openers.items():
        if opened is None:
            works[name] = _cold(opener, read)
        else:
            works[name] = _warm(opened[name], read)
    first = works[NPY]()
    for name, work in works.items():
        values = work()
        if first is not None and not np.array_equal(values, first):
            raise Corrupt(f"{name} does not return what was written: {title}")
    contestants = [Contestant(name, work) for name, work in works.items()]
    return compare(
        title, contestants, reference=NPY, rounds=rounds, warmups=2, packages=PACKAGES
    )


def _cold(opener: Open, read: Callable[[Opened], Any]) -> Callable[[], Any]:
    return lambda: read(opener())


def _warm(opened: Opened, read: Callable[[Opened], Any]) -> Callable[[], Any]:
    return lambda: read(opened)


# The formats.


def write_all(
    root: Path, clips: Sequence[str], films: Sequence[str], specs: Sequence[ArraySpec]
) -> dict[str, Open]:
    """Write the same made-up numbers in each format; return what opens each of them."""
    root.mkdir(parents=True)
    _write_store(root / "store", clips, films, specs)
    openers: dict[str, Open] = {
        NPY: _write_npy(root / "npy", clips, films, specs),
        OBYGAZE: lambda: _Store(root / "store"),
        ZARR: lambda: _Zarr(root / "store"),
    }
    lance = _lance()
    if lance is not None:
        openers[LANCE] = _write_lance(lance, root / "rows.lance", clips, films, specs)
    openers[HDF5] = _write_hdf5(root / "rows.h5", clips, films, specs)
    return openers


def _lance() -> ModuleType | None:
    """Return the package lance, which is not one of those that obygaze installs."""
    try:
        import lance  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        return None
    module: ModuleType = lance
    return module


def _values(spec: ArraySpec, first: int, after: int) -> Array:
    """Return made-up numbers of some rows, the same whenever they are asked for."""
    random = np.random.default_rng(first)
    shape = (after - first, *spec.tail_shape)
    return random.standard_normal(shape, dtype=np.float32).astype(spec.dtype)


def _parts(n_rows: int, step: int) -> Iterator[tuple[int, int]]:
    for first in range(0, n_rows, step):
        yield first, min(first + step, n_rows)


def _step(specs: Sequence[ArraySpec]) -> int:
    """Return the rows that are made up at once: those of a block, so that each format has them."""
    has_tokens = any(spec.name == "tokens" for spec in specs)
    return 16 if has_tokens else ROWS_AT_ONCE


def _write_store(
    path: Path, clips: Sequence[str], films: Sequence[str], specs: Sequence[ArraySpec]
) -> None:
    layouts.plan(path, Activations(clips, films, {}), specs=specs)
    writer = StoreWriter(path)
    step = _step(specs)
    made: dict[int, dict[str, Array]] = {}
    for block in range(writer.plan.n_blocks):
        first, after = writer.plan.block_range(block)
        part = first // step * step
        if part not in made:
            stop = min(part + step, len(clips))
            made = {part: {spec.name: _values(spec, part, stop) for spec in specs}}
        rows = slice(first - part, after - part)
        writer.commit_block(
            block, {name: values[rows] for name, values in made[part].items()}
        )
    writer.seal()


@dataclass(frozen=True)
class _Store:
    """A store of obygaze, opened anew."""

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "store", open_store(self.path))

    def all(self, array: str) -> Array:
        return self.store.matrix(array).values  # type: ignore[attr-defined, no-any-return]

    def clips(self, array: str, clips: Sequence[str]) -> Array:
        return self.store.matrix(array, clips=clips).values  # type: ignore[attr-defined, no-any-return]

    def film(self, array: str, film: str) -> Array:
        return self.store.matrix(array, films=[film]).values  # type: ignore[attr-defined, no-any-return]


class _Arrays:
    """Arrays with their ids beside them; subclasses open them and read their ids."""

    def __init__(self) -> None:
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
        return np.asarray(self.array(array)[:])

    def clips(self, array: str, clips: Sequence[str]) -> Array:
        ids = self.ids_of("clip_id")
        if len(clips) == 1:
            rows = np.flatnonzero(ids == clips[0])
            return self.take(array, rows)
        order = np.argsort(ids, kind="stable")
        return self.take(array, order[np.searchsorted(ids[order], np.array(clips))])

    def take(self, array: str, rows: Array) -> Array:
        """Return rows in any order."""
        return np.asarray(self.array(array)[rows])

    def film(self, array: str, film: str) -> Array:
        rows = np.flatnonzero(self.ids_of("movie_id") == film)
        return np.asarray(self.array(array)[int(rows[0]) : int(rows[-1]) + 1])


class _Npy(_Arrays):
    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root

    def all(self, array: str) -> Array:
        return np.asarray(np.load(self.root / f"{array}.npy"))

    def array(self, name: str) -> Any:
        return np.load(self.root / f"{name}.npy", mmap_mode="r")

    def load_ids(self, name: str) -> Array:
        return np.asarray(np.load(self.root / f"{name}.npy"))


def _write_npy(
    root: Path, clips: Sequence[str], films: Sequence[str], specs: Sequence[ArraySpec]
) -> Open:
    root.mkdir()
    np.save(root / "clip_id.npy", np.array(clips))
    np.save(root / "movie_id.npy", np.array(films))
    for spec in specs:
        out = np.lib.format.open_memmap(
            root / f"{spec.name}.npy",
            mode="w+",
            dtype=spec.dtype,
            shape=(len(clips), *spec.tail_shape),
        )
        for first, after in _parts(len(clips), _step(specs)):
            out[first:after] = _values(spec, first, after)
        out.flush()
    return lambda: _Npy(root)


class _Zarr(_Arrays):
    """The store of obygaze, read with zarr-python alone."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        import zarr

        self.group = zarr.open_group(root / "data.zarr", mode="r")

    def array(self, name: str) -> Any:
        return self.group[name]

    def take(self, array: str, rows: Array) -> Array:
        opened: Any = self.group[array]
        return np.asarray(opened.oindex[rows])

    def load_ids(self, name: str) -> Array:
        return np.array(self.array(name)[:].tolist(), dtype=np.str_)


class _Hdf5(_Arrays):
    def __init__(self, path: Path) -> None:
        super().__init__()
        import h5py

        self.file = h5py.File(path, "r")

    def array(self, name: str) -> Any:
        return self.file[name]

    def take(self, array: str, rows: Array) -> Array:
        # Of HDF5, rows are taken in ascending order.
        order = np.argsort(rows)
        values = self.file[array][rows[order]]
        return np.asarray(values[np.argsort(order)])

    def load_ids(self, name: str) -> Array:
        return np.asarray(self.file[name][:]).astype(np.str_)


def _write_hdf5(
    path: Path, clips: Sequence[str], films: Sequence[str], specs: Sequence[ArraySpec]
) -> Open:
    import h5py

    with h5py.File(path, "w") as file:
        file["clip_id"] = np.array(clips).astype("S")
        file["movie_id"] = np.array(films).astype("S")
        for spec in specs:
            shape = (len(clips), *spec.tail_shape)
            out = file.create_dataset(spec.name, shape, dtype=spec.dtype)
            for first, after in _parts(len(clips), _step(specs)):
                out[first:after] = _values(spec, first, after)
    return lambda: _Hdf5(path)


class _Lance:
    """A table of lance, with indices of clips and films."""

    def __init__(
        self, lance: ModuleType, path: Path, specs: Sequence[ArraySpec]
    ) -> None:
        self.dataset = lance.dataset(path)
        self.specs = {spec.name: spec for spec in specs}

    def _rows(self, array: str, column: Any) -> Array:
        spec = self.specs[array]
        chunks = [chunk.flatten().to_numpy() for chunk in column.chunks]
        values = chunks[0] if len(chunks) == 1 else np.concatenate(chunks)
        return np.asarray(values).reshape(-1, *spec.tail_shape)

    def all(self, array: str) -> Array:
        return self._rows(array, self.dataset.to_table(columns=[array])[array])

    def clips(self, array: str, clips: Sequence[str]) -> Array:
        names = ", ".join(f"'{clip}'" for clip in clips)
        found = self.dataset.to_table(
            columns=["clip_id", array], filter=f"clip_id IN ({names})"
        )
        values = self._rows(array, found[array])
        if len(clips) == 1:
            return values
        row_of = {clip: row for row, clip in enumerate(found["clip_id"].to_pylist())}
        return values[[row_of[clip] for clip in clips]]

    def film(self, array: str, film: str) -> Array:
        found = self.dataset.to_table(columns=[array], filter=f"movie_id = '{film}'")
        return self._rows(array, found[array])


def _write_lance(
    lance: ModuleType,
    path: Path,
    clips: Sequence[str],
    films: Sequence[str],
    specs: Sequence[ArraySpec],
) -> Open:
    import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]

    fields = [("clip_id", pyarrow.string()), ("movie_id", pyarrow.string())]
    for spec in specs:
        item = pyarrow.from_numpy_dtype(np.dtype(spec.dtype))
        size = int(np.prod(spec.tail_shape))
        fields.append((spec.name, pyarrow.list_(item, size)))
    schema = pyarrow.schema(fields)

    def batches() -> Iterator[Any]:
        for first, after in _parts(len(clips), _step(specs)):
            columns = [
                pyarrow.array(clips[first:after]),
                pyarrow.array(films[first:after]),
            ]
            for spec in specs:
                numbers = pyarrow.array(_values(spec, first, after).reshape(-1))
                size = int(np.prod(spec.tail_shape))
                columns.append(pyarrow.FixedSizeListArray.from_arrays(numbers, size))
            yield pyarrow.record_batch(columns, schema=schema)

    reader = pyarrow.RecordBatchReader.from_batches(schema, batches())
    dataset = lance.write_dataset(reader, path)
    dataset.create_scalar_index("clip_id", "BTREE")
    dataset.create_scalar_index("movie_id", "BTREE")
    return lambda: _Lance(lance, path, specs)
