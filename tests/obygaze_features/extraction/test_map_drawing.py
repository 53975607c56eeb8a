"""Sheets of maps: their files, and what is drawn over a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from obygaze_features.extraction import map_drawing
from obygaze_features.extraction.map_drawing import overlay


def test_sheets_stay_in_their_folder_whatever_directions_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A store of maps may come from somebody else.
    names = [
        "/../../../pwned",
        str(tmp_path / "pwned"),
        "Joy",
        "joy",
        "Type of shot",
        "..",
        "лицо",
    ]
    sheets = [(name, name.encode()) for name in names]
    monkeypatch.setattr(
        map_drawing, "map_sheets", lambda workspace, store, clip: iter(sheets)
    )
    folder = tmp_path / "a" / "sheets"
    monkeypatch.setattr(map_drawing, "open_store", lambda maps, workspace: None)
    paths = map_drawing.draw_maps("maps", "../tt0:1", folder, workspace=tmp_path)
    assert [path.read_bytes().decode() for path in paths] == names
    assert {path.parent for path in paths} == {folder}
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(paths)
    assert sum(".Type-of-shot." in path.name for path in paths) == 1


def test_an_overlay_is_grey_where_nothing_is_seen() -> None:
    pictures = np.full((2, 8, 8, 3), (30, 60, 90), dtype=np.uint8)
    maps = np.zeros((2, 2, 2))
    maps[1, 0, 1] = 1
    found = overlay(pictures, maps)
    assert (found[0] == 60).all()
    assert found[1, 0, 7].tolist() == [216, 89, 12]  # a fifth of 60, and 0.8 of orange
    assert (found[1, -1, 0] == 60).all()
