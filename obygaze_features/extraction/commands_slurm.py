"""`obygaze extract slurm`: a plan as a Slurm array."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from obygaze_features.core.commands import Session, command, force_option, json_option, option_group
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import write_new

_PATH = click.Path(path_type=Path)
# [D-]HH:MM[:SS]
WALLTIME = re.compile(r"(?:(\d+)-)?(\d{1,3}):(\d\d)(?::(\d\d))?")


@command()
@click.argument("plan", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("run_options", nargs=-1)
@option_group(
    "Tasks",
    click.option("-k", "workers", type=click.IntRange(1), required=True, help="Number of tasks."),
    click.option("--at-once", type=click.IntRange(1), help="Run at most this many at a time."),
    click.option("--resume", is_flag=True, help="Only tasks with missing clips."),
    click.option(
        *("--warning", "warning_s"),
        type=click.IntRange(1),
        default=60,
        help="Seconds before the limit at which a task stops and requeues itself.",
    ),
)
@option_group(
    "Slurm",
    click.option("--cpus", type=click.IntRange(1), default=4, help="Cores a task."),
    click.option(
        *("--mem", "mem_gb"),
        type=click.IntRange(0),
        metavar="GB",
        help="Memory of a task; 0: no request. [default: estimated]",
    ),
    click.option("--gres", help="Other resources of a task, such as gpu:1."),
    click.option("--partition", help="Partition. [default: Slurm's]"),
    click.option(
        *("--time", "walltime"),
        metavar="HH:MM",
        help="Time limit of a task. [default: by the speed so far, or 1 h]",
    ),
    click.option(
        *("--sbatch", "directives"),
        multiple=True,
        metavar="OPTION",
        help="Another option of sbatch, such as --account=lab; can be repeated.",
    ),
)
@option_group(
    "Output",
    click.option("-o", "out", type=_PATH, help="File of the script. [default: PLAN with .sbatch]"),
    click.option("--logs", type=_PATH, default="logs", help="Append logs in this folder."),
    click.option("--submit", "submit_now", is_flag=True, help="Submit the script with sbatch."),
    force_option,
    json_option,
)
def slurm(
    session: Session,
    /,
    plan: Path,
    workers: int,
    walltime: str | None,
    mem_gb: int | None,
    out: Path | None,
    resume: bool,
    submit_now: bool,
    force: bool,
    **settings: Any,
) -> None:
    """Write a plan as a Slurm array, and submit it.

    Each task runs `obygaze extract run PLAN --worker I/K`; options for it follow `--`. Tasks that
    are preempted or reach the time limit requeue themselves until all is done.

    Examples:
        obygaze extract slurm plan.json -k 8 --gres gpu:1 --cpus 8 -- --device cuda
        obygaze extract slurm plan.json -k 8 --at-once 2 --time 04:00 --partition gpu --submit
        obygaze extract slurm plan.json -k 8 --resume --submit
    """
    from obygaze_features.extraction.plan import read_plan_file
    from obygaze_features.extraction.slurm import SCRIPT_MARK, array_for, memory_gb, submit

    made = read_plan_file(plan)
    minutes = None if walltime is None else minutes_of(walltime)
    array = array_for(made, plan, workers, resume=resume, minutes=minutes)
    if array is None:
        empty = {"job": None, "script": None}
        session.console.show(empty, "no clip is missing; nothing to submit")
        return
    asks = any(line.lstrip("-").startswith("mem") for line in settings["directives"])
    if mem_gb is None:
        gpu = "gpu" in (settings["gres"] or "")
        mem_gb = 0 if asks else memory_gb(made, settings["cpus"], gpu=gpu)
    array = replace(array, mem_gb=mem_gb or None, **settings)
    script = out or plan.with_suffix(".sbatch")
    array.log_folder.mkdir(parents=True, exist_ok=True)
    # Resuming replaces the script of the run before, not any file of that name.
    again = resume and script.is_file() and SCRIPT_MARK in script.read_bytes()
    write_new(script, array.script(made).encode("utf-8"), force=force or again)
    job = submit(script) if submit_now else None
    text = f"{script}: tasks {array.array} of {workers} workers, {array.minutes} minutes each"
    text += f" with {array.mem_gb} GB of memory" if array.mem_gb else ""
    text += f", submitted as job {job}" if job else f"; to submit it: sbatch {script}"
    document = {
        "job": job,
        "script": str(script),
        "tasks": list(array.tasks),
        "array": array.array,
        "minutes": array.minutes,
        "mem_gb": array.mem_gb,
    }
    session.console.show(document, text)


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
