"""Saliency against captum, and on a network known by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.checkpoints import save_tiny, tiny_card

from obygaze.audits.maps.saliency import grad_cam
from obygaze_features.backbones.actions import load_backbone
from obygaze_features.core.errors import FixUsage

torch = pytest.importorskip("torch")
FAMILIES = ("clip", "xclip")


def tiny(family: str, folder: Path) -> Any:
    return load_backbone(tiny_card(family), save_tiny(family, folder / family))


def some_pixels(backbone: Any, n: int = 2) -> Any:
    g = backbone.geometry
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, g.frames, 3, g.size, g.size)).astype(np.float32)


class Folded(torch.nn.Module):
    """A layer norm whose patch tokens pass `spot` as channels of a picture, as captum has them."""

    def __init__(self, norm: Any, n_patches: int) -> None:
        super().__init__()
        self.norm, self.n, self.spot = norm, n_patches, torch.nn.Identity()

    def forward(self, x: Any) -> Any:
        x = self.norm(x)
        patches = self.spot(x[:, 1 : 1 + self.n].transpose(1, 2)).transpose(1, 2)
        return torch.cat([x[:, :1], patches, x[:, 1 + self.n :]], dim=1)


@pytest.mark.parametrize("family", FAMILIES)
def test_grad_cam_is_that_of_captum(family: str, tmp_path: Path) -> None:
    captum = pytest.importorskip("captum.attr")
    backbone = tiny(family, tmp_path)
    pixels, g = some_pixels(backbone, 1), backbone.geometry
    directions = np.random.default_rng(1).normal(size=(3, g.out))
    ours = grad_cam(backbone, pixels, directions)
    vision = backbone.module if family == "clip" else backbone.module["vision"]
    layer = [m for m in vision.modules() if type(m).__name__.endswith("EncoderLayer")][
        -1
    ]
    layer.layer_norm1 = Folded(layer.layer_norm1, g.patches)

    class Scores(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = backbone.module

        def forward(self, x: Any) -> Any:
            levels = backbone.run(self.inner, x[None], torch.ones(1, g.frames), g)
            wanted = torch.as_tensor(directions).float()
            vector = levels["frame-mean" if family == "clip" else "mit-mean"]
            # captum wants one row for each picture.
            return torch.cosine_similarity(vector, wanted).expand(len(x), -1) / len(x)

    cam = captum.LayerGradCam(Scores(), layer.layer_norm1.spot)
    backbone.module.requires_grad_(True)
    for k in range(len(directions)):
        theirs = cam.attribute(
            torch.as_tensor(pixels[0]), target=k, relu_attributions=True
        )
        theirs = theirs.detach().numpy().reshape(g.grid)
        assert theirs.max() > 0
        np.testing.assert_allclose(ours[0, k], theirs / theirs.max(), atol=1e-4)


def test_a_model_of_another_family_is_refused() -> None:
    backbone = load_backbone("descriptors")
    with pytest.raises(FixUsage, match="neither CLIP nor X-CLIP"):
        grad_cam(backbone, np.zeros((1, 32, 3, 8, 8), np.float32), np.eye(2))


def set_by_hand(module: Any) -> None:
    """Uniform attention that passes tokens on; a token is its patch's mean red and mean blue."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            is_norm = name.endswith("weight") and "norm" in name
            parameter.fill_(1.0 if is_norm else 0.0)
            if name.endswith(("v_proj.weight", "out_proj.weight")):
                parameter.copy_(torch.eye(len(parameter)))
            elif name.endswith("patch_embedding.weight"):
                parameter[0, 0], parameter[1, 2] = 1 / 256, 1 / 256
            elif name.endswith("visual_projection.weight"):
                parameter.copy_(torch.eye(*parameter.shape))


def test_the_peak_is_on_the_red_patch_of_a_network_set_by_hand(
    tmp_path: Path,
) -> None:
    backbone = tiny("clip", tmp_path)
    set_by_hand(backbone.module)
    g, at = backbone.geometry, (3, 0, 2)  # the patch moves
    pixels = np.zeros((1, g.frames, 3, g.size, g.size), np.float32)
    pixels[:, :, 2] = 1
    for frame, place in enumerate(at):
        row, column = divmod(place, 2)
        part = pixels[
            0, frame, :, 16 * row : 16 * row + 16, 16 * column : 16 * column + 16
        ]
        part[0], part[2] = 1, 0
    red, blue = grad_cam(backbone, pixels, np.eye(24)[:2])[0].reshape(2, g.frames, 4)
    assert red.argmax(axis=1).tolist() == list(at)
    np.testing.assert_allclose(red[np.arange(3), at], 1, atol=1e-5)
    assert np.delete(red[0], at[0]).max() == 0
    assert blue.argmin(axis=1).tolist() == list(at)
