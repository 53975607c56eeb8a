"""Backbones of torch modules: their weights are their card's, their pixels the same everywhere.

Pictures are resized in integers (`video.resize`), by the processes that decode them, and values are
looked up, since floating point differs by device.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.base import (
    Backbone,
    Card,
    Placement,
    Preset,
    card_recipe,
    check_frames,
    check_pixels,
)
from obygaze_features.backbones.geometry import Geometry, Level
from obygaze_features.backbones.hub import WeightFiles
from obygaze_features.backbones.weights import Hashes, check_sizes, is_verified
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import sha256_bytes
from obygaze_features.video.resize import Resize, known_picture

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Outputs = Callable[[Any, "Tensor", "Tensor", Geometry], dict[str, "Tensor"]]
"""Module, pixels [B, T, 3, S, S], mask [B, T] and geometry to every output of the family."""


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
        plain = self.preset.as_dict()
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


class TorchBackbone(Backbone):
    """A backbone made of a torch module, of a function that runs it, and of the card's preset.

    Args:
        card: The card that the weights must match.
        found: The card with the geometry and the levels of the weights.
        module: The module with its weights.
        outputs: Returns the tensors that the family's `outputs` name.
        files: The files of the weights.
        hashes: The hashes of the weights, of `read_weights`.
        placement: The device, the precision and the attention.
    """

    def __init__(
        self,
        card: Card,
        found: Card,
        module: torch.nn.Module,
        outputs: Outputs,
        *,
        files: WeightFiles,
        hashes: Hashes,
        placement: Placement,
    ) -> None:
        import torch

        check_sizes(card, found.geometry, files)
        super().__init__(card, found, placement)
        self.outputs, self.hashes = outputs, hashes
        self.verified = is_verified(card, files, hashes)
        self.checkpoint_edge = files.shortest_edge
        self.pixels = Preprocessor.of(card.input, self.geometry.size, self.checkpoint_edge)
        self.dtype: torch.dtype = getattr(torch, placement.dtype)
        self.module = place(module, placement.device, self.dtype).eval()
        self.module.requires_grad_(False)
        if placement.compiled:
            compile_layers(self.module)

    @property
    def resize(self) -> Resize | None:
        """How each picture is resized when it is decoded."""
        return self.pixels.resize

    def normalise(self, pictures: Any) -> Tensor:
        """Return resized pictures [t, S, S, 3] as pixels [t, 3, S, S] float32 on the device."""
        return self.pixels.normalise(as_frames(pictures, self.placement.device))

    def forward(
        self, pixels: Any, mask: Any = None, only: Collection[str] | None = None
    ) -> dict[str, Tensor]:
        """Return the levels of normalised pixels [B, T, 3, S, S], or `only` some of them."""
        import torch

        check_pixels(pixels, self.geometry, self.card.label)
        levels = {
            name: level for name, level in self.levels.items() if only is None or name in only
        }
        with torch.inference_mode():
            x = on_device(pixels, self.placement.device).to(self.dtype)
            outputs = self.outputs(self.module, x, self._mask(mask, len(x)), self.geometry)
            return {name: _checked(outputs, level, len(x)) for name, level in levels.items()}

    def _mask(self, mask: Any, n_clips: int) -> Tensor:
        import torch

        shape = (n_clips, self.geometry.frames)
        if mask is None:
            return torch.ones(shape, device=self.placement.device)
        given = torch.as_tensor(mask, dtype=torch.float32)
        if tuple(given.shape) != shape:
            raise FixInput(f"the mask must be {list(shape)}, got {list(given.shape)}")
        if not self.takes_mask and not bool((given == 1).all()):
            raise FixInput(f"{self.card.label} takes no mask: every clip needs all its frames")
        if not bool(((given == 0) | (given == 1)).all()) or not bool(given.any(dim=1).all()):
            raise FixInput("the mask must be 1 for real frames and 0 for padding, with some 1")
        return on_device(given, self.placement.device)

    def recipe(self) -> dict[str, Any]:
        """Return what changes the numbers: card, weights, preprocessing, precision, attention."""
        return {
            **card_recipe(self.card, self.geometry, self.levels, self.verified),
            "weights": dict(self.hashes),
            "preprocessing": self.pixels.recipe(),
            "compute": self.placement.recipe(),
        }


def _checked(outputs: Mapping[str, Tensor], level: Level, n_clips: int) -> Tensor:
    """Return a level's tensor, or raise an error where its shape is not the declared one."""
    tensor = outputs[level.source]
    if tuple(tensor.shape) != (n_clips, *level.shape):
        expected = [n_clips, *level.shape]
        raise FixInput(
            f"{level.name}: expected shape {expected}, the model returned {list(tensor.shape)}",
            hint="check the card's [tokens] against the checkpoint: obygaze backbones check",
        )
    return tensor


def place(module: torch.nn.Module, device: str, dtype: torch.dtype) -> torch.nn.Module:
    """Move a module to a device, and its weights to a precision.

    Buffers that no checkpoint stores keep theirs, as in transformers: rotary frequencies are
    float32 in every precision.
    """
    saved = module.state_dict(keep_vars=True).values()
    for tensor in {id(tensor): tensor for tensor in saved}.values():
        if tensor.is_floating_point():
            tensor.data = tensor.data.to(dtype)
    return module.to(device=device)


def compile_layers(module: torch.nn.Module, backend: str = "inductor") -> int:
    """Compile each transformer layer by itself; return how many there are.

    Families call their sub-modules one by one, so compiling the whole would compile nothing.
    """
    layers = [part for part in module.modules() if type(part).__name__.endswith("Layer")]
    for layer in layers:
        layer.compile(backend=backend)
    return len(layers)
