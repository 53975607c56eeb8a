"""`obygaze extract plan` and `slurm`, and the options that choose what to extract."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from obygaze_features.core.commands import (
    FiniteRange,
    Session,
    attention_option,
    command,
    dtype_option,
    force_option,
    json_option,
    named_values,
    option_group,
)
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import sha256_bytes, write_new
from obygaze_features.extraction.commands import workers_option
from obygaze_features.extraction.plan import (
    SAMPLINGS,
    ExtractPlan,
    make_plan,
    read_plan_file,
    write_plan,
)
from obygaze_features.manifest.io import read_manifest

if TYPE_CHECKING:
    from obygaze_features.extraction.slurm import SlurmArray
    from obygaze_features.extraction.submission import Submission

_SETTINGS = ("sampling", "dtype", "attention", "tf32", "compiled", "compressor")
# These are fixed by the file of a plan; only --timeout may differ between machines.
_FIXED = (
    *("backbones", "levels", "weights", "stores"),
    *_SETTINGS,
    *("licence", "citation", "max_substituted"),
)
LICENCE_HELP = "The licence of the features. [default: the manifest's]"
CITATION_HELP = "What to cite for them. [default: the manifest's]"

feature_options = option_group(
    "Features",
    click.option(
        *("-b", "backbones"),
        multiple=True,
        metavar="NAME",
        help="A backbone, or your own code (FILE.py:FUNCTION); can be repeated.",
    ),
    click.option(
        "--levels", metavar="A,B", help="Feature levels. [default: all but tokens]"
    ),
    click.option(
        "--weights",
        multiple=True,
        metavar="[NAME=]PATH",
        help="File or folder of weights.",
    ),
    click.option(
        *("--store", "stores"),
        multiple=True,
        metavar="NAME=STORE",
        help="Store of a backbone. [default: MANIFEST.NAME]",
    ),
    click.option(
        "--sampling",
        type=click.Choice(SAMPLINGS),
        default="card",
        help="The card's rule, or key frames only: faster, other frames.",
    ),
    dtype_option,
    attention_option,
    click.option("--tf32", is_flag=True, help="Allow TF32 on a GPU."),
    click.option("--compile", "compiled", is_flag=True, help="Use torch.compile."),
    click.option(
        "--compressor",
        type=click.Choice(["zstd", "blosc"]),
        help="Compress the store. [default: none]",
    ),
    click.option("--licence", default="", show_default=False, help=LICENCE_HELP),
    click.option("--citation", default="", show_default=False, help=CITATION_HELP),
    click.option("--timeout", default=300.0, help="Seconds to decode one clip."),
    click.option(
        "--max-substituted",
        type=FiniteRange(0, 1),
        default=0.125,
        help="Fail a clip if more than this share of its frames is damaged.",
    ),
)
device_option = click.option(
    "--device", default="cpu", help="cpu, cuda, several (cuda:0,cuda:1), or cuda:all."
)
batch_option = click.option(
    "--batch",
    type=click.IntRange(1),
    help="Clips computed at once. [default: as many as fit]",
)


def chosen_plan(
    session: Session, source: str, options: Mapping[str, Any]
) -> ExtractPlan:
    """Return the plan of a file, or of a manifest and the options."""
    if source.endswith(".json"):
        return _plan_of_file(Path(source), options)
    from obygaze_features.extraction.recipes import targets_for

    manifest = read_manifest(session.workspace.existing_manifest(source))
    targets = targets_for(
        manifest,
        options["backbones"],
        session.workspace,
        stores=named_values(options["stores"], "--store"),
        weights=named_values(_named_weights(options), "--weights"),
        levels=tuple(
            filter(None, map(str.strip, (options["levels"] or "").split(",")))
        ),
        **{name: options[name] for name in _SETTINGS},
    )
    return make_plan(
        manifest,
        targets,
        workspace=session.workspace.root,
        timeout_s=options["timeout"],
        max_substituted=options["max_substituted"],
        licence=options["licence"],
        citation=options["citation"],
    )


def _named_weights(options: Mapping[str, Any]) -> list[str]:
    """Return NAME=PATH for each --weights; of a single backbone, PATH alone is enough."""
    names, words = options["backbones"], list(options["weights"])
    if len(names) == len(words) == 1 and not words[0].startswith(f"{names[0]}="):
        is_path = "=" not in words[0] or Path(words[0]).exists()
        return [f"{names[0]}={words[0]}"] if is_path else words
    return words


def _plan_of_file(path: Path, options: Mapping[str, Any]) -> ExtractPlan:
    context = click.get_current_context()
    given = {
        name
        for name in options
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    flags = {param.name: param.opts[0] for param in context.command.params}
    if fixed := [flags[name] for name in _FIXED if name in given]:
        raise FixUsage(
            f"{', '.join(fixed)} cannot be used with a plan file, which has its own settings",
            hint=f"write a new plan: obygaze extract plan MANIFEST ... -o {path}",
        )
    plan = read_plan_file(path)
    return replace(plan, timeout_s=options["timeout"]) if "timeout" in given else plan


@command()
@click.argument("manifest")
@feature_options
@device_option
@workers_option
@batch_option
@click.option(
    "--probe",
    type=click.IntRange(0),
    default=3,
    help="Decode this many clips, and time each backbone; 0 times nothing.",
)
@click.option(
    "-o",
    "out",
    type=click.Path(path_type=Path),
    help="Write the plan to a file, for workers.",
)
@force_option
def plan(
    session: Session,
    /,
    manifest: str,
    probe: int,
    out: Path | None,
    force: bool,
    **options: Any,
) -> None:
    """Estimate the cost of a run, and what is missing.

    A few clips are decoded, and one forward pass of each backbone is timed on --device if its
    weights are here. MANIFEST is a manifest's name, or the file of a plan. Nothing is written but
    the plan itself, with -o.

    Examples:
        obygaze extract plan obygaze12 -b xclip-b16-k600-zs -b vivit-b16x2-k400
        obygaze extract plan obygaze12 -b clip-b16 --levels clip,pooled,tokens --json
        obygaze extract plan obygaze12 -b clip-b16 --device cuda:all -o plan.json
    """
    from obygaze_features.extraction.devices import devices_of
    from obygaze_features.extraction.estimate import estimate
    from obygaze_features.extraction.run import Resources

    made = chosen_plan(session, manifest, options)
    resources = Resources(workers=options["workers"], batch=options["batch"])
    shares = resources.shared_by(devices_of(options["device"]))
    found = estimate(made, shares, n_probed=probe, timed=probe > 0)
    if out is not None:
        write_plan(made, out, force=force)
        session.console.note(f"wrote {out}")
    session.console.show(found.to_json(), found.to_text())


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
    from obygaze_features.extraction.slurm import submit
    from obygaze_features.extraction.submission import Submission

    made = read_plan_file(plan)
    again = "--changed" if changed else "--retry-failed" if retry_failed else ""
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
    from obygaze_features.extraction.slurm import SCRIPT_MARK
    from obygaze_features.extraction.submission import workers_of

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
    from obygaze_features.extraction.slurm import array_for
    from obygaze_features.extraction.submission import with_other_tasks, workers_of

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
    from obygaze_features.extraction.slurm import SCRIPT_MARK, array_for, minutes_of
    from obygaze_features.extraction.submission import Submission, joined_options

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
    from obygaze_features.extraction.slurm import (
        GPU_OPTIONS,
        MEMORY_OPTIONS,
        asks_for,
        memory_gb,
    )

    directives, mem_gb = options["directives"], options["mem_gb"]
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
