"""The clips a saved model was trained on, with their out-of-fold scores: training-clips.csv."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_features.core.files import csv_bytes, json_values
from obygaze_features.core.notebook import short_repr

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TrainingClips:
    """The clips a model was trained on, with scores of fits that were not trained on them.

    `scores` maps a column of `Predicted.columns()`, such as `p:positive`, to one number per clip;
    NaN where no fold tested the clip.
    """

    clip_ids: tuple[str, ...]
    scores: Mapping[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.row_of) != len(self.clip_ids):
            raise FixInput("the training clips contain a clip twice")
        for column, values in self.scores.items():
            if np.shape(values) != (len(self.clip_ids),):
                raise FixInput(f"{column}: expected one score for each of {len(self)} clips")

    def __len__(self) -> int:
        return len(self.clip_ids)

    def __repr__(self) -> str:
        return short_repr("TrainingClips", f"{len(self)} clips", *self.scores)

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row of each clip in `scores`."""
        return {clip: row for row, clip in enumerate(self.clip_ids)}

    @cached_property
    def has_score(self) -> NDArray[np.bool_]:
        """Whether each clip has an out-of-fold score."""
        found = [np.isfinite(values) for values in self.scores.values()]
        return np.any(found, axis=0) if found else np.zeros(len(self), dtype=np.bool_)

    def to_csv(self) -> bytes:
        """Return the table as CSV: `clip_id`, then each column of scores; NaN is an empty cell."""
        columns = [json_values(values) for values in self.scores.values()]
        return csv_bytes(["clip_id", *self.scores], zip(self.clip_ids, *columns, strict=True))


def read_training_clips(data: bytes, where: str) -> TrainingClips:
    """Return the training clips of a table that `TrainingClips.to_csv` wrote."""
    try:
        reader = csv.reader(io.StringIO(data.decode("utf-8"), newline=""), strict=True)
        rows = list(reader)
        header, body = rows[0], rows[1:]
        if header[:1] != ["clip_id"] or len(set(header)) != len(header):
            raise ValueError("the header must be clip_id and the score columns, each once")
        if any(len(row) != len(header) for row in body):
            raise ValueError(f"each row must have {len(header)} cells")
        table = np.array([[_number(cell) for cell in row[1:]] for row in body], dtype=np.float64)
        table = table.reshape(len(body), len(header) - 1)
        scores = {name: table[:, i] for i, name in enumerate(header[1:])}
        return TrainingClips(tuple(row[0] for row in body), scores)
    except FixInput as error:
        raise Corrupt(error.what, where=where) from error
    except (ValueError, IndexError, csv.Error) as error:
        raise Corrupt(f"not a table of training clips: {error}", where=where) from error


def _number(cell: str) -> float:
    if not cell:
        return math.nan
    value = float(cell)
    if not math.isfinite(value):
        raise ValueError(f"{cell!r} is not a finite number")
    return value
