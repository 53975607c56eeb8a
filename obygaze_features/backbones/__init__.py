"""Models of pictures, sound and words: a card for each checkpoint, an adapter for each family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_features.backbones.actions import check_backbone as check_backbone
    from obygaze_features.backbones.actions import fetch_weights as fetch_weights
    from obygaze_features.backbones.actions import list_backbones as list_backbones
    from obygaze_features.backbones.actions import load_backbone as load_backbone
    from obygaze_features.backbones.actions import show_backbone as show_backbone
    from obygaze_features.backbones.backbone import Backbone as Backbone
    from obygaze_features.backbones.backbone import TorchBackbone as TorchBackbone
    from obygaze_features.backbones.card import Card as Card
    from obygaze_features.backbones.card import Family as Family
    from obygaze_features.backbones.card import Preset as Preset
    from obygaze_features.backbones.cards import find_card as find_card
    from obygaze_features.backbones.cards import find_cards as find_cards
    from obygaze_features.backbones.geometry import Geometry as Geometry
    from obygaze_features.backbones.own import module_card as module_card
    from obygaze_features.backbones.placement import (
        Placement as Placement,
    )
    from obygaze_features.backbones.text import embed_prompts as embed_prompts
    from obygaze_features.backbones.text import load_text_tower as load_text_tower
    from obygaze_features.backbones.text import read_prompts as read_prompts
    from obygaze_features.backbones.weights import find_weights as find_weights
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
