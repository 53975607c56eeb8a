import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.extraction import film_folder, keep_manifest
from support.servers import wait_until

from obygaze_features.backbones import weights
from obygaze_features.core.errors import FixUsage
from obygaze_features.extraction.slurm import write_slurm_script

BLOCK_ROWS = 16
RUN = ("films", "-b", "descriptors")


def workspace_in(folder: Path, n_clips: int = 2 * BLOCK_ROWS) -> Path:
    """A folder with films and their manifest; the commands are called there."""
    folder.mkdir(parents=True, exist_ok=True)
    keep_manifest(film_folder(folder, n_clips), folder)
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
    """The words of the command of a task, without the program and the final &."""
    words = shlex.split(lines[place_of_cd(lines) + 2])
    assert words[-1] == "&"
    return words[words.index("-C") : -1]


def place_of_cd(lines: list[str]) -> int:
    (place,) = (number for number, line in enumerate(lines) if line.startswith("cd "))
    return place


def test_the_whole_script(here: Path) -> None:
    options = ("--workers", "3", "--device", "cuda")
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
    assert lines[place_of_cd(lines)] == f"cd {here} || exit 1"
    assert words_of_task(lines)[2:] == ["extract", "run", *RUN, *options]
    assert (here / "logs").is_dir()
    subprocess.run(["bash", "-n", "night.sh"], check=True)


def test_a_script_that_keeps_pictures_first(here: Path) -> None:
    """The options of the networks and of sbatch are not those of the first script."""
    options = ("--workers", "3", "--retry-failed")
    words = ("--dtype", "bfloat16", *options, "--decode-first")
    lines = script(*words, "--", "--gres", "gpu:1")
    assert words_of_task(lines)[-5:] == [
        "--workers",
        "3",
        "--dtype",
        "bfloat16",
        options[2],
    ]
    frames = (here / "night-frames.sh").read_text("utf-8").splitlines()
    run = ["films", "-b", "frames:descriptors", *options]
    assert words_of_task(frames) == ["-C", str(here), "extract", "run", *run]
    assert "#SBATCH --job-name=obygaze-films-frames" in frames
    assert not any("gpu" in line for line in frames)
    call_obygaze("extract", "run", "films", "-b", "frames:descriptors").ok()
    (here / "night-frames.sh").unlink()
    (here / "night.sh").unlink()
    assert "nothing is missing of frames:descriptors" in refused(
        "--tasks", "2", "--decode-first"
    )


OWN = """\
import torch
from obygaze_features.backbones import module_card


def run(module, pixels):
    return {"clip": module(pixels).mean((1, 3, 4))}


def own():
    shape = {"frames": 4, "height": 48, "width": 64, "arrays": {"clip": [3]}}
    facts = {"values": "levels", "licence": "CC0-1.0", "files": []}
    return module_card("own", torch.nn.Identity, run, **shape, **facts)
"""


def test_no_pictures_are_kept_for_a_store_that_lacks_nothing(here: Path) -> None:
    Path("own.py").write_text(OWN, "utf-8")
    call_obygaze("extract", "run", *RUN).ok()
    script("-b", "own.py:own", "--decode-first")
    frames = (here / "night-frames.sh").read_text("utf-8").splitlines()
    assert words_of_task(frames)[-2:] == ["-b", "frames:own.py:own"]
    assert "frames:descriptors" not in "".join(frames)


@pytest.mark.parametrize(
    ("code", "restarts", "is_queued"),
    [(75, "9", True), (75, "10", False), (3, "0", False)],
)
def test_a_task_is_queued_again_if_it_was_stopped(
    code: int, restarts: str, is_queued: bool, here: Path
) -> None:
    """Each signal goes to the shell, which passes it on and waits for the program."""
    lines = script()
    place = place_of_cd(lines) + 2
    pause = "sleep .05; done"
    stop = f"touch stopping; while [ ! -e go ]; do {pause}; exit {code}"
    lines[place] = f"(trap '{stop}' USR1; touch begun; while :; do {pause}) &"
    Path("night.sh").write_text("\n".join(lines), "utf-8")
    program = here / "scontrol"
    program.write_text('#!/bin/sh\necho "$@" > queued.txt\n', "utf-8")
    program.chmod(0o755)
    variables = {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": restarts}
    path = f"{here}:{os.environ['PATH']}"
    shell = subprocess.Popen(
        ["bash", "night.sh"], env=os.environ | variables | {"PATH": path}
    )
    wait_until((here / "begun").exists, "the task")
    shell.send_signal(signal.SIGUSR1)
    wait_until((here / "stopping").exists, "the end of the task")
    shell.send_signal(signal.SIGUSR1)
    with pytest.raises(subprocess.TimeoutExpired):
        shell.wait(1)
    Path("go").touch()
    assert shell.wait(20) == code
    queued = here / "queued.txt"
    assert queued.exists() == is_queued
    assert not is_queued or queued.read_text("utf-8") == "requeue 7\n"


def test_odd_names_reach_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm and the shell read quotes, blanks, # and % in their own ways."""
    folder = workspace_in(tmp_path / """it's "1"#2 50% of""")
    monkeypatch.chdir(folder)
    lines = script("--", "--comment", r'a "b\c"', "-A", "lab")
    log = rf"""{tmp_path}/it's \"1\"#2 50%% of/logs/%x-%A_%a.log"""
    plain = [line.replace('"--output=', '--output="') for line in lines]
    assert f'#SBATCH --output="{log}"' in plain
    assert r'#SBATCH --comment "a \"b\\c\"" -A lab' in lines
    cd, name, *_ = shlex.split(lines[place_of_cd(lines)])
    assert (cd, name) == ("cd", str(folder))
    assert words_of_task(lines)[:2] == ["-C", str(folder)]


def test_names_that_no_script_can_have(here: Path) -> None:
    assert "line breaks" in refused("--tasks", "2", "--", "--comment=a\nb")
    with pytest.raises(FixUsage, match="a folder with a backslash"):
        folder = workspace_in(here / "a\\b")
        write_slurm_script(
            "films", "descriptors", tasks=2, out="night.sh", workspace=folder
        )


def test_what_tasks_would_refuse_is_refused_at_once(here: Path) -> None:
    of_sbatch = "option of sbatch, write it at the end: -- --gres"
    assert of_sbatch in refused("--tasks", "2", "--gres", "gpu:1")
    no_clips = "would leave no clips to the tasks of the script"
    assert no_clips in refused("--tasks", "2", "--seal-now")


def test_a_plan_downloads_no_weights(here, monkeypatch) -> None:
    asked: list[str] = []
    monkeypatch.setenv("HF_HUB_CACHE", str(here / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(weights, "download_files", lambda card: asked.append(card.name))
    done = call_obygaze("extract", "plan", "films", "-b", "clip-b16")
    assert done.code == 1
    assert "no weights for clip-b16" in done.stderr
    assert "obygaze backbones fetch clip-b16" in done.stderr
    assert asked == []
