"""The pictures of made-up films of five characters, so that no single one decides a result.

A scene is a background under a moving camera, a few bodies that cross it, and grain over both.
The characters were defined before any reader was measured on them, and must not be changed: films
must not be chosen by the outcome of a comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from obygaze_features.video.resize import Pixels

Levels = NDArray[np.float64]

SCENES = 4
MARGIN = 256  # how far a camera can go, in pixels
GREY = 128


@dataclass(frozen=True)
class Character:
    """What a film is like: shots (in pictures), speeds (pixels a picture), bodies, grain (SD)."""

    words: str
    shots: tuple[int, int]
    camera: float
    bodies: int
    speed: float
    grain: float
    drawn: bool = False


CHARACTERS = {
    "calm": Character(
        "a slow camera, two slow bodies, light grain, shots of 2 to 8 s",
        shots=(48, 192),
        camera=0.4,
        bodies=2,
        speed=1.0,
        grain=1.5,
    ),
    "busy": Character(
        "fast pans, four fast bodies, light grain, shots of half a second to 3 s",
        shots=(12, 72),
        camera=6.0,
        bodies=4,
        speed=8.0,
        grain=1.5,
    ),
    "clean": Character(
        "flat colours and hard edges, no grain, every picture held twice, as in drawn films",
        shots=(48, 192),
        camera=1.0,
        bodies=3,
        speed=3.0,
        grain=0.0,
        drawn=True,
    ),
    "static": Character(
        "a locked camera and one body that sways, light grain, shots of 4 to 20 s",
        shots=(96, 480),
        camera=0.0,
        bodies=1,
        speed=0.5,
        grain=1.0,
    ),
    "noisy": Character(
        "a slow camera, two slow bodies, heavy grain, shots of 2 to 8 s",
        shots=(48, 192),
        camera=0.4,
        bodies=2,
        speed=1.0,
        grain=4.0,
    ),
}


def pictures(
    character: Character, count: int, height: int, width: int
) -> Iterator[Pixels]:
    """Yield the pictures of a film, each [height * 3 / 2, width] in the layout of yuv420p."""
    draw = np.random.default_rng(0)
    scenes = [_Scene(draw, character, height, width) for _ in range(SCENES)]
    grain = _grain(draw, character.grain, height, width)
    number = 0
    while number < count:
        scene = scenes[int(draw.integers(SCENES))]
        scene.begin(draw)
        for step in range(int(draw.integers(*character.shots))):
            if number == count:
                return
            # Drawn films show every picture twice.
            planes = scene.at(step // 2 * 2 if character.drawn else step)
            if character.grain:
                y, x = draw.integers(0, 64, 2)
                luma = planes[:height]
                np.add(
                    luma,
                    grain[y : y + height, x : x + width],
                    out=luma,
                    casting="unsafe",
                )
            yield planes
            number += 1


class _Scene:
    """A background with bodies before it; `begin` sets them moving anew."""

    def __init__(
        self, draw: np.random.Generator, character: Character, height: int, width: int
    ) -> None:
        self.character = character
        self.height = height
        self.width = width
        self.back = _Sheet(draw, height + MARGIN, width + MARGIN, character.drawn)
        sizes = draw.uniform(0.25, 0.6, (character.bodies, 2)) * height
        self.bodies = [
            _Sheet(draw, int(tall) // 4 * 4, int(wide) // 4 * 4, character.drawn)
            for tall, wide in sizes
        ]
        self.begin(draw)

    def begin(self, draw: np.random.Generator) -> None:
        """A new shot: where everything starts and how fast it goes."""
        speeds = draw.uniform(-1, 1, (1 + len(self.bodies), 2))
        self.moves = speeds * np.array(
            [[self.character.camera], *([self.character.speed],) * len(self.bodies)]
        )
        self.starts = draw.uniform(0, 1, (1 + len(self.bodies), 2))

    def at(self, step: int) -> Pixels:
        """The planes of the picture that many pictures after the beginning of the shot."""
        y, x = (
            _bounce(self.starts[0] * MARGIN + self.moves[0] * step, (MARGIN, MARGIN))
        ).tolist()
        planes = np.empty((self.height * 3 // 2, self.width), dtype=np.uint8)
        self.back.copy(planes, self.height, y, x)
        for body, start, move in zip(
            self.bodies, self.starts[1:], self.moves[1:], strict=True
        ):
            room = (self.height - body.height, self.width - body.width)
            y, x = _bounce(start * room + move * step, room).tolist()
            body.put(planes, self.height, y, x)
        return planes


class _Sheet:
    """A texture to be looked at through a window, or, as an ellipse, laid on a picture.

    It is kept in four versions half a pixel apart: real cameras do not move by whole pixels.
    """

    def __init__(
        self, draw: np.random.Generator, height: int, width: int, drawn: bool
    ) -> None:
        self.height = height
        self.width = width
        fine = _texture(draw, 2 * height, 2 * width, drawn)
        self.luma: dict[tuple[int, int], Pixels] = {}
        for dy, dx in product((0, 1), repeat=2):
            self.luma[dy, dx] = np.ascontiguousarray(fine[dy::2, dx::2])
        tint = draw.uniform(-30, 30, (2, 1, 1)) + GREY
        shade = (fine[::4, ::4].astype(np.float64) - GREY) * draw.uniform(
            -0.3, 0.3, (2, 1, 1)
        )
        self.chroma = (tint + shade).clip(16, 240).astype(np.uint8)
        rows = np.linspace(-1, 1, height)[:, None]
        columns = np.linspace(-1, 1, width)[None, :]
        self.mask = rows**2 + columns**2 < 1

    def copy(self, planes: Pixels, height: int, y: float, x: float) -> None:
        """Fill the planes with the part of the sheet that begins at (y, x)."""
        width = planes.shape[1]
        luma = self._shifted(y, x)
        planes[:height] = luma[int(y) : int(y) + height, int(x) : int(x) + width]
        top = int(y) // 2
        left = int(x) // 2
        window = self.chroma[:, top : top + height // 2, left : left + width // 2]
        chroma_planes(planes, height)[:] = window

    def put(self, planes: Pixels, height: int, y: float, x: float) -> None:
        """Lay the sheet on the planes at (y, x)."""
        # A body goes right where a window would go left: the half pixel is taken back.
        rows = slice(int(y), int(y) + self.height)
        columns = slice(int(x), int(x) + self.width)
        np.copyto(
            planes[:height][rows, columns], self._shifted(-y, -x), where=self.mask
        )
        top = int(y) // 2
        left = int(x) // 2
        rows = slice(top, top + self.height // 2)
        columns = slice(left, left + self.width // 2)
        chroma = chroma_planes(planes, height)
        np.copyto(chroma[:, rows, columns], self.chroma, where=self.mask[::2, ::2])

    def _shifted(self, y: float, x: float) -> Pixels:
        return self.luma[int(2 * y) % 2, int(2 * x) % 2]


def chroma_planes(planes: Pixels, height: int) -> Pixels:
    """The two colour planes as one array [2, height / 2, width / 2]."""
    return planes[height:].reshape(2, height // 2, planes.shape[1] // 2)


def _bounce(at: Levels, room: tuple[int, int]) -> Levels:
    """Positions that turn back at the edges of their room."""
    edges = np.array(room, dtype=np.float64) - 1
    return edges - np.abs(at % (2 * edges) - edges)


def _texture(draw: np.random.Generator, height: int, width: int, drawn: bool) -> Pixels:
    """Clouds whose amplitude falls with the frequency, as in photographs; or flat areas."""
    y = np.fft.fftfreq(height)[:, None]
    x = np.fft.rfftfreq(width)[None, :]
    frequency = np.maximum(np.hypot(y, x), 2 / max(height, width))
    # Nothing finer than the pixels of the picture, which are two of these.
    amplitude = frequency ** (-2.0 if drawn else -1.3) * np.exp(
        -((frequency / 0.25) ** 2)
    )
    clouds = np.fft.irfft2(np.fft.rfft2(draw.normal(size=(height, width))) * amplitude)
    clouds = clouds[:height, :width] / clouds.std()
    if drawn:
        clouds = np.floor(clouds * 2) / 2
    levels: Pixels = (clouds * 40 + 118).clip(24, 222).astype(np.uint8)
    return levels


def _grain(
    draw: np.random.Generator, deviation: float, height: int, width: int
) -> Levels:
    """Noise of a standard deviation, a little wider than a pixel; 64 larger than the picture."""
    noise = draw.normal(size=(height + 65, width + 65))
    soft = noise[1:, 1:] + noise[:-1, 1:] + noise[1:, :-1] + noise[:-1, :-1]
    return soft / 2 * deviation
