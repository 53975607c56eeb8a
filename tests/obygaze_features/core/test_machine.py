from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from obygaze_features.core import machine
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.machine import Runs, duration, time_runs
from obygaze_features.core.system import posix


@pytest.fixture
def no_quota(monkeypatch):
    """As outside a container."""
    monkeypatch.setattr(machine.system, "cpu_quota", lambda: None)


@pytest.mark.usefixtures("no_quota")
def test_cores_come_from_the_affinity_mask_and_slurms_word(monkeypatch):
    masks = {0: {0, 5, 9, 11}}  # 0 is this process
    monkeypatch.setattr(os, "sched_getaffinity", masks.__getitem__, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert machine.usable_cores() == 4
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "3")
    assert machine.usable_cores() == 3
    for nonsense in ("8", "0", "", "two"):
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", nonsense)
        assert machine.usable_cores() == 4


@pytest.mark.usefixtures("no_quota")
def test_where_there_is_no_mask_all_cores_count(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 10)
    assert machine.usable_cores() == 10


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


def test_the_processor_has_the_name_its_maker_gave_it(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor\t: 0\nmodel name\t: Some  CPU @ 2 GHz\n", encoding="utf-8"
    )
    assert machine.cpu_name(cpuinfo) == "Some CPU @ 2 GHz"
    assert machine.cpu_name(tmp_path / "absent")


def test_versions_are_known_without_an_import():
    assert machine.package_version("no-such-package") is None
    found = machine.this_machine(["click", "no-such-package"])
    assert list(found.packages) == ["click"]


@pytest.mark.parametrize(
    "packages, end", [({}, "Python 3.11.7"), ({"a": "1"}, "Python 3.11.7, a 1")]
)
def test_the_machine_in_one_line(packages, end):
    this = machine.Machine("CPU", 2, "Linux x86_64", "3.11.7", packages)
    assert this.line() == f"CPU, 2 cores, Linux x86_64, {end}"


class Clock:
    """A clock that only the work moves on; of the processor, half as fast."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.now / 2


@pytest.mark.parametrize(
    ("each_s", "taken"),
    [
        (0.1, 3),  # three after the first, which does not count
        (0.8, 1),  # the first and one more: a third would be over two seconds
        (1.5, 1),  # the first, which then counts
        (60.0, 1),
    ],
)
def test_dear_work_is_run_less_often(
    each_s: float, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(machine, "time", clock)

    def work() -> None:
        clock.now += each_s

    def prepare() -> None:
        clock.now += 100

    found = time_runs(work, 3, prepare=prepare)
    assert found.wall_s == pytest.approx((each_s,) * taken)
    assert found.cpu_s == pytest.approx((each_s / 2,) * taken)


def test_no_rounds_are_no_bench() -> None:
    with pytest.raises(FixUsage, match="rounds must be at least 1, got 0"):
        time_runs(lambda: None, 0)


def test_medians_are_of_wall_and_cpu_time() -> None:
    runs = Runs((3.0, 1.0, 2.0), (0.5, 0.25))
    assert (runs.median_s, runs.median_cpu_s) == (2.0, 0.375)


@pytest.mark.parametrize(
    "seconds, text",
    [
        (1234.0, "1,234 s"),
        (12.34, "12.3 s"),
        (1.0, "1 s"),
        (0.5, "500 ms"),
        (0.0123, "12.3 ms"),
        (45e-6, "45 us"),
        (0.0, "0 us"),
        (0.9999, "1 s"),
    ],
)
def test_times_as_people_say_them(seconds, text):
    assert duration(seconds) == text


def test_one_round_is_two_runs_of_the_work() -> None:
    runs: list[int] = []
    assert len(time_runs(lambda: runs.append(1), 1, max_s=1e9).wall_s) == 1
    assert len(runs) == 2


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (OSError("no space left on device"), False),
    ],
)
def test_which_errors_mean_too_little_memory(error: Exception, expected: bool) -> None:
    assert machine.is_out_of_memory(error) is expected


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [("1", True), ("True", True), ("on", True), ("0", False), ("", False)],
)
def test_either_variable_forbids_the_network(
    name: str, value: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(other, raising=False)
    assert machine.offline() is False
    monkeypatch.setenv(name, value)
    assert machine.offline() is expected


def test_cpu_time_is_of_this_process_and_its_children(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    children = SimpleNamespace(ru_utime=2.0, ru_stime=3.0)
    monkeypatch.setattr(posix.resource, "getrusage", lambda who: children)
    monkeypatch.setattr(machine.time, "process_time", lambda: 10.0)
    assert machine._cpu_time() == 15.0
