"""Maps of where in the picture and when in the clip a model finds a concept or a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze.audits.maps.concept_maps import (
        write_concept_maps as write_concept_maps,
    )
    from obygaze.audits.maps.conditions import compare_conditions as compare_conditions
    from obygaze.audits.maps.saliency import write_saliency as write_saliency

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
