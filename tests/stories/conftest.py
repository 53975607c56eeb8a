"""Fixtures of the stories."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stories.workspace import Workspace


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "workspace")
    yield workspace
    workspace.end_all()
