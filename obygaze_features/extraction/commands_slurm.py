"""`obygaze extract slurm`: a plan as a Slurm array."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import (
    ExampleCommand,
    Session,
    force_option,
    json_option,
    pass_session,
)
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import write_new

WALLTIME = re.compile(
    r"(?:(?P<days>\d+)-)?(?P<hours>\d{1,3}):(?P<minutes>\d\d)(?::(?P<seconds>\d\d))?"
)


@click.command(
    cls=ExampleCommand,
    examples="""
    obygaze extract slurm plan.json -k 8 --gres gpu:1 --cpus 8 -- --device cuda
    obygaze extract slurm plan.json -k 8 --at-once 2 --time 04:00 --partition gpu --submit
    obygaze extract slurm plan.json -k 8 --resume --submit
    """,
)
@click.argument("plan", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("run_options", nargs=-1)
@click.option("-k", "workers", type=click.IntRange(1), required=True, help="Tasks of the array.")
@click.option("--at-once", type=click.IntRange(1), help="Run at most this many tasks at a time.")
@click.option("--cpus", type=click.IntRange(1), default=4, show_default=True, help="Cores a task.")
@click.option("--gres", help="Other resources of a task, such as gpu:1.")
@click.option("--partition", help="Partition. [default: Slurm's]")
@click.option("--time", "walltime", metavar="HH:MM", help="[default: by the speed so far, or 1 h]")
@click.option(
    "--warning",
    "warning_s",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    help="Seconds before the limit at which a task stops and requeues itself.",
)
@click.option(
    "--sbatch",
    "directives",
    multiple=True,
    metavar="OPTION",
    help="As --account=lab; repeat.",
)
@click.option(
    "--logs",
    type=click.Path(path_type=Path),
    default="logs",
    show_default=True,
    help="Folder of the logs, which are appended to.",
)
@click.option("-o", "out", type=click.Path(path_type=Path), help="[default: PLAN as .sbatch]")
@click.option("--resume", is_flag=True, help="Only tasks with something left to do.")
@click.option("--submit", "submit_now", is_flag=True, help="Submit it with sbatch.")
@force_option
@json_option
@pass_session
def slurm(
    session: Session,
    /,
    plan: Path,
    workers: int,
    walltime: str | None,
    out: Path | None,
    resume: bool,
    submit_now: bool,
    force: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Write a plan as a Slurm array, and submit it.

    Each task runs `obygaze extract run PLAN --worker I/K`; options for it follow `--`. Tasks that
    are preempted or reach the time limit requeue themselves until all is done.
    """
    from obygaze_features.extraction.plan import read_plan_file
    from obygaze_features.extraction.slurm import SCRIPT_MARK, array_for, submit

    made = read_plan_file(plan)
    minutes = None if walltime is None else minutes_of(walltime)
    array = array_for(made, plan, workers, resume=resume, minutes=minutes)
    if array is None:
        _show(session, as_json, "nothing is missing", job=None, script=None)
        return
    array = replace(array, **settings)
    script = out or plan.with_suffix(".sbatch")
    array.log_folder.mkdir(parents=True, exist_ok=True)
    # Resuming replaces the script of the run before, not any file of that name.
    again = resume and script.is_file() and SCRIPT_MARK in script.read_bytes()
    write_new(script, array.script(made).encode("utf-8"), force=force or again)
    job = submit(script) if submit_now else None
    text = f"{script}: tasks {array.array} of {workers} workers, {array.minutes} minutes each"
    text += f", submitted as job {job}" if job else f"; to submit it: sbatch {script}"
    known = {"tasks": list(array.tasks), "array": array.array, "minutes": array.minutes}
    _show(session, as_json, text, job=job, script=str(script), **known)


def minutes_of(walltime: str) -> int:
    """Return the minutes of HH:MM, HH:MM:SS or D-HH:MM, rounded up."""
    found = WALLTIME.fullmatch(walltime)
    if found is None:
        raise FixUsage(f"--time must have the form HH:MM, got {walltime!r}")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    total = days * 24 * 60 + hours * 60 + minutes + (seconds > 0)
    if not total:
        raise FixUsage("--time must be at least one minute")
    return total


def _show(session: Session, as_json: bool, text: str, **document: Any) -> None:
    if as_json:
        session.console.json(document)
    else:
        session.console.result(text)
