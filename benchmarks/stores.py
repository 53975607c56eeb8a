"""Stores beside other formats that hold the same numbers and ids: written, read, fetched.

obygaze compares every byte that it uses with a checksum, and so does HDF5 with fletcher32; the
others do not. A format that is not installed is not measured (`pip install pylance` for lance).
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import zlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.formats import CLIP_ID, FORMATS, MOVIE_ID, Arrays, Values
from benchmarks.timing import ROOT, duration
from obygaze_features.core.console import count, human, table
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.machine import this_machine

PACKAGES = ("numpy", "h5py", "zarr", "pylance")
OURS = "obygaze"
RIVALS = ("HDF5", "HDF5, unchecked", "lance")
CLIPS_OF_A_FILM = 160
N_IMPORTED = 20_000
Costs = dict[str, list[dict[str, Any]]]
"""What a job costs each contestant, round by round."""


def do(job: str, format: str, path: Path, **arguments: Any) -> dict[str, Any]:
    """Do a job of `formats` in a new process; return what it costs."""
    words = {"job": job, "format": format, "path": str(path), **arguments}
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "formats.py")],
        input=json.dumps(words),
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = done.stderr.splitlines()[-1:]
        raise FixInput(f"{job} of {format} failed: {' '.join(last)}")
    costs: dict[str, Any] = json.loads(done.stdout)
    return costs


def make_up(n_clips: int, name: str, shape: tuple[int, ...], dtype: str) -> Arrays:
    """Return made-up arrays: normal numbers compress as little as real features do."""
    random = np.random.default_rng(0)
    films = [f"tt{row // CLIPS_OF_A_FILM:07d}" for row in range(n_clips)]
    clips = [f"{film}-{row % CLIPS_OF_A_FILM:03d}" for row, film in enumerate(films)]
    values = np.empty((n_clips, *shape), dtype)
    for first in range(0, n_clips, 256):
        part = values[first : first + 256]
        part[:] = random.standard_normal(part.shape, dtype=np.float32)
    return {CLIP_ID: np.array(clips), MOVIE_ID: np.array(films), name: values}


def measure(quick: bool) -> str:
    """Return the CPU time of writes and reads; the temporary folder needs 20 GB."""
    with tempfile.TemporaryDirectory(prefix="obygaze-bench-") as folder:
        return Table(Path(folder), quick).measure()


class Table:
    """A row for each kind of work, a column for each format.

    Args:
        root: An empty folder for the files.
        quick: Small collections, one round.
    """

    def __init__(self, root: Path, quick: bool) -> None:
        self.root = root
        self.quick = quick
        self.rounds = 1 if quick else 5
        self.names = []
        for name, format in FORMATS.items():
            if find_spec(format.module) is not None:
                self.names.append(name)
        self.rivals = [name for name in RIVALS if name in self.names]
        self.rows: list[list[str]] = []

    def measure(self) -> str:
        """Measure all rows; return the table, and how it was measured."""
        n_clips = 170 if self.quick else 1914
        n_many = 1_000 if self.quick else 1_000_000
        n_imported = min(n_many, N_IMPORTED)
        self.measure_import(make_up(n_imported, "pooled", (512,), "float32"))
        self.measure_import(make_up(n_many, "pooled", (512,), "float32"))
        many = make_up(n_many, "pooled", (64,), "float32")
        self.measure_import(many)
        self.measure_reads(f"{n_many:,}", many, 100, 0)
        self.read_film(f"one film of {n_many:,}", many)
        pooled = make_up(n_clips, "pooled", (512,), "float32")
        self.measure_reads("pooled", pooled, 0, 1, 100)
        frames = make_up(n_clips, "frames", (16, 512), "float16")
        self.measure_reads("frames", frames, 100, 0)
        tokens = make_up(120 if self.quick else 400, "tokens", (600, 512), "float16")
        self.measure_reads("tokens", tokens, 100)
        ratios = [f"{rival} / {OURS}" for rival in self.rivals]
        lines = [
            table(["", *self.names, *ratios], self.rows),
            f"CPU time with all threads: median of {self.rounds} processes for each format, which "
            "took turns. Cold: opened and read in a new process; warm: read again. A ratio is the "
            "median over rounds; above 1, obygaze is faster. Files are in the cache of the system.",
            this_machine(PACKAGES).line(),
        ]
        absent = [name for name in FORMATS if name not in self.names]
        if absent:
            lines.append(f"Not installed, so not measured: {', '.join(absent)}.")
        return "\n".join(lines)

    def measure_import(self, arrays: Arrays) -> None:
        """Convert an npz file to each format, in turns; the files of the last round stay."""
        n_clips, width = arrays["pooled"].shape
        source = self.root / "source.npz"
        values: dict[str, Any] = dict(arrays)
        np.savez(source, **values)
        costs: Costs = {name: [] for name in self.names}
        # A million clips take minutes.
        for _ in range(self.rounds if n_clips <= N_IMPORTED else min(self.rounds, 3)):
            for name in self.names:
                _remove(self.root / name)
                one = do("convert", name, self.root / name, source=str(source))
                costs[name].append(one)
        source.unlink()
        self.add(f"import of {n_clips:,} x {width}", costs, "write")

    def measure_reads(self, title: str, arrays: Arrays, *numbers: int) -> None:
        """Write a collection in each format, and read some random clips, or all where it is 0."""
        clip_ids, _, values = arrays.values()
        array = list(arrays)[-1]
        for name in self.names:
            _remove(self.root / name)
            FORMATS[name].write(self.root / name, arrays)
        for n_clips in numbers:
            if not n_clips:
                self.read(f"{title}, all", values, "all", array)
                continue
            rows = np.random.default_rng(1).permutation(len(clip_ids))[:n_clips]
            clips = clip_ids[rows].tolist()
            self.read(
                f"{title}, {count(n_clips, 'clip')}",
                values[rows],
                "of_clips",
                array,
                clips,
            )

    def read_film(self, title: str, arrays: Arrays) -> None:
        """Read one film of the collection that was written last."""
        _, movie_ids, values = arrays.values()
        film = str(movie_ids[len(movie_ids) // 2])
        self.read(title, values[movie_ids == film], "of_film", "pooled", film)

    def read(self, title: str, expected: Values, method: str, *arguments: Any) -> None:
        """Read in each format, in turns; an error if one does not return what was written."""
        crc = zlib.crc32(expected.tobytes())
        costs: Costs = {name: [] for name in self.names}
        for _ in range(self.rounds):
            for name in self.names:
                path = self.root / name
                one = do("read", name, path, method=method, arguments=arguments)
                if one["crc"] != crc:
                    raise Corrupt(f"{name} does not return what was written: {title}")
                costs[name].append(one)
        self.add(f"{title}, cold", costs, "cold")
        self.add(f"{title}, warm", costs, "warm")

    def add(self, title: str, costs: Costs, key: str) -> None:
        """Add a row: the medians, and the ratios of rivals to obygaze."""
        seconds = {name: [one[key] for one in costs[name]] for name in self.names}
        cells = [duration(statistics.median(seconds[name])) for name in self.names]
        for rival in self.rivals:
            pairs = zip(seconds[rival], seconds[OURS], strict=True)
            ratio = statistics.median(theirs / ours for theirs, ours in pairs)
            cells.append(f"{ratio:.2f}")
        self.rows.append([title, *cells])


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def measure_requests(quick: bool) -> str:
    """Return how many requests and bytes reads over http take."""
    sys.path.append(str(ROOT / "tests"))
    servers = importlib.import_module("support.store_servers")
    n_many = 10_000 if quick else 1_000_000
    pooled = make_up(1914, "pooled", (512,), "float32")
    tokens = make_up(200, "tokens", (600, 512), "float16")
    many = make_up(n_many, "pooled", (64,), "float32")
    some = np.random.default_rng(1).permutation(200)[:100]
    clips = tokens[CLIP_ID][some].tolist()
    film = str(many[MOVIE_ID][n_many // 2])
    reads: tuple[tuple[str, Arrays, str, list[Any]], ...] = (
        ("pooled of 1,914 clips", pooled, "all", []),
        ("tokens of 100 random clips", tokens, "of_clips", [clips]),
        (f"one film of {n_many:,} clips", many, "of_film", [film]),
    )
    rows = []
    with tempfile.TemporaryDirectory(prefix="obygaze-bench-") as folder:
        for number, (title, arrays, method, arguments) in enumerate(reads):
            FORMATS[OURS].write(Path(folder, str(number)), arrays)
            with servers.web_server(Path(folder)) as server:
                opened = FORMATS[OURS](f"{server.url}/{number}")
                values = getattr(opened, method)(list(arrays)[-1], *arguments)
                n_requests = str(len(server.requests))
                ratio = f"{server.n_bytes / values.nbytes:.3f}x"
                rows.append([title, n_requests, human(server.n_bytes), ratio])
    return table(["over http", "requests", "bytes", "to those of the rows"], rows)
