"""A fitted estimator as numbers and plain words, and back, without running anything that was saved.

Arrays are numeric (text is kept as code points), so they fit any array file; the description is
plain JSON: the kind of estimator and its settings. `load_state` builds only kinds of its own table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_models.models.registry import CLASSES, estimator_class

Arrays = dict[str, NDArray[Any]]
Description = dict[str, Any]

MAX_FEATURES = 1_000_000
ANSWERS = ("predict", "predict_proba", "decision_function", "margins", "contributions", "transform")

_TEXT = "#text"


class Savable:
    """An estimator that names its fitted attributes, so that they can be written as arrays."""

    fitted: ClassVar[tuple[str, ...]] = ()

    def to_arrays(self) -> Arrays:
        """Every fitted attribute as numeric arrays; parts and lists are joined with '/'."""
        arrays: Arrays = {}
        for name in ("n_features_in_", *self.fitted):
            _put(arrays, name, getattr(self, name))
        return arrays

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Set the fitted attributes of this (unfitted) estimator from its arrays."""
        for name in ("n_features_in_", *self.fitted):
            setattr(self, name, self._take(arrays, name))

    def part(self, name: str) -> Any:
        """The unfitted estimator that a fitted part came from."""
        return getattr(self, name, None)

    def _take(self, arrays: Mapping[str, NDArray[Any]], name: str) -> Any:
        if name in arrays:
            value = arrays[name]
            return value.item() if value.ndim == 0 else value
        if name + _TEXT in arrays:
            return _words(arrays[name + _TEXT])
        inside = {
            key.removeprefix(f"{name}/"): value
            for key, value in arrays.items()
            if key.startswith(f"{name}/")
        }
        if not inside:
            raise Corrupt(f"the saved {type(self).__name__} lacks its array {name!r}")
        return self._take_inside(name, inside)

    def _take_inside(self, name: str, inside: Mapping[str, NDArray[Any]]) -> Any:
        part = self.part(name.removesuffix("_"))
        if isinstance(part, Savable):
            fresh = build(describe(part))
            fresh.from_arrays(inside)
            return fresh
        try:
            return [inside[str(i)] for i in range(len(inside))]
        except KeyError as error:
            raise Corrupt(f"the saved list {name!r} lacks its item {error}") from error


def save_state(model: Savable) -> tuple[Description, Arrays]:
    """What a fitted estimator is (JSON) and what it learned (numeric arrays)."""
    return describe(model), model.to_arrays()


def load_state(description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Savable:
    """The fitted estimator again; only kinds of this package are built, and only if they answer."""
    model = build(description)
    kind = type(model).__name__
    try:
        model.from_arrays(arrays)
        unknown = sorted(set(arrays) - set(model.to_arrays()))
        if unknown:
            raise Corrupt(f"the saved {kind} has an array that is not its own: {unknown[0]!r}")
        _answer(model)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise Corrupt(f"the arrays of the saved {kind} do not fit together: {error}") from error
    return model


def describe(model: Savable) -> Description:
    """The kind and settings of an estimator, as JSON can hold them."""
    settings = model.get_params(deep=False)  # type: ignore[attr-defined]
    return {
        "kind": type(model).__name__,
        "params": {name: _plain(name, value) for name, value in settings.items()},
    }


def build(description: Mapping[str, Any]) -> Savable:
    """An unfitted estimator from its description."""
    kind, given = description.get("kind"), description.get("params", {})
    if not isinstance(given, Mapping):
        raise Corrupt(f"the settings of a saved estimator are no table: {given!r}")
    if not isinstance(kind, str) or kind not in CLASSES:
        known = ", ".join(sorted(CLASSES))
        raise Corrupt(f"unknown estimator {kind!r} in the saved model", hint=f"one of {known}")
    params = {
        name: build(value) if isinstance(value, dict) and "kind" in value else value
        for name, value in given.items()
    }
    try:
        model: Savable = estimator_class(kind)(**params)
    except TypeError as error:
        raise Corrupt(f"the settings of the saved {kind} are not its own: {error}") from error
    return model


def _answer(model: Any) -> None:
    """Ask for all a model says of two rows: wrong arrays fail here, not in somebody's results."""
    width = model.n_features_in_
    if not isinstance(width, int) or not 0 < width <= MAX_FEATURES:
        raise ValueError(f"n_features_in_ is {width!r}")
    rows = np.repeat([[0.0], [1.0]], width, axis=1)
    asked = [name for name in ANSWERS if hasattr(model, name)]
    for name in asked:
        answer = getattr(model, name)(rows)
        numbers = np.asarray(answer[1] if name == "contributions" else answer)
        if len(numbers) != len(rows):
            raise ValueError(f"{name} has {len(numbers)} answers for {len(rows)} rows")
        if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
            raise ValueError(f"{name} does not answer with finite numbers")
    if "predict_proba" in asked and model.predict_proba(rows).shape[1] != len(model.classes_):
        raise ValueError("there is not one probability for each class")


def _put(arrays: Arrays, name: str, value: Any) -> None:
    if isinstance(value, Savable):
        arrays.update({f"{name}/{key}": item for key, item in value.to_arrays().items()})
    elif isinstance(value, list | tuple):
        arrays.update({f"{name}/{i}": np.asarray(item) for i, item in enumerate(value)})
    else:
        array = np.asarray(value)
        text = array.dtype.kind in "UO"
        arrays[name + _TEXT if text else name] = _code_points(array) if text else array


def _code_points(words: NDArray[Any]) -> NDArray[np.uint32]:
    text = np.ascontiguousarray(words, dtype=np.str_)
    width = text.dtype.itemsize // 4
    return text.view(np.uint32).reshape(*text.shape, width)


def _words(points: NDArray[Any]) -> NDArray[np.str_]:
    if points.ndim != 2 or points.dtype != np.uint32 or (points > 0x10FFFF).any():
        raise Corrupt("saved words are not rows of code points")
    width = max(points.shape[1], 1)
    return np.ascontiguousarray(points).view(f"<U{width}").reshape(len(points))


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Savable):
        return describe(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): _plain(name, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(name, item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise FixInput(
        f"the setting {name!r} is a {type(value).__name__}, which cannot be written as plain data",
        hint=f"a number or a word for {name}",
    )
