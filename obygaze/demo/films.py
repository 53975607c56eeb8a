"""Made-up films and the annotations two made-up experts give them.

Scenes keep the level of the scene before more often than not, as real films do: what a split
that is not grouped by film gets wrong shows on these data too.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from obygaze_features.core.files import write_atomic
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.vocabulary import concepts

FPS = 24
TITLES = tuple(f"tt900000{number}" for number in range(1, 7))
SCENES_A_FILM = 12
ANNOTATORS = ("ada", "ben")
LEVEL_WEIGHTS = (40, 20, 15, 25)
N_CONCEPTS = {"EN": (0, 0), "HN": (1, 1), "NS": (1, 2), "S": (2, 3)}


@dataclass(frozen=True)
class Scene:
    """A stretch of film, both ends included, and what is really in it."""

    movie_id: str
    number: int
    start_frame: int
    end_frame: int
    level: str
    concepts: tuple[str, ...]

    @property
    def clip_id(self) -> str:
        """The id in MovieGraphs' form."""
        return f"{self.movie_id}-{self.number:03d}"


@dataclass(frozen=True)
class Segment:
    """A stretch that one annotator marked."""

    movie_id: str
    annotator: str
    start_frame: int
    end_frame: int
    level: str
    concepts: tuple[str, ...]


def make_films(seed: int = 17) -> list[Scene]:
    """The scenes of all films, one after the other."""
    random = Random(seed)
    return [scene for movie_id in TITLES for scene in _scenes(movie_id, random)]


def annotate(scenes: Iterable[Scene], seed: int = 17) -> list[Segment]:
    """What each annotator marks: mostly the same, never quite; easy negatives go unmarked."""
    listed = list(scenes)
    return [
        segment
        for number, annotator in enumerate(ANNOTATORS)
        for segment in _segments(listed, annotator, Random(seed * 100 + number))
    ]


def write_tables(scenes: Sequence[Scene], folder: Path) -> tuple[Path, Path]:
    """Write segments.csv and clips.csv, the two tables a projection starts from."""
    columns = ("movie_id", "annotator", "start_frame", "end_frame", "level", "concepts")
    segments = (
        (s.movie_id, s.annotator, s.start_frame, s.end_frame, s.level, "|".join(s.concepts))
        for s in annotate(scenes)
    )
    clips = ((s.clip_id, s.movie_id, s.number, s.start_frame, s.end_frame) for s in scenes)
    paths = folder / "segments.csv", folder / "clips.csv"
    write_atomic(paths[0], _csv(columns, segments))
    names = ("clip_id", "movie_id", "scene", "start_frame", "end_frame")
    write_atomic(paths[1], _csv(names, clips))
    return paths


def _scenes(movie_id: str, random: Random) -> Iterator[Scene]:
    start, level = 0, "EN"
    for number in range(1, SCENES_A_FILM + 1):
        length = random.randint(3 * FPS // 2, 3 * FPS)
        if random.random() < 0.7:
            level = random.choices(LEVELS, LEVEL_WEIGHTS)[0]
        yield Scene(movie_id, number, start, start + length - 1, level, _pick(level, random))
        start += length


def _pick(level: str, random: Random) -> tuple[str, ...]:
    names = [name for name, modality in concepts().items() if modality == "visual"]
    chosen = random.sample(names, random.randint(*N_CONCEPTS[level]))
    return tuple(name for name in names if name in chosen)


def _segments(scenes: Sequence[Scene], annotator: str, random: Random) -> Iterator[Segment]:
    for scene in scenes:
        level, names = scene.level, scene.concepts
        if random.random() < 0.15:
            level = LEVELS[max(0, LEVELS.index(level) - 1)]
        if level == "EN" or not names:
            continue
        if len(names) > 1 and random.random() < 0.3:
            names = tuple(sorted(random.sample(names, len(names) - 1)))
        start = max(0, scene.start_frame + random.randint(-12, 12))
        end = scene.end_frame + random.randint(-12, 12)
        yield Segment(scene.movie_id, annotator, start, end, level, names)


def _csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return stream.getvalue().encode("utf-8")
