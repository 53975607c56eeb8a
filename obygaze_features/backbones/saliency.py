"""Where a vision transformer looks in its frames: Grad-CAM for a direction, attention rollout.

Both are of the vision towers of CLIP and X-CLIP. Grad-CAM (Selvaraju et al., 2017) reads the patch
tokens where they enter the last layer. Rollout (Abnar and Zuidema, 2020) multiplies the attention
of all layers, with half of each token kept; it takes no gradient and knows no direction.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.base import Backbone, check_pixels
from obygaze_features.backbones.torch_backbone import TorchBackbone, on_device
from obygaze_features.core.errors import FixUsage

if TYPE_CHECKING:
    import torch
    from torch import Tensor

METHODS = ("grad-cam", "rollout")
Maps = npt.NDArray[np.float32]


def grad_cam(backbone: Backbone, pixels: Any, level: str, directions: npt.NDArray[Any]) -> Maps:
    """Return maps [B, direction, T, h, w] of where the clip comes closer to each direction.

    The score is the cosine of a direction and the level, averaged over frames where the level has a
    vector for each. The largest value of each map of a clip is 1, unless all are 0.

    Args:
        backbone: A CLIP or X-CLIP.
        pixels: Normalised pixels [B, T, 3, S, S].
        level: The level of the backbone that the directions are compared with.
        directions: Vectors [direction, width] of that level's width.
    """
    import torch

    own, layers = _vision(backbone)
    entered: list[Tensor] = []

    def enter(module: Any, inputs: Any, output: Tensor) -> Tensor:
        entered.append(output.detach().requires_grad_())
        return entered[-1]

    with ExitStack() as hooks, torch.enable_grad():
        hooks.callback(layers[-1].layer_norm1.register_forward_hook(enter).remove)
        vectors = _run(own, pixels)[own.levels[level].source].float()
        wanted = on_device(np.asarray(directions, dtype=np.float32), own.placement.device)
        cosines = torch.nn.functional.normalize(vectors, dim=-1) @ (
            torch.nn.functional.normalize(wanted, dim=-1).T
        )
        scores = cosines.flatten(1, -2).mean(dim=1) if cosines.ndim > 2 else cosines
        maps = []
        for score in scores.sum(dim=0):
            (slopes,) = torch.autograd.grad(score, entered[0], retain_graph=True)
            slopes, tokens = (_patches(own, x.float()) for x in (slopes, entered[0].detach()))
            seen = (tokens * slopes.mean(dim=-2, keepdim=True)).sum(dim=-1).relu()
            maps.append(_on_grid(own, seen))
    found = np.stack(maps, axis=1)
    largest = found.max(axis=(2, 3, 4), keepdims=True)
    scaled: Maps = found / np.where(largest > 0, largest, 1)
    return scaled


def rollout(backbone: Backbone, pixels: Any) -> Maps:
    """Return maps [B, 1, T, h, w]: the share of each patch in the first token, through all layers.

    Args:
        backbone: A CLIP or X-CLIP; it computes its attention anew.
        pixels: Normalised pixels [B, T, 3, S, S].
    """
    import torch

    own, layers = _vision(backbone)
    n_tokens = own.geometry.prefix + own.geometry.patches
    shares: list[Tensor] = []

    def note(module: Any, inputs: Any, output: Any) -> None:
        # X-CLIP adds the message of the other frames as a last token, which is left out.
        weights = output[1].float().mean(dim=1)[:, :n_tokens, :n_tokens]
        shares.append(weights / weights.sum(dim=-1, keepdim=True))

    configs = {id(layer.self_attn.config): layer.self_attn.config for layer in layers}.values()
    with ExitStack() as stack, torch.inference_mode():
        for config in configs:
            before = config._attn_implementation
            stack.callback(setattr, config, "_attn_implementation", before)
            config._attn_implementation = "eager"  # others do not return their weights
        for layer in layers:
            stack.callback(layer.self_attn.register_forward_hook(note).remove)
        _run(own, pixels)
    kept = torch.eye(n_tokens, device=shares[0].device)
    total = kept
    for share in shares:
        total = (share + kept) / 2 @ total
    return _on_grid(own, total[:, 0, own.geometry.prefix :])[:, None]


def _vision(backbone: Backbone) -> tuple[TorchBackbone, list[Any]]:
    """Return a backbone whose attention can be read, and the layers of its vision tower."""
    family = backbone.card.family.name
    if family not in ("clip", "xclip") or not isinstance(backbone, TorchBackbone):
        what = f"{backbone.card.label} is neither CLIP nor X-CLIP"
        raise FixUsage(what, hint="obygaze explain concepts reads the stored tokens of any model")
    module: Any = backbone.module if family == "clip" else backbone.module["vision"]  # type: ignore[index]
    named = (each for each in module.modules() if type(each).__name__.endswith("EncoderLayer"))
    return backbone, list(named)


def _run(backbone: TorchBackbone, pixels: Any) -> dict[str, Tensor]:
    check_pixels(pixels, backbone.geometry, backbone.card.label)
    device = backbone.placement.device
    mask = np.ones(pixels.shape[:2], np.float32)
    x = on_device(pixels, device).to(backbone.dtype)
    return backbone.run(backbone.module, x, on_device(mask, device), backbone.geometry)


def _patches(backbone: TorchBackbone, tokens: torch.Tensor) -> torch.Tensor:
    """Return the tokens of the patches, without those before them and X-CLIP's message."""
    first = backbone.geometry.prefix
    return tokens[:, first : first + backbone.geometry.patches]


def _on_grid(backbone: TorchBackbone, values: torch.Tensor) -> Maps:
    """Return values [B * T, patch] as an array [B, T, h, w]."""
    found: Maps = values.reshape(-1, *backbone.geometry.grid).cpu().numpy().astype(np.float32)
    return found
