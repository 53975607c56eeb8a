"""Write a plan as a Slurm array with the options of a person, and submit it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from obygaze_features.core.console import count, silent
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import sha256_bytes, write_new
from obygaze_features.core.function_commands import flags_of
from obygaze_features.core.options import Option
from obygaze_features.extraction.plan import ExtractPlan
from obygaze_features.extraction.planning import is_given, read_plan_of

if TYPE_CHECKING:
    from obygaze.extensions.cluster.slurm import SlurmArray
    from obygaze.extensions.cluster.submission import Submission
    from obygaze_features.extraction.estimate import CostEstimate

TASKS = "Tasks"
SLURM = "Slurm"
OUTPUT = "Output"
# What an option that is not given has in a first submission.
DEFAULTS: Mapping[str, Any] = {
    "workers": None,
    "at_once": None,
    "cpus": 4,
    "mem_gb": None,
    "gres": None,
    "container": None,
    "walltime": "01:00",
    "directives": (),
    "setup": (),
    "run_options": (),
}


@dataclass(frozen=True)
class WrittenArray:
    """A Slurm array that was written, and its job if it was submitted.

    There is no array if no task has anything to do; `nothing_left` says what is not there then.
    `about` says what a task asks for, or that the script is as a person edited it.
    """

    script: Path
    array: SlurmArray | None = None
    about: str = ""
    is_edited: bool = False
    job: str | None = None
    nothing_left: str = ""
    warnings: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the job, the script and the tasks."""
        if self.array is None:
            return {"job": None, "script": None}
        return {
            "job": self.job,
            "script": str(self.script),
            "tasks": list(self.array.tasks),
            "array": self.array.array,
            "minutes": None if self.is_edited else self.array.minutes,
            "mem_gb": self.array.mem_gb,
        }

    def __str__(self) -> str:
        if self.array is None:
            return f"{self.nothing_left}; nothing to submit"
        from obygaze.extensions.cluster.slurm import sbatch_words

        arrays = self.array.arrays
        name = "array" if len(arrays) == 1 else f"{len(arrays)} arrays,"
        tasks = f"{name} {', '.join(arrays.values())} of {self.array.workers} workers"
        calls = sbatch_words(self.script, self.array.arrays)
        then = (
            f"to submit it: {'; '.join(f'sbatch {shlex.join(call)}' for call in calls)}"
        )
        if self.job:
            then = f"submitted as job {self.job}"
        separator = "," if self.job else ";"
        return f"{self.script}: {tasks}, {self.about}{separator} {then}"


