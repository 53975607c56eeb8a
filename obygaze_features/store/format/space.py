"""Which vectors may be compared: the space that a level of a store and texts share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from obygaze_features.core.errors import Mismatch
from obygaze_features.store.format.recipe import Recipe

# What each family's own contrastive head lays beside the text: nothing else was trained to be
# near or far from words.
JOINT_TAPS: Mapping[str, tuple[str, ...]] = {
    "clip": ("frame-vector", "frame-mean"),
    "siglip": ("frame-vector", "frame-mean"),
    "xclip": ("mit-mean",),
}


def space_id_of(checkpoint: str, revision: str, tensors_sha256: str) -> str:
    """The name of a space: the checkpoint and revision for people, the hash of all its tensors."""
    return f"{checkpoint or 'local'}@{revision or 'main'}#{tensors_sha256}"


def same_space(first: str, second: str) -> bool:
    """Whether two names mean one space: where both end in a hash of tensors, that decides."""
    hashes = [name.rpartition("#")[2] for name in (first, second) if "#" in name]
    return hashes[0] == hashes[1] if len(hashes) == 2 else first == second


def space_of_level(recipe: Recipe, level: str) -> str | None:
    """The space that the vectors of a level lie in; None where the recipe cannot tell.

    A level that its backbone never compares with text is an error: its cosines mean nothing.
    """
    whole = recipe.to_dict()
    backbone: Mapping[str, Any] = whole.get("backbone", {})
    tensors = whole.get("weights", {}).get("tensors")
    taps, family = backbone.get("levels"), backbone.get("family")
    if not isinstance(taps, dict) or not tensors or level not in taps:
        return None
    joint = [name for name, tap in taps.items() if tap in JOINT_TAPS.get(str(family), ())]
    if level not in joint:
        instead = f"--level {joint[0]}" if joint else "a store of CLIP, SigLIP or X-CLIP"
        raise Mismatch(
            f"{backbone.get('name')} never compares its level {level!r} with text",
            hint=instead,
        )
    return space_id_of(
        str(backbone.get("checkpoint", "")), str(backbone.get("revision", "")), str(tensors)
    )
