"""Audits: tests of labels, features, maps and captions."""

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze.audits.annotations import audit_annotations as annotations
    from obygaze.audits.captions import audit_captions as captions
    from obygaze.audits.cooccurrence import audit_cooc as cooc
    from obygaze.audits.eat import audit_eat as eat
    from obygaze.audits.gender import audit_gender_score as gender_score
    from obygaze.audits.levels import audit_levels as levels
    from obygaze.audits.maps.conditions import compare_conditions as maps
    from obygaze.audits.mediaeval import audit_mediaeval as mediaeval
    from obygaze.audits.share import audit_share as share
    from obygaze_features.extraction.text import score_captions as caption_scores
else:
    __getattr__, __dir__, _ = lazy_exports(__name__)

__all__ = [
    "annotations",
    "caption_scores",
    "captions",
    "cooc",
    "eat",
    "gender_score",
    "levels",
    "maps",
    "mediaeval",
    "share",
]
