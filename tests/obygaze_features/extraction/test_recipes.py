"""The target of a store is restored from its recipe."""

from __future__ import annotations

import pytest

from obygaze_features.backbones.base import Placement
from obygaze_features.extraction.plan import Target
from obygaze_features.extraction.recipes import SAMPLING_RULES, target_of


@pytest.mark.parametrize(
    ("placement", "sampling"),
    [
        (Placement(), "card"),
        (Placement(dtype="bfloat16", attention="eager", tf32=True), "keyframes"),
        (Placement(dtype="float16", compiled=True), "card"),
    ],
)
def test_a_target_is_read_back_from_its_recipe(
    placement: Placement, sampling: str
) -> None:
    recipe = {
        "backbone": {"name": "clip-b16", "preset": "default"},
        "compute": placement.recipe(),
        "sampling": {
            "rule": SAMPLING_RULES["even" if sampling == "card" else sampling],
            "frames": 16,
        },
    }
    assert target_of(recipe, "folder") == Target(
        store="",
        backbone="clip-b16@default",
        weights="folder",
        sampling=sampling,
        dtype=placement.dtype,
        attention=placement.attention,
        tf32=placement.tf32,
        compiled=placement.compiled,
    )
