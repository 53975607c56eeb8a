"""The X-CLIP of Ma et al. (LSMDC): its checkpoints, of any size, run by CLIP's own classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from obygaze_features.backbones.base import Placement, TorchBackbone
from obygaze_features.backbones.cards import Card
from obygaze_features.backbones.geometry import Depth, Geometry
from obygaze_features.backbones.hub import WeightFiles
from obygaze_features.backbones.identity import check_hashes, check_sizes, is_verified
from obygaze_features.backbones.library import library
from obygaze_features.backbones.lsmdc_checkpoint import (
    HEAD_WIDTH,
    POSITIONS,
    Shapes,
    infer_shapes,
    strip_module,
    temporal_hidden,
    temporal_name,
    temporal_tensors,
    vision_tensors,
    visual_name,
)
from obygaze_features.backbones.pixels import Pixels
from obygaze_features.backbones.weights import hash_weights, read_tensors, refuse
from obygaze_features.core.console import count

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def _vision_module(shapes: Shapes, attention: str) -> torch.nn.Module:
    configuration = library("models.clip.configuration_clip")
    modeling = library("models.clip.modeling_clip")
    config = configuration.CLIPVisionConfig(
        hidden_size=shapes.width,
        intermediate_size=shapes.hidden,
        projection_dim=shapes.out,
        num_hidden_layers=shapes.layers,
        num_attention_heads=shapes.width // HEAD_WIDTH,
        image_size=shapes.size,
        patch_size=shapes.patch,
        hidden_act="quick_gelu",
        layer_norm_eps=1e-5,
        attn_implementation=attention,
    )
    module: torch.nn.Module = modeling.CLIPVisionModelWithProjection(config)
    return module


def card_of(card: Card, files: WeightFiles) -> Card:
    """The card with the depth and the levels of a checkpoint, which must be of its sizes."""
    tensors = strip_module(read_tensors(files.files))
    shapes = infer_shapes(tensors, card.geometry.frames, str(files.files[0]))
    sources = _sources(card, bool(shapes.temporal_layers))
    geometry = _geometry(card, shapes)
    check_sizes(card, geometry, files)
    return replace(card, geometry=geometry, sources=sources)


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
        _load_strictly(module["vision"], vision_tensors(tensors, where), where, visual_name)
        if shapes.temporal_layers:
            rows = int(tensors[POSITIONS].shape[0])
            heads, hidden = shapes.out // HEAD_WIDTH, temporal_hidden(tensors, where)
            encoder = TemporalEncoder(shapes.out, hidden, heads, shapes.temporal_layers, rows)
            _load_strictly(encoder, temporal_tensors(tensors), where, temporal_name)
            module["temporal"] = encoder
        geometry, hashes = _geometry(card, shapes), hash_weights(files, raw)
        check_sizes(card, geometry, files)
        check_hashes(card, files, hashes)
        return cls(
            card,
            geometry,
            module,
            hashes,
            placement,
            Pixels.of(card.input, geometry.size),
            verified=is_verified(card, files, hashes),
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
        depth=Depth(shapes.layers, shapes.hidden, shapes.width // HEAD_WIDTH, shapes.patch),
    )


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
        told = f"{count(len(missing), 'tensor')} missing"
        raise refuse(told, missing, where, "fetch the checkpoint again")
    extra = sorted(named(key) for key in tensors.keys() - wanted.keys())
    if extra:
        raise refuse(
            f"{count(len(extra), 'tensor')} that nothing here uses", extra, where, "another card"
        )
    wrong = [
        f"{named(key)}: {list(tensors[key].shape)}, not {list(wanted[key].shape)}"
        for key in sorted(wanted)
        if tensors[key].shape != wanted[key].shape
    ]
    if wrong:
        raise refuse("tensors of the wrong shape", wrong, where, "another checkpoint")
    module.load_state_dict(dict(tensors), strict=True)
