"""The types of parameters of estimators, with their ranges; a protocol has the same names.

A parameter that a file cannot contain as it is, such as None, states the type in a file with
`InFile`.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_type_hints

from msgspec import Meta


@dataclass(frozen=True)
class InFile:
    """The type of a parameter in a file, if it is not the type in Python."""

    hint: Any


Positive = Annotated[
    float, Meta(gt=0, le=sys.float_info.max, description="a number, above 0")
]
Whole = Annotated[int, Meta(ge=0, description="a whole number, at least 0")]
Whole1 = Annotated[int, Meta(ge=1, description="a whole number, at least 1")]
Seed = Annotated[int, Meta(ge=0, lt=2**32)]  # the range of scikit-learn
ClassWeight = Annotated[
    Literal["balanced"] | Mapping[Any, float] | None,
    InFile(Literal["balanced", "none"]),
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
