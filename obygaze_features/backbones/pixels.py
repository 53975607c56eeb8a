"""From uint8 frames to a model's pixels, the same on every device and under every version.

Image libraries change their filters with their releases, and floating point differs by device.
Resizing here is integer arithmetic from a table of weights that NumPy computes once, equal to
Pillow's and OpenCV's to the bit, and values are looked up: the same frames give the same pixels on
a laptop and on a GPU, with every version.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.base import Preset, check_frames
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import sha256_bytes

if TYPE_CHECKING:
    from torch import Tensor

_PILLOW_BITS = 22
_OPENCV_BITS = 11
_REACH = {"bilinear": 1.0, "bicubic": 2.0}
_ROWS_AT_ONCE = {"cpu": 1, "cuda": 32}


@dataclass(frozen=True)
class Taps:
    """For each output position, its input positions and their integer weights."""

    index: npt.NDArray[np.int64]
    weight: npt.NDArray[np.int32]

    def window(self, start: int, length: int) -> Taps:
        """Return the taps of a part of the output, for a crop after a resize."""
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
    """Return antialiased taps: the kernel is widened by the scale when shrinking."""
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
    """Return two taps without antialias: what OpenCV's linear resize reads, even when it shrinks.

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
    """Return the weighted sums along the first dimension, in int32."""
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
    """Resize frames [T, H, W, 3] to `size`; only `box` (top, left, h, w) of it is computed.

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
    """Squash frames [T, H, W, 3] to a square as cv2.resize does by default; same layout."""
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


@dataclass(frozen=True)
class Preprocessor:
    """The preprocessing of one preset for one input size: frames in, pixels out."""

    preset: Preset
    size: int
    edge: int

    @classmethod
    def of(cls, preset: Preset, size: int, checkpoint_edge: int | None = None) -> Preprocessor:
        """Return the preprocessing for a size; some presets use the edge of the checkpoint."""
        edge = preset.edge or size
        if preset.edge_from_checkpoint and checkpoint_edge is not None:
            edge = checkpoint_edge
        if preset.resize == "squash":
            edge = size
        if edge < size:
            raise FixInput(f"frames of shortest edge {edge} cannot be cropped to {size} x {size}")
        return cls(preset, size, edge)

    def __call__(self, frames: Tensor) -> Tensor:
        """Return frames [T, H, W, 3] uint8, on any device, as pixels [T, 3, S, S] float32."""
        if self.preset.squash_first:
            frames = squash_like_opencv(frames, self.preset.squash_first)
        height, width = int(frames.shape[1]), int(frames.shape[2])
        target, box = self._target(height, width)
        return self._normalise(resize_crop(frames, target, box, self.preset.filter))

    def _target(self, height: int, width: int) -> tuple[tuple[int, int], tuple[int, int, int, int]]:
        if self.preset.resize == "squash":
            return (self.size, self.size), (0, 0, self.size, self.size)
        if height <= width:
            target = (self.edge, self.edge * width // height)
        else:
            target = (self.edge * height // width, self.edge)
        top, left = (self._offset(length - self.size) for length in target)
        return target, (top, left, self.size, self.size)

    def _offset(self, spare: int) -> int:
        return round(spare / 2) if self.preset.crop_offset == "round" else spare // 2

    @cached_property
    def table(self) -> npt.NDArray[np.float32]:
        """The float32 value of each of the 256 levels of each channel.

        A pixel has 256 possible values, so looking them up is exact where arithmetic on a device
        may differ in the last bit.
        """
        levels = np.arange(256, dtype=np.float64)
        if self.preset.rescale == "1/127.5-1":
            scaled = (levels * (1 / 127.5)).astype(np.float32) - np.float32(1)
        else:
            scaled = (levels * (1 / 255)).astype(np.float32)
        mean = np.array(self.preset.mean, dtype=np.float32)[:, None]
        std = np.array(self.preset.std, dtype=np.float32)[:, None]
        return np.asarray((scaled[None] - mean) / std, dtype=np.float32)

    def _normalise(self, levels: Tensor) -> Tensor:
        import torch

        table = torch.from_numpy(self.table).to(levels.device)
        out = torch.empty(levels.shape, dtype=torch.float32, device=levels.device)
        for channel in range(3):
            flat = levels[:, channel].reshape(-1).int()
            out[:, channel] = table[channel].index_select(0, flat).view_as(levels[:, channel])
        return out

    def recipe(self) -> dict[str, Any]:
        """Return the settings that change the pixels, and a hash of a test picture's pixels."""
        import torch

        known = {"size": self.size, "edge": self.edge, "antialias": True, "colour": "rgb"}
        plain = self.preset.as_dict()
        for key in ("sampling", "attention", "edge_from_checkpoint"):
            plain.pop(key)
        pixels = self(torch.from_numpy(_test_picture())).numpy().astype("<f4").tobytes()
        return {**plain, **known, "behaviour_sha256": sha256_bytes(pixels)}


def _test_picture() -> npt.NDArray[np.uint8]:
    """Return edges, ramps and a coarse texture, computed in integers."""
    t, y, x, c = np.ogrid[0:2, 0:301, 0:397, 0:3]
    value = (x * (3 + c) + y * (5 - c) + (x * y) // 7 + t * 40) % 256
    blocks = ((x // 16 + y // 16 + c) % 2) * 90
    return np.asarray((value + blocks) % 256, dtype=np.uint8)


def as_tensor(array: npt.NDArray[Any]) -> Tensor:
    """Return an array as a tensor on the CPU, without a copy where its memory is writable."""
    import torch

    array = np.ascontiguousarray(array)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def as_frames(frames: Any, device: str) -> Tensor:
    """Return checked uint8 frames [T, H, W, 3] as a tensor on a device."""
    import torch

    check_frames(frames)
    tensor = as_tensor(frames) if isinstance(frames, np.ndarray) else frames
    if torch.device(device).type == "cuda" and not tensor.is_cuda:
        # From pinned memory the copy runs while the device computes; from other memory it waits.
        tensor = tensor.pin_memory()
    on_device: Tensor = tensor.to(device, non_blocking=True)
    return on_device
