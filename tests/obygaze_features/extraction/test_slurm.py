"""`extract slurm`: the text of the script, and its runs on a real Slurm."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.cli import Result, call_obygaze, environment, run_obygaze
from support.extracted_stores import bytes_of
from support.extraction import film_folder, keep_manifest
from support.servers import wait_until
from support.slow_obygaze import clips_begun, install
from support.slurm import Slurm

from obygaze_features.backbones import weights
from obygaze_features.core.errors import FixUsage
from obygaze_features.extraction.slurm import write_slurm_script
from obygaze_features.manifest.model import Manifest

# Six blocks of 16 clips.
BLOCK_ROWS = 16
N_CLIPS, N_BLOCKS = 95, 6
BAD = 5
FAILED_CLIPS = 3
RUN = ("films", "-b", "descriptors")

real_slurm = pytest.mark.check("a real Slurm")


# ---- the script --------------------------------------------------------------------------------


def workspace_in(folder: Path) -> Path:
    """A folder with films and their manifest; the commands are called there."""
    folder.mkdir(parents=True, exist_ok=True)
    keep_manifest(film_folder(folder, 2 * BLOCK_ROWS), folder)
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(workspace_in(tmp_path))
    return tmp_path


def script(*words: str, out: str = "night.sh") -> list[str]:
    """The lines of a script that the command writes."""
    call_obygaze("extract", "slurm", *RUN, "--tasks", "2", "-o", out, *words).ok()
    return Path(out).read_text("utf-8").splitlines()


def refused(*words: str) -> str:
    """What the command says when it writes no script."""
    done = call_obygaze("extract", "slurm", *RUN, "-o", "night.sh", *words)
    assert done.code in (1, 2), done.stdout
    assert not Path("night.sh").exists()
    return done.stderr


def words_of_task(lines: list[str]) -> list[str]:
    """The words of the command of a task, without `exec` and program."""
    words = shlex.split(lines[-1])
    assert words[0] == "exec"
    return words[words.index("-C") :]


def test_the_whole_script(here: Path) -> None:
    options = ("--device", "cuda", "--workers", "3")
    lines = script(*options, "--", "--gres", "gpu:1", "--time=8:00:00", "-p", "long")
    assert [line for line in lines if line.startswith("#")] == [
        "#!/bin/bash",
        "#SBATCH --job-name=obygaze-films",
        "#SBATCH --array=0-1",
        "#SBATCH --cpus-per-task=4",
        f"#SBATCH --output={here}/logs/%x-%A_%a.log",
        "#SBATCH --open-mode=append",
        "#SBATCH --requeue",
        "#SBATCH --signal=B:USR1@60",
        "#SBATCH --gres gpu:1 --time=8:00:00 -p long",
        *(line for line in lines if line.startswith("# ")),
    ]
    assert lines[-2] == f"cd {here} || exit 1"
    assert words_of_task(lines) == ["-C", str(here), "extract", "run", *RUN, *options]
    assert (here / "logs").is_dir()
    subprocess.run(["bash", "-n", "night.sh"], check=True)


def test_odd_names_reach_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm and the shell read quotes, blanks, # and % in their own ways."""
    folder = workspace_in(tmp_path / """it's "1"#2 50% of""")
    monkeypatch.chdir(folder)
    lines = script("--", "--comment", r'a "b\c"', "-A", "lab")
    log = rf"""{tmp_path}/it's \"1\"#2 50%% of/logs/%x-%A_%a.log"""
    assert f'#SBATCH --output="{log}"' in [
        line.replace('"--output=', '--output="') for line in lines
    ]
    assert r'#SBATCH --comment "a \"b\\c\"" -A lab' in lines
    cd, name, *_ = shlex.split(lines[-2])
    assert (cd, name) == ("cd", str(folder))
    assert words_of_task(lines)[:2] == ["-C", str(folder)]


def test_names_that_no_script_can_have(here: Path) -> None:
    assert "line breaks" in refused("--tasks", "2", "--", "--comment=a\nb")
    with pytest.raises(FixUsage, match="a folder with a backslash"):
        folder = workspace_in(here / "a\\b")
        write_slurm_script(RUN, tasks=2, out="night.sh", workspace=folder)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--gres", "gpu:1"], "option of sbatch, write it at the end: -- --gres"),
        (["--seal-now"], "leaves nothing to the tasks of a script"),
        (["--tasks", "3"], "--tasks 3 is more than the 2 blocks of clips"),
    ],
)
def test_what_tasks_would_refuse_is_refused_at_once(
    here: Path, words: list[str], expected: str
) -> None:
    tasks = [] if "--tasks" in words else ["--tasks", "2"]
    assert expected in refused(*tasks, *words)


