"""Compiling touches every layer, changes nothing but rounding, and is told in the recipe."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.checkpoints import save_tiny, tiny_card

from obygaze_features.backbones.base import Placement, compile_layers
from obygaze_features.backbones.load import load_backbone


@pytest.mark.parametrize("family", ["clip", "xclip", "dinov2"])
def test_every_layer_is_compiled_and_answers_as_before(family: str, tmp_path: Path) -> None:
    card = tiny_card(family)
    folder = save_tiny(family, tmp_path / family)
    plain = load_backbone(card, folder)
    compiled = load_backbone(card, folder)
    # The eager backend runs the captured graph as it is: quick, and it proves the capture.
    assert compile_layers(compiled.module, backend="eager") >= 2  # type: ignore[attr-defined]
    size = plain.geometry.size
    pixels = torch.randn(2, plain.geometry.frames, 3, size, size, generator=torch.manual_seed(1))
    expected, found = plain.forward(pixels), compiled.forward(pixels)
    for name, level in expected.items():
        torch.testing.assert_close(found[name], level, rtol=0, atol=1e-6)


def test_the_recipe_tells_of_compiling_only_where_it_is_done() -> None:
    assert "compiled" not in Placement().recipe()
    assert Placement(compiled=True).recipe()["compiled"] is True
