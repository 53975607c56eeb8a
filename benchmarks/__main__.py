"""`python -m benchmarks`: compare obygaze with other tools, and print the figures."""

from __future__ import annotations

import importlib

import click

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
    "runs": "benchmarks.runs:measure",
}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)))
@click.option(
    "--quick", is_flag=True, help="Small sizes, single rounds: shows that all work."
)
def main(names: tuple[str, ...], quick: bool) -> None:
    """Run the benchmarks NAMES, by default all, one after another."""
    console = Console()
    for name in names or BENCHMARKS:
        console.note(f"{name} ...")
        module, function = BENCHMARKS[name].split(":")
        measure = getattr(importlib.import_module(module), function)
        console.result(f"# {name}\n\n{measure(quick)}\n")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
