"""The time limit of a task is compared with what is known of its work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import call_obygaze
from support.extraction import a_plan, film_folder, plan_file
from support.stores import block_of, plan_store, some_values

from obygaze.extensions.cluster.time_limit import (
    TimeLimit,
    hours_and_minutes,
    minutes_of,
    time_limit_of,
)
from obygaze_features.core.errors import FixUsage
from obygaze_features.extraction.estimate import CostEstimate
from obygaze_features.extraction.plan import ExtractPlan
from obygaze_features.extraction.status import measured_clip_s, store_status
from obygaze_features.store import StoreWriter

N_CLIPS = 12


@pytest.fixture
def plan(tmp_path: Path) -> ExtractPlan:
    made = a_plan(film_folder(tmp_path, N_CLIPS), tmp_path, "descriptors")
    plan_file(made, tmp_path / "plan.json")
    return made


def cost_of(decode_s: float | None, workers: int = 1) -> CostEstimate:
    return CostEstimate(
        clips=1000,
        with_video=1000,
        not_found=[],
        stores=[],
        decode_s=decode_s,
        unreadable={},
        peak_bytes=0,
        free_bytes=0,
        workers=workers,
    )


def test_a_clip_needs_what_decoding_it_takes(plan: ExtractPlan) -> None:
    limit = time_limit_of(plan, cost_of(4.0, workers=2), 60, n_tasks=8)
    # 125 clips of 2 s.
    assert (limit.clip_s, limit.n_clips, limit.is_measured) == (2.0, 125, False)
    assert str(limit) == "60 minutes each (for decoding alone a task needs about 4 min)"
    # Twice a batch of 16 of 2 s, a minute to start, and two batches at the end.
    on_gpu = time_limit_of(plan, cost_of(4.0, workers=2), 3, n_tasks=8, on_gpu=True)
    assert (on_gpu.warning_s, on_gpu.least_minutes) == (64, 4)  # 188 s
    assert "leaves each start 116 s, which may be too short" in on_gpu.warning
    assert "give 00:04 or more" in on_gpu.warning
    assert replace(on_gpu, minutes=4).warning == ""
    # 1,000 clips of 60 s for one task, of which each start does the work of 57 minutes.
    long = time_limit_of(plan, cost_of(60.0), 60, n_tasks=1)
    assert long.warning_s == 120
    assert str(long).endswith("a task needs about 16.7 hours, 18 starts)")
    too_short = TimeLimit(1, warning_s=30, clip_s=1.0, n_clips=9)
    assert (
        str(too_short) == "1 minutes each (for decoding alone a task needs about 9 s)"
    )
    unknown = time_limit_of(plan, cost_of(None), 60, n_tasks=1)
    assert str(unknown) == "60 minutes each"


def test_the_limit_that_would_do(plan: ExtractPlan) -> None:
    assert TimeLimit(3, clip_s=100.0).minutes_that_would_do == 6  # 320 s
    # What was estimated was not enough.
    assert TimeLimit(10, clip_s=100.0).minutes_that_would_do == 20


def test_the_signal_of_another_option_counts(plan: ExtractPlan) -> None:
    for directive, seconds in {
        "--signal=USR1@120": 120,
        "signal=B:USR1@30": 30,
        "--signal USR1@90": 90,
        "--signal=USR1": 60,
        "--partition=a@300": 60,
    }.items():
        limit = time_limit_of(
            plan, cost_of(1.0), 2, n_tasks=1, directives=["--qos=a", directive]
        )
        assert limit.warning_s == seconds, directive
    limit = time_limit_of(
        plan, cost_of(1.0), 2, n_tasks=1, directives=["--signal=USR1@120"]
    )
    with pytest.raises(FixUsage, match=r"--time 00:02 leaves no time for clips"):
        limit.refuse_without_time()


def test_the_seconds_of_committed_clips_count_more(tmp_path: Path) -> None:
    path = tmp_path / "store"
    plan_store(path)
    writer = StoreWriter(path)
    assert measured_clip_s([store_status(path)]) is None
    seconds = {"wait": 8.0, "decode": 40.0, "forward": 2.0, "write": 2.0}
    writer.commit_block(0, block_of(some_values(23), (0, 4)), seconds=seconds)
    state = store_status(path)
    assert measured_clip_s([state]) == 3.0
    # Two stores of a run wait together, and each computes for itself.
    assert measured_clip_s([state, state]) == 4.0


def test_the_signal_leaves_time_for_the_clips_at_work(
    plan: ExtractPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clip of more than a minute was killed at the limit, and its task did not start again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "obygaze.extensions.cluster.slurm.cost_of_task",
        lambda plan, cpus: cost_of(100.0),
    )
    words = ("extract", "slurm", "plan.json", "-k", "1", "--force")
    call_obygaze(*words).ok()
    assert "#SBATCH --signal=USR1@200" in Path("plan.sbatch").read_text("utf-8")
    done = call_obygaze(*words, "--time", "00:03")
    assert done.code == 2
    assert "a task is stopped 200 s before its limit" in done.stderr
    assert "--time 00:08 or more" in done.stderr


def test_commands_compare_the_limit(
    plan: ExtractPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("extract", "slurm", "plan.json", "-k", "3", "--force")
    done = call_obygaze(*words, "--time", "00:01")
    assert done.code == 2
    assert "a task is stopped 60 s before its limit" in done.stderr
    assert "--time 00:03 or more" in done.stderr
    assert not Path("plan.sbatch").exists()
    done = call_obygaze(*words, "--time", "00:01", "--sbatch", "--signal=USR1@20").ok()
    assert "leaves each start 40 s" in done.stderr
    assert "(for decoding alone a task needs about 1 s)" in done.stdout
    assert "in 00:01: submit it again with --resume --time 00:02" in (
        Path("plan.sbatch").read_text("utf-8")
    )
    # The limit may be given in another way.
    call_obygaze(*words, "--time", "00:01", "--sbatch", "--time=02:00:00").ok()
    call_obygaze("extract", "run", "plan.json").ok()
    (state,) = [store_status(plan.targets[0].store)]
    assert state.sealed
    assert "no clip is missing" in call_obygaze(*words, "--resume").ok().stdout


def test_hours_and_minutes() -> None:
    for text in ("00:01", "01:00", "12:59", "120:00"):
        assert hours_and_minutes(minutes_of(text)) == text


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("08:00", 480),
        ("08:00:00", 480),
        ("08:00:01", 481),
        ("8h", 480),
        ("90m", 90),
        ("1h30m", 90),
        ("1-12:00:00", 2160),
        ("1-12:00", 2160),
        ("2d", 2880),
    ],
)
def test_times_are_taken_in_the_forms_of_slurm(text: str, minutes: int) -> None:
    assert minutes_of(text) == minutes


@pytest.mark.parametrize("text", ["", "0", "8", "00:00", "0h", "1:60", "-1", "8 hours"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(FixUsage, match="--time must have the form"):
        minutes_of(text)
