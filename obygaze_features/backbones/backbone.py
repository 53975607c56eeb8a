"""Backbones: frames to pixels, pixels to arrays of features, and the recipe of the features.

Processes that decode pictures resize them with integer arithmetic (`video.resize`). Pixel values
are looked up in a table, because floating point results differ between devices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from obygaze_features.backbones.card import (
    Card,
    Preset,
    card_recipe,
    require_pictures,
)
from obygaze_features.backbones.geometry import Geometry
from obygaze_features.backbones.placement import ON_CPU, Placement
from obygaze_features.backbones.processors import check_pixel_file, shortest_edge
from obygaze_features.backbones.weight_files import (
    FileHashes,
    WeightFiles,
)
from obygaze_features.backbones.weights import (
    is_verified,
)
from obygaze_features.core.errors import FixInput
from obygaze_features.core.files import sha256_bytes
from obygaze_features.core.notebook import short_repr
from obygaze_features.video.decoded_clip import PictureView
from obygaze_features.video.resize import Resize, make_test_picture

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from obygaze_features.video.worker import ClipView

# Settings of a preset that do not change pixels.
_NOT_OF_PIXELS = ("sampling", "attention", "edge_from_checkpoint")
Outputs = Callable[[Any, "Tensor", "Tensor", Geometry], dict[str, "Tensor"]]
"""Maps module, pixels [B, T, 3, S, S], mask [B, T] and geometry to all outputs of the family."""


class Backbone(ABC):
    """A model that computes features.

    Args:
        card: The card of the backbone.
        card_of_weights: The card with the geometry and arrays of the weights. The default is
            `card`.
        placement: The device, the precision, and the implementation of attention.

    `view` is the part of a clip that is the input of the model.
    """

    # Whether the weights are verified as the card's checkpoint, and the sha256 of each file.
    verified = True
    hashes: FileHashes = MappingProxyType({})
    # The precision, if it is the same for every placement.
    computes_in = ""
    view: ClipView

    def __init__(
        self,
        card: Card,
        card_of_weights: Card | None = None,
        placement: Placement = ON_CPU,
    ) -> None:
        card_of_weights = card_of_weights or card
        family = card.family
        self.card = card
        self.placement = placement
        self.geometry = card_of_weights.geometry
        self.arrays = card_of_weights.arrays
        self.takes_mask = family.takes_mask
        self.activation_bytes = family.activation_bytes(
            self.geometry, placement.dtype, placement.attention
        )

    def __repr__(self) -> str:
        facts = (
            repr(self.card.label),
            self.card.input_size(self.geometry),
            f"{self.placement.dtype} on {self.placement.device}",
            ", ".join(self.arrays),
        )
        return short_repr(type(self).__name__, *facts)

    @abstractmethod
    def preprocessing(self) -> dict[str, Any]:
        """Return the settings that change the input of the model, as plain values."""

    def named_arrays(
        self, outputs: Mapping[str, Any], n_clips: int, only: Collection[str] | None
    ) -> dict[str, Any]:
        """Return the arrays of the card from outputs of the model, each [n_clips, ...].

        Raise an error for an output whose shape is not the shape that the card states. `only`
        selects arrays.
        """
        arrays = {}
        for name, array in self.arrays.items():
            if only is not None and name not in only:
                continue
            values = outputs[array.source]
            expected = [n_clips, *array.shape]
            got = list(values.shape)
            if got != expected:
                hint = "correct [tokens] of the card to match the checkpoint"
                if self.card.code:
                    hint = f"correct arrays= of the card: the model returned {name} {got[1:]}"
                raise FixInput(
                    f"{name}: expected the shape {expected} from the model, got {got}",
                    hint=hint,
                )
            arrays[name] = values
        return arrays

    def recipe(self) -> dict[str, Any]:
        """Return the settings that change the features, as plain values."""
        compute = self.placement.recipe()
        if self.computes_in:
            compute = {"dtype": self.computes_in}
        return {
            **card_recipe(self.card, self.geometry, self.arrays, self.verified),
            "weights": dict(self.hashes),
            "preprocessing": self.preprocessing(),
            "compute": compute,
        }


class PictureBackbone(Backbone):
    """A model whose input is pictures of a clip.

    It has the arguments of `Backbone`, and `resize`, the resizing of decoded pictures. The default
    is the resizing of the family.
    """

    view: PictureView

    def __init__(
        self,
        card: Card,
        card_of_weights: Card | None = None,
        placement: Placement = ON_CPU,
        resize: Resize | None = None,
    ) -> None:
        super().__init__(card, card_of_weights, placement)
        self.resize = resize or card.family.resize(card)
        sampling = card.input.sampling
        self.view = PictureView(self.geometry.frames, sampling, self.resize)

    @abstractmethod
    def normalise(self, pictures: Any) -> Any:
        """Return pictures [t, h, w, 3] uint8, resized by `resize`, as pixels [t, 3, S, S]."""

    @abstractmethod
    def outputs(self, pixels: Any, mask: npt.NDArray[np.float32]) -> Mapping[str, Any]:
        """Return the outputs of the family for checked pixels and a checked mask."""

    def preprocess(self, pictures: Any) -> Any:
        """Return pictures of any size, [t, H, W, 3] uint8, as pixels [t, 3, S, S]."""
        return self.normalise(self.resize(check_pictures(pictures)))

    def forward(
        self, pixels: Any, mask: Any = None, only: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Return the arrays of pixels [B, T, 3, S, S], each [B, ...]; `only` selects arrays.

        A mask [B, T] is 1 for real frames and 0 for padding, if the family takes a mask.
        """
        check_pixels(pixels, self.geometry, self.card.label)
        outputs = self.outputs(pixels, self._checked_mask(mask, len(pixels)))
        return self.named_arrays(outputs, len(pixels), only)

    def _checked_mask(self, mask: Any, n_clips: int) -> npt.NDArray[np.float32]:
        shape = (n_clips, self.geometry.frames)
        if mask is None:
            return np.ones(shape, np.float32)
        values = np.asarray(mask).astype(np.float32)
        if not self.takes_mask and not (values == 1).all():
            raise FixInput(
                f"{self.card.label} takes no mask: every clip needs all its frames"
            )
        are_flags = values.shape == shape and bool(np.isin(values, (0, 1)).all())
        if not are_flags or not values.any(axis=1).all():
            raise FixInput(
                f"the mask must be {list(shape)}, 1 for real frames and 0 for padding, with some 1"
                f" in each clip; got {list(values.shape)}"
            )
        return values


