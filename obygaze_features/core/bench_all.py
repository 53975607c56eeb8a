"""`obygaze bench all`: every bench in one run on one machine, as one page."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from obygaze_features.core.commands import ExampleCommand, Session, json_option, pass_session
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import write_atomic
from obygaze_features.core.machine import this_machine

HEAD = """\
# Performance

<!-- not run: this page is made by `obygaze bench all -o docs/performance.md` -->

Every number here is a ratio against a named rival, taken in turns with it in one run on one
machine: medians, with the spread beside them. Absolute times are those of that machine, and of
whatever else it was doing.
"""


@dataclass(frozen=True)
class Page:
    """What each bench printed, in order."""

    outputs: Sequence[tuple[str, str, str]]
    machine: str
    made: str

    def as_markdown(self) -> str:
        """The page."""
        parts = [HEAD, f"Made {self.made} on {self.machine}.", ""]
        for name, summary, text in self.outputs:
            parts += [f"## {name}", "", summary, "", "```text", text.rstrip(), "```", ""]
        return "\n".join(parts)


@click.command(
    "all",
    cls=ExampleCommand,
    examples="""
    obygaze bench all
    obygaze bench all --only startup,store -o performance.md
    """,
)
@click.option("--only", help="These benches, joined by commas. [default: all]")
@click.option("-o", "out", type=click.Path(path_type=Path), help="Write the page here.")
@json_option
@pass_session
@click.pass_context
def bench_all(
    ctx: click.Context, session: Session, only: str | None, out: Path | None, as_json: bool
) -> None:
    """Every bench in one run, as one page.

    Takes a quarter of an hour; the machine should have nothing else to do.
    """
    from obygaze_features.core.bench_commands import COMMANDS

    wanted = only.split(",") if only else [name for name in COMMANDS if name != "all"]
    unknown = [name for name in wanted if name not in COMMANDS or name == "all"]
    if unknown:
        raise click.BadParameter(f"no bench called {', '.join(unknown)}", ctx, param_hint="--only")
    outputs = []
    for name in wanted:
        session.console.note(f"bench {name} ...")
        outputs.append((name, COMMANDS[name][1], _run(name)))
    machine = this_machine(("numpy", "zarr", "h5py", "torch", "transformers", "av")).line()
    page = Page(outputs, machine, time.strftime("%Y-%m-%d", time.gmtime()))
    if out is not None:
        write_atomic(out, page.as_markdown().encode("utf-8"))
        session.console.note(f"wrote {out}")
    if as_json:
        session.console.json({"machine": machine, **{name: text for name, _, text in outputs}})
    elif out is None:
        session.console.result(page.as_markdown())


def _run(name: str) -> str:
    """A bench in a process of its own, so that none leaves anything behind for the next."""
    words = [sys.executable, "-m", "cli", "--color", "never", "-q", "bench", name]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no words"])[0]
        raise ObygazeError(f"bench {name} ended with {done.returncode}: {last}")
    return done.stdout
