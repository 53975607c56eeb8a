"""Saliency against captum or the method written out, and on a network known by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.checkpoints import save_tiny, tiny_card

from obygaze.extensions.maps.saliency import grad_cam, rollout, score_cam
from obygaze_features.backbones.load import load_backbone
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
    ours = grad_cam(backbone, pixels, "clip", directions)
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


def enlarged(picture: Any, size: int) -> Any:
    """A picture at another size, linear between the middles of its places."""
    for axis in (0, 1):
        n = picture.shape[axis]
        at = (np.arange(size) + 0.5) * n / size - 0.5
        lines = [
            np.interp(at, np.arange(n), line) for line in np.moveaxis(picture, axis, -1)
        ]
        picture = np.moveaxis(np.array(lines), -1, axis)
    return picture


@pytest.mark.parametrize("family", FAMILIES)
def test_score_cam_shows_the_model_each_channel(family: str, tmp_path: Path) -> None:
    backbone = tiny(family, tmp_path)
    pixels, g = some_pixels(backbone), backbone.geometry
    directions = np.random.default_rng(1).normal(size=(3, g.out))
    ours = score_cam(backbone, pixels, "clip", directions)
    unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    vision = backbone.module if family == "clip" else backbone.module["vision"]
    layer = [m for m in vision.modules() if type(m).__name__.endswith("EncoderLayer")][
        -1
    ]
    for clip, own in zip(pixels, ours, strict=True):
        seen: list[Any] = []
        hook = layer.layer_norm1.register_forward_hook(
            lambda m, i, o, s=seen: s.append(o.detach())
        )
        backbone.forward(clip[None])
        hook.remove()
        tokens = seen[0].numpy()[:, 1 : 1 + g.patches].astype(np.float64)
        total = np.zeros((3, *g.grid))
        weights = []
        for channel in range(tokens.shape[2]):
            values = tokens[:, :, channel].reshape(g.grid)
            mask = (values - values.min()) / (values.max() - values.min())
            shown = [p * enlarged(m, g.size) for p, m in zip(clip, mask, strict=True)]
            vector = backbone.forward(np.array([shown], np.float32))["clip"][0].numpy()
            weights.append(np.exp(100 * unit @ vector / np.linalg.norm(vector)))
        for channel, weight in enumerate(np.array(weights) / np.sum(weights, axis=0)):
            total += weight[:, None, None, None] * tokens[:, :, channel].reshape(g.grid)
        total = np.maximum(total, 0)
        assert (total.max(axis=(1, 2, 3)) > 0).all()
        np.testing.assert_allclose(
            own, total / total.max(axis=(1, 2, 3), keepdims=True), atol=2e-4
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_rollout_is_the_product_of_attention(family: str, tmp_path: Path) -> None:
    backbone = tiny(family, tmp_path)
    pixels, g = some_pixels(backbone), backbone.geometry
    ours = rollout(backbone, pixels)
    assert ours.shape == (2, 1, *g.grid)
    vision = backbone.module if family == "clip" else backbone.module["vision"]
    layers = [m for m in vision.modules() if type(m).__name__.endswith("EncoderLayer")]
    entered: list[Any] = []
    for layer in layers:
        layer.self_attn.q_proj.register_forward_hook(
            lambda m, i, o: entered.append(i[0])
        )
    backbone.forward(pixels)
    total = np.eye(5)
    for layer, x in zip(layers, tuple(entered), strict=True):
        attention = layer.self_attn
        q, k = (
            p(x).detach().numpy().reshape(len(x), -1, 2, 16)
            for p in (attention.q_proj, attention.k_proj)
        )
        logits = np.einsum("bqhd,bkhd->bhqk", q, k) / 4
        weights = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        weights = weights.mean(axis=1)[:, :5, :5]
        weights /= weights.sum(axis=-1, keepdims=True)
        total = (weights + np.eye(5)) / 2 @ total
    np.testing.assert_allclose(ours.reshape(-1, 4), total[:, 0, 1:], atol=1e-5)


def test_rollout_leaves_the_backbone_as_it_was(tmp_path: Path) -> None:
    backbone = tiny("clip", tmp_path)
    pixels = some_pixels(backbone)
    before = backbone.forward(pixels)["clip"]
    rollout(backbone, pixels)
    assert torch.equal(backbone.forward(pixels)["clip"], before)


def test_a_model_of_another_family_is_refused() -> None:
    backbone = load_backbone("descriptors")
    with pytest.raises(FixUsage, match="neither CLIP nor X-CLIP"):
        rollout(backbone, np.zeros((1, 32, 3, 8, 8), np.float32))


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


@pytest.mark.parametrize(("method", "elsewhere"), [(grad_cam, 0), (score_cam, 0.11)])
def test_the_peak_is_on_the_red_patch_of_a_network_set_by_hand(
    method: Any, elsewhere: float, tmp_path: Path
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
    red, blue = method(backbone, pixels, "clip", np.eye(24)[:2])[0].reshape(
        2, g.frames, 4
    )
    assert red.argmax(axis=1).tolist() == list(at)
    np.testing.assert_allclose(red[np.arange(3), at], 1, atol=1e-5)
    assert np.delete(red[0], at[0]).max() <= elsewhere
    # For ScoreCAM every channel but red shows the same blue: equal weights, whose sum is 0 after a
    # layer norm.
    if method is grad_cam:
        assert blue.argmin(axis=1).tolist() == list(at)
