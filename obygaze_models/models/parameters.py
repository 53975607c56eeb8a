"""The types of parameters of estimators, with their ranges; a protocol has the same names.

A parameter that a file cannot contain as it is, such as None, states the type in a file with
`InFile`.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_type_hints

from msgspec import Meta

from obygaze_features.core.schema_check import problem_with


@dataclass(frozen=True)
class InFile:
    """The type of a parameter in a file, if it is not the type in Python."""

    hint: Any


Positive = Annotated[
    float, Meta(gt=0, le=sys.float_info.max, description="a number, above 0")
]
Whole = Annotated[int, Meta(ge=0, description="a whole number, at least 0")]
Whole1 = Annotated[int, Meta(ge=1, description="a whole number, at least 1")]
# The range of scikit-learn.
Seed = Annotated[
    int, Meta(ge=0, lt=2**32, description="a whole number, 0 to 4294967295")
]
ClassWeight = Annotated[
    Literal["balanced", "none"] | Mapping[Any, Positive] | None,
    Meta(description="'balanced', None, or a weight above 0 for each class by name"),
    InFile(Literal["balanced", "none"]),
]
Names = Annotated[
    Annotated[Sequence[str], Meta(min_length=1)] | None,
    Meta(description="a list of names, or None"),
]
Solver = Literal["auto", "libsvm", "primal"]
# The file of the sentences of a model. Models that read no sentences have "".
Texts = Annotated[str, Meta(description="a file that `obygaze extract text` wrote")]
Attribute = Annotated[
    str, Meta(min_length=1, description="an attribute of the prompt file")
]


def type_in_file(estimator: type, name: str) -> Any:
    """Return the type that a parameter of an estimator class has in a file."""
    hint = get_type_hints(estimator, include_extras=True)[name]
    for one in getattr(hint, "__metadata__", ()):
        if isinstance(one, InFile):
            return one.hint
    return hint


def parameter_problem(estimator: Any) -> str | None:
    """Return what is wrong with a parameter of an estimator, or None if all can be used.

    Parameters that are estimators are not looked at.
    """
    kind: Any = type(estimator)
    for name, hint in _types_in_python(kind).items():
        value = getattr(estimator, name)
        problem = problem_with(_plain(value), hint)
        if problem:
            return f"{name} {problem}, got {value!r}"
    return None


@cache
def _types_in_python(estimator: Any) -> dict[str, Any]:
    """Return the types of the parameters of an estimator class that are no estimators."""
    hints = get_type_hints(estimator, include_extras=True)
    types = {}
    for one in fields(estimator):
        hint = hints[one.name]
        is_part = any(hasattr(kind, "get_params") for kind in get_args(hint))
        if one.init and not is_part:
            types[one.name] = hint
    return types


def _plain(value: Any) -> Any:
    """Return a value of Python for a value of NumPy, also inside lists and mappings."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {_plain(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
