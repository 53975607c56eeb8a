"""What each preset of a card reproduces, and how its pixels differ from the hub processor's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from obygaze_features.backbones.cards import DEFAULT_PRESET, Card, Preset
from obygaze_features.backbones.pixels import Pixels
from obygaze_features.backbones.registry import find_card
from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.workspace import Workspace

HUB, PAPER = "hub", "paper"
_NAMES = {HUB: "the hub's processor", PAPER: "the paper's extraction"}
_HOW = {PAPER: "as the paper's extraction does", "training": "as in the network's training"}
_RANGE = ("rescale", "mean", "std")
_PIXELS = (*_RANGE, "resize", "filter", "edge", "crop_offset", "squash_first")


def hub_preset(card: Card) -> str:
    """The preset that reproduces the hub's processor: the one that says so, else the default."""
    return _that_reproduces(card, HUB) or DEFAULT_PRESET


def preset_note(card: Card) -> str:
    """One sentence on how the chosen preset differs from the hub's processor, or nothing."""
    hub = card.presets[hub_preset(card)]
    differences = _differences(card.input, hub)
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
    """The same sentence for a store's recipe, where its card is still what the recipe says."""
    backbone = recipe.get("backbone") or {}
    preset = backbone.get("preset") or DEFAULT_PRESET
    try:
        card = find_card(f"{backbone.get('name')}@{preset}", workspace)
    except ObygazeError:
        return ""
    return preset_note(card) if card.sha256 == backbone.get("card_sha256") else ""


def _that_reproduces(card: Card, what: str) -> str:
    names = [name for name, preset in card.presets.items() if preset.reproduces == what]
    return names[0] if names else ""


def _differences(ours: Preset, hub: Preset) -> list[str]:
    """The settings that decide pixels and differ, each as ours and the hub's."""
    keys = [key for key in _PIXELS if getattr(ours, key) != getattr(hub, key)]
    told = [f"{key} {_plain(ours, key)}, not {_plain(hub, key)}" for key in keys]
    if set(keys) & set(_RANGE):
        told.append(f"values in {_range(ours)}, not {_range(hub)}")
    return told


def _plain(preset: Preset, key: str) -> Any:
    value = preset.as_dict()[key]
    return value or "none"


def _range(preset: Preset) -> str:
    """The least and the greatest value the network can get."""
    table = Pixels(preset, 1, 1).table
    return f"{_short(float(table.min()))}..{_short(float(table.max()))}"


def _short(value: float) -> str:
    return f"{round(value, 2):g}"
