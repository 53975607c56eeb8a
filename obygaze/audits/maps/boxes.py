"""The share of a map that lies in the boxes of annotators.

Only the part of a map above the mean of its clip counts, so that maps of any method and unit can be
compared. Each grid cell of a map is weighted by the share of its area that boxes cover. So a small
box counts even if it contains the centre of no cell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze.audits.maps.stores import (
    MAPS,
    frames_of_step,
    real_steps,
)
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, near_id
from obygaze_features.core.tables import TableRow, read_table
from obygaze_features.manifest.clip_table import ClipTable
from obygaze_features.manifest.same_clips import same_clips
from obygaze_features.store import Store

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


Box = tuple[float, float, float, float]
ENDS = ("x0", "y0", "x1", "y1")
NO_MAPS = "without maps in the store"
ON_PADDING = "with boxes only on frames after its end"


@dataclass(frozen=True)
class SharesInBoxes:
    """The shares [direction, clip] of maps in boxes, for each clip with maps and a box.

    `left_out` has the reason for each excluded clip.
    """

    clip_ids: tuple[str, ...]
    shares: Floats
    left_out: Mapping[str, str]


def shares_in_boxes(store: Store, boxes: Path) -> SharesInBoxes:
    """Return how much of the maps of each clip lies in its boxes, and why clips are excluded.

    Args:
        store: A store of maps.
        boxes: A CSV file of boxes.
    """
    covered = read_boxes(boxes, store)
    maps_of_clips = store.matrix(MAPS, clips=list(covered), missing="drop")
    left_out = dict.fromkeys(maps_of_clips.reasons, NO_MAPS)
    real = real_steps(store, maps_of_clips.rows)
    clip_ids = []
    shares = []
    for row, clip in enumerate(maps_of_clips.clip_ids.tolist()):
        cover = covered[clip][real[row]]
        if not cover.any():
            left_out[clip] = ON_PADDING
            continue
        clip_ids.append(clip)
        shares.append(clip_shares(maps_of_clips.values[row][:, real[row]], cover))
    if not clip_ids:
        raise FixInput("no clip with a box has maps", where=str(boxes))
    return SharesInBoxes(tuple(clip_ids), np.stack(shares, axis=1), left_out)


def notes_on(left_out: Mapping[str, str]) -> list[str]:
    """Return the number of excluded clips for each reason, with the first of these clips."""
    clips_of_reason: dict[str, list[str]] = {}
    for clip, reason in left_out.items():
        clips_of_reason.setdefault(reason, []).append(clip)
    return [
        f"{count(len(clips), 'clip')} excluded, {reason}: {few(clips, 3)}"
        for reason, clips in clips_of_reason.items()
    ]


def clip_shares(maps: NDArray[Any], cover: NDArray[Any]) -> Floats:
    """Return for each direction the share of its map in the boxes.

    Only frames with a box count. A constant map has no part above its mean. Its share is the share
    of the area of these frames that boxes cover.

    Args:
        maps: The maps [direction, step, row, column] of a clip.
        cover: The share of each grid cell [step, row, column] that boxes cover.
    """
    steps = cover.any(axis=(1, 2))
    wide = maps.astype(np.float64)
    weights = cover[steps].astype(np.float64)
    seen = np.maximum(wide - wide.mean(axis=(1, 2, 3), keepdims=True), 0)[:, steps]
    total = seen.sum(axis=(1, 2, 3))
    within = (seen * weights).sum(axis=(1, 2, 3))
    share = np.where(total > 0, within / np.where(total > 0, total, 1), weights.mean())
    return np.asarray(share)


def read_boxes(path: Path, store: Store) -> dict[str, Floats]:
    """Read a file of boxes, and return how much of each grid cell of the maps boxes cover.

    The result has for each clip of the file an array [step, row, column] with the share of the area
    of each cell that boxes cover.
    """
    table = read_table(path, required=("clip_id", *ENDS))
    shape = store.array(MAPS).shape[1:]
    boxes: dict[str, list[list[Box]]] = {}
    for row in table.rows:
        clip = row["clip_id"]
        try:
            if clip not in store:
                raise ValueError(
                    f"the store of maps has no clip {clip!r}{near_id(clip, store)}"
                )
            box = _parse_box(row)
            steps = _steps(row.cells.get("frame", ""), shape[0], frames_of_step(store))
        except ValueError as error:
            problem = f"line {row.line}: {error}"
            raise FixInput(problem, where=str(path)) from error
        of_clip = boxes.setdefault(clip, [[] for _ in range(shape[0])])
        for of_step in of_clip[steps]:
            of_step.append(box)
    rows = store.table.find([row["clip_id"] for row in table.rows])
    stated = ClipTable.of_cells([row.cells for row in table.rows])
    same_clips(stated, store.facts_of(rows), np.arange(len(rows))).require(
        ("the table of boxes", "the store of maps"),
        where=str(path),
    )
    covered = {}
    for clip, of_clip in boxes.items():
        covered[clip] = np.stack([covered_shares(of, shape[1:]) for of in of_clip])
    return covered


def covered_shares(boxes: Sequence[Box], shape: Sequence[int]) -> Floats:
    """Return for each cell [row, column] of a grid the share of its area that boxes cover together.

    Args:
        boxes: The left, upper, right and lower end of each box, as shares of the picture.
        shape: The rows and columns of the grid.
    """
    n_rows, n_columns = shape
    if not boxes:
        return np.zeros((n_rows, n_columns))
    ends = np.array(boxes)
    # The edges of cells and boxes cut the picture into pieces; each is fully covered or not at all.
    x = np.unique([*ends[:, 0], *ends[:, 2], *np.arange(n_columns + 1) / n_columns])
    y = np.unique([*ends[:, 1], *ends[:, 3], *np.arange(n_rows + 1) / n_rows])
    middle_x = (x[:-1] + x[1:]) / 2
    middle_y = (y[:-1] + y[1:]) / 2
    is_inside = np.zeros((len(middle_y), len(middle_x)), dtype=np.bool_)
    for x0, y0, x1, y1 in boxes:
        in_rows = (middle_y > y0) & (middle_y < y1)
        in_columns = (middle_x > x0) & (middle_x < x1)
        is_inside |= in_rows[:, None] & in_columns
    pieces = is_inside * np.diff(y)[:, None] * np.diff(x)
    down, across = np.meshgrid(middle_y, middle_x, indexing="ij")
    area, _, _ = np.histogram2d(
        down.ravel(),
        across.ravel(),
        bins=(n_rows, n_columns),
        range=((0, 1), (0, 1)),
        weights=pieces.ravel(),
    )
    shares: Floats = np.minimum(area * n_rows * n_columns, 1.0)
    return shares


def _parse_box(row: TableRow) -> Box:
    """Return the left, upper, right and lower end of the box in a row of the table."""
    ends = {name: float(row[name]) for name in ENDS}
    for name, value in ends.items():
        if not 0 <= value <= 1:
            raise ValueError(
                f"{name} must be a share of the picture from 0 to 1, got {value:g}"
            )
    for first, last in (("x0", "x1"), ("y0", "y1")):
        if ends[first] >= ends[last]:
            got = f"{ends[first]:g} and {ends[last]:g}"
            raise ValueError(f"{first} must be less than {last}, got {got}")
    return ends["x0"], ends["y0"], ends["x1"], ends["y1"]


def _steps(frame: str, n_steps: int, joined: int) -> slice:
    """Return the step of the maps that covers the frame of a box, or all steps without a frame.

    Args:
        frame: The number of the frame, counted from 0; "": all frames.
        n_steps: The number of steps of the maps.
        joined: The number of frames that each step covers.
    """
    if not frame:
        return slice(None)
    number = int(frame)
    n_frames = n_steps * joined
    if not 0 <= number < n_frames:
        raise ValueError(f"frame must be from 0 to {n_frames - 1}, got {number}")
    step = number // joined
    return slice(step, step + 1)
