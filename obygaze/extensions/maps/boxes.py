"""How much of what a model looks at lies in boxes that people drew, and whether that is chance.

The share is that of the part of a map above the mean of its clip, so that maps of any method and
unit can be compared.
"""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.console import table
from obygaze_features.core.errors import FixInput
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.tables import TableRow, read_table
from obygaze_features.store import Store, open_store
from obygaze_features.store.format.schema import MASK
from obygaze_features.store.maps import MAPS, RANDOM, map_names
from obygaze_models.evaluation.group_tests import compare_groups, with_holm

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
PERMUTATIONS = 100_000  # for each direction; a p-value near .05 is then exact to .001


SHOWN = ("x", "n_x", "share", "peaks", "area", "y", "share_of_y", "p_holm")


class BoxAudit(list[dict[str, Any]]):
    """The measures of each direction, with their tests."""

    def to_json(self) -> dict[str, Any]:
        """Return the measures of each direction."""
        return {"directions": list(self)}

    def __str__(self) -> str:
        rows = []
        reasons = []
        for direction in self:
            rows.append([direction[name] for name in SHOWN])
            reasons.append(f"{direction['x']}: {direction['why']}")
        return "\n".join([table(SHOWN, rows), "", *reasons])


def audit_boxes(
    maps: PathLike | Store,
    boxes: PathLike,
    *,
    workspace: PathLike | None = None,
) -> BoxAudit:
    """Measure how much of what a model looks at lies in boxes.

    BOXES is a CSV file with clip_id, x0, y0, x1, y1 (shares of the picture that the model sees) and
    perhaps frame. Shares are tested against those of random directions, within films.

    Args:
        maps: A store of maps. Where it has no random directions, shares are tested against the
            area of the boxes.
        boxes: The file. A box without a frame, which is a number from 0, is on all frames.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze explain boxes concept-maps faces.csv
    """
    return BoxAudit(_measure(open_store(maps, workspace=workspace), Path(boxes)))


def _measure(store: Store, boxes: Path) -> list[dict[str, Any]]:
    """Return for each direction its mean share in the boxes, and its test."""
    names = np.array(map_names(store))
    inside = read_boxes(boxes, store)
    maps_of_clips = store.matrix(MAPS, clips=list(inside), missing="drop")
    if not len(maps_of_clips):
        hint = "clip ids as the store of maps has them: obygaze store info"
        raise FixInput("no clip with a box has maps", where=str(boxes), hint=hint)
    real = real_steps(store, maps_of_clips.rows)
    masks = [
        inside[clip][steps]
        for clip, steps in zip(maps_of_clips.clip_ids.tolist(), real, strict=True)
    ]
    values = [
        clip_shares(maps[:, steps], mask)
        for maps, steps, mask in zip(maps_of_clips.values, real, masks, strict=True)
    ]
    shares, peaks = (np.stack(part, axis=1) for part in zip(*values, strict=True))
    area = np.array([mask[mask.any(axis=(1, 2))].mean() for mask in masks])
    is_random = np.char.startswith(names, RANDOM)
    label = "area of the boxes"
    null = area
    if is_random.any():
        label = "random directions"
        null = shares[is_random].mean(axis=0)
    films = np.tile(store.movie_ids_of(maps_of_clips.rows), 2)
    regions = ("the boxes", "the rest of the frame")
    tests = [
        compare_groups(
            (str(name), label, *regions),
            shares_of_direction,
            null,
            films,
            permutations=PERMUTATIONS,
        )
        for name, shares_of_direction in zip(
            names[~is_random], shares[~is_random], strict=True
        )
    ]
    means = {"share_of_y": float(null.mean()), "area": float(area.mean())}
    return [
        {
            **test.to_json(),
            **means,
            "share": float(test.s_x.mean()),
            "peaks": float(hits.mean()),
        }
        for test, hits in zip(with_holm(tests), peaks[~is_random], strict=True)
    ]


