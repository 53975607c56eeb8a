"""Save a fitted estimator as arrays and plain data, and load it without running saved code.

Arrays are numeric (text is kept as code points), so they fit any array file; the description is
plain JSON: the class of the estimator and its settings. `load_state` builds only the classes of the
registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_models.models.estimator import Arrays, Savable
from obygaze_models.models.registry import CLASSES, estimator_class

Description = dict[str, Any]

MAX_FEATURES = 1_000_000
OUTPUTS = ("predict", "predict_proba", "decision_function", "margins", "contributions", "transform")


def save_state(model: Savable) -> tuple[Description, Arrays]:
    """Return the description (JSON) and the fitted attributes (numeric arrays) of an estimator."""
    return describe(model), model.to_arrays()


def load_state(description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Savable:
    """Return the fitted estimator that `save_state` saved, after it predicted two rows.

    Args:
        description: Its class and settings; only classes of the registry are built.
        arrays: Its fitted attributes.
    """
    model = build_estimator(description)
    name = type(model).__name__
    try:
        model.from_arrays(arrays)
        unknown = sorted(set(arrays) - set(model.to_arrays()))
        if unknown:
            raise Corrupt(f"unknown array {unknown[0]!r} in the saved {name}")
        _check_outputs(model)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise Corrupt(f"the arrays of the saved {name} do not fit together: {error}") from error
    return model


def describe(model: Savable) -> Description:
    """Return the class and settings of an estimator, as JSON can hold them."""
    settings = model.get_params(deep=False)
    return {
        "kind": type(model).__name__,
        "params": {name: _plain(name, value) for name, value in settings.items()},
    }


def build_estimator(description: Mapping[str, Any]) -> Savable:
    """Return the unfitted estimator of a description."""
    name, given = description.get("kind"), description.get("params", {})
    if not isinstance(given, Mapping):
        raise Corrupt(f"params of a saved estimator must be a table, got {given!r}")
    if not isinstance(name, str) or name not in CLASSES:
        known = ", ".join(sorted(CLASSES))
        raise Corrupt(f"unknown estimator {name!r} in the saved model", hint=f"one of {known}")
    params = {
        key: build_estimator(value) if isinstance(value, dict) and "kind" in value else value
        for key, value in given.items()
    }
    try:
        model: Savable = estimator_class(name)(**params)
    except TypeError as error:
        raise Corrupt(f"invalid params of the saved {name}: {error}") from error
    return model


def _check_outputs(model: Any) -> None:
    """Compute every output for two rows, so that wrong arrays fail here and not in a result."""
    width = model.n_features_in_
    if not isinstance(width, int) or not 0 < width <= MAX_FEATURES:
        raise ValueError(f"n_features_in_ is {width!r}")
    rows = np.repeat([[0.0], [1.0]], width, axis=1)
    names = [name for name in OUTPUTS if hasattr(model, name)]
    for name in names:
        output = getattr(model, name)(rows)
        numbers = np.asarray(output[1] if name == "contributions" else output)
        if len(numbers) != len(rows):
            raise ValueError(f"{name} has {len(numbers)} outputs for {len(rows)} rows")
        if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
            raise ValueError(f"{name} is not finite")
    if "predict_proba" in names and model.predict_proba(rows).shape[1] != len(model.classes_):
        raise ValueError("predict_proba does not have one column for each class")


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
        f"parameter {name!r} is a {type(value).__name__}, which cannot be saved as JSON",
        hint=f"a number or a string for {name}",
    )
