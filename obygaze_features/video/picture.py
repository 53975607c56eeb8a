"""A decoded picture as a person would see it: upright, in its true proportions, RGB, any size."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from obygaze_features.video.source import av

Pixels = NDArray[np.uint8]
Fit = Literal["shortest", "squash"]
Filter = Literal["bilinear", "bicubic", "area"]


@dataclass(frozen=True)
class Geometry:
    """How a stream's pictures lie: stored size, shape of a pixel, and the turn to apply.

    `rotation` is clockwise, in degrees, after an optional left-right flip.
    """

    width: int
    height: int
    sar: Fraction
    rotation: int
    flip: bool

    @property
    def upright(self) -> tuple[int, int]:
        """(height, width) as shown: square pixels, turned."""
        wide = max(1, round(self.width * self.sar))
        return (wide, self.height) if self.rotation % 180 else (self.height, wide)

    def target(self, size: int | None, fit: Fit) -> tuple[int, int]:
        """(height, width) of the result: all of it, the shorter edge, or a square."""
        height, width = self.upright
        if size is None:
            return height, width
        if fit == "squash":
            return size, size
        short, long = min(height, width), max(height, width)
        other = max(1, size * long // short)
        return (size, other) if height <= width else (other, size)


def geometry_of(frame: Any, stream: Any) -> Geometry:
    """The geometry of a stream, from its first picture."""
    sar = stream.sample_aspect_ratio
    # Nonsense in the header must not stretch a picture to a line.
    usable = sar is not None and Fraction(1, 8) <= sar <= 8
    rotation, flip = _turn(frame)
    return Geometry(
        frame.width, frame.height, Fraction(sar) if usable else Fraction(1), rotation, flip
    )


def _turn(frame: Any) -> tuple[int, bool]:
    """The clockwise turn, to a quarter, and the flip before it, from the display matrix."""
    kind = av().sidedata.sidedata.Type.DISPLAYMATRIX
    matrix = frame.side_data.get(kind)
    if matrix is None:
        return 0, False
    a, b, _, c, d, *_ = struct.unpack("=9i", bytes(matrix))
    flip = a * d - b * c < 0
    if flip:
        a, b = -a, -b
    if not a and not b:
        return 0, False
    return round(math.degrees(math.atan2(b, a)) / 90) % 4 * 90, flip


class Painter:
    """Turns decoded pictures of one stream into RGB arrays; keeps its scalers between them."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.scalers: dict[tuple[int, int, Filter], Any] = {}

    def paint(self, frame: Any, height: int, width: int, filter: Filter) -> Pixels:
        """One picture at (height, width), scaled while it is converted."""
        scaler = self.scalers.setdefault(
            (height, width, filter), av().video.reformatter.VideoReformatter()
        )
        if frame.interlaced_frame:
            frame = _progressive(frame)
        if self.geometry.rotation % 180:
            height, width = width, height
        scaled = (frame.width, frame.height) != (width, height)
        flags = _flags(filter, scaled)
        rgb = scaler.reformat(frame, width, height, "rgb24", interpolation=flags, threads=1)
        plane = rgb.planes[0]
        rows = np.frombuffer(plane, np.uint8).reshape(height, plane.line_size)
        pixels = rows[:, : width * 3].reshape(height, width, 3)
        if self.geometry.flip:
            pixels = pixels[:, ::-1]
        return np.rot90(pixels, k=-(self.geometry.rotation // 90))


def _flags(filter: Filter, scaled: bool) -> int:
    kind = av().video.reformatter.Interpolation
    if not scaled:
        # The plain conversion: a quarter of the time, and the pixels other readers give.
        return int(kind[filter.upper()] | kind.BITEXACT)
    # Without these flags the result depends on the processor.
    return int(kind[filter.upper()] | kind.ACCURATE_RND | kind.FULL_CHR_H_INT | kind.BITEXACT)


def _progressive(frame: Any) -> Any:
    """The same picture said to be whole: a scaler would treat its two fields apart."""
    graph = av().filter.Graph()
    source = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1, 25)
    )
    mark = graph.add("setfield", "prog")
    sink = graph.add("buffersink")
    source.link_to(mark)
    mark.link_to(sink)
    graph.configure()
    graph.push(frame)
    return graph.pull()
