"""A module of one's own: frames of any shape, and values of any format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("av", reason="av is not installed")


from obygaze_features.backbones import load_backbone  # noqa: E402
from obygaze_features.core.errors import FixInput  # noqa: E402

CODE = """\
import numpy as np
import torch
from obygaze_features.backbones import Preset, module_card

def load():
    torch.manual_seed(0)
    return torch.nn.Linear(6 * 10 * 3, 5)

def run(module, pixels):
    assert pixels.dtype == torch.uint8
    x = pixels.flatten(2).numpy()
    clip = x.astype(np.float64).mean((1, 2))[:, None]
    return {"clip": clip, "first": x[:, :, :7].astype(np.int64), "bright": x[:, :, 0] > 9}

def card(**more):
    arrays = {"clip": [1], "first": [4, 7], "bright": [4]}
    shape = {"frames": 4, "height": 6, "width": 10, "values": "levels"}
    preset = Preset(resize=RESIZE)
    options = {"licence": "MIT", "preset": preset, **shape}
    return module_card("net", load, run, arrays=arrays, **options)
"""


@pytest.fixture(params=["squash", "shortest-edge"])
def code(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    file = tmp_path / "mine.py"
    file.write_text(CODE.replace("RESIZE", repr(request.param)), "utf-8")
    return f"{file}:card"


def pictures(height: int = 90, width: int = 120) -> Any:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (4, height, width, 3), dtype=np.uint8)


def test_levels_of_frames_that_are_no_squares(code: str) -> None:
    backbone = load_backbone(code)
    assert backbone.geometry.input_size == "4 frames of 6 x 10"
    assert backbone.resize is not None and backbone.resize.shape(90, 120) == (6, 10)
    pixels = backbone.preprocess(pictures())
    assert pixels.dtype == torch.uint8 and pixels.shape == (4, 3, 6, 10)
    expected = backbone.resize(pictures())
    assert np.array_equal(pixels.permute(0, 2, 3, 1).numpy(), expected)
    outputs = backbone.forward(pixels[None])
    levels = pixels.flatten(1).double()
    assert float(outputs["clip"]) == pytest.approx(float(levels.mean()))
    assert outputs["first"].tolist() == [levels[:, :7].tolist()]
    assert outputs["bright"].tolist() == [(levels[:, 0] > 9).float().tolist()]
    with pytest.raises(FixInput, match=r"takes pixels \[B, 4, 3, 6, 10\]"):
        backbone.forward(pixels.mT[None])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ('"height": 6, "width": 10', '"height": 6'),
        ('"height": 6', '"size": 8, "height": 6'),
        ('"levels"', '"bytes"'),
    ],
)
def test_wrong_arguments(change: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    changed = CODE.replace("RESIZE", "'squash'").replace(change, problem)
    file.write_text(changed, "utf-8")
    with pytest.raises(FixInput, match="module_card"):
        load_backbone(f"{file}:card")
