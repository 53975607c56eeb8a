"""Exports that are killed before any change of the disk: the next one leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.torture import is_bad, kills

pytestmark = pytest.mark.check("kills exports before every change of the disk")


def test_a_killed_export_leaves_nothing_once_it_was_repeated(tmp_path: Path) -> None:
    counts = kills(tmp_path, "export npz")
    assert counts["cases"] > 5
    assert not is_bad(counts)
