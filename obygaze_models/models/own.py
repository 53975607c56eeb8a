"""Classifiers of others: of own code or of scikit-learn by name, or fitted by their owner.

They are saved as bytes that hold no code, which skops makes of them. Such bytes name the types that
they are made of, and only types that are trusted are built. Those of scikit-learn, numpy and scipy
that skops knows are trusted; others are once `trust` of `core.parts` was called with their names,
such as `sklearn.tree._tree.Tree`.
"""

from __future__ import annotations

import importlib.util
import io
import warnings
import zipfile
from collections.abc import Collection, Mapping
from typing import Any, Self

import numpy as np
import sklearn
from numpy.typing import NDArray

from obygaze_features.core.errors import (
    Corrupt,
    FixInput,
    FixUsage,
    InstallExtra,
    Mismatch,
    ObygazeWarning,
    first_line,
)
from obygaze_features.core.foreign import short_value
from obygaze_features.core.lazy import need
from obygaze_features.core.parts import (
    Part,
    find_part,
    is_own_code,
    trust,
    trusted_names,
    types_of,
)
from obygaze_features.core.shell import shell_word
from obygaze_models.models.common import FixTraining, Floats, Ints
from obygaze_models.models.estimator import Classifier, StateArrays
from obygaze_models.models.registry import SCORES, WITHOUT_SCORES, class_parameters

SKOPS = "skops"  # the array with the bytes
TYPES_FILE = "schema.json"  # the file of skops with the types
# In memory, a list or a dictionary takes some twenty times the bytes of its JSON.
MAX_TYPES_BYTES = 8_000_000
MAX_PARTS = 200_000
LIBRARY = f"scikit-learn {sklearn.__version__}"
NEEDED_FOR = "a saved estimator of scikit-learn"
PACKAGE = "package"  # the setting that holds the version of the code


class OwnClassifier(Classifier):
    """A classifier of own code or of scikit-learn, by its name.

    Args:
        class_name: The name of the class, or of a function that returns an estimator.
        settings: The parameters of the class, and `package` with the version of its code, which
            must be the version that is there.

    Attributes:
        held: The fitted estimator.
    """

    held: Any

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

    def _fit(self, X: Floats, codes: Ints, groups: NDArray[Any] | None) -> None:
        part = self._part()
        settings = dict(self.settings or {})
        settings.pop(PACKAGE, None)
        for parameter in class_parameters(part):
            # Files have lists only: a parameter whose default is a tuple gets a tuple.
            default = parameter.default
            value = settings.get(parameter.name)
            if isinstance(default, list | tuple) and isinstance(value, list | tuple):
                settings[parameter.name] = type(default)(value)
        own_class = part.load()
        model = part.call(lambda: own_class(**settings), "failed")
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
        chosen = self._outputs("predict", X)
        classes = self._classes_of_held()
        try:
            codes = [classes.index(value) for value in chosen.tolist()]
        except ValueError:
            raise self._part().refuse(
                "must return one class for each row from predict(),"
                f" {' or '.join(map(str, classes))}, got {short_value(chosen)}"
            ) from None
        return np.asarray(self.classes_[codes])

    def __getattr__(self, name: str) -> Any:
        """Return `predict_proba` or `decision_function`, where the estimator has it."""
        # Settings such as probability decide what there is.
        if name not in SCORES or not hasattr(vars(self).get("held"), name):
            raise AttributeError(name)
        return lambda X: self._scores(name, X)

    def _scores(self, method: str, X: Any) -> NDArray[Any]:
        """Return what a method gives for rows: a score of each class, or one of two classes.

        They are in the order of the classes, whatever order the estimator has them in.
        """
        scores = self._outputs(method, X)
        n_classes = len(self.classes_)
        shape: tuple[int, ...] = (len(X), n_classes)
        if method == "decision_function" and n_classes == 2:
            shape = (len(X),)
        is_numbers = scores.dtype.kind in "biuf" and np.isfinite(scores).all()
        if not is_numbers or scores.shape != shape:
            raise self._part().refuse(
                f"must return finite numbers of the shape {shape} from {method}(),"
                f" got {short_value(scores)}"
            )
        classes = self._classes_of_held()
        order = np.asarray(getattr(self.held, "classes_", classes)).tolist()
        if sorted(order) != sorted(classes):
            raise self._part().refuse(
                f"must have each class once in classes_, got {short_value(order)}"
            )
        places = [order.index(name) for name in classes]
        if scores.ndim == 1:
            return scores if places[0] == 0 else -scores
        return scores[:, places]

    def _classes_of_held(self) -> list[Any]:
        """Return what the estimator calls the classes: their numbers."""
        return list(range(len(self.classes_)))

    def _outputs(self, method: str, X: Any) -> NDArray[Any]:
        """Return what a method gives for rows: as many values as rows."""
        part = self._part()
        rows = self._check(X)
        called = getattr(self.held, method)
        outputs = part.call(lambda: np.asarray(called(rows)), f"failed in {method}()")
        if outputs.shape[:1] != (len(rows),):
            raise part.refuse(
                f"must return a value for each of {len(rows)} rows from {method}(),"
                f" got {short_value(outputs)}"
            )
        return outputs

    def to_arrays(self) -> StateArrays:
        """Return the bytes of the estimator, its classes and its number of features."""
        return {**super().to_arrays(), SKOPS: pack(self.held)}

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Set the estimator from its bytes."""
        if SKOPS not in arrays:
            raise Corrupt(f"the saved {type(self).__name__} has no array {SKOPS!r}")
        others = {name: array for name, array in arrays.items() if name != SKOPS}
        super().from_arrays(others)
        self.held = unpack(arrays[SKOPS], self._own_types())

    def _own_types(self) -> set[str]:
        """Return the types that whoever trusts the code trusts with it."""
        return types_of(self._part())

    def check_outputs(self) -> None:
        """Check nothing: an estimator of others need not take rows that are made up."""


class KeptEstimator(OwnClassifier):
    """A classifier with scikit-learn's interface that its owner fitted, so that it can be saved.

    Args:
        library: The version of scikit-learn that fitted it. Another one reads it with a warning.
    """

    def __init__(self, library: str = "") -> None:
        super().__init__()
        self.library = library

    @classmethod
    def of(cls, estimator: Any) -> Self:
        """Return a fitted estimator, ready to be saved."""
        for name in ("predict", "classes_", "n_features_in_"):
            if not hasattr(estimator, name):
                raise FixInput(
                    f"{type(estimator).__name__} cannot be saved as a model: it has no {name}",
                )
        kept = cls(LIBRARY)
        kept.held = estimator
        kept.classes_ = np.asarray(estimator.classes_)
        kept.n_features_in_ = int(estimator.n_features_in_)
        return kept

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Raise an error: it is made of an estimator that is fitted."""
        raise FixTraining(
            "a kept estimator is fitted already", hint="KeptEstimator.of(estimator)"
        )

    def _part(self) -> Part:
        kind = type(self.held)
        return Part(kind.__name__, self.library, kind.__module__, kind.__name__)

    def _classes_of_held(self) -> list[Any]:
        classes: list[Any] = self.classes_.tolist()
        return classes

    def _own_types(self) -> set[str]:
        if self.library != LIBRARY:
            text = f"the model was saved with {self.library}, installed is {LIBRARY}"
            warnings.warn(text, ObygazeWarning, stacklevel=2)
        return set()


