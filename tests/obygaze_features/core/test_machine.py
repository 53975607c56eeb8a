from __future__ import annotations

import os

import pytest

from obygaze_features.core import machine


def test_cores_come_from_the_affinity_mask_and_slurms_word(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 5, 9, 11}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert machine.usable_cores() == 4
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "3")
    assert machine.usable_cores() == 3
    for nonsense in ("8", "0", "", "two"):
        monkeypatch.setenv("SLURM_CPUS_PER_TASK", nonsense)
        assert machine.usable_cores() == 4


def test_where_there_is_no_mask_all_cores_count(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 10)
    assert machine.usable_cores() == 10


def test_the_processor_has_the_name_its_maker_gave_it(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some  CPU @ 2 GHz\n", encoding="utf-8")
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