def of_pictures(backbone: Backbone, purpose: str) -> PictureBackbone:
    """Return a backbone. Raise an error if its input is not pictures."""
    require_pictures(backbone.card, purpose)
    return cast(PictureBackbone, backbone)


class Preprocessor:
    """The preprocessing of a preset: frames in, pixels out.

    `table` contains the float32 value of each of the 256 levels of each channel. Looking values up
    is exact, while arithmetic on a device may differ in the last bit.
    """

    def __init__(self, preset: Preset, resize: Resize) -> None:
        self.preset = preset
        self.resize = resize
        levels = np.arange(256, dtype=np.float64)
        if preset.rescale == "1/127.5-1":
            scaled = (levels * (1 / 127.5)).astype(np.float32) - np.float32(1)
        else:
            scaled = (levels * (1 / 255)).astype(np.float32)
        mean = np.array(preset.mean, dtype=np.float32)[:, None]
        std = np.array(preset.std, dtype=np.float32)[:, None]
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
        channels = []
        levels = pictures.int().unbind(3)
        for row, level in zip(self._tables[device], levels, strict=True):
            values = row.index_select(0, level.reshape(-1))
            channels.append(values.view(level.shape))
        return torch.stack(channels, dim=1)

    def recipe(self) -> dict[str, Any]:
        """Return the settings that change the pixels, and a hash of a test picture's pixels."""
        settings = self.preset.to_json()
        for name in _NOT_OF_PIXELS:
            del settings[name]
        sizes: dict[str, Any] = {"size": self.resize.crop, "edge": self.resize.edge}
        if self.resize.target is not None:
            sizes = {"shape": list(self.resize.target)}
        pixels = self(make_test_picture()).numpy().astype("<f4").tobytes()
        return {
            **settings,
            **sizes,
            "antialias": True,
            "colour": "rgb",
            "behaviour_sha256": sha256_bytes(pixels),
        }


class TorchModel(Backbone):
    """A backbone made of a torch module."""

    module: torch.nn.Module
    dtype: torch.dtype

    def set_module(
        self, module: torch.nn.Module, files: WeightFiles, hashes: FileHashes
    ) -> None:
        """Move the module to the device, and record whether its weights are verified."""
        import torch

        self.hashes = hashes
        self.verified = is_verified(self.card, files, hashes)
        self.dtype = getattr(torch, self.placement.dtype)
        self.module = move_module(module, self.placement.device, self.dtype).eval()
        self.module.requires_grad_(False)


