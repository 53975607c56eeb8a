"""Maps of two conditions: their means, their difference, and a test of their shares in boxes.

A table lists the clips of each condition, such as pictures of women who are shown as objects and
pictures of the same women who are not. The test exchanges the two clips of each pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from obygaze.audits.maps.boxes import (
    NO_MAPS,
    SharesInBoxes,
    notes_on,
    shares_in_boxes,
)
from obygaze.audits.maps.stores import MAPS, RANDOM_PREFIX, map_names, real_steps
from obygaze.audits.result import Audit
from obygaze_features.core.errors import FixInput, near_id
from obygaze_features.core.figures import WIDTH, canvas
from obygaze_features.core.tables import read_table
from obygaze_features.core.workspace import PathLike
from obygaze_features.store import Matrix, Store, open_store
from obygaze_models.evaluation.permutation import holm, p_text, permutation_p

Floats = NDArray[np.float64]
PERMUTATIONS = (
    100_000  # Random exchanges, used if there are too many exchanges to count.
)
AT_RANDOM = "random directions, mean"
WITHOUT_BOX = "without a box"
WITHOUT_PARTNER = "without the other clip of its pair"
EXCHANGED = "the clips of each pair"
MAX_DRAWN = 12


HEADERS = ("direction", "in boxes, X", "in boxes, Y", "X - Y", "p", "Holm")
# A direction, or a condition, with the keys of the JSON document.
Record = dict[str, Any]


class MeanMaps(NamedTuple):
    """The figure: for each direction both mean maps and their difference."""

    title: str
    conditions: Sequence[Record]
    directions: Sequence[Record]

    @contextmanager
    def drawn(self) -> Iterator[Any]:
        """Yield the first directions as a figure."""
        directions = self.directions[:MAX_DRAWN]
        layout = {"nrows": len(directions), "ncols": 3, "squeeze": False}
        with canvas(WIDTH, 50 + 135 * len(directions), **layout) as (figure, axes):
            for row, item in zip(axes, directions, strict=True):
                maps = [np.array(grid) for grid in item["mean_maps"]]
                difference = maps[0] - maps[1]
                low = min(float(grid.min()) for grid in maps)
                high = max(float(grid.max()) for grid in maps)
                for panel, grid in zip(row[:2], maps, strict=True):
                    shown = panel.imshow(grid, cmap="Oranges", vmin=low, vmax=high)
                figure.colorbar(shown, ax=row[:2].tolist(), shrink=0.8)
                largest = max(float(np.abs(difference).max()), 1e-12)
                limits = {"vmin": -largest, "vmax": largest}
                shown = row[2].imshow(difference, cmap="RdBu_r", **limits)
                figure.colorbar(shown, ax=row[2], shrink=0.8)
                row[0].set_ylabel(item["direction"], fontsize=8)
                for panel in row:
                    panel.set_xticks([])
                    panel.set_yticks([])
            titles = [f"{one['name']} ({len(one['clips'])})" for one in self.conditions]
            for panel, title in zip(axes[0], [*titles, "difference"], strict=True):
                panel.set_title(title, fontsize=9)
            yield figure


@dataclass(frozen=True)
class MapsOfConditions:
    """Two conditions, the two clips of each pair, the results of each direction, excluded clips."""

    names: tuple[str, str]
    pairs: Sequence[tuple[str, str]]
    directions: Sequence[Record]
    left_out: Mapping[str, str]

    @property
    def conditions(self) -> list[Record]:
        """Both conditions with their clips."""
        clips = zip(*self.pairs, strict=True)
        both = zip(self.names, clips, strict=True)
        return [{"name": name, "clips": list(of_name)} for name, of_name in both]


def compare_conditions(
    maps: PathLike | Store,
    conditions: PathLike,
    *,
    boxes: PathLike | None = None,
    workspace: PathLike | None = None,
) -> Audit:
    """Compare the maps of two conditions: mean maps, and the shares of maps in boxes.

    CONDITIONS is a CSV file with clip_id, condition (two names; the first is X) and pair; the two
    clips of a pair have different conditions. With boxes, the shares of the maps in the boxes are
    compared between conditions, by exchanging the clips of each pair.

    Args:
        maps: A store of maps.
        conditions: The conditions of the clips.
        boxes: A CSV file with clip_id, x0, y0, x1, y1 (shares of the picture that the model sees)
            and perhaps frame, a number from 0. A box without a frame is on all frames.
        workspace: The workspace, if it is not the current one.
    """
    store = open_store(maps, workspace=workspace)
    boxed = None if boxes is None else shares_in_boxes(store, Path(boxes))
    return present(compute(store, Path(conditions), boxed))


def compute(
    store: Store, path: Path, boxed: SharesInBoxes | None = None
) -> MapsOfConditions:
    """Return the mean maps of two conditions, and tests of their shares in boxes.

    Args:
        store: The store of maps.
        path: The conditions of the clips.
        boxed: The share of each map in the boxes of its clip; None: no boxes.
    """
    names, pairs = read_conditions(path, store)
    clips = [clip for pair in pairs for clip in pair]
    maps_of_clips = store.matrix(MAPS, clips=clips, missing="drop")
    left_out = dict.fromkeys(maps_of_clips.reasons, NO_MAPS)
    if boxed is not None:
        for clip in clips:
            if clip not in boxed.clip_ids:
                left_out.setdefault(clip, boxed.left_out.get(clip, WITHOUT_BOX))
    kept = [pair for pair in pairs if left_out.keys().isdisjoint(pair)]
    for pair in pairs:
        if pair not in kept:
            for clip in pair:
                left_out.setdefault(clip, WITHOUT_PARTNER)
    if not kept:
        raise FixInput(
            "no pair of clips can be compared",
            where=str(path),
            details=notes_on(left_out),
        )
    shares = None
    if boxed is not None:
        in_order = [clip for of_name in zip(*kept, strict=True) for clip in of_name]
        shares = boxed.shares[:, [boxed.clip_ids.index(clip) for clip in in_order]]
    means = _mean_maps(store, maps_of_clips, kept)
    directions = _compare_directions(map_names(store), means, shares)
    return MapsOfConditions(names, kept, directions, left_out)


def present(found: MapsOfConditions) -> Audit:
    """Return the audit of two conditions: its table, its sentences and the mean maps."""
    methods = sorted({item["method"] for item in found.directions} - {""})
    answer = "Without boxes there is no test: pass --boxes FILE"
    if methods:
        answer = f"p, two-sided, {', '.join(methods)}: exchanges {EXCHANGED}."
    n_pairs = len(found.pairs)
    title = f"X is {found.names[0]}, Y is {found.names[1]}: {n_pairs} pairs of clips"
    return Audit(
        title=title,
        headers=HEADERS,
        rows=[_make_row(item) for item in found.directions] if methods else [],
        answers=[answer],
        limits=[],
        values={
            "conditions": found.conditions,
            "n_pairs": n_pairs,
            "directions": found.directions,
            "left_out": found.left_out,
            "exchanged": EXCHANGED,
        },
        figure=MeanMaps(title, found.conditions, found.directions),
        notes=notes_on(found.left_out),
    )


def _make_row(item: Record) -> tuple[object, ...]:
    """Return the cells of a direction."""
    p_values = [None if p is None else p_text(p) for p in (item["p"], item["p_holm"])]
    return (item["direction"], *item["shares"], item["difference"], *p_values)


def read_conditions(
    path: Path, store: Store
) -> tuple[tuple[str, str], list[tuple[str, str]]]:
    """Return the names of the two conditions, and the two clips of each pair.

    The clips of a pair are in the order of the names of their conditions.

    Args:
        path: The file.
        store: The store of maps, which has these clips.
    """
    names: dict[str, None] = {}
    clips: set[str] = set()
    members: dict[str, dict[str, str]] = {}
    for row in read_table(path, required=("clip_id", "condition", "pair")).rows:
        clip = row["clip_id"]
        condition = row["condition"]
        of_pair = members.setdefault(row["pair"], {})
        problem = ""
        if clip not in store:
            problem = f"the store of maps has no clip {clip!r}{near_id(clip, store)}"
        elif clip in clips:
            problem = f"clip {clip!r} is in two rows"
        elif not condition or not row["pair"]:
            problem = f"clip {clip!r} has no {'pair' if condition else 'condition'}"
        elif condition in of_pair:
            problem = f"pair {row['pair']!r} has two clips of {condition!r}"
        if problem:
            raise FixInput(f"line {row.line}: {problem}", where=str(path))
        clips.add(clip)
        names[condition] = None
        of_pair[condition] = clip
    if len(names) != 2:
        raise FixInput(
            f"expected two conditions, got {len(names)}: {', '.join([*names][:5])}",
            where=str(path),
        )
    first, second = names
    pairs = []
    for pair, of_pair in members.items():
        if len(of_pair) != 2:
            raise FixInput(
                f"pair {pair!r} has one clip: {', '.join(of_pair.values())}",
                where=str(path),
            )
        pairs.append((of_pair[first], of_pair[second]))
    return (first, second), pairs


def _mean_maps(
    store: Store, maps: Matrix, pairs: Sequence[tuple[str, str]]
) -> list[Floats]:
    """Return for each condition its mean maps [direction, row, column].

    They are means over the frames of each clip, then over the clips of the condition.
    """
    real = real_steps(store, maps.rows)
    of_clip = {}
    for row, clip in enumerate(maps.clip_ids.tolist()):
        frames = maps.values[row][:, real[row]].astype(np.float64)
        of_clip[clip] = frames.mean(axis=1)
    means = []
    for clips in zip(*pairs, strict=True):
        means.append(np.mean([of_clip[clip] for clip in clips], axis=0))
    return means


def _compare_directions(
    names: Sequence[str], means: Sequence[Floats], shares: Floats | None
) -> list[Record]:
    """Return a record for each direction, followed by one record for all random directions.

    A record has the mean maps [row, column] of both conditions, the shares in boxes, and the test.
    The record of the random directions has means over these directions, and no p.

    Args:
        names: The directions.
        means: For each condition, the mean maps [direction, row, column] over clips and frames.
        shares: The shares [direction, clip] in boxes: all clips of the first condition, then the
            clips of the second condition, both in the order of the pairs. None: there are no boxes,
            so nothing is tested.
    """
    random = [i for i, name in enumerate(names) if name.startswith(RANDOM_PREFIX)]
    numbers = {name: [i] for i, name in enumerate(names) if i not in random}
    compared = []
    for name, of_name in {**numbers, AT_RANDOM: random}.items():
        item: Record = {
            "direction": name,
            "mean_maps": [mean[of_name].mean(axis=0).tolist() for mean in means],
            **dict.fromkeys(("shares", "difference", "p", "p_holm")),
            "method": "",
        }
        if shares is not None:
            of_clips = shares[of_name].mean(axis=0)
            x, y = np.split(of_clips, 2)
            item["shares"] = [float(x.mean()), float(y.mean())]
            item["difference"] = item["shares"][0] - item["shares"][1]
            if name != AT_RANDOM:
                pairs = np.tile(np.arange(len(x)), 2)
                is_first = np.arange(len(of_clips)) < len(x)
                tested = permutation_p(
                    of_clips, is_first, pairs, permutations=PERMUTATIONS
                )
                item |= {"p": tested.two_sided, "method": tested.method}
        compared.append(item)
    tests = [item for item in compared if item["p"] is not None]
    corrected = holm([item["p"] for item in tests]).tolist() if tests else []
    for item, p in zip(tests, corrected, strict=True):
        item["p_holm"] = p
    return compared
