"""`obygaze extract slurm` and `obygaze bundle`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from obygaze_features.core.commands import (
    Session,
    command,
    force_option,
    json_option,
    option_group,
)
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixUsage, ObygazeError
from obygaze_features.core.files import sha256_bytes, write_new
from obygaze_features.extraction.plan import ExtractPlan, read_plan_file

if TYPE_CHECKING:
    from obygaze.extensions.cluster.slurm import SlurmArray
    from obygaze.extensions.cluster.submission import Submission


@command()
@click.argument("plan", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("run_options", nargs=-1)
@option_group(
    "Tasks",
    click.option(
        *("-k", "workers"),
        type=click.IntRange(1),
        help="Number of tasks. [default: that of the last submission]",
    ),
    click.option(
        "--at-once", type=click.IntRange(1), help="Run at most this many at a time."
    ),
    click.option("--resume", is_flag=True, help="Only tasks with missing clips."),
    click.option(
        "--retry-failed",
        is_flag=True,
        help="Only tasks with failed clips, to retry these.",
    ),
    click.option(
        "--changed",
        is_flag=True,
        help="As --retry-failed, and also clips whose times or video changed.",
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
    click.option("--container", metavar="IMAGE", help="Run in this Apptainer image."),
    click.option(
        *("--time", "walltime"),
        default="01:00",
        metavar="HH:MM",
        help="Time limit, after which a task requeues itself.",
    ),
    click.option(
        *("--sbatch", "directives"),
        multiple=True,
        metavar="OPTION",
        help="Another option of sbatch, such as --partition=gpu; can be repeated.",
    ),
    click.option(
        "--setup",
        multiple=True,
        metavar="LINE",
        help="A line of shell for each task, such as 'module load cuda'; can be repeated.",
    ),
)
@option_group(
    "Output",
    click.option(
        "-o",
        "out",
        type=click.Path(path_type=Path),
        help="File of the script. [default: PLAN with .sbatch]",
    ),
    click.option(
        "--submit", "submit_now", is_flag=True, help="Submit the script with sbatch."
    ),
    force_option,
    json_option,
)
def slurm(
    session: Session,
    /,
    plan: Path,
    out: Path | None,
    resume: bool,
    retry_failed: bool,
    changed: bool,
    submit_now: bool,
    force: bool,
    **settings: Any,
) -> None:
    """Write a plan as a Slurm array, and submit it.

    Each task runs `obygaze extract run PLAN --worker I/K`; options for it follow `--`. Tasks that
    are preempted or reach the time limit requeue themselves until all is done.

    The options are kept beside the plan (PLAN with .slurm.json). --resume, --retry-failed and
    --changed use them again, with those that are given now; a script that you edited keeps your
    edits.

    Examples:
        obygaze extract slurm plan.json -k 8 --gres gpu:1 --cpus 8 -- --device cuda
        obygaze extract slurm plan.json -k 8 --at-once 2 --time 04:00 --sbatch --partition=gpu
        obygaze extract slurm plan.json -k 8 --setup 'module load cuda' --setup 'source env.sh'
        obygaze extract slurm plan.json --resume --submit
        obygaze extract slurm plan.json --retry-failed --submit
    """
    from obygaze.extensions.cluster.slurm import submit
    from obygaze.extensions.cluster.submission import Submission

    made = read_plan_file(plan)
    again = ""
    if changed:
        again = "--changed"
    elif retry_failed:
        again = "--retry-failed"
    resume = resume or bool(again)
    earlier = Submission.of_plan(plan) if resume else None
    script = out or plan.with_suffix(".sbatch")
    if earlier is not None and out is None:
        script = plan.parent / earlier.script
    given = _given(settings)
    edited = "" if force or not resume else _edited_script(script, earlier, given)
    if edited:
        written = _script_as_edited(made, plan, script, edited, given, again)
        session.console.note(f"{script} was edited: only its tasks change")
    else:
        written = _new_script(
            made, plan, script, earlier, settings, given, resume, again, force
        )
        if earlier is not None and written is not None:
            session.console.note(
                f"options of the last submission: {Submission.path_of(plan)}"
            )
    if written is None:
        empty = {"job": None, "script": None}
        nothing_left = "no clip to extract again" if again else "no clip is missing"
        session.console.show(empty, f"{nothing_left}; nothing to submit")
        return
    job = submit(script) if submit_now else None
    array, text = written
    text = f"{script}: array {array.array} of {array.workers} workers, {text}"
    text += f", submitted as job {job}" if job else f"; to submit it: sbatch {script}"
    document = {
        "job": job,
        "script": str(script),
        "tasks": list(array.tasks),
        "array": array.array,
        "minutes": None if edited else array.minutes,
        "mem_gb": array.mem_gb,
    }
    session.console.show(document, text)


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that were given on the command line."""
    context = click.get_current_context()
    return {
        name: value
        for name, value in settings.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        and (value or name != "run_options")
    }


