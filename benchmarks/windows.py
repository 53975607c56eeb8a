"""Many clips: a manifest of 720,000 windows is read and planned, and 100 clips of a million read.

With `--before` and the path of another checkout, which has its environment in `.venv`, both
programs take turns, each with a manifest and a store of its own.
"""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.decode.films import FilmSpec, make_film
from benchmarks.sweeps import EACH_SECOND, Program, programs
from benchmarks.timing import Comparison, Contestant, compare
from obygaze_features.core.console import human, table

ROUNDS = 3
N_WINDOWS = 720_000
N_FILMS = 100
N_ROWS = 1_000_000
N_ASKED = 100
WIDTH = 64
READ = """
import sys
from pathlib import Path
from obygaze_features.manifest.io import read_manifest
if len(sys.argv) > 1:
    read_manifest(Path(sys.argv[1]))
"""
WRITE_STORE = """
import sys
from pathlib import Path
from benchmarks.formats import FORMATS
from benchmarks.stores import make_up
arrays = make_up(int(sys.argv[2]), "pooled", (int(sys.argv[3]),), "float32")
FORMATS["obygaze"].write(Path(sys.argv[1]), arrays)
"""
# Print the CPU seconds of a process that opens a store, of one that reads clips, too, and of
# reading them again. The numbers of the clips are those of `make_up`.
READ_STORE = """
import json, sys, time
import numpy as np
from obygaze_features.store import open_store
store = open_store(sys.argv[1])
n_rows, n_asked = len(store), int(sys.argv[2])
again_s = []
if n_asked:
    rows = np.random.default_rng(1).permutation(n_rows)[:n_asked].tolist()
    clips = [f"tt{row // 160:07d}-{row % 160:03d}" for row in rows]
    store.matrix("pooled", clips=clips)
    whole_s = time.process_time()
    for _ in range(5):
        started_s = time.process_time()
        store.matrix("pooled", clips=clips)
        again_s.append(time.process_time() - started_s)
    print(json.dumps([whole_s, sorted(again_s)[2]]))
else:
    print(json.dumps([time.process_time(), 0]))
"""


def measure(quick: bool) -> str:
    """Return what a manifest of windows and a store of a million rows cost."""
    rounds = 1 if quick else ROUNDS
    share = 100 if quick else 1
    with TemporaryDirectory() as folder:
        return "\n\n".join(
            [
                measure_manifest(Path(folder), N_WINDOWS // share, rounds),
                measure_store(Path(folder), N_ROWS // share, rounds),
            ]
        )


def measure_manifest(folder: Path, n_windows: int, rounds: int) -> str:
    """Read and plan windows of 2 s each second of many films."""
    seconds = n_windows // N_FILMS + 1
    ticks = tuple(range(0, 1000 * seconds, 1000))
    spec = FilmSpec("long", n_frames=seconds, width=64, height=64, ticks=ticks)
    made = make_film(spec, folder / "made")
    videos = folder / "videos"
    videos.mkdir()
    for number in range(N_FILMS):
        os.link(made, videos / f"tt{number:07d}.mp4")
    contestants = []
    known = programs()
    for program in known.values():
        here = folder / program.name
        here.mkdir()
        start = ("-m", "obygaze", "-C", str(here))
        program.run(
            *start, "manifest", "windows", str(videos), "-o", "cut", *EACH_SECOND
        )
        path = str(here / "manifests" / "cut.toml")
        plan = ("extract", "plan", "cut", "-b", "descriptors", "--device", "cpu")
        for name, words in (
            ("start", ("-c", READ)),
            ("read", ("-c", READ, path)),
            ("plan", (*start, *plan)),
        ):
            command = program.command(*words)
            contestants.append(Contestant(f"{name}, {program.name}", command))
    n_bytes = (folder / "now" / "manifests" / "cut.csv").stat().st_size
    title = f"{n_windows:,} windows of {N_FILMS} films, {human(n_bytes)} as rows"
    timed = compare(title, contestants, reference="read, now", rounds=rounds)
    lines = [timed.to_text()]
    for name in known:
        read_s = beyond(timed, f"read, {name}", f"start, {name}")
        plan_s = beyond(timed, f"plan, {name}", f"read, {name}")
        lines.append(
            f"{name}: reading takes {read_s:.1f} s, planning {plan_s:.1f} s more"
        )
    return "\n".join(lines)


def beyond(timed: Comparison, name: str, other: str) -> float:
    """Return the median of the CPU seconds that a contestant takes beyond another one."""
    pairs = zip(timed.timing(name).cpu_s, timed.timing(other).cpu_s, strict=True)
    return statistics.median(ours - others for ours, others in pairs)


def measure_store(folder: Path, n_rows: int, rounds: int) -> str:
    """Read some clips of a large store in new processes, and again in the same process."""
    cold_ms: dict[str, list[float]] = {}
    warm_ms: dict[str, list[float]] = {}
    known = programs()
    for name, program in known.items():
        path = str(folder / f"{name}.store")
        program.run("-c", WRITE_STORE, path, str(n_rows), str(WIDTH))
        cold_ms[name], warm_ms[name] = [], []
    for _ in range(rounds):
        for name, program in known.items():
            path = str(folder / f"{name}.store")
            opened_s, _ = cpu_of_reading(program, path, 0)
            whole_s, again_s = cpu_of_reading(program, path, N_ASKED)
            cold_ms[name].append(1000 * (whole_s - opened_s))
            warm_ms[name].append(1000 * again_s)
    rows = []
    for name in known:
        median_cold = statistics.median(cold_ms[name])
        span = f"{min(cold_ms[name]):.0f} to {max(cold_ms[name]):.0f}"
        median_warm = statistics.median(warm_ms[name])
        rows.append((name, f"{median_cold:.0f}", span, f"{median_warm:.1f}"))
    title = f"{N_ASKED} clips of {n_rows:,}, CPU ms beyond a process that opens only"
    headers = ("program", "new process", "from to", "again")
    return f"{title}\n{table(headers, rows)}"


def cpu_of_reading(program: Program, path: str, n_asked: int) -> tuple[float, float]:
    """Return the CPU seconds of a process that reads clips, and of reading them again."""
    whole_s, again_s = json.loads(program.run("-c", READ_STORE, path, str(n_asked)))
    return whole_s, again_s
