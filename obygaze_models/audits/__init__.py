"""Audits of bias: association tests, captions, co-occurrence, gender score, MediaEval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_models.audits.annotations import audit_annotations as audit_annotations
    from obygaze_models.audits.captions import audit_captions as audit_captions
    from obygaze_models.audits.cooccurrence import audit_cooc as audit_cooc
    from obygaze_models.audits.cooccurrence import (
        bias_amplification as bias_amplification,
    )
    from obygaze_models.audits.eat import audit_eat as audit_eat
    from obygaze_models.audits.gender import audit_gender_score as audit_gender_score
    from obygaze_models.audits.gender import gender_score as gender_score
    from obygaze_models.audits.group_tests import GroupTest as GroupTest
    from obygaze_models.audits.mediaeval import audit_mediaeval as audit_mediaeval
    from obygaze_models.audits.mediaeval_runs import read_affect_run as read_affect_run
    from obygaze_models.audits.mediaeval_runs import read_qrels as read_qrels
    from obygaze_models.audits.mediaeval_runs import read_trec_run as read_trec_run
    from obygaze_models.audits.mediaeval_runs import score_affect as score_affect
    from obygaze_models.audits.mediaeval_runs import score_ranking as score_ranking
    from obygaze_models.audits.mediaeval_runs import write_run_file as write_run_file
    from obygaze_models.audits.permutation import permutation_p as permutation_p
    from obygaze_models.audits.pixels import audit_pixels as audit_pixels
    from obygaze_models.audits.result import Audit as Audit
else:
    _EXPORTS = {
        "obygaze_models.audits.annotations": ("audit_annotations",),
        "obygaze_models.audits.captions": ("audit_captions",),
        "obygaze_models.audits.cooccurrence": ("audit_cooc", "bias_amplification"),
        "obygaze_models.audits.eat": ("audit_eat",),
        "obygaze_models.audits.gender": ("audit_gender_score", "gender_score"),
        "obygaze_models.audits.group_tests": ("GroupTest",),
        "obygaze_models.audits.mediaeval": ("audit_mediaeval",),
        "obygaze_models.audits.mediaeval_runs": (
            "read_affect_run",
            "read_qrels",
            "read_trec_run",
            "score_affect",
            "score_ranking",
            "write_run_file",
        ),
        "obygaze_models.audits.permutation": ("permutation_p",),
        "obygaze_models.audits.pixels": ("audit_pixels",),
        "obygaze_models.audits.result": ("Audit",),
    }
    __getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)
