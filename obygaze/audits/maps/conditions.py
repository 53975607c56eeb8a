"""Maps of two conditions: their means, the difference, and whether one has more in the boxes.

The clips of a condition are those of a table, such as pictures of women who are shown as objects
and of the same women who are not. The clips of a pair are exchanged, in all ways.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze.audits.maps.boxes import (
    NO_MAPS,
    notes_on,
    shares_in_boxes,
)
from obygaze.audits.maps.stores import MAPS, RANDOM_PREFIX, map_names, real_steps
from obygaze_features.core.console import table
from obygaze_features.core.errors import FixInput
from obygaze_features.core.figures import WIDTH, canvas, save
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
MeanMap = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Condition:
    """The clips of a condition that were compared."""

    name: str
    clips: tuple[str, ...]


@dataclass(frozen=True)
class ComparedDirection:
    """The maps of a direction in both conditions.

    `mean_maps` are [row, column] of the first and the second condition, over clips and frames.
    `shares` are the mean shares of the maps in the boxes, None without boxes; `p` is that of their
    difference, two-sided, and None of the random directions.
    """

    direction: str
    mean_maps: tuple[MeanMap, MeanMap]
    shares: tuple[float, float] | None = None
    p: float | None = None
    p_holm: float | None = None
    method: str = ""

    @property
    def difference(self) -> float | None:
        """The share of the first condition minus that of the second."""
        return None if self.shares is None else self.shares[0] - self.shares[1]


@dataclass(frozen=True)
class ConditionAudit:
    """The maps of two conditions, for each direction.

    `exchanged` says which clips the test exchanges between the conditions.
    `left_out` has the reason for each clip of the table that was not compared.
    """

    conditions: tuple[Condition, Condition]
    n_pairs: int
    directions: tuple[ComparedDirection, ...]
    left_out: Mapping[str, str]
    exchanged: str = EXCHANGED
    figure: tuple[Path, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return every number, the mean maps included, as one JSON document."""
        document = asdict(self)
        for direction, written in zip(
            self.directions, document["directions"], strict=True
        ):
            written["difference"] = direction.difference
        document["figure"] = [str(path) for path in self.figure]
        return document

    def __str__(self) -> str:
        first, second = self.conditions
        lines = [
            f"X is {first.name}, Y is {second.name}: {self.n_pairs} pairs of clips"
        ]
        if all(direction.shares is None for direction in self.directions):
            lines.append("Without boxes there is no test: --boxes FILE")
            return "\n".join(lines)
        rows = []
        for item in self.directions:
            x, y = item.shares or (None, None)
            p = None if item.p is None else p_text(item.p)
            p_holm = None if item.p_holm is None else p_text(item.p_holm)
            rows.append((item.direction, x, y, item.difference, p, p_holm))
        headers = ("direction", "in boxes, X", "in boxes, Y", "X - Y", "p", "Holm")
        lines += ["", table(headers, rows), ""]
        methods = sorted({item.method for item in self.directions if item.method})
        lines.append(f"p, two-sided, {', '.join(methods)}: exchanges {EXCHANGED}.")
        return "\n".join(lines)

    @property
    def notes(self) -> list[str]:
        """The clips that were left out by reason, and the files of the figure."""
        notes = notes_on(self.left_out)
        if self.figure:
            notes.append(f"wrote {' and '.join(map(str, self.figure))}")
        return notes


def compare_conditions(
    maps: PathLike | Store,
    conditions: PathLike,
    *,
    boxes: PathLike | None = None,
    figure: PathLike | None = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> ConditionAudit:
    """Compare the maps of two conditions: mean maps, and what lies in boxes."""
    store = open_store(maps, workspace=workspace)
    names, condition_of, pair_of = read_conditions(Path(conditions), store)
    maps_of_clips = store.matrix(MAPS, clips=list(condition_of), missing="drop")
    left_out = dict.fromkeys(maps_of_clips.reasons, NO_MAPS)
    boxed = None
    if boxes is not None:
        boxed = shares_in_boxes(store, Path(boxes))
        for clip in condition_of:
            if clip not in left_out and clip not in boxed.clip_ids:
                left_out[clip] = boxed.left_out.get(clip, WITHOUT_BOX)
    left_out |= _without_partner(pair_of, left_out)
    first, second = (
        _condition(name, condition_of, left_out, Path(conditions)) for name in names
    )
    clips = (*first.clips, *second.clips)
    means = _mean_maps(store, maps_of_clips, (first, second))
    shares = None
    if boxed is not None:
        columns = [boxed.clip_ids.index(clip) for clip in clips]
        shares = boxed.shares[:, columns]
    pairs = [pair_of[clip] for clip in clips]
    directions = _compared(map_names(store), means, shares, pairs)
    audit = ConditionAudit(
        conditions=(first, second),
        n_pairs=len(first.clips),
        directions=tuple(directions),
        left_out=left_out,
    )
    if figure is None:
        return audit
    written = draw_conditions(audit, Path(figure), force=force)
    return replace(audit, figure=written)


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
) -> Condition:
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
    return Condition(name, tuple(clips))


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
            problem = f"the store of maps has no clip {clip!r}"
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
    store: Store, maps: Matrix, conditions: Sequence[Condition]
) -> list[Floats]:
    """Return for each condition the mean maps [direction, row, column] of clips and frames."""
    real = real_steps(store, maps.rows)
    of_clip = {}
    for row, clip in enumerate(maps.clip_ids.tolist()):
        frames = maps.values[row][:, real[row]].astype(np.float64)
        of_clip[clip] = frames.mean(axis=1)
    means = []
    for condition in conditions:
        of_condition = [of_clip[clip] for clip in condition.clips]
        means.append(np.mean(of_condition, axis=0))
    return means


