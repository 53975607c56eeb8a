"""Saved models: save, load, share, and predict with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_models.zoo.info import FeatureSpec as FeatureSpec
    from obygaze_models.zoo.info import ModelInfo as ModelInfo
    from obygaze_models.zoo.info import TrainingClips as TrainingClips
    from obygaze_models.zoo.info import TrainingData as TrainingData
    from obygaze_models.zoo.pipeline import LoadedModel as LoadedModel
    from obygaze_models.zoo.pipeline import load_model as load_model
    from obygaze_models.zoo.predicting import Predicted as Predicted
    from obygaze_models.zoo.predicting import predict as predict
    from obygaze_models.zoo.saving import SavedModel as SavedModel
    from obygaze_models.zoo.saving import read_model as read_model
    from obygaze_models.zoo.saving import save_model as save_model
    from obygaze_models.zoo.sharing import pull_model as pull_model
    from obygaze_models.zoo.sharing import push_model as push_model
    from obygaze_models.zoo.sharing import show_model as show_model
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
