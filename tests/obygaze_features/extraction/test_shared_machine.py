"""GPUs of other users, limits of GPU memory and time, and low priority."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from obygaze_features.extraction.shared_machine import (
    busy_gpus,
    idle_gpus,
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


def test_a_gpu_that_others_use_is_named(nvidia_smi: Path) -> None:
    assert busy_gpus(["cuda", "cuda:1"]) == []
    nvidia_smi.write_text(of_somebody_else(SECOND), encoding="utf-8")
    assert busy_gpus(["cuda:0"]) == []
    assert busy_gpus(["cpu"]) == []
    assert busy_gpus(["cuda:0", "cuda:1"]) == [
        "cuda:1 is shared: others compute on it (1)"
    ]


@pytest.mark.parametrize("visible", ["1", SECOND, "GPU-2222", "1,0"])
def test_gpu_numbers_count_visible_gpus(
    nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch, visible: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    nvidia_smi.write_text(of_somebody_else(FIRST), encoding="utf-8")
    assert busy_gpus(["cuda"]) == []
    nvidia_smi.write_text(of_somebody_else(SECOND), encoding="utf-8")
    assert busy_gpus(["cuda"]) == ["cuda is shared: others compute on it (1)"]


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


PARTS = ("MIG-33333333-cccc", "MIG-44444444-dddd")


def report_of_parts(process: str = "", used_mb: int = 12) -> str:
    """The report of two GPUs, of which the second has two parts: instances 1 and 5."""
    devices = "".join(
        f"<mig_device><index>{index}</index><gpu_instance_id>{instance}</gpu_instance_id>"
        "<compute_instance_id>0</compute_instance_id><fb_memory_usage><total>20096 MiB</total>"
        f"<used>{used_mb if index == 1 else 12} MiB</used></fb_memory_usage></mig_device>"
        for index, instance in enumerate((1, 5))
    )
    return (
        f"<nvidia_smi_log><gpu><mig_devices>None</mig_devices><uuid>{FIRST}</uuid></gpu>"
        f"<gpu><mig_devices>{devices}</mig_devices><uuid>{SECOND}</uuid>"
        f"<processes>{process}</processes></gpu></nvidia_smi_log>"
    )


def process_on(instance: int) -> str:
    return (
        f"<process_info><gpu_instance_id>{instance}</gpu_instance_id>"
        "<compute_instance_id>0</compute_instance_id><pid>4194999</pid><type>C</type>"
        "<used_memory>17000 MiB</used_memory></process_info>"
    )


@pytest.fixture
def with_parts(nvidia_smi: Path) -> Path:
    """The second GPU is divided into two parts (MIG); the returned file is its report."""
    report = nvidia_smi.with_name("report.xml")
    report.write_text(report_of_parts(), encoding="utf-8")
    listed = nvidia_smi.with_name("list")
    listed.write_text(
        f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {FIRST})\n"
        f"GPU 1: NVIDIA A100-SXM4-40GB (UUID: {SECOND})\n"
        f"  MIG 3g.20gb     Device  0: (UUID: {PARTS[0]})\n"
        f"  MIG 3g.20gb     Device  1: (UUID: {PARTS[1]})\n",
        encoding="utf-8",
    )
    program = nvidia_smi.with_name("nvidia-smi")
    more = f"-L) cat {listed};; -q) cat {report};; *) exit 9;; esac"
    text = program.read_text("utf-8")
    program.write_text(text.replace("*) exit 9;; esac", more), encoding="utf-8")
    return report


@pytest.mark.parametrize("name", [PARTS[1], "MIG-4444"])
def test_a_part_of_a_gpu_is_in_use_by_the_processes_on_it(
    with_parts: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The name of a part was that of no GPU: it was never idle, and never refused."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", name)
    assert idle_gpus() == ["cuda:0"]
    with_parts.write_text(report_of_parts(process_on(1)), encoding="utf-8")
    assert idle_gpus() == ["cuda:0"]
    assert busy_gpus(["cuda"]) == []
    with_parts.write_text(report_of_parts(process_on(5)), encoding="utf-8")
    assert idle_gpus() == []
    assert busy_gpus(["cuda"]) == ["cuda is shared: others compute on it (1)"]


def test_memory_of_a_part_without_a_visible_process_is_in_use(
    with_parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(PARTS))
    with_parts.write_text(report_of_parts(used_mb=9000), encoding="utf-8")
    assert idle_gpus() == ["cuda:0"]
    assert busy_gpus(["cuda:0"]) == []
    (sentence,) = busy_gpus(["cuda:1"])
    assert "by no process that is visible here" in sentence


def test_a_report_that_cannot_be_read_leaves_no_part_idle(
    with_parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", PARTS[0])
    with_parts.write_text("<nvidia_smi_log><gpu>", encoding="utf-8")
    assert idle_gpus() == []
    assert busy_gpus(["cuda"]) == []


def test_memory_without_a_visible_process_is_in_use(nvidia_smi: Path) -> None:
    """A container lists no process of outside: a GPU with 17 GB in use was idle."""
    program = nvidia_smi.with_name("nvidia-smi")
    used = f"--query-gpu=uuid,memory.used) echo {FIRST}, 17000; echo {SECOND}, 610;;"
    text = program.read_text("utf-8")
    program.write_text(text.replace("*) exit 9", f"{used} *) exit 9"), encoding="utf-8")
    assert idle_gpus() == ["cuda:1"]
    assert busy_gpus(["cuda:1"]) == []
    (sentence,) = busy_gpus(["cuda:0"])
    assert "by no process that is visible here" in sentence
    nvidia_smi.write_text(f"{FIRST}, {os.getpid()}, 17000\n", encoding="utf-8")
    assert busy_gpus(["cuda:0"]) == []


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
    assert busy_gpus(["cuda"]) == []


def test_own_processes_are_allowed(nvidia_smi: Path) -> None:
    nvidia_smi.write_text(f"{FIRST}, {os.getpid()}, 900\n", encoding="utf-8")
    assert busy_gpus(["cuda"]) == []


def test_gpus_are_allowed_if_nvidia_smi_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert busy_gpus(["cuda"]) == []
    program = tmp_path / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\necho NVIDIA-SMI has failed, no driver\n", encoding="utf-8"
    )
    program.chmod(0o755)
    assert busy_gpus(["cuda"]) == []
