"""Estimators: probes, concept vectors, concept bottlenecks, baselines.

Each estimator is a dataclass of its parameters, and follows scikit-learn: `fit`, `predict`,
`get_params`, `clone`, `Pipeline`, `GridSearchCV`. Its fitted attributes are plain arrays.

a fit        `fitting.fit(estimator, data)`; `data` is a `fold_data.FoldData`
by name      `registry.build`, for the model types of a protocol
probes       `mlp.MLPProbe`; `linear`; `frames.FrameProbe`
concepts     `concepts.CAV`, `examples.concept_targets`, `concept_report`
bottlenecks  `bottleneck.PCBM` with a head of `heads`
sentences    `sentences.ZeroShot`
baselines    `baselines`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_models.models.bottleneck import PCBM as PCBM
    from obygaze_models.models.bottleneck import ResidualHead as ResidualHead
    from obygaze_models.models.concepts import CAV as CAV
    from obygaze_models.models.frames import FrameProbe as FrameProbe
    from obygaze_models.models.heads import LogisticHead as LogisticHead
    from obygaze_models.models.heads import TreeHead as TreeHead
    from obygaze_models.models.linear import LogisticProbe as LogisticProbe
    from obygaze_models.models.linear import RidgeProbe as RidgeProbe
    from obygaze_models.models.linear import SVMProbe as SVMProbe
    from obygaze_models.models.mlp import MLPProbe as MLPProbe
    from obygaze_models.models.sentences import ZeroShot as ZeroShot
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
