"""The one face of every backbone: pixels in, named levels out, a recipe of what decides them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from obygaze_features.backbones.cards import Card
from obygaze_features.backbones.geometry import (
    Geometry,
    Level,
    activation_bytes_of,
    flops_of,
    levels_of,
)
from obygaze_features.backbones.pixels import Pixels, as_frames, as_tensor
from obygaze_features.backbones.weights import WeightHashes
from obygaze_features.core.errors import FixInput
from obygaze_features.store.format.recipe import UNVERIFIED

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class Backbone(Protocol):
    """What the extraction knows of a backbone."""

    card: Card
    geometry: Geometry
    takes_mask: bool

    @property
    def levels(self) -> dict[str, Level]:
        """Every level it can give, with its shape."""

    @property
    def flops(self) -> int:
        """Floating point operations of one clip."""

    @property
    def activation_bytes(self) -> int:
        """Device memory one clip needs while it is computed."""

    def preprocess(self, frames: Any) -> Any:
        """Frames [t, H, W, 3] uint8 as pixels [t, 3, S, S]."""

    def forward(
        self, pixels: Any, mask: Any = None, only: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Pixels [B, T, 3, S, S] as levels, each [B, ...]."""

    def recipe(self) -> dict[str, Any]:
        """What decides the numbers, as plain values."""


@dataclass(frozen=True)
class Placement:
    """Where and how exactly a model computes."""

    device: str = "cpu"
    dtype: str = "float32"
    attention: str = "sdpa"
    tf32: bool = False
    compiled: bool = False

    def recipe(self) -> dict[str, Any]:
        """What of it decides the numbers; the device does not."""
        told = {"dtype": self.dtype, "attention": self.attention, "tf32": self.tf32}
        # Compiled kernels round in another order; where there are none, recipes stay as they were.
        return {**told, "compiled": True} if self.compiled else told


def compile_layers(module: torch.nn.Module, backend: str = "inductor") -> int:
    """Compile each transformer layer by itself; how many there are.

    Families call their sub-modules one by one, so compiling the whole would compile nothing.
    """
    layers = [part for part in module.modules() if type(part).__name__.endswith("Layer")]
    for layer in layers:
        layer.compile(backend=backend)
    return len(layers)


def card_recipe(
    card: Card, geometry: Geometry, levels: Mapping[str, Level], verified: bool = True
) -> dict[str, Any]:
    """The sections of a recipe that say which backbone it was and what its levels are.

    Weights that are not known to be the card's checkpoint are not named as it.
    """
    claim = {"checkpoint": card.checkpoint, "revision": card.revision}
    if not verified:
        claim = {"checkpoint": "", "revision": "", UNVERIFIED: card.checkpoint}
    backbone = {
        "name": card.name,
        "card_sha256": card.sha256,
        "preset": card.preset,
        "family": card.family,
        **claim,
        "geometry": geometry.declared(),
        "levels": {name: level.source for name, level in levels.items()},
    }
    return {"backbone": backbone, "levels": sorted(levels)}


def check_pixels(pixels: Any, geometry: Geometry, label: str) -> None:
    """Refuse pixels of the wrong shape before a model quietly mixes clips or drops frames."""
    shape, g = tuple(getattr(pixels, "shape", ())), geometry
    size = g.size or (shape[-1] if shape else 0)
    want = (g.frames, 3, size, size)
    if len(shape) != 5 or shape[1:] != want or not shape[0]:
        raise FixInput(
            f"{label} takes pixels [B, {', '.join(map(str, want))}], not {list(shape)}",
            hint=f"{g.frames} frames a clip, in 3 channels of {size} x {size}",
        )


