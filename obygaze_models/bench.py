"""`obygaze bench zoo`: all perceptrons of Tables 2 and 4, ours beside the plain loop."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from obygaze_features.core.bench import BenchResult, Contestant, compare, duration
from obygaze_features.core.commands import ExampleCommand, Session, json_option, pass_session
from obygaze_features.core.console import Progress
from obygaze_features.core.extras import need
from obygaze_models.bench_work import SETTINGS

OURS = "obygaze, every fit"


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
        return ["loop", str(self.every), self.source, str(self.workers), str(self.max_epochs)]


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
    """Time our tables from process start to the last fit, and a sample of the plain loop's fits.

    The loop's time for all fits is its time for one optimisation step, start-up not counted, times
    the steps of all fits; where two of our fits share steps, the loop has to take them twice.
    """
    need("torch", "mlp", "the plain loop that is timed")
    loops = plain_loops(every)
    with TemporaryDirectory(prefix="obygaze-bench-") as folder:
        words = {OURS: ["ours", str(n_jobs)]}
        words |= {f"{loop.name}, 1 fit in {loop.every}": loop.words() for loop in loops}
        notes = [Path(folder) / f"{i}.json" for i in range(len(words))]
        contestants = [
            Contestant(name, [sys.executable, "-m", "obygaze_models.bench_work", *argv, str(note)])
            for (name, argv), note in zip(words.items(), notes, strict=True)
        ]
        result = compare(
            "Perceptrons of Table 2 (two backbones) and Table 4: 122 fits",
            contestants,
            reference=OURS,
            rounds=rounds,
            warmups=0,
            packages=("numpy", "scikit-learn", "torch"),
            progress=progress,
        )
        done = [json.loads(note.read_text(encoding="utf-8")) for note in notes]
    facts: dict[str, object] = {"optimisation steps of all fits": done[0]["steps"]}
    for loop, sample in zip(loops, done[1:], strict=True):
        whole_s = sample["seconds"] / sample["steps"] * done[0]["steps"]
        times = whole_s / result.timing(OURS).median_s
        facts[f"{loop.name}, every fit"] = f"{duration(whole_s)}, {times:.0f} times ours"
    return replace(result, facts=facts)


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
    """Our fits of Tables 2 and 4 beside a plain PyTorch loop."""
    n_runs = rounds * (1 + len(plain_loops(every)))
    with session.console.progress("zoo", n_runs, "runs") as progress:
        result = measure_zoo(rounds, every=every, n_jobs=n_jobs, progress=progress)
    if as_json:
        session.console.json(result.as_json())
    else:
        session.console.result(result.as_text())
