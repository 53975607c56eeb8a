"""GPUs of other users, limits of GPU memory and time, and low priority."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from support.cli import run_obygaze
from support.extraction import a_plan, film_folder, keep_manifest, plan_file

from obygaze_features.core.errors import ObygazeError
from obygaze_features.extraction.shared_machine import (
    StopFlag,
    idle_gpus,
    refuse_busy_gpus,
)

FIRST, SECOND = "GPU-11111111-aaaa", "GPU-22222222-bbbb"


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two GPUs; the returned file lists the processes on them."""
    users = tmp_path / "users"
    users.touch()
    program = tmp_path / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\n"
        f'case "$1" in --query-gpu=uuid) echo {FIRST}; echo {SECOND};;\n'
        f"--query-compute-apps=*) cat {users};; *) exit 9;; esac\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return users


def of_somebody_else(gpu: str) -> str:
    # No process has this number: as seen from a container, it is nobody we know.
    return f"{gpu}, 4194999, 17000\n"


def test_a_gpu_that_others_use_is_refused(nvidia_smi: Path) -> None:
    refuse_busy_gpus(["cuda", "cuda:1"])
    nvidia_smi.write_text(of_somebody_else(SECOND), encoding="utf-8")
    refuse_busy_gpus(["cuda:0"])
    refuse_busy_gpus(["cpu"])
    with pytest.raises(ObygazeError) as caught:
        refuse_busy_gpus(["cuda:0", "cuda:1"])
    assert caught.value.where == SECOND
    assert "--share" in str(caught.value)
    assert "4194999" in caught.value.details[0]
    assert "17000 MB" in caught.value.details[0]


@pytest.mark.parametrize("visible", ["1", SECOND, "GPU-2222", "1,0"])
def test_gpu_numbers_count_visible_gpus(
    nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch, visible: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    nvidia_smi.write_text(of_somebody_else(FIRST), encoding="utf-8")
    refuse_busy_gpus(["cuda"])
    nvidia_smi.write_text(of_somebody_else(SECOND), encoding="utf-8")
    with pytest.raises(ObygazeError, match="in use by others"):
        refuse_busy_gpus(["cuda"])


def test_idle_gpus_are_the_visible_ones_without_a_process(
    nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert idle_gpus() == ["cuda:0", "cuda:1"]
    nvidia_smi.write_text(f"{FIRST}, {os.getpid()}, 900\n", encoding="utf-8")
    assert idle_gpus() == ["cuda:1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert idle_gpus() == ["cuda:0"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert idle_gpus() == []


@pytest.mark.check("runs commands in processes of their own")
def test_idle_gpus_are_named_only_if_a_backbone_could_use_them(
    nvidia_smi: Path, tmp_path: Path
) -> None:
    keep_manifest(film_folder(tmp_path / "films", 2), tmp_path)
    nvidia_smi.write_text(of_somebody_else(FIRST), encoding="utf-8")

    def plan(*words: str) -> str:
        done = run_obygaze("-C", tmp_path, "extract", "plan", "films", *words).ok()
        # The folder has the name of the test.
        return done.stdout.replace(str(tmp_path), "")

    assert "cuda:1 is idle: use --device cuda:1" in plan(
        "-b", "clip-b16", "--probe", "1"
    )
    assert "idle" not in plan("-b", "descriptors", "--probe", "1")
    done = run_obygaze(
        "-C", tmp_path, "extract", "run", "films", "-b", "descriptors"
    ).ok()
    assert "idle" not in done.stderr.replace(str(tmp_path), "")
    offline = ("-C", tmp_path, "extract", "run", "films", "-b", "clip-b16")
    assert "cuda:1 is idle" in run_obygaze(*offline).stderr


@pytest.mark.parametrize("query", ["--query-gpu", "--query-compute-apps"])
def test_no_gpu_is_idle_where_nvidia_smi_fails(nvidia_smi: Path, query: str) -> None:
    program = nvidia_smi.with_name("nvidia-smi")
    text = program.read_text("utf-8")
    # As after an update of the driver: the reason is printed as the answer would be.
    reason = (
        "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18"
    )
    program.write_text(
        text.replace("case ", f'case "$1" in {query}*) {reason};; esac\ncase ', 1)
    )
    assert idle_gpus() == []
    refuse_busy_gpus(["cuda"])


def test_own_processes_are_allowed(nvidia_smi: Path) -> None:
    nvidia_smi.write_text(f"{FIRST}, {os.getpid()}, 900\n", encoding="utf-8")
    refuse_busy_gpus(["cuda"])


def test_gpus_are_allowed_if_nvidia_smi_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    refuse_busy_gpus(["cuda"])
    program = tmp_path / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\necho NVIDIA-SMI has failed, no driver\n", encoding="utf-8"
    )
    program.chmod(0o755)
    refuse_busy_gpus(["cuda"])


def test_a_run_checks_the_gpu_before_loading(nvidia_smi: Path, tmp_path: Path) -> None:
    nvidia_smi.write_text(of_somebody_else(FIRST), encoding="utf-8")
    manifest = film_folder(tmp_path / "films", 2)
    path = plan_file(a_plan(manifest, tmp_path, "descriptors"), tmp_path / "plan.json")
    done = run_obygaze("extract", "run", path, "--device", "cuda")
    assert (done.code, "in use by others" in done.stderr) == (1, True), done.stderr
    assert not (tmp_path / "stores").exists()


@pytest.mark.parametrize("error", [BrokenPipeError(), RuntimeError("reentrant call")])
def test_a_stop_whose_note_cannot_be_written_is_a_stop(error: Exception) -> None:
    """In `obygaze extract run ... 2>&1 | tee log`, Ctrl-C ends tee first."""

    def note(text: str) -> None:
        raise error

    flag = StopFlag(note=note)
    flag.handle(signal.SIGINT)
    assert flag.signal_name == "SIGINT"