def _compared(
    names: Sequence[str],
    means: Sequence[Floats],
    shares: Floats | None,
    pairs: Sequence[str],
) -> list[ComparedDirection]:
    """Return each direction with the test of its shares, the mean of the random ones last.

    The first half of the clips is of the first condition; `pairs` has the pair of each clip.
    """
    n_first = len(pairs) // 2
    numbers = [i for i, name in enumerate(names) if not name.startswith(RANDOM_PREFIX)]
    random = [i for i, name in enumerate(names) if name.startswith(RANDOM_PREFIX)]
    compared = []
    p_values = []
    for i in numbers:
        maps = (_grid(means[0][i]), _grid(means[1][i]))
        if shares is None:
            compared.append(ComparedDirection(names[i], maps))
            continue
        is_first = np.arange(shares.shape[1]) < n_first
        tested = permutation_p(shares[i], is_first, pairs, permutations=PERMUTATIONS)
        p_values.append(tested.two_sided)
        compared.append(
            ComparedDirection(
                direction=names[i],
                mean_maps=maps,
                shares=_means_of_groups(shares[i], n_first),
                p=tested.two_sided,
                method=tested.method,
            )
        )
    if p_values:
        corrected = holm(p_values).tolist()
        compared = [
            replace(item, p_holm=p) for item, p in zip(compared, corrected, strict=True)
        ]
    maps = (_grid(means[0][random].mean(0)), _grid(means[1][random].mean(0)))
    of_random = None
    if shares is not None:
        of_random = _means_of_groups(shares[random].mean(axis=0), n_first)
    compared.append(ComparedDirection(AT_RANDOM, maps, of_random))
    return compared


def _means_of_groups(values: Floats, n_first: int) -> tuple[float, float]:
    return float(values[:n_first].mean()), float(values[n_first:].mean())


def _grid(mean_map: Floats) -> MeanMap:
    """Return a map [row, column] as plain numbers."""
    return tuple(tuple(row) for row in mean_map.tolist())


def draw_conditions(
    audit: ConditionAudit, path: Path, *, force: bool = True
) -> tuple[Path, ...]:
    """Draw for each direction both mean maps and their difference; return the files.

    Args:
        audit: The comparison.
        path: A name with .svg, .png or .pdf, or without one for SVG and PNG.
        force: Replace files that have other contents.
    """
    directions = audit.directions[:MAX_DRAWN]
    first, second = audit.conditions
    layout = {"nrows": len(directions), "ncols": 3, "squeeze": False}
    with canvas(WIDTH, 50 + 135 * len(directions), **layout) as (figure, axes):
        for row, item in zip(axes, directions, strict=True):
            maps = [np.array(grid) for grid in item.mean_maps]
            difference = maps[0] - maps[1]
            low = min(float(grid.min()) for grid in maps)
            high = max(float(grid.max()) for grid in maps)
            for panel, grid in zip(row[:2], maps, strict=True):
                shown = panel.imshow(grid, cmap="Oranges", vmin=low, vmax=high)
            figure.colorbar(shown, ax=row[:2].tolist(), shrink=0.8)
            largest = max(float(np.abs(difference).max()), 1e-12)
            shown = row[2].imshow(
                difference, cmap="RdBu_r", vmin=-largest, vmax=largest
            )
            figure.colorbar(shown, ax=row[2], shrink=0.8)
            row[0].set_ylabel(item.direction, fontsize=8)
            for panel in row:
                panel.set_xticks([])
                panel.set_yticks([])
        titles = (
            f"{first.name} ({len(first.clips)})",
            f"{second.name} ({len(second.clips)})",
            "difference",
        )
        for panel, title in zip(axes[0], titles, strict=True):
            panel.set_title(title, fontsize=9)
        return save(figure, path, force=force)
