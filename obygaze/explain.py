"""Maps of where and when a model sees a concept."""

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze.audits.maps.concept_maps import write_concept_maps as concepts
    from obygaze.audits.maps.saliency import write_saliency as model
else:
    __getattr__, __dir__, _ = lazy_exports(__name__)

__all__ = [
    "concepts",
    "model",
]
