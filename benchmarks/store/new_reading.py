"""The CPU time of reads of a store that is written once, beside the store of today and its rivals.

`python -m benchmarks.store.new_reading [FOLDER] [--quick]` prints one table. What is written into
the folder is used again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.store import layouts, rivals
from benchmarks.store.rivals import FRAMES, POOLED, TOKENS, Open, Opened
from benchmarks.timing import Comparison
from obygaze_features.core.console import table
from obygaze_features.store.format.schema import ArraySpec
from obygaze_features.store_next.layout import Array
from obygaze_features.store_next.making import write_store
from obygaze_features.store_next.reading import open_store
from obygaze_features.store_next.recipe import Recipe
from obygaze_features.store_next.records import Maker, Manifest
from obygaze_features.store_next.rows import Row

NEW = "new"
SMALL = ArraySpec("pooled", (128,), dtype="float16")
ROUNDS = 9
# What is timed in a new process: the import, opening, one matrix.
FIRST = {
    NEW: "from obygaze_features.store_next.reading import open_store\n"
    "open_store({path!r}).matrix('pooled')",
    rivals.OBYGAZE: "from obygaze_features.store import open_store\n"
    "open_store({path!r}).matrix('pooled')",
    "HDF5": "import h5py\nh5py.File({path!r})['pooled'][:]",
    "zarr alone": "import zarr\nzarr.open_group({path!r}, mode='r')['pooled'][:]",
    "lance": "import lance\nlance.dataset({path!r}).to_table(columns=['pooled'])",
    "np.load": "import numpy\nnumpy.load({path!r})",
}
FILES = {
    NEW: "new",
    rivals.OBYGAZE: "store",
    "HDF5": "rows.h5",
    "zarr alone": "store/data.zarr",
    "lance": "rows.lance",
    "np.load": "npy/pooled.npy",
}


@dataclass(frozen=True)
class _New:
    """A store that is written once, opened anew."""

    store: Any

    def all(self, array: str) -> npt.NDArray[Any]:
        return self.store.matrix(array).values  # type: ignore[no-any-return]

    def clips(self, array: str, clips: Sequence[str]) -> npt.NDArray[Any]:
        return self.store.matrix(array, clips=clips).values  # type: ignore[no-any-return]

    def film(self, array: str, film: str) -> npt.NDArray[Any]:
        return self.store.matrix(array, films=[film]).values  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Npy:
    """The rows of a new store, from the .npy files of a rival."""

    root: Path
    rows: Sequence[Row]

    def read(self, array: Array, first: int, after: int) -> npt.NDArray[Any]:
        values = np.load(self.root / f"{array.name}.npy", mmap_mode="r")
        return np.asarray(values[first:after])


def prepare(root: Path, n_clips: int, specs: Sequence[ArraySpec]) -> dict[str, Open]:
    """Return what opens each form of the same made-up numbers."""
    clips, films = layouts.ids(n_clips)
    if not root.exists():
        openers = rivals.write_all(root, clips, films, specs)
        rows = [Row(clip, film) for clip, film in zip(clips, films, strict=True)]
        arrays = [
            Array.of(spec.name, spec.dtype, spec.tail_shape, spec.dims)
            for spec in specs
        ]
        write_store(
            root / "new",
            _Npy(root / "npy", rows),
            arrays=arrays,
            recipe=Recipe.unknown("benchmark", {}),
            manifest=Manifest("benchmark", "0" * 64),
            makers=[Maker("benchmark")],
        )
    else:
        openers = {
            rivals.NPY: lambda: rivals._Npy(root / "npy"),
            rivals.OBYGAZE: lambda: rivals._Store(root / "store"),
            rivals.ZARR: lambda: rivals._Zarr(root / "store"),
            rivals.HDF5: lambda: rivals._Hdf5(root / "rows.h5"),
        }
        lance = rivals._lance()
        if lance is not None:
            path = root / "rows.lance"
            openers[rivals.LANCE] = lambda: rivals._Lance(lance, path, specs)
    openers[NEW] = lambda: _New(open_store(root / "new"))
    return openers


def measure(root: Path, quick: bool) -> list[Comparison]:
    """Measure all reads."""
    n_clips, n_tokens, n_many = (130, 20, 1000) if quick else (1914, 400, 1_000_000)
    rounds = 2 if quick else ROUNDS
    found: list[Comparison] = []

    def add(
        title: str, openers: dict[str, Open], read: Callable[[Opened], Any]
    ) -> None:
        opened = {name: opener() for name, opener in openers.items()}
        found.append(rivals._compare(f"{title}, cold", openers, read, None, rounds))
        found.append(rivals._compare(f"{title}, warm", openers, read, opened, rounds))

    clips, _ = layouts.ids(n_clips)
    random = np.random.default_rng(1)
    hundred = [clips[row] for row in random.permutation(n_clips)[:100].tolist()]
    one = [clips[n_clips // 2]]
    openers = prepare(root / "vectors", n_clips, [POOLED, FRAMES])
    add("pooled, all", openers, lambda opened: opened.all("pooled"))
    add("pooled, one clip", openers, lambda opened: opened.clips("pooled", one))
    add("pooled, 100 random", openers, lambda opened: opened.clips("pooled", hundred))
    add("frames, 100 random", openers, lambda opened: opened.clips("frames", hundred))
    add("frames, all", openers, lambda opened: opened.all("frames"))
    clips, _ = layouts.ids(n_tokens)
    few = [clips[row] for row in random.permutation(n_tokens)[:100].tolist()]
    openers = prepare(root / "tokens", n_tokens, [POOLED, TOKENS])
    add("tokens, 100 random", openers, lambda opened: opened.clips("tokens", few))
    clips, films = layouts.ids(n_many)
    many = [clips[row] for row in random.permutation(n_many)[:100].tolist()]
    film = films[n_many // 2]
    openers = prepare(root / "many", n_many, [SMALL])
    # It takes five seconds for each read.
    del openers[rivals.ZARR]
    add("a million, 100 random", openers, lambda opened: opened.clips("pooled", many))
    add("a million, one film", openers, lambda opened: opened.film("pooled", film))
    add("a million, all", openers, lambda opened: opened.all("pooled"))
    return found


def first_matrices(root: Path, rounds: int) -> dict[str, float]:
    """Return the CPU ms of a new process that reads one matrix, the median of rounds in turns."""
    spent: dict[str, list[float]] = {name: [] for name in FIRST}
    for _ in range(rounds):
        for name, program in FIRST.items():
            code = (
                f"{program.format(path=str(root / FILES[name]))}\n"
                "import time; print(time.process_time())"
            )
            command = [sys.executable, "-c", code]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                spent[name].append(float(done.stdout))
    return {
        name: float(np.median(values)) * 1000
        for name, values in spent.items()
        if values
    }


def main() -> None:
    """Measure, and print a table of CPU ms."""
    words = [word for word in sys.argv[1:] if word != "--quick"]
    quick = "--quick" in sys.argv
    with tempfile.TemporaryDirectory(prefix="obygaze-bench-") as temporary:
        root = Path(words[0]) if words else Path(temporary)
        results = measure(root, quick)
        first = first_matrices(root / "vectors", 2 if quick else 9)
    names = [timing.name for timing in results[0].timings]
    lines = []
    for result in results:
        measured = {timing.name for timing in result.timings}
        cells = [
            f"{np.median(result.timing(name).cpu_s) * 1000:.2f}"
            if name in measured
            else ""
            for name in names
        ]
        lines.append([result.title, *cells])
    lines.append(
        ["first matrix, new process", *(f"{first.get(name, 0):.0f}" for name in names)]
    )
    sys.stdout.write(table(["CPU ms", *names], lines) + "\n")
    sys.stdout.write(json.dumps(first) + "\n")


if __name__ == "__main__":
    main()
