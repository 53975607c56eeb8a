"""The modules of LSMDC's X-CLIP: CLIP's visual tower, and a transformer over frame vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from obygaze_features.backbones.geometry import Geometry
from obygaze_features.backbones.pretrained import library
from obygaze_features.backbones.weights import check_tensors

# Its layer norms have another epsilon than the visual tower's, and padding is pushed down by a
# finite amount: both are part of what was trained.
_EPSILON = 1e-12
_PUSH = -1_000_000.0


class _Attention(nn.Module):
    """Multi-head attention with one fused matrix for queries, keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * width))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        fused = nn.functional.linear(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = (
            part.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)
            for part in fused.chunk(3, dim=-1)
        )
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias
        mixed = scores.softmax(dim=-1) @ v
        out: Tensor = self.out_proj(mixed.transpose(1, 2).flatten(2))
        return out


class _QuickGelu(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


class _Block(nn.Module):
    """Attention and a dense layer, each after a norm and added to its input."""

    def __init__(self, width: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.attn = _Attention(width, heads)
        self.ln_1 = nn.LayerNorm(width, eps=_EPSILON)
        self.ln_2 = nn.LayerNorm(width, eps=_EPSILON)
        self.mlp = nn.Sequential()
        self.mlp.add_module("c_fc", nn.Linear(width, hidden))
        self.mlp.add_module("gelu", _QuickGelu())
        self.mlp.add_module("c_proj", nn.Linear(hidden, width))

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x), bias)
        out: Tensor = x + self.mlp(self.ln_2(x))
        return out


class TemporalEncoder(nn.Module):
    """The transformer over frame vectors [B, T, D] of some checkpoints, added to its input."""

    def __init__(self, width: int, hidden: int, heads: int, layers: int, positions: int) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.empty(positions, width))
        self.resblocks = nn.ModuleList(_Block(width, hidden, heads) for _ in range(layers))

    def forward(self, frames: Tensor, mask: Tensor) -> Tensor:
        """Mix the frames that the mask [B, T] marks as real."""
        bias = ((1.0 - mask) * _PUSH).to(frames.dtype)[:, None, None, :]
        x = frames + self.positions[: frames.shape[1]]
        for block in self.resblocks:
            x = block(x, bias)
        return x + frames


def vision_tower(geometry: Geometry, attention: str) -> nn.Module:
    """Return CLIP's visual tower, of the sizes of a checkpoint."""
    depth: Any = geometry.depth
    config = library("models.clip.configuration_clip").CLIPVisionConfig(
        hidden_size=geometry.width,
        intermediate_size=depth.hidden,
        projection_dim=geometry.out,
        num_hidden_layers=depth.layers,
        num_attention_heads=depth.heads,
        image_size=geometry.size,
        patch_size=depth.patch,
        hidden_act="quick_gelu",
        layer_norm_eps=1e-5,
        attn_implementation=attention,
    )
    modeling = library("models.clip.modeling_clip")
    tower: nn.Module = modeling.CLIPVisionModelWithProjection(config)
    return tower


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


def load_strictly(
    module: nn.Module,
    tensors: Mapping[str, Tensor],
    where: str,
    named: Callable[[str], str],
    value: Callable[[str, Tensor], Tensor] = lambda key, tensor: tensor,
) -> None:
    """Load every tensor in single precision, or raise an error that names those that do not fit.

    `named` gives the checkpoint's name of a tensor of the module, `value` the module's tensor.
    """
    expected = module.state_dict()
    names = {key: named(key) for key in expected}
    known = {key: name for key, name in names.items() if name in tensors}
    found = {key: value(key, tensors[name].float()) for key, name in known.items()}
    wrong = [
        f"{names[key]}: expected {list(expected[key].shape)}, got {list(tensor.shape)}"
        for key, tensor in found.items()
        if tensor.shape != expected[key].shape
    ]
    used = set(names.values())
    check_tensors(used - tensors.keys(), tensors.keys() - used, wrong, where)
    module.load_state_dict(found, strict=True)
