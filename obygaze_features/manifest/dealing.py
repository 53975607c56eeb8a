"""Deals each clip a fold: evenly by level, or by whole films.

One fold for each clip of the manifest, dealt before any task is chosen: a clip that is in the test
fold is there for all tasks and all training sets, so no task can leak into another. A fold is a
number from 0; -1 is a clip outside the scheme.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.errors import FixInput

IntArray = NDArray[np.intp]
FloatArray = NDArray[np.float64]

OUTSIDE = -1
N_RESTARTS = 8
MAX_SWAP_GROUPS = 400


def stratified_folds(strata: ArrayLike, n_folds: int, *, seed: int) -> IntArray:
    """Folds of equal size that share out each stratum evenly, both to within one clip.

    The strata are shuffled and dealt one after another without starting over, which is what keeps
    the folds' total sizes equal too.
    """
    labels = np.asarray(strata)
    _check(labels.size, n_folds, "clips")
    rng = np.random.default_rng(seed)
    shuffled = [rng.permutation(np.flatnonzero(labels == s)) for s in np.unique(labels)]
    folds = np.empty(labels.size, dtype=np.intp)
    folds[np.concatenate(shuffled)] = np.arange(labels.size) % n_folds
    return folds


def grouped_folds(groups: ArrayLike, strata: ArrayLike, n_folds: int, *, seed: int) -> IntArray:
    """Folds of whole movies, as equal as movies allow in size and in each stratum.

    Movies are dealt largest first and then moved and swapped for as long as that helps, from a few
    shuffled starts; the best deal wins.
    """
    names, codes = np.unique(np.asarray(groups), return_inverse=True)
    _check(names.size, n_folds, "movies")
    loads = _loads(codes, np.asarray(strata), names.size)
    rng = np.random.default_rng(seed)
    deals = [_improve(_greedy(loads, n_folds, rng), loads, n_folds) for _ in range(N_RESTARTS)]
    best = min(deals, key=lambda deal: round(_cost(deal, loads, n_folds), 12))
    return _in_order(best)[codes]


def folds_by_group(groups: ArrayLike) -> IntArray:
    """One fold for each movie, in the order of their names: leave one movie out."""
    names, codes = np.unique(np.asarray(groups), return_inverse=True)
    _check(names.size, 2, "movies")
    return codes.astype(np.intp)


def _check(n: int, n_folds: int, what: str) -> None:
    if not 2 <= n_folds <= n:
        counted = f"1 {what.removesuffix('s')}" if n == 1 else f"{n} {what}"
        raise FixInput(
            f"{counted} cannot be dealt into {n_folds} folds",
            hint=f"fewer folds, or more {what}; the clips of one film can be dealt (kfold)",
        )


def _loads(codes: NDArray[np.intp], strata: NDArray[np.generic], n_groups: int) -> FloatArray:
    """Share of each stratum, and of all clips, that each movie brings."""
    levels = np.unique(strata)
    counts = np.stack(
        [np.bincount(codes, weights=strata == level, minlength=n_groups) for level in levels]
        + [np.bincount(codes, minlength=n_groups)],
        axis=1,
    )
    return np.asarray(counts / counts.sum(axis=0), dtype=np.float64)


def _greedy(loads: FloatArray, n_folds: int, rng: np.random.Generator) -> IntArray:
    order = rng.permutation(len(loads))
    order = order[np.argsort(-loads[order, -1] * rng.uniform(0.8, 1.0, len(loads)), kind="stable")]
    deal = np.full(len(loads), OUTSIDE, dtype=np.intp)
    filled = np.zeros((n_folds, loads.shape[1]))
    for i, group in enumerate(order):
        cost = ((filled + loads[group]) ** 2 - filled**2).sum(axis=1)
        # The last movies must fill the folds that are still empty.
        empty = np.flatnonzero(~np.isin(np.arange(n_folds), deal))
        if empty.size >= len(order) - i:
            cost[~np.isin(np.arange(n_folds), empty)] = np.inf
        deal[group] = int(np.argmin(cost))
        filled[deal[group]] += loads[group]
    return deal


def _filled(deal: IntArray, loads: FloatArray, n_folds: int) -> FloatArray:
    filled = np.zeros((n_folds, loads.shape[1]))
    np.add.at(filled, deal, loads)
    return filled


def _cost(deal: IntArray, loads: FloatArray, n_folds: int) -> float:
    return float((_filled(deal, loads, n_folds) ** 2).sum())


def _improve(deal: IntArray, loads: FloatArray, n_folds: int) -> IntArray:
    """Steepest descent over moves of one movie and swaps of two; the sums of squares only fall."""
    while True:
        filled = _filled(deal, loads, n_folds)
        move, swap = _moves(deal, loads, filled), _swaps(deal, loads, filled)
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
    """Change of cost when each movie moves to each fold; a fold's only movie stays."""
    own = (filled[deal] * loads).sum(axis=1)[:, None]
    change = 2 * (loads**2).sum(axis=1)[:, None] + 2 * (loads @ filled.T - own)
    change[np.arange(len(deal)), deal] = 0.0
    change[np.bincount(deal, minlength=len(filled))[deal] == 1] = 0.0
    return np.asarray(change)


def _swaps(deal: IntArray, loads: FloatArray, filled: FloatArray) -> FloatArray:
    """Change of cost when two movies change places."""
    if len(deal) > MAX_SWAP_GROUPS:
        return np.zeros((1, 1))
    step = loads[None, :, :] - loads[:, None, :]
    apart = filled[deal][:, None, :] - filled[deal][None, :, :]
    change = 2 * (step**2).sum(axis=2) + 2 * (apart * step).sum(axis=2)
    change[deal[:, None] == deal[None, :]] = 0.0
    return np.asarray(change)


def _in_order(deal: IntArray) -> IntArray:
    """Fold numbers in the order of the movies' names, so that equal deals get equal numbers."""
    _, first = np.unique(deal, return_index=True)
    rank = np.empty(first.size, dtype=np.intp)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[deal]