def test_a_plan_downloads_no_weights(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setenv("HF_HUB_CACHE", str(here / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(weights, "download_files", lambda card: asked.append(card.name))
    done = call_obygaze("extract", "plan", "films", "-b", "clip-b16")
    assert done.code == 1
    assert "no weights for clip-b16" in done.stderr
    assert "obygaze backbones fetch clip-b16" in done.stderr
    assert asked == []


def test_another_script_is_replaced_only_with_force(here: Path) -> None:
    script()
    words = ("extract", "slurm", *RUN, "--tasks", "1", "-o", "night.sh")
    assert "exists and has other contents" in call_obygaze(*words).stderr
    call_obygaze(*words, "--force").ok()
    assert "--array=0-0" in (here / "night.sh").read_text()


def test_only_what_is_missing_has_tasks(here: Path) -> None:
    call_obygaze("extract", "run", *RUN, "--workers", "1").ok()
    assert "nothing is missing" in refused("--tasks", "1")


# ---- a real Slurm ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Films of which one clip cannot be read: a worker that has it ends with 3."""
    return film_folder(
        tmp_path_factory.mktemp("films"), N_CLIPS, bad={BAD: b"not a video"}
    )


@pytest.fixture(scope="module")
def undisturbed(
    films: Manifest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, object]:
    """The numbers that one plain run makes."""
    folder = tmp_path_factory.mktemp("undisturbed")
    keep_manifest(films, folder)
    done = run_obygaze("extract", "run", *RUN, cwd=folder)
    assert done.code == FAILED_CLIPS, done.stderr
    return bytes_of(folder / "stores" / "films.descriptors")


@dataclass
class World:
    """A workspace, a slow `obygaze`, and a Slurm to run it."""

    slurm: Slurm
    folder: Path

    @classmethod
    def of(cls, slurm: Slurm, folder: Path, films: Manifest) -> World:
        folder.mkdir(exist_ok=True)
        keep_manifest(films, folder)
        install(folder)
        return cls(slurm, folder)

    @property
    def store(self) -> Path:
        return self.folder / "stores" / "films.descriptors"

    @property
    def log(self) -> Path:
        return self.folder / "clips.log"

    def submit(self, *sbatch_options: str, seconds: float = 0.0) -> str:
        """Write a script and submit it as a person would; the number of the job."""
        changes = {
            **self.slurm.environment,
            "OBYGAZE_TEST_SECONDS": str(seconds),
            "OBYGAZE_TEST_LOG": str(self.log),
        }
        argv = [str(self.folder / "obygaze"), "extract", "slurm", *RUN]
        argv += [
            "--workers",
            "1",
            "--tasks",
            "2",
            "-o",
            "night.sh",
            "--force",
            "--json",
        ]
        argv += ["--", "--cpus-per-task", "1", *sbatch_options]
        written = self._run(argv, changes).json()
        sbatch, script = shlex.split(written["command"])
        submitted = self._run([sbatch, "--parsable", script], changes)
        return submitted.stdout.strip()

    def _run(self, argv: list[str], changes: dict[str, str]) -> Result:
        done = subprocess.run(
            argv,
            cwd=self.folder,
            env=environment(changes),
            capture_output=True,
            text=True,
        )
        return Result(done.returncode, done.stdout, done.stderr).ok()

    def n_blocks(self) -> int:
        if self.store.exists():
            return N_BLOCKS
        blocks = self.store.with_name(f"{self.store.name}.next") / "blocks"
        return len(list(blocks.glob("[0-9]*")))

    def wait_for_blocks(self, least: int) -> None:
        wait_until(
            lambda: self.n_blocks() >= least, f"{least} blocks\n{self.log_text()}", 60
        )

    def log_text(self) -> str:
        logs = sorted((self.folder / "logs").glob("*"))
        return "\n".join(path.read_text() for path in logs)

    def exit_code(self, task: str) -> int:
        told = self.slurm.call("scontrol", "--oneliner", "show", "job", task)
        return int(told.split("ExitCode=")[1].split(":")[0])


class TestRealSlurm:
    """What the text of a script cannot show."""

    pytestmark = real_slurm

    def test_an_array_that_is_preempted_and_killed(
        self,
        slurm: Slurm,
        films: Manifest,
        undisturbed: dict[str, object],
        tmp_path: Path,
    ) -> None:
        world = World.of(slurm, tmp_path, films)
        job = world.submit("--gres", "gpu:1", seconds=0.6)
        world.wait_for_blocks(1)
        urgent = slurm.call("sbatch", "--parsable", *URGENT, "--wrap", "sleep 0.5")
        slurm.wait_for_end(urgent)
        wait_until(
            lambda: "RUNNING" in slurm.states(job).values(), "the array to go on", 60
        )
        restarts = {name: slurm.restarts(name) for name in slurm.states(job)}
        assert sum(restarts.values()) == 2, restarts
        assert "stopped by SIGTERM" in world.log_text()
        pid = _a_worker(slurm, world)
        killed = _task_of(pid)
        os.kill(pid, signal.SIGKILL)
        ends = slurm.wait_for_end(job)
        assert ends[f"{job}_{killed}"] == "FAILED"
        # The other one takes over, unless it had ended before.
        if not world.store.exists():
            slurm.wait_for_end(world.submit())
        assert bytes_of(world.store) == undisturbed
        # A stop may cost the clips at work, and each worker may make the last block of the other.
        lost = (sum(restarts.values()) + 1 + 2) * BLOCK_ROWS
        assert clips_begun(world.log) <= N_CLIPS - 1 + lost, world.log_text()


URGENT = ("--partition=urgent", "--gres=gpu:2", "--output=/dev/null")


def _a_worker(slurm: Slurm, world: World) -> int:
    found: list[int] = []

    def there() -> bool:
        folder = str(world.folder)
        found.clear()
        for pid in slurm.pids():
            command = _command(pid)
            # A shell that starts a worker, and what it starts, are no workers.
            if f"{folder}/obygaze" in command and "extract" in command:
                found.append(pid)
        return bool(found)

    wait_until(there, "a worker")
    time.sleep(2)  # past its start
    return found[0]


def _command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8").split("\0")
    except OSError:
        return []


def _task_of(pid: int) -> int:
    """The number of the task of an array that a process is."""
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    pairs = dict(variable.split(b"=", 1) for variable in variables if b"=" in variable)
    return int(pairs[b"SLURM_ARRAY_TASK_ID"])