def require_skops() -> None:
    """Raise an error if skops is not installed; it is not imported, which takes seconds."""
    if importlib.util.find_spec(SKOPS) is None:
        raise InstallExtra(
            f"{NEEDED_FOR} needs the package {SKOPS!r}, which is not installed",
            hint=f'pip install "obygaze[{SKOPS}]"',
        )


def pack(estimator: Any) -> NDArray[np.uint8]:
    """Return the bytes of a fitted estimator; its types are trusted in this process from now on."""
    skops = need("skops.io", SKOPS, NEEDED_FOR)
    try:
        data = skops.dumps(estimator)
        trust(skops.get_untrusted_types(data=data))
    except Exception as error:
        raise FixInput(
            f"{type(estimator).__name__} cannot be saved with skops: {first_line(error)}"
        ) from error
    problem = _size_problem(data)
    if problem:
        raise FixInput(
            f"{type(estimator).__name__} cannot be saved: {problem}",
            hint="fewer parts, such as fewer trees in a forest",
        )
    return np.frombuffer(data, dtype=np.uint8)


def _size_problem(data: bytes) -> str:
    """Return why a file of skops is too large to be read; "" if it is not. Nothing is parsed."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        n_bytes = sum(part.file_size for part in archive.infolist())
        if n_bytes > len(data):
            return (
                f"it unpacks to {n_bytes:,} bytes, and nothing in it may be compressed"
            )
        size = archive.getinfo(TYPES_FILE).file_size
        if size > MAX_TYPES_BYTES:
            return (
                f"{TYPES_FILE} has {size:,} bytes; at most {MAX_TYPES_BYTES:,} are read"
            )
        types = archive.read(TYPES_FILE)
    n_parts = types.count(b"{") + types.count(b"[")
    if n_parts > MAX_PARTS:
        return f"{TYPES_FILE} has {n_parts:,} parts; at most {MAX_PARTS:,} are read"
    return ""


def unpack(data: NDArray[np.uint8], of_code: Collection[str] = ()) -> Any:
    """Return the estimator of some bytes; an error names the types that are not trusted.

    Args:
        data: The bytes.
        of_code: Types of own code that is trusted.
    """
    if data.dtype != np.uint8 or data.ndim != 1:
        raise Corrupt("the bytes of a saved estimator must be one row of uint8")
    content = data.tobytes()
    skops = need("skops.io", SKOPS, NEEDED_FOR)
    try:
        problem = _size_problem(content)
        needed = [] if problem else skops.get_untrusted_types(data=content)
    except Exception as error:
        raise Corrupt(f"not a file of skops: {first_line(error)}") from error
    if problem:
        raise Corrupt(f"the saved estimator is not read: {problem}")
    untrusted = sorted(set(needed) - trusted_names() - set(of_code))
    if untrusted:
        options = " ".join(f"--trust {shell_word(name)}" for name in untrusted)
        raise FixUsage(
            f"the saved estimator is made of types that are not trusted: {', '.join(untrusted)}",
            hint=f"if you know them and who made it: {options} (in Python trust={untrusted})",
        )
    try:
        return skops.loads(content, trusted=needed)
    except Exception as error:
        raise Corrupt(
            f"the saved estimator cannot be read: {first_line(error)}"
        ) from error


def names_to_trust(
    description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> list[str]:
    """Return what somebody must trust who loads a saved estimator: own code, and types of skops.

    Args:
        description: Its class and settings.
        arrays: Its fitted attributes.
    """
    if SKOPS not in arrays:
        return []
    skops = need("skops.io", SKOPS, NEEDED_FOR)
    types = set(skops.get_untrusted_types(data=arrays[SKOPS].tobytes()))
    own_name = description["params"].get("class_name")
    if not is_own_code(own_name):
        return sorted(types)
    return [own_name, *sorted(types - types_of(find_part(own_name)))]
