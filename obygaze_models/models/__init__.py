"""Estimators: probes, concept vectors, concept bottlenecks, baselines.

Each is a scikit-learn estimator whose fitted attributes are plain arrays.

probes       `mlp.MLPProbe`, `mlp.fit_many` for many at once; `linear`; `frames.FrameProbe`
concepts     `concepts.ConceptBank`, `concepts.concept_targets`, `concept_report`
bottlenecks  `bottleneck.Bottleneck` with a head of `heads`
baselines    `baselines`
by name      `registry.build`, for the kinds that a protocol names
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_models.models.baselines import AllPositive as AllPositive
    from obygaze_models.models.baselines import FilmPrior as FilmPrior
    from obygaze_models.models.baselines import Neighbour as Neighbour
    from obygaze_models.models.baselines import Prevalence as Prevalence
    from obygaze_models.models.baselines import RandomBaseline as RandomBaseline
    from obygaze_models.models.baselines import film_and_scene as film_and_scene
    from obygaze_models.models.baselines import oracle as oracle
    from obygaze_models.models.bottleneck import Bottleneck as Bottleneck
    from obygaze_models.models.bottleneck import ResidualHead as ResidualHead
    from obygaze_models.models.concept_report import concept_quality as concept_quality
    from obygaze_models.models.concepts import ConceptBank as ConceptBank
    from obygaze_models.models.concepts import (
        cross_fitted_margins as cross_fitted_margins,
    )
    from obygaze_models.models.frames import FrameProbe as FrameProbe
    from obygaze_models.models.heads import LinearHead as LinearHead
    from obygaze_models.models.heads import LogisticHead as LogisticHead
    from obygaze_models.models.heads import TreeHead as TreeHead
    from obygaze_models.models.kept import KeptEstimator as KeptEstimator
    from obygaze_models.models.linear import LinearProbe as LinearProbe
    from obygaze_models.models.linear import LogisticProbe as LogisticProbe
    from obygaze_models.models.linear import RidgeProbe as RidgeProbe
    from obygaze_models.models.linear import SVMProbe as SVMProbe
    from obygaze_models.models.mlp import Job as Job
    from obygaze_models.models.mlp import MLPProbe as MLPProbe
    from obygaze_models.models.mlp import fit_many as fit_many
    from obygaze_models.models.own import OwnClassifier as OwnClassifier
else:
    _EXPORTS = {
        "obygaze_models.models.baselines": (
            "AllPositive",
            "FilmPrior",
            "Neighbour",
            "Prevalence",
            "RandomBaseline",
            "oracle",
            "film_and_scene",
        ),
        "obygaze_models.models.bottleneck": (
            "Bottleneck",
            "ResidualHead",
        ),
        "obygaze_models.models.concept_report": ("concept_quality",),
        "obygaze_models.models.concepts": ("ConceptBank", "cross_fitted_margins"),
        "obygaze_models.models.frames": ("FrameProbe",),
        "obygaze_models.models.heads": (
            "LinearHead",
            "LogisticHead",
            "TreeHead",
        ),
        "obygaze_models.models.kept": ("KeptEstimator",),
        "obygaze_models.models.linear": (
            "LinearProbe",
            "LogisticProbe",
            "RidgeProbe",
            "SVMProbe",
        ),
        "obygaze_models.models.mlp": ("Job", "MLPProbe", "fit_many"),
        "obygaze_models.models.own": ("OwnClassifier",),
    }
    __getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)
