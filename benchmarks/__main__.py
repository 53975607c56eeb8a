"""`python -m benchmarks`: run benchmarks and write their results as one page."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from benchmarks.pages import BENCHMARKS, Page, chosen, measure_section
from benchmarks.timing import Settings
from obygaze_features.core.console import Console
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import write_atomic
from obygaze_features.core.machine import this_machine

PACKAGES = ("numpy", "zarr", "h5py", "scikit-learn", "torch", "transformers", "av")


@click.command(epilog=f"NAMES: {', '.join(BENCHMARKS)}.")
@click.argument("names", nargs=-1)
@click.option(
    "--quick", is_flag=True, help="Small sizes, single rounds: shows that all work."
)
@click.option("--rounds", type=click.IntRange(1), help="Rounds of every benchmark.")
@click.option("-o", "out", type=click.Path(path_type=Path), help="Write the page here.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document, not the page."
)
def main(
    names: tuple[str, ...],
    quick: bool,
    rounds: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run the benchmarks NAMES, by default all, and print one page of their results.

    All take about ten minutes on a machine that has nothing else to do. If one fails, its section
    says why, the others run, and the exit code is 1.
    """
    console = Console()
    settings = Settings(quick, rounds)
    wanted = chosen(names)
    sections = []
    for number, name in enumerate(wanted, start=1):
        console.note(f"{name} ({number} of {len(wanted)}) ...")
        section = measure_section(name, settings)
        console.note(f"{name}: {section.why_not or f'{section.seconds:.0f} s'}")
        sections.append(section)
    date = time.strftime("%Y-%m-%d", time.gmtime())
    page = Page(sections, this_machine(PACKAGES).line(), date, quick)
    if out is not None:
        write_atomic(out, page.as_markdown().encode("utf-8"))
        console.note(f"wrote {out}")
    if as_json:
        console.json(page.to_json())
    elif out is None:
        console.result(page.as_markdown())
    if page.failed:
        raise click.ClickException(f"{', '.join(page.failed)} failed")


def run() -> None:
    """Run the command; errors of the program become its message and exit code."""
    try:
        main(prog_name="python -m benchmarks")
    except ObygazeError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    run()
