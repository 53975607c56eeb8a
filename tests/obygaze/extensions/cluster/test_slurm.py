"""A plan on Slurm: the text of the script, and its runs on a real Slurm."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.cli import Result, environment, run_obygaze
from support.extraction import BLOCK_ROWS, a_plan, array_bytes, film_folder, plan_file
from support.servers import wait_until
from support.slow_obygaze import clips_begun, install
from support.slurm import Slurm, running_slurm

from obygaze.extensions.cluster.slurm import (
    SlurmArray,
    sbatch_words,
    shared_environment_warning,
)
from obygaze_features.core import system
from obygaze_features.core.errors import FixUsage
from obygaze_features.extraction.plan import ExtractPlan, make_plan
from obygaze_features.extraction.run import load_targets
from obygaze_features.extraction.status import missing_units
from obygaze_features.manifest.model import Manifest

# 12 units of 4 clips.
N_CLIPS, N_UNITS = 47, 12
BAD = 5

pytestmark = [
    pytest.mark.check("a real Slurm"),
    pytest.mark.xdist_group("slurm"),
]


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Films of which one clip cannot be read: a worker that has it ends with 3."""
    return film_folder(
        tmp_path_factory.mktemp("films"), N_CLIPS, bad={BAD: b"not a video"}
    )


@pytest.fixture
def plan(films: Manifest, tmp_path: Path) -> ExtractPlan:
    return a_plan(films, tmp_path, "descriptors")


