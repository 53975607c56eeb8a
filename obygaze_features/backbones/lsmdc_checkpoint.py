"""The checkpoints of LSMDC's X-CLIP: their sizes read from shapes, their names made CLIP's."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from obygaze_features.backbones.weights import refuse
from obygaze_features.core.errors import FixInput

if TYPE_CHECKING:
    from torch import Tensor

_VISUAL = "clip.visual."
_TEMPORAL = "transformerClip."
POSITIONS = "frame_position_embeddings.weight"
HEAD_WIDTH = 64
_OTHER_KINDS = {
    "lstm_visual.": "frames joined by an LSTM",
    "clip.visual.conv2.weight": "three-dimensional patches",
    "clip.visual.layer1.": "a ResNet instead of a transformer",
}
_BLOCK = re.compile(r"transformer\.resblocks\.(\d+)\.(.+)")
_DENSE = re.compile(r"clip\.visual\.transformer\.resblocks\.\d+\.mlp\.c_fc\.weight")
_DIRECT = {
    "class_embedding": "vision_model.embeddings.class_embedding",
    "positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "ln_pre.weight": "vision_model.pre_layrnorm.weight",
    "ln_pre.bias": "vision_model.pre_layrnorm.bias",
    "ln_post.weight": "vision_model.post_layernorm.weight",
    "ln_post.bias": "vision_model.post_layernorm.bias",
}
_IN_BLOCK = {
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
    "attn.out_proj": "self_attn.out_proj",
}


@dataclass(frozen=True)
class Shapes:
    """Everything about a checkpoint's architecture, read from the shapes of its tensors."""

    width: int
    patch: int
    grid: int
    layers: int
    hidden: int
    out: int
    frames: int
    temporal_layers: int

    @property
    def size(self) -> int:
        """Height and width of a frame."""
        return self.patch * self.grid


