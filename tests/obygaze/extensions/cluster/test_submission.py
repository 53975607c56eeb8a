"""A later submission has the options and the edits of the one before, or is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.cli import call_obygaze
from support.extraction import a_plan, film_folder, plan_file

from obygaze.extensions.cluster.slurm import array_for
from obygaze_features.extraction import extract
from obygaze_features.extraction.plan import ExtractPlan
from obygaze_features.extraction.run import Resources, extract_plan
from obygaze_features.extraction.shared_machine import StopFlag
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import open_store

pytestmark = pytest.mark.check("submits arrays of jobs")

# Two units of four clips, of which each has one that cannot be read.
N_CLIPS = 8
BAD = {1: b"not a video", 6: b"not a video"}


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return film_folder(tmp_path_factory.mktemp("films"), N_CLIPS, bad=BAD)


@pytest.fixture
def plan(
    films: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ExtractPlan:
    monkeypatch.chdir(tmp_path)
    made = a_plan(films, tmp_path, "descriptors")
    plan_file(made, tmp_path / "plan.json")
    return made


def slurm(*words: str, code: int = 0) -> Any:
    """Call the command; return its document, or what it said if it was refused."""
    done = call_obygaze("extract", "slurm", "plan.json", "--json", *words)
    assert done.code == code, done.stderr
    return done.json() if code == 0 else done.stderr


def script_lines() -> list[str]:
    return Path("plan.sbatch").read_text("utf-8").splitlines()


def test_resume_keeps_the_options_of_the_submission(plan: ExtractPlan) -> None:
    slurm(
        "-k",
        "2",
        "--gres",
        "gpu:1",
        "--cpus",
        "8",
        "--time",
        "04:00",
        "--",
        "--device",
        "cuda",
    )
    first = script_lines()
    slurm("-k", "2", "--resume", "--sbatch", "--account=lab")
    lines = script_lines()
    # What is new comes last among the options, and nothing else changes.
    assert [line for line in lines if line not in first] == ["#SBATCH --account=lab"]
    assert [line for line in first if line not in lines] == []
    for expected in ("--gres=gpu:1", "--cpus-per-task=8", "--time=04:00:00"):
        assert f"#SBATCH {expected}" in lines
    assert any("plan.json --device cuda --worker" in line for line in lines)
    # The account is an option of the last submission now, and the number of tasks need not be said.
    assert slurm("--resume", "--cpus", "2", "--", "--share")["array"] == "0-1"
    lines = script_lines()
    assert "#SBATCH --account=lab" in lines
    assert "#SBATCH --cpus-per-task=2" in lines
    assert any("plan.json --device cuda --share --worker" in line for line in lines)
    # A new submission begins anew, and says what it does not have of the last one.
    words = ("extract", "slurm", "plan.json", "-k", "2", "--force")
    said = " ".join(call_obygaze(*words, "--cpus", "2").ok().stderr.split())
    assert "the last submission had --gres gpu:1, --time 04:00, " in said
    assert "--sbatch --account=lab, -- --device cuda --share, which" in said
    assert "--cpus" not in said
    again = call_obygaze(*words, "--cpus", "2").ok().stderr
    assert "the last submission had" not in again
    slurm("-k", "2", "--force")
    assert not any("account" in line or "cuda" in line for line in script_lines())


def calls() -> list[str]:
    return [line for line in script_lines() if "extract run" in line]


def test_tasks_compute_on_the_device_of_the_plan(plan: ExtractPlan) -> None:
    plan_file(replace(plan, device="cuda"), Path("plan.json"))
    slurm("-k", "2", "--gres", "gpu:1")
    assert "plan.json --device cuda --worker" in calls()[0]
    slurm("--resume", "--cpus", "2")
    assert "plan.json --device cuda --worker" in calls()[0]
    # Options after -- say another.
    slurm("-k", "2", "--force", "--", "--device=cuda:1")
    assert "plan.json --device=cuda:1 --worker" in calls()[0]


@pytest.mark.parametrize(
    "words", [("--gres", "gpu:1"), ("--sbatch", "--gpus=1"), ("--sbatch", "-G2")]
)
def test_a_gpu_that_no_task_would_use_is_a_warning(
    plan: ExtractPlan, words: tuple[str, ...]
) -> None:
    call = ("extract", "slurm", "plan.json", "-k", "2", "--force", *words)
    warning = "the tasks ask for a GPU, but compute on the CPU: give -- --device cuda"
    assert warning in call_obygaze(*call).ok().stderr
    assert warning not in call_obygaze(*call, "--", "--device", "cpu").ok().stderr
    assert "--device cpu --worker" in calls()[0]
    plan_file(replace(plan, device="cuda"), Path("plan.json"))
    assert warning not in call_obygaze(*call).ok().stderr


def test_an_option_of_the_tasks_takes_the_place_of_the_earlier_one(
    plan: ExtractPlan,
) -> None:
    slurm("-k", "2", "--", "--device", "cuda", "--share", "--workers=2")
    slurm("--resume", "--", "--device=cuda:1", "--workers", "3")
    assert "plan.json --share --device=cuda:1 --workers 3 --worker" in calls()[0]
    slurm("--resume", "--", "--batch", "4")
    assert "--share --device=cuda:1 --workers 3 --batch 4 --worker" in calls()[0]
    # Of --seal and --no-seal the last one counts, so that one takes the place of the other.
    for word in ("--no-seal", "--seal", "--no-seal"):
        slurm("--resume", "--", word)
        assert f"--batch 4 {word} --worker" in calls()[0]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--devise", "cuda"], "no option '--devise' (did you mean '--device'?)"),
        (["--workers", "0"], "--workers must be a whole number from 1 to 1024, got 0"),
        (["--workers"], "--workers needs a value"),
        (["--batch", "2", "--batch", "3"], "--batch takes one value"),
        (["films"], "unexpected argument: films"),
        (["-b", "descriptors"], "-b cannot be used with a plan file"),
        (["--block-clips", "8"], "--block-clips cannot be used with a plan file"),
        (["--device", "gpu"], "unknown device 'gpu'"),
        (["--worker", "0/2"], "--worker after --"),
        (["--retry-failed"], "--retry-failed after --"),
    ],
)
def test_options_of_tasks_are_checked_before_they_are_submitted(
    plan: ExtractPlan, words: list[str], expected: str
) -> None:
    """Each task refused them, after its time in the queue."""
    assert expected in slurm("-k", "2", "--", *words, code=2)
    assert not Path("plan.sbatch").exists()


def test_options_that_tasks_take(plan: ExtractPlan) -> None:
    words = ["-q", "--device", "cuda:all", "--workers=2", "--no-seal", "--timeout", "9"]
    slurm("-k", "2", "--", *words)
    assert calls()[0].endswith(f'{" ".join(words)} --worker "$SLURM_ARRAY_TASK_ID/2"')


def test_more_tasks_than_units_are_a_warning(plan: ExtractPlan) -> None:
    call = ("extract", "slurm", "plan.json", "-k")
    done = call_obygaze(*call, "8").ok()
    assert "2 tasks of 8 can work: the 8 clips are 2 units" in done.stderr
    assert "obygaze extract plan --tasks 8" in done.stderr
    assert "can work" not in call_obygaze(*call, "2", "--force").ok().stderr


def test_resume_keeps_the_edits_of_a_script(plan: ExtractPlan) -> None:
    slurm("-k", "2", "--gres", "gpu:1", "--", "--device", "cuda")
    edited = (
        Path("plan.sbatch")
        .read_text("utf-8")
        .replace("\ntask=", "\nmodule load cuda\ntask=")
    )
    edited = edited.replace("--array=0-1", "--array=0-1%1")
    Path("plan.sbatch").write_text(edited, "utf-8")
    shutil.rmtree("stores", ignore_errors=True)
    extract_plan(plan, Resources(), StopFlag(), rows=range(4))
    assert slurm("--resume")["array"] == "1"
    assert Path("plan.sbatch").read_text("utf-8") == edited.replace(
        "--array=0-1%1", "--array=1%1"
    )
    slurm("-k", "2", "--resume")
    # Options would not be in the script as it is.
    before = Path("plan.sbatch").read_text("utf-8")
    said = slurm("--resume", "--cpus", "2", "--", "--share", code=2)
    assert "was edited" in said
    assert "--cpus, -- OPTIONS" in said
    assert "--force" in said
    assert "-k" in slurm("-k", "3", "--resume", code=2)
    assert Path("plan.sbatch").read_text("utf-8") == before
    slurm("--resume", "--cpus", "2", "--force")
    assert "module load cuda" not in script_lines()
    assert any("--device cuda --worker" in line for line in script_lines())


def test_a_script_whose_options_are_not_known_is_kept(plan: ExtractPlan) -> None:
    """As those of earlier versions are, which kept no options."""
    slurm("-k", "2", "--gres", "gpu:1", "--", "--device", "cuda")
    before = Path("plan.sbatch").read_text("utf-8")
    Path("plan.slurm.json").unlink()
    slurm("--resume")
    assert Path("plan.sbatch").read_text("utf-8") == before
    assert "not known" in slurm("--resume", "--sbatch", "--account=lab", code=2)
    assert "-k is missing" in slurm("--resume", "--force", code=2)


def test_a_script_without_its_lines_is_not_changed(plan: ExtractPlan) -> None:
    slurm("-k", "2")
    without = "\n".join(line for line in script_lines() if "--array" not in line)
    Path("plan.sbatch").write_text(without, "utf-8")
    assert "--array" in slurm("--resume", code=2)
    assert Path("plan.sbatch").read_text("utf-8") == without


def test_setup_lines_come_before_the_work(plan: ExtractPlan) -> None:
    slurm(
        "-k",
        "2",
        "--setup",
        "module load cuda/12",
        "--setup",
        "source 'my env/bin/activate'",
    )
    lines = script_lines()
    place = lines.index("module load cuda/12")
    assert lines[place + 1] == "source 'my env/bin/activate'"
    assert lines[place - 1].startswith("cd ")
    assert place < next(i for i, line in enumerate(lines) if line.startswith("srun"))
    slurm("--resume", "--setup", "ulimit -n 4096")
    assert script_lines()[place : place + 3] == [
        *lines[place : place + 2],
        "ulimit -n 4096",
    ]
    assert "line breaks" in slurm("-k", "2", "--force", "--setup", "a\nb", code=2)


def test_options_are_kept_wherever_the_command_is_called(
    plan: ExtractPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm("-k", "2", "-o", "jobs.sh", "--container", "image.sif")
    first = Path("jobs.sh").read_text("utf-8")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    call_obygaze("extract", "slurm", "../plan.json", "--resume").ok()
    assert (tmp_path / "jobs.sh").read_text("utf-8") == first
    assert list(Path.cwd().iterdir()) == []


def test_damaged_options_are_an_error(plan: ExtractPlan) -> None:
    slurm("-k", "2")
    kept = json.loads(Path("plan.slurm.json").read_text("utf-8"))
    for damage in (
        {"workers": 0},
        {"cpus": "8"},
        {"directives": "a"},
        {"schema": "other/1"},
    ):
        Path("plan.slurm.json").write_text(json.dumps({**kept, **damage}), "utf-8")
        assert "plan.slurm.json" in slurm("--resume", code=1)


def test_arrays_and_workers_retry_failed_clips(
    films: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(films.header.video_root, tmp_path / "videos")
    monkeypatch.chdir(tmp_path)
    header = replace(films.header, video_root=str(tmp_path / "videos"))
    moved = Manifest("films", header, films.clips)
    plan = a_plan(moved, tmp_path, "descriptors")
    plan_file(plan, tmp_path / "plan.json")
    (state,) = extract_plan(plan, Resources(), StopFlag())
    assert (state.ok, state.failed) == (6, 2)
    slurm("-k", "2", "--gres", "gpu:1", "--", "--workers", "1")
    first = Path("plan.sbatch").read_text("utf-8")
    assert slurm("--resume")["script"] is None
    assert slurm("--retry-failed")["array"] == "0-1"
    text = Path("plan.sbatch").read_text("utf-8")
    assert text == first.replace('_ID/2"', '_ID/2" --retry-failed')
    # The film of the second worker's clip is there now; its task alone extracts it.
    good, bad = (plan.rows[row].video for row in (7, 6))
    shutil.copyfile(good, bad)
    (state,) = extract_plan(
        plan, Resources(), StopFlag(), rows=plan.worker_rows("1/2"), retry_failed=True
    )
    assert (state.clips, state.ok, state.failed) == (4, 4, 0)
    assert slurm("--retry-failed")["tasks"] == [0]
    # The number of the clip's film is in its pixels, so a film of other bytes has other features.
    shutil.copyfile(plan.rows[7].video, plan.rows[5].video)
    array = array_for(plan, tmp_path / "plan.json", 2, again="--changed")
    assert array is not None
    assert list(array.tasks) == [0, 1]
    assert slurm("--changed")["tasks"] == [0, 1]
    assert '_ID/2" --changed' in Path("plan.sbatch").read_text("utf-8")
    worker = {"rows": plan.worker_rows("1/2"), "retry_failed": True, "changed": True}
    (state,) = extract_plan(plan, Resources(), StopFlag(), **worker)
    assert state.ok == 4
    assert slurm("--changed")["tasks"] == [0]
    # The options are those of the first submission all the time, and no retry stays.
    slurm("--retry-failed")
    Path(plan.rows[1].video).write_bytes(Path(plan.rows[2].video).read_bytes())
    extract_plan(plan, Resources(), StopFlag(), retry_failed=True)
    assert slurm("--retry-failed")["job"] is None
    assert "--gres=gpu:1" in Path("plan.sbatch").read_text("utf-8")


def test_tasks_retry_rows_of_a_version_that_was_not_made(plan: ExtractPlan) -> None:
    """They failed before the run was stopped: there was nothing to do for a task."""
    extract(plan, seal=True)
    extract(plan, retry_failed=True, seal=False)
    array = array_for(plan, Path("plan.json"), 2, again="--retry-failed")
    assert array is not None
    assert list(array.tasks) == [0]


def test_tasks_make_versions_of_sealed_stores(
    films: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan of a manifest with new clips was refused, and failed clips of a sealed store too."""
    shutil.copytree(films.header.video_root, tmp_path / "videos")
    monkeypatch.chdir(tmp_path)
    header = replace(films.header, video_root=str(tmp_path / "videos"))
    few = Manifest("films", header, films.clips[:4])
    plan_file(a_plan(few, tmp_path, "descriptors"), tmp_path / "plan.json")
    assert call_obygaze("extract", "run", "plan.json", "--seal").code == 3
    store = tmp_path / "stores" / "descriptors"
    grown = a_plan(Manifest("films", header, films.clips), tmp_path, "descriptors")
    plan_file(grown, tmp_path / "plan.json")
    # Four new clips are one unit.
    assert slurm("-k", "3")["tasks"] == [0]
    assert slurm("--resume")["tasks"] == [0]
    assert open_store(store).version == 1
    run = ("extract", "run", "plan.json", "--worker")
    assert call_obygaze(*run, "0/3", "--seal").code == 3
    assert (open_store(store).version, len(open_store(store))) == (2, N_CLIPS)
    assert slurm("--resume")["script"] is None
    # Both clips that cannot be read are in the version; one is whole now.
    shutil.copyfile(grown.rows[0].video, grown.rows[1].video)
    assert slurm("--retry-failed")["tasks"] == [0]
    call_obygaze(*run, "0/3", "--retry-failed", "--seal")
    assert open_store(store).version == 3
    assert open_store(store).status().counts == {"ok": 7, "failed": 1}


