"""`python -m benchmarks`: compare obygaze with other tools, and print the figures."""

from __future__ import annotations

import importlib
import os

import click

from benchmarks.sweeps import BEFORE
from obygaze_features.core.console import Console

# Each is a function from `quick` to a text.
BENCHMARKS = {
    "decode": "benchmarks.decode.comparison:measure",
    "clips": "benchmarks.decode.comparison:measure_clips",
    "real": "benchmarks.decode.comparison:measure_real",
    "sound": "benchmarks.sound.comparison:measure",
    "stores": "benchmarks.stores:measure",
    "requests": "benchmarks.stores:measure_requests",
    "filling": "benchmarks.filling:measure",
    "fit": "benchmarks.fit:measure",
    "concepts": "benchmarks.concepts:measure",
    "words": "benchmarks.words:measure",
    "night": "benchmarks.night:measure",
    "waiting": "benchmarks.waiting:measure",
    "sweeps": "benchmarks.sweeps:measure",
    "windows": "benchmarks.windows:measure",
    "runs": "benchmarks.runs:measure",
}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)))
@click.option(
    "--quick", is_flag=True, help="Small sizes, single rounds: shows that all work."
)
@click.option(
    "--before",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    help="Another checkout, with its environment in .venv, for sweeps, windows and runs.",
)
def main(names: tuple[str, ...], quick: bool, before: str | None) -> None:
    """Run the benchmarks NAMES, by default all, one after another."""
    console = Console()
    if before:
        os.environ[BEFORE] = before
    for name in names or BENCHMARKS:
        console.note(f"{name} ...")
        module, function = BENCHMARKS[name].split(":")
        measure = getattr(importlib.import_module(module), function)
        console.result(f"# {name}\n\n{measure(quick)}\n")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