def write_array(
    plan: Annotated[str | Path, Option(is_file=True)],
    run_options: Sequence[str] = (),
    *,
    workers: Annotated[int | None, Option("-k --tasks", least=1, group=TASKS)] = None,
    at_once: Annotated[int | None, Option(least=1, group=TASKS)] = None,
    resume: Annotated[bool, Option(group=TASKS)] = False,
    retry_failed: Annotated[bool, Option(group=TASKS)] = False,
    changed: Annotated[bool, Option(group=TASKS)] = False,
    cpus: Annotated[int | None, Option(least=1, group=SLURM, shown_default="4")] = None,
    mem_gb: Annotated[
        int | None, Option("--mem", least=0, metavar="GB", group=SLURM)
    ] = None,
    gres: Annotated[str | None, Option(group=SLURM)] = None,
    container: Annotated[str | None, Option(metavar="IMAGE", group=SLURM)] = None,
    walltime: Annotated[
        str | None,
        Option("--time", metavar="HH:MM", group=SLURM, shown_default="01:00"),
    ] = None,
    directives: Annotated[
        Sequence[str], Option("--sbatch", metavar="OPTION", group=SLURM)
    ] = (),
    setup: Annotated[Sequence[str], Option(metavar="LINE", group=SLURM)] = (),
    out: Annotated[
        str | Path | None, Option("-o --output", metavar="PATH", group=OUTPUT)
    ] = None,
    submit: Annotated[bool, Option(group=OUTPUT)] = False,
    force: Annotated[bool, Option(group=OUTPUT)] = False,
    note: Callable[[str], object] = silent,
) -> WrittenArray:
    """Write a plan as a Slurm array, and submit it.

    Each task runs `obygaze extract run PLAN --worker I/K` on the device of the plan; options for it
    follow `--`. Tasks that are preempted or reach the time limit requeue themselves until all is
    done.

    The options are kept beside the plan (PLAN with .slurm.json). --resume, --retry-failed and
    --changed use them again, with those that are given now; a script that you edited keeps your
    edits.

    Args:
        plan: The file of the plan.
        run_options: Options of `obygaze extract run` for each task.
        workers: Number of tasks. [default: that of the last submission]
        at_once: Run at most this many at a time.
        resume: Only tasks with missing clips.
        retry_failed: Only tasks with failed clips, to retry these.
        changed: As --retry-failed, and also clips whose times or video changed.
        cpus: Cores a task.
        mem_gb: Memory of a task; 0: no request. [default: estimated]
        gres: Other resources of a task, such as gpu:1.
        container: Run in this Apptainer image.
        walltime: Time limit, after which a task requeues itself; also HH:MM:SS, D-HH:MM:SS or
            8h.
        directives: Another option of sbatch, such as --partition=gpu.
        setup: A line of shell for each task, such as 'module load cuda'.
        out: File of the script. [default: PLAN with .sbatch]
        submit: Submit the script with sbatch.
        force: Replace the output if it exists.
        note: Is called with what is taken over from the last submission.

    Commands:
        obygaze extract slurm plan.json -k 8 --gres gpu:1 --cpus 8 -- --device cuda
        obygaze extract slurm plan.json -k 8 --at-once 2 --time 04:00 --sbatch --partition=gpu
        obygaze extract slurm plan.json -k 8 --setup 'module load cuda' --setup 'source env.sh'
        obygaze extract slurm plan.json --resume --submit
        obygaze extract slurm plan.json --retry-failed --submit
    """
    from obygaze.extensions.cluster.run_options import check_run_options
    from obygaze.extensions.cluster.slurm import IDLE_GPU, NO_WORK, leaves_gpu_idle
    from obygaze.extensions.cluster.slurm import submit as submit_script
    from obygaze.extensions.cluster.submission import Submission

    options = {
        "workers": workers,
        "at_once": at_once,
        "cpus": cpus,
        "mem_gb": mem_gb,
        "gres": gres,
        "container": container,
        "walltime": walltime,
        "directives": directives,
        "setup": setup,
        "run_options": run_options,
    }
    given = {name: value for name, value in options.items() if is_given(value)}
    plan_file = Path(plan)
    made = read_plan_of(plan_file)
    check_run_options(made, run_options)
    again = ""
    if changed:
        again = "--changed"
    elif retry_failed:
        again = "--retry-failed"
    resume = resume or bool(again)
    earlier = Submission.of_plan(plan_file) if resume else None
    if force and not resume:
        dropped = _dropped_options(Submission.of_plan(plan_file), given)
        if dropped:
            note(
                f"the last submission had {', '.join(dropped)}, which this one does not have; "
                "--resume keeps them"
            )
    script = plan_file.with_suffix(".sbatch")
    if out is not None:
        script = Path(out)
    elif earlier is not None:
        script = plan_file.parent / earlier.script
    edited = "" if force or not resume else _edited_script(script, earlier, given)
    if edited:
        written = _script_as_edited(made, plan_file, script, edited, given, again)
        note(f"{script} was edited: only its tasks change")
    else:
        written = _new_script(
            made, plan_file, script, earlier, given, resume, again, force
        )
        if earlier is not None and written is not None:
            note(f"options of the last submission: {Submission.path_of(plan_file)}")
    if written is None or written.array is None:
        nothing_left = "no clip to extract again" if again else "no clip is missing"
        return WrittenArray(script, nothing_left=nothing_left)
    job = submit_script(script, written.array.arrays) if submit else None
    warnings = list(written.warnings)
    if not written.array.has_work:
        warnings.append(NO_WORK)
    if leaves_gpu_idle(made, written.array):
        warnings.append(IDLE_GPU)
    return replace(written, job=job, warnings=warnings)


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
    other = set(given)
    if given.get("workers") == workers_of(text):
        other.discard("workers")
    if other:
        flags = {**flags_of(write_array), "run_options": "-- OPTIONS"}
        names = ", ".join(flags[name] for name in DEFAULTS if name in other)
        raise FixUsage(
            f"this script was edited since it was written, or its options are not known: "
            f"{names} would not be in it",
            where=str(script),
            hint="give no options and edit the script, or --force writes it anew",
        )
    return text


def _dropped_options(earlier: Submission | None, given: Mapping[str, Any]) -> list[str]:
    """Return the options of the last submission that a new one is not given, with their values."""
    if earlier is None:
        return []
    flags = flags_of(write_array)
    dropped = []
    for name, default in DEFAULTS.items():
        value = getattr(earlier, name)
        is_list = isinstance(value, list | tuple)
        if name == "workers":
            continue
        if name == "run_options":
            if value and not given.get(name):
                dropped.append(f"-- {shlex.join(value)}")
            continue
        if is_list:
            missing = [word for word in value if word not in given.get(name, ())]
            dropped += [f"{flags[name]} {shlex.quote(word)}" for word in missing]
        elif name not in given and value != default:
            dropped.append(f"{flags[name]} {value}")
    return dropped


