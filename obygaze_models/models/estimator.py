"""Base classes of the estimators: input checks, and a fitted state of plain arrays.

An estimator is a dataclass of its parameters. A fitted estimator is saved as numeric arrays (text
as code points) and a JSON description with its class and parameters. Loading runs no saved code:
only classes of the registry are built. Predicting does not need scikit-learn, which takes a second
to import.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import fields
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_models.models.common import (
    FixTraining,
    Floats,
    Ints,
    balanced_weights,
    encode_classes,
    one_thread,
)
from obygaze_models.models.fold_data import FoldData
from obygaze_models.models.fold_estimator import FoldEstimator
from obygaze_models.models.registry import CLASSES, estimator_class

StateArrays = dict[str, NDArray[Any]]
Description = dict[str, Any]
ClassWeight = Literal["balanced"] | None
MAX_FEATURES = 1_000_000
OUTPUTS = (
    "predict_proba",
    "decision_function",
    "margins",
    "contributions",
    "transform",
)
_TEXT = "#text"


class Savable(FoldEstimator):
    """An estimator whose fitted state can be saved as arrays.

    Names of fitted attributes end with an underscore, as in scikit-learn. They are numbers, arrays,
    lists of arrays, or fitted `Savable` estimators.
    """

    n_features_in_: int
    classes_: NDArray[Any]  # of a classifier

    def _check(self, X: Any) -> Floats:
        """Return the rows as float64; raise an error if the estimator cannot read them."""
        rows: Floats = np.asarray(X, dtype=np.float64)
        width = getattr(self, "n_features_in_", None)
        if rows.ndim != 2 or rows.shape[1] != width:
            raise FixTraining(
                f"expected rows of {width} features, got shape {rows.shape}"
            )
        if not np.isfinite(rows).all():
            raise FixTraining("the features contain NaN or infinity")
        return rows

    def to_arrays(self) -> StateArrays:
        """Return every fitted attribute as numeric arrays; nested names are joined with '/'."""
        arrays: StateArrays = {}
        for name, value in vars(self).items():
            if _is_fitted(name):
                _put(arrays, name, value)
        return arrays

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Set the fitted attributes of this (unfitted) estimator from its arrays."""
        for name in dict.fromkeys(key.partition("/")[0] for key in arrays):
            attribute = name.removesuffix(_TEXT)
            if not _is_fitted(attribute):
                raise Corrupt(
                    f"unknown array {name!r} in the saved {type(self).__name__}"
                )
            setattr(self, attribute, self._take(arrays, name))

    def check_outputs(self) -> None:
        """Compute every output for two rows, so that wrong arrays fail here and not in a result.

        Raise an error unless each output has a finite number for each row.
        """
        width = self.n_features_in_
        if not isinstance(width, int) or not 0 < width <= MAX_FEATURES:
            raise ValueError(f"n_features_in_ is {width!r}")
        rows = np.repeat([[0.0], [1.0]], width, axis=1)
        for name in OUTPUTS:
            if not hasattr(self, name):
                continue
            output = getattr(self, name)(rows)
            numbers = np.asarray(output[1] if name == "contributions" else output)
            if len(numbers) != len(rows):
                raise ValueError(
                    f"{name} has {len(numbers)} outputs for {len(rows)} rows"
                )
            if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
                raise ValueError(f"{name} is not finite")
            if name == "predict_proba" and numbers.shape[1] != len(self.classes_):
                raise ValueError(
                    "predict_proba does not have one column for each class"
                )

    def part(self, name: str) -> Any:
        """Return the unfitted estimator that is the parameter `name`."""
        return getattr(self, name, None)

    def _take(self, arrays: Mapping[str, NDArray[Any]], name: str) -> Any:
        if name in arrays:
            value = arrays[name]
            if name.endswith(_TEXT):
                return _text(value)
            return value.item() if value.ndim == 0 else value
        inside = {
            key.removeprefix(f"{name}/"): value
            for key, value in arrays.items()
            if key.startswith(f"{name}/")
        }
        part = self.part(name.removesuffix("_"))
        if isinstance(part, Savable):
            fresh = deepcopy(part)
            fresh.from_arrays(inside)
            return fresh
        try:
            return [inside[str(i)] for i in range(len(inside))]
        except KeyError as error:
            raise Corrupt(f"the saved list {name!r} has no item {error}") from error


