"""Clips of a film that overlap or are neighbours, decoded in one sweep: CPU seconds and equal rows.

With `--before` and the path of another checkout, which has its environment in `.venv`, both
programs take turns on the same films, each with a workspace of its own. A table of ratios then
stands beside their bounds.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.decode.films import RATE, FilmSpec, make_film, odd_films
from benchmarks.timing import Comparison, Contestant, compare, duration
from obygaze_features.core.console import human, table
from obygaze_features.core.errors import Corrupt
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.windows import span_id

BEFORE = "OBYGAZE_BEFORE"
ROOT = Path(__file__).resolve().parents[1]
WORKERS = 2
ROUNDS = 3
# Key frames are ten seconds apart.
RARE_KEYS = {"g": "250", "keyint_min": "250", "sc_threshold": "0"}
EACH_SECOND = ("--seconds", "2", "--every", "1")
# Damaged copies have zeros at these shares of their bytes.
DAMAGED_AT = (0.3, 0.55, 0.8)
DAMAGED_SUFFIXES = (".mkv", ".mp4", ".ts")
N_CHANGED = 200
SAMPLE_S = 0.02
# Print the number of rows of each status and a checksum of all their values.
CHECKSUM = """
import hashlib, json, sys
import numpy as np
import obygaze as og
store = og.open_store(sys.argv[1])
order = sorted(range(len(store)), key=lambda row: store.rows[row].clip_id)
hashed = hashlib.sha256()
counts = {}
for number in order:
    row = store.rows[number]
    hashed.update(repr((row.clip_id, row.status, row.reason, row.pictures)).encode())
    counts[row.status] = counts.get(row.status, 0) + 1
ok = [number for number in order if store.rows[number].status == "ok"]
for array in sorted(array.name for array in store.record.arrays):
    hashed.update(np.ascontiguousarray(store.read(array, ok)).tobytes())
