"""Estimators of others as bytes that hold no code: what skops makes of them.

A file of skops names the types that it is made of, and only types that are trusted are built. Those
of scikit-learn, numpy and scipy that skops knows are trusted; others are once `trust` of
`core.parts` was called with their names, such as `sklearn.tree._tree.Tree`.
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
    ObygazeWarning,
    first_line,
)
from obygaze_features.core.lazy import need
from obygaze_features.core.parts import (
    find_part,
    is_own_code,
    trust,
    trusted_names,
    types_of,
)
from obygaze_models.models.common import FixTraining
from obygaze_models.models.estimator import Arrays, Classifier
from obygaze_models.models.registry import SCORES

SKOPS = "skops"  # the array with the bytes
SCHEMA = "schema.json"  # the file of skops with the types
# In memory, a list or a dictionary takes some twenty times the bytes of its JSON.
MAX_SCHEMA_BYTES = 8_000_000
MAX_SCHEMA_PARTS = 200_000
LIBRARY = "scikit-learn"
PURPOSE = "a saved estimator of scikit-learn"


def require_skops() -> None:
    """Raise an error if skops is not installed; it is not imported, which takes seconds."""
    if importlib.util.find_spec(SKOPS) is None:
        raise InstallExtra(
            f"{PURPOSE} needs the package {SKOPS!r}, which is not installed",
            hint=f'pip install "obygaze[{SKOPS}]"',
        )


def pack(estimator: Any) -> NDArray[np.uint8]:
    """Return the bytes of a fitted estimator; its types are trusted in this process from now on."""
    skops = need("skops.io", SKOPS, PURPOSE)
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
        size = archive.getinfo(SCHEMA).file_size
        if size > MAX_SCHEMA_BYTES:
            return f"{SCHEMA} has {size:,} bytes; at most {MAX_SCHEMA_BYTES:,} are read"
        schema = archive.read(SCHEMA)
    n_parts = schema.count(b"{") + schema.count(b"[")
    if n_parts > MAX_SCHEMA_PARTS:
        return f"{SCHEMA} has {n_parts:,} parts; at most {MAX_SCHEMA_PARTS:,} are read"
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
    try:
        problem = _size_problem(content)
    except Exception as error:
        raise Corrupt(f"not a file of skops: {first_line(error)}") from error
    if problem:
        raise Corrupt(f"the saved estimator is not read: {problem}")
    skops = need("skops.io", SKOPS, PURPOSE)
    try:
        needed = skops.get_untrusted_types(data=content)
    except Exception as error:
        raise Corrupt(f"not a file of skops: {first_line(error)}") from error
    untrusted = sorted(set(needed) - trusted_names() - set(of_code))
    if untrusted:
        options = " ".join(f"--trust {name}" for name in untrusted)
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
    skops = need("skops.io", SKOPS, PURPOSE)
    types = set(skops.get_untrusted_types(data=arrays[SKOPS].tobytes()))
    own_name = description["params"].get("class_name")
    if not is_own_code(own_name):
        return sorted(types)
    return [own_name, *sorted(types - types_of(find_part(own_name)))]


class HeldEstimator(Classifier):
    """A classifier that holds a fitted estimator of others, which skops saves."""

    held: Any

    def __getattr__(self, name: str) -> Any:
        """Return `predict_proba` or `decision_function`, where the estimator has it."""
        if name not in SCORES or "held" not in vars(self):
            raise AttributeError(name)
        return getattr(self.held, name)

    def to_arrays(self) -> Arrays:
        """Return the bytes of the estimator, its classes and its number of features."""
        return {**super().to_arrays(), SKOPS: pack(self.held)}

    def from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Set the estimator from its bytes."""
        if SKOPS not in arrays:
            raise Corrupt(f"the saved {type(self).__name__} has no array {SKOPS!r}")
        others = {name: array for name, array in arrays.items() if name != SKOPS}
        super().from_arrays(others)
        self.held = self._unpacked(arrays[SKOPS])

    def check_outputs(self) -> None:
        """Check nothing: an estimator of others need not take rows that are made up."""

    def _unpacked(self, data: NDArray[np.uint8]) -> Any:
        return unpack(data)


class KeptEstimator(HeldEstimator):
    """A fitted classifier of scikit-learn, or with its interface, that can be saved.

    Args:
        library: The version of scikit-learn that fitted it. Another one reads it with a warning.
    """

    def __init__(self, library: str = "") -> None:
        self.library = library

    @classmethod
    def of(cls, estimator: Any) -> Self:
        """Return a fitted estimator, ready to be saved."""
        for name in ("predict", "classes_", "n_features_in_"):
            if not hasattr(estimator, name):
                raise FixInput(
                    f"{type(estimator).__name__} cannot be saved as a model: it has no {name}",
                )
        kept = cls(f"{LIBRARY} {sklearn.__version__}")
        kept.held = estimator
        kept.classes_ = np.asarray(estimator.classes_)
        kept.n_features_in_ = int(estimator.n_features_in_)
        return kept

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Raise an error: it is made of an estimator that is fitted."""
        raise FixTraining(
            "a kept estimator is fitted already", hint="KeptEstimator.of(estimator)"
        )

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row."""
        return np.asarray(self.held.predict(np.asarray(X)))

    def _unpacked(self, data: NDArray[np.uint8]) -> Any:
        installed = f"{LIBRARY} {sklearn.__version__}"
        if self.library != installed:
            text = f"the model was saved with {self.library}, installed is {installed}"
            warnings.warn(text, ObygazeWarning, stacklevel=2)
        return super()._unpacked(data)
