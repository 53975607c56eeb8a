"""Checkpoints with random weights, for where none is at hand: the real classes and real files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from obygaze_features.backbones.families import FAMILIES
from obygaze_features.backbones.library import library, silenced
from obygaze_features.core.extras import need


def save_random(family: str, sizes: Mapping[str, Any], folder: Path, seed: int = 0) -> Path:
    """Write a checkpoint of a family as the hub holds one; `sizes` go into its configuration."""
    torch = need("torch", "extract", "making random weights")
    adapter = FAMILIES[family]
    kind = getattr(library(adapter.module), adapter.model)
    folder.mkdir(parents=True, exist_ok=True)
    with silenced(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        kind(kind.config_class(**sizes), **adapter.options).save_pretrained(folder)
    return folder
