"""Classifiers of one's own, or of scikit-learn: any class with the interface of scikit-learn."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import Mismatch
from obygaze_features.core.foreign import short_value
from obygaze_features.core.parts import Part, find_part, types_of
from obygaze_models.models.common import Floats, Ints
from obygaze_models.models.kept import HeldEstimator, unpack
from obygaze_models.models.registry import SCORES, WITHOUT_SCORES, parameters_of

PACKAGE = "package"  # the setting that holds the version of the code


class OwnClassifier(HeldEstimator):
    """A classifier of own code or of scikit-learn, by its name.

    Args:
        class_name: The name of the class, or of a function that returns an estimator.
        settings: The parameters of the class, and `package` with the version of its code, which
            must be the version that is there.
    """

    def __init__(
        self, class_name: str = "", settings: Mapping[str, Any] | None = None
    ) -> None:
        self.class_name = class_name
        self.settings = settings

    def _part(self) -> Part:
        """Return the code; an error if it is not the code that the settings name."""
        part = find_part(self.class_name)
        package = (self.settings or {}).get(PACKAGE, part.package)
        if package != part.package:
            raise Mismatch(
                f"{self.class_name} has changed since the model was trained: {package} then,"
                f" {part.package} now",
            )
        return part

    def _new(self) -> Any:
        part = self._part()
        settings = dict(self.settings or {})
        settings.pop(PACKAGE, None)
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
        if not any(hasattr(model, name) for name in SCORES):
            raise part.refuse(WITHOUT_SCORES)
        self.held = model

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
        if name not in SCORES:
            raise AttributeError(name)
        # Settings such as probability decide what there is.
        has = vars(self).get("held")
        if has is None:
            has = find_part(self.class_name).load()
        if not hasattr(has, name):
            raise AttributeError(name)
        return lambda X: self._scores(name, self._check(X))

    def _scores(self, method: str, X: Floats) -> NDArray[Any]:
        """Return what a method gives for rows: a score of each class, or one of two classes.

        They are in the order of the classes, whatever order the estimator has them in.
        """
        scores = self._numbers(method, X)
        n_classes = len(self.classes_)
        shapes: set[tuple[int, ...]] = {(len(X), n_classes)}
        if method == "decision_function" and n_classes == 2:
            shapes = {(len(X),)}
        if scores.shape not in shapes:
            raise find_part(self.class_name).refuse(
                f"must return the shape {min(shapes)} from {method}(), got {scores.shape}"
            )
        places = self._places_of_classes()
        if scores.ndim == 1:
            return scores if places[0] == 0 else -scores
        return scores[:, places]

    def _places_of_classes(self) -> list[int]:
        """Return where the estimator has the score of each class; without `classes_` in order."""
        codes = list(range(len(self.classes_)))
        order = np.asarray(getattr(self.held, "classes_", codes)).tolist()
        if sorted(order) != codes:
            raise find_part(self.class_name).refuse(
                f"must have each class once in classes_, 0 to {len(codes) - 1},"
                f" got {short_value(order)}"
            )
        return [order.index(code) for code in codes]

    def _numbers(self, method: str, X: Floats) -> NDArray[Any]:
        """Return what a method gives for rows: numbers, as many as rows."""
        part = find_part(self.class_name)
        called = getattr(self.held, method)
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

    def _unpacked(self, data: NDArray[np.uint8]) -> Any:
        return unpack(data, types_of(self._part()))
