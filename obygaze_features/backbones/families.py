"""One small adapter per family: its class, its geometry, and the tensors behind its levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from obygaze_features.backbones.cards import Card
from obygaze_features.backbones.geometry import Depth, Geometry
from obygaze_features.core.errors import FixInput

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Taps = dict[str, "Tensor"]


def _whole(model: torch.nn.Module) -> torch.nn.Module:
    return model


@dataclass(frozen=True)
class Family:
    """What all checkpoints of one architecture share.

    `ignored` matches tensors that a checkpoint rightly holds and the class leaves out (text
    towers, heads); any other tensor that is left over is an error.
    """

    module: str
    model: str
    model_types: tuple[str, ...]
    geometry: Callable[[Any, Card], Geometry]
    taps: Callable[[Any, Any, Geometry], Taps]
    ignored: str = r"position_ids$"
    keep: Callable[[Any], Any] = _whole
    options: Mapping[str, Any] = field(default_factory=dict)


def _one(value: Any) -> int:
    """A size that a configuration may give once or once for each side."""
    if isinstance(value, int):
        return value
    if len(set(value)) != 1:
        raise FixInput(f"only square frames and patches are supported, not {list(value)}")
    return int(value[0])


def _frame_geometry(config: Any, card: Card, size: int, prefix: int, out: int) -> Geometry:
    patch = _one(config.patch_size)
    side = size // patch
    hidden = getattr(config, "intermediate_size", None) or int(
        config.hidden_size * config.mlp_ratio
    )
    return Geometry(
        frames=card.geometry.frames,
        size=size,
        unit="frame",
        prefix=prefix,
        order="hw",
        grid=(card.geometry.frames, side, side),
        width=config.hidden_size,
        out=out,
        depth=Depth(config.num_hidden_layers, hidden, config.num_attention_heads, patch),
    )


def _clip_geometry(
    config: Any, frames: int, size: int, tubelet: int, patch: int, prefix: int, order: str
) -> Geometry:
    side, width = size // patch, config.hidden_size
    hidden = getattr(config, "intermediate_size", None) or int(width * config.mlp_ratio)
    depth = Depth(config.num_hidden_layers, hidden, config.num_attention_heads, patch, tubelet)
    grid = (frames // tubelet, side, side)
    return Geometry(frames, size, "clip", prefix, order, grid, width, width, depth)


# --- X-CLIP: images through a tower whose layers look across the frames of a clip


def _xclip_geometry(config: Any, card: Card) -> Geometry:
    vision = config.vision_config
    frames, size = vision.num_frames, _one(vision.image_size)
    patch = _one(vision.patch_size)
    hidden = vision.intermediate_size
    return Geometry(
        frames=frames,
        size=size,
        unit="frame",
        prefix=1,
        order="hw",
        grid=(frames, size // patch, size // patch),
        width=vision.hidden_size,
        out=config.projection_dim,
        depth=Depth(vision.num_hidden_layers, hidden, vision.num_attention_heads, patch),
    )


def _xclip_keep(model: Any) -> torch.nn.Module:
    """The towers without the text, which would only take room on the device."""
    import torch

    parts = {"vision": model.vision_model, "projection": model.visual_projection, "mit": model.mit}
    return torch.nn.ModuleDict(parts)


def _xclip_taps(module: Any, pixels: Tensor, g: Geometry) -> Taps:
    b, t = pixels.shape[:2]
    # By position: what these modules return has a name in some releases and none in others.
    seen = module["vision"](pixel_values=pixels.flatten(0, 1))
    tokens = seen[0].unflatten(0, (b, t))
    vectors = module["projection"](seen[1]).unflatten(0, (b, t))
    mixed = module["mit"](vectors)
    return {
        "tokens": tokens,
        "token-max": tokens.amax(dim=(1, 2)),
        "frame-cls": tokens[:, :, 0],
        "frame-vector": vectors,
        "mit-output": mixed[0],
        "mit-mean": mixed[1],
    }


# --- Image models: each frame on its own


def _clip_vit_geometry(config: Any, card: Card) -> Geometry:
    return _frame_geometry(config, card, _one(config.image_size), 1, config.projection_dim)


def _siglip_geometry(config: Any, card: Card) -> Geometry:
    if not getattr(config, "vision_use_head", True):
        raise FixInput("this SigLIP has no pooling head, so it gives no vector for a frame")
    return _frame_geometry(config, card, _one(config.image_size), 0, config.hidden_size)


def _card_size(config: Any, card: Card) -> int:
    """These find positions for any size, so the card chooses it, up to what they were made for."""
    return min(card.geometry.size, _one(config.image_size))


def _dinov2_geometry(config: Any, card: Card) -> Geometry:
    return _frame_geometry(config, card, _card_size(config, card), 1, config.hidden_size)


def _dinov3_geometry(config: Any, card: Card) -> Geometry:
    prefix = 1 + config.num_register_tokens
    return _frame_geometry(config, card, _card_size(config, card), prefix, config.hidden_size)


def _frame_taps(module: Any, pixels: Tensor, g: Geometry) -> Taps:
    b, t = pixels.shape[:2]
    seen = module(pixel_values=pixels.flatten(0, 1))
    tokens = seen.last_hidden_state.unflatten(0, (b, t))
    flat = seen.image_embeds if hasattr(seen, "image_embeds") else seen.pooler_output
    vectors = flat.unflatten(0, (b, t))
    return {
        "tokens": tokens,
        "token-max": tokens.amax(dim=(1, 2)),
        "frame-vector": vectors,
        "frame-mean": vectors.float().mean(dim=1),
        "frame-cls": tokens[:, :, 0],
    }


# --- Video models: the whole clip at once


def _vivit_geometry(config: Any, card: Card) -> Geometry:
    tubelet, *patch = config.tubelet_size
    size = _one(config.image_size)
    return _clip_geometry(config, config.num_frames, size, tubelet, _one(patch), 1, "thw")


def _videomae_geometry(config: Any, card: Card) -> Geometry:
    size, patch = _one(config.image_size), _one(config.patch_size)
    return _clip_geometry(config, config.num_frames, size, config.tubelet_size, patch, 0, "thw")


def _timesformer_geometry(config: Any, card: Card) -> Geometry:
    if config.attention_type != "divided_space_time":
        raise FixInput(
            f"TimeSformer with {config.attention_type} attention orders tokens otherwise"
        )
    size, patch = _one(config.image_size), _one(config.patch_size)
    return _clip_geometry(config, config.num_frames, size, 1, patch, 1, "hwt")


def _vjepa2_geometry(config: Any, card: Card) -> Geometry:
    # Rotary positions: any even number of frames up to its own will do, so the card chooses.
    size, patch = _one(config.crop_size), _one(config.patch_size)
    frames = min(card.geometry.frames, config.frames_per_clip)
    return _clip_geometry(config, frames, size, config.tubelet_size, patch, 0, "thw")


def _vjepa2_keep(model: Any) -> torch.nn.Module:
    model.predictor = None
    whole: torch.nn.Module = model
    return whole


def _clip_taps(module: Any, pixels: Tensor, g: Geometry) -> Taps:
    return _split(module(pixel_values=pixels).last_hidden_state, g)


def _vjepa2_taps(module: Any, pixels: Tensor, g: Geometry) -> Taps:
    seen = module(pixel_values_videos=pixels, skip_predictor=True)
    return _split(seen.last_hidden_state, g)


def _split(sequence: Tensor, g: Geometry) -> Taps:
    n, prefix, patches = len(sequence), sequence[:, : g.prefix], sequence[:, g.prefix :]
    # Patch-major models run through time first: token p * T + t.
    if g.order == "hwt":
        tokens = patches.reshape(n, g.patches, g.steps, -1).transpose(1, 2)
    else:
        tokens = patches.reshape(n, g.steps, g.patches, -1)
    taps = {
        "tokens": tokens,
        "token-max": sequence.amax(dim=1),
        "token-mean": patches.float().mean(dim=1),
        "space-mean": tokens.float().mean(dim=2),
        "prefix": prefix,
    }
    return {**taps, "cls": prefix[:, 0]} if g.prefix else taps


_MODELS = "models"
_HEADS = r"position_ids$|^(classifier|fc_norm|pooler|vivit\.pooler)\."

FAMILIES: dict[str, Family] = {
    "xclip": Family(
        module=f"{_MODELS}.x_clip.modeling_x_clip",
        model="XCLIPModel",
        model_types=("xclip",),
        geometry=_xclip_geometry,
        taps=_xclip_taps,
        keep=_xclip_keep,
    ),
    "clip": Family(
        module=f"{_MODELS}.clip.modeling_clip",
        model="CLIPVisionModelWithProjection",
        model_types=("clip", "clip_vision_model"),
        geometry=_clip_vit_geometry,
        taps=_frame_taps,
        ignored=r"position_ids$|^(text_model|text_projection)\.|^logit_scale$",
    ),
    "siglip": Family(
        module=f"{_MODELS}.siglip.modeling_siglip",
        model="SiglipVisionModel",
        model_types=("siglip", "siglip_vision_model"),
        geometry=_siglip_geometry,
        taps=_frame_taps,
        ignored=r"position_ids$|^text_model\.|^logit_(scale|bias)$",
    ),
    "dinov2": Family(
        module=f"{_MODELS}.dinov2.modeling_dinov2",
        model="Dinov2Model",
        model_types=("dinov2",),
        geometry=_dinov2_geometry,
        taps=_frame_taps,
        ignored=_HEADS,
    ),
    "dinov3": Family(
        module=f"{_MODELS}.dinov3_vit.modeling_dinov3_vit",
        model="DINOv3ViTModel",
        model_types=("dinov3_vit",),
        geometry=_dinov3_geometry,
        taps=_frame_taps,
        ignored=_HEADS,
    ),
    "vivit": Family(
        module=f"{_MODELS}.vivit.modeling_vivit",
        model="VivitModel",
        model_types=("vivit",),
        geometry=_vivit_geometry,
        taps=_clip_taps,
        ignored=_HEADS,
        options={"add_pooling_layer": False},
    ),
    "videomae": Family(
        module=f"{_MODELS}.videomae.modeling_videomae",
        model="VideoMAEModel",
        model_types=("videomae",),
        geometry=_videomae_geometry,
        taps=_clip_taps,
        ignored=rf"{_HEADS}|^(decoder|encoder_to_decoder)\.|^mask_token$|position_embeddings$",
    ),
    "timesformer": Family(
        module=f"{_MODELS}.timesformer.modeling_timesformer",
        model="TimesformerModel",
        model_types=("timesformer",),
        geometry=_timesformer_geometry,
        taps=_clip_taps,
        ignored=_HEADS,
    ),
    "vjepa2": Family(
        module=f"{_MODELS}.vjepa2.modeling_vjepa2",
        model="VJEPA2Model",
        model_types=("vjepa2",),
        geometry=_vjepa2_geometry,
        taps=_vjepa2_taps,
        keep=_vjepa2_keep,
        ignored=_HEADS,
    ),
}