class TorchBackbone(PictureBackbone, TorchModel):
    """A backbone of a torch module, a function that runs it, and the preset of the card.

    Args:
        card: The card with the sizes of the weights.
        card_of_weights: The card with the geometry and the arrays of the weights.
        module: The module with its weights.
        run: Returns the tensors of the family's `outputs`.
        files: The files of the weights.
        hashes: The hashes of the weights, from `read_weights`.
        placement: The device, the precision, and the implementation of attention.
    """

    def __init__(
        self,
        card: Card,
        card_of_weights: Card,
        module: torch.nn.Module,
        run: Outputs,
        *,
        files: WeightFiles,
        hashes: FileHashes,
        placement: Placement,
    ) -> None:
        geometry = card_of_weights.geometry
        check_pixel_file(card, geometry, files)
        resize = card.input.resize_to(geometry, shortest_edge(files))
        super().__init__(card, card_of_weights, placement, resize)
        self.pixels = Preprocessor(card.input, resize)
        self.run = run
        self.set_module(module, files, hashes)

    def normalise(self, pictures: Any) -> Tensor:
        """Return resized pictures [t, S, S, 3] as pixels [t, 3, S, S] float32 on the device."""
        pictures = check_pictures(pictures)
        return self.pixels.normalise(on_device(pictures, self.placement.device))

    def outputs(
        self, pixels: Any, mask: npt.NDArray[np.float32]
    ) -> Mapping[str, Tensor]:
        """Return the tensors of the family's outputs."""
        import torch

        device = self.placement.device
        with torch.inference_mode():
            x = on_device(pixels, device)
            if x.is_floating_point():
                x = x.to(self.dtype)
            return self.run(self.module, x, on_device(mask, device), self.geometry)

    def preprocessing(self) -> dict[str, Any]:
        """Return the settings of the preset, and a hash of the pixels of a test picture."""
        return self.pixels.recipe()


def check_pixels(pixels: Any, geometry: Geometry, label: str) -> None:
    """Raise an error for pixels of a wrong shape, for which some models return wrong values."""
    shape = list(getattr(pixels, "shape", ()))
    height, width = geometry.frame_shape
    if not geometry.size and shape:
        # Any size is valid.
        height = shape[-1]
        width = shape[-1]
    expected = [geometry.frames, 3, height, width]
    n_clips = shape[0] if len(shape) == 5 else 0
    if n_clips == 0 or shape[1:] != expected:
        sizes = ", ".join(map(str, expected))
        raise FixInput(
            f"{label}: expected pixels [B, {sizes}], got {shape}",
            hint=f"pass {geometry.frames} frames per clip, with 3 channels of {height} x {width}"
            " pixels",
        )


def check_pictures(pictures: Any) -> Any:
    """Return pictures, or raise an error unless they are an array or tensor uint8 [T, H, W, 3]."""
    dtype = str(getattr(pictures, "dtype", type(pictures).__name__))
    dtype = dtype.removeprefix("torch.")
    shape = list(getattr(pictures, "shape", ()))
    are_pictures = len(shape) == 4 and shape[-1] == 3 and 0 not in shape
    if dtype != "uint8" or not are_pictures:
        raise FixInput(f"frames must be uint8 [T, H, W, 3], got {dtype} {shape}")
    return pictures


def as_arrays(arrays: Mapping[str, Any]) -> dict[str, npt.NDArray[np.float32]]:
    """Return arrays of NumPy or torch on any device as float32 arrays of NumPy."""
    return {
        name: value if isinstance(value, np.ndarray) else value.float().cpu().numpy()
        for name, value in arrays.items()
    }


def as_tensor(array: npt.NDArray[Any]) -> Tensor:
    """Return an array as a tensor on the CPU, without a copy if its memory is writable."""
    import torch

    array = np.ascontiguousarray(array)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def on_device(values: Any, device: str) -> Tensor:
    """Return an array or tensor on a device; a copy to a GPU is asynchronous."""
    import torch

    tensor: Tensor = as_tensor(values) if isinstance(values, np.ndarray) else values
    if torch.device(device).type == "cuda" and not tensor.is_cuda:
        # Copies from memory that is not pinned block the host. torch reuses pinned memory.
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def blank_padding(pixels: Any, mask: Any) -> Any:
    """Return pixels [..., T, 3, S, S] with zeros where the mask [..., T] is 0.

    Checkpoints that take a mask were trained with zeros for missing frames of short clips.
    """
    is_real = np.asarray(mask, dtype=np.float32)[..., None, None, None]
    if isinstance(pixels, np.ndarray):
        return pixels * is_real.astype(pixels.dtype)
    return pixels * on_device(is_real, str(pixels.device)).to(pixels.dtype)


def move_module(
    module: torch.nn.Module, device: str, dtype: torch.dtype
) -> torch.nn.Module:
    """Move a module to a device, and its weights to a precision.

    Buffers that checkpoints do not store keep their precision, as in transformers: rotary
    frequencies are float32 in every precision.
    """
    for tensor in module.state_dict(keep_vars=True).values():
        # A tensor with two names is converted once: the second conversion does nothing.
        if tensor.is_floating_point():
            tensor.data = tensor.data.to(dtype)
    return module.to(device=device)


def load_from(card: Card, files: WeightFiles, placement: Placement) -> Backbone:
    """Return the model of a card from its files."""
    if card.family.needs_torch and placement.device.startswith("cuda"):
        import torch

        # By default convolutions use TF32, with results that depend on the device.
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
    backbone: Backbone = card.family.load(card, files, placement)
    return backbone
