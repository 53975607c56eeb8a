"""Write a plan as a Slurm array: identical workers, each with every K-th unit, and no driver.

The result is a short shell script that a person can read, change and submit again. A task that is
stopped requeues itself; only the commits of the stores record what is done.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from math import ceil
from pathlib import Path
from types import MappingProxyType

from obygaze.extensions.cluster.time_limit import WARNING_S, hours_and_minutes
from obygaze_features.core import system
from obygaze_features.core.errors import FixUsage, NotFound, ObygazeError
from obygaze_features.core.metadata import render
from obygaze_features.extraction.estimate import CostEstimate, estimate
from obygaze_features.extraction.new_versions import split_plan
from obygaze_features.extraction.plan import ExtractPlan
from obygaze_features.extraction.run import Resources
from obygaze_features.extraction.sources import units_again
from obygaze_features.extraction.status import missing_units
from obygaze_features.store.format.records import Seal
from obygaze_features.store.write.commit import STAGING
from obygaze_features.store.write.growth import DRAFTS

SLACK = 1.5
# An allowance for the libraries of CUDA in main memory; not measured.
CUDA_BYTES = 4 * 2**30
MAX_RESTARTS = 200
# Of more tasks than these, the starts are spread over these seconds.
FEW_TASKS = 8
STAGGER_S = 60
# How long Slurm may take to say what its limits are.
SCONTROL_S = 20

# The options of sbatch that ask for GPUs, time and memory.
GPU_OPTIONS = ("gpus", "G", "gpus-per-node", "gpus-per-socket", "gpus-per-task")
TIME_OPTIONS = ("time", "t")
MEMORY_OPTIONS = ("mem", "mem-per-cpu", "mem-per-gpu")

# As Linux names them.
SHARED_FILE_SYSTEMS = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.beegfs",
        "fuse.ceph",
        "fuse.cvmfs2",
        "fuse.glusterfs",
        "fuse.sshfs",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "panfs",
        "smb3",
        "wekafs",
    }
)

# Of a script with one array, which it names itself.
NO_ARRAYS: Mapping[int, str] = MappingProxyType({})
SCRIPT_MARK = b"clips; task i takes unit i and each "


@dataclass(frozen=True)
class SlurmArray:
    """The settings of a Slurm array, and of the `extract run` of each task.

    Args:
        plan_file: The file of the plan.
        workers: Among how many workers the units are divided.
        tasks: The workers to run.
        minutes: The time limit of a task; one that reaches it requeues itself.
        warning_s: How many seconds before the limit a worker is stopped.
        minutes_that_would_do: The limit to name if two starts in a row finish no clip. None: twice
            that of the task.
        at_once: Run at most this many tasks at a time.
        cpus: Cores of a task.
        mem_gb: Memory of a task in GB. None: no request, so Slurm's default.
        gres: Other resources of a task, such as gpu:1.
        container: An Apptainer image to run in, which has obygaze.
        setup: Lines of shell that each task runs first, such as module load cuda.
        again: --retry-failed or --changed: the tasks extract clips again, and nothing else.
        directives: More options for sbatch, which override the others.
        run_options: Options for `extract run`.
        folder: The working folder.
        max_array_size: The number of tasks that an array may have. None: any number.
        has_work: Whether a clip was missing when it was made.
    """

    plan_file: Path
    workers: int
    tasks: Sequence[int]
    minutes: int
    warning_s: int = WARNING_S
    minutes_that_would_do: int | None = None
    at_once: int | None = None
    cpus: int = 1
    mem_gb: int | None = None
    gres: str | None = None
    container: str | None = None
    setup: Sequence[str] = ()
    again: str = ""
    directives: Sequence[str] = ()
    run_options: Sequence[str] = ()
    folder: Path = field(default_factory=Path.cwd)
    max_array_size: int | None = None
    has_work: bool = True

    @property
    def name(self) -> str:
        """The name in the queue: the plan's name, without special characters."""
        return "obygaze-" + re.sub(r"[^\w.-]", "-", self.plan_file.stem)

    @property
    def array(self) -> str:
        """The tasks as Slurm writes them: `0-3,7%2`; of several arrays, those of the first."""
        return next(iter(self.arrays.values()))

    @property
    def arrays(self) -> dict[int, str]:
        """The tasks of each array, by the worker that is its task 0: a cluster limits the index."""
        size = self.max_array_size or self.workers
        tasks_of_array: dict[int, list[int]] = {}
        for task in sorted(self.tasks):
            first = task // size * size
            tasks_of_array.setdefault(first, []).append(task - first)
        limit = ""
        if self.at_once:
            limit = f"%{max(1, self.at_once // len(tasks_of_array))}"
        return {
            first: f"{_spans(tasks)}{limit}" for first, tasks in tasks_of_array.items()
        }

    @property
    def log_folder(self) -> Path:
        """The folder of the logs, which must exist before a task starts."""
        return (self.folder / "logs").resolve()

    def script(self, plan: ExtractPlan) -> str:
        """Return the text of the script."""
        if not self.tasks or not all(0 <= task < self.workers for task in self.tasks):
            raise FixUsage(
                f"tasks must be 0 to {self.workers - 1}, got {list(self.tasks)}"
            )
        plan_file = (self.folder / self.plan_file).resolve()
        folder = str(self.folder.resolve())
        program = obygaze_command()
        if self.container is not None:
            image = str((self.folder / self.container).resolve())
            program = ["apptainer", "exec", "--nv", "--bind", folder, image, "obygaze"]
        device = []
        if plan.device != "cpu" and device_option(self.run_options) is None:
            device = ["--device", _one_line(plan.device)]
        words = [*program, "extract", "run", str(plan_file), *device, *self.run_options]
        would_do = self.minutes_that_would_do or 2 * self.minutes
        return render(
            "slurm.sh",
            "obygaze.extensions.cluster",
            directives="\n".join(f"#SBATCH {line}" for line in self._directives()),
            n_units=plan.n_units,
            unit_rows=plan.unit_rows,
            workers=self.workers,
            n_arrays=len(self.arrays),
            stagger_s=STAGGER_S if len(self.tasks) > FEW_TASKS else 0,
            folder=shlex.quote(folder),
            command=shlex.join(words),
            setup=[_one_line(line) for line in self.setup],
            again=self.again,
            store_folders=shlex.join(self._store_folders(plan)),
            log_folder=shlex.quote(str(self.log_folder)),
            name=self.name,
            limit=hours_and_minutes(self.minutes),
            limit_that_would_do=hours_and_minutes(would_do),
            most_restarts=MAX_RESTARTS,
        )

    def _store_folders(self, plan: ExtractPlan) -> list[str]:
        """Return the folders in which each finished clip and block of a plan makes a file.

        Of a sealed store these are in its drafts of the next version.
        """
        folders = []
        for target in plan.targets:
            store = (self.folder / target.store).resolve()
            places = [store]
            if (store / Seal.FILE).is_file():
                places = [store / draft for draft in DRAFTS]
            for place in places:
                folders += [str(place / "commits"), str(place / STAGING)]
        return folders

    def _directives(self) -> list[str]:
        asked = {
            "job-name": self.name,
            "array": self.array,
            "time": f"{self.minutes // 60:02d}:{self.minutes % 60:02d}:00",
            "cpus-per-task": self.cpus,
            "mem": None if self.mem_gb is None else f"{self.mem_gb}G",
            "gres": self.gres,
            "signal": f"USR1@{self.warning_s}",
            "output": f"{self._folder_in_pattern()}/%x-%A_%a.log",
            "open-mode": "append",
        }
        lines = [
            f"--{key}={_plain(value)}"
            for key, value in asked.items()
            if value is not None
        ]
        return [*lines, "--requeue", *map(_directive, self.directives)]

    def _folder_in_pattern(self) -> str:
        """Return the folder of the logs as Slurm reads it in the pattern of a file name."""
        folder = str(self.log_folder)
        # Slurm replaces nothing in a pattern with a backslash: all tasks would have one log.
        if "\\" in folder:
            raise FixUsage(
                "Slurm cannot write logs to a folder with a backslash in its name",
                where=folder,
                hint="rename the folder, or call the command in another one",
            )
        # It replaces what follows a single % in the name of a folder too.
        return folder.replace("%", "%%")


