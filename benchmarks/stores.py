"""Stores beside other formats that hold the same numbers and ids: written, read, fetched.

obygaze compares every byte that it uses with a checksum; np.load, HDF5 and lance do not. A format
that is not installed is not measured (`pip install pylance` for lance).
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
from typing import Any, NamedTuple

import numpy as np

from benchmarks.formats import CLIP_ID, FORMATS, MOVIE_ID, Arrays, Values
from benchmarks.timing import ROOT, Comparison, Timing, duration
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.machine import this_machine

PACKAGES = ("numpy", "h5py", "zarr", "pylance")
OURS = "obygaze"
NPY = "np.load"
CLIPS_OF_A_FILM = 160
N_IMPORTED = 20_000
Costs = dict[str, list[dict[str, Any]]]
"""What a job costs each contestant, round by round."""


class Contestant(NamedTuple):
    """A format, the program that measures it, and where its packages are."""

    format: str
    program: Path = ROOT / "benchmarks" / "formats.py"
    packages: Path = ROOT

    def do(self, job: str, path: Path, **arguments: Any) -> dict[str, Any]:
        """Do a job of `formats` in a new process; return what it costs."""
        words = {"job": job, "format": self.format, "path": str(path), **arguments}
        done = subprocess.run(
            [sys.executable, str(self.program)],
            input=json.dumps(words),
            env=os.environ | {"PYTHONPATH": str(self.packages)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            last = done.stderr.splitlines()[-1:]
            raise FixInput(f"{job} of {self.format} failed: {' '.join(last)}")
        costs: dict[str, Any] = json.loads(done.stdout)
        return costs


CONTESTANTS = {name: Contestant(name) for name in FORMATS}


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
    """Return the CPU time of writes and reads; the temporary folder needs 6 GB."""
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
        self.rounds = 1 if quick else 7
        self.machine = this_machine(PACKAGES)
        self.contestants = {}
        for name, contestant in CONTESTANTS.items():
            if find_spec(FORMATS[contestant.format].module) is not None:
                self.contestants[name] = contestant
        self.rows: list[list[str]] = []
        n_clips = 170 if quick else 1914
        n_many = 1_000 if quick else 1_000_000
        n_imported = min(n_many, N_IMPORTED)
        self.data = {
            "pooled": make_up(n_clips, "pooled", (512,), "float32"),
            "frames": make_up(n_clips, "frames", (16, 512), "float16"),
            "tokens": make_up(120 if quick else 400, "tokens", (600, 512), "float16"),
            "many": make_up(n_many, "pooled", (64,), "float32"),
            "imported": make_up(n_imported, "pooled", (512,), "float32"),
        }

    def measure(self) -> str:
        """Measure all rows; return the table, and how it was measured."""
        many = f"{len(self.data['many'][CLIP_ID]):,}"
        imported = f"{len(self.data['imported'][CLIP_ID]):,}"
        for name in ("pooled", "frames", "tokens"):
            self.write(name, "write", rounds=1)
        costs = self.write("imported", "convert", self.rounds)
        self.add(f"import of {imported} x 512", costs, "write")
        costs = self.write("many", "convert", self.rounds)
        self.add(f"import of {many} x 64", costs, "write")
        self.add_sizes(f"bytes on disk of {many}, to those of the numbers")
        costs = self.read("pooled of all", "pooled")
        self.add("first matrix in a new process", costs, "start")
        self.read("pooled of one clip", "pooled", 1)
        self.read("pooled of 100 clips", "pooled", 100)
        self.read("frames of 100 clips", "frames", 100)
        self.read("frames of all", "frames")
        self.read("tokens of 100 clips", "tokens", 100)
        self.read(f"100 clips of {many}", "many", 100)
        self.read(f"all of {many}", "many")
        self.read_film(f"one film of {many}")
        names = [NPY, OURS, *self.rivals]
        lines = [
            table(["", *names, "to the best of these", f"to {NPY}"], self.rows),
            f"CPU time with all threads: median of {self.rounds} processes for each format, which "
            "took turns. Cold: opened and read in a new process; warm: read again. Ratios are "
            "those of obygaze, medians over rounds. Files are in the cache of the system.",
            self.machine.line(),
        ]
        absent = [name for name in CONTESTANTS if name not in self.contestants]
        if absent:
            lines.append(f"Not installed, so not measured: {', '.join(absent)}.")
        return "\n".join(lines)

    @property
    def rivals(self) -> list[str]:
        """The formats that keep several arrays in one file or folder, as obygaze does."""
        return [name for name in self.contestants if name not in (OURS, NPY)]

    def write(self, name: str, job: str, rounds: int) -> Costs:
        """Write a collection in each format, in turns; the files of the last round stay."""
        source = self.root / f"{name}.npz"
        arrays: dict[str, Any] = dict(self.data[name])
        np.savez(source, **arrays)
        (self.root / name).mkdir()
        costs: Costs = {title: [] for title in self.contestants}
        for _ in range(rounds):
            for title, contestant in self.contestants.items():
                path = self.root / name / title
                _remove(path)
                costs[title].append(contestant.do(job, path, source=str(source)))
        source.unlink()
        return costs

    def read(self, title: str, name: str, n_clips: int = 0) -> Costs:
        """Read some random clips of a collection, or all."""
        clip_ids, _, values = self.data[name].values()
        array = list(self.data[name])[-1]
        if not n_clips:
            return self.add_read(title, name, values, "all", array)
        rows = np.random.default_rng(1).permutation(len(clip_ids))[:n_clips]
        clips = clip_ids[rows].tolist()
        return self.add_read(title, name, values[rows], "of_clips", array, clips)

    def read_film(self, title: str) -> None:
        """Read one film of very many clips."""
        _, movie_ids, values = self.data["many"].values()
        film = str(movie_ids[len(movie_ids) // 2])
        expected = values[movie_ids == film]
        self.add_read(title, "many", expected, "of_film", "pooled", film)

    def add_read(
        self, title: str, name: str, expected: Values, method: str, *arguments: Any
    ) -> Costs:
        """Read in each format, in turns; an error if one does not return what was written."""
        crc = zlib.crc32(expected.tobytes())
        costs: Costs = {contestant: [] for contestant in self.contestants}
        for _ in range(self.rounds):
            for key, contestant in self.contestants.items():
                path = self.root / name / key
                one = contestant.do("read", path, method=method, arguments=arguments)
                if one["crc"] != crc:
                    raise Corrupt(f"{key} does not return what was written: {title}")
                costs[key].append(one)
        self.add(f"{title}, cold", costs, "cold")
        self.add(f"{title}, warm", costs, "warm")
        return costs

    def add(self, title: str, costs: Costs, key: str) -> None:
        """Add a row: the medians, and the ratios to the best rival and to np.load."""
        timings = []
        for name, rounds in costs.items():
            seconds = tuple(one[key] for one in rounds)
            timings.append(Timing(name, seconds, seconds))
        medians = {one.name: statistics.median(one.cpu_s) for one in timings}
        cells = [duration(medians[name]) for name in (NPY, OURS, *self.rivals)]
        best = min(self.rivals, key=medians.__getitem__)
        for reference in (best, NPY):
            compared = Comparison(title, reference, tuple(timings), self.machine)
            cells.append(f"{compared.ratio(OURS):.2f}x")
        self.rows.append([title, *cells])

    def add_sizes(self, title: str) -> None:
        """Add a row: how large the files of very many small vectors are."""
        n_bytes = self.data["many"]["pooled"].nbytes
        sizes = {}
        for name in self.contestants:
            sizes[name] = _bytes_at(self.root / "many" / name) / n_bytes
        cells = [f"{sizes[name]:.2f}x" for name in (NPY, OURS, *self.rivals)]
        best = min(sizes[name] for name in self.rivals)
        for reference in (best, sizes[NPY]):
            cells.append(f"{sizes[OURS] / reference:.2f}x")
        self.rows.append([title, *cells])


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _bytes_at(path: Path) -> int:
    """Return the bytes of a file, or of all files of a folder."""
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


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
