"""Agreement of annotators; audits of bias, of captions, of shares, and of MediaEval runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze.audits.agreement import agree as agree
    from obygaze.audits.annotations import audit_annotations as audit_annotations
    from obygaze.audits.captions import audit_captions as audit_captions
    from obygaze.audits.cooccurrence import audit_cooc as audit_cooc
    from obygaze.audits.eat import audit_eat as audit_eat
    from obygaze.audits.gender import audit_gender_score as audit_gender_score
    from obygaze.audits.levels import audit_levels as audit_levels
    from obygaze.audits.mediaeval import audit_mediaeval as audit_mediaeval
    from obygaze.audits.result import Audit as Audit
    from obygaze.audits.share import audit_share as audit_share

if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
