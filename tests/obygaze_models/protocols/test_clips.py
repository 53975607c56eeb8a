"""Columns of clips as protocols read them."""

from __future__ import annotations

from obygaze_features.manifest.model import Clip
from obygaze_models.protocols.clips import ClipTable


def test_folds_are_numbers_and_empty_cells_are_outside() -> None:
    clips = [
        Clip(f"c{i}", "m", extra={"fold:a": cell})
        for i, cell in enumerate(["3", "", "0"])
    ]
    assert ClipTable("m", clips, ()).fold("a").tolist() == [3, -1, 0]


def test_positions_are_scenes_or_ranks_by_start_time() -> None:
    timed = [("a", 9.0), ("b", 1.0), ("a", 3.0)]
    clips = [Clip(f"c{i}", m, start_s=s, end_s=s + 1) for i, (m, s) in enumerate(timed)]
    found = ClipTable("m", clips, ()).places
    assert found == {"c0": ("a", 1), "c1": ("b", 2), "c2": ("a", 0)}
    assert ClipTable("m", clips[::2], ()).places is None, (
        "of one film nothing is near another"
    )
