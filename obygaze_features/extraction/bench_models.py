"""The models of the bench: of a size the machine bears, or of the size of their checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.backbones.random_weights import save_random

# Six layers of width 384 on 32-pixel patches: a few tenths of a second a clip on one core.
SMALL: dict[str, Any] = {
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "patch_size": 32,
}


@dataclass(frozen=True)
class BenchModel:
    """A card, and the sizes of the random weights that stand in for its own."""

    card: str
    family: str
    extra: dict[str, Any]
    real: dict[str, Any]

    def save(self, folder: Path, *, real_size: bool) -> Path:
        """Write its checkpoint."""
        sizes = {**self.extra, **self.real} if real_size else {**SMALL, **self.extra}
        return save_random(self.family, sizes, folder)


MODELS = (
    BenchModel(
        "clip-b16",
        "clip",
        {"image_size": 224, "projection_dim": 256},
        {"patch_size": 16, "hidden_size": 768, "intermediate_size": 3072, "projection_dim": 512},
    ),
    BenchModel(
        "dinov2-b",
        "dinov2",
        {"image_size": 224, "mlp_ratio": 4},
        {"patch_size": 14, "hidden_size": 768, "image_size": 518},
    ),
)
