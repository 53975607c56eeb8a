"""The ways to extract one plan that are timed: every engine, and no engine at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from obygaze.extensions.cluster.slurm import array_for, submit

from benchmarks.extraction.pipeline import RATE, make_film
from benchmarks.store.layouts import files_of
from benchmarks.timing import OBYGAZE
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import sha256_file
from obygaze_features.extraction.blocks import run_rows
from obygaze_features.extraction.compute import clip_threads
from obygaze_features.extraction.decoding import NO_VIDEO, DecodedRow
from obygaze_features.extraction.plan import (
    ExtractPlan,
    PlannedClip,
    Target,
    write_plan,
)
from obygaze_features.extraction.run import (
    Resources,
    extract_plan,
    load_targets,
    pending_rows,
)
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.extraction.status import missing_units
from obygaze_features.video.decode import decode_views
from obygaze_features.video.decoded_clip import View

ALONE = "the work alone"
LOCAL = "local, in this process"
SLICE = "a slice, as a Slurm task runs it"
SLURM = "Slurm, one task"
TWO_SLICES = "two slices at once"
TWO_SLURM = "Slurm, two tasks"
PAIRS = {SLICE: TWO_SLICES, SLURM: TWO_SLURM}
N_FILMS = 4
FILM_S = 10
SLURM_S = 120.0
Way = Callable[[ExtractPlan], object]


@dataclass(frozen=True)
class Kind:
    """What a block contains, and how many of them a run makes."""

    name: str
    block_rows: int
    n_blocks: int
    with_video: bool

    @property
    def title(self) -> str:
        """A description of a block."""
        return f"{self.name}: {self.block_rows} clips {self._clips}"

    @property
    def _clips(self) -> str:
        if not self.with_video:
            return "without a video"
        return (
            f"of {N_FILMS} films of {FILM_S} s, {RATE} pictures a second, descriptors"
        )

    def plan(self, folder: Path) -> ExtractPlan:
        """Return a plan of `n_blocks` blocks, with a new store."""
        number = len(list(folder.glob("run-*")))
        run = folder / f"run-{number:04d}"
        run.mkdir()
        rows = tuple(self._rows(folder, self.n_blocks * self.block_rows))
        target = Target(str(run / "store"), "descriptors", block_rows=self.block_rows)
        return ExtractPlan("bench", "", "", rows, (target,), workspace=str(run))

    def _rows(self, folder: Path, n_rows: int) -> Iterator[PlannedClip]:
        for row in range(n_rows):
            # A plan without any video is refused; the time to the first commit is not counted.
            has_video = self.with_video or row == 0
            video = str(film(folder, row % N_FILMS)) if has_video else ""
            yield PlannedClip(f"tt-{row:05d}", "tt", video)


def film(folder: Path, number: int) -> Path:
    """Return a small film, and make it if it does not exist yet."""
    path = folder / f"film-{number}.mp4"
    return path if path.exists() else make_film(path, number, FILM_S)


def ways() -> tuple[dict[str, Way], dict[str, str]]:
    """Return every way that is possible on this machine, and why others are not."""
    possible: dict[str, Way] = {ALONE: alone, LOCAL: local}
    absent: dict[str, str] = {}
    possible |= {
        SLICE: lambda plan: slices(plan, 1),
        TWO_SLICES: lambda plan: slices(plan, 2),
    }
    why = no_slurm()
    if why:
        absent["Slurm"] = why
    else:
        possible |= {
            SLURM: lambda plan: slurm(plan, 1),
            TWO_SLURM: lambda plan: slurm(plan, 2),
        }
    return possible, absent


def alone(plan: ExtractPlan) -> None:
    """Decode, compute and commit clip after clip in this process."""
    (loaded,) = load_targets(plan)

    def decode(jobs: Sequence[tuple[int, tuple[View, ...]]]) -> Iterator[DecodedRow]:
        for row, views in jobs:
            video = plan.rows[row].video
            clips = (
                decode_views(video, views) if video else dict.fromkeys(views, NO_VIDEO)
            )
            yield DecodedRow(row, clips)

    with clip_threads(1) as pool:
        maker = loaded.maker(pending_rows(loaded), pool, batch=1)
        run_rows([maker], decode, StopFlag(), lambda row, failed: None)


def local(plan: ExtractPlan) -> None:
    """Use the engine of one machine."""
    extract_plan(plan, Resources(), StopFlag())


def slices(plan: ExtractPlan, workers: int) -> None:
    """Start identical processes, each with its slice of the plan."""
    file = _written(plan)
    words = [*OBYGAZE, "-q", "extract", "run", str(file), "--workers", "1"]
    started = [
        subprocess.Popen(
            [*words, "--no-seal", "--worker", f"{index}/{workers}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for index in range(workers)
    ]
    errors = [process.communicate()[1] for process in started]
    for process, stderr in zip(started, errors, strict=True):
        # A slice of clips without a video has nothing to extract, and ends with 1.
        if process.returncode and b"no clip was extracted" not in stderr:
            text = stderr.decode("utf-8", "replace").strip()
            raise ObygazeError(
                f"a slice ended with exit code {process.returncode}: {text}"
            )


def slurm(plan: ExtractPlan, workers: int) -> None:
    """Submit an array of Slurm, and wait for its last block."""
    file = _written(plan)
    options = ["--workers", "1", "--no-seal"]
    array = array_for(plan, file, workers, minutes=5)
    if array is None:
        return
    array = replace(array, cpus=1, folder=file.parent, run_options=options)
    array.log_folder.mkdir()
    script = file.with_suffix(".sbatch")
    script.write_text(array.script(plan), encoding="utf-8")
    job = submit(script)
    ends = time.monotonic() + SLURM_S
    try:
        while missing_units(plan):
            if time.monotonic() > ends:
                raise ObygazeError(
                    f"Slurm job {job} has not ended after {SLURM_S:.0f} s"
                )
            time.sleep(0.05)
    finally:
        subprocess.run(["scancel", job], capture_output=True, check=False)


def no_slurm() -> str:
    """Return why Slurm cannot be used here, or an empty string if it can."""
    sinfo = shutil.which("sinfo")
    if sinfo is None or shutil.which("sbatch") is None:
        return "there is no sbatch on this machine"
    words = [sinfo, "--noheader", "--states=idle,mixed", "--format=%D"]
    try:
        process = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=20
        )
    except subprocess.TimeoutExpired:
        return "Slurm does not answer in time"
    if process.returncode:
        return "Slurm does not answer"
    return "" if process.stdout.split() else "Slurm has no idle node"


@contextlib.contextmanager
def limited_to(n_cores: int) -> Iterator[None]:
    """Restrict what is started meanwhile to `n_cores` cores, where the system can do that."""
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
    """Return the hash of every file of the arrays of a plan."""
    root = Path(plan.targets[0].store) / "data.zarr"
    return {
        str(path.relative_to(root)): sha256_file(path)
        for path in sorted(files_of(root))
    }


def committed_s(plan: ExtractPlan) -> list[float]:
    """Return when each block was committed, in order, in the time of its file."""
    markers = (Path(plan.targets[0].store) / "commits").glob("block-*.json")
    return sorted(marker.stat().st_mtime_ns / 1e9 for marker in markers)


def _written(plan: ExtractPlan) -> Path:
    file = Path(plan.workspace) / "plan.json"
    write_plan(plan, file, force=True)
    return file
