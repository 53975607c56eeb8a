"""The X-CLIP of Ma et al. (LSMDC): its checkpoints of any size, loaded into CLIP's own classes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from obygaze_features.backbones.base import Card, Family, Placement
from obygaze_features.backbones.geometry import Depth, Geometry
from obygaze_features.backbones.torch_backbone import TorchBackbone, check_sizes
from obygaze_features.backbones.weights import (
    WeightFiles,
    check_tensors,
    hash_weights,
    read_tensors,
    tensor_error,
)
from obygaze_features.core.errors import FixInput

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_VISUAL = "clip.visual."
_TEMPORAL = "transformerClip."
_TEMPORAL_DENSE = f"{_TEMPORAL}resblocks.0.mlp.c_fc.weight"
_POSITIONS = "frame_position_embeddings.weight"
_HEAD_WIDTH = 64
_OTHER_KINDS = {
    "lstm_visual.": "frames joined by an LSTM",
    "clip.visual.conv2.weight": "three-dimensional patches",
    "clip.visual.layer1.": "a ResNet instead of a transformer",
}
_DENSE = re.compile(r"clip\.visual\.transformer\.resblocks\.\d+\.mlp\.c_fc\.weight")
_BLOCK = re.compile(r"(.+)\.encoder\.layers\.(\d+)\.(.+)\.(weight|bias)")
_DIRECT = {
    "vision.visual_projection.weight": f"{_VISUAL}proj",
    "vision.vision_model.embeddings.class_embedding": f"{_VISUAL}class_embedding",
    "vision.vision_model.embeddings.position_embedding.weight": f"{_VISUAL}positional_embedding",
    "vision.vision_model.embeddings.patch_embedding.weight": f"{_VISUAL}conv1.weight",
    "vision.vision_model.pre_layrnorm.weight": f"{_VISUAL}ln_pre.weight",
    "vision.vision_model.pre_layrnorm.bias": f"{_VISUAL}ln_pre.bias",
    "vision.vision_model.post_layernorm.weight": f"{_VISUAL}ln_post.weight",
    "vision.vision_model.post_layernorm.bias": f"{_VISUAL}ln_post.bias",
    "temporal.positions": _POSITIONS,
}
_IN_BLOCK = {
    "layer_norm1": "ln_1",
    "layer_norm2": "ln_2",
    "mlp.fc1": "mlp.c_fc",
    "mlp.fc2": "mlp.c_proj",
    "self_attn.out_proj": "attn.out_proj",
}


class LsmdcFamily(Family):
    """Checkpoints of any size, as training wrote them; their tensors give the sizes."""

    def load(self, card: Card, files: WeightFiles, placement: Placement) -> TorchBackbone:
        """Return a card's model; every tensor of its towers is from the files, and all are used."""
        import torch

        from obygaze_features.backbones.lsmdc_model import TemporalEncoder, outputs, vision_tower

        raw, where = read_tensors(files.files), str(files.files[0])
        tensors = _strip_module(raw)
        geometry, n_temporal = infer_geometry(tensors, card.geometry.frames, where)
        module = torch.nn.ModuleDict({"vision": vision_tower(geometry, placement.attention)})
        prefixes: tuple[str, ...] = (_VISUAL,)
        if n_temporal:
            hidden, rows = len(tensors[_TEMPORAL_DENSE]), len(tensors[_POSITIONS])
            heads = geometry.out // _HEAD_WIDTH
            module["temporal"] = TemporalEncoder(geometry.out, hidden, heads, n_temporal, rows)
            prefixes = (_VISUAL, _TEMPORAL, _POSITIONS)
        _load_strictly(module, {k: v for k, v in tensors.items() if k.startswith(prefixes)}, where)
        return TorchBackbone(
            card,
            geometry,
            module,
            outputs,
            files=files,
            hashes=hash_weights(files, raw),
            placement=placement,
            sources=_sources(card, n_temporal),
        )

    def inspect(self, card: Card, files: WeightFiles) -> Card:
        """Return a card with the geometry and levels of its checkpoint."""
        tensors = _strip_module(read_tensors(files.files))
        geometry, n_temporal = infer_geometry(tensors, card.geometry.frames, str(files.files[0]))
        check_sizes(card, geometry, files)
        return replace(card, geometry=geometry, sources=_sources(card, n_temporal))


def _sources(card: Card, n_temporal: int) -> Mapping[str, str]:
    """Return the card's levels, and that of the temporal encoder if the checkpoint has one."""
    return {**card.sources, **({"frames_temporal": "frame-temporal"} if n_temporal else {})}


