"""Saved models: safetensors, JSON and a card; list, load, predict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazily

if TYPE_CHECKING:
    from obygaze_models.zoo.info import Features as Features
    from obygaze_models.zoo.info import ModelInfo as ModelInfo
    from obygaze_models.zoo.info import Training as Training
    from obygaze_models.zoo.predicting import Predicted as Predicted
    from obygaze_models.zoo.predicting import predict as predict
    from obygaze_models.zoo.saving import SavedModel as SavedModel
    from obygaze_models.zoo.saving import load_model as load_model
    from obygaze_models.zoo.saving import save_model as save_model
    from obygaze_models.zoo.sharing import pull_model as pull_model
    from obygaze_models.zoo.sharing import push_model as push_model

_HOME = {
    "save_model": "saving",
    "load_model": "saving",
    "SavedModel": "saving",
    "ModelInfo": "info",
    "Features": "info",
    "Training": "info",
    "predict": "predicting",
    "Predicted": "predicting",
    "push_model": "sharing",
    "pull_model": "sharing",
}
__all__ = [*_HOME]
__getattr__, __dir__ = lazily(__name__, _HOME)
