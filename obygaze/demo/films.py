"""Made-up films: their scenes, the segments that two made-up annotators mark, and the videos.

A scene often has the level of the scene before it, as in real films, so that splits that are not
grouped by film are too optimistic on these data as well. The videos have cuts, motion, and one
pattern for each concept of their scene. Models can learn the patterns; their strength varies, so
that the task is not too easy.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from obygaze_features.core.files import csv_bytes, write_atomic
from obygaze_features.core.lazy import need
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.vocabulary import concepts

FPS = 24
TITLES = tuple(f"tt900000{number}" for number in range(1, 7))
SCENES_A_FILM = 12
ANNOTATORS = ("ada", "ben")
LEVEL_WEIGHTS = (40, 20, 15, 25)
N_CONCEPTS = {"EN": (0, 0), "HN": (1, 1), "NS": (1, 2), "S": (2, 3)}
WIDTH = 192
HEIGHT = 108
SEGMENT_COLUMNS = (
    "movie_id",
    "annotator",
    "start_frame",
    "end_frame",
    "level",
    "concepts",
)
Picture = npt.NDArray[np.float32]
_GRID = np.meshgrid(
    np.linspace(-1, 1, HEIGHT, dtype=np.float32),
    np.linspace(-1.78, 1.78, WIDTH, dtype=np.float32),
    indexing="ij",
)
# The patterns differ in colour, texture or motion, which simple statistics can measure.
COLORS: Mapping[str, tuple[float, float, float]] = {
    "Type of shot": (0.1, 0.1, 0.12),
    "Look": (0.95, 0.95, 1.0),
    "Body": (0.95, 0.62, 0.48),
    "Posture": (0.2, 0.75, 0.3),
    "Clothing": (0.75, 0.1, 0.55),
    "Appearance": (1, 0.9, 0.3),
    "Expression of emotion": (0.9, 0.15, 0.1),
    "Activities": (0.15, 0.4, 0.95),
}


@dataclass(frozen=True)
class DemoScene:
    """A scene of a film, from its first to its last frame, and its true level and concepts."""

    movie_id: str
    number: int
    start_frame: int
    end_frame: int
    level: str
    concepts: tuple[str, ...]

    @property
    def clip_id(self) -> str:
        """The id of the scene's clip, in the form of MovieGraphs."""
        return f"{self.movie_id}-{self.number:03d}"