def array_for(
    plan: ExtractPlan,
    plan_file: Path,
    workers: int,
    *,
    resume: bool = False,
    again: str = "",
    minutes: int = 60,
) -> SlurmArray | None:
    """Return the array of a plan; None if no task has anything to do.

    Args:
        plan: The plan.
        plan_file: The file of the plan.
        workers: Among how many workers the units are divided.
        resume: Only include tasks that have something to do.
        again: --retry-failed or --changed: only tasks with such clips, which extract them again.
        minutes: The time limit of a task; one that reaches it requeues itself.
    """
    changed = again == "--changed"
    split = split_plan(plan, retry_failed=again == "--retry-failed", changed=changed)
    units = missing_units(split.others)  # an error if a store is of another plan
    if again:
        units = units_again(split.others, changed=changed)
    tasks = {unit % workers for unit in units}
    # What makes a version of a sealed store has units of its own.
    n_units = plan.n_units if split.others.targets or not split.works else 0
    for work in split.works:
        units = missing_units(work.plan)
        if again and work.has_begun():
            units += units_again(work.plan, changed=changed)
        tasks.update(unit % workers for unit in units)
        n_units = max(n_units, work.plan.n_units)
    has_work = bool(tasks)
    if not (resume or again):
        tasks = set(range(min(workers, n_units)))
    if not tasks:
        return None
    return SlurmArray(
        plan_file, workers, sorted(tasks), minutes, again=again, has_work=has_work
    )


