"""Metrics with intervals over films, tests that compare models, and counts of leaked clips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_models.evaluation.bootstrap import Estimate as Estimate
    from obygaze_models.evaluation.bootstrap import estimate as estimate
    from obygaze_models.evaluation.error_analysis import (
        analyse_success as analyse_success,
    )
    from obygaze_models.evaluation.group_tests import GroupTest as GroupTest
    from obygaze_models.evaluation.leakage import check_leaks as check_leaks
    from obygaze_models.evaluation.logistic import fit_logistic as fit_logistic
    from obygaze_models.evaluation.metrics import evaluate as evaluate
    from obygaze_models.evaluation.permutation import holm as holm
    from obygaze_models.evaluation.permutation import permutation_p as permutation_p
    from obygaze_models.evaluation.predictions import Predictions as Predictions
    from obygaze_models.evaluation.predictions import tune_threshold as tune_threshold
    from obygaze_models.evaluation.sign_flips import sign_flip_p as sign_flip_p
else:
    _EXPORTS = {
        "obygaze_models.evaluation.bootstrap": ("Estimate", "estimate"),
        "obygaze_models.evaluation.error_analysis": ("analyse_success",),
        "obygaze_models.evaluation.group_tests": ("GroupTest",),
        "obygaze_models.evaluation.leakage": ("check_leaks",),
        "obygaze_models.evaluation.logistic": ("fit_logistic",),
        "obygaze_models.evaluation.metrics": ("evaluate",),
        "obygaze_models.evaluation.permutation": ("holm", "permutation_p"),
        "obygaze_models.evaluation.predictions": ("Predictions", "tune_threshold"),
        "obygaze_models.evaluation.sign_flips": ("sign_flip_p",),
    }
    __getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)
