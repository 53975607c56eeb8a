"""The published split files, read by a reader that shares no code with the package."""

import ast
import csv
import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from support.data import real_data

VISUAL = ("Type of plan", "Look", "Body", "Posture", "Clothes", "Appearance")
VISUAL += ("Exp of  emotion", "Activities")
CONCEPTS = ("Type of shot", "Look", "Body", "Posture", "Clothing", "Appearance")
CONCEPTS += ("Expression of emotion", "Activities")
POSITIVE = {"Sure", "S", "1"}


@dataclass
class SplitFile:
    ids: list[str]
    films: list[str]
    scenes: NDArray[np.intp]
    y: NDArray[np.bool_]
    folds: NDArray[np.intp]
    has_video: NDArray[np.bool_]
    concepts: NDArray[np.float64]

    def in_folds(self, *folds: int) -> list[str]:
        return [*itertools.compress(self.ids, np.isin(self.folds, folds))]


def split_file(name: str) -> SplitFile:
    path = real_data("obygaze12", *name.split("/"))
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream, delimiter=";"))
    named = [{c.strip() for c in ast.literal_eval(row["reason"])} for row in rows]
    return SplitFile(
        ids=[row["id"] for row in rows],
        films=[row["movie"] for row in rows],
        scenes=np.array([int(row["id"].split("-")[1]) for row in rows]),
        y=np.array([row["label"] in POSITIVE for row in rows]),
        folds=np.array([int(row["fold"]) for row in rows]),
        has_video=np.array([row["video_name"] != "" for row in rows]),
        concepts=np.array([[float(c in clip) for c in VISUAL] for clip in named]),
    )
