"""Classifiers from user code or scikit-learn. A run fits them; they cannot be saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import Mismatch
from obygaze_features.core.external_calls import short_value
from obygaze_features.core.user_code import UserCode, find_user_code
from obygaze_models.models.common import Floats, Ints
from obygaze_models.models.estimator import Classifier
from obygaze_models.models.registry import (
    PACKAGE,
    SCORES,
    WITHOUT_SCORES,
    class_parameters,
)


class OwnClassifier(Classifier):
    """A classifier from user code or scikit-learn, by its name.

    Args:
        class_name: The name of the class, or of a function that returns an estimator.
        settings: The parameters of the class, and `package`: the version of its code. An error is
            raised if the code has a different version now.

    Attributes:
        held: The fitted estimator.
    """

    held: Any

    def __init__(
        self, class_name: str = "", settings: Mapping[str, Any] | None = None
    ) -> None:
        self.class_name = class_name
        self.settings = settings

    def _user_code(self) -> UserCode:
        """Return the user code; raise an error if its version differs from the settings."""
        user_code = find_user_code(self.class_name)
        package = (self.settings or {}).get(PACKAGE, user_code.package)
        if package != user_code.package:
            raise Mismatch(
                f"{self.class_name} was changed during the run: expected {package}, got"
                f" {user_code.package}",
                hint="run the command again",
            )
        return user_code

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        from sklearn import config_context

        user_code = self._user_code()
        settings = dict(self.settings or {})
        settings.pop(PACKAGE, None)
        for parameter in class_parameters(user_code):
            # TOML has lists only; a parameter with a tuple as default gets a tuple.
            default = parameter.default
            value = settings.get(parameter.name)
            if isinstance(default, list | tuple) and isinstance(value, list | tuple):
                settings[parameter.name] = type(default)(value)
        own_class = user_code.load()
        model = user_code.call(lambda: own_class(**settings), "failed")
        # A run skips scikit-learn's checks of settings, because it has checked its own settings.
        with config_context(skip_parameter_validation=False):
            fitted = user_code.call(lambda: model.fit(X, codes), "failed in fit()")
        if fitted is not model:
            raise user_code.refuse(
                f"must return itself from fit(), got {short_value(fitted)}"
            )
        if not any(hasattr(model, name) for name in SCORES):
            raise user_code.refuse(WITHOUT_SCORES)
        self.held = model

    def __getattr__(self, name: str) -> Any:
        """Return `predict_proba` or `decision_function`, if the fitted estimator has it."""
        # Whether a method exists may depend on settings such as `probability`.
        if name not in SCORES or not hasattr(vars(self).get("held"), name):
            raise AttributeError(name)
        return lambda X: self._scores(name, X)

    def _scores(self, method: str, X: Any) -> NDArray[Any]:
        """Return the scores of rows by a method of the fitted estimator.

        There is one column per class, in the order of the classes, whatever order the estimator
        uses. For two classes, `decision_function` has one score per row.
        """
        user_code = self._user_code()
        rows = self._check(X)
        called = getattr(self.held, method)
        scores = user_code.call(
            lambda: np.asarray(called(rows)), f"failed in {method}()"
        )
        n_classes = len(self.classes_)
        shape: tuple[int, ...] = (len(rows), n_classes)
        if method == "decision_function" and n_classes == 2:
            shape = (len(rows),)
        is_numbers = scores.dtype.kind in "biuf" and np.isfinite(scores).all()
        if not is_numbers or scores.shape != shape:
            raise user_code.refuse(
                f"must return finite numbers of the shape {shape} from {method}(),"
                f" got {short_value(scores)}"
            )
        classes = list(range(n_classes))
        order = np.asarray(getattr(self.held, "classes_", classes)).tolist()
        if sorted(order) != sorted(classes):
            raise user_code.refuse(
                f"must have each class once in classes_, got {short_value(order)}"
            )
        places = [order.index(name) for name in classes]
        if scores.ndim == 1:
            return scores if places[0] == 0 else -scores
        return scores[:, places]
