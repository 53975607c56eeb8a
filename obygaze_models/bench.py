"""`obygaze bench zoo`: Tables 2 and 4 from stores to tables, ours beside the plain loop."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from obygaze_features.core.bench import BenchResult, Contestant, compare, duration
from obygaze_features.core.commands import ExampleCommand, Session, json_option, pass_session
from obygaze_features.core.console import Progress
from obygaze_features.core.extras import need
from obygaze_models.bench_films import NAME, write_workspace
from obygaze_models.bench_work import SETTINGS, count_steps
from obygaze_models.protocols.runner.records import read_run

OURS = "obygaze run, stores to tables"
RUNS = (
    ("paper-table2", ("--store", "vivit=vivit", "--store", "xclip=xclip")),
    ("paper-table4", ("--store", "xclip=xclip")),
)


@dataclass(frozen=True)
class Loop:
    """One way to run the plain loop: where clips come from, how many workers, which fits."""

    name: str
    source: str
    workers: int
    every: int
    max_epochs: int = SETTINGS.max_epochs

    def words(self) -> list[str]:
        """What starts it."""
        return [str(self.every), self.source, str(self.workers), str(self.max_epochs)]


def plain_loops(every: int) -> list[Loop]:
    """The loop at its kindest, without its workers, and as released (slow, so little of it)."""
    return [
        Loop("plain loop, clips in memory", "memory", 0, every),
        Loop("plain loop, a file a clip", "files", 0, every),
        Loop("plain loop as released, 19 workers", "files", 19, 1000, max_epochs=3),
    ]


def measure_zoo(
    rounds: int = 1, *, every: int = 16, n_jobs: int = 0, progress: Progress | None = None
) -> BenchResult:
    """Time both runs from process start to table, and a sample of the plain loop's fits.

    Our time is for everything: start-up, reading stores, splits, fits, baselines, intervals, files.
    The loop's time for all fits is its time for one optimisation step, start-up not counted, times
    the steps of all fits; where two of our fits share steps, the loop has to take them twice.
    """
    need("torch", "mlp", "the plain loop that is timed")
    loops = plain_loops(every)
    with TemporaryDirectory(prefix="obygaze-bench-") as name:
        workspace = Path(name)
        write_workspace(workspace)
        notes = [workspace / f"{i}.json" for i in range(len(loops))]
        contestants = [Contestant(OURS, ["sh", "-c", _both_runs(workspace, n_jobs)])]
        for loop, note in zip(loops, notes, strict=True):
            argv = ["-m", "obygaze_models.bench_work", name, *loop.words(), str(note)]
            title = f"{loop.name}, 1 fit in {loop.every}"
            contestants.append(Contestant(title, [sys.executable, *argv]))
        result = compare(
            "Table 2 (two backbones) and Table 4: 122 perceptrons, baselines and intervals",
            contestants,
            reference=OURS,
            rounds=rounds,
            warmups=0,
            packages=("numpy", "scikit-learn", "torch"),
            progress=progress,
        )
        done = [json.loads(note.read_text(encoding="utf-8")) for note in notes]
        steps = count_steps(workspace)
        parts = {
            folder.name: read_run(folder).about["seconds"]
            for folder in sorted((workspace / "runs").iterdir())
        }
    facts: dict[str, object] = {"optimisation steps of all fits": steps}
    for title, seconds in parts.items():
        told = ", ".join(f"{part} {value:.1f}" for part, value in seconds.items())
        facts[f"seconds of {title}"] = told
    facts["every fit of a loop"] = (
        "an estimate: the time of one of its steps, times the steps of all fits"
    )
    for loop, sample in zip(loops, done, strict=True):
        whole_s = sample["seconds"] / sample["steps"] * steps
        times = whole_s / result.timing(OURS).median_s
        facts[f"{loop.name}, every fit"] = f"{duration(whole_s)}, {times:.0f} times ours"
    return replace(result, facts=facts)


def _both_runs(workspace: Path, n_jobs: int) -> str:
    """The two commands, one after the other, each a process of its own."""
    start = [sys.executable, "-m", "obygaze", "-C", str(workspace), "run"]
    same = ["--manifest", NAME, "--jobs", str(n_jobs), "--json"]
    lines = [[*start, name, *stores, *same, "-o", name] for name, stores in RUNS]
    return " && ".join(shlex.join(line) for line in lines)


@click.command(
    name="zoo",
    cls=ExampleCommand,
    examples="""
    obygaze bench zoo
    obygaze bench zoo --jobs 1 --json
    """,
)
@click.option("--rounds", type=click.IntRange(1), default=1, show_default=True, help="Rounds.")
@click.option(
    "--every",
    type=click.IntRange(1),
    default=16,
    show_default=True,
    help="The plain loop trains one fit in so many.",
)
@click.option(
    "--jobs",
    "n_jobs",
    type=click.IntRange(0),
    default=0,
    help="Processes that share our fits (default: one a core).",
)
@json_option
@pass_session
def bench_zoo(session: Session, rounds: int, every: int, n_jobs: int, as_json: bool) -> None:
    """Tables 2 and 4 from stores to tables, beside a plain PyTorch loop."""
    n_runs = rounds * (1 + len(plain_loops(every)))
    with session.console.progress("zoo", n_runs, "runs") as progress:
        result = measure_zoo(rounds, every=every, n_jobs=n_jobs, progress=progress)
    if as_json:
        session.console.json(result.as_json())
    else:
        session.console.result(result.as_text())
