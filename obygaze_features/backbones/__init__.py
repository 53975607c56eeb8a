"""Video and image models as data: one card for a checkpoint, one small adapter for a family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_features.backbones.base import Backbone as Backbone
    from obygaze_features.backbones.base import Card as Card
    from obygaze_features.backbones.base import Family as Family
    from obygaze_features.backbones.base import Placement as Placement
    from obygaze_features.backbones.base import Preset as Preset
    from obygaze_features.backbones.cards import find_card as find_card
    from obygaze_features.backbones.cards import find_cards as find_cards
    from obygaze_features.backbones.check import check_backbone as check_backbone
    from obygaze_features.backbones.geometry import Geometry as Geometry
    from obygaze_features.backbones.hub import find_weights as find_weights
    from obygaze_features.backbones.load import load_backbone as load_backbone
    from obygaze_features.backbones.own import module_card as module_card
    from obygaze_features.backbones.text import embed_prompts as embed_prompts
    from obygaze_features.backbones.text import load_text_tower as load_text_tower
    from obygaze_features.backbones.text import read_prompts as read_prompts
    from obygaze_features.backbones.torch_backbone import TorchBackbone as TorchBackbone

__getattr__, __dir__, __all__ = lazy_exports(__name__)
