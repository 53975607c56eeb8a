"""The modules of LSMDC's X-CLIP: CLIP's visual tower, and a transformer over frame vectors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from obygaze_features.backbones.geometry import Geometry
from obygaze_features.backbones.pretrained import library

# Training pushed padding down by a finite amount.
_PUSH = -1_000_000.0


def vision_tower(geometry: Geometry, attention: str) -> nn.Module:
    """Return CLIP's visual tower, of the sizes of a checkpoint."""
    depth: Any = geometry.depth
    config = _clip_config(
        hidden_size=geometry.width,
        intermediate_size=depth.hidden,
        projection_dim=geometry.out,
        num_hidden_layers=depth.layers,
        num_attention_heads=depth.heads,
        image_size=geometry.size,
        patch_size=depth.patch,
        layer_norm_eps=1e-5,
        attn_implementation=attention,
    )
    modeling = library("models.clip.modeling_clip")
    tower: nn.Module = modeling.CLIPVisionModelWithProjection(config)
    return tower


class TemporalEncoder(nn.Module):
    """The transformer over frame vectors [B, T, D] of some checkpoints, added to its input."""

    def __init__(self, width: int, hidden: int, heads: int, layers: int, positions: int) -> None:
        super().__init__()
        config = _clip_config(
            hidden_size=width,
            intermediate_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            # Not that of the visual tower.
            layer_norm_eps=1e-12,
            attn_implementation="eager",
        )
        self.positions = nn.Parameter(torch.empty(positions, width))
        self.encoder = library("models.clip.modeling_clip").CLIPEncoder(config)

    def forward(self, frames: Tensor, mask: Tensor) -> Tensor:
        """Mix the frames that the mask [B, T] marks as real."""
        bias = ((1.0 - mask) * _PUSH).to(frames.dtype)[:, None, None, :]
        x = frames + self.positions[: frames.shape[1]]
        mixed: Tensor = self.encoder(inputs_embeds=x, attention_mask=bias)[0]
        return mixed + frames


def _clip_config(**sizes: Any) -> Any:
    kind = library("models.clip.configuration_clip").CLIPVisionConfig
    return kind(hidden_act="quick_gelu", **sizes)


def outputs(module: Any, pixels: Tensor, mask: Tensor, geometry: Geometry) -> dict[str, Tensor]:
    """Return tokens, frame vectors before and after the projection, and the clip's own vector."""
    b, t = pixels.shape[:2]
    tower = module["vision"].vision_model
    seen = tower(pixel_values=pixels.flatten(0, 1))
    tokens = seen.last_hidden_state.unflatten(0, (b, t))
    cls = tokens[:, :, 0]
    after_norm = tower.post_layernorm(cls)
    vectors = module["vision"].visual_projection(after_norm)
    mixed = module["temporal"](vectors, mask) if "temporal" in module else vectors
    unit = _unit(mixed.float())
    weight = mask.unsqueeze(-1)
    lowest = torch.finfo(tokens.dtype).min
    return {
        "tokens": tokens,
        "token-max": tokens.amax(dim=(1, 2)),
        "masked-token-max": tokens.masked_fill(weight.unsqueeze(-1) == 0, lowest).amax(dim=(1, 2)),
        "frame-cls": cls,
        "frame-cls-ln": after_norm,
        "frame-vector": vectors,
        "frame-temporal": mixed,
        "frame-norm": unit,
        "video": _unit((unit * weight).sum(dim=1) / weight.sum(dim=1)),
    }


def _unit(x: Tensor) -> Tensor:
    unit: Tensor = x / x.norm(dim=-1, keepdim=True)
    return unit
