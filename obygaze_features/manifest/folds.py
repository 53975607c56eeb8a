"""Assign single clips or whole films to folds; folds of a manifest have whole films.

A clip has the same fold in every task, so that no task trains on the test clips of another.
Folds are numbers from 0; -1 is a clip outside the split. `stratified_folds`, `grouped_folds` and
`folds_by_group` take arrays with one value per clip; `grouped` and `assign_folds` take a manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.console import count, plural, table
from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage
from obygaze_features.core.workspace import PathLike
from obygaze_features.manifest.history import (
    command_line,
    manifest_word,
    with_command,
)
from obygaze_features.manifest.io import (
    manifest_path,
    read_manifest,
    update_manifest,
)
from obygaze_features.manifest.model import (
    FOLD_PREFIX,
    Manifest,
    require_films,
    view_words,
)
from obygaze_features.manifest.stats import FoldStats, compute_stats

IntArray = NDArray[np.intp]
FloatArray = NDArray[np.float64]
Folds = dict[str, int]

# The name of the split that this module adds to a manifest.
SPLIT = "grouped"
OUTSIDE = -1
N_RESTARTS = 8
MAX_SWAP_GROUPS = 400


def grouped(manifest: Manifest, k: int) -> Folds:
    """Return the fold of each clip by its id: `k` folds of whole films.

    The folds are about equal in size and in each annotation level.
    """
    films = [clip.movie_id for clip in manifest]
    require_films(films, manifest.name)
    _check_folds(k, len(manifest.films), "film", FixUsage)
    levels = [clip.level for clip in manifest]
    folds = grouped_folds(films, levels, k, seed=0)
    return dict(zip(manifest.clip_ids, folds.tolist(), strict=True))


@dataclass(frozen=True)
class SplitReport:
    """The counts of each fold of a new split, in the view of the manifest."""

    folds: Mapping[int, FoldStats]
    view: str
    split: str = SPLIT

    def to_json(self) -> dict[str, Any]:
        """Return the counts of each fold."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [(fold, one.clips, one.positive) for fold, one in self.folds.items()]
        return table(("fold", "clips", f"S, {view_words(self.view)}"), rows)

    @property
    def notes(self) -> list[str]:
        """How to run with these folds."""
        return [
            "to test with these folds, which each hold whole films: obygaze run honest --set"
            f" splits.kind=published --set splits.folds=0 --set tasks.EN_S.folds={SPLIT}",
            "for a task of your own: obygaze run honest --task TASK --set"
            f" splits.column={FOLD_PREFIX}{SPLIT} (intervals and p are then over folds)",
        ]


def assign_folds(
    manifest: PathLike,
    *,
    k: int = 5,
    force: bool = False,
    workspace: PathLike | None = None,
) -> SplitReport:
    """Assign each film, with all its clips, to one fold: the split `grouped`.

    A clip has the same fold in every task, so that no task trains on another's test clips. `obygaze
    manifest join` adds folds of your own: a column fold:NAME of a table of clips.

    Args:
        manifest: The manifest, which is replaced by one with the split.
        k: Number of folds.
        force: Replace the folds that this command has made before.
        workspace: The workspace, if it is not the current one.
    """
    path = manifest_path(manifest, workspace=workspace)
    before = read_manifest(path)
    fold_of_clip = grouped(before, k)
    if SPLIT in before.folds and not force:
        raise AlreadyThere(
            f"{manifest} already has {SPLIT} folds", hint="pass --force to replace them"
        )
    cells = {clip: str(fold) for clip, fold in fold_of_clip.items()}
    after = before.with_column(FOLD_PREFIX + SPLIT, cells)
    options = {"-k": k, "--force": force}
    word = manifest_word(path, workspace)
    command = command_line("manifest folds", [word], options, workspace)
    after = with_command(after, command, before)
    update_manifest(before, after, path)
    return SplitReport(compute_stats(after).folds[SPLIT], after.header.view)


def stratified_folds(strata: ArrayLike, n_folds: int, *, seed: int) -> IntArray:
    """Return the fold of each clip; folds differ by at most one clip in size and in each stratum.

    The clips of each stratum are shuffled, then dealt to the folds in turn. Each stratum begins at
    the fold after the one where the previous stratum ended, which keeps the folds equal in size.
    """
    labels = np.asarray(strata)
    _check_folds(n_folds, labels.size, "clip")
    rng = np.random.default_rng(seed)
    shuffled = [rng.permutation(np.flatnonzero(labels == s)) for s in np.unique(labels)]
    folds = np.empty(labels.size, dtype=np.intp)
    folds[np.concatenate(shuffled)] = np.arange(labels.size) % n_folds
    return folds


