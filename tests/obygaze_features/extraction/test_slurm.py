import shlex
import subprocess
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.extraction import film_folder, keep_manifest

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
    plain = [line.replace('"--output=', '--output="') for line in lines]
    assert f'#SBATCH --output="{log}"' in plain
    assert r'#SBATCH --comment "a \"b\\c\"" -A lab' in lines
    cd, name, *_ = shlex.split(lines[-2])
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
