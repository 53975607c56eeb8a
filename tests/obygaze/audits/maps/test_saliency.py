"""Saliency against captum."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.checkpoints import save_tiny, tiny_card

from obygaze.audits.maps.saliency import grad_cam
from obygaze_features.backbones.actions import load_backbone
from obygaze_features.core.errors import FixUsage

torch = pytest.importorskip("torch")


class Folded(torch.nn.Module):
    """A layer norm whose patch tokens pass `spot` as channels of a picture, as captum has them."""

    def __init__(self, norm: Any, n_patches: int) -> None:
        super().__init__()
        self.norm, self.n, self.spot = norm, n_patches, torch.nn.Identity()

    def forward(self, x: Any) -> Any:
        x = self.norm(x)
        patches = self.spot(x[:, 1 : 1 + self.n].transpose(1, 2)).transpose(1, 2)
        return torch.cat([x[:, :1], patches, x[:, 1 + self.n :]], dim=1)


@pytest.mark.parametrize("family", ["clip", "xclip"])
def test_grad_cam_is_that_of_captum(family: str, tmp_path: Path) -> None:
    captum = pytest.importorskip("captum.attr")
    backbone = load_backbone(tiny_card(family), save_tiny(family, tmp_path / family))
    g = backbone.geometry
    shape = (1, g.frames, 3, g.size, g.size)
    pixels = np.random.default_rng(0).normal(size=shape).astype(np.float32)
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
    with pytest.raises(FixUsage, match="expected CLIP or X-CLIP, got"):
        grad_cam(backbone, np.zeros((1, 32, 3, 8, 8), np.float32), np.eye(2))
