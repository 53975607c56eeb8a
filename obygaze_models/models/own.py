"""Classifiers of one's own, or of scikit-learn: any class with the interface of scikit-learn."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import Mismatch
from obygaze_features.core.foreign import short_value
from obygaze_features.core.parts import find_part
from obygaze_models.models.common import Floats, Ints
from obygaze_models.models.estimator import Arrays, Classifier
from obygaze_models.models.kept import SKOPS, pack, unpack
from obygaze_models.models.registry import parameters_of

PACKAGE = "package"  # the setting that holds the version of the code
_INSIDE = "estimator_/"


def plain_array(value: Any) -> NDArray[Any] | None:
    """Return a fitted attribute as an array of numbers; None for what is none."""
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        return None
    return array if array.dtype.kind in "biuf" else None


class OwnClassifier(Classifier):
    """A classifier of own code or of scikit-learn, by its name.

    It is saved as arrays where every attribute that fitting sets is a number or an array of
    numbers, else as the bytes that skops makes of it: no code of a saved model runs.

    Args:
        class_name: The name of the class, or of a function that returns an estimator.
        settings: The parameters of the class, and `package` with the version of its code, which
            must be the version that is there.
    """

    fitted: ClassVar[tuple[str, ...]] = ("classes_",)

    def __init__(
        self, class_name: str = "", settings: Mapping[str, Any] | None = None
    ) -> None:
        self.class_name = class_name
        self.settings = settings

    def _new(self) -> Any:
        part = find_part(self.class_name)
        settings = dict(self.settings or {})
        package = settings.pop(PACKAGE, part.package)
        if package != part.package:
            raise Mismatch(
                f"{self.class_name} has changed since the model was trained: {package} then,"
                f" {part.package} now",
                hint="the code as it was then, or obygaze train for a model of the code as it is",
            )
        own_class = part.load()
        for parameter in parameters_of(part):
            # Files have lists only: a parameter whose default is a tuple gets a tuple.
            default = parameter.default
            value = settings.get(parameter.name)
            if isinstance(default, list | tuple) and isinstance(value, list | tuple):
                settings[parameter.name] = type(default)(value)
        return part.call(lambda: own_class(**settings), "failed")

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        part = find_part(self.class_name)
        model = self._new()
        fitted = part.call(lambda: model.fit(X, codes), "failed in fit()")
        if fitted is not model:
            raise part.refuse(
                f"must return itself from fit(), got {short_value(fitted)}"
            )
        self.estimator_ = model

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row."""
        codes = self._numbers("predict", self._check(X))
        n_classes = len(self.classes_)
        if codes.ndim != 1 or not np.isin(codes, np.arange(n_classes)).all():
            raise find_part(self.class_name).refuse(
                f"must return one class for each row from predict(), 0 to {n_classes - 1},"
                f" got {short_value(codes)}"
            )
        chosen: NDArray[Any] = self.classes_[codes.astype(np.intp)]
        return chosen

    def __getattr__(self, name: str) -> Any:
        """Return `predict_proba` or `decision_function`, where the class has it."""
        if name not in ("predict_proba", "decision_function"):
            raise AttributeError(name)
        # Settings such as probability decide what there is.
        has = vars(self).get("estimator_")
        if has is None:
            has = find_part(self.class_name).load()
        if not hasattr(has, name):
            raise AttributeError(name)
        return lambda X: self._scores(name, self._check(X))

    def _scores(self, method: str, X: Floats) -> NDArray[Any]:
        """Return what a method gives for rows: a score of each class, or one of two classes."""
        scores = self._numbers(method, X)
        n_classes = len(self.classes_)
        shapes: set[tuple[int, ...]] = {(len(X), n_classes)}
        if method == "decision_function" and n_classes == 2:
            shapes = {(len(X),)}
        if scores.shape not in shapes:
            raise find_part(self.class_name).refuse(
                f"must return the shape {min(shapes)} from {method}(), got {scores.shape}"
            )
        return scores

    def _numbers(self, method: str, X: Floats) -> NDArray[Any]:
        """Return what a method gives for rows: numbers, as many as rows."""
        part = find_part(self.class_name)
        called = getattr(self.estimator_, method)
        array = part.call(lambda: np.asarray(called(X)), f"failed in {method}()")
        is_numbers = (
            array.dtype.kind in "biuf" and array.ndim > 0 and len(array) == len(X)
        )
        if not is_numbers or not np.isfinite(array).all():
            raise part.refuse(
                f"must return numbers for each of {len(X)} rows from {method}(),"
                f" got {short_value(array)}"
            )
        return array

    def to_arrays(self) -> Arrays:
        """Return every fitted attribute as an array; an error for one that is not numbers."""
        part = find_part(self.class_name)
        arrays = super().to_arrays()
        params = part.call(
            lambda: self.estimator_.get_params(deep=False), "has no get_params()"
        )
        nested = part.call(lambda: self.estimator_.get_params(), "has no get_params()")
        # A pipeline has estimators in it, whose parameters are nested in its own.
        if len(nested) > len(params):
            return {**arrays, SKOPS: pack(self.estimator_)}
        attributes: dict[str, NDArray[Any]] = {}
        for name in sorted(vars(self.estimator_).keys() - params.keys()):
            value = plain_array(getattr(self.estimator_, name))
            if value is None:
                return {**arrays, SKOPS: pack(self.estimator_)}
            attributes[_INSIDE + name] = value
        return {**arrays, **attributes}

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Set the fitted attributes of this (unfitted) estimator from its arrays."""
        super().from_arrays(arrays)
        self.estimator_ = self._new()
        if SKOPS in arrays:
            self.estimator_ = unpack(arrays[SKOPS])
            return
        for name, value in arrays.items():
            if name.startswith(_INSIDE):
                plain = value.item() if value.ndim == 0 else value
                setattr(self.estimator_, name.removeprefix(_INSIDE), plain)
