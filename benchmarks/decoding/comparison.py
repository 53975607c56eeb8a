"""Reading 32 exact frames of a film, beside the readers people use."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.decoding.films import (
    RATE,
    FilmSpec,
    character_films,
    coded_films,
    make_film,
    odd_films,
)
from benchmarks.decoding.pictures import CHARACTERS
from benchmarks.decoding.readers import READERS
from benchmarks.timing import ROOT, Comparison, Settings, Timing
from obygaze_features.core.console import table
from obygaze_features.core.machine import this_machine
from obygaze_features.video.container import av
from obygaze_features.video.index import sample_indices

REFERENCE = "obygaze"
KEY_FRAMES = "obygaze, key frames"
RIVALS = ("decord", "torchcodec")
# Of a short clip nearly all pictures are decoded: what decodes them in order is a rival too.
CLIP_READERS = (REFERENCE, *RIVALS, "torchcodec, approximate", "pyav in order")
CLIP_SECONDS = 10
N_PICTURES = 32
SECONDS = 150
QUICK_SECONDS = 4
LIMIT_S = 300.0


@dataclass(frozen=True)
class Reading:
    """One reader on one film: the times of each round, and how many pictures were correct."""

    film: str
    reader: str
    cpu_s: tuple[float, ...]
    wall_s: tuple[float, ...]
    peak_rss_bytes: int
    n_correct: int
    n_pictures: int
    failed: str | None


@dataclass(frozen=True)
class Headline:
    """The CPU time of other readers over that of one of obygaze, by film."""

    reference: str
    ratios: Mapping[str, Mapping[str, float]]

    @property
    def medians(self) -> dict[str, float]:
        """The median over the films of each other reader."""
        return {
            name: statistics.median(films.values())
            for name, films in self.ratios.items()
        }

    def to_json(self) -> dict[str, Any]:
        """Return the ratios and their medians."""
        return {**asdict(self), "medians": self.medians}

    def to_text(self) -> str:
        """Return a row for each film, and the medians below."""
        by_reader = self.ratios.values()
        films = list(dict.fromkeys(chain.from_iterable(by_reader)))
        rows: list[list[str | None]] = []
        for film in films:
            times = [_times(ratios.get(film)) for ratios in by_reader]
            rows.append([film, *times])
        rows.append(["median", *(_times(ratio) for ratio in self.medians.values())])
        title = f"CPU time, as a multiple of that of {self.reference!r}"
        return f"{title}\n{table(['film', *self.ratios], rows)}"


@dataclass(frozen=True)
class DecodeComparison:
    """Times on long films, and correct pictures of long and of unusual ones."""

    timed: Mapping[str, Comparison]
    readings: tuple[Reading, ...]
    absent: Mapping[str, str]

    def headlines(self) -> list[Headline]:
        """Return the CPU time of others over that of obygaze: exact pictures, then key frames."""
        headlines = [self._headline(reference) for reference in (REFERENCE, KEY_FRAMES)]
        return [headline for headline in headlines if headline.ratios]

    def _headline(self, reference: str) -> Headline:
        ratios: dict[str, dict[str, float]] = {}
        for film, result in self.timed.items():
            names = [timing.name for timing in result.timings]
            if reference not in names:
                continue
            compared = replace(result, reference=reference)
            for name in names:
                if name not in (REFERENCE, KEY_FRAMES):
                    ratios.setdefault(name, {})[film] = compared.ratio(name, "cpu_s")
        return Headline(reference, ratios)

    def to_json(self) -> dict[str, Any]:
        """Return every reading as JSON."""
        return {
            "headlines": [headline.to_json() for headline in self.headlines()],
            "timed": {film: result.to_json() for film, result in self.timed.items()},
            "exact": [asdict(reading) for reading in self.readings],
            "absent": dict(self.absent),
        }

    def to_text(self) -> str:
        """Return tables: ratios of all films, times of each, then correct pictures."""
        about = [(name, character.words) for name, character in CHARACTERS.items()]
        parts = ["Characters of films\n" + table(("", "what is in it"), about)]
        parts += [headline.to_text() for headline in self.headlines()]
        parts += [result.to_text() for result in self.timed.values()]
        readers = list(dict.fromkeys(reading.reader for reading in self.readings))
        cells = {(reading.film, reading.reader): reading for reading in self.readings}
        films = list(dict.fromkeys(reading.film for reading in self.readings))
        rows: list[list[str | None]] = []
        for film in films:
            correct = [_exactness(cells.get((film, reader))) for reader in readers]
            rows.append([film, *correct])
        parts.append(
            "Correct pictures, by the number in their pixels\n"
            + table(["film", *readers], rows)
        )
        parts += [
            f"{name} was not measured: {why}" for name, why in self.absent.items()
        ]
        return "\n\n".join(parts)


def _exactness(reading: Reading | None) -> str | None:
    if reading is None:
        return None
    return "fails" if reading.failed else f"{reading.n_correct} of {reading.n_pictures}"


def _times(ratio: float | None) -> str | None:
    return None if ratio is None else f"{ratio:.2f}x"


def measure(settings: Settings) -> DecodeComparison:
    """Measure films of five characters, and count correct pictures of unusual ones.

    The films are made on the first run, which takes some minutes, and kept in the temporary
    folder.
    """
    seconds, rounds = _size(settings)
    return compare_readers(character_films(seconds), odd_films(), rounds=rounds)


def measure_codings(settings: Settings) -> DecodeComparison:
    """Measure the calm film in other codings."""
    seconds, rounds = _size(settings)
    return compare_readers(coded_films(seconds), rounds=rounds)


def measure_clips(settings: Settings) -> DecodeComparison:
    """Measure clips of ten seconds: films of five characters, and the calm one in other codings."""
    seconds = QUICK_SECONDS if settings.quick else CLIP_SECONDS
    films = [*character_films(seconds), *coded_films(seconds)]
    rounds = settings.rounds_or(5)
    return compare_readers(films, readers=CLIP_READERS, rounds=rounds)


def _size(settings: Settings) -> tuple[int, int]:
    return QUICK_SECONDS if settings.quick else SECONDS, settings.rounds_or(2)


def compare_readers(
    films: Sequence[FilmSpec],
    odd: Sequence[FilmSpec] = (),
    *,
    readers: Sequence[str] = (REFERENCE, KEY_FRAMES, *RIVALS),
    odd_readers: Sequence[str] = tuple(READERS),
    count: int = N_PICTURES,
    rounds: int = 2,
    folder: Path | None = None,
) -> DecodeComparison:
    """Measure `readers` in turns, a process for each reading; `odd` films are not timed."""
    folder = folder or Path(tempfile.gettempdir()) / "obygaze-bench"
    absent: dict[str, str] = {}
    readings: list[Reading] = []
    timed: dict[str, Comparison] = {}
    with tempfile.TemporaryDirectory() as libraries:
        environment = _environment(Path(libraries))
        for number, spec in enumerate([*films, *odd]):
            path = make_film(spec, folder)
            is_timed = number < len(films)
            turns = list(readers) * rounds if is_timed else odd_readers
            film_readings = _read_in_turns(
                spec, path, count, turns, environment, absent
            )
            readings += film_readings
            if is_timed:
                timed[spec.name] = _as_result(spec, path, count, film_readings)
    return DecodeComparison(timed, tuple(readings), absent)


def _read_in_turns(
    spec: FilmSpec,
    path: Path,
    count: int,
    turns: Sequence[str],
    environment: Mapping[str, str],
    absent: dict[str, str],
) -> list[Reading]:
    taken: dict[str, list[dict[str, Any]]] = {
        name: [] for name in turns if name not in absent
    }
    for name in turns:
        if name in absent:
            continue
        result = _one_reading(name, path, count, environment)
        if "absent" in result:
            absent[name] = result["absent"]
            del taken[name]
        else:
            taken[name].append(result)
    return [_reading(spec, name, count, results) for name, results in taken.items()]


def _one_reading(
    name: str, path: Path, count: int, environment: Mapping[str, str]
) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.decoding.readers", name, str(path)]
    try:
        process = subprocess.run(
            [*command, str(count)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {LIMIT_S:g} s"}
    if process.returncode != 0:
        return {"failed": f"ended with exit code {process.returncode}"}
    result: dict[str, Any] = json.loads(process.stdout)
    return result


def _reading(
    spec: FilmSpec, name: str, count: int, results: Sequence[dict[str, Any]]
) -> Reading:
    last = results[-1]
    failed = last.get("failed")
    return Reading(
        film=spec.name,
        reader=name,
        cpu_s=tuple(result.get("cpu_s", 0.0) for result in results),
        wall_s=tuple(result.get("wall_s", 0.0) for result in results),
        peak_rss_bytes=max(result.get("peak_rss_bytes", 0) for result in results),
        n_correct=0 if failed else _n_correct(spec, name, count, last),
        n_pictures=count,
        failed=failed,
    )


def _n_correct(spec: FilmSpec, name: str, count: int, result: Mapping[str, Any]) -> int:
    """Count the pictures that are those the rule selects; of key frames, those they claim to be."""
    shown = spec.shown
    ranks: Iterable[int] = sample_indices(len(shown), count).tolist()
    if name == KEY_FRAMES:
        ranks = result["index"]
    return sum(
        number == shown[rank]
        for number, rank in zip(result["numbers"], ranks, strict=False)
    )


def _as_result(
    spec: FilmSpec, path: Path, count: int, readings: Sequence[Reading]
) -> Comparison:
    timings = tuple(
        Timing(reading.reader, reading.wall_s, reading.cpu_s, reading.peak_rss_bytes)
        for reading in readings
        if not reading.failed
    )
    size = f"{spec.width} x {spec.height}, {spec.n_frames / RATE:g} s"
    rate = path.stat().st_size * 8 * RATE / spec.n_frames / 1e6
    return Comparison(
        title=f"{count} pictures of {spec.name}: {size}, {rate:.1f} Mbit/s, one thread",
        reference=REFERENCE,
        timings=timings,
        machine=this_machine(("av", "decord", "torchcodec", "opencv-python-headless")),
    )


def _environment(libraries: Path) -> dict[str, str]:
    """Return the environment of readers, in which torchcodec finds the FFmpeg of PyAV.

    So all readers but decord and OpenCV use the same decoders.
    """
    home = Path(av().__file__).parent.with_name("av.libs")
    for library in home.glob("lib[as][vw]*-*.so.*"):
        name = library.name.split("-")[0]
        version = library.name.split(".so.")[1].split(".")[0]
        (libraries / f"{name}.so.{version}").symlink_to(library)
    library_path = os.environ.get("LD_LIBRARY_PATH")
    paths = [str(libraries), str(home)]
    if library_path:
        paths.append(library_path)
    return os.environ | {
        "LD_LIBRARY_PATH": os.pathsep.join(paths),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OMP_NUM_THREADS": "1",
    }
