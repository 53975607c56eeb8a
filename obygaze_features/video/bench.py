"""`obygaze bench decode`: what reading 32 exact pictures costs, beside the readers people use."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

from obygaze_features.core.bench import BenchResult, Timing
from obygaze_features.core.commands import ExampleCommand, Session, json_option, pass_session
from obygaze_features.core.console import Progress, Quiet, table
from obygaze_features.core.machine import this_machine
from obygaze_features.video.bench_films import RATE, FilmSpec, make_film
from obygaze_features.video.bench_pictures import CHARACTERS
from obygaze_features.video.bench_readers import READERS
from obygaze_features.video.bench_sets import character_films, coded_films, odd_films
from obygaze_features.video.sampling import sample_indices
from obygaze_features.video.source import av

REFERENCE = "obygaze"
KEY_FRAMES = "obygaze, key frames"
RIVALS = ("decord", "torchcodec")
TIME_LIMIT_S = 300.0


@dataclass(frozen=True)
class Reading:
    """What one reader made of one film: times of each round, and how many pictures were right."""

    film: str
    reader: str
    cpu_s: tuple[float, ...]
    wall_s: tuple[float, ...]
    peak_rss_bytes: int
    right: int
    asked: int
    failed: str | None


@dataclass(frozen=True)
class Headline:
    """How many times the CPU time of one way of ours the others take, film by film."""

    reference: str
    ratios: Mapping[str, Mapping[str, float]]

    @property
    def medians(self) -> dict[str, float]:
        """Of each rival, the median over the films."""
        return {name: statistics.median(films.values()) for name, films in self.ratios.items()}

    def as_json(self) -> dict[str, Any]:
        """The ratios and their medians."""
        return {**asdict(self), "medians": self.medians}

    def as_text(self) -> str:
        """A row a film, and the medians under them."""
        films = list(dict.fromkeys(film for ratios in self.ratios.values() for film in ratios))
        rows = [
            [film, *(_times(ratios.get(film)) for ratios in self.ratios.values())] for film in films
        ]
        rows.append(["median", *(_times(ratio) for ratio in self.medians.values())])
        title = f"CPU time, as a multiple of that of {self.reference!r}"
        return f"{title}\n{table(['film', *self.ratios], rows)}"


@dataclass(frozen=True)
class DecodeBench:
    """The whole comparison: times on long films, exactness on long and odd ones."""

    timed: Mapping[str, BenchResult]
    readings: tuple[Reading, ...]
    absent: Mapping[str, str]

    def headlines(self) -> list[Headline]:
        """The others' CPU time beside ours: exact pictures first, then key frames."""
        found = [self._headline(reference) for reference in (REFERENCE, KEY_FRAMES)]
        return [headline for headline in found if headline.ratios]

    def _headline(self, reference: str) -> Headline:
        ratios: dict[str, dict[str, float]] = {}
        for film, result in self.timed.items():
            names = [timing.name for timing in result.timings]
            judged = replace(result, reference=reference)
            for name in names if reference in names else ():
                if name not in (REFERENCE, KEY_FRAMES):
                    ratios.setdefault(name, {})[film] = judged.ratio(name, "cpu_s")
        return Headline(reference, ratios)

    def as_json(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        return {
            "headlines": [headline.as_json() for headline in self.headlines()],
            "timed": {film: result.as_json() for film, result in self.timed.items()},
            "exact": [asdict(reading) for reading in self.readings],
            "absent": dict(self.absent),
        }

    def as_text(self) -> str:
        """Tables: all films at a glance, each by itself, then right pictures of every film."""
        parts = [headline.as_text() for headline in self.headlines()]
        parts += [result.as_text() for result in self.timed.values()]
        readers = list(dict.fromkeys(reading.reader for reading in self.readings))
        cells = {(one.film, one.reader): one for one in self.readings}
        films = list(dict.fromkeys(reading.film for reading in self.readings))
        rows = [
            [film, *(_exactness(cells.get((film, reader))) for reader in readers)] for film in films
        ]
        parts.append("Right pictures, read from the pixels\n" + table(["film", *readers], rows))
        parts += [f"{name} is not here: {why}" for name, why in self.absent.items()]
        return "\n\n".join(parts)


def _exactness(reading: Reading | None) -> str | None:
    if reading is None:
        return None
    return "fails" if reading.failed else f"{reading.right} of {reading.asked}"


def _times(ratio: float | None) -> str | None:
    return None if ratio is None else f"{ratio:.2f}x"


def bench_decoding(
    films: Sequence[FilmSpec],
    odd: Sequence[FilmSpec] = (),
    *,
    readers: Sequence[str] = (REFERENCE, KEY_FRAMES, *RIVALS),
    odd_readers: Sequence[str] = tuple(READERS),
    count: int = 32,
    rounds: int = 2,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> DecodeBench:
    """Measure `readers` in turns, one process a reading; `odd` films are only for exactness."""
    progress = progress or Quiet()
    folder = folder or Path(tempfile.gettempdir()) / "obygaze-bench"
    absent: dict[str, str] = {}
    readings: list[Reading] = []
    timed: dict[str, BenchResult] = {}
    with tempfile.TemporaryDirectory() as libraries:
        environment = _environment(Path(libraries))
        for number, spec in enumerate([*films, *odd]):
            progress.say(f"making {spec.name}")
            path = make_film(spec, folder)
            is_timed = number < len(films)
            turns = list(readers) * rounds if is_timed else odd_readers
            found = _read_in_turns(spec, path, count, turns, environment, absent, progress)
            readings += found
            if is_timed:
                timed[spec.name] = _as_result(spec, path, count, found)
    return DecodeBench(timed, tuple(readings), absent)


def _read_in_turns(
    spec: FilmSpec,
    path: Path,
    count: int,
    turns: Sequence[str],
    environment: Mapping[str, str],
    absent: dict[str, str],
    progress: Progress,
) -> list[Reading]:
    taken: dict[str, list[dict[str, Any]]] = {name: [] for name in turns if name not in absent}
    for name in turns:
        progress.say(f"{name}: {spec.name}")
        progress.advance()
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
    command = [sys.executable, "-m", "obygaze_features.video.bench_readers", name, str(path)]
    try:
        done = subprocess.run(
            [*command, str(count)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIME_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {TIME_LIMIT_S:g} s"}
    if done.returncode != 0:
        return {"failed": f"ended with exit code {done.returncode}"}
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _reading(spec: FilmSpec, name: str, count: int, results: Sequence[dict[str, Any]]) -> Reading:
    last = results[-1]
    failed = last.get("failed")
    return Reading(
        film=spec.name,
        reader=name,
        cpu_s=tuple(result.get("cpu_s", 0.0) for result in results),
        wall_s=tuple(result.get("wall_s", 0.0) for result in results),
        peak_rss_bytes=max(result.get("peak_rss_bytes", 0) for result in results),
        right=0 if failed else _right(spec, name, count, last),
        asked=count,
        failed=failed,
    )


def _right(spec: FilmSpec, name: str, count: int, result: Mapping[str, Any]) -> int:
    """How many pictures are those the rule asks for, or at least those they are said to be."""
    shown = spec.shown
    ranks: Iterable[int] = sample_indices(len(shown), count).tolist()
    if name == KEY_FRAMES:
        ranks = result["index"]
    return sum(
        number == shown[rank] for number, rank in zip(result["numbers"], ranks, strict=False)
    )


def _as_result(spec: FilmSpec, path: Path, count: int, readings: Sequence[Reading]) -> BenchResult:
    timings = tuple(
        Timing(one.reader, one.wall_s, one.cpu_s, one.peak_rss_bytes)
        for one in readings
        if not one.failed
    )
    size = f"{spec.width} x {spec.height}, {spec.n_frames / RATE:g} s"
    rate = path.stat().st_size * 8 * RATE / spec.n_frames / 1e6
    return BenchResult(
        title=f"{count} pictures of {spec.name}: {size}, {rate:.1f} Mbit/s, one thread",
        reference=REFERENCE,
        timings=timings,
        machine=this_machine(("av", "decord", "torchcodec", "opencv-python-headless")),
    )


def _environment(libraries: Path) -> dict[str, str]:
    """The environment of readers; torchcodec finds the FFmpeg that PyAV brings with it.

    So all readers but decord and OpenCV run on the very same decoders.
    """
    home = Path(av().__file__).parent.with_name("av.libs")
    for library in home.glob("lib[as][vw]*-*.so.*"):
        name, version = library.name.split("-")[0], library.name.split(".so.")[1].split(".")[0]
        (libraries / f"{name}.so.{version}").symlink_to(library)
    known = os.environ.get("LD_LIBRARY_PATH")
    paths = [str(libraries), str(home), *([known] if known else [])]
    return os.environ | {
        "LD_LIBRARY_PATH": os.pathsep.join(paths),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OMP_NUM_THREADS": "1",
    }


FILMS = {"characters": character_films, "codings": coded_films}


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze bench decode
    obygaze bench decode --seconds 30 --rounds 1
    obygaze bench decode --films codings --reader opencv
    obygaze bench decode --json
    """,
)
@click.option(
    "--seconds", type=click.IntRange(2), default=150, show_default=True, help="Length of a film."
)
@click.option(
    "--count", type=click.IntRange(1), default=32, show_default=True, help="Pictures of a film."
)
@click.option("--rounds", type=click.IntRange(1), default=2, show_default=True, help="Rounds.")
@click.option(
    "--films",
    type=click.Choice([*FILMS, "odd"]),
    multiple=True,
    default=("characters", "odd"),
    show_default=True,
    help="Five characters of films, other codings of one, small odd ones for exactness.",
)
@click.option(
    "--reader",
    "readers",
    type=click.Choice(list(READERS)),
    multiple=True,
    help="Only these readers; obygaze is always there.",
)
@json_option
@pass_session
def bench_decode(
    session: Session,
    seconds: int,
    count: int,
    rounds: int,
    films: tuple[str, ...],
    readers: tuple[str, ...],
    as_json: bool,
) -> None:
    """What exact pictures cost, beside other readers.

    The rivals are decord and torchcodec, and OpenCV and reading in order too where only
    exactness is at stake or they are named. The films have five characters, because the ratios
    depend on what is to be seen. They are made on the first run, which takes some minutes, and
    kept in the folder for temporary files.
    """
    timed = [film for kind, make in FILMS.items() if kind in films for film in make(seconds)]
    odd = odd_films() if "odd" in films else []
    chosen = {REFERENCE, *(readers or READERS)}
    all_names = [name for name in READERS if name in chosen]
    slow = set() if readers else {"opencv", "pyav in order"}
    names = [name for name in all_names if name not in slow]
    total = len(names) * rounds * len(timed) + len(all_names) * len(odd)
    with session.console.progress("decode", total, "readings") as progress:
        result = bench_decoding(
            timed,
            odd,
            readers=names,
            odd_readers=all_names,
            count=count,
            rounds=rounds,
            progress=progress,
        )
    if as_json:
        session.console.json(result.as_json())
        return
    if "characters" in films:
        session.console.result(_about_characters())
    session.console.result(result.as_text())


def _about_characters() -> str:
    about = [(name, character.words) for name, character in CHARACTERS.items()]
    return "Characters of films\n" + table(("", "what is in it"), about) + "\n"
