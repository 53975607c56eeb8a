"""Base classes of the estimators: the contract of scikit-learn, without its import.

An estimator is a dataclass of its parameters; names of fitted attributes end with an underscore.
scikit-learn takes a second to import, and predicting does not need it. It is imported when it calls
a method of this contract, and when rows are no plain array or are refused.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import ObygazeWarning
from obygaze_models.models.common import (
    FixTraining,
    Floats,
    Ints,
    balanced_weights,
    encode_classes,
    one_thread,
)
from obygaze_models.models.parameters import parameter_problem

NUMBER_KINDS = "biuf"  # kinds of plain numbers, of the types of NumPy
MIN_ROWS = 2  # of a fit
# Classes whose fit without groups has been warned of.
_WARNED: set[str] = set()
# What a clone has besides the parameters: what was requested, and the output of `transform`.
KEPT_BY_CLONE = ("_metadata_request", "_output")


class AnyEstimator(Protocol):
    """What every estimator of scikit-learn has."""

    @property
    def fit(self) -> Callable[..., Any]:
        """Fit on rows and classes, and return the estimator."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""


class Estimator:
    """An estimator as scikit-learn defines it. Subclasses are dataclasses of their parameters."""

    n_features_in_: int

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with `deep`, also those of estimators among them."""
        own: Any = self
        params = {one.name: getattr(self, one.name) for one in fields(own) if one.init}
        if deep:
            for name, value in list(params.items()):
                if hasattr(value, "get_params") and not isinstance(value, type):
                    for key, inner in value.get_params().items():
                        params[f"{name}__{key}"] = inner
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, such as `C=1.0` or `head__C=1.0`, and return the estimator."""
        known = self.get_params(deep=False)
        of_parts: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, separator, inner = key.partition("__")
            if name not in known:
                names = ", ".join(known)
                kind = type(self).__name__
                raise ValueError(
                    f"{kind} has no parameter {name!r}; expected one of {names}"
                )
            if separator:
                of_parts.setdefault(name, {})[inner] = value
            else:
                setattr(self, name, value)
        # A part may be among the parameters that were set above.
        for name, inner_params in of_parts.items():
            getattr(self, name).set_params(**inner_params)
        return self

    def set_fit_request(self, **requests: Any) -> Self:
        """State what scikit-learn gives to `fit`, and return the estimator.

        With `set_fit_request(groups=True)` and routing of metadata enabled, `cross_val_predict` and
        other functions give `params={"groups": films}` to `fit`.
        """
        return self._request("fit", requests)

    def get_metadata_routing(self) -> Any:
        """Return what `fit` and `score` request, for scikit-learn."""
        from sklearn.utils.metadata_routing import MetadataRequest

        stated = getattr(self, "_metadata_request", None)
        if stated is not None:
            return stated
        routing = MetadataRequest(owner=self)
        for method in ("fit", "score"):
            for name in self._asked(method):
                getattr(routing, method).add_request(param=name, alias=None)
        return routing

    def _request(self, method: str, requests: Mapping[str, Any]) -> Self:
        """State what scikit-learn gives to a method, and return the estimator."""
        asked = self._asked(method)
        unknown = requests.keys() - asked
        if unknown:
            raise TypeError(
                f"{method} of {type(self).__name__} has no argument {min(unknown)!r}; expected one"
                f" of {', '.join(asked)}"
            )
        routing = self.get_metadata_routing()
        for name, alias in requests.items():
            getattr(routing, method).add_request(param=name, alias=alias)
        self._metadata_request = routing
        return self

    def _asked(self, method: str) -> list[str]:
        """Return the arguments of a method other than the rows and their classes."""
        if not hasattr(self, method):
            return []
        names = inspect.signature(getattr(self, method)).parameters
        return [name for name in names if name not in ("X", "y")]

    def __sklearn_clone__(self) -> Self:
        from sklearn.base import clone

        params = self.get_params(deep=False).items()
        fresh = type(self)(**{name: clone(value, safe=False) for name, value in params})
        for name in KEPT_BY_CLONE:
            if name in vars(self):
                setattr(fresh, name, deepcopy(getattr(self, name)))
        return fresh

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=True))

    def part(self, name: str) -> Any:
        """Return the unfitted estimator that is the parameter `name`."""
        return getattr(self, name, None)

    def check_state(self) -> None:
        """Raise an error if fitted attributes that were loaded are impossible."""


