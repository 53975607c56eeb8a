"""Small films with sound: pictures of one colour, and whatever samples a test plays."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from support.videos import encode_video

RATE = 16000
FPS = 10
Samples = npt.NDArray[np.float32]


def noise(seconds: float, seed: int = 0, level: float = 0.1) -> Samples:
    random = np.random.default_rng(seed)
    samples = level * random.standard_normal(round(seconds * RATE))
    return samples.astype(np.float32)


def tone(seconds: float, hertz: float = 440.0, level: float = 0.3) -> Samples:
    at_s = np.arange(round(seconds * RATE)) / RATE
    return (level * np.sin(2 * np.pi * hertz * at_s)).astype(np.float32)


def write_film(path, seconds: float, samples: Samples | None, *, seed: int = 0) -> Path:
    """A film of so many seconds in FLAC and H.264 in Matroska; without samples it is silent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    pictures = []
    for _ in range(round(seconds * FPS)):
        colour = random.integers(0, 256, 3).astype(np.uint8)
        pictures.append(np.broadcast_to(colour, (48, 64, 3)))
    facts = {"rate": FPS, "tick": Fraction(1, FPS), "size": (64, 48)}
    sound: Any = False
    if samples is not None:
        whole = np.clip(np.round(samples * 32768), -32768, 32767).astype(np.int16)
        sound = ("flac", whole, RATE)
    return encode_video(
        path, pictures=pictures, options={"g": "5"}, audio=sound, **facts
    )
