"""The ways to extract one plan that `obygaze bench engines` times: engines, and none at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from obygaze_features.core.errors import InstallExtra, ObygazeError
from obygaze_features.core.extras import need
from obygaze_features.core.files import sha256_file
from obygaze_features.extraction.bench import RATE, make_film
from obygaze_features.extraction.blocks import BlockMaker
from obygaze_features.extraction.decoding import NO_VIDEO, decoder_versions
from obygaze_features.extraction.pipeline import Decoded, run_rows
from obygaze_features.extraction.plan import ExtractPlan, Row, Target, write_plan
from obygaze_features.extraction.run import Machine, extract, load_targets, pending_rows
from obygaze_features.extraction.signals import StopFlag
from obygaze_features.extraction.slurm import array_for, submit
from obygaze_features.extraction.status import missing_units
from obygaze_features.store.bench_layouts import files_of
from obygaze_features.video.decode import View, decode_views

ALONE, LOCAL, SLICE, DASK, SLURM = (
    "the work alone",
    "local, in this process",
    "a slice, as a Slurm task runs it",
    "Dask, one worker",
    "Slurm, one task",
)
TWO_SLICES, TWO_DASK, TWO_SLURM = "two slices at once", "Dask, two workers", "Slurm, two tasks"
PAIRS = {SLICE: TWO_SLICES, DASK: TWO_DASK, SLURM: TWO_SLURM}
N_FILMS, FILM_S = 4, 10
SLURM_S = 120.0
Way = Callable[[ExtractPlan], object]


@dataclass(frozen=True)
class Kind:
    """What a block is made of, and how many of them a run makes."""

    name: str
    block_rows: int
    n_blocks: int
    with_video: bool

    @property
    def title(self) -> str:
        """What a block of it is."""
        return f"{self.name}: {self.block_rows} clips {self._clips}"

    @property
    def _clips(self) -> str:
        if not self.with_video:
            return "without a video"
        return f"of {N_FILMS} films of {FILM_S} s, {RATE} pictures a second, descriptors"

    def plan(self, folder: Path) -> ExtractPlan:
        """A plan of so many blocks, into a store of its own."""
        number = len(list(folder.glob("run-*")))
        run = folder / f"run-{number:04d}"
        run.mkdir()
        rows = tuple(self._rows(folder, self.n_blocks * self.block_rows))
        target = Target(str(run / "store"), "descriptors", block_rows=self.block_rows)
        return ExtractPlan("bench", "", "", rows, (target,), workspace=str(run))

    def _rows(self, folder: Path, n_rows: int) -> Iterator[Row]:
        for row in range(n_rows):
            video = str(film(folder, row % N_FILMS)) if self.with_video else ""
            yield Row(f"tt-{row:05d}", "tt", video)


def film(folder: Path, number: int) -> Path:
    """A small film, made when it is first asked for."""
    path = folder / f"film-{number}.mp4"
    return path if path.exists() else make_film(path, number, FILM_S)


def ways() -> tuple[dict[str, Way], dict[str, str]]:
    """Every way there is on this machine, and why others are not."""
    found: dict[str, Way] = {ALONE: alone, LOCAL: local}
    absent: dict[str, str] = {}
    found |= {SLICE: lambda plan: slices(plan, 1), TWO_SLICES: lambda plan: slices(plan, 2)}
    try:
        need("distributed", "cluster", "Dask")
        found |= {DASK: lambda plan: dask(plan, 1), TWO_DASK: lambda plan: dask(plan, 2)}
    except InstallExtra as error:
        absent["Dask"] = error.what
    if why := no_slurm():
        absent["Slurm"] = why
    else:
        found |= {SLURM: lambda plan: slurm(plan, 1), TWO_SLURM: lambda plan: slurm(plan, 2)}
    return found, absent


def alone(plan: ExtractPlan) -> None:
    """Decode, describe and commit clip after clip: no other process, nothing that watches."""
    (loaded,) = load_targets(plan)
    maker = BlockMaker(
        loaded.backbone,
        loaded.writer,
        loaded.view,
        pending_rows(loaded, None),
        batch=loaded.batch(Machine()),
        versions=decoder_versions(),
    )

    def decode(jobs: Sequence[tuple[int, tuple[View, ...]]]) -> Iterator[Decoded]:
        for row, views in jobs:
            video = plan.rows[row].video
            clips = decode_views(video, views) if video else dict.fromkeys(views, NO_VIDEO)
            yield Decoded(row, clips)

    run_rows([maker], decode, StopFlag(), lambda decoded: None)


def local(plan: ExtractPlan) -> None:
    """The engine of one machine."""
    extract(plan, Machine(), StopFlag())


def slices(plan: ExtractPlan, workers: int) -> None:
    """Identical processes, each with its slice of the plan."""
    file = _written(plan)
    words = [sys.executable, "-m", "obygaze", "-q", "extract", "run", str(file), "--workers", "1"]
    started = [
        subprocess.Popen(
            [*words, "--no-seal", "--worker", f"{index}/{workers}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for index in range(workers)
    ]
    said = [process.communicate()[1] for process in started]
    for process, words_of in zip(started, said, strict=True):
        if process.returncode:
            told = words_of.decode("utf-8", "replace").strip()
            raise ObygazeError(f"a slice ended with {process.returncode}: {told}")


def dask(plan: ExtractPlan, workers: int) -> None:
    """A cluster of our own, started and ended."""
    from obygaze_features.extraction.dask_cluster import embedded
    from obygaze_features.extraction.dask_engine import extract_on

    extract_on(embedded(["cpu"] * workers), plan, Machine(), StopFlag())


def slurm(plan: ExtractPlan, workers: int) -> None:
    """An array of Slurm, from its script to its last block."""
    file, options = _written(plan), ["--workers", "1", "--no-seal"]
    array = array_for(
        plan, file, workers, minutes=5, cpus=1, folder=file.parent, run_options=options
    )
    if array is None:
        return
    array.log_folder.mkdir()
    script = file.with_suffix(".sbatch")
    script.write_text(array.script(plan), encoding="utf-8")
    job = submit(script)
    ends = time.monotonic() + SLURM_S
    try:
        while missing_units(plan):
            if time.monotonic() > ends:
                raise ObygazeError(f"Slurm's job {job} was not done after {SLURM_S:.0f} s")
            time.sleep(0.05)
    finally:
        subprocess.run(["scancel", job], capture_output=True, check=False)


def no_slurm() -> str:
    """Why nothing can be handed to Slurm from here; empty where it can."""
    sinfo = shutil.which("sinfo")
    if sinfo is None or shutil.which("sbatch") is None:
        return "this machine has no sbatch"
    words = [sinfo, "--noheader", "--states=idle,mixed", "--format=%D"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=20)
    except subprocess.TimeoutExpired:
        return "sbatch is on this machine, but no Slurm answers in time"
    if done.returncode:
        return "sbatch is on this machine, but no Slurm answers"
    return "" if done.stdout.split() else "Slurm has no idle node"


@contextlib.contextmanager
def held_to(n_cores: int) -> Iterator[None]:
    """So many cores for what is started meanwhile; all there are, where a system cannot do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:n_cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def digest(plan: ExtractPlan) -> dict[str, str]:
    """The hash of every file of a plan's arrays."""
    root = Path(plan.targets[0].store) / "data.zarr"
    return {str(path.relative_to(root)): sha256_file(path) for path in sorted(files_of(root))}


def committed_s(plan: ExtractPlan) -> list[float]:
    """When each block was committed, in seconds of the clock of files, in order."""
    markers = (Path(plan.targets[0].store) / "commits").glob("block-*.json")
    return sorted(marker.stat().st_mtime_ns / 1e9 for marker in markers)


def _written(plan: ExtractPlan) -> Path:
    file = Path(plan.workspace) / "plan.json"
    write_plan(plan, file, force=True)
    return file
