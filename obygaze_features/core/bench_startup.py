"""`obygaze bench startup`: the help must come at once, since it is asked for all the time."""

from __future__ import annotations

import sys

import click

from obygaze_features.core.bench import BenchResult, Contestant, compare
from obygaze_features.core.commands import ExampleCommand, Session, json_option, pass_session
from obygaze_features.core.console import Progress

REFERENCE = "python -c 'import click'"
CONTESTANTS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    REFERENCE: [sys.executable, "-c", "import click"],
    "obygaze --help": [sys.executable, "-m", "obygaze", "--help"],
    "obygaze manifest --help": [sys.executable, "-m", "obygaze", "manifest", "--help"],
    "import numpy, zarr": [sys.executable, "-c", "import numpy, zarr"],
}


def bench_startup(rounds: int = 9, progress: Progress | None = None) -> BenchResult:
    """Time the command's help beside a bare Python and beside click alone."""
    contestants = [Contestant(name, argv) for name, argv in CONTESTANTS.items()]
    return compare(
        "Start-up of the command line",
        contestants,
        reference=REFERENCE,
        rounds=rounds,
        packages=("click", "numpy", "zarr"),
        progress=progress,
    )


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze bench startup
    obygaze bench startup --rounds 21 --json
    """,
)
@click.option("--rounds", type=click.IntRange(1), default=9, show_default=True, help="Rounds.")
@json_option
@pass_session
def startup(session: Session, rounds: int, as_json: bool) -> None:
    """How soon the command line answers."""
    total = (rounds + 1) * len(CONTESTANTS)
    with session.console.progress("startup", total, "runs") as progress:
        result = bench_startup(rounds, progress)
    if as_json:
        session.console.json(result.as_json())
    else:
        session.console.result(result.as_text())
