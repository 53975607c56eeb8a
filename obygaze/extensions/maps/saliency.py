"""Where the vision tower of CLIP or X-CLIP looks: Grad-CAM, ScoreCAM, attention rollout.

Grad-CAM (Selvaraju et al., 2017) reads the patch tokens where they enter the last layer. ScoreCAM
(Wang et al., 2020) takes no gradient: it shows the model what each channel of these tokens sees.
Rollout (Abnar and Zuidema, 2020) multiplies the attention of all layers, with half of each token
kept; it takes no gradient and knows no direction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.base import Backbone, check_pixels
from obygaze_features.backbones.torch_backbone import TorchBackbone, on_device
from obygaze_features.core.errors import FixUsage, Mismatch
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.recipes import exact_pictures, load_target, target_of
from obygaze_features.store import RowStatus, Store
from obygaze_features.store.maps import Directions, write_maps
from obygaze_features.video.container import BadVideo

if TYPE_CHECKING:
    from torch import Tensor

Maps = npt.NDArray[np.float32]
CHANNELS_A_BATCH = 16
LOGIT_SCALE = (
    100  # of CLIP and X-CLIP; the cosines themselves would weigh all channels alike
)


def grad_cam(
    backbone: Backbone, pixels: Any, level: str, directions: npt.NDArray[Any]
) -> Maps:
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

    maps = []
    with ExitStack() as hooks, torch.enable_grad():
        hooks.callback(layers[-1].layer_norm1.register_forward_hook(enter).remove)
        for score in _cosines(own, pixels, level, directions).sum(dim=0):
            (slopes,) = torch.autograd.grad(score, entered[0], retain_graph=True)
            slopes = _patches(own, slopes)
            tokens = _patches(own, entered[0].detach())
            seen = (tokens * slopes.mean(dim=1, keepdim=True)).sum(dim=2).relu()
            maps.append(seen.reshape(-1, *own.geometry.grid).cpu().numpy())
    return _relative(np.stack(maps, axis=1))


def score_cam(
    backbone: Backbone, pixels: Any, level: str, directions: npt.NDArray[Any]
) -> Maps:
    """Return maps as `grad_cam` does; each channel costs one more pass over the clip.

    The pictures are shown through each channel, from 0 where it is smallest in the clip to 1. The
    softmax of the scores is the weight of the channels.
    """
    import torch

    own, layers = _vision(backbone)
    grid = own.geometry.grid
    size = own.geometry.size
    maps = []
    with torch.inference_mode():
        for clip in np.asarray(pixels)[:, None]:
            tokens = _patches(own, _entering(layers[-1].layer_norm1, own, clip))
            channels = tokens.reshape(*grid, -1).movedim(-1, 0)
            masks = channels - channels.amin(dim=(1, 2, 3), keepdim=True)
            scores = []
            largest = masks.amax(dim=(1, 2, 3), keepdim=True)
            masks = masks * (largest > 1e-6) / largest.clamp(min=1e-6)
            for part in torch.split(masks, CHANNELS_A_BATCH):
                wide = torch.nn.functional.interpolate(
                    part, (size, size), mode="bilinear"
                )
                shown = clip * wide[:, :, None].cpu().numpy()
                scores.append(_cosines(own, shown, level, directions))
            weights = (LOGIT_SCALE * torch.cat(scores)).softmax(dim=0)
            maps.append(
                torch.einsum("cthw,cd->dthw", channels, weights).relu().cpu().numpy()
            )
    return _relative(np.stack(maps))


def rollout(backbone: Backbone, pixels: Any) -> Maps:
    """Return maps [B, 1, T, h, w]: the share of each patch in the first token, through all layers.

    The arguments are those of `grad_cam`.
    """
    import torch

    own, layers = _vision(backbone)
    n_tokens = own.geometry.prefix + own.geometry.patches
    shares = list[Any]()

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


METHODS = {"grad-cam": grad_cam, "score-cam": score_cam}


def write_saliency(
    path: Path,
    workspace: Workspace,
    store: Store,
    clips: Sequence[str],
    directions: Directions,
    *,
    level: str = "clip",
    method: str = "grad-cam",
    weights: str | None = None,
    facts: Mapping[str, Any],
) -> None:
    """Write a store of maps of clips of a CLIP or X-CLIP, whose frames are decoded again.

    Args:
        path: The folder of the new store.
        workspace: Where the manifest of the store is.
        store: The store of the clips; model and frames are those of its recipe.
        clips: The clips.
        directions: What is looked for; without any, attention rollout is computed.
        level: The level of the backbone that the directions are compared with.
        method: How directions are looked for: "grad-cam", or "score-cam".
        weights: The file or folder of the weights.
        facts: What the directions were made from, for the recipe.
    """
    if method not in METHODS:
        raise FixUsage(f"unknown method {method!r}", hint=" or ".join(METHODS))
    recipe = store.recipe.to_json()
    backbone = load_target(target_of(recipe, weights), workspace)
    if backbone.hashes != recipe["weights"]:
        raise Mismatch(
            "these weights are not those of the store", hint="--weights PATH"
        )

    def made() -> Iterator[npt.NDArray[Any] | RowStatus]:
        for clip in clips:
            try:
                frames = exact_pictures(workspace, store, clip).frames
            except BadVideo as error:
                yield RowStatus.failed(error.stage, error.reason, error.what)
                continue
            pixels = backbone.normalise(frames)[None]
            if directions:
                vectors = np.stack(list(directions.values()))
                yield METHODS[method](backbone, pixels, level, vectors)[0]
            else:
                yield rollout(backbone, pixels)[0]

    made_by = (
        {"method": method, "level": level} if directions else {"method": "rollout"}
    )
    write_maps(
        path,
        store,
        clips,
        list(directions) or ["rollout"],
        {**made_by, **facts},
        made(),
    )


def _vision(backbone: Backbone) -> tuple[TorchBackbone, list[Any]]:
    """Return a backbone whose attention can be read, and the layers of its vision tower."""
    family = backbone.card.family.name
    if family not in ("clip", "xclip") or not isinstance(backbone, TorchBackbone):
        what = f"{backbone.card.label} is neither CLIP nor X-CLIP"
        raise FixUsage(
            what, hint="obygaze explain concepts reads the stored tokens of any model"
        )
    module: Any = backbone.module if family == "clip" else backbone.module["vision"]  # type: ignore[index]
    named = (
        each
        for each in module.modules()
        if type(each).__name__.endswith("EncoderLayer")
    )
    return backbone, list(named)


def _entering(norm: Any, backbone: TorchBackbone, pixels: Any) -> Tensor:
    """Return the output of a norm when the model sees some clips."""
    found: list[Tensor] = []
    hook = norm.register_forward_hook(
        lambda module, inputs, output: found.append(output)
    )
    _run(backbone, pixels)
    hook.remove()
    return found[0]


def _patches(backbone: TorchBackbone, tokens: Tensor) -> Tensor:
    """Return the patches, without the tokens before them and X-CLIP's message after them."""
    first = backbone.geometry.prefix
    return tokens[:, first : first + backbone.geometry.patches].float()


