"""The saved form of a fitted estimator: parameters as JSON, and its fitted state as arrays.

A fitted estimator is saved as numeric arrays (text as code points) and a JSON description with its
class and parameters. Loading runs no saved code: only classes of the registry are built.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_models.models.estimator import NUMBER_KINDS, unfitted
from obygaze_models.models.preprocessing import OUTPUTS, FittedSteps, steps_of
from obygaze_models.models.registry import RUN_PARAMETERS, class_of_name, name_of_class

StateArrays = dict[str, NDArray[Any]]
Description = dict[str, Any]
MAX_FEATURES = 1_000_000
_TEXT = "#text"


def save_state(model: Any) -> tuple[Description, StateArrays]:
    """Return the description (JSON) and the fitted attributes (numeric arrays) of an estimator."""
    if not steps_of(model)[0]:
        return _describe("", model), _arrays_of(model)
    steps = []
    arrays: StateArrays = {}
    for name, step in model.steps:
        steps.append({"name": name, **_describe(name, step)})
        _put(arrays, name, step)
    return {"steps": steps}, arrays


def load_state(
    description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> Any:
    """Return the fitted estimator that `save_state` saved, after a check of its outputs.

    Args:
        description: Class and settings, or these of each step; only classes of the registry are
            built.
        arrays: The fitted attributes.
    """
    described = description.get("steps", [{"name": "", **description}])
    try:
        steps = [(one["name"], build_estimator(one)) for one in described]
    except (LookupError, TypeError, AttributeError) as error:
        raise Corrupt(f"invalid steps of the saved model: {error}") from error
    model = FittedSteps(steps) if "steps" in description else steps[-1][1]
    name = type(steps[-1][1]).__name__
    try:
        for step, estimator in steps:
            _set_arrays(estimator, _inside(arrays, step) if step else arrays)
        check_outputs(model)
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


def check_outputs(model: Any) -> None:
    """Compute every output for two rows, so that wrong arrays fail here and not in a result.

    Raise an error unless each output has a finite number for each row.
    """
    width = model.n_features_in_
    if not isinstance(width, int) or not 0 < width <= MAX_FEATURES:
        raise ValueError(f"n_features_in_ is {width!r}")
    rows = np.repeat([[0.0], [1.0]], width, axis=1)
    for name in OUTPUTS:
        if not hasattr(model, name):
            continue
        output = getattr(model, name)(rows)
        numbers = np.asarray(output[1] if name == "contributions" else output)
        if len(numbers) != len(rows):
            raise ValueError(f"{name} has {len(numbers)} outputs for {len(rows)} rows")
        if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
            raise ValueError(f"{name} is not finite")
        if name == "predict_proba" and numbers.shape[1] != len(model.classes_):
            raise ValueError("predict_proba does not have one column for each class")


def _is_estimator(value: Any) -> bool:
    return hasattr(value, "get_params") and not isinstance(value, type)


def _is_fitted(name: str) -> bool:
    """Return whether an attribute of this name is saved."""
    is_public = name.isidentifier() and not name.startswith("_")
    return is_public and name.endswith("_")


def _arrays_of(model: Any) -> StateArrays:
    """Return every fitted attribute as numeric arrays; nested names are joined with '/'."""
    arrays: StateArrays = {}
    for name, value in vars(model).items():
        if _is_fitted(name) and value is not None:
            _put(arrays, name, value)
    return arrays


def _put(arrays: StateArrays, name: str, value: Any) -> None:
    if _is_estimator(value):
        arrays.update({f"{name}/{key}": one for key, one in _arrays_of(value).items()})
        return
    if isinstance(value, list | tuple):
        for number, item in enumerate(value):
            _put(arrays, f"{name}/{number}", np.asarray(item))
        return
    array = np.asarray(value)
    if array.dtype.kind in NUMBER_KINDS:
        arrays[name] = array
        return
    if not all(isinstance(one, str) for one in array.ravel().tolist()):
        raise FixInput(
            f"the fitted attribute {name} is a {type(value).__name__}, which cannot be saved as an"
            " array of numbers or words"
        )
    text = np.ascontiguousarray(array, dtype=np.str_)
    arrays[name + _TEXT] = text.view(np.uint32).reshape(
        *text.shape, text.dtype.itemsize // 4
    )


def _set_arrays(model: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Set the fitted attributes of an unfitted estimator from its arrays."""
    for name in dict.fromkeys(key.partition("/")[0] for key in arrays):
        attribute = name.removesuffix(_TEXT)
        if not _is_fitted(attribute):
            raise Corrupt(f"unknown array {name!r} in the saved {type(model).__name__}")
        setattr(model, attribute, _take(model, arrays, name))
    if hasattr(model, "check_state"):
        model.check_state()


def _take(model: Any, arrays: Mapping[str, NDArray[Any]], name: str) -> Any:
    if name in arrays:
        value = arrays[name]
        if name.endswith(_TEXT):
            return _text(value)
        return value.item() if value.ndim == 0 else value
    inside = _inside(arrays, name)
    part = model.part(name.removesuffix("_")) if hasattr(model, "part") else None
    if _is_estimator(part):
        fresh = unfitted(part)
        _set_arrays(fresh, inside)
        return fresh
    try:
        return [inside[str(i)] for i in range(len(inside))]
    except KeyError as error:
        raise Corrupt(f"the saved list {name!r} has no item {error}") from error


def _inside(arrays: Mapping[str, NDArray[Any]], name: str) -> StateArrays:
    """Return the arrays whose names begin with `name/`, without this beginning."""
    return {
        key.removeprefix(f"{name}/"): value
        for key, value in arrays.items()
        if key.startswith(f"{name}/")
    }


def _text(points: NDArray[Any]) -> NDArray[np.str_]:
    if points.ndim != 2 or points.dtype != np.uint32 or (points > 0x10FFFF).any():
        raise Corrupt("a saved text array must be rows of Unicode code points (uint32)")
    width = max(points.shape[1], 1)
    return np.ascontiguousarray(points).view(f"<U{width}").reshape(len(points))


def build_estimator(description: Mapping[str, Any]) -> Any:
    """Return the unfitted estimator of a description."""
    name = description.get("kind")
    stored = description.get("params", {})
    made = class_of_name(name)
    if made is None:
        raise Corrupt(f"unknown estimator {name!r} in the saved model")
    try:
        params = {}
        for key, value in stored.items():
            is_nested = isinstance(value, dict) and "kind" in value
            params[key] = build_estimator(value) if is_nested else value
        unknown = params.keys() & RUN_PARAMETERS
        if unknown:
            raise TypeError(f"{min(unknown)} is not a parameter of a saved model")
        return made(**params)
    except (AttributeError, TypeError) as error:
        raise Corrupt(f"invalid params of the saved {name}: {error}") from error


def _describe(name: str, value: Any) -> Any:
    """Return the value of a parameter as JSON data; an estimator as its class and parameters."""
    if _is_estimator(value):
        kind = name_of_class(type(value))
        params = {}
        for key, one in value.get_params(deep=False).items():
            if key not in RUN_PARAMETERS:
                params[key] = _describe(key, one)
        return {"kind": kind, "params": params}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): _describe(name, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_describe(name, item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise FixInput(
        f"parameter {name!r} is a {type(value).__name__}, which cannot be saved as JSON",
        hint=f"use a number or a string for {name}",
    )
