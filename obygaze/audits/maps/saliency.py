"""Where the vision tower of CLIP or X-CLIP looks for a text: Grad-CAM (Selvaraju et al., 2017).

The gradient is taken at the patch tokens that enter the last layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from obygaze.audits.maps.pictures import exact_pictures, load_model_of
from obygaze.audits.maps.stores import (
    Directions,
    WrittenMaps,
    random_directions,
    write_maps,
)
from obygaze_features.backbones.backbone import (
    Backbone,
    TorchBackbone,
    check_pixels,
    on_device,
)
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.extraction.clips import Failure
from obygaze_features.store import Reason, Store, open_store
from obygaze_features.store.making import new_store
from obygaze_features.video.container import BadVideo

if TYPE_CHECKING:
    from torch import Tensor

Maps = npt.NDArray[np.float32]
ARRAY = "clip"


def grad_cam(backbone: Backbone, pixels: Any, directions: npt.NDArray[Any]) -> Maps:
    """Return maps [B, direction, T, h, w] of the places that bring a clip closer to a direction.

    The score is the cosine of a direction and the vector of the clip. The largest value of a map is
    1, unless all are 0.

    Args:
        backbone: A CLIP or X-CLIP.
        pixels: Normalised pixels [B, T, 3, S, S].
        directions: Vectors [direction, width], of the width of the array `clip`.
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
        for score in _cosines(vision_backbone, pixels, directions).sum(dim=0):
            (slopes,) = torch.autograd.grad(score, entered[0], retain_graph=True)
            slopes = _patches(vision_backbone, slopes)
            tokens = _patches(vision_backbone, entered[0].detach())
            seen = (tokens * slopes.mean(dim=1, keepdim=True)).sum(dim=2).relu()
            maps.append(seen.reshape(-1, *vision_backbone.geometry.grid).cpu().numpy())
    return _relative(np.stack(maps, axis=1))


def write_saliency(
    path: PathLike,
    store: PathLike | Store,
    text: PathLike,
    clips: Sequence[str] = (),
    *,
    weights: str | None = None,
    workspace: PathLike | None = None,
) -> WrittenMaps:
    """Compute where CLIP or X-CLIP looks for a text: Grad-CAM.

    The frames of CLIPS (default: all clips) are decoded again, exactly by the recipe of the store.

    Args:
        path: The new store.
        store: The store of the clips; its recipe names the model and the frames.
        text: Texts of `extract text`, by attribute.
        clips: The clips.
        weights: The file or folder of the weights.
        workspace: The workspace, if it is not the current one: it has the manifest of the store.
    """
    opened = open_store(store, workspace=workspace)
    directions = _directions_of_texts(opened, text)
    names = list(directions)
    vectors = np.stack(list(directions.values()))
    rows = {name: np.asarray(row).tolist() for name, row in directions.items()}
    facts = {
        "method": "grad-cam",
        "level": ARRAY,
        "directions_sha256": sha256_bytes(canonical_json(rows)),
    }
    opened_workspace = Workspace.of(workspace)
    folder = new_store(opened_workspace, path)
    ids = clips or opened[ARRAY].clip_ids.tolist()
    backbone = load_model_of(opened, weights, opened_workspace)

    def maps_of_clips() -> Iterator[npt.NDArray[Any] | Reason]:
        for clip in ids:
            try:
                pictures = exact_pictures(opened_workspace, opened, clip).pictures
            except BadVideo as error:
                failure = Failure.of(error)
                yield Reason(failure.status, failure.reason)
                continue
            pixels = backbone.normalise(pictures)[None]
            yield grad_cam(backbone, pixels, vectors)[0]

    return write_maps(folder, opened, ids, names, facts, maps_of_clips())


def _directions_of_texts(store: Store, text: PathLike) -> Directions:
    """Return the mean vector of the texts of each attribute, and random directions."""
    from obygaze_features.store import read_texts
    from obygaze_models.text_vectors import attribute_vectors, check_spaces

    texts = read_texts(Path(text))
    check_spaces(store, ARRAY, texts)
    directions = {}
    for name, group in attribute_vectors(texts).items():
        directions[name] = np.asarray(group.vectors).mean(axis=0)
    return {**directions, **random_directions(texts.embeddings.shape[1])}


def _vision(backbone: Backbone) -> tuple[TorchBackbone, list[Any]]:
    """Return the backbone, which must be CLIP or X-CLIP, and the layers of its vision tower."""
    family = backbone.card.family.name
    if family not in ("clip", "xclip") or not isinstance(backbone, TorchBackbone):
        problem = f"expected CLIP or X-CLIP, got {backbone.card.label}"
        raise FixUsage(
            problem,
            hint="for other models, use obygaze explain concepts",
        )
    module: Any = backbone.module if family == "clip" else backbone.module["vision"]  # type: ignore[index]
    named = (
        each
        for each in module.modules()
        if type(each).__name__.endswith("EncoderLayer")
    )
    return backbone, list(named)


def _patches(backbone: TorchBackbone, tokens: Tensor) -> Tensor:
    """Return the patch tokens of a frame, without tokens that stand before or after the patches.

    X-CLIP has a message token after the patches.
    """
    first = backbone.geometry.prefix
    return tokens[:, first : first + backbone.geometry.patches].float()


def _cosines(backbone: TorchBackbone, pixels: Any, directions: Any) -> Tensor:
    """Return the cosine of each clip with each direction."""
    from torch.nn.functional import normalize

    vectors = normalize(
        _run(backbone, pixels)[backbone.arrays[ARRAY].source].float(), dim=-1
    )
    wanted = on_device(
        np.asarray(directions, dtype=np.float32), backbone.placement.device
    )
    return vectors @ normalize(wanted, dim=-1).T


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