def grouped_folds(
    groups: ArrayLike,
    strata: ArrayLike,
    n_folds: int,
    *,
    seed: int,
    unit: str = "film",
) -> IntArray:
    """Return the fold of each clip: whole films, about equal in size and in each stratum.

    The largest films are dealt first. Then films are moved and swapped as long as this makes the
    folds more equal. Both steps run from several shuffled starts, and the best result is returned.
    `unit` names a group in errors, because a group may be more than one film.
    """
    names, codes = np.unique(np.asarray(groups), return_inverse=True)
    _check_folds(n_folds, names.size, unit)
    loads = _loads(codes, np.asarray(strata), names.size)
    rng = np.random.default_rng(seed)
    deals = [
        _improve(_greedy(loads, n_folds, rng), loads, n_folds)
        for _ in range(N_RESTARTS)
    ]
    best = min(
        deals,
        key=lambda deal: round(float((_filled(deal, loads, n_folds) ** 2).sum()), 12),
    )
    return _in_order(best)[codes]


def folds_by_group(groups: ArrayLike, unit: str = "film") -> IntArray:
    """Return the fold of each clip for leave-one-film-out: each film is a fold, sorted by name."""
    names, codes = np.unique(np.asarray(groups), return_inverse=True)
    _check_folds(2, names.size, unit)
    return codes.astype(np.intp)


def _check_folds(
    n_folds: int, n: int, unit: str, error: type[FixInput] | type[FixUsage] = FixInput
) -> None:
    """Raise an error unless there are at least two folds, and one clip or film for each."""
    if 2 <= n_folds <= n:
        return
    hint = f"use 2 to {n} folds" if n >= 2 else f"use at least two {plural(unit)}"
    raise error(f"cannot make {n_folds} folds of {count(n, unit)}", hint=hint)


def _loads(
    codes: NDArray[np.intp], strata: NDArray[np.generic], n_groups: int
) -> FloatArray:
    """Return for each film its share of each stratum and of all clips [films, strata + 1]."""
    levels = np.unique(strata)
    counts = np.stack(
        [
            np.bincount(codes, weights=strata == level, minlength=n_groups)
            for level in levels
        ]
        + [np.bincount(codes, minlength=n_groups)],
        axis=1,
    )
    return np.asarray(counts / counts.sum(axis=0), dtype=np.float64)


def _greedy(loads: FloatArray, n_folds: int, rng: np.random.Generator) -> IntArray:
    order = rng.permutation(len(loads))
    order = order[
        np.argsort(-loads[order, -1] * rng.uniform(0.8, 1.0, len(loads)), kind="stable")
    ]
    deal = np.full(len(loads), OUTSIDE, dtype=np.intp)
    filled = np.zeros((n_folds, loads.shape[1]))
    is_empty = np.ones(n_folds, dtype=np.bool_)
    for i, group in enumerate(order):
        cost = ((filled + loads[group]) ** 2 - filled**2).sum(axis=1)
        # The last films must fill the folds that are still empty.
        if is_empty.sum() >= len(order) - i:
            cost[~is_empty] = np.inf
        deal[group] = int(np.argmin(cost))
        is_empty[deal[group]] = False
        filled[deal[group]] += loads[group]
    return deal


def _filled(deal: IntArray, loads: FloatArray, n_folds: int) -> FloatArray:
    filled = np.zeros((n_folds, loads.shape[1]))
    np.add.at(filled, deal, loads)
    return filled


def _improve(deal: IntArray, loads: FloatArray, n_folds: int) -> IntArray:
    """Move one film or swap two, the best change first, until none lowers the cost of `_moves`."""
    while True:
        filled = _filled(deal, loads, n_folds)
        move = _moves(deal, loads, filled)
        swap = _swaps(deal, loads, filled)
        if min(move.min(), swap.min()) > -1e-12:
            return deal
        deal = deal.copy()
        if move.min() <= swap.min():
            group, fold = np.unravel_index(np.argmin(move), move.shape)
            deal[group] = fold
        else:
            one, other = np.unravel_index(np.argmin(swap), swap.shape)
            deal[[one, other]] = deal[[other, one]]


def _moves(deal: IntArray, loads: FloatArray, filled: FloatArray) -> FloatArray:
    """Return the change of cost if a film moves to a fold [films, folds].

    The cost is the sum of the squared loads of the folds. Emptying a fold never lowers it.
    """
    own = (filled[deal] * loads).sum(axis=1)[:, None]
    change = 2 * (loads**2).sum(axis=1)[:, None] + 2 * (loads @ filled.T - own)
    change[np.arange(len(deal)), deal] = 0.0
    return np.asarray(change)


def _swaps(deal: IntArray, loads: FloatArray, filled: FloatArray) -> FloatArray:
    """Return the change of cost for each swap of two films; no swaps for too many films."""
    if len(deal) > MAX_SWAP_GROUPS:
        return np.zeros((1, 1))
    step = loads[None, :, :] - loads[:, None, :]
    apart = filled[deal][:, None, :] - filled[deal][None, :, :]
    change = 2 * (step**2).sum(axis=2) + 2 * (apart * step).sum(axis=2)
    change[deal[:, None] == deal[None, :]] = 0.0
    return np.asarray(change)


def _in_order(deal: IntArray) -> IntArray:
    """Number the folds by their first films, which gives equal splits equal numbers."""
    _, first = np.unique(deal, return_index=True)
    rank = np.empty(first.size, dtype=np.intp)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[deal]
