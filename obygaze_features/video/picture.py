"""Convert decoded pictures to RGB arrays as a player shows them: upright, in true proportions."""

import math
import struct
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.files import sha256_bytes
from obygaze_features.video.container import BadVideo, av
from obygaze_features.video.resize import Pixels

# The number of FFmpeg's AV_FRAME_DATA_EXIF.
_EXIF = 31


@dataclass(frozen=True)
class PictureGeometry:
    """The stored size of a stream's pictures, the shape of their pixels, and their rotation.

    `sar` is the width of a pixel divided by its height. `rotation` is clockwise, in degrees. If
    `flip` is true, left and right are exchanged before the rotation. `crop` is the number of stored
    pixels that are not shown at the left, right, top and bottom.
    """

    width: int
    height: int
    sar: Fraction
    rotation: int
    flip: bool
    crop: tuple[int, ...] = (0, 0, 0, 0)

    @cached_property
    def shown(self) -> tuple[slice, slice]:
        """Return the rows and columns that are shown, in square pixels, before rotation."""
        left, right, top, bottom = self.crop
        first = round(left * self.sar)
        after = max(first + 1, round((self.width - right) * self.sar))
        return slice(top, self.height - bottom), slice(first, after)

    @property
    def upright(self) -> tuple[int, int]:
        """Return (height, width) as displayed: with square pixels, after rotation."""
        high, wide = (part.stop - part.start for part in self.shown)
        return (wide, high) if self.rotation % 180 else (high, wide)


def geometry_of(
    frame: Any, stream: Any, crop: tuple[int, ...] = (0, 0, 0, 0)
) -> PictureGeometry:
    """Return the geometry of a stream, read from its first picture."""
    left, right, top, bottom = crop
    if left + right >= frame.width or top + bottom >= frame.height:
        crop = (0, 0, 0, 0)
    sar = stream.sample_aspect_ratio
    # A still picture states the density of a print, which FFmpeg takes for the shape of a pixel.
    is_still = stream.container.format.name.endswith("_pipe")
    # An implausible value in the header must not stretch a picture to a line.
    plausible = not is_still and sar is not None and Fraction(1, 8) <= sar <= 8
    try:
        side_data = frame.side_data
    except ValueError:
        # PyAV fails at EXIF data. FFmpeg has already read the matrix from them: they are removed.
        side_data = _apply_filter(
            frame, "sidedata", f"mode=delete:type={_EXIF}"
        ).side_data
    matrix = side_data.get(av().sidedata.sidedata.Type.DISPLAYMATRIX)
    rotation = 0
    flip = False
    if matrix is not None:
        a, b, _, c, d, *_ = struct.unpack("=9i", bytes(matrix))
        flip = a * d - b * c < 0
        if flip:
            a = -a
            b = -b
        # Rotations are rounded to quarter turns.
        rotation = round(math.degrees(math.atan2(b, a)) / 90) % 4 * 90
    return PictureGeometry(
        frame.width,
        frame.height,
        Fraction(sar) if plausible else Fraction(1),
        rotation,
        flip,
        crop,
    )


class PictureConverter:
    """Converts the pictures of one stream to RGB arrays.

    `path` is the file that error messages name.
    """

    def __init__(self, geometry: PictureGeometry, path: Path = Path()) -> None:
        self.geometry = geometry
        self.path = path
        self.whole = replace(geometry, crop=(0, 0, 0, 0), rotation=0)
        self.scaler = av().video.reformatter.VideoReformatter()
        kind = av().video.reformatter.Interpolation
        # Without scaling, the conversion takes a quarter of the time and gives the same pixels as
        # other readers.
        self.plain_flags = int(kind.BICUBIC | kind.BITEXACT)
        # Without these flags the result of scaling depends on the processor.
        exact = kind.ACCURATE_RND | kind.FULL_CHR_H_INT
        self.scaling_flags = self.plain_flags | int(exact)

    def convert(self, frame: Any) -> Pixels:
        """Return a picture as displayed; a picture whose pixels are not square is scaled."""
        if frame.interlaced_frame:
            # Otherwise the scaler would separate the fields.
            frame = _apply_filter(frame, "setfield", "prog")
        height, width = self.whole.upright
        is_plain = (frame.width, frame.height) == (width, height)
        flags = self.plain_flags if is_plain else self.scaling_flags
        try:
            rgb = self.scaler.reformat(
                frame, width, height, "rgb24", interpolation=flags, threads=1
            )
        except av().FFmpegError as error:
            message = (
                f"the colours of its pictures (pixel format {frame.format.name}, matrix"
                f" {int(frame.colorspace)}) cannot be converted to RGB"
            )
            raise BadVideo(message, path=self.path, reason="colours") from error
        plane = rgb.planes[0]
        rows = np.frombuffer(plane, np.uint8).reshape(height, plane.line_size)
        pixels = rows[:, : width * 3].reshape(height, width, 3)[self.geometry.shown]
        if self.geometry.flip:
            pixels = pixels[:, ::-1]
        return np.rot90(pixels, k=-(self.geometry.rotation // 90))


def _apply_filter(frame: Any, name: str, settings: str) -> Any:
    """Return a picture to which a filter of FFmpeg was applied."""
    graph = av().filter.Graph()
    source = graph.add_buffer(
        width=frame.width,
        height=frame.height,
        format=frame.format,
        time_base=Fraction(1, 25),
    )
    filtering = graph.add(name, settings)
    sink = graph.add("buffersink")
    source.link_to(filtering)
    filtering.link_to(sink)
    graph.configure()
    graph.push(frame)
    return graph.pull()


@cache
def conversion_sha256() -> str:
    """Return a hash of a synthetic picture converted from YUV to RGB, in full size and scaled.

    Recipes contain this hash, because it changes if the conversion gives different pixels.
    """
    width = 64
    height = 48
    y, x = np.mgrid[0 : height * 3 // 2, 0:width]
    planes = ((x * 5 + y * 3 + (x * y) // 9) % 220 + 16).astype(np.uint8)
    frame = av().VideoFrame.from_ndarray(planes, format="yuv420p")
    plain, scaled = (
        PictureConverter(PictureGeometry(wide, high, Fraction(1), 0, False)).convert(
            frame
        )
        for wide, high in ((width, height), (width // 2, height // 2))
    )
    return sha256_bytes(plain.tobytes() + scaled.tobytes())
