"""Tables 2 and 4 of the paper, from stores to tables: `obygaze run` beside a plain loop."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.timing import OBYGAZE, Comparison, Contestant, Settings, compare
from benchmarks.zoo.plain_loop import SETTINGS, count_steps
from benchmarks.zoo.workspace import NAME, write_workspace
from obygaze_features.core.lazy import need
from obygaze_features.core.machine import duration
from obygaze_models.protocols.runner.records import read_run

OURS = "obygaze run, stores to tables"
EVERY = 16
QUICK_EVERY = 64
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

    def words(self) -> list[str]:
        """The arguments that start it."""
        return [str(self.every), self.source, str(self.workers), str(self.max_epochs)]


def plain_loops(every: int) -> list[Loop]:
    """Return the loop at its fastest, without workers, and as released (very slow, so few fits)."""
    return [
        Loop("plain loop, clips in memory", "memory", 0, every),
        Loop("plain loop, a file a clip", "files", 0, every),
        Loop("plain loop as released, 19 workers", "files", 19, 1000, max_epochs=3),
    ]


def measure(settings: Settings) -> Comparison:
    """Time both runs from process start to table, and a sample of the plain loop's fits.

    The time of `obygaze run` includes everything: start-up, reading stores, splits, fits,
    baselines, intervals, files. The loop's time for all fits is an estimate: its time for one
    optimisation step, start-up not counted, times the steps of all fits. Where two fits of
    `obygaze run` share steps, the loop takes them twice.
    """
    need("torch", "mlp", "the plain PyTorch loop")
    loops = plain_loops(QUICK_EVERY if settings.quick else EVERY)
    with TemporaryDirectory(prefix="obygaze-bench-") as name:
        workspace = Path(name)
        write_workspace(workspace)
        files = [workspace / f"{i}.json" for i in range(len(loops))]
        contestants = [Contestant(OURS, ["sh", "-c", _both_runs(workspace)])]
        for loop, file in zip(loops, files, strict=True):
            argv = ["-m", "benchmarks.zoo.plain_loop", name, *loop.words(), str(file)]
            title = f"{loop.name}, 1 fit in {loop.every}"
            contestants.append(Contestant(title, [sys.executable, *argv]))
        result = compare(
            "Table 2 (two backbones) and Table 4: 122 perceptrons, baselines and intervals",
            contestants,
            reference=OURS,
            rounds=settings.rounds_or(1),
            warmups=0,
            packages=("numpy", "scikit-learn", "torch"),
        )
        samples = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        steps = count_steps(workspace)
        parts = {
            folder.name: read_run(folder).about["seconds"]
            for folder in sorted((workspace / "runs").iterdir())
        }
    facts: dict[str, object] = {"optimisation steps of all fits": steps}
    for title, seconds in parts.items():
        text = ", ".join(f"{part} {value:.1f}" for part, value in seconds.items())
        facts[f"seconds of {title}"] = text
    facts["every fit of a loop"] = (
        "an estimate: the time of one of its steps, times the steps of all fits"
    )
    for loop, sample in zip(loops, samples, strict=True):
        whole_s = sample["seconds"] / sample["steps"] * steps
        times = whole_s / result.timing(OURS).median_s
        facts[f"{loop.name}, every fit"] = (
            f"{duration(whole_s)}, {times:.0f} times that of obygaze run"
        )
    return replace(result, facts=facts)


def _both_runs(workspace: Path) -> str:
    """Return the two commands as one line of a shell."""
    start = [*OBYGAZE, "-C", str(workspace), "run"]
    same = ["--manifest", NAME, "--json"]
    lines = [[*start, name, *stores, *same, "-o", name] for name, stores in RUNS]
    return " && ".join(shlex.join(line) for line in lines)
