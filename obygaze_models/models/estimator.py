"""The base classes of the estimators: fitted attributes as arrays, and checked input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from obygaze_features.core.errors import Corrupt
from obygaze_models.models.common import (
    FixTraining,
    Floats,
    Ints,
    balanced_weights,
    encode_classes,
    one_thread,
)

Arrays = dict[str, NDArray[Any]]
ClassWeight = Literal["balanced"] | Mapping[Any, float] | None
MAX_REPR = 120
_TEXT = "#text"


class Savable(BaseEstimator):  # type: ignore[misc]
    """An estimator that names its fitted attributes, so that they can be written as arrays."""

    fitted: ClassVar[tuple[str, ...]] = ()

    def __repr__(self, N_CHAR_MAX: int = MAX_REPR) -> str:
        """Return the class and the parameters that are not defaults, on one line."""
        line = " ".join(super().__repr__(N_CHAR_MAX).split())
        return line if len(line) <= MAX_REPR else f"{line[: MAX_REPR - 4]}...)"

    def to_arrays(self) -> Arrays:
        """Return every fitted attribute as numeric arrays; nested names are joined with '/'."""
        arrays: Arrays = {}
        for name in ("n_features_in_", *self.fitted):
            _put(arrays, name, getattr(self, name))
        return arrays

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Set the fitted attributes of this (unfitted) estimator from its arrays."""
        for name in ("n_features_in_", *self.fitted):
            setattr(self, name, self._take(arrays, name))

    def part(self, name: str) -> Any:
        """Return the unfitted estimator that is the parameter `name`."""
        return getattr(self, name, None)

    def _take(self, arrays: Mapping[str, NDArray[Any]], name: str) -> Any:
        if name in arrays:
            value = arrays[name]
            return value.item() if value.ndim == 0 else value
        if name + _TEXT in arrays:
            return _text(arrays[name + _TEXT])
        inside = {
            key.removeprefix(f"{name}/"): value
            for key, value in arrays.items()
            if key.startswith(f"{name}/")
        }
        if not inside:
            raise Corrupt(f"the saved {type(self).__name__} has no array {name!r}")
        part = self.part(name.removesuffix("_"))
        if isinstance(part, Savable):
            fresh = clone(part)
            fresh.from_arrays(inside)
            return fresh
        try:
            return [inside[str(i)] for i in range(len(inside))]
        except KeyError as error:
            raise Corrupt(f"the saved list {name!r} has no item {error}") from error


class Classifier(ClassifierMixin, Savable):  # type: ignore[misc]
    """A classifier whose `_fit` gets checked rows, class numbers, and the film of each row.

    `two_classes` is for one that separates exactly two classes.
    """

    two_classes: ClassVar[bool] = False
    min_features: ClassVar[int] = 1

    classes_: NDArray[Any]

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit on the rows of X and return the estimator.

        Args:
            X: One row of numbers for each clip.
            y: The class of each row.
            groups: The film of each row, for an estimator that validates on whole films.
        """
        X, y = validate_data(
            *(self, X, y),
            dtype=np.float64,
            ensure_min_samples=2,
            ensure_min_features=self.min_features,
        )
        check_classification_targets(y)
        self.classes_, codes = encode_classes(y)
        if self.two_classes and len(self.classes_) > 2:
            only = f"Only binary classification is supported by {type(self).__name__}"
            raise FixTraining(f"{only}, got {len(self.classes_)} classes")
        with one_thread():
            self._fit(X, codes, None if groups is None else np.asarray(groups))
        return self

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        raise NotImplementedError

    def _weights(self, codes: Ints, weight: ClassWeight) -> Floats | None:
        """Return the weight of each row, which is that of its class."""
        if weight is None:
            return None
        if isinstance(weight, Mapping):
            return np.array([float(weight.get(name, 1)) for name in self.classes_])[codes]
        return balanced_weights(codes, len(self.classes_))[codes]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row; a tie is the earlier class."""
        codes = self.predict_proba(X).argmax(axis=1)
        chosen: NDArray[Any] = self.classes_[codes]
        return chosen

    def _check(self, X: Any) -> Floats:
        """Return the rows as float64, if the estimator is fitted on rows of this width."""
        check_is_fitted(self)
        rows: Floats = validate_data(self, X, dtype=np.float64, reset=False)
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not self.two_classes
        return tags


def _put(arrays: Arrays, name: str, value: Any) -> None:
    if isinstance(value, Savable):
        arrays.update({f"{name}/{key}": item for key, item in value.to_arrays().items()})
    elif isinstance(value, list | tuple):
        arrays.update({f"{name}/{i}": np.asarray(item) for i, item in enumerate(value)})
    else:
        array = np.asarray(value)
        is_text = array.dtype.kind in "UO"
        arrays[name + _TEXT if is_text else name] = _code_points(array) if is_text else array


def _code_points(text: NDArray[Any]) -> NDArray[np.uint32]:
    text = np.ascontiguousarray(text, dtype=np.str_)
    return text.view(np.uint32).reshape(*text.shape, text.dtype.itemsize // 4)


def _text(points: NDArray[Any]) -> NDArray[np.str_]:
    if points.ndim != 2 or points.dtype != np.uint32 or (points > 0x10FFFF).any():
        raise Corrupt("a saved text array must be rows of Unicode code points (uint32)")
    width = max(points.shape[1], 1)
    return np.ascontiguousarray(points).view(f"<U{width}").reshape(len(points))
