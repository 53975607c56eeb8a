"""The only place that knows whether a backbone's arrays are torch's or NumPy's."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


def stack(pixels: Sequence[Any]) -> Any:
    """One batch of several clips' pixels, on the device they are on."""
    if isinstance(pixels[0], np.ndarray):
        return np.stack(pixels)
    import torch

    return torch.stack(list(pixels))


def to_numpy(level: Any) -> npt.NDArray[np.float32]:
    """A level in main memory, single precision; waits for the device."""
    if isinstance(level, np.ndarray):
        return level.astype(np.float32, copy=False)
    array: npt.NDArray[np.float32] = level.float().cpu().numpy()
    return array


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that a smaller batch may go through."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error).lower() for words in _OUT_OF_MEMORY
    )


def free_device_memory() -> None:
    """Give back what a failed batch took."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