def _cosines(
    backbone: TorchBackbone, pixels: Any, level: str, directions: Any
) -> Tensor:
    """Return the cosine of each clip with each direction, the mean over frames."""
    from torch.nn.functional import normalize

    vectors = normalize(
        _run(backbone, pixels)[backbone.levels[level].source].float(), dim=-1
    )
    wanted = on_device(
        np.asarray(directions, dtype=np.float32), backbone.placement.device
    )
    cosines = vectors @ normalize(wanted, dim=-1).T
    return cosines.reshape(len(pixels), -1, len(wanted)).mean(dim=1)


def _relative(maps: npt.NDArray[Any]) -> Maps:
    """Return maps whose largest value over a clip is 1, unless all are 0."""
    largest = maps.max(axis=(2, 3, 4), keepdims=True)
    return np.asarray(maps / np.where(largest > 0, largest, 1), dtype=np.float32)


def _run(backbone: TorchBackbone, pixels: Any) -> dict[str, Tensor]:
    check_pixels(pixels, backbone.geometry, backbone.card.label)
    device = backbone.placement.device
    mask = np.ones(pixels.shape[:2], np.float32)
    x = on_device(pixels, device).to(backbone.dtype)
    return backbone.run(backbone.module, x, on_device(mask, device), backbone.geometry)
