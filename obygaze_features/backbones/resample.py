"""Resizing of uint8 frames in integers: Pillow's and OpenCV's numbers, on every device the same.

Image libraries change their filters under one's feet, and floating point differs by device. Both
methods here are integer arithmetic from a table of weights that NumPy computes once, so that the
same frames give the same pixels on a laptop and on a GPU, this year and next.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

_PILLOW_BITS = 22
_OPENCV_BITS = 11
_REACH = {"bilinear": 1.0, "bicubic": 2.0}
_ROWS_AT_ONCE = {"cpu": 1, "cuda": 32}


@dataclass(frozen=True)
class Taps:
    """For each output position, which input positions count and by which integer weight."""

    index: npt.NDArray[np.int64]
    weight: npt.NDArray[np.int32]

    def window(self, start: int, length: int) -> Taps:
        """The taps of a part of the output: what a crop needs of a resize."""
        return Taps(self.index[start : start + length], self.weight[start : start + length])


def _bilinear(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.maximum(1.0 - np.abs(x), 0.0)


def _bicubic(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    # Keys' kernel with a = -0.5, in the form that rounds as Pillow's does.
    a, x = -0.5, np.abs(x)
    inner = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    outer = (((x - 5.0) * x + 8.0) * x - 4.0) * a
    return np.where(x < 1.0, inner, np.where(x < 2.0, outer, 0.0))


@lru_cache(maxsize=256)
def pillow_taps(n_in: int, n_out: int, kernel: str) -> Taps:
    """Antialiased taps: the kernel is widened by the scale when shrinking."""
    scale = n_in / n_out
    widen = max(scale, 1.0)
    reach = _REACH[kernel] * widen
    centre = (np.arange(n_out) + 0.5) * scale
    first = np.maximum((centre - reach + 0.5).astype(np.int64), 0)
    last = np.minimum((centre + reach + 0.5).astype(np.int64), n_in)
    count = int(np.ceil(reach)) * 2 + 1
    weights, total = np.zeros((n_out, count)), np.zeros(n_out)
    function = _bilinear if kernel == "bilinear" else _bicubic
    for k in range(count):
        at = (first + k - centre + 0.5) * (1.0 / widen)
        weights[:, k] = np.where(first + k < last, function(at), 0.0)
        total += weights[:, k]
    weights /= total[:, None]
    rounded = np.trunc(weights * (1 << _PILLOW_BITS) + np.where(weights < 0, -0.5, 0.5))
    index = np.minimum(first[:, None] + np.arange(count), n_in - 1)
    used = rounded.any(axis=0)
    return Taps(index[:, used], rounded[:, used].astype(np.int32))


@lru_cache(maxsize=256)
def opencv_taps(n_in: int, n_out: int, down: bool) -> Taps:
    """Two taps without antialias: what OpenCV's linear resize looks at, even when it shrinks.

    Beyond the border it takes the edge once across, but twice (and rounds twice) down.
    """
    at = ((np.arange(n_out) + 0.5) * (1.0 / (n_out / n_in)) - 0.5).astype(np.float32)
    first = np.floor(at).astype(np.int64)
    part = at - first.astype(np.float32)
    if not down:
        part = np.where((first < 0) | (first >= n_in - 1), np.float32(0), part)
    one = np.float32(1 << _OPENCV_BITS)
    weight = np.rint(np.stack([(np.float32(1) - part) * one, part * one], axis=1))
    index = np.clip(np.stack([first, first + 1], axis=1), 0, n_in - 1)
    return Taps(index, weight.astype(np.int32))


def _weighted(x: Tensor, taps: Taps) -> Tensor:
    """The weighted sums along the first dimension, in int32."""
    import torch

    index = torch.from_numpy(np.ascontiguousarray(taps.index.T)).to(x.device)
    weight = torch.from_numpy(np.ascontiguousarray(taps.weight.T)).to(x.device)
    weight = weight.view(len(weight), -1, *[1] * (x.ndim - 1))
    total = x.index_select(0, index[0]).int().mul_(weight[0])
    for k in range(1, len(index)):
        total.addcmul_(x.index_select(0, index[k]).int(), weight[k])
    return total


def _pillow_pass(x: Tensor, taps: Taps) -> Tensor:
    import torch

    total = _weighted(x, taps).add_(1 << (_PILLOW_BITS - 1))
    return total.bitwise_right_shift_(_PILLOW_BITS).clamp_(0, 255).to(torch.uint8)


def resize_crop(
    frames: Tensor,
    size: tuple[int, int],
    box: tuple[int, int, int, int],
    kernel: str,
) -> Tensor:
    """Frames [T, H, W, 3] resized to `size`, of which only `box` (top, left, h, w) is computed.

    Equal to Pillow's antialiased resize followed by a crop, to the bit: across first, rounded to
    uint8, then down, as Pillow always did up to 11 (13 goes down first where that is cheaper,
    which moves some pixels by a level). The result is [T, 3, h, w].
    """
    import torch

    n_in, (top, left, height, width) = frames.shape[1:3], box
    across = pillow_taps(int(n_in[1]), size[1], kernel).window(left, width)
    down = pillow_taps(int(n_in[0]), size[0], kernel).window(top, height)
    start, stop = int(down.index.min()), int(down.index.max()) + 1
    down = Taps(down.index - start, down.weight)
    step = _ROWS_AT_ONCE.get(frames.device.type, 1)
    parts = []
    for some in torch.split(frames, step):
        rows = some[:, start:stop].permute(2, 0, 1, 3).contiguous()  # [W, t, H, 3]
        narrow = rows[left : left + width]
        if size[1] != n_in[1]:
            narrow = _pillow_pass(rows, across)
        columns = narrow.permute(2, 1, 3, 0).contiguous()  # [H, t, 3, w]
        short = columns[top - start : top - start + height]
        if size[0] != n_in[0]:
            short = _pillow_pass(columns, down)
        parts.append(short.permute(1, 2, 0, 3))
    return torch.cat(parts)


def squash_like_opencv(frames: Tensor, size: int) -> Tensor:
    """Frames [T, H, W, 3] squashed to a square as cv2.resize does by default; same layout."""
    import torch

    height, width = int(frames.shape[1]), int(frames.shape[2])
    if (height, width) == (size, size):
        return frames
    step = _ROWS_AT_ONCE.get(frames.device.type, 1)
    across, down = opencv_taps(width, size, False), opencv_taps(height, size, True)
    parts = []
    for some in torch.split(frames, step):
        sums = _weighted(some.permute(2, 0, 1, 3).contiguous(), across)  # [w, t, H, 3]
        sums = sums.permute(2, 1, 0, 3).contiguous().bitwise_right_shift_(4)  # [H, t, w, 3]
        total = _truncated(sums, down, 0).add_(_truncated(sums, down, 1)).add_(2)
        rounded = total.bitwise_right_shift_(2).clamp_(0, 255).to(torch.uint8)
        parts.append(rounded.permute(1, 0, 2, 3))
    return torch.cat(parts)


def _truncated(sums: Tensor, taps: Taps, k: int) -> Tensor:
    part = _weighted(sums, Taps(taps.index[:, k : k + 1], taps.weight[:, k : k + 1]))
    return part.bitwise_right_shift_(16)
