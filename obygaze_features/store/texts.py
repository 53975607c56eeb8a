"""Texts with their embeddings, in an npz file: what `extract text` writes and audits read."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import write_new
from obygaze_features.store.importing.arrays import read_arrays
from obygaze_features.store.importing.files import to_texts

# The facts of each text, next to its embedding.
WORDS = ("prompt", "template", "attribute")


@dataclass(frozen=True)
class TextTable:
    """Texts and their embeddings, one row for each text. The embeddings are not normalised.

    `space_id` names the space that the embeddings share with an array of a store; "" if unknown.
    """

    embeddings: npt.NDArray[np.float32]
    prompt: Sequence[str]
    template: Sequence[str]
    attribute: Sequence[str]
    space_id: str

    def __post_init__(self) -> None:
        values = np.ascontiguousarray(self.embeddings, dtype=np.float32)
        object.__setattr__(self, "embeddings", values)
        lengths = {len(values), *(len(getattr(self, name)) for name in WORDS)}
        if values.ndim != 2 or not values.size or len(lengths) != 1:
            raise FixInput(
                "each row must have an embedding, a prompt, a template and an attribute"
            )
        wrong = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(wrong):
            raise FixInput(f"the embedding of row {wrong[0]} contains NaN or infinity")


def write_texts(path: Path, table: TextTable, *, force: bool = False) -> Path:
    """Write a table of texts as an npz file."""
    stream = io.BytesIO()
    np.savez(stream, **vars(table))
    write_new(path, stream.getvalue(), force=force)
    return path


def read_texts(path: str | Path) -> TextTable:
    """Return the texts of an npz file, which must have `embeddings` and `attribute`."""
    arrays = read_arrays(Path(path))
    for name in ("embeddings", "attribute"):
        if name not in arrays:
            problem = f"missing array {name}"
            hint = "make the file with obygaze extract text"
            raise FixInput(problem, where=str(path), hint=hint)
    embeddings = arrays["embeddings"]
    if embeddings.dtype.kind not in "fiu":
        problem = f"embeddings must be numbers, got {embeddings.dtype}"
        raise FixInput(problem, where=str(path))
    words: dict[str, Any] = {}
    for name in (*WORDS, "space_id"):
        words[name] = [""] * len(np.atleast_1d(embeddings))
        if name in arrays:
            words[name] = to_texts(np.atleast_1d(arrays[name]), name, path)
    words["space_id"] = words["space_id"][0]
    return TextTable(embeddings=embeddings, **words)
