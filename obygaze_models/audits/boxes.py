"""How much of what a model looks at lies in boxes that people drew.

What counts is the part of a map above the mean of its clip, so that maps of any method and unit can
be compared.
"""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.tables import read_table
from obygaze_features.store import Store
from obygaze_features.store.maps import MAPS, RANDOM, map_names
from obygaze_models.audits.group_tests import compare_groups, with_holm

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def audit_boxes(store: Store, boxes: Path) -> list[dict[str, Any]]:
    """Return for each direction its mean share in the boxes, and its test.

    The shares of clips are tested against those of the random directions of the store, or where it
    has none against the area of the boxes; they are exchanged only within films.

    Args:
        store: A store of maps.
        boxes: A CSV file with clip_id, x0, y0, x1, y1, in shares of the picture that the model
            sees, and perhaps frame: the number of the frame, from 0. A box without one is on all.
    """
    names, inside = np.array(map_names(store)), read_boxes(boxes, store)
    found = store.matrix(MAPS, clips=list(inside), missing="drop")
    if not len(found):
        raise FixInput("no clip with a box has maps", where=str(boxes), hint="clips of MAPS")
    masks = [inside[clip] for clip in found.clip_ids.tolist()]
    values = [clip_shares(own, mask) for own, mask in zip(found.values, masks, strict=True)]
    shares, peaks = (np.stack(part, axis=1) for part in zip(*values, strict=True))
    area = np.array([mask[mask.any(axis=(1, 2))].mean() for mask in masks])
    is_random = np.char.startswith(names, RANDOM)
    label, null = "area of the boxes", area
    if is_random.any():
        label, null = "random directions", shares[is_random].mean(axis=0)
    films = np.tile(store.movie_ids_of(found.rows), 2)
    what = ("the boxes", "the rest of the frame")
    tests = [
        compare_groups((str(name), label, *what), own, null, films)
        for name, own in zip(names[~is_random], shares[~is_random], strict=True)
    ]
    means = {"share_of_y": float(null.mean()), "area": float(area.mean())}
    return [
        {**test.to_json(), **means, "share": float(test.s_x.mean()), "peaks": float(hits.mean())}
        for test, hits in zip(with_holm(tests), peaks[~is_random], strict=True)
    ]


def clip_shares(maps: NDArray[Any], inside: Bools) -> tuple[Floats, Floats]:
    """Return for each direction the share of its map in the boxes, and the share of its peaks.

    Only frames with a box count. A map that is nowhere above its mean has the share of the area.

    Args:
        maps: The maps [direction, step, row, column] of a clip.
        inside: Whether the middle of each place [step, row, column] is in a box.
    """
    steps = inside.any(axis=(1, 2))
    wide, mask = maps.astype(np.float64), inside[steps]
    seen = np.maximum(wide - wide.mean(axis=(1, 2, 3), keepdims=True), 0)[:, steps]
    total, within = seen.sum(axis=(1, 2, 3)), (seen * mask).sum(axis=(1, 2, 3))
    share = np.where(total > 0, within / np.where(total > 0, total, 1), mask.mean())
    places = wide[:, steps].reshape(len(wide), len(mask), -1).argmax(axis=2)
    hits = mask.reshape(len(mask), -1)[np.arange(len(mask)), places]
    return share, np.asarray(hits.mean(axis=1))


def read_boxes(path: Path, store: Store) -> dict[str, Bools]:
    """Return for each clip of a store whether the middle of each place of its maps is in a box."""
    table = read_table(path, required=("clip_id", "x0", "y0", "x1", "y1"))
    shape = store.plan.array(MAPS).tail_shape[1:]
    down, across = ((np.arange(n) + 0.5) / n for n in shape[1:])
    found: dict[str, Bools] = defaultdict(lambda: np.zeros(shape, dtype=np.bool_))
    for row in table.rows:
        frame = row.cells.get("frame", "")
        try:
            x0, y0, x1, y1 = (float(row[name]) for name in ("x0", "y0", "x1", "y1"))
            steps = range(shape[0])[int(frame)] if frame else slice(None)
        except (ValueError, IndexError) as error:
            hint = f"shares from 0 to 1, and frames below {shape[0]}"
            raise FixInput(f"line {row.line}: {error}", where=str(path), hint=hint) from error
        box = ((down >= y0) & (down <= y1))[:, None] & ((across >= x0) & (across <= x1))
        found[row["clip_id"]][steps] |= box
    return {clip: mask for clip, mask in found.items() if clip in store and mask.any()}
