"""Sheets of maps: their files, and what is drawn over a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from obygaze_features.extraction import map_drawing
from obygaze_features.extraction.map_drawing import overlay
from obygaze_features.store.maps import BesideRandom, beside_random


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


def test_maps_of_one_scale_can_be_compared() -> None:
    """A random direction, drawn on its own scale, had orange patches as bright as any other."""
    pictures = np.full((1, 4, 4, 3), 100, np.uint8)
    strong = np.zeros((1, 4, 4))
    strong[0, 0, 0] = 8.0
    weak = strong / 8
    scale = map_drawing.highest(strong)
    brightest = overlay(pictures, strong, scale)[0, 0, 0]
    np.testing.assert_array_equal(brightest, overlay(pictures, weak)[0, 0, 0])
    faint = overlay(pictures, weak, scale)[0, 0, 0]
    assert 100 < faint[0] < 100 + (brightest[0] - 100) / 4
    names = ["joy", "random 1", "fear", "random 2"]
    assert map_drawing.drawn_directions(names) == ["joy", "fear", "random 1"]
    assert map_drawing.drawn_directions(["joy"]) == ["joy"]


@pytest.mark.parametrize(
    ("own", "n_below", "passes"), [(2.0, 20, True), (0.5, 10, False), (0.0, 0, False)]
)
def test_a_map_passes_if_few_random_directions_vary_as_much(
    own: float, n_below: int, passes: bool
) -> None:
    base = np.arange(8.0).reshape(2, 2, 2)
    spreads = [own, *(np.arange(20) / 20 + 1e-3)]
    maps = np.stack([spread * base for spread in spreads])
    names = ["joy", *(f"random {n}" for n in range(1, 21))]
    found = beside_random(names, maps)
    assert found == {"joy": BesideRandom(20, n_below)}
    assert found["joy"].passes == passes
    assert f"more than {n_below} of 20 random directions" in str(found["joy"])
    assert beside_random(["joy"], maps[:1])["joy"].passes is False
    assert "no random directions" in str(beside_random(["joy"], maps[:1])["joy"])


def test_what_passes_is_said_to_be_rare_by_chance_not_to_be_more() -> None:
    """One map in 21 is above 20 random ones without meaning anything."""
    above_all = BesideRandom(20, 20)
    assert above_all.passes
    assert str(above_all) == (
        "It varies over the pictures more than 20 of 20 random directions: chance paints as much"
        " in at most 1 map of 20."
    )
    assert not BesideRandom(20, 19).passes
    assert not BesideRandom(18, 18).passes
