"""Random checkpoints for the bench: real classes and real files, of a size the machine bears."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obygaze_features.core.extras import need

# Six layers of width 384 on 32-pixel patches: a few tenths of a second a clip on one core.
SMALL: dict[str, Any] = {
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "patch_size": 32,
}


@dataclass(frozen=True)
class RandomModel:
    """A card, and the classes whose random weights stand in for its own."""

    card: str
    module: str
    config: str
    model: str
    extra: dict[str, Any]
    real: dict[str, Any]


MODELS = (
    RandomModel(
        "clip-b16",
        "clip",
        "CLIPVisionConfig",
        "CLIPVisionModelWithProjection",
        {"image_size": 224, "projection_dim": 256},
        {"patch_size": 16, "hidden_size": 768, "intermediate_size": 3072, "projection_dim": 512},
    ),
    RandomModel(
        "dinov2-b",
        "dinov2",
        "Dinov2Config",
        "Dinov2Model",
        {"image_size": 224, "mlp_ratio": 4},
        {"patch_size": 14, "hidden_size": 768, "image_size": 518},
    ),
)


def save_random(model: RandomModel, folder: Path, *, real_size: bool) -> Path:
    """Write a checkpoint with random weights, as the hub holds them."""
    torch = need("torch", "extract", "the extraction bench")
    root = f"transformers.models.{model.module}"
    need("transformers", "extract", "the extraction bench")
    configuration = importlib.import_module(f"{root}.configuration_{model.module}")
    modeling = importlib.import_module(f"{root}.modeling_{model.module}")
    torch.manual_seed(0)
    sizes = {**model.extra, **model.real} if real_size else {**SMALL, **model.extra}
    config = getattr(configuration, model.config)(**sizes)
    folder.mkdir(parents=True, exist_ok=True)
    getattr(modeling, model.model)(config).save_pretrained(folder)
    return folder
