"""The X-CLIP of Ma et al. (LSMDC): its checkpoints, of any size, mapped onto CLIP's own classes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from obygaze_features.backbones.base import Placement, TorchBackbone
from obygaze_features.backbones.cards import Card
from obygaze_features.backbones.geometry import Depth, Geometry
from obygaze_features.backbones.hub import WeightFiles
from obygaze_features.backbones.library import library
from obygaze_features.backbones.pixels import Pixels
from obygaze_features.backbones.weights import hash_weights, read_tensors, refuse
from obygaze_features.core.errors import FixInput

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_VISUAL = "clip.visual."
_TEMPORAL = "transformerClip."
_POSITIONS = "frame_position_embeddings.weight"
_HEAD_WIDTH = 64
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
        if not temporal and (width < _HEAD_WIDTH or width % (width // _HEAD_WIDTH)):
            problems.append(f"a {name} width of {width} has no heads of {_HEAD_WIDTH}")
    if not shapes.layers or not shapes.hidden:
        problems.append("the visual tower has no layers")
    if shapes.temporal_layers:
        positions = tensors.get(_POSITIONS)
        if positions is None:
            problems.append(f"{_POSITIONS} is missing")
        elif tuple(positions.shape[1:]) != (shapes.out,) or positions.shape[0] < shapes.frames:
            problems.append(f"{_POSITIONS} of {list(positions.shape)} for {shapes.frames} frames")
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
        found["positions"] = tensors[_POSITIONS].float()
    return found


def _vision_module(shapes: Shapes, attention: str) -> torch.nn.Module:
    configuration = library("models.clip.configuration_clip")
    modeling = library("models.clip.modeling_clip")
    config = configuration.CLIPVisionConfig(
        hidden_size=shapes.width,
        intermediate_size=shapes.hidden,
        projection_dim=shapes.out,
        num_hidden_layers=shapes.layers,
        num_attention_heads=shapes.width // _HEAD_WIDTH,
        image_size=shapes.size,
        patch_size=shapes.patch,
        hidden_act="quick_gelu",
        layer_norm_eps=1e-5,
        attn_implementation=attention,
    )
    module: torch.nn.Module = modeling.CLIPVisionModelWithProjection(config)
    return module


def card_of(card: Card, files: WeightFiles) -> Card:
    """The card as a checkpoint makes it: its sizes, and its levels."""
    tensors = strip_module(read_tensors(files.files))
    shapes = infer_shapes(tensors, card.geometry.frames, str(files.files[0]))
    sources = _sources(card, bool(shapes.temporal_layers))
    return replace(card, geometry=_geometry(card, shapes), sources=sources)


class LsmdcBackbone(TorchBackbone):
    """Frame vectors of CLIP, optionally mixed over time, normalised and averaged under a mask."""

    takes_mask = True

    @classmethod
    def load(cls, card: Card, files: WeightFiles, placement: Placement) -> LsmdcBackbone:
        """Read a checkpoint strictly: every tensor of its towers is used, none is made up."""
        import torch

        from obygaze_features.backbones.temporal import TemporalEncoder

        raw = read_tensors(files.files)
        tensors, where = strip_module(raw), str(files.files[0])
        shapes = infer_shapes(tensors, card.geometry.frames, where)
        module = torch.nn.ModuleDict({"vision": _vision_module(shapes, placement.attention)})
        _load_strictly(module["vision"], vision_tensors(tensors, where), where, _visual_name)
        if shapes.temporal_layers:
            rows = int(tensors[_POSITIONS].shape[0])
            heads, hidden = shapes.out // _HEAD_WIDTH, _temporal_hidden(tensors, where)
            encoder = TemporalEncoder(shapes.out, hidden, heads, shapes.temporal_layers, rows)
            _load_strictly(encoder, temporal_tensors(tensors), where, _temporal_name)
            module["temporal"] = encoder
        geometry = _geometry(card, shapes)
        return cls(
            card,
            geometry,
            module,
            hash_weights(files, raw),
            placement,
            Pixels.of(card.input, geometry.size),
        )

    @property
    def sources(self) -> Mapping[str, str]:
        """The card's levels, and the mixed frame vectors where the checkpoint mixes."""
        return _sources(self.card, "temporal" in self.module_names)

    @property
    def module_names(self) -> set[str]:
        """The parts this checkpoint has."""
        return {name for name, _ in self.module.named_children()}

    def taps(self, pixels: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """Tokens, frame vectors before and after the projection, and the clip's own vector."""
        import torch

        b, t = pixels.shape[:2]
        parts: Any = self.module
        tower = parts["vision"].vision_model
        seen = tower(pixel_values=pixels.flatten(0, 1))
        tokens = seen.last_hidden_state.unflatten(0, (b, t))
        cls = tokens[:, :, 0]
        after_norm = tower.post_layernorm(cls)
        vectors = parts["vision"].visual_projection(after_norm)
        mixed = parts["temporal"](vectors, mask) if "temporal" in parts else vectors
        unit = _unit(mixed.float())
        weight = mask.unsqueeze(-1)
        video = _unit((unit * weight).sum(dim=1) / weight.sum(dim=1))
        hidden = torch.finfo(tokens.dtype).min
        real = tokens.masked_fill(weight.unsqueeze(-1) == 0, hidden)
        return {
            "tokens": tokens,
            "token-max": tokens.amax(dim=(1, 2)),
            "masked-token-max": real.amax(dim=(1, 2)),
            "frame-cls": cls,
            "frame-cls-ln": after_norm,
            "frame-vector": vectors,
            "frame-temporal": mixed,
            "frame-norm": unit,
            "video": video,
        }


def _sources(card: Card, mixes: bool) -> Mapping[str, str]:
    return {**card.sources, **({"frames_temporal": "frame-temporal"} if mixes else {})}


def _unit(x: Tensor) -> Tensor:
    unit: Tensor = x / x.norm(dim=-1, keepdim=True)
    return unit


def _temporal_hidden(tensors: Mapping[str, Tensor], where: str) -> int:
    key = f"{_TEMPORAL}resblocks.0.mlp.c_fc.weight"
    if key not in tensors:
        raise refuse("tensors are missing", [key], where, "fetch the checkpoint again")
    return int(tensors[key].shape[0])


def _geometry(card: Card, shapes: Shapes) -> Geometry:
    return Geometry(
        frames=shapes.frames,
        size=shapes.size,
        unit="frame",
        prefix=1,
        order="hw",
        grid=(shapes.frames, shapes.grid, shapes.grid),
        width=shapes.width,
        out=shapes.out,
        depth=Depth(shapes.layers, shapes.hidden, shapes.width // _HEAD_WIDTH, shapes.patch),
    )


def _visual_name(key: str) -> str:
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


def _temporal_name(key: str) -> str:
    return _POSITIONS if key == "positions" else _TEMPORAL + key


def _load_strictly(
    module: torch.nn.Module,
    tensors: Mapping[str, Tensor],
    where: str,
    named: Callable[[str], str],
) -> None:
    """Load every tensor, or refuse with the names the checkpoint has for them."""
    wanted = module.state_dict()
    missing = sorted({named(key) for key in wanted.keys() - tensors.keys()})
    if missing:
        raise refuse("tensors are missing", missing, where, "fetch the checkpoint again")
    extra = sorted(named(key) for key in tensors.keys() - wanted.keys())
    if extra:
        raise refuse("tensors that nothing here uses", extra, where, "another card")
    wrong = [
        f"{named(key)}: {list(tensors[key].shape)}, not {list(wanted[key].shape)}"
        for key in sorted(wanted)
        if tensors[key].shape != wanted[key].shape
    ]
    if wrong:
        raise refuse("tensors of the wrong shape", wrong, where, "another checkpoint")
    module.load_state_dict(dict(tensors), strict=True)
