"""`obygaze bench decode`: what reading 32 exact pictures costs, beside the readers people use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from obygaze_features.core.bench import BenchResult, Timing
from obygaze_features.core.commands import ExampleCommand, Session, json_option, pass_session
from obygaze_features.core.console import Progress, Quiet, table
from obygaze_features.core.machine import this_machine
from obygaze_features.video.bench_films import RATE, FilmSpec, make_film
from obygaze_features.video.bench_readers import READERS
from obygaze_features.video.sampling import sample_indices
from obygaze_features.video.source import av

REFERENCE = "obygaze"
TIME_LIMIT_S = 300.0


def long_films(seconds: int) -> list[FilmSpec]:
    """The films that are timed: group lengths and a second codec."""
    count = seconds * RATE
    ten_bit = {"preset": "ultrafast", "x265-params": "log-level=none"}
    return [
        FilmSpec("h264-default-groups", n_frames=count),
        FilmSpec("h264-no-cuts", options={"sc_threshold": "0"}, n_frames=count),
        FilmSpec("h264-groups-of-24", options={"g": "24"}, n_frames=count),
        FilmSpec("hevc-10-bit", ".mkv", "libx265", "yuv420p10le", ten_bit, count),
    ]


def odd_films() -> list[FilmSpec]:
    """Small films of the kinds on which readers go wrong without a word."""
    small: dict[str, Any] = {"n_frames": 120, "width": 320, "height": 240}
    quick = {"preset": "veryfast", "g": "30"}
    open_groups = quick | {"x264-params": "open-gop=1:bframes=3:b-adapt=0"}
    refresh = quick | {"x264-params": "intra-refresh=1:bframes=0"}
    rich = {"b": "1500k", "bf": "2", "g": "30"}
    uneven = tuple(2400 + 40 * n + 20 * (n % 2) + 90 * (n // 30) for n in range(120))
    return [
        FilmSpec("mp4, open groups", options=open_groups, **small),
        FilmSpec("mp4, intra refresh", options=refresh, **small),
        FilmSpec("mp4, edit list", options=quick, hidden=20, **small),
        FilmSpec("mp4, variable rate", options=quick, ticks=uneven, **small),
        FilmSpec("mkv, variable rate", ".mkv", options=quick, ticks=uneven, **small),
        FilmSpec("avi, mpeg-4 with b", ".avi", "mpeg4", options=rich, **small),
        FilmSpec("avi, h.264 with b", ".avi", options=quick, **small),
        FilmSpec("mpg, mpeg-2", ".mpg", "mpeg2video", options=rich, **small),
        FilmSpec("ts, h.264", ".ts", options=quick, **small),
        FilmSpec("flv, h.264", ".flv", options=quick, **small),
        FilmSpec("webm, vp9", ".webm", "libvpx-vp9", options={"b": "600k"}, **small),
        FilmSpec("raw h.264", ".h264", options=quick, **small),
    ]


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
class DecodeBench:
    """The whole comparison: times on long films, exactness on long and odd ones."""

    timed: tuple[BenchResult, ...]
    readings: tuple[Reading, ...]
    absent: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """Everything as one JSON object."""
        return {
            "timed": [result.as_json() for result in self.timed],
            "exact": [asdict(reading) for reading in self.readings],
            "absent": dict(self.absent),
        }

    def as_text(self) -> str:
        """Tables: times of each long film, then right pictures of every film."""
        parts = [result.as_text() for result in self.timed]
        readers = list(dict.fromkeys(reading.reader for reading in self.readings))
        cells = {(one.film, one.reader): one for one in self.readings}
        films = list(dict.fromkeys(reading.film for reading in self.readings))
        rows = [[film, *(_exactness(cells[film, reader]) for reader in readers)] for film in films]
        parts.append("Right pictures, read from the pixels\n" + table(["film", *readers], rows))
        parts += [f"{name} is not here: {why}" for name, why in self.absent.items()]
        return "\n\n".join(parts)


def _exactness(reading: Reading) -> str:
    return "fails" if reading.failed else f"{reading.right} of {reading.asked}"


def bench_decoding(
    films: Sequence[FilmSpec],
    odd: Sequence[FilmSpec] = (),
    *,
    readers: Sequence[str] = tuple(READERS),
    count: int = 32,
    rounds: int = 2,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> DecodeBench:
    """Measure readers in turns, one process a reading; the `odd` films only for exactness."""
    progress = progress or Quiet()
    folder = folder or Path(tempfile.gettempdir()) / "obygaze-bench"
    absent: dict[str, str] = {}
    readings, timed = [], []
    with tempfile.TemporaryDirectory() as libraries:
        environment = _environment(Path(libraries))
        for number, spec in enumerate([*films, *odd]):
            progress.say(f"making {spec.name}")
            path = make_film(spec, folder)
            is_timed = number < len(films)
            names = [name for name in readers if name not in absent]
            turns = names * (rounds if is_timed else 1)
            found = _read_in_turns(spec, path, count, turns, environment, absent, progress)
            readings += found
            if is_timed:
                timed.append(_as_result(spec, path, count, found))
    return DecodeBench(tuple(timed), tuple(readings), absent)


def _read_in_turns(
    spec: FilmSpec,
    path: Path,
    count: int,
    turns: Sequence[str],
    environment: Mapping[str, str],
    absent: dict[str, str],
    progress: Progress,
) -> list[Reading]:
    taken: dict[str, list[dict[str, Any]]] = {name: [] for name in turns}
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
    if name == "obygaze, key frames":
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


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze bench decode
    obygaze bench decode --seconds 30 --rounds 1
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
    readers: tuple[str, ...],
    as_json: bool,
) -> None:
    """What exact pictures cost, beside other readers.

    The rivals are decord, torchcodec, OpenCV and reading in order, those that are installed. The
    films are made on the first run, which takes some minutes, and kept in the folder for
    temporary files.
    """
    names = [name for name in READERS if not readers or name in {REFERENCE, *readers}]
    films, odd = long_films(seconds), odd_films()
    total = len(names) * (rounds * len(films) + len(odd))
    with session.console.progress("decode", total, "readings") as progress:
        result = bench_decoding(
            films, odd, readers=names, count=count, rounds=rounds, progress=progress
        )
    if as_json:
        session.console.json(result.as_json())
    else:
        session.console.result(result.as_text())
