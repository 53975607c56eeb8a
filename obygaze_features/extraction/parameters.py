"""Parameters that several functions of this room have."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeAlias

from obygaze_features.core.machine import MAX_WORKERS
from obygaze_features.core.options import Option
from obygaze_features.core.workspace import PathLike

TIMEOUT_S = 300.0

# The titles of groups of options.
FEATURES = "Features"
MACHINE = "Machine"

# The parameters that `plan` and `run` share.
Backbones: TypeAlias = Annotated[
    str | Sequence[str],
    Option("-b --backbone", metavar="NAME", group=FEATURES, is_repeated=True),
]
ArrayNames: TypeAlias = Annotated[
    Sequence[str], Option(metavar="A,B", separator=",", group=FEATURES)
]
Weights: TypeAlias = Annotated[
    Sequence[str] | Mapping[str, PathLike],
    Option(metavar="[NAME=]PATH", group=FEATURES, is_repeated=True),
]
Stores: TypeAlias = Annotated[
    Mapping[str, PathLike] | None,
    Option("--store", metavar="NAME=STORE", group=FEATURES),
]
ComputeDtype: TypeAlias = Annotated[
    Literal["float32", "bfloat16", "float16"], Option(group=FEATURES)
]
Device: TypeAlias = Annotated[str, Option(group=MACHINE)]
Workers: TypeAlias = Annotated[
    int | None,
    Option(least=1, most=MAX_WORKERS, group=MACHINE, shown_default="(cores)"),
]
