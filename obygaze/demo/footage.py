"""Render made-up films: coloured scenes with cuts and motion, and one pattern for each concept.

Models can learn the patterns; their strength varies, so that the task is not too easy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze.demo.films import FPS, DemoScene
from obygaze_features.core.extras import need

WIDTH, HEIGHT = 192, 108
Picture = npt.NDArray[np.float32]


def render(scenes: Sequence[DemoScene], folder: Path) -> list[Path]:
    """Write one video a scene, named `<film>/<film>_scene_<number>.mp4` as in MovieGraphs."""
    return [_write(scene, folder) for scene in scenes]


def truncate_video(path: Path) -> None:
    """Truncate a video to its first third, as an interrupted copy does."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 3])


def _write(scene: DemoScene, folder: Path) -> Path:
    av = need("av", "video", "making the demo's films")
    path = folder / scene.movie_id / f"{scene.movie_id}_scene_{scene.number}.mp4"
    path.parent.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng([int(scene.movie_id[2:]), scene.number])
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=FPS, options={"preset": "ultrafast", "crf": "23"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.thread_count = 1
        for picture in _pictures(scene, random):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return path


def _pictures(scene: DemoScene, random: np.random.Generator) -> list[npt.NDArray[np.uint8]]:
    n_frames = scene.end_frame - scene.start_frame + 1
    cut = int(random.integers(n_frames // 3, 2 * n_frames // 3))
    shots = [_Shot(scene, random), _Shot(scene, random)]
    frames = (shots[i >= cut].draw(i / FPS) for i in range(n_frames))
    return [np.clip(frame * 255, 0, 255).astype(np.uint8) for frame in frames]


class _Shot:
    """One shot: the tint of the film, a moving background, and the patterns of the scene."""

    def __init__(self, scene: DemoScene, random: np.random.Generator) -> None:
        film = np.random.default_rng(int(scene.movie_id[2:]))
        self.tint = 0.35 + 0.3 * film.random(3, dtype=np.float32)
        self.phase = random.uniform(0, 6.28, size=4).astype(np.float32)
        self.drift = float(random.uniform(0.2, 0.8))
        self.noise = random.normal(0, 0.04, size=(HEIGHT, WIDTH, 1)).astype(np.float32)
        self.patterns = [
            (PATTERNS[name], float(random.uniform(0.35, 0.9)), float(random.uniform(0, 6.28)))
            for name in scene.concepts
        ]

    def draw(self, t: float) -> Picture:
        """Return the picture at a time, RGB from 0 to 1."""
        y, x = _GRID
        wave = np.sin(3 * x + self.phase[0] + self.drift * t) * np.cos(2 * y + self.phase[1])
        picture = self.tint + 0.12 * wave[..., None] + self.noise
        for pattern, strength, phase in self.patterns:
            mask, colour = pattern(t + phase)
            alpha = strength * mask[..., None]
            picture = picture * (1 - alpha) + alpha * np.asarray(colour, dtype=np.float32)
        return np.asarray(picture, dtype=np.float32)


_GRID = np.meshgrid(
    np.linspace(-1, 1, HEIGHT, dtype=np.float32),
    np.linspace(-1.78, 1.78, WIDTH, dtype=np.float32),
    indexing="ij",
)
Pattern = Callable[[float], tuple[Any, tuple[float, float, float]]]


def _blob(x0: float, y0: float, width: float, height: float) -> Any:
    y, x = _GRID
    return np.exp(-(((x - x0) / width) ** 2) - ((y - y0) / height) ** 2)


def _stripes(t: float, frequency: float, slant: float) -> Any:
    y, x = _GRID
    return (np.sin(frequency * (x + slant * y) + t) > 0.3).astype(np.float32)


# The patterns differ in colour, texture or motion, which simple statistics can measure.
PATTERNS: Mapping[str, Pattern] = {
    "Type of shot": lambda t: (_blob(0, 0, 2.2, 1.4), (0.1, 0.1, 0.12)),
    "Look": lambda t: (
        _blob(0.8 * np.sin(3 * t), -0.2, 0.2, 0.2)
        + _blob(0.8 * np.sin(3 * t) + 0.5, -0.2, 0.2, 0.2),
        (0.95, 0.95, 1.0),
    ),
    "Body": lambda t: (_blob(0.1 * np.sin(t), 0.2, 0.6, 0.9), (0.95, 0.62, 0.48)),
    "Posture": lambda t: (_blob(0, 0, 1.6, 0.16) * _stripes(0, 1.0, 0.5), (0.2, 0.75, 0.3)),
    "Clothing": lambda t: (0.6 * _stripes(t, 22, 0.0) * _blob(0, 0.3, 0.9, 0.7), (0.75, 0.1, 0.55)),
    "Appearance": lambda t: (
        0.7 * _stripes(9 * t, 40, 1.0) * _blob(0, -0.5, 1.5, 0.4),
        (1, 0.9, 0.3),
    ),
    "Expression of emotion": lambda t: (
        _blob(0, -0.1, 0.5, 0.5) * abs(np.sin(4 * t)),
        (0.9, 0.15, 0.1),
    ),
    "Activities": lambda t: (
        _blob(1.4 * np.sin(7 * t), 0.6 * np.cos(9 * t), 0.35, 0.35),
        (0.15, 0.4, 0.95),
    ),
}
