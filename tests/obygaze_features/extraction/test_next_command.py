"""An extraction ends with the command that comes next, where that command works."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from obygaze_features.extraction.planning import ExtractionPlan
from obygaze_features.extraction.results import next_steps
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import Array

SHAPES: dict[str, tuple[str, tuple[int, ...]]] = {
    "pooled": ("float32", (4,)),
    "frames": ("float32", (3, 4)),
    "pictures": ("uint8", (3, 8, 8, 3)),
}


@pytest.mark.parametrize(
    ("array", "levels", "n_ok", "expected"),
    [
        (
            "pooled",
            ("EN", "HN", "S"),
            3,
            ["next: obygaze run honest --manifest m --store a/s"],
        ),
        ("pictures", ("EN", "HN", "S"), 3, ["next: obygaze store info a/s"]),
        ("frames", ("EN", "HN", "S"), 3, ["next: obygaze store info a/s"]),
        (
            "pooled",
            ("EN", "S", "S"),
            3,
            ["next: obygaze run honest --manifest m --store a/s"],
        ),
        (
            "pooled",
            ("", "", ""),
            3,
            ["next: obygaze run honest --manifest m --store a/s --task COLUMN"],
        ),
        # The command would have nothing to read.
        ("pooled", ("EN", "HN", "S"), 0, []),
    ],
)
def test_an_experiment_comes_next_where_array_and_levels_allow_one(
    array: str, levels: tuple[str, ...], n_ok: int, expected: list[str]
) -> None:
    clips = [
        Clip(f"c{i}", "f", level=level, concepts=("Look",))
        for i, level in enumerate(levels)
    ]
    manifest = Manifest("m", Header("made up", {"Look": "visual"}), tuple(clips))
    store: Any = SimpleNamespace(
        target=SimpleNamespace(store="a/s", backbone="own"),
        path=Path("a/s"),
        seal="1",
        view=None,
        arrays=[Array.of(array, *SHAPES[array])],
        work=SimpleNamespace(rows=(), computed=()),
    )
    state: Any = SimpleNamespace(store="a/s", seal="1", ok=n_ok, failures={})
    plan = ExtractionPlan("m", (), None, [store])
    assert next_steps(plan, [state], manifest) == expected
