"""Films for measuring readers: what is in them, how they are coded, in each picture its number."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.files import sha256_bytes
from obygaze_features.video.bench_pictures import CHARACTERS, GREY, chroma_planes, pictures
from obygaze_features.video.picture import Pixels
from obygaze_features.video.source import av

BITS = 12
DARK, LIGHT = 40, 210
RATE = 24
MADE_BY = 1  # to be raised when the code that draws the pictures draws others


@dataclass(frozen=True)
class FilmSpec:
    """A film to be made: what is in it and how it is coded."""

    name: str
    suffix: str = ".mp4"
    codec: str = "libx264"
    pix_fmt: str = "yuv420p"
    options: Mapping[str, str] = field(default_factory=dict)
    n_frames: int = 150 * RATE
    width: int = 1280
    height: int = 544
    character: str = "calm"
    ticks: tuple[int, ...] = ()
    hidden: int = 0

    @property
    def shown(self) -> list[int]:
        """The numbers of the pictures a reader should find, in order."""
        return list(range(self.hidden, self.n_frames))

    @property
    def file_name(self) -> str:
        """A name that no other film has, nor this one once anything in it is defined anew."""
        definition = repr((self, CHARACTERS[self.character], MADE_BY))
        return f"{self.name}-{sha256_bytes(definition.encode())[:8]}{self.suffix}"


def stamp(grey: NDArray[np.uint8], number: int) -> None:
    """Write a number along the upper edge: twelve blocks, and the same inverted."""
    height, width = grey.shape
    edges = np.linspace(0, width, 2 * BITS + 1).astype(int)
    tall = _stamp_rows(height)
    for block in range(2 * BITS):
        bit = (number >> (block % BITS)) & 1
        light = bit == (block < BITS)
        grey[:tall, edges[block] : edges[block + 1]] = LIGHT if light else DARK


def _stamp_rows(height: int) -> int:
    return max(16, height // 20)


def read_stamp(picture: Pixels) -> int:
    """The number of a picture; -1 where it cannot be read beyond doubt."""
    height, width = picture.shape[:2]
    edges = np.linspace(0, width, 2 * BITS + 1)
    rows = slice(4, _stamp_rows(height) - 4)
    inner = [
        picture[rows, int(a + (b - a) / 4) : int(b - (b - a) / 4) + 1].mean()
        for a, b in pairwise(edges)
    ]
    gaps = np.array(inner[:BITS]) - np.array(inner[BITS:])
    if np.abs(gaps).min() < (LIGHT - DARK) / 3:
        return -1
    return int(sum(1 << bit for bit in range(BITS) if gaps[bit] > 0))


def make_film(spec: FilmSpec, folder: Path) -> Path:
    """Make a film, unless the folder holds it from before."""
    path = folder / spec.file_name
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        _write(spec, part)
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _write(spec: FilmSpec, path: Path) -> None:
    with av().open(str(path), "w") as out:
        stream = out.add_stream(spec.codec, rate=RATE, options=dict(spec.options))
        stream.width, stream.height, stream.pix_fmt = spec.width, spec.height, spec.pix_fmt
        tick = Fraction(1, 1000) if spec.ticks else Fraction(1, RATE)
        stream.codec_context.time_base = tick
        content = pictures(CHARACTERS[spec.character], spec.n_frames, spec.height, spec.width)
        for number, planes in enumerate(content):
            stamp(planes[: spec.height], number)
            _without_colour(planes, spec.height)
            frame = av().VideoFrame.from_ndarray(planes, format="yuv420p")
            if spec.pix_fmt != "yuv420p":
                frame = frame.reformat(format=spec.pix_fmt)
            frame.pts = spec.ticks[number] if spec.ticks else number - spec.hidden
            frame.time_base = tick
            out.mux(stream.encode(frame))
        out.mux(stream.encode())


def _without_colour(planes: Pixels, height: int) -> None:
    """Make the rows of the stamp grey."""
    chroma_planes(planes, height)[:, : _stamp_rows(height) // 2 + 1] = GREY
