"""The paper's probe, a small perceptron on clip features, as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from obygaze_models.models.ground import FixTraining, Floats, Ints, draw_seed, encode_classes
from obygaze_models.models.mlp_many import Job, MLPFit, MLPSettings, fit_many
from obygaze_models.models.state import Savable


class MLPProbe(Savable, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A perceptron that stops early on validation rows: those given to `fit`, or some held out.

    Where many fits share features, `mlp_many.fit_many` trains them in one call, to the same bits.
    """

    fitted: ClassVar[tuple[str, ...]] = (
        *("classes_", "layers_", "train_loss_", "validation_loss_", "kept_epoch_"),
    )

    def __init__(
        self,
        hidden: Sequence[int] = (128,),
        *,
        min_epochs: int = 5,
        max_epochs: int = 100,
        patience: int = 5,
        batch_size: int = 16,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        dropout: float = 0.0,
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        keep: Literal["best", "last"] = "best",
        double_softmax: bool = False,
        validation_fraction: float = 0.1,
        random_state: Any = 0,
    ) -> None:
        self.hidden = hidden
        self.min_epochs = min_epochs
        self.max_epochs = max_epochs
        self.patience = patience
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.class_weight = class_weight
        self.keep = keep
        self.double_softmax = double_softmax
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def settings(self) -> MLPSettings:
        """The settings of the training, checked."""
        own = {
            name: getattr(self, name)
            for name in MLPSettings.__dataclass_fields__
            if name not in ("hidden", "class_weight")
        }
        weight: Any = self.class_weight
        if isinstance(weight, Mapping):
            weight = tuple(float(weight.get(name, 1)) for name in self.classes_)
        return MLPSettings(hidden=tuple(self.hidden), class_weight=weight, **own)

    def fit(self, X: Any, y: Any, validation: tuple[Any, Any] | None = None) -> MLPProbe:
        """Learn from the rows of X; `validation` is a pair (X, y) to stop on."""
        X, y = validate_data(self, X, y, ensure_min_samples=2)
        seed = draw_seed(self.random_state)
        self.classes_, codes = _classes(y)
        if validation is None:
            held = hold_out(codes, self.validation_fraction, seed)
            job = Job(np.flatnonzero(~held), codes, np.flatnonzero(held), seed)
        else:
            X, codes = self._append(X, codes, *validation)
            job = Job(np.arange(len(y)), codes, np.arange(len(y), len(X)), seed)
        (fit,) = fit_many(X, [job], self.settings())
        return self._adopt(fit)

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class for each row."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        fit = MLPFit(tuple(self.layers_), self.train_loss_, self.validation_loss_, self.kept_epoch_)
        return fit.probabilities(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        probabilities = self.predict_proba(X)
        chosen: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return chosen

    def adopt(self, fit: MLPFit, classes: Sequence[Any]) -> MLPProbe:
        """Take over a fit that `fit_many` made, whose class numbers stand for `classes`."""
        self.n_features_in_ = len(fit.layers[0]) - 1
        self.classes_ = np.asarray(classes)
        return self._adopt(fit)

    def _adopt(self, fit: MLPFit) -> MLPProbe:
        self.layers_ = list(fit.layers)
        self.train_loss_, self.validation_loss_ = fit.train_loss, fit.validation_loss
        self.kept_epoch_ = fit.kept_epoch
        return self

    def _append(
        self, X: NDArray[Any], codes: Ints, X_other: Any, y_other: Any
    ) -> tuple[NDArray[Any], Ints]:
        X_other, y_other = validate_data(self, X_other, y_other, reset=False)
        unknown = ~np.isin(y_other, self.classes_)
        if unknown.any():
            raise FixTraining(f"validation rows hold the unknown class '{y_other[unknown][0]}'")
        more = np.searchsorted(self.classes_, y_other)
        return np.concatenate([X, X_other]), np.concatenate([codes, more])


def hold_out(codes: Ints, fraction: float, seed: int) -> NDArray[np.bool_]:
    """Rows to stop on: of each class the same share, and never all rows of a class."""
    rng = np.random.default_rng([seed, 1])
    held = np.zeros(len(codes), dtype=bool)
    for code in np.unique(codes):
        rows = rng.permutation(np.flatnonzero(codes == code))
        held[rows[: min(round(fraction * len(rows)), len(rows) - 1)]] = True
    return held


def _classes(y: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    from sklearn.utils.multiclass import check_classification_targets

    check_classification_targets(y)
    return encode_classes(y)
