"""Note how long each test takes that passes; used by `support.mutants`."""

from __future__ import annotations

import os
from collections import defaultdict

import pytest

from support.mutants import NOT_ASKED, REACHED

_TOOK: dict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the seconds of setup and call, and write them when the test has passed."""
    if "PYTEST_XDIST_WORKER" not in os.environ or report.nodeid.startswith(NOT_ASKED):
        return
    _TOOK[report.nodeid] += report.duration
    if report.when == "call" and report.passed:
        path = REACHED / f"seconds-{os.getpid()}"
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{report.nodeid}\t{_TOOK.pop(report.nodeid):.3f}\n")
