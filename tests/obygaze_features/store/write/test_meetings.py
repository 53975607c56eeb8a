"""Processes that meet: whatever one does before any step of another, both end well."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.meetings import PAIRS, meet

# `make torture` has them meet before every step.
EVERY = 13


@pytest.mark.parametrize("name", PAIRS)
def test_two_processes_that_meet_end_well(tmp_path: Path, name: str) -> None:
    assert meet(tmp_path, name, EVERY) >= 2