def strip_module(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors without the prefix that data-parallel training leaves."""
    return {key.removeprefix("module."): value for key, value in tensors.items()}


def infer_shapes(tensors: Mapping[str, Tensor], frames: int, where: str) -> Shapes:
    """The architecture of a checkpoint; `frames` where nothing in it tells how many."""
    for key, kind in _OTHER_KINDS.items():
        if any(name == key or (key.endswith(".") and name.startswith(key)) for name in tensors):
            raise FixInput(
                f"another architecture: this checkpoint has {kind} ({key.rstrip('.')})",
                where=where,
                hint="a checkpoint trained with the mean or a transformer over frames",
            )
    needed = {f"{_VISUAL}conv1.weight": 4, f"{_VISUAL}positional_embedding": 2, f"{_VISUAL}proj": 2}
    missing = [key for key, n in needed.items() if key not in tensors or tensors[key].ndim != n]
    if missing:
        raise refuse(
            "this is no LSMDC X-CLIP checkpoint: its visual tower is not there",
            missing,
            where,
            "the pytorch_model.bin.N that training wrote",
        )
    conv, proj = tensors[f"{_VISUAL}conv1.weight"], tensors[f"{_VISUAL}proj"]
    patches = tensors[f"{_VISUAL}positional_embedding"].shape[0] - 1
    dense = [value for key, value in tensors.items() if _DENSE.fullmatch(key)]
    shapes = Shapes(
        width=int(conv.shape[0]),
        patch=int(conv.shape[-1]),
        grid=math.isqrt(max(patches, 0)),
        layers=_count(tensors, f"{_VISUAL}transformer.resblocks."),
        hidden=int(dense[0].shape[0]) if dense else 0,
        out=int(proj.shape[1]),
        frames=_frames(tensors, frames),
        temporal_layers=_count(tensors, f"{_TEMPORAL}resblocks."),
    )
    _check(shapes, patches, tensors, where)
    return shapes


def _frames(tensors: Mapping[str, Tensor], otherwise: int) -> int:
    for key in ("frame_logit_weight", "frame_mat_weight", "frame_mat_weight2"):
        if key in tensors and tensors[key].ndim:
            return int(tensors[key].shape[0])
    return otherwise


def _count(tensors: Mapping[str, Tensor], prefix: str) -> int:
    numbers = {key[len(prefix) :].split(".", 1)[0] for key in tensors if key.startswith(prefix)}
    return len(numbers)


def _check(shapes: Shapes, patches: int, tensors: Mapping[str, Tensor], where: str) -> None:
    problems = []
    if shapes.grid**2 != patches or not patches:
        problems.append(f"{patches} positions are no square of patches")
    for name, width in (("visual", shapes.width), ("frame", shapes.out)):
        temporal = name == "frame" and not shapes.temporal_layers
        if not temporal and (width < HEAD_WIDTH or width % (width // HEAD_WIDTH)):
            problems.append(f"a {name} width of {width} has no heads of {HEAD_WIDTH}")
    if not shapes.layers or not shapes.hidden:
        problems.append("the visual tower has no layers")
    if shapes.temporal_layers:
        positions = tensors.get(POSITIONS)
        if positions is None:
            problems.append(f"{POSITIONS} is missing")
        elif tuple(positions.shape[1:]) != (shapes.out,) or positions.shape[0] < shapes.frames:
            problems.append(f"{POSITIONS} of {list(positions.shape)} for {shapes.frames} frames")
    if problems:
        raise refuse("this checkpoint cannot be used", problems, where, "another checkpoint")


def vision_tensors(tensors: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
    """The visual tower under the names of CLIPVisionModelWithProjection, in float32."""
    mapped: dict[str, Tensor] = {}
    unknown = []
    for key, value in tensors.items():
        if not key.startswith(_VISUAL):
            continue
        renamed = _rename(key.removeprefix(_VISUAL), value.float())
        mapped.update(renamed)
        if not renamed:
            unknown.append(key)
    if unknown:
        raise refuse(
            "the visual tower holds tensors that CLIP's does not", unknown, where, "another card"
        )
    return mapped


def _rename(key: str, value: Tensor) -> dict[str, Tensor]:
    if key == "proj":
        return {"visual_projection.weight": value.T.contiguous()}
    if key in _DIRECT:
        return {_DIRECT[key]: value}
    block = _BLOCK.fullmatch(key)
    if block is None:
        return {}
    layer, rest = f"vision_model.encoder.layers.{block[1]}", block[2]
    if rest in ("attn.in_proj_weight", "attn.in_proj_bias"):
        # One fused matrix: its three row blocks are query, key, value.
        kind = rest.removeprefix("attn.in_proj_")
        parts = zip("qkv", value.chunk(3), strict=True)
        return {f"{layer}.self_attn.{n}_proj.{kind}": part.contiguous() for n, part in parts}
    stem, _, kind = rest.rpartition(".")
    return {f"{layer}.{_IN_BLOCK[stem]}.{kind}": value} if stem in _IN_BLOCK else {}


def temporal_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The transformer over frames, in float32, by the names of `temporal_module`."""
    found = {
        k.removeprefix(_TEMPORAL): v.float() for k, v in tensors.items() if k.startswith(_TEMPORAL)
    }
    if found:
        found["positions"] = tensors[POSITIONS].float()
    return found


def temporal_hidden(tensors: Mapping[str, Tensor], where: str) -> int:
    """How wide the dense layers over frames are."""
    key = f"{_TEMPORAL}resblocks.0.mlp.c_fc.weight"
    if key not in tensors:
        raise refuse("1 tensor missing", [key], where, "fetch the checkpoint again")
    return int(tensors[key].shape[0])


def visual_name(key: str) -> str:
    """What a checkpoint calls a tensor of CLIP's class: the way back of `_rename`."""
    for theirs, ours in _DIRECT.items():
        if key == ours:
            return _VISUAL + theirs
    block = re.fullmatch(r"vision_model\.encoder\.layers\.(\d+)\.(.+)\.(weight|bias)", key)
    if block is None:
        return f"{_VISUAL}proj"
    names = {ours: theirs for theirs, ours in _IN_BLOCK.items()}
    stem, kind = block[2], block[3]
    name = f"{names[stem]}.{kind}" if stem in names else f"attn.in_proj_{kind}"
    return f"{_VISUAL}transformer.resblocks.{block[1]}.{name}"


def temporal_name(key: str) -> str:
    """What a checkpoint calls a tensor of the transformer over frames."""
    return POSITIONS if key == "positions" else _TEMPORAL + key