def cost_of_task(plan: ExtractPlan, cpus: int) -> CostEstimate:
    """Return the estimate of a plan for the cores of a task; one clip is decoded."""
    return estimate(plan, [Resources(workers=cpus)], n_probed=1, timed=False)


def memory_gb(cost: CostEstimate, *, gpu: bool = False) -> int:
    """Return the memory of a task in GB: half as much again as the estimate for its decoders."""
    return ceil((SLACK * cost.peak_bytes + gpu * CUDA_BYTES) / 2**30)


def submit(script: Path, arrays: Mapping[int, str] = NO_ARRAYS) -> str:
    """Submit a script to Slurm and return the job ids of its arrays, with commas between them."""
    program = shutil.which("sbatch")
    if program is None:
        raise NotFound(
            "sbatch is not on the PATH",
            hint=f"run sbatch {script} on a machine that can submit jobs",
        )
    jobs: list[str] = []
    for words in sbatch_words(script, arrays):
        done = subprocess.run(
            [program, "--parsable", *words],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=_submit_environment(os.environ),
            check=False,
        )
        if done.returncode:
            reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            before = f" (submitted before: {', '.join(jobs)})" if jobs else ""
            hint = f"correct the options, or edit the script and: sbatch {script}"
            raise ObygazeError(
                f"sbatch rejected the script: {reason}{before}",
                where=str(script),
                hint=hint,
            )
        jobs.append(done.stdout.strip().partition(";")[0])
    return ",".join(jobs)


def sbatch_words(script: Path, arrays: Mapping[int, str]) -> list[list[str]]:
    """Return the words after `sbatch` for each array; the first one is that of the script."""
    calls = [[str(script)]]
    for first, array in list(arrays.items())[1:]:
        calls.append([f"--array={array}", str(script), str(first)])
    return calls


def max_array_size() -> int | None:
    """Return how many tasks an array may have on this cluster; None if that is not known."""
    program = shutil.which("scontrol")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "show", "config"],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=SCONTROL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"^MaxArraySize\s*=\s*([1-9]\d*)", done.stdout, re.MULTILINE)
    return int(match[1]) if match else None


