"""The modules of LSMDC's X-CLIP, under the names that its checkpoints give to their tensors."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from obygaze_features.backbones.geometry import Depth, Geometry

# Training pushed padding down by a finite amount.
_PUSH = -1_000_000.0
# Layer norms over frames add another number than those of the visual tower.
_EPS = 1e-5
_EPS_OVER_FRAMES = 1e-12


class Attention(nn.Module):
    """Attention whose queries, keys and values come from one product, as in training."""

    def __init__(self, width: int, heads: int, kind: str) -> None:
        super().__init__()
        self.heads = heads
        self.kind = kind
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * width))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Mix the tokens of x [B, N, D]; `bias` is added to the scores."""
        joint = functional.linear(x, self.in_proj_weight, self.in_proj_bias)
        split = joint.view(*x.shape[:2], 3, self.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        if self.kind == "sdpa":
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        else:
            scores = q @ k.mT * q.shape[-1] ** -0.5
            scores = scores if bias is None else scores + bias
            mixed = scores.softmax(dim=-1, dtype=torch.float32).to(q.dtype) @ v
        projected: Tensor = self.out_proj(mixed.transpose(1, 2).flatten(2))
        return projected


class ResidualLayer(nn.Module):
    """One layer of a transformer: attention, then two dense layers, each added to its input."""

    def __init__(
        self, width: int, hidden: int, heads: int, eps: float, attention: str
    ) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps)
        self.attn = Attention(width, heads, attention)
        self.ln_2 = nn.LayerNorm(width, eps)
        self.mlp = nn.ModuleDict(
            {"c_fc": nn.Linear(width, hidden), "c_proj": nn.Linear(hidden, width)}
        )

    def forward(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Return the tokens after this layer."""
        x = x + self.attn(self.ln_1(x), bias)
        wide = self.mlp["c_fc"](self.ln_2(x))
        added: Tensor = x + self.mlp["c_proj"](wide * torch.sigmoid(1.702 * wide))
        return added


def _layers(count: int, *sizes: Any) -> nn.ModuleDict:
    return nn.ModuleDict(
        {"resblocks": nn.ModuleList(ResidualLayer(*sizes) for _ in range(count))}
    )


def _through(layers: Any, x: Tensor, bias: Tensor | None = None) -> Tensor:
    for layer in layers["resblocks"]:
        x = layer(x, bias)
    return x


class VisualTower(nn.Module):
    """CLIP's transformer over the patches of a frame."""

    def __init__(self, g: Geometry, attention: str) -> None:
        super().__init__()
        depth: Any = g.depth
        self.conv1 = nn.Conv2d(3, g.width, depth.patch, depth.patch, bias=False)
        self.class_embedding = nn.Parameter(torch.empty(g.width))
        self.positional_embedding = nn.Parameter(torch.empty(1 + g.patches, g.width))
        self.ln_pre = nn.LayerNorm(g.width, _EPS)
        self.ln_post = nn.LayerNorm(g.width, _EPS)
        self.transformer = _layers(
            depth.layers, g.width, depth.hidden, depth.heads, _EPS, attention
        )
        self.proj = nn.Parameter(torch.empty(g.width, g.out))

    def forward(self, frames: Tensor) -> Tensor:
        """Return the tokens [B, 1 + P, D] of frames [B, 3, S, S]."""
        patches = self.conv1(frames).flatten(2).mT
        first = self.class_embedding.expand(len(patches), 1, -1)
        x: Tensor = self.ln_pre(
            torch.cat([first, patches], dim=1) + self.positional_embedding
        )
        return _through(self.transformer, x)


def lsmdc_model(
    geometry: Geometry, over_frames: Depth | None, positions: int, attention: str
) -> nn.Module:
    """Return the model of a checkpoint, some of which have a transformer over frame vectors."""
    tower = VisualTower(geometry, attention)
    out = geometry.out
    model = nn.ModuleDict({"clip": nn.ModuleDict({"visual": tower})})
    if over_frames is not None:
        sizes = (out, over_frames.hidden, over_frames.heads, _EPS_OVER_FRAMES, "eager")
        model["transformerClip"] = _layers(over_frames.layers, *sizes)
        model["frame_position_embeddings"] = nn.Embedding(positions, out)
    return model


def outputs(
    module: Any, pixels: Tensor, mask: Tensor, geometry: Geometry
) -> dict[str, Tensor]:
    """Return tokens, frame vectors before and after the projection, and the clip's own vector."""
    tower = module["clip"]["visual"]
    tokens = tower(pixels.flatten(0, 1)).unflatten(0, pixels.shape[:2])
    cls = tokens[:, :, 0]
    after_norm = tower.ln_post(cls)
    vectors = mixed = after_norm @ tower.proj
    if "transformerClip" in module:
        mixed = vectors + module["frame_position_embeddings"].weight[: vectors.shape[1]]
        bias = ((1.0 - mask) * _PUSH).to(vectors.dtype)[:, None, None, :]
        mixed = _through(module["transformerClip"], mixed, bias) + vectors
    unit = _unit(mixed.float())
    weight = mask.unsqueeze(-1)
    lowest = torch.finfo(tokens.dtype).min
    return {
        "tokens": tokens,
        "token-max": tokens.amax(dim=(1, 2)),
        "masked-token-max": tokens.masked_fill(weight.unsqueeze(-1) == 0, lowest).amax(
            dim=(1, 2)
        ),
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
