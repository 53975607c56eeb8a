"""The audit of maps: how much of what a model looks at lies in boxes that people drew.

What counts is the part of a map above the mean of its clip, so that maps of any method and unit can
be compared. A share is compared with the area of the boxes, with the random directions of the
store, and between two groups of clips, which are exchanged only within films.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import Manifest
from obygaze_features.manifest.tables import read_table
from obygaze_features.store import Store
from obygaze_features.store.maps import MAPS, RANDOM, map_names
from obygaze_models.audits.figure import BLUE, DOT, RED, TICK, Drawing, Mark, Panel, Row
from obygaze_models.audits.group_tests import GroupTest, compare_groups, summary, with_holm
from obygaze_models.audits.result import Audit, Finding, p_equals, ratio_interval
from obygaze_models.audits.vectors import Selection, opened, opened_manifest, select_groups

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
HEADERS = ("direction", "clips", "share", "low", "high", "peaks", "area", "random", "p")


@dataclass(frozen=True, eq=False, repr=False)
class BoxesAudit(Audit):
    """The shares of all directions, and for two groups of clips the test of each.

    A row has the name, the number of clips, the mean share of the saliency in the boxes with its
    95 % interval over films, the mean share of the peaks of frames, the area of the boxes, the mean
    share of the random directions, and how many of these have as large a share (itself counted).
    """

    source: str
    rows: tuple[tuple[Any, ...], ...]
    tests: tuple[GroupTest, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the shares and the tests."""
        shares = [dict(zip(HEADERS, row, strict=True)) for row in self.rows]
        tests = [test.to_json() for test in self.tests]
        return {"source": self.source, "shares": shares, "tests": tests}

    def finding(self) -> Finding:
        """Return one row per direction, and sentences with the tests."""
        sentences = summary(self.tests, _sentence) if self.tests else []
        title = f"Saliency in boxes: {self.source}"
        return Finding(title, HEADERS, self.rows, sentences=tuple(sentences))

    def drawing(self) -> Drawing:
        """Return the share of each direction with its interval, beside the area of the boxes."""
        rows = [
            Row(name, [Mark(TICK, area, BLUE), Mark(DOT, share, RED, ends)])
            for name, _, share, *ends, _, area, _, _ in self.rows
        ]
        legend = {"share in the boxes": (DOT, RED), "area of the boxes": (TICK, BLUE)}
        return Drawing([Panel("", rows, "share", limits=(0, 1))], legend, "Saliency in boxes")


def audit_boxes(
    maps: Store | str | Path,
    boxes: str | Path,
    *,
    manifest: Manifest | str | Path | None = None,
    x: Selection | None = None,
    y: Selection | None = None,
    seed: int = 0,
) -> BoxesAudit:
    """Measure how much of each direction of a store of maps lies in boxes.

    Args:
        maps: A store of maps, or its name or path.
        boxes: A CSV file with clip_id, x0, y0, x1, y1, in shares of the picture that the model
            sees, and perhaps frame: the number of the frame, from 0. A box without one is on all.
        manifest: The manifest that the expressions `x` and `y` select from, or its name or path.
        x: A group of clips: an expression, a CSV file of clip_id, or ids.
        y: The group to compare it with.
        seed: The seed of intervals and of drawn permutations.
    """
    store = opened(maps)
    names, inside = map_names(store), read_boxes(Path(boxes), store)
    found = store.matrix(MAPS, clips=list(inside), missing="drop")
    if not len(found):
        raise FixInput("no clip with a box has maps", where=str(boxes))
    clips, films = found.clip_ids, store.movie_ids_of(found.rows)
    masks = [inside[clip] for clip in clips.tolist()]
    area = float(np.mean([mask[mask.any(axis=(1, 2))].mean() for mask in masks]))
    values = [clip_shares(own, mask) for own, mask in zip(found.values, masks, strict=True)]
    shares, peaks = (np.stack(part) for part in zip(*values, strict=True))
    is_random = np.array([name.startswith(RANDOM) for name in names])
    null = shares[:, is_random].mean(axis=0)
    among = float(null.mean()) if len(null) else None
    named, rows, ones = np.flatnonzero(~is_random).tolist(), [], np.ones(len(clips))
    for k in named:
        share = float(shares[:, k].mean())
        p = float((1 + (null >= share).sum()) / (1 + len(null))) if len(null) else None
        ends = ratio_interval(shares[:, k], ones, films.tolist(), seed=seed)
        rows.append((names[k], len(clips), share, *ends, float(peaks[:, k].mean()), area, among, p))
    if x is None or y is None:
        return BoxesAudit(Path(store.location).name, tuple(rows))
    groups = select_groups((x, y), opened_manifest(manifest))
    in_x, in_y = (np.flatnonzero(np.isin(clips, ids)) for _, ids in groups)
    if not len(in_x) or not len(in_y):
        raise FixInput("one of the groups has no clip with a box and maps", hint="--x, --y")
    blocks = films[np.concatenate([in_x, in_y])]
    tests = [
        compare_groups(
            (groups[0][0], groups[1][0], names[k], "the rest"),
            *(shares[in_x, k], shares[in_y, k], blocks),
            seed=seed,
        )
        for k in named
    ]
    return BoxesAudit(Path(store.location).name, tuple(rows), with_holm(tests))


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
    means = f"{100 * test.s_x.mean():.0f} % against {100 * test.s_y.mean():.0f} %"
    return f"{test.a}, {test.x} against {test.y}: {means}, {p_equals(test.p)}. {test.explain()}"
