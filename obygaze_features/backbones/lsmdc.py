"""The X-CLIP of Ma et al. (LSMDC): its modules, and checkpoints in the training code's format.

The modules have the names that the checkpoints give to their tensors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from obygaze_features.backbones.backbone import (
    TorchBackbone,
)
from obygaze_features.backbones.card import Card
from obygaze_features.backbones.geometry import Depth, Geometry
from obygaze_features.backbones.placement import (
    Placement,
)
from obygaze_features.backbones.weight_files import (
    WeightFiles,
)
from obygaze_features.backbones.weights import (
    check_sizes,
    check_tensors,
    read_weights,
)
from obygaze_features.core.errors import FixInput

_VISUAL = "clip.visual."
_OVER_FRAMES = "transformerClip."
_POSITIONS = "frame_position_embeddings.weight"
_HEAD_WIDTH = 64
_OTHER_KINDS = {
    "lstm_visual.": "frames joined by an LSTM",
    "clip.visual.conv2.weight": "three-dimensional patches",
    "clip.visual.layer1.": "a ResNet instead of a transformer",
}
# Tensors with a row for each frame.
_OF_FRAMES = ("frame_logit_weight", "frame_mat_weight", "frame_mat_weight2")
# Training added this finite number, not minus infinity, to the scores of padding.
_PUSH = -1_000_000.0
# Layer norms over frames use another epsilon than layer norms of the visual tower.
_EPS = 1e-5
_EPS_OVER_FRAMES = 1e-12


# --- Modules ---


class JointAttention(nn.Module):
    """Attention with one matrix product for queries, keys and values, as in the training code."""

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
        self.attn = JointAttention(width, heads, attention)
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
    layers = [ResidualLayer(*sizes) for _ in range(count)]
    return nn.ModuleDict({"resblocks": nn.ModuleList(layers)})


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
    """Return the model of a checkpoint; `over_frames` is None without a transformer over frames."""
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
    """Return the outputs of the family: tokens, vectors of frames, and the vector of the clip.

    The vectors of frames are returned after each step: the class token, its normalisation, the
    projection, the transformer over frames, and the division by their length.
    """
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
    mean = (unit * weight).sum(dim=1) / weight.sum(dim=1)
    lowest = torch.finfo(tokens.dtype).min
    real_tokens = tokens.masked_fill(weight.unsqueeze(-1) == 0, lowest)
    return {
        "tokens": tokens,
        "token-max": tokens.amax(dim=(1, 2)),
        "masked-token-max": real_tokens.amax(dim=(1, 2)),
        "frame-cls": cls,
        "frame-cls-ln": after_norm,
        "frame-vector": vectors,
        "frame-temporal": mixed,
        "frame-norm": unit,
        "video": _unit(mean),
    }


def _unit(x: Tensor) -> Tensor:
    unit: Tensor = x / x.norm(dim=-1, keepdim=True)
    return unit


# --- Checkpoints ---


def load_lsmdc(card: Card, files: WeightFiles, placement: Placement) -> TorchBackbone:
    """Return the model of a card.

    Raise an error if a tensor of the visual tower or of the transformer over frames is missing in
    the files, is not used, or has the wrong shape.
    """
    raw, hashes = read_weights(card, files)
    # Data-parallel training adds a prefix.
    tensors = {key.removeprefix("module."): tensor for key, tensor in raw.items()}
    card_of_weights = _card_of_weights(card, files, tensors)
    geometry = card_of_weights.geometry
    positions = max(len(tensors.get(_POSITIONS, ())), geometry.frames)
    over_frames = _depth(tensors, _OVER_FRAMES)
    model = lsmdc_model(geometry, over_frames, positions, placement.attention)
    expected = model.state_dict()
    parts = (_VISUAL, _OVER_FRAMES, _POSITIONS)
    used = {key: tensor for key, tensor in tensors.items() if key.startswith(parts)}
    wrong = [
        f"{key}: expected {list(expected[key].shape)}, got {list(tensor.shape)}"
        for key, tensor in used.items()
        if key in expected and tensor.shape != expected[key].shape
    ]
    missing = expected.keys() - used.keys()
    unused = used.keys() - expected.keys()
    check_tensors(missing, unused, wrong, str(files.files[0]))
    model.load_state_dict({key: tensor.float() for key, tensor in used.items()})
    return TorchBackbone(
        card,
        card_of_weights,
        model,
        outputs,
        files=files,
        hashes=hashes,
        placement=placement,
    )


def _card_of_weights(
    card: Card, files: WeightFiles, tensors: Mapping[str, Tensor]
) -> Card:
    """Return a card with the geometry and arrays of the tensors of a checkpoint.

    Raise an error if the sizes of the tensors are not the sizes that the card states.
    """
    where = str(files.files[0])
    _refuse_other_kinds(tensors, where)
    needed = {
        f"{_VISUAL}conv1.weight": 4,
        f"{_VISUAL}positional_embedding": 2,
        f"{_VISUAL}proj": 2,
    }
    missing = [
        key for key, n in needed.items() if key not in tensors or tensors[key].ndim != n
    ]
    depth = _depth(tensors, f"{_VISUAL}transformer.")
    if missing or depth is None:
        raise FixInput(
            "not an LSMDC X-CLIP checkpoint: its visual tower is missing",
            where=where,
            hint="use the pytorch_model.bin.N that training wrote",
            details=missing,
        )
    conv, positions, proj = (tensors[key] for key in needed)
    patch = int(conv.shape[-1])
    side = math.isqrt(max(len(positions) - 1, 0))
    frames = card.geometry.frames
    for key in reversed(_OF_FRAMES):
        if key in tensors and tensors[key].ndim:
            frames = len(tensors[key])
    geometry = Geometry(
        frames,
        size=patch * side,
        unit="frame",
        prefix=1,
        order="hw",
        grid=(frames, side, side),
        width=int(conv.shape[0]),
        out=int(proj.shape[1]),
        depth=replace(depth, patch=patch),
    )
    check_sizes(card, geometry, files)
    sources = dict(card.sources)
    if _depth(tensors, _OVER_FRAMES):
        sources["frames_temporal"] = "frame-temporal"
    return replace(card, geometry=geometry, sources=sources)


def _refuse_other_kinds(tensors: Mapping[str, Tensor], where: str) -> None:
    """Raise an error if a checkpoint has tensors of another architecture."""
    for key, kind in _OTHER_KINDS.items():
        if any(name.startswith(key) for name in tensors):
            raise FixInput(
                f"unsupported architecture of an LSMDC checkpoint: {kind} ({key.rstrip('.')})",
                where=where,
            )


def _depth(tensors: Mapping[str, Tensor], transformer: str) -> Depth | None:
    """Return the number and sizes of a transformer's layers, or None if there are none."""
    prefix = f"{transformer}resblocks."
    numbers = set()
    sizes = []
    for key, tensor in tensors.items():
        if key.startswith(prefix):
            number, _, name = key.removeprefix(prefix).partition(".")
            numbers.add(number)
            if name == "mlp.c_fc.weight" and tensor.ndim == 2:
                sizes.append(tensor.shape)
    if not sizes:
        return None
    hidden, width = map(int, sizes[0])
    return Depth(len(numbers), hidden, max(1, width // _HEAD_WIDTH), patch=1)
