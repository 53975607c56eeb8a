"""Exports that are killed before any change of the disk: the next one leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.torture import is_bad, kills

pytestmark = pytest.mark.check("kills exports before every change of the disk")


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_a_killed_export_leaves_nothing_once_it_was_repeated(
    tmp_path: Path, kind: str
) -> None:
    counts = kills(tmp_path, f"export {kind}")
    assert counts["cases"] > 5
    assert not is_bad(counts)