def _strip_module(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors without the prefix that data-parallel training adds."""
    return {key.removeprefix("module."): value for key, value in tensors.items()}


def infer_geometry(tensors: Mapping[str, Tensor], frames: int, where: str) -> tuple[Geometry, int]:
    """Return the sizes of a checkpoint, and the number of layers of its temporal encoder.

    `frames` is used for checkpoints that do not contain the number.
    """
    for key, kind in _OTHER_KINDS.items():
        if any(name == key or (key.endswith(".") and name.startswith(key)) for name in tensors):
            raise FixInput(
                f"another architecture: this checkpoint has {kind} ({key.rstrip('.')})",
                where=where,
                hint="use a checkpoint trained with the mean or a transformer over frames",
            )
    needed = {f"{_VISUAL}conv1.weight": 4, f"{_VISUAL}positional_embedding": 2, f"{_VISUAL}proj": 2}
    missing = [key for key, n in needed.items() if key not in tensors or tensors[key].ndim != n]
    if missing:
        raise tensor_error(
            "not an LSMDC X-CLIP checkpoint: its visual tower is missing",
            missing,
            where,
            "use the pytorch_model.bin.N that training wrote",
        )
    conv, positions, proj = (tensors[key] for key in needed)
    width, patch = int(conv.shape[0]), int(conv.shape[-1])
    side = math.isqrt(max(len(positions) - 1, 0))
    dense = [value for key, value in tensors.items() if _DENSE.fullmatch(key)]
    n_frames = _frames(tensors, frames)
    depth = Depth(
        layers=_count(tensors, f"{_VISUAL}transformer.resblocks."),
        hidden=int(dense[0].shape[0]) if dense else 0,
        heads=width // _HEAD_WIDTH,
        patch=patch,
    )
    geometry = Geometry(
        frames=n_frames,
        size=patch * side,
        unit="frame",
        prefix=1,
        order="hw",
        grid=(n_frames, side, side),
        width=width,
        out=int(proj.shape[1]),
        depth=depth,
    )
    n_temporal = _count(tensors, f"{_TEMPORAL}resblocks.")
    problems = []
    if not depth.layers or not depth.hidden:
        problems.append("the visual tower has no layers")
    for name, size in (("visual", width), ("frame", geometry.out if n_temporal else width)):
        if size < _HEAD_WIDTH or size % (size // _HEAD_WIDTH):
            problems.append(f"the {name} width, {size}, cannot be divided into heads")
    needed_over_frames = (_POSITIONS, _TEMPORAL_DENSE) if n_temporal else ()
    problems += [f"{key} is missing" for key in needed_over_frames if key not in tensors]
    if n_temporal and not problems and len(tensors[_POSITIONS]) < n_frames:
        problems.append(f"{_POSITIONS}: {len(tensors[_POSITIONS])} rows for {n_frames} frames")
    if problems:
        raise tensor_error(
            "this checkpoint cannot be used", problems, where, "use another checkpoint"
        )
    return geometry, n_temporal


def _frames(tensors: Mapping[str, Tensor], otherwise: int) -> int:
    for key in ("frame_logit_weight", "frame_mat_weight", "frame_mat_weight2"):
        if key in tensors and tensors[key].ndim:
            return int(tensors[key].shape[0])
    return otherwise


def _count(tensors: Mapping[str, Tensor], prefix: str) -> int:
    numbers = {key[len(prefix) :].split(".", 1)[0] for key in tensors if key.startswith(prefix)}
    return len(numbers)


def _load_strictly(module: torch.nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Load every tensor in single precision, or raise an error that names those that do not fit."""
    expected = module.state_dict()
    names = {key: _name(key) for key in expected}
    found = {key: _value(key, tensors[n].float()) for key, n in names.items() if n in tensors}
    wrong = [
        f"{names[key]}: expected {list(expected[key].shape)}, got {list(tensor.shape)}"
        for key, tensor in found.items()
        if tensor.shape != expected[key].shape
    ]
    used = set(names.values())
    check_tensors(used - tensors.keys(), tensors.keys() - used, wrong, where)
    module.load_state_dict(found, strict=True)


def _name(key: str) -> str:
    """Return the checkpoint's name of a tensor of the modules."""
    block = _BLOCK.fullmatch(key)
    if block is None:
        return _DIRECT[key]
    tower, layer, stem, kind = block.groups()
    prefix = f"{_VISUAL}transformer." if tower == "vision.vision_model" else _TEMPORAL
    name = f"{_IN_BLOCK[stem]}.{kind}" if stem in _IN_BLOCK else f"attn.in_proj_{kind}"
    return f"{prefix}resblocks.{layer}.{name}"


def _value(key: str, value: Tensor) -> Tensor:
    """Return the tensor of the modules that a tensor of the checkpoint holds."""
    if key == "vision.visual_projection.weight":
        return value.T
    fused = re.search(r"self_attn\.([qkv])_proj", key)
    # One fused matrix: its three row blocks are query, key, value.
    return value.tensor_split(3)["qkv".index(fused[1])] if fused else value
