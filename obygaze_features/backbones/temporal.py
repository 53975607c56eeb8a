"""The small transformer over frame vectors that some LSMDC checkpoints carry."""

from __future__ import annotations

import torch
from torch import Tensor, nn

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
    """Attention and a dense layer, each after a norm and added to what came in."""

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
    """Frame vectors [B, T, D] that have seen each other, added to what they were."""

    def __init__(self, width: int, hidden: int, heads: int, layers: int, positions: int) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.empty(positions, width))
        self.resblocks = nn.ModuleList(_Block(width, hidden, heads) for _ in range(layers))

    def forward(self, frames: Tensor, mask: Tensor) -> Tensor:
        """Mix frames that the mask [B, T] calls real."""
        bias = ((1.0 - mask) * _PUSH).to(frames.dtype)[:, None, None, :]
        x = frames + self.positions[: frames.shape[1]]
        for block in self.resblocks:
            x = block(x, bias)
        return x + frames
