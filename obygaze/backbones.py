"""List, check and download the models that make features."""

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_features.backbones.actions import check_backbone as check
    from obygaze_features.backbones.actions import fetch_weights as fetch
    from obygaze_features.backbones.actions import list_backbones as ls
    from obygaze_features.backbones.actions import show_backbone as show
else:
    __getattr__, __dir__, _ = lazy_exports(__name__)

__all__ = [
    "check",
    "fetch",
    "ls",
    "show",
]
