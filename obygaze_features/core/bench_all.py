"""`obygaze bench all`: every bench in one run on one machine, as one page."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from obygaze_features.core.bench_page import (
    GPU,
    GPU_MEANING,
    MEANINGS,
    ON_GPU,
    Page,
    Section,
    in_order,
)
from obygaze_features.core.commands import (
    ExampleCommand,
    LazyGroup,
    Session,
    json_option,
    pass_session,
)
from obygaze_features.core.errors import FixUsage, InstallExtra, ObygazeError
from obygaze_features.core.extras import need
from obygaze_features.core.files import write_atomic
from obygaze_features.core.machine import this_machine

PACKAGES = ("numpy", "zarr", "h5py", "scikit-learn", "torch", "transformers", "av")
# A bench that takes longer has come to a halt.
LIMIT_S = 1800.0
# Where a bench has no --quick of its own.
QUICK = {
    "startup": ("--rounds", "1"),
    "decode": ("--seconds", "4", "--rounds", "1"),
    "extract": ("--clips", "4", "--rounds", "1"),
    "zoo": ("--rounds", "1", "--every", "64"),
    "audits": ("--rounds", "1"),
}


@click.command(
    "all",
    cls=ExampleCommand,
    examples="""
    obygaze bench all -o docs/performance.md
    obygaze bench all --only startup,store -o performance.md
    obygaze bench all --quick --json
    """,
)
@click.option("--only", help="These benches, joined by commas; gpu is one. [default: all]")
@click.option("--rounds", type=click.IntRange(1), help="Rounds of every bench that has rounds.")
@click.option("--quick", is_flag=True, help="Small sizes, single rounds: shows that all work.")
@click.option("-o", "out", type=click.Path(path_type=Path), help="Write the page here.")
@json_option
@pass_session
@click.pass_context
def bench_all(
    ctx: click.Context,
    session: Session,
    only: str | None,
    rounds: int | None,
    quick: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Every bench in one run, as one page.

    Takes about twenty minutes; the machine should have nothing else to do. A bench that fails has
    its reason in its section, the others go on, and the exit code is 1.
    """
    if as_json and out is not None:
        raise FixUsage("-o writes the page, --json prints documents: one of the two")
    names = _chosen(ctx, only)
    commands = {name: _words(ctx, name, rounds, quick) for name in names}
    sections, documents = [], []
    for number, (name, words) in enumerate(commands.items(), start=1):
        session.console.note(f"bench {name} ({number} of {len(names)}) ...")
        section = run_section(name, words, as_json)
        told = "nothing" if section.why_not else f"{section.seconds:.0f} s"
        told = f"failed. {section.why_not}" if section.failed else told
        session.console.note(f"bench {name}: {told}")
        documents.append(section.as_json(json.loads(section.output or "null") if as_json else None))
        sections.append(section)
    settings = " Small sizes and single rounds: it only shows that all work." if quick else ""
    machine = this_machine(PACKAGES).line()
    page = Page(sections, machine, time.strftime("%Y-%m-%d", time.gmtime()), settings)
    if out is not None:
        write_atomic(out, page.as_markdown().encode("utf-8"))
        session.console.note(f"wrote {out}")
    elif as_json:
        session.console.json({"made": page.made, "machine": machine, "sections": documents})
    else:
        session.console.result(page.as_markdown())
    if page.failed:
        raise ObygazeError(f"{', '.join(page.failed)} failed; the other sections are whole")


def run_section(name: str, words: Sequence[str], as_json: bool = False) -> Section:
    """A bench in a process of its own, so that none leaves anything behind for the next."""
    title, meaning = name, MEANINGS.get(name, "")
    if name == GPU:
        title, meaning = "On a GPU", GPU_MEANING
        if why_not := no_gpu():
            return Section(name, title, meaning, 0.0, why_not=why_not)
    options = ["--color", "never", "-q", *words, *(["--json"] if as_json else [])]
    started = time.monotonic()
    why_not, output = _call(options)
    seconds = time.monotonic() - started
    return Section(name, title, meaning, seconds, output, why_not, failed=bool(why_not))


def no_gpu() -> str:
    """Why nothing can be measured on a GPU here; empty where it can."""
    again = f"`obygaze {' '.join(ON_GPU)}` is what to run on a machine with one."
    try:
        torch = need("torch", "extract", "a bench on a GPU")
    except InstallExtra as error:
        return f"Nothing here: {error.what}. {again}"
    if torch.cuda.is_available():
        return ""
    if torch.version.cuda is None:
        return f"Nothing here: this PyTorch ({torch.__version__}) is built without CUDA. {again}"
    return f"Nothing here: PyTorch sees no GPU on this machine. {again}"


def _chosen(ctx: click.Context, only: str | None) -> list[str]:
    known = {**_benches(ctx), GPU: None}
    wanted = [name.strip() for name in only.split(",")] if only else list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise click.BadParameter(f"no bench called {', '.join(unknown)}", ctx, param_hint="--only")
    return in_order(list(dict.fromkeys(wanted)), known)


def _benches(ctx: click.Context) -> Mapping[str, Any]:
    """The benches of the group this command is one of."""
    group = ctx.parent.command if ctx.parent else None
    table = group.table if isinstance(group, LazyGroup) else {}
    return {name: entry for name, entry in table.items() if name != ctx.command.name}


def _words(ctx: click.Context, name: str, rounds: int | None, quick: bool) -> list[str]:
    """The command of a bench, with the rounds it is to have."""
    words = list(ON_GPU) if name == GPU else ["bench", name]
    name = words[1]
    known = _options(ctx, name)
    if quick:
        words += ["--quick"] if "--quick" in known else QUICK.get(name, ())
    elif rounds and "--rounds" in known:
        words += ["--rounds", str(rounds)]
    return words


def _options(ctx: click.Context, name: str) -> set[str]:
    group = ctx.parent.command if ctx.parent else None
    command = group.get_command(ctx, name) if isinstance(group, LazyGroup) else None
    return {option for param in (command.params if command else ()) for option in param.opts}


def _call(options: Sequence[str]) -> tuple[str, str]:
    """Why a command failed, and what it printed; one of the two is empty."""
    words = [sys.executable, "-m", "obygaze", *options]
    try:
        done = subprocess.run(
            words, capture_output=True, encoding="utf-8", check=False, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return f"It was not done after {LIMIT_S / 60:.0f} minutes.", ""
    if done.returncode == 0:
        return "", done.stdout
    said = done.stderr.strip().splitlines() or ["it said nothing"]
    last = next((line for line in said if line.startswith("Error")), said[-1])
    return f"It ended with exit code {done.returncode}: {last}", ""