def clip_shares(maps: NDArray[Any], inside: Bools) -> tuple[Floats, Floats]:
    """Return for each direction the share of its map in the boxes, and the share of its peaks.

    Only frames with a box count. A map that is nowhere above its mean has the share of the area, as
    has the peak of a frame on which all places are equal.

    Args:
        maps: The maps [direction, step, row, column] of a clip.
        inside: Whether the middle of each place [step, row, column] is in a box.
    """
    steps = inside.any(axis=(1, 2))
    wide = maps.astype(np.float64)
    mask = inside[steps]
    seen = np.maximum(wide - wide.mean(axis=(1, 2, 3), keepdims=True), 0)[:, steps]
    total = seen.sum(axis=(1, 2, 3))
    within = (seen * mask).sum(axis=(1, 2, 3))
    share = np.where(total > 0, within / np.where(total > 0, total, 1), mask.mean())
    frames = wide[:, steps].reshape(len(wide), len(mask), -1)
    is_peak = frames == frames.max(axis=2, keepdims=True)
    hits = (is_peak & mask.reshape(len(mask), -1)).sum(axis=2) / is_peak.sum(axis=2)
    return share, np.asarray(hits.mean(axis=1))


def read_boxes(path: Path, store: Store) -> dict[str, Bools]:
    """Return for each clip of a store whether the middle of each place of its maps is in a box."""
    table = read_table(path, required=("clip_id", "x0", "y0", "x1", "y1"))
    shape = store.plan.array(MAPS).tail_shape[1:]
    down, across = ((np.arange(n) + 0.5) / n for n in shape[1:])
    masks: dict[str, Bools] = defaultdict(lambda: np.zeros(shape, dtype=np.bool_))
    for row in table.rows:
        try:
            clip = row["clip_id"]
            if clip not in store:
                raise ValueError(f"the store of maps has no clip {clip!r}")
            x0, x1 = _ends(row, "x0", "x1")
            y0, y1 = _ends(row, "y0", "y1")
            steps = _steps(row.cells.get("frame", ""), shape[0])
        except ValueError as error:
            hint = (
                "shares of the picture from 0 to 1, "
                f"frames from 0 to {shape[0] - 1}, its clip ids"
            )
            raise FixInput(
                f"line {row.line}: {error}", where=str(path), hint=hint
            ) from error
        box = ((down >= y0) & (down <= y1))[:, None] & ((across >= x0) & (across <= x1))
        masks[clip][steps] |= box
    clips = list(masks)
    real = dict(zip(clips, real_steps(store, store.select(clips).rows), strict=True))
    return {clip: mask for clip, mask in masks.items() if mask[real[clip]].any()}


def _ends(row: TableRow, first: str, last: str) -> tuple[float, float]:
    """Return both ends of a box along one side of the picture."""
    low = float(row[first])
    high = float(row[last])
    for name, value in ((first, low), (last, high)):
        if not 0 <= value <= 1:
            raise ValueError(
                f"{name} must be a share of the picture from 0 to 1, got {value:g}"
            )
    if low >= high:
        raise ValueError(f"{first} must be below {last}, got {low:g} and {high:g}")
    return low, high


def _steps(frame: str, n_frames: int) -> int | slice:
    """Return the frame of a box, or all of them where none is named."""
    if not frame:
        return slice(None)
    number = int(frame)
    if not 0 <= number < n_frames:
        raise ValueError(f"frame must be from 0 to {n_frames - 1}, got {number}")
    return number


def real_steps(store: Store, rows: NDArray[np.int64]) -> Bools:
    """Return which steps [clip, step] of maps are real, not the padding of a short clip."""
    n_steps = store.plan.array(MAPS).tail_shape[1]
    masks = [
        spec
        for spec in store.plan.arrays
        if (spec.name, spec.tail_shape) == (MASK, (n_steps,))
    ]
    if not masks:
        return np.ones((len(rows), n_steps), dtype=np.bool_)
    return store.arrays.read(masks[0], rows).astype(np.bool_)
