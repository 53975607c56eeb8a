"""Resize pictures that are tensors of PyTorch, on their device, to the bits of `resize`.

The weights are the integers of `resize`, and sums of integers are the same on every device and in
every order.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from obygaze_features.core.lazy import need
from obygaze_features.video.resize import (
    Axis,
    Resize,
    axis_of,
    known_picture,
    nearest_of,
    opencv_taps,
    shrinks_down_first,
)

# How many pictures are resized at once: their sums take four bytes a value.
AT_ONCE = 16


def resize_on_device(resize: Resize, pictures: Any) -> Any:
    """Return pictures, a tensor [T, H, W, 3] of uint8, resized and cropped as `resize` does."""
    parts = [_resized(resize, part) for part in pictures.split(AT_ONCE)]
    return _torch().cat(parts)


@lru_cache(maxsize=64)
def has_the_same_bits(resize: Resize, device: str) -> bool:
    """Return whether a test picture that a device resizes is that of `resize`, to the bit."""
    picture = known_picture()
    on_device = _torch().from_numpy(picture).to(device)
    resized = resize_on_device(resize, on_device).cpu().numpy()
    return np.array_equal(resized, resize(picture))


def _torch() -> Any:
    return need("torch", "gpu", "resizing on a GPU")


def _resized(resize: Resize, pictures: Any) -> Any:
    if resize.squash_first:
        pictures = _squashed(pictures, resize.squash_first)
    n_rows, n_columns = pictures.shape[1:3]
    size, box = resize.target_of(n_rows, n_columns)
    top, left, height, width = box
    if resize.filter == "nearest":
        rows = nearest_of(n_rows, size[0])[top : top + height]
        columns = nearest_of(n_columns, size[1])[left : left + width]
        return _taken(_taken(pictures, rows, 1), columns, 2)
    down = axis_of(n_rows, size[0], top, height, resize.filter, resize.resizer)
    across = axis_of(n_columns, size[1], left, width, resize.filter, resize.resizer)
    if shrinks_down_first(resize.resizer, (n_rows, n_columns), size):
        pictures = _along(pictures, down, 1)
        return _along(pictures, across, 2)
    pictures = _along(pictures[:, down.chosen], across, 2)
    return _along(pictures, down.inside, 1)


def _along(pictures: Any, axis: Axis, dim: int) -> Any:
    """Resize pictures along their rows (1) or columns (2)."""
    chosen = [slice(None)] * 4
    chosen[dim] = axis.chosen
    lines = pictures[tuple(chosen)]
    if axis.matrix is None:
        return lines
    last = lines.shape[dim] - 1
    sums: Any = 0
    for k in range(axis.weights.shape[1]):
        index = np.minimum(axis.first + k, last)
        sums = sums + _weighted(lines, index, axis.weights[:, k], dim)
    sums = sums + (1 << (axis.bits - 1))
    return (sums >> axis.bits).clamp(0, 255).to(_torch().uint8)


def _weighted(lines: Any, index: Any, weights: Any, dim: int) -> Any:
    """Return the lines of an index, each times its weight, in int32."""
    torch = _torch()
    shape = [1, 1, 1, 1]
    shape[dim] = len(weights)
    factors = torch.from_numpy(np.ascontiguousarray(weights)).to(lines.device)
    return _taken(lines, index, dim).to(torch.int32) * factors.reshape(shape)


def _taken(lines: Any, index: Any, dim: int) -> Any:
    torch = _torch()
    return lines.index_select(dim, torch.from_numpy(index.copy()).to(lines.device))


def _squashed(pictures: Any, size: int) -> Any:
    """Squash pictures to a square as OpenCV does: `squash_like_opencv` for tensors."""
    torch = _torch()
    n_rows, n_columns = pictures.shape[1:3]
    if (n_rows, n_columns) == (size, size):
        return pictures
    columns, column_weights = opencv_taps(n_columns, size, False)
    rows, row_weights = opencv_taps(n_rows, size, True)
    across: Any = 0
    for k in range(2):
        across = across + _weighted(pictures, columns[:, k], column_weights[:, k], 2)
    across = across >> 4
    total: Any = 2
    for k in range(2):
        total = total + (_weighted(across, rows[:, k], row_weights[:, k], 1) >> 16)
    return (total >> 2).clamp(0, 255).to(torch.uint8)
