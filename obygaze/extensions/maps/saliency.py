"""Where the vision tower of CLIP or X-CLIP looks: Grad-CAM, ScoreCAM, attention rollout.

Grad-CAM (Selvaraju et al., 2017) reads the patch tokens where they enter the last layer. ScoreCAM
(Wang et al., 2020) takes no gradient: it shows the model what each channel of these tokens sees.
Rollout (Abnar and Zuidema, 2020) multiplies the attention of all layers, with half of each token
kept; it takes no gradient and knows no direction.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from obygaze.extensions.maps.written import WrittenMaps, new_folder_of
from obygaze_features.backbones.base import Backbone, check_pixels
from obygaze_features.backbones.torch_backbone import TorchBackbone, on_device
from obygaze_features.core.errors import FixUsage, Mismatch
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.core.options import PYTHON_ONLY, Option
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.extraction.recipes import exact_pictures, load_target, target_of
from obygaze_features.store import RowStatus, Store, open_store
from obygaze_features.store.maps import Directions, random_directions, write_maps
from obygaze_features.video.container import BadVideo

if TYPE_CHECKING:
    from torch import Tensor

Maps = npt.NDArray[np.float32]
Method = Literal["grad-cam", "score-cam"]
CHANNELS_A_BATCH = 16
LOGIT_SCALE = (
    100  # of CLIP and X-CLIP; the cosines themselves would weigh all channels alike
)


def grad_cam(
    backbone: Backbone, pixels: Any, array: str, directions: npt.NDArray[Any]
) -> Maps:
    """Return maps [B, direction, T, h, w] of where a clip comes closer to each direction.

    The score is the cosine of a direction and the array, averaged over frames where the array has a
    vector for each. The largest value of a map is 1, unless all are 0.

    Args:
        backbone: A CLIP or X-CLIP.
        pixels: Normalised pixels [B, T, 3, S, S].
        array: The array of the backbone that the directions are compared with.
        directions: Vectors [direction, width], of the width of that array.
    """
    import torch

    vision_backbone, layers = _vision(backbone)
    entered: list[Tensor] = []

    def enter(module: Any, inputs: Any, output: Tensor) -> Tensor:
        entered.append(output.detach().requires_grad_())
        return entered[-1]

    maps = []
    with ExitStack() as hooks, torch.enable_grad():
        hooks.callback(layers[-1].layer_norm1.register_forward_hook(enter).remove)
        for score in _cosines(vision_backbone, pixels, array, directions).sum(dim=0):
            (slopes,) = torch.autograd.grad(score, entered[0], retain_graph=True)
            slopes = _patches(vision_backbone, slopes)
            tokens = _patches(vision_backbone, entered[0].detach())
            seen = (tokens * slopes.mean(dim=1, keepdim=True)).sum(dim=2).relu()
            maps.append(seen.reshape(-1, *vision_backbone.geometry.grid).cpu().numpy())
    return _relative(np.stack(maps, axis=1))


def score_cam(
    backbone: Backbone, pixels: Any, array: str, directions: npt.NDArray[Any]
) -> Maps:
    """Return maps as `grad_cam` does; each channel costs one more pass over the clip.

    The pictures are shown through each channel, from 0 where it is smallest in the clip to 1. The
    softmax of the scores is the weight of the channels.
    """
    import torch

    vision_backbone, layers = _vision(backbone)
    grid = vision_backbone.geometry.grid
    size = vision_backbone.geometry.size
    maps = []
    with torch.inference_mode():
        for clip in np.asarray(pixels)[:, None]:
            tokens = _patches(
                vision_backbone,
                _entering(layers[-1].layer_norm1, vision_backbone, clip),
            )
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
                scores.append(_cosines(vision_backbone, shown, array, directions))
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

    vision_backbone, layers = _vision(backbone)
    n_tokens = vision_backbone.geometry.prefix + vision_backbone.geometry.patches
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
        _run(vision_backbone, pixels)
    total = identity = torch.eye(n_tokens, device=shares[0].device)
    for share in shares:
        total = (share + identity) / 2 @ total
    first_token: Maps = total[:, 0, vision_backbone.geometry.prefix :].cpu().numpy()
    return first_token.reshape(-1, 1, *vision_backbone.geometry.grid)


METHODS = {"grad-cam": grad_cam, "score-cam": score_cam}


def write_saliency(
    path: Annotated[PathLike, Option("-o --output", metavar="NAME")],
    store: PathLike | Store,
    clips: Sequence[str] = (),
    directions: Annotated[Directions | None, PYTHON_ONLY] = None,
    *,
    text: Annotated[PathLike | None, Option(metavar="FILE")] = None,
    array: str = "clip",
    method: Method = "grad-cam",
    weights: str | None = None,
    facts: Annotated[Mapping[str, Any] | None, PYTHON_ONLY] = None,
    workspace: PathLike | None = None,
) -> WrittenMaps:
    """Compute where CLIP or X-CLIP looks: Grad-CAM for texts, attention rollout without any.

    ScoreCAM needs no gradient, but takes some hundred times as long. The frames of CLIPS, by
    default all, are decoded again by exactly the recipe of the store.

    Args:
        path: The new store.
        store: The store of the clips; model and frames are those of its recipe.
        clips: The clips.
        directions: What is looked for, by name, in place of texts.
        text: Texts of `extract text`, by attribute.
        array: The array that they are compared with.
        method: The method for texts; without texts, attention rollout.
        weights: The file or folder of the weights.
        facts: What the directions were made from, for the recipe. The default is their checksum.
        workspace: The workspace, if it is not the current one: it has the manifest of the store.

    Commands:
        obygaze explain model films.clip-b16 tt1-001 --text emotion.npz -o emotion-maps
        obygaze explain model films.clip-b16 tt1-001 --text emotion.npz --method score-cam -o check
        obygaze explain model films.xclip-b16-k400 -o rollout
    """
    if method not in METHODS:
        raise FixUsage(f"unknown method {method!r}", hint=" or ".join(get_args(Method)))
    opened = open_store(store, workspace=workspace)
    wanted = dict(directions or {})
    if text:
        wanted |= _directions_of_texts(opened, text, array)
    if facts is None:
        vectors = {name: np.asarray(row).tolist() for name, row in wanted.items()}
        facts = {"directions_sha256": sha256_bytes(canonical_json(vectors))}
    folder = new_folder_of(path, workspace)
    opened_workspace = Workspace.of(workspace)
    ids = clips or opened[array].clip_ids.tolist()
    recipe = opened.recipe.to_json()
    backbone = load_target(target_of(recipe, weights), opened_workspace)
    if backbone.hashes != recipe["weights"]:
        raise Mismatch(
            "these weights are not those of the store", hint="--weights PATH"
        )

    def results_of_clips() -> Iterator[npt.NDArray[Any] | RowStatus]:
        for clip in ids:
            try:
                pictures = exact_pictures(opened_workspace, opened, clip).pictures
            except BadVideo as error:
                yield RowStatus.failed(error.stage, error.reason, error.message)
                continue
            pixels = backbone.normalise(pictures)[None]
            if wanted:
                vectors = np.stack(list(wanted.values()))
                yield METHODS[method](backbone, pixels, array, vectors)[0]
            else:
                yield rollout(backbone, pixels)[0]

    made_by = {"method": "rollout"}
    if wanted:
        made_by = {"method": method, "level": array}
    names = list(wanted) or ["rollout"]
    write_maps(folder, opened, ids, names, {**made_by, **facts}, results_of_clips())
    return WrittenMaps.at(folder)


def _directions_of_texts(store: Store, text: PathLike, array: str) -> Directions:
    """Return the mean vector of the texts of each attribute, and random directions."""
    from obygaze_models.text_vectors import (
        attribute_vectors,
        check_spaces,
        read_text_table,
    )

    texts = read_text_table(store, os.fspath(text))
    check_spaces(store, array, texts)
    directions = {}
    for name, group in attribute_vectors(texts).items():
        directions[name] = np.asarray(group.vectors).mean(axis=0)
    return {**directions, **random_directions(texts.embeddings.shape[1])}


def _vision(backbone: Backbone) -> tuple[TorchBackbone, list[Any]]:
    """Return a backbone whose attention can be read, and the layers of its vision tower."""
    family = backbone.card.family.name
    if family not in ("clip", "xclip") or not isinstance(backbone, TorchBackbone):
        problem = f"{backbone.card.label} is neither CLIP nor X-CLIP"
        raise FixUsage(
            problem,
            hint="obygaze explain concepts reads the stored tokens of any model",
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
    outputs: list[Tensor] = []
    hook = norm.register_forward_hook(
        lambda module, inputs, output: outputs.append(output)
    )
    _run(backbone, pixels)
    hook.remove()
    return outputs[0]


def _patches(backbone: TorchBackbone, tokens: Tensor) -> Tensor:
    """Return the patches, without the tokens before them and X-CLIP's message after them."""
    first = backbone.geometry.prefix
    return tokens[:, first : first + backbone.geometry.patches].float()


def _cosines(
    backbone: TorchBackbone, pixels: Any, array: str, directions: Any
) -> Tensor:
    """Return the cosine of each clip with each direction, the mean over frames."""
    from torch.nn.functional import normalize

    vectors = normalize(
        _run(backbone, pixels)[backbone.arrays[array].source].float(), dim=-1
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
