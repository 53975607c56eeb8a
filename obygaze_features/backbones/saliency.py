"""Where the vision tower of CLIP or X-CLIP looks in its frames: Grad-CAM, attention rollout.

Grad-CAM (Selvaraju et al., 2017) reads the patch tokens where they enter the last layer. Rollout
(Abnar and Zuidema, 2020) multiplies the attention of all layers, with half of each token kept; it
takes no gradient and knows no direction.
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
    from torch import Tensor

Maps = npt.NDArray[np.float32]


def grad_cam(backbone: Backbone, pixels: Any, level: str, directions: npt.NDArray[Any]) -> Maps:
    """Return maps [B, direction, T, h, w] of where a clip comes closer to each direction.

    The score is the cosine of a direction and the level, averaged over frames where the level has a
    vector for each. The largest value of a map is 1, unless all are 0.

    Args:
        backbone: A CLIP or X-CLIP.
        pixels: Normalised pixels [B, T, 3, S, S].
        level: The level of the backbone that the directions are compared with.
        directions: Vectors [direction, width], of the width of that level.
    """
    import torch

    own, layers = _vision(backbone)
    entered: list[Tensor] = []

    def enter(module: Any, inputs: Any, output: Tensor) -> Tensor:
        entered.append(output.detach().requires_grad_())
        return entered[-1]

    maps, first = [], own.geometry.prefix
    with ExitStack() as hooks, torch.enable_grad():
        hooks.callback(layers[-1].layer_norm1.register_forward_hook(enter).remove)
        vectors = _run(own, pixels)[own.levels[level].source].float()
        wanted = on_device(np.asarray(directions, dtype=np.float32), own.placement.device)
        unit = torch.nn.functional.normalize
        cosines = unit(vectors, dim=-1) @ unit(wanted, dim=-1).T
        for score in cosines.reshape(len(pixels), -1, len(wanted)).mean(dim=1).sum(dim=0):
            (slopes,) = torch.autograd.grad(score, entered[0], retain_graph=True)
            # The patches, without the tokens before them and X-CLIP's message after them.
            part = slice(first, first + own.geometry.patches)
            slopes, tokens = slopes[:, part].float(), entered[0].detach()[:, part].float()
            seen = (tokens * slopes.mean(dim=1, keepdim=True)).sum(dim=2).relu()
            maps.append(seen.reshape(-1, *own.geometry.grid).cpu().numpy())
    found = np.stack(maps, axis=1)
    largest = found.max(axis=(2, 3, 4), keepdims=True)
    return np.asarray(found / np.where(largest > 0, largest, 1), dtype=np.float32)


def rollout(backbone: Backbone, pixels: Any) -> Maps:
    """Return maps [B, 1, T, h, w]: the share of each patch in the first token, through all layers.

    The arguments are those of `grad_cam`.
    """
    import torch

    own, layers = _vision(backbone)
    n_tokens, shares = own.geometry.prefix + own.geometry.patches, list[Any]()

    def note(module: Any, inputs: Any, output: Any) -> None:
        # X-CLIP's message is left out.
        weights = output[1].float().mean(dim=1)[:, :n_tokens, :n_tokens]
        shares.append(weights / weights.sum(dim=-1, keepdim=True))

    with ExitStack() as stack, torch.inference_mode():
        for layer in layers:
            config = layer.self_attn.config
            before = config._attn_implementation
            stack.callback(setattr, config, "_attn_implementation", before)
            config._attn_implementation = "eager"  # others do not return their weights
            stack.callback(layer.self_attn.register_forward_hook(note).remove)
        _run(own, pixels)
    total = kept = torch.eye(n_tokens, device=shares[0].device)
    for share in shares:
        total = (share + kept) / 2 @ total
    found: Maps = total[:, 0, own.geometry.prefix :].cpu().numpy()
    return found.reshape(-1, 1, *own.geometry.grid)


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
    device, mask = backbone.placement.device, np.ones(pixels.shape[:2], np.float32)
    x = on_device(pixels, device).to(backbone.dtype)
    return backbone.run(backbone.module, x, on_device(mask, device), backbone.geometry)
