"""Backbones of the user's own code: `-b FILE.py:NAME`, modules and installed packages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="backbones need the extract extra")
pytest.importorskip("transformers", reason="backbones need the extract extra")

from obygaze_features.backbones import find_card, load_backbone  # noqa: E402
from obygaze_features.core.errors import (  # noqa: E402
    ObygazeError,
)

NET = """\
import torch
from obygaze_features.backbones import module_card


def load():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 5))


def run(module, pixels):
    frames = module(pixels.flatten(0, 1)).unflatten(0, pixels.shape[:2])
    return {"clip": frames.mean(1), "pooled": frames.amax(1), "frames": frames}


def net():
    arrays = {"clip": [5], "pooled": [5], "frames": [4, 5]}
    return module_card("net", load, run, arrays=arrays, frames=4, size=8, licence="MIT")
"""


@pytest.fixture
def world(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(NET, "utf-8")
    return tmp_path


def test_arrays_of_equal_lengths_have_dimensions_of_their_own(world: Path) -> None:
    shapes = "{'clip': [5], 'grid': [4, 7, 7, 16], 'cube': [7, 7, 7, 7, 7]}"
    text = NET.replace('{"clip": [5], "pooled": [5], "frames": [4, 5]}', shapes)
    (world / "mine.py").write_text(text, "utf-8")
    arrays = find_card(f"{world / 'mine.py'}:net").arrays
    assert arrays["grid"].dims == ("frame", "token_7", "token_7_2", "feature_16")
    for array in arrays.values():
        assert len(set(array.dims)) == len(array.shape)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def net(:\n", "cannot be imported: SyntaxError"),
        ("x = 1\n", r"mine\.py has no net"),
        ("def net():\n    return 3\n", "must return a card, .* got 3"),
        (NET.replace('"net"', '"a:b"'), "the name of a backbone is letters"),
        (NET.replace('"clip": [5]', '"clip": []'), "a shape for each array"),
        (
            NET.replace('"pooled"', '"start_s"'),
            "'start_s' cannot be the name of an array",
        ),
        (NET.replace('"pooled"', '"A B"'), "'A B' cannot be the name of an array"),
        (
            NET.replace(
                "torch.manual_seed(0)",
                "raise RuntimeError('missing key memory.weight')",
            ),
            "failed in load..: RuntimeError: missing key memory.weight",
        ),
        (NET.replace('"clip": frames.mean(1), ', ""), "returned no array clip"),
        (
            NET.replace("return {", "return tuple({").replace("frames}", "frames})"),
            "must return a mapping of the names in arrays",
        ),
        (NET.replace('"clip": [5]', '"clip": [6]'), r"expected shape \[1, 6\]"),
        (NET.replace("module(pixels", "module(pixels[0]"), "failed in run..: "),
    ],
)
def test_errors_in_the_code_name_what_is_wrong(
    world: Path, text: str, message: str
) -> None:
    (world / "mine.py").write_text(text, "utf-8")
    with pytest.raises(ObygazeError, match=message):
        backbone = load_backbone(f"{world / 'mine.py'}:net")
        backbone.forward(np.zeros((1, 4, 3, 8, 8), np.float32))
