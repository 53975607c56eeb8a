"""Made-up films, and the segments that two made-up annotators mark in them.

A scene often has the level of the scene before it, as in real films, so that splits that are not
grouped by film are too optimistic on these data as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

from obygaze_features.core.files import csv_bytes, write_atomic
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.vocabulary import concepts

FPS = 24
TITLES = tuple(f"tt900000{number}" for number in range(1, 7))
SCENES_A_FILM = 12
ANNOTATORS = ("ada", "ben")
LEVEL_WEIGHTS = (40, 20, 15, 25)
N_CONCEPTS = {"EN": (0, 0), "HN": (1, 1), "NS": (1, 2), "S": (2, 3)}


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
        """The id, in the form of MovieGraphs."""
        return f"{self.movie_id}-{self.number:03d}"


class DemoSegment(NamedTuple):
    """A segment that one annotator marked, as a row of segments.csv."""

    movie_id: str
    annotator: str
    start_frame: int
    end_frame: int
    level: str
    concepts: str


def make_films(seed: int = 17) -> list[DemoScene]:
    """Return the scenes of all films in order."""
    random = Random(seed)
    return [scene for movie_id in TITLES for scene in _scenes(movie_id, random)]


def annotate(scenes: Sequence[DemoScene], seed: int = 17) -> list[DemoSegment]:
    """Return the segments each annotator marks: similar, not equal; EN scenes are not marked."""
    return [
        segment
        for number, annotator in enumerate(ANNOTATORS)
        for segment in _segments(scenes, annotator, Random(seed * 100 + number))
    ]


def write_tables(scenes: Sequence[DemoScene], folder: Path) -> tuple[Path, Path]:
    """Write segments.csv and clips.csv, the input of `obygaze manifest project`."""
    segments, clips = folder / "segments.csv", folder / "clips.csv"
    write_atomic(segments, csv_bytes(DemoSegment._fields, annotate(scenes)))
    names = ("clip_id", "movie_id", "scene", "start_frame", "end_frame")
    rows = ((s.clip_id, s.movie_id, s.number, s.start_frame, s.end_frame) for s in scenes)
    write_atomic(clips, csv_bytes(names, rows))
    return segments, clips


def _scenes(movie_id: str, random: Random) -> Iterator[DemoScene]:
    start, level = 0, "EN"
    for number in range(1, SCENES_A_FILM + 1):
        length = random.randint(3 * FPS // 2, 3 * FPS)
        if random.random() < 0.7:
            level = random.choices(LEVELS, LEVEL_WEIGHTS)[0]
        yield DemoScene(movie_id, number, start, start + length - 1, level, _pick(level, random))
        start += length


def _pick(level: str, random: Random) -> tuple[str, ...]:
    names = [name for name, modality in concepts().items() if modality == "visual"]
    chosen = random.sample(names, random.randint(*N_CONCEPTS[level]))
    return tuple(name for name in names if name in chosen)


def _segments(scenes: Sequence[DemoScene], annotator: str, random: Random) -> Iterator[DemoSegment]:
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
        yield DemoSegment(scene.movie_id, annotator, start, end, level, "|".join(names))
