"""Films for measuring readers: cuts, camera moves and grain, and in each picture its number."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from obygaze_features.video.picture import Pixels
from obygaze_features.video.source import av

BITS = 12
DARK, LIGHT = 40, 210
RATE = 24


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
    ticks: tuple[int, ...] = ()
    hidden: int = 0

    @property
    def shown(self) -> list[int]:
        """The numbers of the pictures a reader should find, in order."""
        return list(range(self.hidden, self.n_frames))


def stamp(grey: NDArray[np.uint8], number: int) -> None:
    """Write a number along the upper edge: twelve blocks, and the same inverted."""
    height, width = grey.shape
    edges = np.linspace(0, width, 2 * BITS + 1).astype(int)
    tall = max(16, height // 20)
    for block in range(2 * BITS):
        bit = (number >> (block % BITS)) & 1
        light = bit == (block < BITS)
        grey[:tall, edges[block] : edges[block + 1]] = LIGHT if light else DARK


def read_stamp(picture: Pixels) -> int:
    """The number of a picture; -1 where it cannot be read beyond doubt."""
    height, width = picture.shape[:2]
    edges = np.linspace(0, width, 2 * BITS + 1)
    rows = slice(4, max(16, height // 20) - 4)
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
    path = folder / f"{spec.name}-{spec.n_frames}{spec.suffix}"
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
        for number, grey in enumerate(_pictures(spec)):
            frame = av().VideoFrame.from_ndarray(grey, format="gray").reformat(format=spec.pix_fmt)
            frame.pts = spec.ticks[number] if spec.ticks else number - spec.hidden
            frame.time_base = tick
            out.mux(stream.encode(frame))
        out.mux(stream.encode())


def _pictures(spec: FilmSpec) -> Iterator[NDArray[np.uint8]]:
    """Shots of one to eight seconds: two textures that move apart, with grain over them."""
    draw = np.random.default_rng(0)
    height, width = spec.height, spec.width
    margin = 128
    backs = [_texture(draw, height + margin, width + margin, 32, 150) for _ in range(5)]
    fronts = [_texture(draw, height + margin, width + margin, 8, 56) for _ in range(5)]
    grains = [draw.integers(0, 9, (height, width), dtype=np.uint8) for _ in range(7)]
    number = 0
    while number < spec.n_frames:
        back, front = backs[draw.integers(5)], fronts[draw.integers(5)]
        # Slow, as most shots of films are: about a third of a pixel from picture to picture.
        moves = draw.uniform(-0.6, 0.6, 4)
        for step in range(int(draw.integers(RATE, 8 * RATE))):
            if number == spec.n_frames:
                return
            grey = grains[number % 7].copy()
            grey += _window(back, moves[:2] * step, height, width)
            grey += _window(front, moves[2:] * step, height, width)
            stamp(grey, number)
            yield grey
            number += 1


def _window(
    texture: NDArray[np.uint8], move: NDArray[np.float64], height: int, width: int
) -> NDArray[np.uint8]:
    # Back and forth within the margin.
    y, x = np.abs((64 + move) % 254 - 127).astype(int)
    return texture[y : y + height, x : x + width]


def _texture(
    draw: np.random.Generator, height: int, width: int, cell: int, depth: int
) -> NDArray[np.uint8]:
    """Smooth clouds of a size, from 16 up over `depth` levels."""
    total = np.zeros((height, width))
    while cell >= 2:
        coarse = draw.normal(0, cell, (height // cell + 2, width // cell + 2))
        fine = np.repeat(np.repeat(coarse, cell, 0), cell, 1)
        kernel = np.ones(cell) / cell
        for axis in (0, 1):
            fine = np.apply_along_axis(np.convolve, axis, fine, kernel, mode="same")
        total += fine[:height, :width]
        cell //= 2
    total -= total.min()
    levels: NDArray[np.uint8] = (total / total.max() * depth + 16).astype(np.uint8)
    return levels
