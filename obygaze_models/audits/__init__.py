"""Exact instruments for bias: association tests, captions, gender score, MediaEval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_models.audits.association import Association as Association
    from obygaze_models.audits.association import embedding_association as embedding_association
    from obygaze_models.audits.association import single_category as single_category
    from obygaze_models.audits.captions import Caption as Caption
    from obygaze_models.audits.captions import contrasts as contrasts
    from obygaze_models.audits.captions import word_rates as word_rates
    from obygaze_models.audits.cooccurrence import Text as Text
    from obygaze_models.audits.cooccurrence import bias_amplification as bias_amplification
    from obygaze_models.audits.cooccurrence import count_pairs as count_pairs
    from obygaze_models.audits.eat import Side as Side
    from obygaze_models.audits.eat import audit_groups as audit_groups
    from obygaze_models.audits.eat import audit_items as audit_items
    from obygaze_models.audits.mediaeval import read_affect_run as read_affect_run
    from obygaze_models.audits.mediaeval import read_qrels as read_qrels
    from obygaze_models.audits.mediaeval import read_trec_run as read_trec_run
    from obygaze_models.audits.mediaeval import score_affect as score_affect
    from obygaze_models.audits.mediaeval import score_violence as score_violence
    from obygaze_models.audits.mediaeval import write_run_file as write_run_file
    from obygaze_models.audits.permutation import permutation_p as permutation_p
    from obygaze_models.audits.ranking import score_ranking as score_ranking

__getattr__, __dir__, __all__ = lazy_exports(__name__)
