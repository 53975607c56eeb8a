"""Story 27: what is in the labels, without features."""

from __future__ import annotations

from stories.films import rows_of_clips
from stories.workspace import Workspace


def test_levels_are_counted(ws: Workspace) -> None:
    ws.write_table("clips.csv", rows_of_clips())
    ws("manifest import csv clips.csv -o films")
    text = ws("manifest stats films").text
    assert "40 clips of 4 films" in text
    assert "EN 16 40.0 %" in text
