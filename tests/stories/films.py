"""The made-up films of the stories, and clips with features in which a level is planted.

Each picture of a film carries a number that no other picture of these films has: film k has the
numbers from 250 k on. So a picture says of which film it is, and when.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from support.videos import write_video

from stories.workspace import Workspace

FILMS = ("harbour", "lake", "night", "station")
PICTURES = 250
RATE = 25
LEVELS = ("EN", "HN", "S", "NS", "EN")
CONCEPTS = ("Look", "Body", "Posture", "Clothing")

Row = dict[str, Any]


def first_number(film: str) -> int:
    return PICTURES * FILMS.index(film)


def write_films(folder: Path, *films: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for film in films or FILMS:
        first = first_number(film)
        numbers = range(first, first + PICTURES)
        write_video(folder / f"{film}.mp4", numbers=numbers, options={"g": str(RATE)})


def rows_of_clips(*films: str, per_film: int = 10) -> list[Row]:
    """Return the table of clips of the films: each film in equal parts, with level and concepts."""
    length = PICTURES // per_film
    rows = []
    for film in films or FILMS:
        for number in range(per_film):
            level = LEVELS[number % len(LEVELS)]
            concept = CONCEPTS[number % len(CONCEPTS)]
            row = {"clip_id": f"{film}-{number + 1:03d}", "movie_id": film}
            row["start_s"] = number * length / RATE
            row["end_s"] = (number + 1) * length / RATE
            row |= {"level": level, "concepts": "" if level == "EN" else concept}
            rows.append(row)
    return rows


def import_films(ws: Workspace, *films: str, per_film: int = 10) -> None:
    write_films(ws.path("videos"), *films)
    ws.import_table(rows_of_clips(*films, per_film=per_film), "films", "clips")
    ws("manifest link films videos")


def labelled_clips(n_films: int = 12, per_film: int = 20, seed: int = 0) -> list[Row]:
    draws = np.random.default_rng(seed)
    rows = []
    for film in range(1, n_films + 1):
        for scene in range(1, per_film + 1):
            is_s = draws.random() < 0.4
            level = "S" if is_s else str(draws.choice(["EN", "HN"]))
            n_concepts = {"EN": 0, "HN": 1, "S": 2}[level]
            concepts = draws.choice(CONCEPTS, n_concepts, replace=False)
            name = f"film{film:02d}"
            row = {"clip_id": f"{name}-{scene:03d}", "movie_id": name}
            rows.append({**row, "level": level, "concepts": "|".join(sorted(concepts))})
    return rows


def features_of(
    rows: list[Row], *, width: int = 16, level=0.0, concepts=0.0, seed: int = 1
) -> npt.NDArray[np.float32]:
    """Return noise of one standard deviation in which levels and concepts are planted.

    Column 0 is higher by `level` in clips of level S; column 1 + k is higher by `concepts` in
    clips with concept k.
    """
    X = np.random.default_rng(seed).normal(size=(len(rows), width)).astype(np.float32)
    X[[row["level"] == "S" for row in rows], 0] += level
    for column, concept in enumerate(CONCEPTS, start=1):
        has_concept = [concept in row["concepts"].split("|") for row in rows]
        X[has_concept, column] += concepts
    return X


def import_features(
    ws, rows: list[Row], X: npt.NDArray[Any], store: str, *, manifest: str = "films"
) -> None:
    if not ws.path(f"manifests/{manifest}.toml").exists():
        ws.import_table(rows, manifest)
    np.savez(ws.path(f"{store}.npz"), clip_id=[row["clip_id"] for row in rows], X=X)
    ws(f"store import {store}.npz --array clip=X --manifest {manifest} -o {store}")
