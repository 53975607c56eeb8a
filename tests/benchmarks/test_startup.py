"""Start-up: the help of the command beside click itself."""

from __future__ import annotations

import pytest

from benchmarks.startup import measure
from benchmarks.timing import Settings

pytestmark = pytest.mark.check("benchmarks")


def test_the_help_is_measured_beside_click_itself():
    result = measure(Settings(rounds=1))
    document = result.to_json()
    assert document["reference"] == "python -c 'import click'"
    ratios = {row["name"]: row["ratio"] for row in document["contestants"]}
    assert ratios["python -c 'import click'"] == 1.0
    assert {"obygaze --help", "python -c pass"} <= set(ratios)
    assert all(row["peak_rss_bytes"] > 1e6 for row in document["contestants"])
    assert "obygaze --help" in result.to_text()
