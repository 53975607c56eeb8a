"""Models of words: sentence encoders, whose vector of a text is the mean over its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from obygaze_features.backbones.card import Card, reads_words
from obygaze_features.backbones.geometry import Depth, Geometry
from obygaze_features.backbones.pretrained import PretrainedFamily, Text
from obygaze_features.store.recipe import TEXT

if TYPE_CHECKING:
    from torch import Tensor

    from obygaze_features.backbones.backbone import Backbone, Placement
    from obygaze_features.backbones.weights import WeightFiles


class WordsFamily(PretrainedFamily):
    """A family of encoders of text of the transformers library."""

    def __init__(self, name: str, class_name: str, unused_positions: int = 0) -> None:
        super().__init__(
            name,
            class_name,
            outputs={TEXT: "out"},
            medium="words",
            geometry=_geometry,
            run=_run,
            options={"add_pooling_layer": False},
            text=Text(class_name, _mean, unused_positions=unused_positions),
        )

    def load(self, card: Card, files: WeightFiles, placement: Placement) -> Backbone:
        """Raise an error: `backbones.text` loads these models, which see no clip."""
        raise reads_words(card)


def _geometry(config: Any, card: Geometry) -> Geometry:
    heads = config.num_attention_heads
    depth = Depth(config.num_hidden_layers, config.intermediate_size, heads, patch=1)
    width = config.hidden_size
    return Geometry(0, 0, width=width, out=width, depth=depth)


def _run(*_: Any) -> dict[str, Tensor]:
    return {}


def _mean(model: Any, tokens: Any) -> Tensor:
    """Return the mean over the tokens of each text; padding does not count."""
    mask = tokens["attention_mask"][:, :, None]
    vectors: Tensor = model(**tokens).last_hidden_state * mask
    mean: Tensor = vectors.sum(dim=1) / mask.sum(dim=1)
    return mean
