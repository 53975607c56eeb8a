"""Tables 2 and 4 of the paper, from stores to tables: `obygaze run` beside a plain loop."""

from __future__ import annotations

import json
import shlex
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.timing import OBYGAZE, Comparison, Contestant, Settings, compare
from benchmarks.zoo.plain_loop import SETTINGS, count_steps
from benchmarks.zoo.workspace import NAME, write_workspace
from obygaze_features.core.lazy import need
from obygaze_models.protocols.runner.records import read_run

OURS = "obygaze run, stores to tables"
EVERY = 16
QUICK_EVERY = 64
ROUNDS = 3
# The contrast of Table 2 re-trains every perceptron with four more seeds, which the loop does not.
SAME_FITS = ("--set", "report.contrast=[]")
RUNS = (
    ("paper-table2", ("--store", "vivit=vivit", "--store", "xclip=xclip", *SAME_FITS)),
    ("paper-table4", ("--store", "xclip=xclip")),
)


@dataclass(frozen=True)
class Loop:
    """One way to run the plain loop: where clips come from, how many workers, which fits.

    Only one fit in `every` is trained.
    """

    name: str
    source: str
    workers: int
    every: int
    max_epochs: int = SETTINGS.max_epochs

    @property
    def title(self) -> str:
        """The name, with what is run of it."""
        part = "every fit" if self.every == 1 else f"1 fit in {self.every}"
        return f"{self.name}, {part}"

    def words(self) -> list[str]:
        """The arguments that start it."""
        return [str(self.every), self.source, str(self.workers), str(self.max_epochs)]


def plain_loops(quick: bool = False) -> list[Loop]:
    """Return the loops, what a careful user writes first, and as released (very slow) last."""
    every = QUICK_EVERY if quick else EVERY
    return [
        Loop("loop over rows of a tensor", "matrix", 0, every if quick else 1),
        Loop("loop with a DataLoader", "memory", 0, every),
        Loop("loop with a DataLoader, a file a clip", "files", 0, every),
        Loop("loop as released, 19 workers", "files", 19, 1000, max_epochs=3),
    ]


def measure(settings: Settings) -> Comparison:
    """Time both runs from process start to table, and the plain loops.

    `obygaze run` is timed with everything: start-up, reading stores, splits, fits, baselines,
    intervals, files. Of a loop that trains some of the fits only, the CPU time for all of them is
    an estimate: that of one optimisation step, times the steps of all fits. Where two fits of
    `obygaze run` share steps, the loop takes them twice.
    """
    need("torch", "mlp", "the plain PyTorch loop")
    loops = plain_loops(settings.quick)
    with TemporaryDirectory(prefix="obygaze-bench-") as name:
        workspace = Path(name)
        write_workspace(workspace)
        files = [workspace / f"{i}.jsonl" for i in range(len(loops))]
        contestants = [Contestant(OURS, ["sh", "-c", _both_runs(workspace)])]
        for loop, file in zip(loops, files, strict=True):
            argv = ["-m", "benchmarks.zoo.plain_loop", name, *loop.words(), str(file)]
            contestants.append(Contestant(loop.title, [sys.executable, *argv]))
        result = compare(
            "Table 2 (two backbones) and Table 4: 122 perceptrons, baselines and intervals",
            contestants,
            reference=OURS,
            rounds=settings.rounds_or(ROUNDS),
            warmups=0,
            packages=("numpy", "scikit-learn", "torch"),
        )
        samples = [_rounds_of(file) for file in files]
        steps = count_steps(workspace)
        parts = {
            folder.name: read_run(folder).about["seconds"]
            for folder in sorted((workspace / "runs").iterdir())
        }
    facts: dict[str, object] = {"processes": "one of each, with one thread"}
    facts["optimisation steps of all fits of obygaze run"] = steps
    for title, seconds in parts.items():
        text = ", ".join(f"{part} {value:.1f}" for part, value in seconds.items())
        facts[f"seconds of {title}"] = text
    ours_s = statistics.median(result.timing(OURS).cpu_s)
    for loop, rounds in zip(loops, samples, strict=True):
        facts[loop.name] = _costs(loop, rounds, steps, ours_s)
    return replace(result, facts=facts)


def _rounds_of(file: Path) -> list[dict[str, float]]:
    """Return what the loop wrote in each round."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _costs(
    loop: Loop, rounds: Sequence[dict[str, float]], steps: int, ours_s: float
) -> str:
    """Return what was run of a loop, its CPU time a step, and the estimate for all fits."""
    step_s = statistics.median(costs["cpu_s"] / costs["steps"] for costs in rounds)
    ran = f"ran {rounds[0]['fits']:,} fits of {rounds[0]['steps']:,} steps"
    text = f"{ran}, {step_s * 1e6:,.0f} CPU us a step"
    if loop.every == 1:
        return text
    whole_s = step_s * steps
    return f"{text}; all fits, extrapolated: {whole_s:,.0f} CPU s, {whole_s / ours_s:.0f} times"


def _both_runs(workspace: Path) -> str:
    """Return the two commands as one line of a shell."""
    start = [*OBYGAZE, "-C", str(workspace), "run"]
    same = ["--manifest", NAME, "--jobs", "1", "--json"]
    lines = [[*start, name, *stores, *same, "-o", name] for name, stores in RUNS]
    return " && ".join(shlex.join(line) for line in lines)
