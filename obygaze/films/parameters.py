"""Parameters that several functions of this room have."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from obygaze_features.core.options import Option
from obygaze_features.core.workspace import PathLike

Tables = Annotated[PathLike | Sequence[PathLike], Option(is_repeated=True)]
Seconds = Annotated[str | float | None, Option(metavar="SECONDS")]
OrderWords = Annotated[
    Mapping[str, str] | None, Option("--order", metavar="COLUMN=WORDS")
]