def make_films(seed: int = 17) -> list[DemoScene]:
    """Return the scenes of all films in order."""
    random = Random(seed)
    scenes = []
    for movie_id in TITLES:
        start = 0
        level = "EN"
        for number in range(1, SCENES_A_FILM + 1):
            length = random.randint(3 * FPS // 2, 3 * FPS)
            if random.random() < 0.7:
                level = random.choices(LEVELS, LEVEL_WEIGHTS)[0]
            visual = [
                name for name, modality in concepts().items() if modality == "visual"
            ]
            chosen = random.sample(visual, random.randint(*N_CONCEPTS[level]))
            names = tuple(name for name in visual if name in chosen)
            end = start + length - 1
            scenes.append(DemoScene(movie_id, number, start, end, level, names))
            start += length
    return scenes


def annotate(
    scenes: Sequence[DemoScene], seed: int = 17
) -> list[tuple[str | int, ...]]:
    """Return the segments each annotator marks, as rows of SEGMENT_COLUMNS.

    They are similar, not equal; EN scenes are not marked.
    """
    rows: list[tuple[str | int, ...]] = []
    for number, annotator in enumerate(ANNOTATORS):
        random = Random(seed * 100 + number)
        for scene in scenes:
            level = scene.level
            names = scene.concepts
            if random.random() < 0.15:
                level = LEVELS[max(0, LEVELS.index(level) - 1)]
            if level == "EN" or not names:
                continue
            if len(names) > 1 and random.random() < 0.3:
                names = tuple(sorted(random.sample(names, len(names) - 1)))
            start = max(0, scene.start_frame + random.randint(-12, 12))
            end = scene.end_frame + random.randint(-12, 12)
            rows.append((scene.movie_id, annotator, start, end, level, "|".join(names)))
    return rows


def write_tables(scenes: Sequence[DemoScene], folder: Path) -> tuple[Path, Path]:
    """Write segments.csv and clips.csv, the input of `obygaze manifest project`."""
    segments = folder / "segments.csv"
    clips = folder / "clips.csv"
    write_atomic(segments, csv_bytes(SEGMENT_COLUMNS, annotate(scenes)))
    names = ("clip_id", "movie_id", "scene", "start_frame", "end_frame")
    rows = (
        (s.clip_id, s.movie_id, s.number, s.start_frame, s.end_frame) for s in scenes
    )
    write_atomic(clips, csv_bytes(names, rows))
    return segments, clips


def render(scenes: Sequence[DemoScene], folder: Path) -> list[Path]:
    """Write one video a scene, named `<film>/<film>_scene_<number>.mp4` as in MovieGraphs."""
    av = need("av", "video", "making the demo's films")
    paths = []
    for scene in scenes:
        path = folder / scene.movie_id / f"{scene.movie_id}_scene_{scene.number}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        with av.open(str(path), "w") as out:
            options = {"preset": "ultrafast", "crf": "23"}
            stream = out.add_stream("libx264", rate=FPS, options=options)
            stream.width = WIDTH
            stream.height = HEIGHT
            stream.pix_fmt = "yuv420p"
            stream.codec_context.thread_count = 1
            for picture in _pictures(scene):
                out.mux(
                    stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24"))
                )
            out.mux(stream.encode())
        paths.append(path)
    return paths


def truncate_video(path: Path) -> None:
    """Truncate a video to its first third, as an interrupted copy does."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 3])


def _pictures(scene: DemoScene) -> Iterator[npt.NDArray[np.uint8]]:
    random = np.random.default_rng([int(scene.movie_id[2:]), scene.number])
    n_frames = scene.end_frame - scene.start_frame + 1
    cut = int(random.integers(n_frames // 3, 2 * n_frames // 3))
    shots = [_Shot(scene, random), _Shot(scene, random)]
    for i in range(n_frames):
        frame = shots[i >= cut].draw(i / FPS)
        yield np.clip(frame * 255, 0, 255).astype(np.uint8)


class _Shot:
    """One shot: the tint of the film, a moving background, and the patterns of the scene."""

    def __init__(self, scene: DemoScene, random: np.random.Generator) -> None:
        film = np.random.default_rng(int(scene.movie_id[2:]))
        self.tint = 0.35 + 0.3 * film.random(3, dtype=np.float32)
        self.phase = random.uniform(0, 6.28, size=4).astype(np.float32)
        self.drift = float(random.uniform(0.2, 0.8))
        self.noise = random.normal(0, 0.04, size=(HEIGHT, WIDTH, 1)).astype(np.float32)
        self.patterns = [
            (name, float(random.uniform(0.35, 0.9)), float(random.uniform(0, 6.28)))
            for name in scene.concepts
        ]

    def draw(self, t: float) -> Picture:
        """Return the picture at a time, RGB from 0 to 1."""
        y, x = _GRID
        wave = np.sin(3 * x + self.phase[0] + self.drift * t) * np.cos(
            2 * y + self.phase[1]
        )
        picture = self.tint + 0.12 * wave[..., None] + self.noise
        for concept, strength, phase in self.patterns:
            alpha = strength * _mask(concept, t + phase)[..., None]
            picture = picture * (1 - alpha) + alpha * np.asarray(
                COLORS[concept], dtype=np.float32
            )
        return np.asarray(picture, dtype=np.float32)


def _blob(x0: float, y0: float, width: float, height: float) -> Any:
    y, x = _GRID
    return np.exp(-(((x - x0) / width) ** 2) - ((y - y0) / height) ** 2)


def _stripes(t: float, frequency: float, slant: float) -> Any:
    y, x = _GRID
    return (np.sin(frequency * (x + slant * y) + t) > 0.3).astype(np.float32)


def _mask(concept: str, t: float) -> Any:
    """Return where the pattern of a concept is at a time, from 0 to 1."""
    match concept:
        case "Type of shot":
            return _blob(0, 0, 2.2, 1.4)
        case "Look":
            x = 0.8 * np.sin(3 * t)
            return _blob(x, -0.2, 0.2, 0.2) + _blob(x + 0.5, -0.2, 0.2, 0.2)
        case "Body":
            return _blob(0.1 * np.sin(t), 0.2, 0.6, 0.9)
        case "Posture":
            return _blob(0, 0, 1.6, 0.16) * _stripes(0, 1.0, 0.5)
        case "Clothing":
            return 0.6 * _stripes(t, 22, 0.0) * _blob(0, 0.3, 0.9, 0.7)
        case "Appearance":
            return 0.7 * _stripes(9 * t, 40, 1.0) * _blob(0, -0.5, 1.5, 0.4)
        case "Expression of emotion":
            return _blob(0, -0.1, 0.5, 0.5) * abs(np.sin(4 * t))
        case _:  # Activities
            return _blob(1.4 * np.sin(7 * t), 0.6 * np.cos(9 * t), 0.35, 0.35)