def _script_as_edited(
    made: ExtractPlan,
    plan: Path,
    script: Path,
    text: str,
    given: Mapping[str, Any],
    again: str,
) -> WrittenArray | None:
    """Change the tasks of an edited script; None if no task has anything to do."""
    from obygaze.extensions.cluster.slurm import array_for, max_array_size
    from obygaze.extensions.cluster.submission import (
        is_of_several_arrays,
        with_other_tasks,
        workers_of,
    )

    workers = given.get("workers") or workers_of(text) or 1
    array = array_for(made, plan, workers, resume=True, again=again)
    if array is None:
        return None
    if is_of_several_arrays(text):
        array = replace(array, max_array_size=max_array_size())
    changed = with_other_tasks(text, array.array, again, str(script))
    write_new(script, changed.encode("utf-8"), force=True)
    return WrittenArray(script, array, "as edited", is_edited=True)


def _new_script(
    made: ExtractPlan,
    plan: Path,
    script: Path,
    earlier: Submission | None,
    given: Mapping[str, Any],
    resume: bool,
    again: str,
    force: bool,
) -> WrittenArray | None:
    """Write a script, and keep its options; None if no task has anything to do."""
    from obygaze.extensions.cluster.slurm import (
        FEW_TASKS,
        SCRIPT_MARK,
        STAGGER_S,
        TIME_OPTIONS,
        array_for,
        asks_for,
        asks_for_gpu,
        cost_of_task,
        max_array_size,
        shared_environment_warning,
    )
    from obygaze.extensions.cluster.submission import Submission, joined_options
    from obygaze.extensions.cluster.time_limit import START_S, minutes_of, time_limit_of

    options = {**DEFAULTS, **given}
    if earlier is not None:
        before = {name: getattr(earlier, name) for name in DEFAULTS}
        options = joined_options(before, given)
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
    directives = options["directives"]
    has_gpu = asks_for_gpu(options["gres"], directives)
    cost = cost_of_task(made, options["cpus"])
    is_spread = len(array.tasks) > FEW_TASKS
    limit = time_limit_of(
        made,
        cost,
        minutes,
        n_tasks=len(array.tasks),
        again=bool(again),
        on_gpu=has_gpu,
        start_s=START_S + is_spread * STAGGER_S,
        directives=directives,
    )
    # Another option of sbatch may give the limit that counts.
    is_known = not asks_for(directives, TIME_OPTIONS)
    if is_known:
        limit.refuse_without_time()
    array = replace(
        array,
        mem_gb=_memory(cost, options, has_gpu=has_gpu),
        folder=folder,
        max_array_size=max_array_size(),
        warning_s=limit.warning_s,
        minutes_that_would_do=limit.minutes_that_would_do,
        **of_array,
    )
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
    text = str(limit)
    text += f" with {array.mem_gb} GB of memory" if array.mem_gb else ""
    warnings = [limit.warning] if is_known and limit.warning else []
    if made.n_units < workers:
        warnings.append(_too_few_units(made, workers))
    if array.container is None:
        warnings.append(shared_environment_warning(len(array.tasks)))
    warnings = [warning for warning in warnings if warning]
    return WrittenArray(script, array, text, warnings=warnings)


def _too_few_units(made: ExtractPlan, workers: int) -> str:
    """Return the warning of a plan in which not every worker has a unit."""
    return (
        f"{count(made.n_units, 'task')} of {workers} can work: the {count(len(made.rows), 'clip')}"
        f" are {count(made.n_units, 'unit')}; for smaller ones, write the plan of a new store with"
        f" obygaze extract plan --tasks {workers}"
    )


def _memory(
    cost: CostEstimate, options: Mapping[str, Any], *, has_gpu: bool
) -> int | None:
    """Return the GB that a task asks for; None for no request."""
    from obygaze.extensions.cluster.slurm import MEMORY_OPTIONS, asks_for, memory_gb

    directives = options["directives"]
    mem_gb = options["mem_gb"]
    if mem_gb is None and asks_for(directives, MEMORY_OPTIONS):
        return None
    if mem_gb is not None:
        return mem_gb or None
    return memory_gb(cost, gpu=has_gpu)
