"""A saved model as a fitted pipeline of scikit-learn, which reads stores and arrays.

The commands read a model without scikit-learn (`saving.read_model`), whose import takes a second.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline

from obygaze_features.core.workspace import PathLike, is_url
from obygaze_features.store import Store
from obygaze_features.store.joining import open_store
from obygaze_models.models.preprocessing import steps_of
from obygaze_models.zoo.info import ModelInfo
from obygaze_models.zoo.predicting import features_for_model
from obygaze_models.zoo.saving import SavedModel, read_model
from obygaze_models.zoo.sharing import pull_model


class FeaturesOfModel(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Read the features of a model from a store; rows become float64, as in a run.

    A store whose recipe differs from that of the training features is refused. Clips without
    features have no row.
    """

    def __init__(
        self, saved: SavedModel | None = None, workspace: PathLike | None = None
    ) -> None:
        self.saved = saved
        self.workspace = workspace

    def fit(self, X: Any, y: Any = None) -> Self:
        """Return the reader; nothing is fitted."""
        return self

    def transform(self, X: Any) -> Any:
        """Return a row of features for each clip of a store, or the rows of X."""
        if isinstance(X, str | Path):
            X = open_store(X, workspace=self.workspace)
        if isinstance(X, Store) and self.saved is not None:
            X = features_for_model(self.saved, X, None).values
        return np.asarray(X, dtype=np.float64)

    def __sklearn_is_fitted__(self) -> bool:
        return True


class LoadedModel(Pipeline):  # type: ignore[misc]
    """A saved model: a fitted pipeline whose methods take a store or rows of features.

    The training clips are scored by the model that was trained on them: `og.predict` gives each of
    these clips the score of a fit without its film.
    """

    def __init__(
        self,
        steps: Any,
        *,
        saved: SavedModel | None = None,
        memory: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(steps, memory=memory, verbose=verbose)
        self.saved = saved

    @classmethod
    def of(cls, saved: SavedModel, workspace: PathLike | None = None) -> Self:
        """Return the pipeline of a saved model."""
        before, last = steps_of(saved.estimator)
        reader = FeaturesOfModel(saved, workspace)
        return cls([("features", reader), *before, ("model", last)], saved=saved)

    @property
    def info(self) -> ModelInfo:
        """The facts of the model: task, classes, features, training clips, metrics."""
        assert self.saved is not None
        return self.saved.info

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        if self.saved is None:
            return str(super().__repr__(N_CHAR_MAX))
        return repr(self.saved).replace("SavedModel", "LoadedModel", 1)


def load_model(model: PathLike, *, workspace: PathLike | None = None) -> LoadedModel:
    """Load a saved model as a fitted pipeline of scikit-learn; no code of the model is run.

    `.predict(X)` takes a store or rows of features, as do `predict_proba`, `decision_function` and
    `transform` of models that have them. The clips that trained the model are then in-sample:
    `og.predict` gives these clips the scores of fits without their films. Sizes and checksums are
    checked first.

    Args:
        model: The name of a model of the workspace, its folder, or an https://, s3:// or hf:// URL.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> kept = og.load_model("kept")
        >>> kept.info.task, kept.predict("mine").shape
        ('EN_S', (71,))
    """
    address = os.fspath(model)
    if not is_url(address):
        return LoadedModel.of(read_model(model, workspace=workspace), workspace)
    with TemporaryDirectory() as folder:
        pulled = pull_model(address, "pulled", workspace=folder)
    return LoadedModel.of(pulled, workspace)
