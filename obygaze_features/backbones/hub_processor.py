"""How the pixels of a card's presets compare with those of the checkpoint's own image processor."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.base import DEFAULT_PRESET, Card, Preset
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.hub import WeightFiles
from obygaze_features.backbones.pixels import Preprocessor
from obygaze_features.backbones.pretrained import library, silenced
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.workspace import Workspace

HUB, PAPER = "hub", "paper"
_NAMES = {HUB: "the hub's processor", PAPER: "the paper's extraction"}
_HOW = {PAPER: "as the paper's extraction does", "training": "as in the network's training"}
_RANGE = ("rescale", "mean", "std")
_PIXELS = (*_RANGE, "resize", "filter", "edge", "crop_offset", "squash_first")
# The kinds that have a form without torchvision and give one picture of pixels for each frame.
_KINDS = ("VideoMAE", "Vivit", "CLIP", "Siglip", "Bit")


def hub_preset(card: Card) -> str:
    """Return the preset that reproduces the hub's processor, else the default."""
    return _that_reproduces(card, HUB) or DEFAULT_PRESET


def preset_note(card: Card) -> str:
    """Return one sentence on how the chosen preset differs from the hub's processor, or ''."""
    differences = _differences(card.input, card.presets[hub_preset(card)])
    if not differences:
        return ""
    how = _HOW.get(card.input.reproduces, "in its own way")
    presets = {HUB: hub_preset(card), PAPER: _that_reproduces(card, PAPER)}
    others = [
        f"{card.with_preset(name).label} reproduces {_NAMES[what]}"
        for what, name in presets.items()
        if name not in ("", card.preset)
    ]
    return (
        f"{card.label} prepares pixels {how}, not as the hub's processor does"
        f" ({'; '.join(differences)}); {' and '.join(others)}."
    )


def recipe_note(recipe: Mapping[str, Any], workspace: Workspace) -> str:
    """Return the same sentence for a store's recipe, if its card has not changed since."""
    backbone = recipe.get("backbone") or {}
    preset = backbone.get("preset") or DEFAULT_PRESET
    # A name with a colon would run code, which must never come from a store.
    if backbone.get("code") or ":" in str(backbone.get("name")):
        return ""
    try:
        card = find_card(f"{backbone.get('name')}@{preset}", workspace)
    except ObygazeError:
        return ""
    return preset_note(card) if card.sha256 == backbone.get("card_sha256") else ""


def _that_reproduces(card: Card, what: str) -> str:
    return next((name for name, own in card.presets.items() if own.reproduces == what), "")


def _differences(ours: Preset, hub: Preset) -> list[str]:
    """Return the settings that change pixels and differ, each with our value and the hub's."""
    mine, theirs = ours.to_json(), hub.to_json()
    keys = [key for key in _PIXELS if mine[key] != theirs[key]]
    found = [f"{key} {mine[key] or 'none'}, not {theirs[key] or 'none'}" for key in keys]
    if set(keys) & set(_RANGE):
        found.append(f"values in {_range(ours)}, not {_range(hub)}")
    return found


def _range(preset: Preset) -> str:
    """Return the smallest and the largest value of a pixel."""
    table = Preprocessor.of(preset, 1).table
    return f"{round(float(table.min()), 2):g}..{round(float(table.max()), 2):g}"


def own_processor(
    files: WeightFiles, kind: str
) -> Callable[[npt.NDArray[np.uint8]], npt.NDArray[np.float32]] | None:
    """Return the processor beside the weights, from frames [T, H, W, 3] to pixels [T, 3, S, S].

    None where its `kind` has no form without torchvision: those that resize with torchvision alone
    differ by version, which is why pixels are our own.
    """
    if re.sub("(ImageProcessor|FeatureExtractor)(Fast)?$", "", kind) not in _KINDS:
        return None
    auto = library("models.auto.image_processing_auto").AutoImageProcessor
    with silenced():
        processor = auto.from_pretrained(files.folder, use_fast=False, local_files_only=True)

    def run(frames: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        pixels = np.asarray(processor(list(frames), return_tensors="np")["pixel_values"])
        return pixels.reshape(-1, *pixels.shape[-3:]).astype(np.float32)

    return run


def compare_pixels(
    ours: npt.NDArray[np.float32], theirs: npt.NDArray[np.float32], preset: Preset
) -> tuple[bool, str]:
    """Return whether pixels differ by a grey level at most, and by how much they differ."""
    if np.array_equal(ours, theirs):
        return True, "the same bits"
    difference = np.abs(ours - theirs)
    std = np.array(preset.std, dtype=np.float64)[None, :, None, None]
    levels = float((difference * std).max() * (127.5 if preset.rescale == "1/127.5-1" else 255.0))
    if levels <= 1.01:
        return True, f"at most {levels:.2f} grey levels"
    return False, f"pixels differ by up to {float(difference.max()):.2f}"
