"""The shapes of what goes into a backbone and comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from obygaze_features.core.notebook import short_repr


@dataclass(frozen=True)
class Depth:
    """How deep and wide a loaded transformer is; its cost follows from this."""

    layers: int
    hidden: int
    heads: int
    patch: int
    tubelet: int = 1


@dataclass(frozen=True, repr=False)
class Geometry:
    """The shape of the input, and how the tokens are ordered.

    Args:
        frames: Frames of a clip.
        size: Height and width of a frame; 0 where any size will do.
        unit: What the model sees at once: a "frame" or a whole "clip".
        prefix: Tokens before the patches, such as CLS and registers.
        order: The order of the tokens: "hw" in a frame, "thw" or "hwt" in a clip.
        grid: The number of steps in time, of rows and of columns of patches.
        width: Values of a token.
        out: Values of the model's own vector of a frame or clip.
        depth: Known once the weights are.
    """

    frames: int
    size: int
    unit: str
    prefix: int
    order: str
    grid: tuple[int, int, int]
    width: int
    out: int
    depth: Depth | None = None

    def __repr__(self) -> str:
        return short_repr("Geometry", *(f"{k}={v}" for k, v in self.declared().items()))

    @property
    def steps(self) -> int:
        """Vectors along time: one a frame, or one a tubelet."""
        return self.grid[0]

    @property
    def patches(self) -> int:
        """Patches of one frame or tubelet."""
        return self.grid[1] * self.grid[2]

    @property
    def tokens_per_step(self) -> int:
        """Tokens the `tokens` level holds for each step."""
        return self.patches + (self.prefix if self.unit == "frame" else 0)

    @property
    def dimensions(self) -> dict[str, tuple[str, int]]:
        """The dimensions that a family can give a level: the name in a store, and the length.

        One length has one name, because a dimension of a store has one length.
        """
        return {
            "step": ("frame" if self.steps == self.frames else "step", self.steps),
            "token": ("token", self.tokens_per_step),
            "prefix": ("prefix", self.prefix),
            "width": (f"feature_{self.width}", self.width),
            "out": (f"feature_{self.out}", self.out),
            "twice-out": (f"feature_{2 * self.out}", 2 * self.out),
        }

    def declared(self) -> dict[str, Any]:
        """Return the geometry without the depth, as plain values."""
        plain = {key: getattr(self, key) for key in ("frames", "size", "unit", "prefix", "order")}
        return {**plain, "grid": list(self.grid), "width": self.width, "out": self.out}


@dataclass(frozen=True)
class Level:
    """One feature level of a clip: names and lengths of its dimensions, and how it is stored."""

    name: str
    source: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]

    @property
    def dtype(self) -> str:
        """The type in a store: vectors of whole clips exactly, the others in half precision."""
        return "float32" if len(self.shape) == 1 else "float16"

    @property
    def n_bytes(self) -> int:
        """Bytes of one clip in a store."""
        return prod(self.shape) * (4 if self.dtype == "float32" else 2)