def unfitted(estimator: Any) -> Any:
    """Return a new estimator with the same parameters, without its fit."""
    if not hasattr(estimator, "get_params"):
        return deepcopy(estimator)
    params = estimator.get_params(deep=False)
    return type(estimator)(**{name: unfitted(value) for name, value in params.items()})


def cached(memory: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose results a memory with a method `cache` remembers; None: no memory."""
    remembered: Callable[..., Any] = function
    if memory is not None:
        if not hasattr(memory, "cache"):
            raise FixTraining(
                f"memory must have a method cache, as joblib.Memory has, got {memory!r}"
            )
        remembered = memory.cache(function)
    return remembered


def check_features(estimator: Any, X: Any) -> Floats:
    """Return rows as float64; raise an error if the fitted estimator cannot read them."""
    width = getattr(estimator, "n_features_in_", None)
    rows = _plain_rows(X, [np.float64])
    has_names = hasattr(estimator, "feature_names_in_")
    if rows is not None and rows.shape[1] == width and not has_names:
        plain: Floats = rows
        return plain
    from sklearn.utils.validation import check_is_fitted, validate_data

    check_is_fitted(estimator, "n_features_in_")
    try:
        checked: Floats = validate_data(estimator, X, dtype=np.float64, reset=False)
    except ValueError as error:
        raise FixTraining(str(error)) from error
    return checked


def check_parameters(estimator: Any) -> None:
    """Raise an error for a parameter that cannot be used."""
    problem = parameter_problem(estimator)
    if problem:
        raise FixTraining(problem)


def check_training_rows(
    estimator: Any, X: Any, types: Sequence[Any] = (np.float64,)
) -> Any:
    """Return rows to fit, and set the number of features that the estimator reads.

    Args:
        estimator: The estimator; parameters that cannot be used are refused.
        X: One row of numbers for each clip.
        types: The types that the rows may have; rows of other types are converted to the first.
    """
    check_parameters(estimator)
    rows = _plain_rows(X, types)
    if rows is not None and len(rows) >= MIN_ROWS and rows.size:
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = rows.shape[1]
        return rows
    from sklearn.utils.validation import validate_data

    try:
        return validate_data(
            estimator, X, dtype=list(types), ensure_min_samples=MIN_ROWS
        )
    except ValueError as error:
        raise FixTraining(str(error)) from error


def _plain_rows(X: Any, types: Sequence[Any]) -> Any:
    """Return an array of finite numbers as one of the types, or None for everything else."""
    if type(X) is not np.ndarray or X.ndim != 2 or X.dtype.kind not in NUMBER_KINDS:
        return None
    rows = X if X.dtype in types else X.astype(types[0])
    return rows if np.isfinite(rows).all() else None


class Transformer(Estimator):
    """An estimator that transforms rows. Subclasses define `transform_rows`."""

    transform_rows: Callable[..., NDArray[Any]]
    fit: Callable[..., Any]
    _output: str | None = None

    def transform(self, X: Any) -> Any:
        """Return the transformed rows, as an array or as `set_output` states."""
        from sklearn.preprocessing import FunctionTransformer

        transformed = self.transform_rows(X)
        names = self.get_feature_names_out()
        in_container = FunctionTransformer(
            lambda _: transformed, feature_names_out=lambda *_: names
        )
        if self._output is not None:
            in_container.set_output(transform=self._output)
        return in_container.transform(X)

    def fit_transform(self, X: Any, y: Any = None, **others: Any) -> Any:
        """Fit, and return the transformed rows."""
        return self.fit(X, y, **others).transform(X)

    def set_output(self, *, transform: str | None = None) -> Self:
        """State what `transform` returns: "default", "pandas" or "polars"; None changes nothing."""
        if transform is not None:
            self._output = transform
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns that `transform` returns: those of the rows."""
        if input_features is None:
            input_features = getattr(self, "feature_names_in_", None)
        if input_features is None:
            input_features = [f"x{number}" for number in range(self.n_features_in_)]
        return np.asarray(input_features, dtype=object)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        tags.transformer_tags = TransformerTags()
        return tags


class WithoutGroups(ObygazeWarning):
    """A fit chooses a setting by clips, and not by whole films."""


def warn_without_groups(estimator: Any, setting: str, depth: int = 4) -> None:
    """Warn that a fit without groups chooses a setting by clips; once for each class.

    The line of the warning is that of the caller of `fit`, `depth` calls above this one.
    """
    warn_once(
        type(estimator).__name__,
        f"chooses {setting} by leaving out clips, because fit() got no groups. Clips of one film"
        " are similar: pass groups=films",
        depth=depth + 1,
    )


def warn_once(kind: str, text: str, depth: int) -> None:
    """Warn that a class splits the clips of films; once for each class.

    Args:
        kind: The name of the class, with which the warning begins.
        text: What the class does.
        depth: The number of calls between this one and the line of the warning.
    """
    if kind not in _WARNED:
        _WARNED.add(kind)
        warnings.warn(f"{kind} {text}", WithoutGroups, stacklevel=depth)


def one_for_each_row(values: Any, n_rows: int, name: str) -> NDArray[Any] | None:
    """Return values of rows as an array; raise an error if their number is not that of the rows."""
    if values is None:
        return None
    array = np.asarray(values)
    if array.ndim == 0 or len(array) != n_rows:
        found = "a single value" if array.ndim == 0 else f"{len(array)} rows"
        raise FixTraining(
            f"{name} must have one row for each of {n_rows} rows, got {found}"
        )
    return array


def groups_of_rows(
    values: Any, n_rows: int, name: str = "groups"
) -> NDArray[Any] | None:
    """Return one group for each row as an array, or None; raise an error if a row has none."""
    array = one_for_each_row(values, n_rows, name)
    if array is None:
        return None
    listed = array.tolist()
    if array.ndim > 1:
        raise FixTraining(f"{name} must have one value for each row, got a table")
    for row, value in enumerate(listed):
        if value is None or value != value:
            raise FixTraining(f"{name} has no value for row {row}")
    return array


class Classifier(Estimator):
    """A classifier of two classes. `_fit` gets checked rows, class numbers and groups."""

    classes_: NDArray[Any]
    predict_proba: Callable[..., Floats]
    decision_function: Callable[..., Floats]

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit on the rows of X and return the estimator.

        Args:
            X: One row of numbers for each clip.
            y: The class of each row.
            groups: The group of each row, such as its film; inner validation holds out whole
                groups.
        """
        rows, codes = self._check_training(X, y)
        of_rows = groups_of_rows(groups, len(rows))
        with one_thread():
            self._fit(rows, codes, of_rows)
        return self

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        raise NotImplementedError

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row."""
        if hasattr(self, "predict_proba"):
            is_second = self.predict_proba(X)[:, 1] > 0.5
        else:
            is_second = self.decision_function(X) > 0
        classes: NDArray[Any] = self.classes_[is_second.astype(np.intp)]
        return classes

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of `predict` on rows with known classes, which may have weights."""
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def set_score_request(self, **requests: Any) -> Self:
        """State what scikit-learn gives to `score`, and return the estimator."""
        return self._request("score", requests)

    def _check(self, X: Any) -> Floats:
        return check_features(self, X)

    def _check_training(
        self, X: Any, y: Any, types: Sequence[Any] = (np.float64,)
    ) -> tuple[Any, Ints]:
        """Return checked rows and the class number of each row, and set the classes."""
        rows = check_training_rows(self, X, types)
        self.classes_, codes = encode_classes(self._check_classes(X, y))
        return rows, codes

    def _check_classes(self, X: Any, y: Any) -> NDArray[Any]:
        """Return the class of each row; raise an error if classes and rows do not fit."""
        is_plain = type(y) is np.ndarray and y.dtype.kind in "biuU"
        if is_plain and y.shape == (len(X),):
            plain: NDArray[Any] = y
            return plain
        from sklearn.utils.multiclass import check_classification_targets
        from sklearn.utils.validation import validate_data

        try:
            _, labels = validate_data(self, X, y)
            check_classification_targets(labels)
        except ValueError as error:
            raise FixTraining(str(error)) from error
        checked: NDArray[Any] = labels
        return checked

    def _weights_of_classes(
        self, codes: Ints, weight: Mapping[Any, float] | str | None
    ) -> Floats | None:
        """Return the weight of each class, or None for equal weights."""
        if isinstance(weight, Mapping):
            names = self.classes_.tolist()
            unknown = [name for name in weight if name not in names]
            if unknown:
                raise FixTraining(
                    f"class_weight names {unknown[0]!r}, expected classes of the rows: "
                    + ", ".join(map(repr, names))
                )
            return np.array([weight.get(name, 1.0) for name in names])
        return balanced_weights(codes) if weight == "balanced" else None

    def _row_weights(
        self, codes: Ints, weight: Mapping[Any, float] | str | None
    ) -> Floats | None:
        """Return the weight of each row by its class, or None for equal weights."""
        weights = self._weights_of_classes(codes, weight)
        return None if weights is None else weights[codes]

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags
