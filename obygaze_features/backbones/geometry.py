"""The shapes of the input and of the outputs of a backbone."""

from dataclasses import dataclass
from math import prod
from typing import Any, Literal

Unit = Literal["frame", "clip"]
Order = Literal["thw", "hwt", "hw"]
_ITEM_BYTES = {"uint8": 1, "float16": 2, "float32": 4}


@dataclass(frozen=True)
class Depth:
    """The depth and width of a loaded transformer, from which its cost is computed."""

    layers: int
    hidden: int
    heads: int
    patch: int
    tubelet: int = 1


@dataclass(frozen=True)
class Geometry:
    """The shape of the input, and the order of tokens; a card states all but the depth.

    Args:
        frames: Frames of a clip.
        size: Height and width of a frame; 0 for any size.
        unit: Input of one computation of the model: a "frame" or a whole "clip".
        prefix: Tokens before the patches, such as CLS and registers.
        order: The order of the tokens: "hw" in a frame, "thw" or "hwt" in a clip.
        grid: The number of steps in time, of rows and of columns of patches.
        width: Number of values of a token.
        out: Number of values of the vector of a frame or clip.
        depth: Depth of the loaded weights. None: no weights are loaded yet.
        shape: Height and width of a frame that is not square, whose shorter edge is `size`. (0, 0):
            the frame is square.
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
        """The number and the size of the frames, as text."""
        height, width = self.frame_shape
        size = f"{height} x {width}" if self.size else "any size"
        return f"{self.frames} frames of {size}"

    @property
    def frame_shape(self) -> tuple[int, int]:
        """The height and width of a frame; 0 for any size."""
        return self.shape if any(self.shape) else (self.size, self.size)

    @property
    def steps(self) -> int:
        """The number of vectors along time: one per frame or tubelet."""
        return self.grid[0]

    @property
    def patches(self) -> int:
        """The number of patches of one frame or tubelet."""
        return self.grid[1] * self.grid[2]

    @property
    def dimensions(self) -> dict[str, tuple[str, int]]:
        """The name in stores and the length of each dimension, by the word that families use.

        Names contain the length, because a dimension of a store has one length.
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
            # Hashes of cards with square frames do not contain the key.
            del plain["shape"]
        return plain


@dataclass(frozen=True)
class FeatureArray:
    """An array of features of a clip: the names and lengths of its dimensions, and its type.

    Vectors of whole clips are stored in single precision, other arrays in half precision unless
    `kept_as` states a type.
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
        """The bytes of the array of one clip in a store."""
        return prod(self.shape) * _ITEM_BYTES[self.dtype]
