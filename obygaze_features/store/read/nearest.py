"""Find the clips of a store whose features are most similar to a vector: exact, block by block."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput
from obygaze_features.store.read.reader import Store


def nearest(store: Store, level: str, vector: NDArray[Any], n: int = 12) -> list[tuple[str, float]]:
    """Return the clips with the largest cosine to a vector, and the cosine, the largest first.

    Args:
        store: The features; clips without them are left out.
        level: The array to compare; of a level with several axes, all its numbers.
        vector: As many numbers as the level has for a clip.
        n: The number of clips.
    """
    wanted, found = _unit(vector.reshape(1, -1))[0], list[tuple[str, float]]()
    for part in store.stream(level, missing="drop"):
        rows = _unit(part.values.reshape(len(part), -1))
        if rows.shape[1] != len(wanted):
            raise FixInput(f"{level} has {rows.shape[1]} numbers, the vector {len(wanted)}")
        found += zip(part.clip_ids.tolist(), (rows @ wanted).tolist(), strict=True)
        found = sorted(found, key=lambda one: (-one[1], one[0]))[:n]
    return found


def _unit(rows: NDArray[Any]) -> NDArray[np.float64]:
    values = rows.astype(np.float64)
    length = np.linalg.norm(values, axis=1, keepdims=True)
    unit: NDArray[np.float64] = values / np.where(length > 0, length, 1.0)
    return unit
