"""Estimators of other installed packages: any classifier with scikit-learn's interface."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.core.plugins import MODELS, call_foreign, find_plugin
from obygaze_models.models.common import Floats, Ints
from obygaze_models.models.estimator import Arrays, Classifier

PACKAGE = "package"  # the setting that holds the package and its version
_INSIDE = "estimator_/"


class InstalledProbe(Classifier):
    """A classifier of another package, named by its entry point of the group obygaze.models.

    Every attribute that fitting sets must be a number or an array of numbers, if it is to be
    saved: nothing else is written, and no code of the saved model runs when it is loaded.

    Args:
        plugin: The name of the entry point.
        settings: The parameters of the class, and `package` with the name and version of its
            package, which must be those that are installed.
    """

    fitted: ClassVar[tuple[str, ...]] = ("classes_",)

    def __init__(self, plugin: str = "", settings: Mapping[str, Any] | None = None) -> None:
        self.plugin = plugin
        self.settings = settings

    def _new(self) -> Any:
        plugin, settings = find_plugin(MODELS, self.plugin), dict(self.settings or {})
        package = settings.pop(PACKAGE, plugin.package)
        if package != plugin.package:
            what = f"{self.plugin} is of the package {package}; installed is {plugin.package}"
            raise Mismatch(what, hint=f"pip install '{'=='.join(str(package).split())}'")
        made: Any = plugin.load()
        return call_foreign(lambda: made(**settings), f"{plugin.where} failed")

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        model, where = self._new(), find_plugin(MODELS, self.plugin).where
        self.estimator_ = call_foreign(lambda: model.fit(X, codes), f"{where}: fit() failed")

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row."""
        chosen: NDArray[Any] = self.classes_[self.estimator_.predict(self._check(X))]
        return chosen

    def __getattr__(self, name: str) -> Any:
        """Return `predict_proba` or `decision_function`, where the class of the plugin has it."""
        is_score = name in ("predict_proba", "decision_function")
        if not is_score or not hasattr(find_plugin(MODELS, self.plugin).load(), name):
            raise AttributeError(name)
        return lambda X: getattr(self.estimator_, name)(self._check(X))

    def to_arrays(self) -> Arrays:
        """Return every fitted attribute as an array; an error for one that is not numbers."""
        arrays, given = super().to_arrays(), self.estimator_.get_params(deep=False)
        for name in sorted(vars(self.estimator_).keys() - given.keys()):
            value = np.asarray(getattr(self.estimator_, name))
            if value.dtype.kind not in "biuf":
                raise FixInput(
                    f"{self.plugin} cannot be saved: its attribute {name} is not an array of "
                    "numbers",
                    hint="obygaze run evaluates it without saving it",
                )
            arrays[_INSIDE + name] = value
        return arrays

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Set the fitted attributes of this (unfitted) estimator from its arrays."""
        super().from_arrays(arrays)
        self.estimator_ = self._new()
        for name, value in arrays.items():
            if name.startswith(_INSIDE):
                plain = value.item() if value.ndim == 0 else value
                setattr(self.estimator_, name.removeprefix(_INSIDE), plain)