print(json.dumps([counts, hashed.hexdigest()]))
"""


@dataclass(frozen=True)
class Program:
    """A checkout of obygaze, and the Python that runs it."""

    name: str
    root: Path
    python: str

    def command(self, *words: str) -> list[str]:
        """Return the words of a command of this program."""
        # Without -P, the current folder would come first.
        return ["env", f"PYTHONPATH={self.root}", self.python, "-P", *words]

    def run(self, *words: str) -> str:
        """Run a command, and return its output."""
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Corrupt(f"{shlex.join(words)}: {done.stderr.strip()[-300:]}")
        return done.stdout


def programs() -> dict[str, Program]:
    """Return this program, and the one of OBYGAZE_BEFORE if it is set."""
    found = {"now": Program("now", ROOT, sys.executable)}
    before = os.environ.get(BEFORE)
    if before:
        python = str(Path(before, ".venv/bin/python"))
        found["before"] = Program("before", Path(before), python)
    return found


def clips_of(films: Mapping[str, float], length_s: float, every_s: float) -> list[Clip]:
    """Return clips of equal length of some films, whose lengths are given in seconds."""
    clips = []
    for film, seconds in films.items():
        for number in range(int((seconds - length_s) / every_s) + 1):
            span_s = number * every_s, number * every_s + length_s
            ids = span_id(film, *span_s), film, number, f"{film}.mp4"
            clips.append(Clip(*ids, *span_s))
    return clips


def shuffled(clips: Sequence[Clip], n_rows: int = 16) -> list[Clip]:
    """Return clips whose order is another one within each block of rows."""
    draw = random.Random(0)
    result = []
    for first in range(0, len(clips), n_rows):
        block = list(clips[first : first + n_rows])
        draw.shuffle(block)
        result += [
            replace(clip, scene=first + place) for place, clip in enumerate(block)
        ]
    return result


@dataclass
class Bench:
    """Films, and a workspace of each program."""

    folder: Path
    rounds: int

    def workspace(self, program: Program) -> Path:
        """Return the workspace of a program."""
        path = self.folder / program.name
        path.mkdir(exist_ok=True)
        return path

    def film(
        self, name: str, seconds: int, character: str = "busy", **size: int
    ) -> Path:
        """Make a film with rare key frames under this name."""
        facts: dict[str, Any] = {"n_frames": seconds * RATE, **size}
        spec = FilmSpec(name, options=RARE_KEYS, character=character, **facts)
        made = make_film(spec, self.folder / "made")
        path = self.folder / "videos" / f"{name}.mp4"
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        os.link(made, path)
        return path

    def import_clips(self, program: Program, name: str, clips: Sequence[Clip]) -> None:
        """Write a manifest of clips for a program."""
        header = Header("made up", video_root=str(self.folder / "videos"))
        path = self.workspace(program) / "manifests" / f"{name}.toml"
        write_manifest(Manifest(name, header, tuple(clips)), path, force=True)

    def contestant(
        self,
        program: Program,
        manifest: str,
        backbone: str = "descriptors",
        workers: int = WORKERS,
    ) -> Contestant:
        """Return the command that extracts a manifest anew; its films are indexed already."""
        here = self.workspace(program)
        words = ("-m", "obygaze", "-C", str(here), "extract", "run", manifest)
        options = ("-b", backbone, "--workers", str(workers), "-q")
        extract = shlex.join(program.command(*words, *options))
        store = shlex.quote(str(here / "stores" / f"{manifest}.{backbone}"))
        # Rows that fail are part of a store; the command then ends with 3.
        line = f"rm -rf {store} && {{ {extract} || test $? -eq 3; }}"
        subprocess.run(["sh", "-c", line], check=True, capture_output=True)
        return Contestant(f"{manifest}, {program.name}", ("sh", "-c", line))

    def cut(self, program: Program, folder: Path, name: str, *grid: str) -> None:
        """Write a manifest of windows of the films in a folder, by the command of a program."""
        words = ("-m", "obygaze", "-C", str(self.workspace(program)))
        cut = ("manifest", "windows", str(folder), "-o", name, *grid)
        program.run(*words, *cut)

    def checksum(
        self, program: Program, manifest: str, backbone: str = "descriptors"
    ) -> tuple[dict[str, int], str]:
        """Return the number of rows of each status, and a checksum of rows and values."""
        store = self.workspace(program) / "stores" / f"{manifest}.{backbone}"
        counts, sha256 = json.loads(program.run("-c", CHECKSUM, str(store)))
        return counts, sha256

    def compared(
        self, title: str, contestants: Sequence[Contestant], reference: str
    ) -> Comparison:
        """Time contestants in turns."""
        return compare(title, contestants, reference=reference, rounds=self.rounds)


def measure(quick: bool) -> str:
    """Return tables of overlapping clips, windows, workers, memory and kinds of films."""
    seconds = 20 if quick else 80
    with TemporaryDirectory() as folder:
        bench = Bench(Path(folder), 1 if quick else ROUNDS)
        parts = [
            measure_overlap(bench, seconds),
            measure_windows(bench, seconds),
            measure_workers(bench, seconds),
            measure_memory(bench, seconds // 2),
            measure_kinds(bench),
        ]
        return "\n\n".join(parts)


def measure_overlap(bench: Bench, seconds: int) -> str:
    """Compare clips of 4 s each 2 s, in order and shuffled, with clips of 4 s each 4 s."""
    bench.film("overlap", seconds)
    apart = clips_of({"overlap": seconds}, 4, 4)
    overlapping = clips_of({"overlap": seconds}, 4, 2)
    contestants = []
    sums = []
    for program in programs().values():
        for name, clips in (
            ("apart", apart),
            ("overlapping", overlapping),
            ("shuffled", shuffled(overlapping)),
        ):
            bench.import_clips(program, name, clips)
            contestants.append(bench.contestant(program, name))
            sums.append((program.name, name, *bench.checksum(program, name)))
    title = "clips of 4 s, each 4 s and each 2 s, of a film with a key frame each 10 s"
    timed = bench.compared(title, contestants, "apart, now")
    bounds = [
        ("overlapping, now", "apart, now", 1.25),
        ("shuffled, now", "overlapping, now", 1.25),
        ("apart, now", "apart, before", 0.85),
    ]
    return "\n".join([timed.to_text(), _bounds_text(timed, bounds), _sums_text(sums)])


def measure_windows(bench: Bench, seconds: int) -> str:
    """Compare windows of 2 s each second, and of 16 pictures, of two films."""
    films = bench.folder / "two"
    films.mkdir()
    for name in ("one", "two"):
        path = bench.film(name, seconds, "calm" if name == "one" else "busy")
        os.link(path, films / path.name)
    sums = []
    contestants = []
    for program in programs().values():
        for name, grid in (("seconds", EACH_SECOND), ("pictures", ("--window", "16"))):
            bench.cut(program, films, name, *grid)
            contestants.append(bench.contestant(program, name))
            sums.append((program.name, name, *bench.checksum(program, name)))
    timed = bench.compared("windows of two films", contestants, "seconds, now")
    bounds = [
        ("seconds, now", "seconds, before", 1.2),
        ("pictures, now", "pictures, before", 1.2),
    ]
    return "\n".join([timed.to_text(), _bounds_text(timed, bounds), _sums_text(sums)])


def measure_workers(bench: Bench, seconds: int) -> str:
    """Return the wall time of 40 clips on 8 workers, and on one."""
    films = {"many": seconds + 2}
    bench.film("many", seconds + 2)
    clips = clips_of(films, 4, seconds / 40)[:40]
    rows = []
    for program in programs().values():
        for workers in (1, 8):
            name = f"workers-{workers}"
            bench.import_clips(program, name, clips)
            contestant = bench.contestant(program, name, workers=workers)
            timed = bench.compared(name, [contestant], contestant.name).timings[0]
            wall_s = statistics.median(timed.wall_s)
            rows.append((program.name, workers, len(clips), duration(wall_s)))
    return table(("program", "workers", "clips", "wall time"), rows)


def measure_memory(bench: Bench, seconds: int) -> str:
    """Return the largest memory that all processes of an extraction of 1080p need together."""
    bench.film("large", seconds, width=1920, height=1080)
    clips = clips_of({"large": seconds}, 4, 2)
    rows = []
    for program in programs().values():
        bench.import_clips(program, "large", clips)
        for backbone in ("descriptors", "frames:descriptors"):
            command = bench.contestant(program, "large", backbone)
            peaks = [peak_of_all(command.work) for _ in range(bench.rounds)]
            peak = human(statistics.median(peaks))
            rows.append((program.name, backbone, len(clips), peak))
    headers = ("program", "backbone", "clips of 1920 x 1080", "peak of all processes")
    return table(headers, rows)


def peak_of_all(command: Sequence[str]) -> int:
    """Run a command; return the largest memory of all its processes, shared memory once."""
    peak = 0
    # All processes of a session have the id of its first one.
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, start_new_session=True
    ) as process:
        while process.poll() is None:
            n_bytes = 0
            for folder in Path("/proc").glob("[0-9]*"):
                # A process may end meanwhile.
                with suppress(OSError):
                    if os.getsid(int(folder.name)) == process.pid:
                        memory = Path(folder, "smaps_rollup").read_text("utf-8")
                        n_bytes += 1024 * int(memory.split("Pss:")[1].split()[0])
            peak = max(peak, n_bytes)
            time.sleep(SAMPLE_S)
    if process.returncode:
        raise Corrupt(f"{shlex.join(command)} failed ({process.returncode})")
    return peak


def measure_kinds(bench: Bench) -> str:
    """Return checksums of windows of small films of many kinds, some of them damaged."""
    folder = bench.folder / "kinds"
    for spec in kinds_of_films():
        path = make_film(spec, folder)
        content = path.read_bytes()
        for share in DAMAGED_AT if spec.suffix in DAMAGED_SUFFIXES else ():
            changed = bytearray(content)
            at = int(len(content) * share)
            changed[at : at + N_CHANGED] = bytes(N_CHANGED)
            name = f"{path.stem}-{share:.2f}{path.suffix}"
            Path(folder, name).write_bytes(changed)
    sums = []
    for program in programs().values():
        bench.cut(program, folder, "kinds", *EACH_SECOND)
        bench.contestant(program, "kinds")
        sums.append((program.name, "kinds", *bench.checksum(program, "kinds")))
    n_films = len(list(folder.iterdir()))
    about = (
        f"windows of {n_films} films: variable rate, open groups, edit lists, damage"
    )
    return f"{about}\n{_sums_text(sums)}"


def kinds_of_films() -> list[FilmSpec]:
    """Return small films, one of them at 23.976 pictures a second, one that begins late."""
    small: dict[str, Any] = {"n_frames": 480, "width": 320, "height": 240}
    exact = tuple(round(n * 1001 / 24) for n in range(480))
    late = tuple(60_000 + time_ms for time_ms in exact)
    return [
        *odd_films(),
        FilmSpec("mkv, 23.976", ".mkv", options=RARE_KEYS, ticks=exact, **small),
        FilmSpec("mkv, late", ".mkv", options=RARE_KEYS, ticks=late, **small),
        FilmSpec("mp4, b-frames", options={**RARE_KEYS, "bf": "3"}, **small),
    ]


def _bounds_text(timed: Comparison, bounds: Sequence[tuple[str, str, float]]) -> str:
    """Return a line for each ratio that has a bound, if both contestants took part."""
    names = {timing.name for timing in timed.timings}
    lines = []
    for name, reference, most in bounds:
        if reference in names:
            ratio = timed.ratio(name, reference)
            lines.append(f"{name} / {reference}: {ratio:.2f}, at most {most:.2f}")
    return "\n".join(lines)


def _sums_text(sums: Sequence[tuple[str, str, dict[str, int], str]]) -> str:
    """Return a table of the rows of each store, and of their checksums."""
    rows = []
    for program, manifest, counts, sha256 in sums:
        shown = ", ".join(f"{n} {status}" for status, n in counts.items())
        rows.append((program, manifest, shown, sha256[:12]))
    return table(("program", "manifest", "rows", "sha256 of rows and values"), rows)
