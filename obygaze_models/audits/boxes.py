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

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.tables import read_table
from obygaze_features.store import Store
from obygaze_features.store.maps import MAPS, is_random, map_names
from obygaze_models.audits.figure import BLUE, DOT, RED, TICK, Drawing, Mark, Panel, Row
from obygaze_models.audits.group_tests import GroupTest, compare_groups, summary, with_holm
from obygaze_models.audits.result import Audit, Finding, p_equals, ratio_interval
from obygaze_models.audits.vectors import Selection, opened, select_groups

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
HEADERS = ("direction", "clips", "share", "low", "high", "peaks", "area", "random", "p")


@dataclass(frozen=True)
class BoxShare:
    """One direction: the means over clips of its share in the boxes, and of its peaks in them.

    `area` is the share of the frames that the boxes cover, `random` the mean share of the random
    directions, and `p` how many of these have as large a share (itself counted); None without any.
    """

    direction: str
    clips: int
    share: float
    low: float | None
    high: float | None
    peaks: float
    area: float
    random: float | None
    p: float | None

    def __str__(self) -> str:
        share, peaks, area = (f"{100 * v:.0f} %" for v in (self.share, self.peaks, self.area))
        text = f"{self.direction}: {share} of the saliency and {peaks} of the peaks lie in boxes"
        text += f" that cover {area} of their frames"
        if self.p is None or self.random is None:
            return f"{text}."
        return f"{text}; of random directions {100 * self.random:.0f} %, {p_equals(self.p)}."


@dataclass(frozen=True, eq=False, repr=False)
class BoxesAudit(Audit):
    """The shares of all directions, and for two groups of clips the test of each."""

    source: str
    shares: tuple[BoxShare, ...]
    tests: tuple[GroupTest, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the shares and the tests."""
        tests = [test.to_json() for test in self.tests]
        return {"source": self.source, "shares": [vars(s) for s in self.shares], "tests": tests}

    def finding(self) -> Finding:
        """Return one row per direction, and sentences with the results."""
        rows = tuple(tuple(vars(one).values()) for one in self.shares)
        sentences = [*map(str, self.shares)]
        sentences += summary(self.tests, _sentence) if self.tests else []
        return Finding(
            f"Saliency in boxes: {self.source}", HEADERS, rows, sentences=tuple(sentences)
        )

    def drawing(self) -> Drawing:
        """Return the share of each direction with its interval, beside the area of the boxes."""
        rows = []
        for one in self.shares:
            share = Mark(DOT, one.share, RED, (one.low, one.high))
            note = "" if one.p is None else p_equals(one.p)
            rows.append(Row(one.direction, [Mark(TICK, one.area, BLUE), share], note))
        legend = {"share in the boxes": (DOT, RED), "area of the boxes": (TICK, BLUE)}
        return Drawing([Panel("", rows, "share", limits=(0, 1))], legend, "Saliency in boxes")


def audit_boxes(
    maps: Store | str | Path,
    boxes: str | Path,
    *,
    manifest: str | Path | None = None,
    x: Selection | None = None,
    y: Selection | None = None,
    seed: int = 0,
) -> BoxesAudit:
    """Measure how much of each direction of a store of maps lies in boxes.

    Args:
        maps: A store of maps, or its name or path.
        boxes: A CSV file with clip_id, x0, y0, x1, y1, in shares of the picture that the model
            sees, and perhaps frame: the number of the frame, from 0. A box without one is on all.
        manifest: The manifest that the expressions `x` and `y` select from.
        x: A group of clips: an expression, a CSV file of clip_id, or ids.
        y: The group to compare it with.
        seed: The seed of intervals and of drawn permutations.
    """
    if (x is None) != (y is None):
        raise FixUsage("two groups are compared: --x and --y")
    store = opened(maps)
    names, inside = map_names(store), read_boxes(Path(boxes), store)
    found = store.matrix(MAPS, clips=list(inside), missing="drop")
    if not len(found):
        raise FixInput("no clip with a box has maps", where=str(boxes))
    clips, films = found.clip_ids.tolist(), store.movie_ids_of(found.rows)
    values = [clip_shares(own, inside[c]) for own, c in zip(found.values, clips, strict=True)]
    shares, peaks = (np.stack(part, axis=1) for part in zip(*values, strict=True))
    area = float(np.mean([mask[mask.any(axis=(1, 2))].mean() for mask in map(inside.get, clips)]))
    null = np.array(
        [own.mean() for name, own in zip(names, shares, strict=True) if is_random(name)]
    )
    rows, tests = [], []
    for name, own, pointing in zip(names, shares, peaks, strict=True):
        if not is_random(name):
            share, p, among = float(own.mean()), None, None
            if len(null):
                p = float((1 + (null >= share).sum()) / (1 + len(null)))
                among = float(null.mean())
            ends = ratio_interval(own, np.ones(len(own)), films.tolist(), seed=seed)
            row = (name, len(own), share, *ends, float(pointing.mean()), area, among, p)
            rows.append(BoxShare(*row))
            if x is not None and y is not None:
                values_of = dict(zip(clips, own.tolist(), strict=True))
                tests.append(_compare(name, values_of, films, (x, y), manifest, seed))
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


def _compare(
    name: str,
    shares: dict[str, float],
    films: NDArray[np.str_],
    groups: tuple[Selection, Selection],
    manifest: str | Path | None,
    seed: int,
) -> GroupTest:
    """Test whether the share of a direction is larger in one group of clips than in another."""
    table = None
    if manifest is not None:
        table = read_manifest(Workspace.current().existing_manifest(str(manifest)))
    film_of = dict(zip(shares, films.tolist(), strict=True))
    (x, in_x), (y, in_y) = select_groups(groups, table)
    in_x, in_y = ([clip for clip in own if clip in shares] for own in (in_x, in_y))
    if not in_x or not in_y:
        raise FixInput("one of the groups has no clip with a box and maps", hint="--x, --y")
    s_x, s_y = (np.array([shares[clip] for clip in own]) for own in (in_x, in_y))
    blocks = np.array([film_of[clip] for clip in [*in_x, *in_y]])
    return compare_groups((x, y, name, "the rest"), s_x, s_y, blocks, seed=seed)


def _sentence(test: GroupTest) -> str:
    means = f"{100 * test.s_x.mean():.0f} % against {100 * test.s_y.mean():.0f} %"
    return f"{test.a}, {test.x} against {test.y}: {means}, {p_equals(test.p)}. {test.explain()}"