def _edited_script(
    script: Path, earlier: Submission | None, given: Mapping[str, Any]
) -> str:
    """Return the script of an earlier submission if a person edited it, else "".

    Raise an error if options are given that it would not get.
    """
    from obygaze.extensions.cluster.slurm import SCRIPT_MARK
    from obygaze.extensions.cluster.submission import workers_of

    data = script.read_bytes() if script.is_file() else b""
    if SCRIPT_MARK not in data or (earlier is not None and not earlier.is_edited(data)):
        return ""
    text = data.decode("utf-8")
    other = [
        name for name in given if name != "workers" or given[name] != workers_of(text)
    ]
    if other:
        flags = {
            param.name: param.opts[0]
            for param in click.get_current_context().command.params
        }
        names = ", ".join(
            "-- OPTIONS" if name == "run_options" else flags[name] for name in other
        )
        raise FixUsage(
            f"this script was edited since it was written, or its options are not known: "
            f"{names} would not be in it",
            where=str(script),
            hint="give no options and edit the script, or --force writes it anew",
        )
    return text


def _script_as_edited(
    made: ExtractPlan,
    plan: Path,
    script: Path,
    text: str,
    given: Mapping[str, Any],
    again: str,
) -> tuple[SlurmArray, str] | None:
    """Change the tasks of an edited script; None if no task has anything to do."""
    from obygaze.extensions.cluster.slurm import array_for
    from obygaze.extensions.cluster.submission import with_other_tasks, workers_of

    workers = given.get("workers") or workers_of(text) or 1
    array = array_for(made, plan, workers, resume=True, again=again)
    if array is None:
        return None
    changed = with_other_tasks(text, array.array, again, str(script))
    write_new(script, changed.encode("utf-8"), force=True)
    return array, "as edited"


def _new_script(
    made: ExtractPlan,
    plan: Path,
    script: Path,
    earlier: Submission | None,
    settings: Mapping[str, Any],
    given: Mapping[str, Any],
    resume: bool,
    again: str,
    force: bool,
) -> tuple[SlurmArray, str] | None:
    """Write a script, and keep its options; None if no task has anything to do."""
    from obygaze.extensions.cluster.slurm import SCRIPT_MARK, array_for, minutes_of
    from obygaze.extensions.cluster.submission import Submission, joined_options

    options = dict(settings)
    if earlier is not None:
        names = options.keys()
        options = joined_options(
            {name: getattr(earlier, name) for name in names}, given
        )
    workers = options["workers"]
    if workers is None:
        raise FixUsage(
            "-k is missing: the number of tasks", hint="obygaze extract slurm PLAN -k 8"
        )
    minutes = minutes_of(options["walltime"])
    where = plan.resolve()
    array = array_for(made, where, workers, resume=resume, again=again, minutes=minutes)
    if array is None:
        return None
    of_array = {
        n: options[n] for n in options if n not in ("workers", "walltime", "mem_gb")
    }
    folder = Path.cwd() if earlier is None else Path(earlier.folder)
    array = replace(array, mem_gb=_memory(made, options), folder=folder, **of_array)
    array.log_folder.mkdir(parents=True, exist_ok=True)
    data = array.script(made).encode("utf-8")
    # Resuming replaces the script of the run before, not any file of that name.
    is_ours = resume and script.is_file() and SCRIPT_MARK in script.read_bytes()
    write_new(script, data, force=force or is_ours)
    submission = Submission(
        script=os.path.relpath(script.resolve(), where.parent),
        folder=str(folder),
        sha256=sha256_bytes(data),
        **options,
    )
    submission.write(plan)
    text = f"{array.minutes} minutes each"
    text += f" with {array.mem_gb} GB of memory" if array.mem_gb else ""
    return array, text


def _memory(made: ExtractPlan, options: Mapping[str, Any]) -> int | None:
    """Return the GB that a task asks for; None for no request."""
    from obygaze.extensions.cluster.slurm import (
        GPU_OPTIONS,
        MEMORY_OPTIONS,
        asks_for,
        memory_gb,
    )

    directives = options["directives"]
    mem_gb = options["mem_gb"]
    if mem_gb is None and asks_for(directives, MEMORY_OPTIONS):
        return None
    if mem_gb is not None:
        return mem_gb or None
    resources = [
        options["gres"] or "",
        *(d for d in directives if asks_for([d], ["gres"])),
    ]
    has_gpu = asks_for(directives, GPU_OPTIONS) or any(
        "gpu" in text for text in resources
    )
    return memory_gb(made, options["cpus"], gpu=has_gpu)


@command("bundle")
@click.argument("plan", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("pip_words", nargs=-1, metavar="[-- PIP_OPTIONS...]")
@click.option(
    "-o", "folder", type=click.Path(path_type=Path), required=True, help="A new folder."
)
def bundle(
    session: Session, plan: Path, pip_words: tuple[str, ...], folder: Path
) -> None:
    """Collect what a plan needs, for a node without a network.

    The folder holds packages, weights, the plan, and a README with the commands to type on the
    node. Options of pip and the names of further packages follow `--`. The same command again adds
    what is missing; remove the folder `wheels` to collect the packages again.

    Examples:
        obygaze bundle plan.json -o night
        obygaze bundle plan.json -o night -- -c constraints.txt ./my-plugin
        obygaze bundle plan.json -o night -- --index-url https://download.pytorch.org/whl/cu126
    """
    from obygaze.extensions.cluster.bundle import make_bundle

    missing = make_bundle(read_plan_file(plan), folder, pip_words)
    if missing:
        details: list[str] = []
        for error in missing:
            details += str(error).splitlines()
        raise ObygazeError(
            f"the bundle is not complete: {count(len(missing), 'checkpoint')} missing",
            where=str(folder),
            hint="the same command again, when the lines above are corrected",
            details=details,
        )
    session.console.show(
        {"folder": str(folder)}, f"{folder}: complete; copy it to the node"
    )
