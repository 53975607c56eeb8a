"""What a backbone's answer looks like: shapes of levels, and what computing them costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

# Where a level can come from, family by family. `tokens` holds every token of a frame (with its
# prefix) where the model sees frames, and the patches alone where it sees clips.
_FRAME_VIT = ("tokens", "token-max", "frame-vector", "frame-mean", "frame-cls")
_CLIP_VIT = ("tokens", "token-max", "token-mean", "space-mean", "cls", "prefix")
SOURCES: dict[str, tuple[str, ...]] = {
    "xclip": ("tokens", "token-max", "frame-vector", "frame-cls", "mit-output", "mit-mean"),
    "lsmdc": (
        *("tokens", "token-max", "masked-token-max", "frame-cls", "frame-cls-ln"),
        *("frame-vector", "frame-temporal", "frame-norm", "video"),
    ),
    "clip": _FRAME_VIT,
    "siglip": _FRAME_VIT,
    "dinov2": _FRAME_VIT,
    "dinov3": _FRAME_VIT,
    "vivit": _CLIP_VIT,
    "videomae": _CLIP_VIT,
    "timesformer": _CLIP_VIT,
    "vjepa2": _CLIP_VIT,
    "descriptors": ("descriptors", "descriptors-mean-sd", "descriptors-max"),
}
# Activations alive at once, in units of all tokens of a clip: measured on the real classes;
# ViViT's GELU, written out, keeps several temporaries of four times the width.
_LIVE = {"vivit": 22.0}
_LIVE_ELSEWHERE = 15.0


@dataclass(frozen=True)
class Depth:
    """How deep and wide a loaded transformer is: what its cost follows from."""

    layers: int
    hidden: int
    heads: int
    patch: int
    tubelet: int = 1


@dataclass(frozen=True)
class Geometry:
    """What goes in and how the tokens lie: (t, h, w) counts, prefix, order, widths."""

    frames: int
    size: int
    unit: str
    prefix: int
    order: str
    grid: tuple[int, int, int]
    width: int
    out: int
    depth: Depth | None = None

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

    def declared(self) -> dict[str, Any]:
        """The geometry without the depth, as plain values."""
        plain = {key: getattr(self, key) for key in ("frames", "size", "unit", "prefix", "order")}
        return {**plain, "grid": list(self.grid), "width": self.width, "out": self.out}

    def with_depth(self, depth: Depth) -> Geometry:
        """The same geometry, of known depth."""
        return replace(self, depth=depth)


@dataclass(frozen=True)
class Level:
    """One kind of feature of a clip: names and sizes of its dimensions, and how it is kept."""

    name: str
    source: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]

    @property
    def dtype(self) -> str:
        """How a store keeps it: whole clips exactly, what is long in half precision."""
        return "float32" if len(self.shape) == 1 else "float16"

    @property
    def n_bytes(self) -> int:
        """Bytes of one clip at rest."""
        count = 1
        for length in self.shape:
            count *= length
        return count * (4 if self.dtype == "float32" else 2)


def levels_of(sources: Mapping[str, str], geometry: Geometry) -> dict[str, Level]:
    """The levels a card names, with the sizes a geometry gives them."""
    return {name: _level(name, source, geometry) for name, source in sources.items()}


def _level(name: str, source: str, g: Geometry) -> Level:
    # One length, one name: a store's dimensions must not mean two lengths.
    step = "frame" if g.steps == g.frames else "step"
    wide, narrow = (f"feature_{g.width}", g.width), (f"feature_{g.out}", g.out)
    steps = (step, g.steps)
    shapes: dict[str, tuple[tuple[str, int], ...]] = {
        "tokens": (steps, ("token", g.tokens_per_step), wide),
        "prefix": (("prefix", g.prefix), wide),
        **dict.fromkeys(("token-max", "masked-token-max", "token-mean", "cls"), (wide,)),
        **dict.fromkeys(("space-mean", "frame-cls", "frame-cls-ln"), (steps, wide)),
        **dict.fromkeys(("frame-vector", "mit-output"), (steps, narrow)),
        **dict.fromkeys(("frame-temporal", "frame-norm", "descriptors"), (steps, narrow)),
        **dict.fromkeys(("frame-mean", "mit-mean", "video", "descriptors-max"), (narrow,)),
        "descriptors-mean-sd": ((f"feature_{2 * g.out}", 2 * g.out),),
    }
    dims = shapes[source]
    return Level(name, source, tuple(n for n, _ in dims), tuple(length for _, length in dims))


def flops_of(family: str, g: Geometry) -> int:
    """Floating point operations of one clip; a multiplication and an addition are two."""
    if g.depth is None:
        return 0
    d, n_frames = g.depth, g.frames
    embed = 2 * g.steps * g.patches * 3 * d.patch**2 * d.tubelet * g.width
    dense = 2 * (4 * g.width**2 + 2 * g.width * d.hidden)
    if family == "timesformer":
        return embed + d.layers * _divided(g, dense)
    if g.unit == "clip":
        length = g.steps * g.patches + g.prefix
        return embed + d.layers * (length * dense + 4 * length**2 * g.width)
    length = g.patches + g.prefix
    if family == "xclip":
        # A message token joins the attention of each frame, after attention among messages.
        messages = n_frames * 2 * 9 * g.width**2 + 4 * n_frames**2 * g.width
        per_layer = n_frames * (length * dense + 4 * (length + 1) ** 2 * g.width) + messages
        return embed + d.layers * per_layer
    return embed + d.layers * n_frames * (length * dense + 4 * length**2 * g.width)


def _divided(g: Geometry, dense: int) -> int:
    # Attention over time, then over space, each with its projections, and one more dense layer.
    length = g.steps * g.patches
    time = length * 2 * 5 * g.width**2 + 4 * length * g.steps * g.width
    space = 4 * g.steps * (g.patches + 1) ** 2 * g.width
    return length * dense + time + space


def activation_bytes_of(family: str, g: Geometry, itemsize: int, attention: str) -> int:
    """Bytes of device memory one clip needs, beside the weights and the pixels handed in."""
    tokens = g.steps * g.patches + g.prefix * (g.frames if g.unit == "frame" else 1)
    live = tokens * g.width * itemsize * _LIVE.get(family, _LIVE_ELSEWHERE)
    scores = 0
    if attention == "eager" and g.depth is not None:
        if g.unit == "frame" or family == "timesformer":
            rows = g.frames * (g.patches + g.prefix) ** 2
        else:
            rows = tokens**2
        scores = 2 * g.depth.heads * rows * max(itemsize, 4)
    pixels = g.frames * 3 * g.size**2 * itemsize
    return int(live + scores + pixels)
