"""From uint8 frames to a model's pixels, the same on every device and under every version.

Pictures are resized in integers (`video.resize`), by the processes that decode them, and values are
looked up, since floating point differs by device.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.base import Preset, check_frames
from obygaze_features.core.files import sha256_bytes
from obygaze_features.video.resize import Resize, known_picture

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Preprocessor:
    """The preprocessing of one preset for one input size: frames in, pixels out."""

    preset: Preset
    resize: Resize

    @classmethod
    def of(cls, preset: Preset, size: int, checkpoint_edge: int | None = None) -> Preprocessor:
        """Return the preprocessing for a size; some presets use the edge of the checkpoint."""
        return cls(preset, preset.resize_to(size, checkpoint_edge))

    def __call__(self, frames: Any) -> Tensor:
        """Return frames [T, H, W, 3] uint8 as pixels [T, 3, S, S] float32."""
        return self.normalise(as_tensor(self.resize(frames)))

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

    @lru_cache(maxsize=8)  # noqa: B019
    def _table_on(self, device: str) -> Tensor:
        """Return the table on a device, where it stays."""
        import torch

        return torch.from_numpy(self.table).to(device)

    def normalise(self, pictures: Tensor) -> Tensor:
        """Return resized pictures [T, S, S, 3] uint8, on any device, as pixels [T, 3, S, S]."""
        import torch

        levels = pictures.permute(0, 3, 1, 2)
        table = self._table_on(str(levels.device))
        out = torch.empty(levels.shape, dtype=torch.float32, device=levels.device)
        for channel in range(3):
            flat = levels[:, channel].reshape(-1).int()
            out[:, channel] = table[channel].index_select(0, flat).view_as(levels[:, channel])
        return out

    def recipe(self) -> dict[str, Any]:
        """Return the settings that change the pixels, and a hash of a test picture's pixels."""
        sizes = {"size": self.resize.crop, "edge": self.resize.edge}
        plain = self.preset.to_json()
        for key in ("sampling", "attention", "edge_from_checkpoint"):
            plain.pop(key)
        pixels = self(known_picture()).numpy().astype("<f4").tobytes()
        return {
            **plain,
            **sizes,
            "antialias": True,
            "colour": "rgb",
            "behaviour_sha256": sha256_bytes(pixels),
        }


def as_tensor(array: npt.NDArray[Any]) -> Tensor:
    """Return an array as a tensor on the CPU, without a copy where its memory is writable."""
    import torch

    array = np.ascontiguousarray(array)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def as_frames(frames: Any, device: str) -> Tensor:
    """Return checked uint8 frames [T, H, W, 3] as a tensor on a device."""
    check_frames(frames)
    return on_device(frames, device)


def on_device(values: Any, device: str) -> Tensor:
    """Return an array or tensor on a device; the copy to a GPU runs while the host goes on."""
    import torch

    tensor: Tensor = as_tensor(values) if isinstance(values, np.ndarray) else values
    if torch.device(device).type == "cuda" and not tensor.is_cuda:
        # From other memory the host waits. Torch pins the same memory again for later copies.
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
