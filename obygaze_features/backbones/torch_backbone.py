"""Backbones of torch modules: their weights are their card's, their pixels the same everywhere.

Pictures are resized in integers (`video.resize`), by the processes that decode them, and values are
looked up, since floating point differs by device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.base import (
    Backbone,
    Card,
    Placement,
    Preset,
    check_pictures,
)
from obygaze_features.backbones.geometry import Geometry
from obygaze_features.backbones.weight_files import WeightFiles
from obygaze_features.backbones.weights import Hashes, check_sizes, is_verified
from obygaze_features.core.files import sha256_bytes
from obygaze_features.video.resize import known_picture

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Outputs = Callable[[Any, "Tensor", "Tensor", Geometry], dict[str, "Tensor"]]
"""Module, pixels [B, T, 3, S, S], mask [B, T] and geometry to every output of the family."""


class Preprocessor:
    """The preprocessing of one preset for one input size: frames in, pixels out.

    `table` is the float32 value of each of the 256 levels of each channel: looking values up is
    exact where arithmetic on a device may differ in the last bit. Some presets use the edge of the
    checkpoint.
    """

    def __init__(
        self,
        preset: Preset,
        size: int,
        checkpoint_edge: int | None = None,
        shape: tuple[int, int] = (0, 0),
    ) -> None:
        self.preset = preset
        self.resize = preset.resize_to(size, checkpoint_edge, shape)
        levels = np.arange(256, dtype=np.float64)
        if preset.rescale == "1/127.5-1":
            scaled = (levels * (1 / 127.5)).astype(np.float32) - np.float32(1)
        else:
            scaled = (levels * (1 / 255)).astype(np.float32)
        mean, std = (
            np.array(x, dtype=np.float32)[:, None] for x in (preset.mean, preset.std)
        )
        self.table = np.asarray((scaled[None] - mean) / std, dtype=np.float32)
        self._tables: dict[str, Tensor] = {}

    def __call__(self, pictures: Any) -> Tensor:
        """Return pictures [T, H, W, 3] uint8 as pixels [T, 3, S, S] float32."""
        return self.normalise(as_tensor(self.resize(pictures)))

    def normalise(self, pictures: Tensor) -> Tensor:
        """Return resized pictures [T, S, S, 3] uint8, on any device, as pixels [T, 3, S, S]."""
        import torch

        device = str(pictures.device)
        if device not in self._tables:
            self._tables[device] = torch.from_numpy(self.table).to(device)
        channels = zip(self._tables[device], pictures.int().unbind(3), strict=True)
        values = [
            row.index_select(0, x.reshape(-1)).view(x.shape) for row, x in channels
        ]
        return torch.stack(values, dim=1)

    def recipe(self) -> dict[str, Any]:
        """Return the settings that change the pixels, and a hash of a test picture's pixels."""
        others = ("sampling", "attention", "edge_from_checkpoint")
        pixels = self(known_picture()).numpy().astype("<f4").tobytes()
        sizes: dict[str, Any] = {"size": self.resize.crop, "edge": self.resize.edge}
        if self.resize.target is not None:
            sizes = {"shape": list(self.resize.target)}
        return {
            **{
                key: value
                for key, value in self.preset.to_json().items()
                if key not in others
            },
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
        card_of_weights: The card with the geometry and the arrays of the weights.
        module: The module with its weights.
        run: Returns the tensors that the family's `outputs` name.
        files: The files of the weights.
        hashes: The hashes of the weights, of `read_weights`.
        placement: The device, the precision and the attention.
    """

    def __init__(
        self,
        card: Card,
        card_of_weights: Card,
        module: torch.nn.Module,
        run: Outputs,
        *,
        files: WeightFiles,
        hashes: Hashes,
        placement: Placement,
    ) -> None:
        import torch

        check_sizes(card, card_of_weights.geometry, files)
        self.checkpoint_edge = files.shortest_edge
        self.pixels = Preprocessor(
            card.input,
            card_of_weights.geometry.size,
            self.checkpoint_edge,
            card_of_weights.geometry.shape,
        )
        super().__init__(card, card_of_weights, placement, self.pixels.resize)
        self.run = run
        self.hashes = hashes
        self.verified = is_verified(card, files, hashes)
        self.dtype: torch.dtype = getattr(torch, placement.dtype)
        self.module = move_module(module, placement.device, self.dtype).eval()
        # A TorchScript module has no requires_grad_.
        for parameter in self.module.parameters():
            parameter.requires_grad_(False)

    def normalise(self, pictures: Any) -> Tensor:
        """Return resized pictures [t, S, S, 3] as pixels [t, 3, S, S] float32 on the device."""
        return self.pixels.normalise(
            on_device(check_pictures(pictures), self.placement.device)
        )

    def outputs(
        self, pixels: Any, mask: npt.NDArray[np.float32]
    ) -> Mapping[str, Tensor]:
        """Return the tensors that the family names."""
        import torch

        device = self.placement.device
        with torch.inference_mode():
            x = on_device(pixels, device)
            if x.is_floating_point():
                x = x.to(self.dtype)
            return self.run(self.module, x, on_device(mask, device), self.geometry)

    def preprocessing(self) -> dict[str, Any]:
        """Return the settings of the preset, and a hash of what it makes of a test picture."""
        return self.pixels.recipe()


def move_module(
    module: torch.nn.Module, device: str, dtype: torch.dtype
) -> torch.nn.Module:
    """Move a module to a device, and its weights to a precision.

    Buffers that no checkpoint stores keep theirs, as in transformers: rotary frequencies are
    float32 in every precision.
    """
    saved = module.state_dict(keep_vars=True).values()
    for tensor in {id(tensor): tensor for tensor in saved}.values():
        if tensor.is_floating_point():
            tensor.data = tensor.data.to(dtype)
    return module.to(device=device)
