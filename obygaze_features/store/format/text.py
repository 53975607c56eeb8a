"""Texts that go with a store, and the space that they share with a level of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.store.format.recipe import Recipe

# What the contrastive head of each family compares with text. Its other levels were never trained
# for that.
JOINT_TAPS: Mapping[str, tuple[str, ...]] = {
    "clip": ("frame-vector", "frame-mean"),
    "siglip": ("frame-vector", "frame-mean"),
    "xclip": ("mit-mean",),
}
WORDS = ("prompt", "template", "attribute")
TEXT_FOLDER = "data.zarr/text"


@dataclass(frozen=True)
class TextTable:
    """Texts and their embeddings, one row each, as the model gave them: not normalised.

    `space_id` names the space that the embeddings share with an array of the store.
    """

    embeddings: npt.NDArray[np.float32]
    prompt: Sequence[str]
    template: Sequence[str]
    attribute: Sequence[str]
    space_id: str

    def __post_init__(self) -> None:
        values = np.ascontiguousarray(self.embeddings, dtype=np.float32)
        object.__setattr__(self, "embeddings", values)
        lengths = {len(values), *(len(getattr(self, name)) for name in WORDS)}
        if values.ndim != 2 or not values.size or len(lengths) != 1:
            raise FixInput("each row must have an embedding, a prompt, a template, an attribute")
        wrong = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(wrong):
            raise FixInput(f"the embedding of row {wrong[0]} contains NaN or infinity")


def space_id_of(checkpoint: str, revision: str, tensors_sha256: str) -> str:
    """Return the name of a space: checkpoint, revision, and the hash of all its tensors."""
    return f"{checkpoint or 'local'}@{revision or 'main'}#{tensors_sha256}"


def same_space(first: str, second: str) -> bool:
    """Return whether two names mean one space: if both end in a hash of tensors, by the hashes."""
    hashes = [name.rpartition("#")[2] for name in (first, second) if "#" in name]
    return hashes[0] == hashes[1] if len(hashes) == 2 else first == second


def space_of_level(recipe: Recipe, level: str) -> str | None:
    """Return the space of the vectors of a level; None where the recipe does not determine it.

    A level that its backbone never compares with text is an error: its cosines mean nothing.
    """
    whole = recipe.to_json()
    backbone: Mapping[str, Any] = whole.get("backbone", {})
    tensors = whole.get("weights", {}).get("tensors")
    taps, family = backbone.get("levels"), backbone.get("family")
    if not isinstance(taps, dict) or not tensors or level not in taps:
        return None
    joint = [name for name, tap in taps.items() if tap in JOINT_TAPS.get(str(family), ())]
    if level not in joint:
        instead = f"--level {joint[0]}" if joint else "a store of CLIP, SigLIP or X-CLIP"
        raise Mismatch(
            f"{backbone.get('name')} never compares its level {level!r} with text", hint=instead
        )
    return space_id_of(
        str(backbone.get("checkpoint", "")), str(backbone.get("revision", "")), str(tensors)
    )
