"""From a backbone and a target to the recipe, the arrays and the view of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from obygaze_features.backbones.base import Backbone, Card
from obygaze_features.backbones.geometry import Level
from obygaze_features.core.errors import FixUsage
from obygaze_features.extraction.plan import Target
from obygaze_features.store.format.recipe import Recipe
from obygaze_features.store.format.schema import TIME_ARRAYS, ArraySpec
from obygaze_features.video.decode import View
from obygaze_features.video.picture import conversion_sha256
from obygaze_features.video.sampling import Sampling

# The rule by which frames are found; a change that could give another frame raises it.
DECODER_RULE = 1
SPELLED = {
    "even": "int(i * total / T)",
    "fps": "each int(rate)-th frame, at most T by linspace, the rest masked",
    "keyframes": "the key frame nearest to int(i * total / T)",
}
HEAVY = ("tokens",)


def chosen_levels(backbone: Backbone, asked: Sequence[str]) -> dict[str, Level]:
    """The levels to store: those asked for, or all but the heaviest."""
    available = backbone.levels
    unknown = [name for name in asked if name not in available]
    if unknown:
        raise FixUsage(
            f"{backbone.card.label} has no level {', '.join(unknown)}",
            hint=f"--levels {','.join(available)}",
        )
    names = asked or [name for name in available if name not in HEAVY]
    return {name: available[name] for name in available if name in names}


def view_of(backbone: Backbone, target: Target) -> View:
    """The frames a backbone wants of each clip, at full size: pixels are made from them by it."""
    return View(count=backbone.geometry.frames, sampling=rule_of(backbone.card, target))


def rule_of(card: Card, target: Target) -> Sampling:
    """The rule by which a target's frames are chosen."""
    if target.sampling != "keyframes":
        return "fps" if card.input.sampling == "fps" else "even"
    if card.input.sampling == "fps":
        raise FixUsage(f"{card.label} samples by its own rule, not by key frames")
    return "keyframes"


def arrays_of(backbone: Backbone, levels: Mapping[str, Level]) -> list[ArraySpec]:
    """The arrays of the store: levels, the times of the frames, and which of them are real."""
    specs = [
        ArraySpec(name, level.shape, level.dims, level.dtype) for name, level in levels.items()
    ]
    n_frames = backbone.geometry.frames
    specs += [ArraySpec(name, (n_frames,), ("frame",), "float64") for name in TIME_ARRAYS]
    if backbone.takes_mask:
        specs.append(ArraySpec("mask", (n_frames,), ("frame",), "bool"))
    return specs


def recipe_of(backbone: Backbone, view: View, levels: Mapping[str, Level]) -> Recipe:
    """What decides the numbers of a store."""
    parts = {**backbone.recipe(), "levels": sorted(levels)}
    return Recipe.of(
        sampling={"rule": SPELLED[view.sampling], "frames": view.count},
        decoder={
            "name": "pyav",
            "rule": DECODER_RULE,
            "conversion_sha256": conversion_sha256(),
        },
        storage={name: level.dtype for name, level in sorted(levels.items())},
        **parts,
    )
