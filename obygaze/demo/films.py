"""Made-up films: their scenes, the segments that two made-up annotators mark, and the videos.

Each scene may have the concepts `Body`, `Look` and `Voice`, independent of each other. A scene with
`Body` has a warm shape in its pictures, whose strength varies; simple statistics of the pictures
find it. `Look` changes nothing, so that no model can find it. `Voice` can only be heard: somebody
hums.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt

from obygaze.films.marks import CONCEPTS_COLUMN, LEVEL, WATCHED, Mark, written
from obygaze_features.core.files import csv_bytes, write_atomic
from obygaze_features.core.lazy import import_optional
from obygaze_features.manifest.spans import FrameSpan

SEED = 17
FPS = 24
WIDTH = 128
HEIGHT = 72
TITLES = tuple(f"tt90000{number:02d}" for number in range(1, 13))
# The concepts of the scenes of each film. The share of `Look` is the same with and without `Body`.
SCENES_OF_A_FILM = (
    *((),) * 6,
    *(("Body",),) * 3,
    *(("Look",),) * 2,
    ("Body", "Look"),
)
# The indices above of the scenes that have `Voice` too: a quarter of the scenes with `Body`, and a
# quarter of the scenes without it.
WITH_VOICE = (0, 6, 9)
RATE = 16000
ANNOTATORS = ("ada", "ben")
WARM = np.asarray((0.95, 0.62, 0.48), dtype=np.float32)
Picture = npt.NDArray[np.float32]
Y, X = np.meshgrid(
    np.linspace(-1, 1, HEIGHT, dtype=np.float32),
    np.linspace(-1.78, 1.78, WIDTH, dtype=np.float32),
    indexing="ij",
)


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
        """The id of the scene's clip, built like the clip ids of MovieGraphs."""
        return f"{self.movie_id}-{self.number:03d}"


