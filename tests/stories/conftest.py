"""Fixtures of the stories."""

from __future__ import annotations

from pathlib import Path

import pytest

from stories.workspace import Workspace


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    """Return an empty workspace."""
    return Workspace(tmp_path / "workspace")