@pytest.fixture(scope="module")
def undisturbed(
    films: Manifest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    path = plan_file(a_plan(films, folder, "descriptors"), folder / "plan.json")
    assert run_obygaze("extract", "run", path).code == 3
    return array_bytes(folder / "stores" / "descriptors")


# ---- the script --------------------------------------------------------------------------------


def test_the_script_has_all_settings(plan: ExtractPlan, tmp_path: Path) -> None:
    array = SlurmArray(
        Path("the plan.json"),
        workers=8,
        tasks=[0, 1, 2, 5, 7],
        minutes=150,
        at_once=2,
        cpus=6,
        gres="gpu:1",
        directives=["partition=long", "--constraint=a100&x"],
        run_options=["--device", "cuda", "--weights", "a b"],
        folder=tmp_path,
    )
    lines = array.script(plan).splitlines()
    assert [line for line in lines if line.startswith("#SBATCH")] == [
        "#SBATCH --job-name=obygaze-the-plan",
        "#SBATCH --array=0-2,5,7%2",
        "#SBATCH --time=02:30:00",
        "#SBATCH --cpus-per-task=6",
        "#SBATCH --gres=gpu:1",
        "#SBATCH --signal=USR1@60",
        f"#SBATCH --output={tmp_path}/logs/%x-%A_%a.log",
        "#SBATCH --open-mode=append",
        "#SBATCH --requeue",
        "#SBATCH --partition=long",
        "#SBATCH --constraint=a100&x",
    ]
    (call,) = (line for line in lines if "extract run" in line)
    assert (
        f"run '{tmp_path}/the plan.json' --device cuda --weights 'a b' --worker" in call
    )
    assert call.endswith('--worker "$SLURM_ARRAY_TASK_ID/8"')
    assert len(lines) < 60, "a script that a person reads"
    checked = subprocess.run(["bash", "-n"], input=array.script(plan), text=True)
    assert checked.returncode == 0


def test_a_percent_sign_in_a_folder_is_no_pattern_of_slurm(
    plan: ExtractPlan, tmp_path: Path
) -> None:
    """The log was in another folder, or nowhere."""
    array = SlurmArray(Path("plan.json"), 1, [0], 60, folder=tmp_path / "50% of")
    script = array.script(plan)
    assert f'#SBATCH --output="{tmp_path}/50%% of/logs/%x-%A_%a.log"' in script
    assert f"cd '{tmp_path}/50% of' || exit 1" in script


def test_quotes_in_names_reach_slurm(plan: ExtractPlan, tmp_path: Path) -> None:
    """A quote was an error of sbatch, and after a # the name of the log was cut."""
    array = SlurmArray(
        Path("plan.json"),
        1,
        [0],
        60,
        folder=tmp_path / """it's "1"#2""",
        directives=["-A lab", "--partition gpu", " --exclusive ", r'comment a "b\c"'],
    )
    lines = array.script(plan).splitlines()
    name = r"""it's \"1\"#2"""
    assert f'#SBATCH --output="{tmp_path}/{name}/logs/%x-%A_%a.log"' in lines
    last = lines.index("#SBATCH --requeue")
    # With the blank, sbatch would take an account called " lab".
    assert lines[last + 1 : last + 5] == [
        "#SBATCH -Alab",
        "#SBATCH --partition=gpu",
        "#SBATCH --exclusive",
        r'#SBATCH "--comment=a \"b\\c\""',
    ]
    with pytest.raises(FixUsage, match="a folder with a backslash"):
        SlurmArray(Path("plan.json"), 1, [0], 60, folder=tmp_path / "a\\b").script(plan)


def test_more_tasks_than_an_array_may_have(plan: ExtractPlan, tmp_path: Path) -> None:
    tasks = [*range(900, 1002), 1500, 2000, 2001]
    array = SlurmArray(
        Path("plan.json"),
        2500,
        tasks,
        60,
        at_once=30,
        folder=tmp_path,
        max_array_size=1000,
    )
    assert array.arrays == {0: "900-999%10", 1000: "0-1,500%10", 2000: "0-1%10"}
    script = array.script(plan)
    assert "#SBATCH --array=900-999%10" in script
    assert '--worker "$worker/2500"' in script
    assert sbatch_words(Path("a b.sbatch"), array.arrays) == [
        ["a b.sbatch"],
        ["--array=0-1,500%10", "a b.sbatch", "1000"],
        ["--array=0-1%10", "a b.sbatch", "2000"],
    ]
    one = replace(array, max_array_size=2002)
    assert one.arrays == {0: "900-1001,1500,2000-2001%30"}
    assert '--worker "$SLURM_ARRAY_TASK_ID/2500"' in one.script(plan)
    assert replace(one, max_array_size=None).arrays == one.arrays


def test_each_array_is_submitted(
    films: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With stand-ins for Slurm's programs: sbatch runs the script at once, for each task."""
    monkeypatch.chdir(tmp_path)
    plan_file(a_plan(films, tmp_path, "descriptors"), tmp_path / "plan.json")
    programs = {
        "scontrol": "echo 'MaxArraySize            = 5'",
        "srun": f'shift 2; echo "$*" >> {tmp_path}/calls',
        "squeue": "echo RUNNING/None",
        "sbatch": """shift
            spec=$(sed -n 's/^#SBATCH --array=//p' plan.sbatch)
            case "$1" in --array=*) spec=${1#--array=}; shift ;; esac
            shift
            for task in $(seq ${spec%-*} ${spec#*-}); do
              SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=$task bash plan.sbatch "$@"
            done > /dev/null
            echo "7$1" """,
        "sleep": "exit 0",
    }
    (tmp_path / "bin").mkdir()
    for name, body in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    words = ("extract", "slurm", "plan.json", "-k", "12", "--submit")
    done = run_obygaze(*words, cwd=tmp_path).ok()
    assert "3 arrays, 0-4, 0-4, 0-1 of 12 workers" in done.stdout
    assert "submitted as job 7,75,710" in done.stdout
    calls = (tmp_path / "calls").read_text().splitlines()
    workers = [call.partition("--worker ")[2] for call in calls]
    assert workers == [f"{task}/12" for task in range(12)]
    # An edited script keeps its edits, and is submitted in several arrays too.
    script = (tmp_path / "plan.sbatch").read_text()
    (tmp_path / "plan.sbatch").write_text(script.replace("task=", "# mine\ntask="))
    (tmp_path / "calls").unlink()
    run_obygaze(*words, "--resume", cwd=tmp_path).ok()
    assert "# mine" in (tmp_path / "plan.sbatch").read_text()
    assert len((tmp_path / "calls").read_text().splitlines()) == 12


def test_many_tasks_do_not_start_at_once(plan: ExtractPlan, tmp_path: Path) -> None:
    few = SlurmArray(Path("plan.json"), 8, range(8), 60, folder=tmp_path)
    assert "sleep $((" not in few.script(plan)
    many = SlurmArray(Path("plan.json"), 9, range(9), 60, folder=tmp_path)
    assert "sleep $((SLURM_ARRAY_TASK_ID % 60))\n" in many.script(plan)


def test_an_environment_on_a_shared_file_system_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for kind, warned in {
        "nfs4": True,
        "lustre": True,
        "ext4": False,
        "": False,
    }.items():
        monkeypatch.setattr(system, "file_system_of", lambda path, kind=kind: kind)
        warning = shared_environment_warning(100)
        assert bool(warning) == warned
        if warned:
            assert (
                f"on a shared file system ({kind}), from which each of 100" in warning
            )
        assert shared_environment_warning(8) == ""


def test_tasks_run_in_a_container(plan: ExtractPlan, tmp_path: Path) -> None:
    image = "films and obygaze.sif"
    array = SlurmArray(
        Path("plan.json"),
        2,
        [0, 1],
        60,
        container=image,
        run_options=["-v"],
        folder=tmp_path,
    )
    script = array.script(plan)
    (call,) = (line for line in script.splitlines() if "extract run" in line)
    words = shlex.split(call)
    assert words[:8] == [
        *("apptainer", "exec", "--nv", "--bind", str(tmp_path), str(tmp_path / image)),
        *("obygaze", "extract"),
    ]
    assert words[8:] == ["run", f"{tmp_path}/plan.json", "-v", "--worker", words[-1]]


def test_a_task_asks_for_memory(plan: ExtractPlan, tmp_path: Path) -> None:
    file = plan_file(plan, tmp_path / "plan.json")
    workspace = ("-C", tmp_path, "extract")
    peak = run_obygaze(*workspace, "plan", file, "--workers", "6", "--json").ok().json()
    expected = -(-int(1.5 * peak["peak_bytes"]) // 2**30)

    def asked(*words: str) -> list[str]:
        run_obygaze(
            *workspace, "slurm", file, "-k", "2", "--cpus", "6", "--force", *words
        ).ok()
        lines = file.with_suffix(".sbatch").read_text("utf-8").splitlines()
        return [line for line in lines if "--mem" in line]

    assert asked() == [f"#SBATCH --mem={expected}G"]
    assert asked("--gres", "gpu:1") == [f"#SBATCH --mem={expected + 4}G"]
    assert asked("--mem", "7") == ["#SBATCH --mem=7G"]
    assert asked("--mem", "0") == []
    assert asked("--sbatch", "--mem-per-cpu=2G") == ["#SBATCH --mem-per-cpu=2G"]
    # Where memory is bound is no request for any.
    with_binding = [f"#SBATCH --mem={expected}G", "#SBATCH --mem-bind=local"]
    assert asked("--sbatch", "--mem-bind=local") == with_binding
    for gpus in (
        "--gpus=1",
        "--gpus-per-node=a100:1",
        "-G 1",
        "gpus=1",
        "--gres=gpu:1",
    ):
        assert asked("--sbatch", gpus) == [f"#SBATCH --mem={expected + 4}G"], gpus


@pytest.mark.parametrize(
    ("code", "state", "requeued"),
    [
        (75, "RUNNING/None", True),
        (143, "RUNNING/None", True),
        (138, "RUNNING/None", True),
        (75, "COMPLETING/TimeLimit", True),
        (75, "COMPLETING/None", False),  # cancelled by a person
        (0, "RUNNING/None", False),
        (3, "RUNNING/None", False),
        (1, "RUNNING/None", False),
        (137, "RUNNING/None", False),
    ],
)
def test_which_exit_codes_requeue_a_task(
    plan: ExtractPlan, tmp_path: Path, code: int, state: str, requeued: bool
) -> None:
    for restarts, again in (("0", requeued), ("200", False)):
        message = run_script(plan, tmp_path, code, state, restarts=restarts)
        # Never the job without its task: that would be the whole array.
        assert message == ("requeue 17_3\n" if again else "")


def run_script(
    plan: ExtractPlan,
    folder: Path,
    code: int,
    state: str = "RUNNING/None",
    *,
    restarts: str = "0",
    finishes: str = "block-$$.json",
    ends_with: int | None = None,
) -> str:
    """Run the script with stand-ins for Slurm's programs; return what Slurm was asked for.

    The worker ends with `code`, after it made the file `finishes` in the folder of commits.
    """
    message = folder / "message"
    message.unlink(missing_ok=True)
    # The first answer of each program is that Slurm is busy.
    busy = 'said="$0.busy"; [ -e "$said" ] || { touch "$said"; exit 1; }'
    for program in ("squeue", "scontrol"):
        (folder / f"{program}.busy").unlink(missing_ok=True)
    commits = Path(plan.targets[0].store) / "commits"
    commits.mkdir(parents=True, exist_ok=True)
    for name, body in {
        "srun": f"[ -z '{finishes}' ] || touch {commits}/{finishes}; exit {code}",
        "squeue": f'{busy}; [ -z "$SQUEUE_STATES" ] && echo {state}',
        "scontrol": f'{busy}; echo "$@" >> {message}',
        "sleep": "exit 0",
    }.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    array = SlurmArray(
        folder / "plan.json", 4, [3], 60, minutes_that_would_do=90, folder=folder
    )
    array.log_folder.mkdir(exist_ok=True)
    changes = {
        "SLURM_ARRAY_JOB_ID": "17",
        "SLURM_ARRAY_TASK_ID": "3",
        "SLURM_CPUS_PER_TASK": "1",
        "SLURM_RESTART_COUNT": restarts,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "SQUEUE_STATES": "PENDING",
    }
    done = subprocess.run(
        ["bash"],
        input=array.script(plan),
        capture_output=True,
        text=True,
        env=environment(changes),
    )
    expected = code if ends_with is None else ends_with
    assert done.returncode == expected, done.stderr
    if expected != code:
        return done.stdout.splitlines()[-1]
    return message.read_text() if message.exists() else ""


def test_two_starts_in_a_row_that_finish_no_clip_end_a_task(
    plan: ExtractPlan, tmp_path: Path
) -> None:
    """They were repeated up to 200 times."""
    requeued = "requeue 17_3\n"
    for code in (138, 75):
        assert run_script(plan, tmp_path, code, finishes="") == requeued
        # What makes a file in the end makes the starts count anew; so does a row that is kept.
        assert run_script(plan, tmp_path, 75) == requeued
        kept_row = "../staging/block-00003.0.rows.$$"
        (Path(plan.targets[0].store) / "staging").mkdir(exist_ok=True)
        assert run_script(plan, tmp_path, code, finishes="") == requeued
        assert run_script(plan, tmp_path, code, finishes=kept_row) == requeued
        # What a start leaves that finished nothing is no clip.
        unfinished = "../staging/trash.$$"
        assert run_script(plan, tmp_path, code, finishes=unfinished) == requeued
        # Slurm itself puts a task that is preempted back: that is no reason to end.
        preempted = {"state": "PREEMPTED/None", "finishes": ""}
        assert run_script(plan, tmp_path, 75, **preempted) == ""
        said = run_script(plan, tmp_path, code, finishes="", ends_with=1)
        assert said == (
            "two starts in a row finished no clip in 01:00: submit it again with --resume"
            " --time 01:30"
        )
        assert run_script(plan, tmp_path, code, finishes="") == requeued
        assert run_script(plan, tmp_path, 0, finishes="") == ""
        assert list((tmp_path / "logs").iterdir()) == []


def test_a_line_break_in_a_setting_is_refused(plan: ExtractPlan) -> None:
    array = SlurmArray(Path("p.json"), 2, [0, 1], 60, gres="gpu:1\nrm -rf /")
    with pytest.raises(FixUsage, match="cannot be written"):
        array.script(plan)


def test_resume_submits_what_is_missing(plan: ExtractPlan, tmp_path: Path) -> None:
    path = plan_file(plan, tmp_path / "plan.json")
    words = ("extract", "slurm", path, "-k", "5", "--json")
    first = run_obygaze(*words, "--resume", cwd=tmp_path).ok()
    assert first.json()["tasks"] == [0, 1, 2, 3, 4]
    assert "is missing" not in first.stderr
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH --mine\n")
    other = run_obygaze(*words, "--resume", "-o", tmp_path / "job.sh", cwd=tmp_path)
    assert (other.code, "exists and has other contents" in other.stderr) == (1, True)
    assert (tmp_path / "job.sh").read_text().endswith("--mine\n")
    run_obygaze("extract", "run", path)
    for unit in (3, 8, 11):  # of the fifth, and so of tasks 3, 3 and 1
        (tmp_path / f"stores/descriptors/commits/block-{unit:05d}.json").unlink()
    assert run_obygaze(*words, "--resume", cwd=tmp_path).ok().json()["array"] == "1,3"
    run_obygaze("extract", "run", path)
    done = run_obygaze(*words, "--resume", "--submit", cwd=tmp_path).ok()
    assert (done.json()["script"], done.json()["job"]) == (None, None)
    # An array without --resume would be of empty tasks, and said nothing.
    new = run_obygaze(*words, "-o", tmp_path / "new.sbatch", cwd=tmp_path).ok()
    assert "no clip of the stores is missing" in new.stderr


def test_a_store_smaller_than_a_block_is_one_unit(
    films: Manifest, tmp_path: Path
) -> None:
    few = films.with_clips(films.clips[:3])
    (target,) = a_plan(few, tmp_path, "descriptors").targets
    plan = make_plan(few, [replace(target, block_rows=64)], workspace=tmp_path)
    assert missing_units(plan) == [0]
    load_targets(plan)
    assert missing_units(plan) == [0]
    run_obygaze("extract", "run", plan_file(plan, tmp_path / "plan.json")).ok()
    assert missing_units(plan) == []


def test_a_changed_plan_is_refused_before_it_is_submitted(
    films: Manifest, tmp_path: Path
) -> None:
    path = plan_file(a_plan(films, tmp_path, "descriptors"), tmp_path / "plan.json")
    run_obygaze("extract", "run", path)
    fewer = films.with_clips(films.clips[:-10])
    plan_file(a_plan(fewer, tmp_path, "descriptors"), path)
    done = run_obygaze("extract", "slurm", path, "-k", "2", cwd=tmp_path)
    assert (done.code, "another plan" in done.stderr) == (5, True)
    assert not (tmp_path / "plan.sbatch").exists()


def test_submitting_without_slurm_is_an_error(
    plan: ExtractPlan, tmp_path: Path
) -> None:
    path = plan_file(plan, tmp_path / "plan.json")
    words = ("extract", "slurm", path, "-k", "2", "--submit")
    done = run_obygaze(*words, cwd=tmp_path, env={"PATH": str(tmp_path)})
    assert done.code == 1
    assert "sbatch is not on the PATH" in done.stderr
    assert (tmp_path / "plan.sbatch").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--time", "soon"),
        ("--time", "0:00"),
        ("--time", "1:75"),
        ("-k", "0"),
        ("--sbatch", "a\nb"),
    ],
)
def test_invalid_options(
    plan: ExtractPlan, tmp_path: Path, words: tuple[str, ...]
) -> None:
    path = plan_file(plan, tmp_path / "plan.json")
    done = run_obygaze("extract", "slurm", path, "-k", "2", *words, cwd=tmp_path)
    assert done.code == 2, done.stderr
    assert not (tmp_path / "plan.sbatch").exists()


# ---- a real Slurm ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with running_slurm() as running:
        yield running


@dataclass
class World:
    """A plan, its store, a slow `obygaze`, and a Slurm to run it."""

    slurm: Slurm
    folder: Path
    plan: ExtractPlan

    @classmethod
    def of(cls, slurm: Slurm, folder: Path, films: Manifest) -> World:
        plan = a_plan(films, folder, "descriptors")
        plan_file(plan, folder / "plan.json")
        install(folder)
        return cls(slurm, folder, plan)

    @property
    def store(self) -> Path:
        return self.folder / "stores" / "descriptors"

    @property
    def log(self) -> Path:
        return self.folder / "clips.log"

    def submit(self, *words: str, seconds: float = 0.0) -> str:
        """Submit as a person would; the number of the job, or nothing where nothing is missing."""
        changes = {
            **self.slurm.environment,
            "OBYGAZE_TEST_SECONDS": str(seconds),
            "OBYGAZE_TEST_LOG": str(self.log),
        }
        argv = [
            str(self.folder / "obygaze"),
            "extract",
            "slurm",
            "plan.json",
            "-k",
            "2",
        ]
        argv += ["--cpus", "1", "--submit", "--json", *words, "--", "--workers", "1"]
        done = subprocess.run(
            argv,
            cwd=self.folder,
            env=environment(changes),
            capture_output=True,
            text=True,
        )
        job: str = Result(done.returncode, done.stdout, done.stderr).ok().json()["job"]
        return job

    def n_blocks(self) -> int:
        return len(list((self.store / "commits").glob("block-*.json")))

    def hosts(self) -> set[str]:
        """Where the blocks were made."""
        markers = (self.store / "commits").glob("block-*.json")
        return {json.loads(marker.read_bytes())["host"] for marker in markers}

    def wait_for_blocks(self, least: int) -> None:
        wait_until(
            lambda: self.n_blocks() >= least, f"{least} blocks\n{self.log_text()}", 60
        )

    def log_text(self) -> str:
        return "\n".join(
            path.read_text() for path in sorted((self.folder / "logs").glob("*"))
        )


@pytest.fixture(scope="module")
def short_of_time(
    slurm: Slurm, films: Manifest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[World, str]:
    """Submitted first and checked last: its limit of a minute passes while other tests run.

    Slurm asks it to stop at most half a minute after its start; each task has 35 s of work.
    """
    world = World.of(slurm, tmp_path_factory.mktemp("short"), films)
    return world, world.submit(
        "--time", "00:01", "--sbatch", "--signal=USR1@40", seconds=1.5
    )


def test_an_array_that_is_preempted_and_killed(
    slurm: Slurm,
    short_of_time: tuple[World, str],
    films: Manifest,
    undisturbed: dict[str, bytes],
    tmp_path: Path,
) -> None:
    world = World.of(slurm, tmp_path, films)
    job = world.submit("--gres", "gpu:1", seconds=0.35)
    for round_ in range(3):
        world.wait_for_blocks(1 + 3 * round_)
        urgent = slurm.call("sbatch", "--parsable", *URGENT, "--wrap", "sleep 0.5")
        slurm.wait_for_end(urgent)
        wait_until(
            lambda: "RUNNING" in slurm.states(job).values(), "the array to go on", 30
        )
    restarts = {name: slurm.restarts(name) for name in slurm.states(job)}
    assert sum(restarts.values()) >= 3, restarts
    pid = _a_worker(slurm, world)
    command = _command(pid)
    killed = int(command[command.index("--worker") + 1].removesuffix("/2"))
    os.kill(pid, signal.SIGKILL)
    ends = slurm.wait_for_end(job)
    # The one that was killed; the other finished, but for the clip that nobody can read.
    failed = {f"{job}_{task}" for task in (killed, BAD // BLOCK_ROWS % 2)}
    assert {task for task, end in ends.items() if end == "FAILED"} == failed
    assert {end for task, end in ends.items() if task not in failed} <= {"COMPLETED"}
    # The other one takes over, unless it had ended before.
    if world.n_blocks() < N_UNITS:
        again = world.submit("--resume")
        assert len(slurm.wait_for_end(again)) == 1, "one task has something left to do"
    assert array_bytes(world.store) == undisturbed
    # A stop may cost the clips at work, and each worker may make the last block of the other.
    lost = (sum(restarts.values()) + 1 + 2) * BLOCK_ROWS
    assert clips_begun(world.log) <= N_CLIPS - 1 + lost, world.log_text()
    assert world.submit("--resume") is None


URGENT = ("--partition=urgent", "--gres=gpu:2", "--output=/dev/null")


def _a_worker(slurm: Slurm, world: World) -> int:
    plan = str(world.folder / "plan.json")
    found = []

    def there() -> bool:
        found[:] = [pid for pid in slurm.pids() if plan in _command(pid)]
        return bool(found)

    wait_until(there, "a worker")
    time.sleep(2)  # past its start
    return found[0]


def _command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8").split("\0")
    except OSError:
        return []


def test_a_cancelled_array_stays_cancelled(
    slurm: Slurm, films: Manifest, tmp_path: Path
) -> None:
    world = World.of(slurm, tmp_path, films)
    job = world.submit(seconds=0.35)
    world.wait_for_blocks(1)
    slurm.call("scancel", job)
    ends = slurm.wait_for_end(job)
    assert set(ends.values()) == {"CANCELLED"}
    assert 0 < world.n_blocks() < N_UNITS
    assert "stopped by SIGTERM" in world.log_text()


def test_a_changed_recipe_ends_the_array(
    slurm: Slurm, films: Manifest, tmp_path: Path
) -> None:
    world = World.of(slurm, tmp_path, films)
    other = a_plan(films, tmp_path, "descriptors", sampling="keyframes")
    run_obygaze("extract", "run", plan_file(other, tmp_path / "other.json"))
    before = array_bytes(world.store)
    job = world.submit()
    assert set(slurm.wait_for_end(job).values()) == {"FAILED"}
    for name in slurm.states(job):
        assert slurm.restarts(name) == 0
        assert "ExitCode=5:0" in slurm.call(
            "scontrol", "--oneliner", "show", "job", name
        )
    assert array_bytes(world.store) == before


def test_an_array_retries_failed_clips_with_the_options_of_the_first(
    slurm: Slurm, tmp_path: Path
) -> None:
    films = film_folder(tmp_path, 2 * BLOCK_ROWS, bad={BAD: b"not a video"})
    world = World.of(slurm, tmp_path, films)
    job = world.submit("--gres", "gpu:1", "--setup", "echo ready > setup.txt")
    assert slurm.wait_for_end(job) == {f"{job}_0": "COMPLETED", f"{job}_1": "FAILED"}
    assert (tmp_path / "setup.txt").read_text() == "ready\n"
    assert world.submit("--resume") is None
    (tmp_path / "setup.txt").unlink()
    shutil.copyfile(world.plan.rows[BAD + 1].video, world.plan.rows[BAD].video)
    again = world.submit("--retry-failed")
    assert slurm.wait_for_end(again) == {f"{again}_1": "COMPLETED"}, world.log_text()
    assert "TresPerNode=gres:gpu:1" in slurm.call(
        "scontrol", "--oneliner", "show", "job", f"{again}_1"
    )
    assert (tmp_path / "setup.txt").exists()
    assert (world.store / "seal.json").exists()
    # The same as if the clip had been whole from the first.
    (tmp_path / "whole").mkdir()
    whole = a_plan(films, tmp_path / "whole", "descriptors")
    run_obygaze("extract", "run", plan_file(whole, tmp_path / "whole.json")).ok()
    assert array_bytes(world.store) == array_bytes(Path(whole.targets[0].store))


def test_a_disconnected_node_continues_to_write(
    films: Manifest, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    """Slurm gives its task to the other node; for a while, both make the same blocks."""
    with running_slurm(n_isolated=2) as two_nodes:
        world = World.of(two_nodes, tmp_path, films)
        job = world.submit(seconds=0.8)
        both = {"node0", "node1"}
        wait_until(
            lambda: world.hosts() == both,
            f"blocks of both nodes\n{world.log_text()}",
            60,
        )
        before = world.n_blocks()
        two_nodes.unplug(two_nodes.nodes[1])
        ends = two_nodes.wait_for_end(job)
        assert before < N_UNITS
        assert len(ends) == 2
        restarts = sorted(two_nodes.restarts(name) for name in ends)
        assert restarts == [0, 1], two_nodes.logs()
        assert array_bytes(world.store) == undisturbed
        assert clips_begun(world.log) > N_CLIPS, "nobody worked on the same blocks"


def test_a_time_limit_shorter_than_the_slice(
    slurm: Slurm, short_of_time: tuple[World, str], undisturbed: dict[str, bytes]
) -> None:
    world, job = short_of_time
    slurm.wait_for_end(job, timeout_s=150)
    restarts = sum(slurm.restarts(name) for name in slurm.states(job))
    assert restarts >= 1, world.log_text()
    assert "stopped by SIGUSR1" in world.log_text()
    assert array_bytes(world.store) == undisturbed
    assert clips_begun(world.log) <= N_CLIPS - 1 + restarts * BLOCK_ROWS
