"""A model of every family with random weights: of the size of its checkpoint, or very small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.backbones.base import Backbone
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.families import PRETRAINED
from obygaze_features.backbones.load import load_backbone
from obygaze_features.backbones.pretrained import save_random
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.files import write_atomic
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.plan import Target

# The configurations of random weights with the sizes of the real cards.
SIZES: dict[str, dict[str, Any]] = {
    "xclip-b16-k600-zs": {
        "projection_dim": 512,
        "vision_config": {"patch_size": 16, "num_frames": 32},
    },
    "clip-b16": {"patch_size": 16, "projection_dim": 512},
    "siglip2-b16": {},
    "dinov2-b": {"patch_size": 14, "image_size": 518},
    "dinov3-b16": {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_attention_heads": 12,
        "num_register_tokens": 4,
    },
    "vivit-b16x2-k400": {},
    "videomae-b": {},
    "timesformer-b-k400": {},
    "videoprism-b": {},
    "vjepa2-l": {},
}
# Precision and whether TF32 is allowed; the peak of an H200 without sparsity, in TFLOP/s.
PRECISIONS = {
    "float32": ("float32", False, 67),
    "tf32": ("float32", True, 494),
    "bf16": ("bfloat16", False, 989),
}
# The sizes of the small models, which have the frames and patches of the real ones.
WIDTH = 64
LAYERS = 2
_SMALL = {
    "hidden_size": WIDTH,
    "intermediate_size": 4 * WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
}
_SMALL_OF: dict[str, dict[str, Any]] = {
    "xclip": {
        "projection_dim": WIDTH,
        "prompt_num_attention_heads": 2,
        "text_config": _SMALL,
    },
    "clip": {"projection_dim": WIDTH},
    "videoprism": {"num_spatial_layers": LAYERS - 1, "num_temporal_layers": 1},
    "vjepa2": {"pred_hidden_size": WIDTH, "pred_num_attention_heads": 2},
}
_SMALL_MIT = {
    "mit_hidden_size": WIDTH,
    "mit_intermediate_size": 4 * WIDTH,
    "mit_num_attention_heads": 2,
}
_SMALL_CARD = f"""\
schema = "obygaze-backbone/1"
like = "{{like}}"
name = "{{name}}"
title = "{{name}}: random weights for the benchmark"

[tokens]
grid = {{grid}}
width = {WIDTH}
out = {WIDTH}

[depth]
layers = {LAYERS}
hidden = {4 * WIDTH}
heads = 2
"""


@dataclass(frozen=True)
class Model:
    """A card and a folder with random weights of its sizes."""

    card: str
    weights: Path

    def load(
        self, device: str, workspace: Path, precision: str = "float32"
    ) -> Backbone:
        """Load it in a precision."""
        dtype, tf32, _ = PRECISIONS[precision]
        space = Workspace(workspace)
        options: dict[str, Any] = {"device": device, "dtype": dtype, "tf32": tf32}
        return load_backbone(self.card, self.weights, workspace=space, **options)

    def target(
        self, store: Path, block_rows: int, precision: str = "float32"
    ) -> Target:
        """Return the target of a plan that extracts with it in a precision."""
        dtype, tf32, _ = PRECISIONS[precision]
        weights = str(self.weights)
        return Target(
            str(store),
            self.card,
            weights,
            dtype=dtype,
            tf32=tf32,
            block_rows=block_rows,
        )


def models(folder: Path, *, small: bool, names: Sequence[str] = ()) -> Iterator[Model]:
    """Write and yield a model of every family, or of the named cards.

    The cards of small models go to the folder `backbones`.
    """
    unknown = [name for name in names if name not in SIZES]
    if unknown:
        hint = f"one of {', '.join(SIZES)}"
        raise FixUsage(f"no random weights for {', '.join(unknown)}", hint=hint)
    for name, sizes in SIZES.items():
        if names and name not in names:
            continue
        family = PRETRAINED[find_card(name).family.name]
        card = _small_card(name, folder) if small else name
        chosen = _small_sizes(family.name, sizes) if small else sizes
        yield Model(card, save_random(family, chosen, folder / "weights" / name))


def _small_card(name: str, folder: Path) -> str:
    small = f"small-{name}"
    grid = list(find_card(name).geometry.grid)
    text = _SMALL_CARD.format(like=name, name=small, grid=grid)
    write_atomic(folder / "backbones" / f"{small}.toml", text.encode("utf-8"))
    return small


def _small_sizes(family: str, sizes: dict[str, Any]) -> dict[str, Any]:
    if family == "xclip":
        vision = {**sizes["vision_config"], **_SMALL, **_SMALL_MIT}
        return {**_SMALL_OF[family], "vision_config": vision}
    return {**sizes, **_SMALL, **_SMALL_OF.get(family, {})}