class TorchBackbone:
    """A backbone made of torch modules; families say how their taps come about."""

    takes_mask = False

    def __init__(
        self,
        card: Card,
        geometry: Geometry,
        module: torch.nn.Module,
        hashes: WeightHashes,
        placement: Placement,
        pixels: Pixels,
        checkpoint_edge: int | None = None,
        verified: bool = True,
    ) -> None:
        import torch

        self.card, self.geometry, self.checkpoint_edge = card, geometry, checkpoint_edge
        self.hashes, self.placement, self.pixels = hashes, placement, pixels
        self.verified = verified
        self.dtype: torch.dtype = getattr(torch, placement.dtype)
        self.module = module.to(device=placement.device, dtype=self.dtype).eval()
        self.module.requires_grad_(False)
        if placement.compiled:
            compile_layers(self.module)

    @property
    def sources(self) -> Mapping[str, str]:
        """The tap behind each level."""
        return self.card.sources

    @property
    def levels(self) -> dict[str, Level]:
        """Every level it can give, with the shape the loaded weights give it."""
        return levels_of(self.sources, self.geometry)

    @property
    def flops(self) -> int:
        """Floating point operations of one clip."""
        return flops_of(self.card.family, self.geometry)

    @property
    def activation_bytes(self) -> int:
        """Device memory one clip needs while it is computed, within a fifth or so."""
        itemsize = 4 if self.placement.dtype == "float32" else 2
        return activation_bytes_of(
            self.card.family, self.geometry, itemsize, self.placement.attention
        )

    def preprocess(self, frames: Any) -> Tensor:
        """Frames [t, H, W, 3] uint8 as pixels [t, 3, S, S] float32 on the device."""
        return self.pixels(as_frames(frames, self.placement.device))

    def forward(
        self, pixels: Any, mask: Any = None, only: Collection[str] | None = None
    ) -> dict[str, Tensor]:
        """Pixels [B, T, 3, S, S], already normalised, as levels; `only` some where they are named.

        A mask [B, T] of 1 and 0 tells real frames from padding, where the backbone knows one.
        """
        import torch

        check_pixels(pixels, self.geometry, self.card.label)
        x = as_tensor(pixels) if isinstance(pixels, np.ndarray) else pixels
        levels = {
            name: level for name, level in self.levels.items() if only is None or name in only
        }
        with torch.inference_mode():
            x = x.to(self.placement.device, dtype=self.dtype, non_blocking=True)
            taps = self.taps(x, self._mask(mask, len(x)))
            return {name: _checked(taps, level, len(x)) for name, level in levels.items()}

    def taps(self, pixels: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """Every tensor a level of this family can come from."""
        raise NotImplementedError

    def _mask(self, mask: Any, n_clips: int) -> Tensor:
        import torch

        shape = (n_clips, self.geometry.frames)
        if mask is None:
            return torch.ones(shape, device=self.placement.device)
        given = torch.as_tensor(mask).to(self.placement.device, dtype=torch.float32)
        if tuple(given.shape) != shape:
            raise FixInput(f"the mask must be {list(shape)}, not {list(given.shape)}")
        if not self.takes_mask and not bool((given == 1).all()):
            raise FixInput(f"{self.card.label} knows no mask: every clip needs all its frames")
        if not bool(((given == 0) | (given == 1)).all()) or not bool(given.any(dim=1).all()):
            raise FixInput("the mask must be 1 for real frames and 0 for padding, with some 1")
        return given

    def recipe(self) -> dict[str, Any]:
        """What decides the numbers: card, weights, preprocessing, precision, attention."""
        return {
            **card_recipe(self.card, self.geometry, self.levels, self.verified),
            "weights": self.hashes.recipe(),
            "preprocessing": self.pixels.recipe(),
            "compute": self.placement.recipe(),
        }


def _checked(taps: Mapping[str, Tensor], level: Level, n_clips: int) -> Tensor:
    """A level's tensor, or an error where a library's classes changed under us."""
    tensor = taps[level.source]
    if tuple(tensor.shape) != (n_clips, *level.shape):
        raise FixInput(
            f"the model gave {list(tensor.shape)} for {level.name}, not {[n_clips, *level.shape]}",
            hint="check the card's [tokens] against the checkpoint: obygaze backbones check",
        )
    return tensor