def test_new_clips_of_a_sealed_store_that_failed_are_retried(
    films: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in no version yet, and "no clip to extract again" was the answer."""
    shutil.copytree(films.header.video_root, tmp_path / "videos")
    monkeypatch.chdir(tmp_path)
    header = replace(films.header, video_root=str(tmp_path / "videos"))
    one = Manifest("films", header, films.clips[:1])
    plan_file(a_plan(one, tmp_path, "descriptors"), tmp_path / "plan.json")
    run = ("extract", "run", "plan.json")
    call_obygaze(*run).ok()
    grown = a_plan(Manifest("films", header, films.clips), tmp_path, "descriptors")
    plan_file(grown, tmp_path / "plan.json")
    assert call_obygaze(*run).code == 3
    store = tmp_path / "stores" / "descriptors"
    assert len(open_store(store)) == 1
    assert slurm("-k", "8", "--resume")["job"] is None
    shutil.copyfile(grown.rows[0].video, grown.rows[1].video)
    shutil.copyfile(grown.rows[0].video, grown.rows[6].video)
    # The new clips begin with the second one: the units are those of the version.
    assert slurm("-k", "8", "--retry-failed")["tasks"] == [0, 5]
    for task in (0, 5):
        call_obygaze(*run, "--worker", f"{task}/8", "--retry-failed")
    assert open_store(store).status().counts == {"ok": N_CLIPS}
    assert slurm("--retry-failed")["script"] is None


def test_progress_of_a_version_is_seen_by_a_task_that_is_started_again(
    films: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task looked for finished clips where a sealed store has none, and gave up."""
    monkeypatch.chdir(tmp_path)
    few = Manifest("films", films.header, films.clips[:1])
    plan_file(a_plan(few, tmp_path, "descriptors"), tmp_path / "plan.json")
    call_obygaze("extract", "run", "plan.json").ok()
    plan_file(a_plan(films, tmp_path, "descriptors"), tmp_path / "plan.json")
    words = ("extract", "slurm", "plan.json", "-k", "1")
    written = call_obygaze(*words).ok()
    assert "(at the speed so far a task needs about " in written.stdout
    (line,) = [line for line in script_lines() if line.startswith("folders=")]
    folders = line.removeprefix("folders=(").removesuffix(")").split()
    assert not any(Path(folder).is_dir() for folder in folders)
    assert call_obygaze("extract", "run", "plan.json").code == 3
    blocks = []
    for folder in folders:
        blocks += Path(folder).glob("*block-*")
    assert blocks
