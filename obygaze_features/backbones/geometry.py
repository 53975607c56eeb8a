"""The shapes of a backbone's input and of its outputs."""

from dataclasses import dataclass
from math import prod
from typing import Any, Literal

Unit = Literal["frame", "clip"]
Order = Literal["thw", "hwt", "hw"]
_ITEM_BYTES = {"uint8": 1, "float16": 2, "float32": 4}


@dataclass(frozen=True)
class Depth:
    """How deep and wide a loaded transformer is; its cost follows from this."""

    layers: int
    hidden: int
    heads: int
    patch: int
    tubelet: int = 1


@dataclass(frozen=True)
class Geometry:
    """The shape of the input, and how the tokens are ordered; a card declares all but the depth.

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
        shape: Height and width of a frame that is no square, whose shorter edge is `size` then.
    """

    frames: int
    size: int
    unit: Unit = "frame"
    prefix: int = 0
    order: Order = "hw"
    grid: tuple[int, int, int] = (0, 0, 0)
    width: int = 0
    out: int = 0
    depth: Depth | None = None
    shape: tuple[int, int] = (0, 0)

    @property
    def input_size(self) -> str:
        """The number and the size of the frames, in words."""
        height, width = self.frame_shape
        size = f"{height} x {width}" if self.size else "any size"
        return f"{self.frames} frames of {size}"

    @property
    def frame_shape(self) -> tuple[int, int]:
        """The height and width of a frame; 0 where any size will do."""
        return self.shape if any(self.shape) else (self.size, self.size)

    @property
    def steps(self) -> int:
        """Vectors along time: one a frame, or one a tubelet."""
        return self.grid[0]

    @property
    def patches(self) -> int:
        """Patches of one frame or tubelet."""
        return self.grid[1] * self.grid[2]

    @property
    def dimensions(self) -> dict[str, tuple[str, int]]:
        """The dimensions that a family can give an array: the name in a store, and the length.

        One length has one name, because a dimension of a store has one length.
        """
        tokens = self.patches + (self.prefix if self.unit == "frame" else 0)
        return {
            "step": ("frame" if self.steps == self.frames else "step", self.steps),
            "token": ("token", tokens),
            "prefix": ("prefix", self.prefix),
            "width": (f"feature_{self.width}", self.width),
            "out": (f"feature_{self.out}", self.out),
            "twice-out": (f"feature_{2 * self.out}", 2 * self.out),
        }

    def declared(self) -> dict[str, Any]:
        """Return the geometry without the depth, as plain values."""
        plain = {**vars(self), "grid": list(self.grid), "shape": list(self.shape)}
        del plain["depth"]
        if not any(self.shape):
            # Hashes of cards with square frames stay the same.
            del plain["shape"]
        return plain


@dataclass(frozen=True)
class FeatureArray:
    """One array of features of a clip: names and lengths of its dimensions, and how it is stored.

    Vectors of whole clips are stored exactly, the others in half precision unless `kept_as` says
    otherwise.
    """

    name: str
    source: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    kept_as: str = ""

    @property
    def dtype(self) -> str:
        """The type in a store."""
        return self.kept_as or ("float32" if len(self.shape) == 1 else "float16")

    @property
    def n_bytes(self) -> int:
        """Bytes of one clip in a store."""
        return prod(self.shape) * _ITEM_BYTES[self.dtype]