class Classifier(Savable):
    """A classifier of two classes. `_fit` gets checked rows, class numbers and films."""

    predict_proba: Callable[..., Floats]

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit on the rows of X and return the estimator.

        Args:
            X: One row of numbers for each clip.
            y: The class of each row.
            groups: The group of each row, such as its film; inner validation holds out whole
                groups.
        """
        self.n_features_in_ = np.shape(X)[-1]
        rows = self._check(X)
        self.classes_, codes = encode_classes(np.asarray(y))
        with one_thread():
            self._fit(rows, codes, None if groups is None else np.asarray(groups))
        return self

    def fit_fold(self, data: FoldData) -> Self:
        """Fit on the training rows, and return the estimator."""
        rows = data.train
        return self.fit(data.rows.X[rows], data.y[rows], data.training_films)

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        raise NotImplementedError

    def _row_weights(self, codes: Ints, weight: ClassWeight) -> Floats | None:
        """Return the weight of each row by its class, or None for equal weights."""
        return balanced_weights(codes)[codes] if weight == "balanced" else None


def _is_fitted(name: str) -> bool:
    """Return whether an attribute of this name is saved."""
    is_public = name.isidentifier() and not name.startswith("_")
    return is_public and name.endswith("_")


def _put(arrays: StateArrays, name: str, value: Any) -> None:
    if isinstance(value, Savable):
        arrays.update(
            {f"{name}/{key}": item for key, item in value.to_arrays().items()}
        )
    elif isinstance(value, list | tuple):
        arrays.update({f"{name}/{i}": np.asarray(item) for i, item in enumerate(value)})
    else:
        array = np.asarray(value)
        if array.dtype.kind not in "UO":
            arrays[name] = array
            return
        text = np.ascontiguousarray(array, dtype=np.str_)
        arrays[name + _TEXT] = text.view(np.uint32).reshape(
            *text.shape, text.dtype.itemsize // 4
        )


def _text(points: NDArray[Any]) -> NDArray[np.str_]:
    if points.ndim != 2 or points.dtype != np.uint32 or (points > 0x10FFFF).any():
        raise Corrupt("a saved text array must be rows of Unicode code points (uint32)")
    width = max(points.shape[1], 1)
    return np.ascontiguousarray(points).view(f"<U{width}").reshape(len(points))


def save_state(model: Savable) -> tuple[Description, StateArrays]:
    """Return the description (JSON) and the fitted attributes (numeric arrays) of an estimator."""
    return _plain("", model), model.to_arrays()


def load_state(
    description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> Savable:
    """Return the fitted estimator that `save_state` saved, after a check of its outputs.

    Args:
        description: Class and settings; only classes of the registry are built.
        arrays: The fitted attributes.
    """
    model = build_estimator(description)
    name = type(model).__name__
    try:
        model.from_arrays(arrays)
        model.check_outputs()
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise Corrupt(
            f"the arrays of the saved {name} do not fit together: {error}"
        ) from error
    return model


def build_estimator(description: Mapping[str, Any]) -> Savable:
    """Return the unfitted estimator of a description."""
    name = description.get("kind")
    stored_params = description.get("params", {})
    if not isinstance(name, str) or name not in CLASSES:
        names = ", ".join(sorted(CLASSES))
        raise Corrupt(
            f"unknown estimator {name!r} in the saved model", hint=f"use one of {names}"
        )
    try:
        params = {
            key: build_estimator(value)
            if isinstance(value, dict) and "kind" in value
            else value
            for key, value in stored_params.items()
        }
        model: Savable = estimator_class(name)(**params)
    except (AttributeError, TypeError) as error:
        raise Corrupt(f"invalid params of the saved {name}: {error}") from error
    return model


def _plain(name: str, value: Any) -> Any:
    """Return the value of a parameter as JSON data; an estimator as its class and parameters."""
    if isinstance(value, Savable):
        own: Any = value
        names = [one.name for one in fields(own) if one.init]
        params = {name: _plain(name, getattr(value, name)) for name in names}
        return {"kind": type(value).__name__, "params": params}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): _plain(name, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(name, item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise FixInput(
        f"parameter {name!r} is a {type(value).__name__}, which cannot be saved as JSON",
        hint=f"use a number or a string for {name}",
    )
