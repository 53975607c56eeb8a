"""Models of clips: estimators, experiments, reports, and saved models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_models.models.bottleneck import PCBM as PCBM
    from obygaze_models.models.concepts import CAV as CAV
    from obygaze_models.models.linear import LogisticProbe as LogisticProbe
    from obygaze_models.models.linear import RidgeProbe as RidgeProbe
    from obygaze_models.models.linear import SVMProbe as SVMProbe
    from obygaze_models.models.mlp import MLPProbe as MLPProbe
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
