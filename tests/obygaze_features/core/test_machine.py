import os

import pytest

from obygaze_features.core import machine
from obygaze_features.core.system import posix


@pytest.fixture(autouse=True)
def no_job(monkeypatch):
    monkeypatch.delenv("SLURM_CPUS_PER_TASK")


def test_cores_come_from_the_affinity_mask_and_slurms_word(monkeypatch):
    monkeypatch.setattr(machine.system, "cpu_quota", lambda: None)
    masks = {0: {0, 5, 9, 11}}  # 0 is this process
    monkeypatch.setattr(os, "sched_getaffinity", masks.__getitem__, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert machine.usable_cores() == 4
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "3")
    assert machine.usable_cores() == 3
    for nonsense in ("8", "0", "", "two"):
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", nonsense)
        assert machine.usable_cores() == 4


def test_a_container_has_the_cores_of_its_quota(monkeypatch, tmp_path):
    groups = tmp_path / "cgroup"
    root = tmp_path / "fs"

    def quota(line, **files):
        groups.write_text(line, encoding="ascii")
        for name, text in files.items():
            path = root / name.replace("__", "/").replace("cpu_", "cpu.")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="ascii")
        return posix._quota_of_groups(root, groups)

    assert posix._quota_of_groups(root, groups) is None
    # docker run --cpus 4, as seen inside: the own group is the root.
    assert quota("0::/\n", cpu_max="400000 100000\n") == 4
    assert quota("0::/\n", cpu_max="max 100000\n") is None
    assert quota("0::/user/job\n", user__cpu_max="250000 100000\n") == 2.5
    assert quota("0::/user/job\n", user__job__cpu_max="max 100000\n") == 2.5
    # Version 1: a limit of a group above holds too.
    halves = {
        "cpu,cpuacct__cpu_cfs_quota_us": "-1",
        "cpu,cpuacct__cpu_cfs_period_us": "100000",
    }
    assert quota("4:cpu,cpuacct:/a\n2:memory:/a\n", **halves) is None
    limited = {
        "cpu,cpuacct__a__cpu_cfs_quota_us": "150000",
        "cpu,cpuacct__a__cpu_cfs_period_us": "100000",
    }
    assert quota("4:cpu,cpuacct:/a\n2:memory:/a\n", **limited) == 1.5

    monkeypatch.setattr(
        os, "sched_getaffinity", lambda process: set(range(64)), raising=False
    )
    for cores, expected in ((4.0, 4), (1.5, 2), (0.2, 1), (None, 64)):
        monkeypatch.setattr(machine.system, "cpu_quota", lambda cores=cores: cores)
        assert machine.usable_cores() == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `x`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: Error"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_which_errors_mean_too_little_memory(error: Exception, expected: bool) -> None:
    assert machine.is_out_of_memory(error) is expected


def test_either_variable_forbids_the_network(monkeypatch):
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    for values, expected in ((("1", ""), True), (("", "on"), True), (("0", ""), False)):
        for name, value in zip(names, values, strict=True):
            monkeypatch.setenv(name, value)
        assert machine.offline() is expected


def test_the_cache_agrees_with_huggingface_hub_itself() -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    assert str(machine.cache_folder()) == constants.HF_HUB_CACHE
