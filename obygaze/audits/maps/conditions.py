"""Maps of two conditions: their means, the difference, and whether one has more in the boxes.

The clips of a condition are those of a table, such as pictures of women who are shown as objects
and of the same women who are not. The clips of a pair are exchanged, in all ways.
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
PERMUTATIONS = 100_000  # where there are too many ways to exchange clips to count them
AT_RANDOM = "random directions, mean"
WITHOUT_BOX = "without a box"
WITHOUT_PARTNER = "without the other clip of its pair"
EXCHANGED = "the clips of each pair"
MAX_DRAWN = 12


HEADERS = ("direction", "in boxes, X", "in boxes, Y", "X - Y", "p", "Holm")
# A direction, or a condition, by the names of JSON.
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
    """Two conditions with their clips, what is known of each direction, and what is left out."""

    conditions: tuple[Record, Record]
    directions: Sequence[Record]
    left_out: Mapping[str, str]
    has_boxes: bool


def compare_conditions(
    maps: PathLike | Store,
    conditions: PathLike,
    *,
    boxes: PathLike | None = None,
    workspace: PathLike | None = None,
) -> Audit:
    """Compare the maps of two conditions: mean maps, and what lies in boxes.

    CONDITIONS is a CSV file with clip_id, condition (two names; the first is X) and pair, which two
    clips of different conditions share. With boxes, the share of the maps in them is tested between
    conditions, by exchanging the clips of each pair.

    Args:
        maps: A store of maps.
        conditions: The conditions of the clips.
        boxes: A CSV file with clip_id, x0, y0, x1, y1 (shares of the picture that the model sees)
            and perhaps frame, a number from 0. A box without a frame is on all frames.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze explain conditions emotion-maps conditions.csv --figure figures/means
        obygaze explain conditions emotion-maps conditions.csv --boxes heads.csv
    """
    store = open_store(maps, workspace=workspace)
    boxed = None if boxes is None else shares_in_boxes(store, Path(boxes))
    return present(compute(store, Path(conditions), boxed))


def compute(
    store: Store, path: Path, boxed: SharesInBoxes | None = None
) -> MapsOfConditions:
    """Return the mean maps of two conditions, and tests of what lies in boxes.

    Args:
        store: The store of maps.
        path: The conditions of the clips.
        boxed: The share of each map in the boxes of its clip.
    """
    names, condition_of, pair_of = read_conditions(path, store)
    maps_of_clips = store.matrix(MAPS, clips=list(condition_of), missing="drop")
    left_out = dict.fromkeys(maps_of_clips.reasons, NO_MAPS)
    if boxed is not None:
        for clip in condition_of:
            if clip not in left_out and clip not in boxed.clip_ids:
                left_out[clip] = boxed.left_out.get(clip, WITHOUT_BOX)
    left_out |= _without_partner(pair_of, left_out)
    first, second = (_condition(name, condition_of, left_out, path) for name in names)
    clips = (*first["clips"], *second["clips"])
    means = _mean_maps(store, maps_of_clips, (first, second))
    shares = None
    if boxed is not None:
        columns = [boxed.clip_ids.index(clip) for clip in clips]
        shares = boxed.shares[:, columns]
    pairs = [pair_of[clip] for clip in clips]
    directions = _compared(map_names(store), means, shares, pairs)
    return MapsOfConditions((first, second), directions, left_out, boxed is not None)


def present(found: MapsOfConditions) -> Audit:
    """Return the table, the sentences and the mean maps of two conditions."""
    first, second = found.conditions
    rows = []
    answer = "Without boxes there is no test: --boxes FILE"
    if found.has_boxes:
        rows = [_row_of(item) for item in found.directions]
        methods = sorted(
            {item["method"] for item in found.directions if item["method"]}
        )
        answer = f"p, two-sided, {', '.join(methods)}: exchanges {EXCHANGED}."
    n_pairs = len(first["clips"])
    title = f"X is {first['name']}, Y is {second['name']}: {n_pairs} pairs of clips"
    return Audit(
        title=title,
        headers=HEADERS,
        rows=rows,
        answers=[answer],
        limits=[],
        values={
            "conditions": [first, second],
            "n_pairs": n_pairs,
            "directions": found.directions,
            "left_out": found.left_out,
            "exchanged": EXCHANGED,
        },
        figure=MeanMaps(title, (first, second), found.directions),
        notes=notes_on(found.left_out),
    )


def _row_of(item: Record) -> tuple[object, ...]:
    """Return the cells of a direction."""
    shares = item["shares"] or [None, None]
    p_values = [None if p is None else p_text(p) for p in (item["p"], item["p_holm"])]
    return (item["direction"], *shares, item["difference"], *p_values)


def _without_partner(
    pair_of: Mapping[str, str], left_out: Mapping[str, str]
) -> dict[str, str]:
    """Return the clips that are left of a pair whose other clip is left out."""
    broken = {pair for clip, pair in pair_of.items() if clip in left_out}
    return {
        clip: WITHOUT_PARTNER
        for clip, pair in pair_of.items()
        if pair in broken and clip not in left_out
    }


def _condition(
    name: str,
    condition_of: Mapping[str, str],
    left_out: Mapping[str, str],
    path: Path,
) -> Record:
    """Return a condition with its clips that can be compared; an error if there is none."""
    clips = []
    for clip, condition in condition_of.items():
        if condition == name and clip not in left_out:
            clips.append(clip)
    if not clips:
        raise FixInput(
            f"no clip of the condition {name!r} is left to compare",
            where=str(path),
            details=notes_on(left_out),
        )
    return {"name": name, "clips": clips}


def read_conditions(
    path: Path, store: Store
) -> tuple[tuple[str, str], dict[str, str], dict[str, str]]:
    """Return the two conditions of a file, the condition of each clip, and its pair.

    Args:
        path: The file.
        store: The store of maps, which has these clips.
    """
    rows = read_table(path, required=("clip_id", "condition", "pair"))
    condition_of: dict[str, str] = {}
    pair_of: dict[str, str] = {}
    for row in rows.rows:
        clip = row["clip_id"]
        problem = ""
        if clip not in store:
            problem = f"the store of maps has no clip {clip!r}{near_id(clip, store)}"
        elif clip in condition_of:
            problem = f"clip {clip!r} is in two rows"
        elif not row["condition"]:
            problem = f"clip {clip!r} has no condition"
        elif not row["pair"]:
            problem = f"clip {clip!r} has no pair"
        if problem:
            hint = "one row for each clip, with clip_id, condition and pair"
            raise FixInput(f"line {row.line}: {problem}", where=str(path), hint=hint)
        condition_of[clip] = row["condition"]
        pair_of[clip] = row["pair"]
    names = list(dict.fromkeys(condition_of.values()))
    if len(names) != 2:
        raise FixInput(
            f"expected two conditions, got {len(names)}: {', '.join(names[:5])}",
            where=str(path),
        )
    _check_pairs(path, condition_of, pair_of)
    return (names[0], names[1]), condition_of, pair_of


def _check_pairs(
    path: Path, condition_of: Mapping[str, str], pair_of: Mapping[str, str]
) -> None:
    """Raise an error unless each pair is a clip of each condition."""
    members: dict[str, list[str]] = {}
    for clip, pair in pair_of.items():
        members.setdefault(pair, []).append(clip)
    for pair, clips in members.items():
        conditions = {condition_of[clip] for clip in clips}
        if len(clips) != 2 or len(conditions) != 2:
            raise FixInput(
                f"pair {pair!r} has the clips {', '.join(clips)}",
                where=str(path),
            )


def _mean_maps(
    store: Store, maps: Matrix, conditions: Sequence[Record]
) -> list[Floats]:
    """Return for each condition the mean maps [direction, row, column] of clips and frames."""
    real = real_steps(store, maps.rows)
    of_clip = {}
    for row, clip in enumerate(maps.clip_ids.tolist()):
        frames = maps.values[row][:, real[row]].astype(np.float64)
        of_clip[clip] = frames.mean(axis=1)
    means = []
    for condition in conditions:
        of_condition = [of_clip[clip] for clip in condition["clips"]]
        means.append(np.mean(of_condition, axis=0))
    return means


def _compared(
    names: Sequence[str],
    means: Sequence[Floats],
    shares: Floats | None,
    pairs: Sequence[str],
) -> list[Record]:
    """Return each direction with the test of its shares, the mean of the random ones last.

    The first half of the clips is of the first condition; `pairs` has the pair of each clip. The
    mean maps are [row, column] of both conditions, over clips and frames. Without boxes there are
    no shares; random directions have no p.
    """
    n_first = len(pairs) // 2
    numbers = [i for i, name in enumerate(names) if not name.startswith(RANDOM_PREFIX)]
    random = [i for i, name in enumerate(names) if name.startswith(RANDOM_PREFIX)]
    compared = []
    for name, of_name in [*((names[i], [i]) for i in numbers), (AT_RANDOM, random)]:
        item: Record = {
            "direction": name,
            "mean_maps": [mean[of_name].mean(axis=0).tolist() for mean in means],
            **dict.fromkeys(("shares", "difference", "p", "p_holm")),
            "method": "",
        }
        if shares is not None:
            of_clips = shares[of_name].mean(axis=0)
            x = float(of_clips[:n_first].mean())
            y = float(of_clips[n_first:].mean())
            item |= {"shares": [x, y], "difference": x - y}
        if shares is not None and name != AT_RANDOM:
            is_first = np.arange(len(of_clips)) < n_first
            tested = permutation_p(of_clips, is_first, pairs, permutations=PERMUTATIONS)
            item |= {"p": tested.two_sided, "method": tested.method}
        compared.append(item)
    tests = [item for item in compared if item["p"] is not None]
    corrected = holm([item["p"] for item in tests]).tolist() if tests else []
    for item, p in zip(tests, corrected, strict=True):
        item["p_holm"] = p
    return compared
