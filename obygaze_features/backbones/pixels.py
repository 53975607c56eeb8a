"""From uint8 frames to a model's pixels, the same on every device and under every version."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.cards import Preset
from obygaze_features.backbones.resample import resize_crop, squash_like_opencv
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import sha256_bytes

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Pixels:
    """The steps of one preset for one input size."""

    preset: Preset
    size: int
    edge: int

    @classmethod
    def of(cls, preset: Preset, size: int, checkpoint_edge: int | None = None) -> Pixels:
        """The steps with every size settled, by the checkpoint where the card leaves it to it."""
        edge = preset.edge or size
        if preset.edge_from_checkpoint and checkpoint_edge is not None:
            edge = checkpoint_edge
        if preset.resize == "squash":
            edge = size
        if edge < size:
            raise FixInput(f"frames of shortest edge {edge} cannot be cropped to {size} x {size}")
        return cls(preset, size, edge)

    def __call__(self, frames: Tensor) -> Tensor:
        """Frames [T, H, W, 3] uint8, on any device, as pixels [T, 3, S, S] float32."""
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
        """What decides the pixels: the settings, and a hash of what they do to a test picture."""
        import torch

        settled = {"size": self.size, "edge": self.edge, "antialias": True, "colour": "rgb"}
        plain = self.preset.as_dict()
        for key in ("sampling", "attention", "edge_from_checkpoint"):
            plain.pop(key)
        seen = self(torch.from_numpy(_test_picture())).numpy().astype("<f4").tobytes()
        return {**plain, **settled, "behaviour_sha256": sha256_bytes(seen)}


def _test_picture() -> npt.NDArray[np.uint8]:
    """Edges, ramps and a coarse texture, from whole numbers alone."""
    t, y, x, c = np.ogrid[0:2, 0:301, 0:397, 0:3]
    value = (x * (3 + c) + y * (5 - c) + (x * y) // 7 + t * 40) % 256
    blocks = ((x // 16 + y // 16 + c) % 2) * 90
    return np.asarray((value + blocks) % 256, dtype=np.uint8)


def as_tensor(array: npt.NDArray[Any]) -> Tensor:
    """An array as a tensor on the CPU, without a copy where its memory may be written to."""
    import torch

    array = np.ascontiguousarray(array)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def as_frames(frames: Any, device: str) -> Tensor:
    """Checked uint8 frames [T, H, W, 3] on a device."""
    import torch

    if isinstance(frames, np.ndarray):
        frames = as_tensor(frames)
    ok = isinstance(frames, torch.Tensor) and frames.dtype == torch.uint8
    if not ok or frames.ndim != 4 or frames.shape[-1] != 3 or not frames.numel():
        told = f"{getattr(frames, 'dtype', type(frames))} {list(getattr(frames, 'shape', []))}"
        raise FixInput(f"frames must be uint8 [T, H, W, 3], not {told}")
    if torch.device(device).type == "cuda" and not frames.is_cuda:
        # From pinned memory the copy runs while the device computes; from other memory it waits.
        frames = frames.pin_memory()
    on_device: Tensor = frames.to(device, non_blocking=True)
    return on_device
