"""The audit of maps: how much of what a model looks at lies in boxes that people drew.

What counts is the part of a map above the mean of its clip, so that maps of any method and unit can
be compared. The share of a direction is tested against that of the random directions of the store
(or the area of the boxes, where it has none), exchanging values only within films.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.tables import read_table
from obygaze_features.store import Store
from obygaze_features.store.maps import MAPS, RANDOM, map_names
from obygaze_models.audits.figure import BLUE, DOT, RED, STRIP, Drawing, Mark, Panel, Row
from obygaze_models.audits.group_tests import GroupTest, compare_groups, summary, with_holm
from obygaze_models.audits.result import Audit, Finding, p_equals
from obygaze_models.audits.vectors import opened

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
HEADERS = ("direction", "clips", "share", "peaks", "area", "against", "d", "p", "method")


@dataclass(frozen=True, eq=False, repr=False)
class BoxesAudit(Audit):
    """The test of each direction; `peaks` and `area` are means over clips, as the shares are."""

    source: str
    tests: tuple[GroupTest, ...]
    peaks: tuple[float, ...]
    area: float

    def to_json(self) -> dict[str, Any]:
        """Return the shares and the tests."""
        tests = [
            {**t.to_json(), "share": float(t.s_x.mean()), "peaks": peaks, "area": self.area}
            for t, peaks in zip(self.tests, self.peaks, strict=True)
        ]
        return {"source": self.source, "tests": tests}

    def finding(self) -> Finding:
        """Return one row per direction, and sentences with the tests."""
        rows = tuple(
            (
                *(t.x, len(t.s_x), float(t.s_x.mean()), peaks, self.area, float(t.s_y.mean())),
                *(t.effect_size, *t.p_cells()),
            )
            for t, peaks in zip(self.tests, self.peaks, strict=True)
        )
        headers = (*HEADERS, "p across films", "Holm")
        sentences = tuple(summary(self.tests, _sentence))
        return Finding(f"Saliency in boxes: {self.source}", headers, rows, sentences=sentences)

    def drawing(self) -> Drawing:
        """Return the shares of all clips, of each direction and of what it is tested against."""
        rows = [
            Row(
                test.x,
                [Mark(STRIP, test.s_x, RED, lift=0.13), Mark(STRIP, test.s_y, BLUE, lift=-0.13)],
                p_equals(test.p),
            )
            for test in self.tests
        ]
        legend = {"direction": (DOT, RED), self.tests[0].y: (DOT, BLUE)}
        return Drawing([Panel("", rows, "share of saliency in the boxes")], legend)


def audit_boxes(maps: Store | str | Path, boxes: str | Path, *, seed: int = 0) -> BoxesAudit:
    """Measure how much of each direction of a store of maps lies in boxes.

    Args:
        maps: A store of maps, or its name or path.
        boxes: A CSV file with clip_id, x0, y0, x1, y1, in shares of the picture that the model
            sees, and perhaps frame: the number of the frame, from 0. A box without one is on all.
        seed: The seed of drawn permutations.
    """
    store = opened(maps)
    names, inside = np.array(map_names(store)), read_boxes(Path(boxes), store)
    found = store.matrix(MAPS, clips=list(inside), missing="drop")
    if not len(found):
        raise FixInput("no clip with a box has maps", where=str(boxes))
    masks = [inside[clip] for clip in found.clip_ids.tolist()]
    values = [clip_shares(own, mask) for own, mask in zip(found.values, masks, strict=True)]
    shares, peaks = (np.stack(part, axis=1) for part in zip(*values, strict=True))
    area = np.array([mask[mask.any(axis=(1, 2))].mean() for mask in masks])
    is_random = np.char.startswith(names, RANDOM)
    label, null = "area of the boxes", area
    if is_random.any():
        label, null = "random directions", shares[is_random].mean(axis=0)
    films = np.tile(store.movie_ids_of(found.rows), 2)
    what = ("share in the boxes", "the rest of the frame")
    tests = [
        compare_groups((name, label, *what), own, null, films, seed=seed)
        for name, own in zip(names[~is_random].tolist(), shares[~is_random], strict=True)
    ]
    means = tuple(peaks[~is_random].mean(axis=1).tolist())
    return BoxesAudit(Path(store.location).name, with_holm(tests), means, float(area.mean()))


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


def _sentence(test: GroupTest) -> str:
    means = f"{100 * test.s_x.mean():.0f} % against {100 * test.s_y.mean():.0f} % ({test.y})"
    return f"{test.x}: {means}, {p_equals(test.p)}. {test.explain()}"
