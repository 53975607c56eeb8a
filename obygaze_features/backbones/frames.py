"""The pictures of clips as features.

From a store of these pictures, other backbones compute their features without the films.
"""

from collections.abc import Collection
from typing import Any

import numpy as np

from obygaze_features.backbones.backbone import PictureBackbone
from obygaze_features.backbones.card import (
    DEFAULT_PRESET,
    Card,
    ComputedFamily,
    require_pictures,
)
from obygaze_features.backbones.geometry import FeatureArray, Geometry
from obygaze_features.store.layout import PICTURES

_DIMS = ("frame", "height", "width", "colour")


class FramesFamily(ComputedFamily):
    """The family of a card whose only array is the pictures of another card."""

    def arrays(self, card: Card) -> dict[str, FeatureArray]:
        """Return the array of the pictures."""
        shape = (card.geometry.frames, *card.geometry.frame_shape, 3)
        return {
            PICTURES: FeatureArray(PICTURES, PICTURES, _DIMS, shape, kept_as="uint8")
        }


class Frames(PictureBackbone):
    """The backbone that returns the pictures themselves."""

    def normalise(self, pictures: Any) -> Any:
        """Return the pictures."""
        return np.asarray(pictures)

    def forward(
        self, pixels: Any, mask: Any = None, only: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Return the pictures [B, T, height, width, 3] as the only array."""
        return self.outputs(pixels, mask)

    def outputs(self, pixels: Any, mask: Any) -> dict[str, Any]:
        """Return the pictures."""
        return {PICTURES: pixels}

    def preprocessing(self) -> dict[str, Any]:
        """Return the resizing of the pictures."""
        return self.resize.recipe()

    def recipe(self) -> dict[str, Any]:
        """Return the settings that change the pictures; the model does not change them."""
        changed = {"backbone": {"name": self.card.name}, "compute": {"dtype": "uint8"}}
        return {**changed, "weights": {}, "preprocessing": self.preprocessing()}


def frames_card(card: Card) -> Card:
    """Return the card of the input pictures of a card, such as frames-32x224."""
    require_pictures(card, "frames:NAME is")
    resize = card.family.resize(card)
    height, width = resize.shape(1, 1)
    size = str(height) if height == width else f"{height}x{width}"
    count = card.geometry.frames
    words = [f"frames-{count}x{size}", resize.filter]
    if resize.edge not in (0, height):
        words.append(f"edge{resize.edge}")
    if resize.fit == "squash":
        words.append("squash")
    if resize.crop_offset == "round":
        words.append("round")
    if resize.squash_first:
        words.append(f"opencv{resize.squash_first}")
    if card.input.sampling != "even":
        words.append(card.input.sampling)
    family = FramesFamily(
        "frames",
        "uint8",
        outputs={},
        make=Frames,
        # Two copies of the pictures.
        frame_bytes=2 * 3 * height * width,
        resized=resize,
        # With a frame rate, short clips have fewer frames.
        takes_mask=card.input.sampling == "fps",
    )
    return Card(
        "-".join(words),
        family,
        f"the pictures of {card.label}",
        "as the videos",
        Geometry(count, min(height, width), shape=card.geometry.shape),
        {PICTURES: PICTURES},
        {DEFAULT_PRESET: card.input},
    )
