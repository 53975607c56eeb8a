"""The device and the precision of a backbone, and the implementation of its attention."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from obygaze_features.core.errors import FixUsage

Attention = Literal["sdpa", "eager"]
DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Placement:
    """The device and the precision of a computation, and the implementation of attention.

    `attention` is a value of `attn_implementation` of transformers, such as "sdpa".
    """

    device: str = "cpu"
    dtype: str = "float32"
    attention: str = "sdpa"

    def __post_init__(self) -> None:
        _require_known("dtype", self.dtype, DTYPES)
        _require_known("attention", self.attention, get_args(Attention))

    def recipe(self) -> dict[str, Any]:
        """Return the settings that change the features. The device is not one of them."""
        return {"dtype": self.dtype, "attention": self.attention, "tf32": False}


def _require_known(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise FixUsage(
            f"unknown {name} {value!r}", hint=f"use one of {', '.join(known)}"
        )


ON_CPU = Placement()