def _submit_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for sbatch: those of the user, such as SBATCH_ACCOUNT, all stay.

    Within a job, sbatch would take what Slurm has set for that job as defaults.
    """
    if "SLURM_JOB_ID" not in environment:
        return dict(environment)
    of_job = ("SLURM_", "SRUN_", "SBATCH_CPU_BIND", "SBATCH_MEM_BIND")
    return {
        name: value
        for name, value in environment.items()
        if name.startswith("SLURM_CONF") or not name.startswith(of_job)
    }


def asks_for(directives: Sequence[str], options: Collection[str]) -> bool:
    """Return whether one of these options of sbatch, without its hyphens, is given."""
    for line in directives:
        words = line.lstrip("-").replace("=", " ").split()
        name = words[0] if words else ""
        # The value of a short option may follow without a blank: -t10.
        if line.startswith("-") and not line.startswith("--"):
            name = name[:1]
        if name in options:
            return True
    return False


def asks_for_gpu(gres: str | None, directives: Sequence[str]) -> bool:
    """Return whether the options of a task ask for a GPU."""
    resources = [line for line in directives if asks_for([line], ["gres"])]
    if gres is not None:
        resources.append(gres)
    return asks_for(directives, GPU_OPTIONS) or any("gpu" in text for text in resources)


def device_option(run_options: Sequence[str]) -> str | None:
    """Return the device that options of `extract run` name, the last of several; None if none."""
    device = None
    for word, following in pairwise([*run_options, ""]):
        if word == "--device":
            device = following
        elif word.startswith("--device="):
            device = word.removeprefix("--device=")
    return device


IDLE_GPU = (
    "the tasks ask for a GPU, but compute on the CPU: give -- --device cuda, or make the plan with"
    " extract plan --device cuda (-- --device cpu, if this is meant)"
)


NO_WORK = (
    "no clip of the stores is missing, so the tasks will find nothing to do; --resume has only"
    " tasks with missing clips, --retry-failed those with failed ones"
)


def leaves_gpu_idle(plan: ExtractPlan, array: SlurmArray) -> bool:
    """Return whether tasks ask for a GPU, and nothing says on which device they compute."""
    says_device = plan.device != "cpu" or device_option(array.run_options) is not None
    return asks_for_gpu(array.gres, array.directives) and not says_device


def obygaze_command() -> list[str]:
    """Return the path of the running command, so that tasks use the same installation."""
    called = Path(sys.argv[0])
    if called.name == "obygaze" and called.is_file():
        return [str(called.absolute())]
    beside = Path(sys.executable).with_name("obygaze")
    return [str(beside)] if beside.is_file() else ["obygaze"]


def shared_environment_warning(n_tasks: int) -> str:
    """Return a warning if many tasks start from a shared file system, else ""."""
    kind = system.file_system_of(Path(sys.prefix))
    if n_tasks <= FEW_TASKS or kind not in SHARED_FILE_SYSTEMS:
        return ""
    return (
        f"the Python of obygaze is on a shared file system ({kind}), from which each of"
        f" {n_tasks} tasks loads thousands of small files ({sys.prefix}): --container IMAGE"
        " loads one file"
    )


def _spans(tasks: Sequence[int]) -> str:
    """Return numbers in order as Slurm writes them: `0-3,7`."""
    # Within a run of consecutive tasks, the difference to the position is the same.
    runs = groupby(enumerate(tasks), lambda pair: pair[1] - pair[0])
    spans = []
    for _, run in runs:
        numbers = [task for _, task in run]
        if len(numbers) == 1:
            spans.append(str(numbers[0]))
        else:
            spans.append(f"{numbers[0]}-{numbers[-1]}")
    return ",".join(spans)


def _directive(line: str) -> str:
    """Return an option of sbatch as a line of a script has it; its value may have blanks."""
    line = line.strip()
    option = line if line.startswith("-") else f"--{line}"
    name, _, value = option.partition(" ")
    # Of `-A lab`, sbatch would take the blank as the beginning of the account.
    if value and "=" not in name:
        is_long = name.startswith("--")
        option = f"{name}{'=' if is_long else ''}{value.strip()}"
    return _plain(option)


def _plain(value: object) -> str:
    """Return a value for a directive; a line break would start a command."""
    text = _one_line(str(value))
    # Slurm reads quotes, backslashes and # nearly as a shell does, within quotes as well.
    if re.search(r"[\s'\"\\#]", text) is None:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _one_line(text: str) -> str:
    """Return text that is one line; others are an error."""
    if not text.isprintable():
        raise FixUsage(
            f"a Slurm option cannot be written with line breaks or control characters: {text!r}"
        )
    return text
