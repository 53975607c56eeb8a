"""What the decoder makes of a known picture, as a hash: a library that converts otherwise shows."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np

from obygaze_features.core.files import sha256_bytes
from obygaze_features.video.picture import Geometry, Painter
from obygaze_features.video.source import av

SIZE = (64, 48)


@cache
def conversion_sha256() -> str:
    """The hash of a synthetic picture turned from YUV to RGB, plainly and scaled down."""
    width, height = SIZE
    y, x = np.mgrid[0 : height * 3 // 2, 0:width]
    planes = ((x * 5 + y * 3 + (x * y) // 9) % 220 + 16).astype(np.uint8)
    frame = av().VideoFrame.from_ndarray(planes, format="yuv420p")
    painter = Painter(Geometry(width, height, Fraction(1), 0, False))
    plain = painter.paint(frame, height, width, "bicubic")
    scaled = painter.paint(frame, height // 2, width // 2, "bicubic")
    return sha256_bytes(plain.tobytes() + scaled.tobytes())