def make_films() -> list[DemoScene]:
    """Return the scenes of all films in order."""
    random = Random(SEED)
    scenes = []
    for movie_id in TITLES:
        places = list(range(len(SCENES_OF_A_FILM)))
        random.shuffle(places)
        concepts_of_scenes = [SCENES_OF_A_FILM[place] for place in places]
        marked = [i for i, concepts in enumerate(concepts_of_scenes) if concepts]
        hard_negative = random.choice(marked)
        start = 0
        for i, concepts in enumerate(concepts_of_scenes):
            n_frames = random.randint(FPS, 3 * FPS // 2)
            if places[i] in WITH_VOICE:
                concepts = (*concepts, "Voice")
            level = "S" if concepts else "EN"
            if i == hard_negative:
                level = "HN"
            end = start + n_frames - 1
            scenes.append(DemoScene(movie_id, i + 1, start, end, level, concepts))
            start += n_frames
    return scenes


def annotate(scenes: Sequence[DemoScene]) -> list[Mark]:
    """Return the marks of each annotator.

    The first annotator marks every scene with a concept; the second annotator overlooks some. Their
    segments start and end a few frames apart. `watched` marks state that both annotators watched
    whole films.
    """
    marks: list[Mark] = []

    def add(
        movie_id: str, start: int, end: int, words: Mapping[str, str], annotator: str
    ) -> None:
        times_s = start / FPS, (end + 1) / FPS
        frames = FrameSpan(start, end, Fraction(FPS))
        for value, column in words.items():
            marks.append(Mark(movie_id, *times_s, column, value, annotator, frames))

    last_frames = {scene.movie_id: scene.end_frame for scene in scenes}
    for movie_id, last_frame in last_frames.items():
        for annotator in ANNOTATORS:
            add(movie_id, 0, last_frame, {WATCHED: WATCHED}, annotator)
    for number, annotator in enumerate(ANNOTATORS):
        random = Random(SEED * 100 + number)
        for scene in scenes:
            overlooked = number > 0 and random.random() < 0.1
            if overlooked or not scene.concepts:
                continue
            start = scene.start_frame + random.randint(0, 6)
            end = scene.end_frame - random.randint(0, 6)
            words = dict.fromkeys(scene.concepts, CONCEPTS_COLUMN)
            words[scene.level] = LEVEL
            add(scene.movie_id, start, end, words, annotator)
    return marks


def write_tables(scenes: Sequence[DemoScene], folder: Path) -> tuple[Path, Path]:
    """Write segments.csv and clips.csv, the input of `obygaze marks clips`."""
    segments = folder / "segments.csv"
    clips = folder / "clips.csv"
    write_atomic(segments, written(annotate(scenes)))
    names = ("clip_id", "movie_id", "scene", "start_frame", "end_frame", "framerate")
    rows = (
        (s.clip_id, s.movie_id, s.number, s.start_frame, s.end_frame, FPS)
        for s in scenes
    )
    write_atomic(clips, csv_bytes(names, rows))
    return segments, clips


def render_films(scenes: Sequence[DemoScene], folder: Path) -> list[Path]:
    """Write one video per scene, named `<film>/<film>_scene_<number>.mp4` as in MovieGraphs."""
    av = import_optional("av", "video", "making the demo's films")
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
            sound = out.add_stream("aac", rate=RATE, layout="mono")
            for picture in _pictures(scene):
                out.mux(
                    stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24"))
                )
            out.mux(stream.encode())
            frame = av.AudioFrame.from_ndarray(
                _sound(scene)[None], format="fltp", layout="mono"
            )
            frame.rate = RATE
            out.mux(sound.encode(frame))
            out.mux(sound.encode(None))
        paths.append(path)
    return paths


def _sound(scene: DemoScene) -> npt.NDArray[np.float32]:
    """Return the samples of a scene: noise, and for `Voice` the humming of somebody."""
    random = np.random.default_rng([int(scene.movie_id[2:]), scene.number, RATE])
    n_frames = scene.end_frame - scene.start_frame + 1
    at_s = np.arange(n_frames * RATE // FPS) / RATE
    samples = random.uniform(0.01, 0.04) * random.standard_normal(len(at_s))
    if "Voice" in scene.concepts:
        pitch = random.uniform(180, 320)
        phase = 2 * np.pi * pitch * at_s + 2 * np.sin(2 * np.pi * 5 * at_s)
        overtones = [np.sin(number * phase) / number for number in (1, 2, 3)]
        swells = 0.6 + 0.4 * np.sin(2 * np.pi * 2 * at_s)
        samples += random.uniform(0.006, 0.02) * swells * np.sum(overtones, axis=0)
    return samples.astype(np.float32)


def _pictures(scene: DemoScene) -> Iterator[npt.NDArray[np.uint8]]:
    random = np.random.default_rng([int(scene.movie_id[2:]), scene.number])
    n_frames = scene.end_frame - scene.start_frame + 1
    cut = int(random.integers(n_frames // 3, 2 * n_frames // 3))
    shots = [_Shot(scene, random), _Shot(scene, random)]
    for i in range(n_frames):
        picture = shots[i >= cut].draw(i / FPS)
        yield np.clip(picture * 255, 0, 255).astype(np.uint8)


class _Shot:
    """One shot: the tint of the film, a moving background, and the warm shape of `Body`."""

    def __init__(self, scene: DemoScene, random: np.random.Generator) -> None:
        film = np.random.default_rng(int(scene.movie_id[2:]))
        self.tint = 0.35 + 0.3 * film.random(3, dtype=np.float32)
        self.phase = random.uniform(0, 6.28, size=2).astype(np.float32)
        self.drift = float(random.uniform(0.2, 0.8))
        self.noise = random.normal(0, 0.04, size=(HEIGHT, WIDTH, 1)).astype(np.float32)
        strength = float(random.uniform(0.3, 0.8))
        self.body = strength if "Body" in scene.concepts else 0.0

    def draw(self, t: float) -> Picture:
        """Return the picture at `t` seconds, RGB from 0 to 1."""
        across = np.sin(3 * X + self.phase[0] + self.drift * t)
        down = np.cos(2 * Y + self.phase[1])
        picture = self.tint + 0.12 * (across * down)[..., None] + self.noise
        if self.body:
            left = X - 0.1 * np.sin(t + self.phase[0])
            shape = np.exp(-((left / 0.6) ** 2) - ((Y - 0.2) / 0.9) ** 2)
            alpha = self.body * shape[..., None]
            picture = picture * (1 - alpha) + alpha * WARM
        return np.asarray(picture, dtype=np.float32)
