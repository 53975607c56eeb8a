import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage
from obygaze_features.manifest import assign_folds
from obygaze_features.manifest.folds import (
    folds_by_group,
    grouped,
    grouped_folds,
    stratified_folds,
)
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest


def spread(counts: np.ndarray) -> int:
    return int(counts.max() - counts.min())


@given(
    st.lists(st.sampled_from("abc"), min_size=12, max_size=90),
    st.integers(2, 10),
    st.integers(0),
)
def test_stratified_folds_are_equal_in_all_and_in_each(strata, k, seed) -> None:
    folds = stratified_folds(strata, k, seed=seed)
    assert spread(np.bincount(folds, minlength=k)) <= 1
    for stratum in set(strata):
        inside = folds[np.array(strata) == stratum]
        assert spread(np.bincount(inside, minlength=k)) <= 1


def test_grouped_folds_are_the_best_of_all_deals_of_small_films() -> None:
    """Seven films in three folds are 2,187 deals: none is more even than the one found."""
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(7), rng.integers(3, 30, 7))
    y = rng.random(groups.size) < rng.random(7)[groups]
    totals = [y, ~y, np.ones(y.size)]
    of_films = [[np.sum(t[groups == g]) / np.sum(t) for t in totals] for g in range(7)]
    loads = np.array(of_films)

    def unevenness(deal: np.ndarray) -> float:
        sums = (loads[deal == fold].sum(axis=0) for fold in range(3))
        return sum(((of_fold - 1 / 3) ** 2).sum() for of_fold in sums)

    folds = grouped_folds(groups, y, 3, seed=0)
    found = np.array([folds[groups == g][0] for g in range(7)])
    deals = map(np.array, itertools.product(range(3), repeat=7))
    assert unevenness(found) == pytest.approx(min(map(unevenness, deals)))


@pytest.mark.parametrize("seed", range(3))
def test_no_film_that_moves_and_no_two_that_swap_make_folds_more_even(seed) -> None:
    rng = np.random.default_rng(seed)
    n_films, n_folds = 14, 5
    groups = np.repeat(np.arange(n_films), rng.integers(1, 40, n_films))
    y = rng.random(groups.size) < rng.random(n_films)[groups]
    totals = [y, ~y, np.ones(y.size)]
    shares = [np.bincount(groups, weights=t) / np.sum(t) for t in totals]
    loads = np.stack(shares, axis=1)
    folds = grouped_folds(groups, y, n_folds, seed=seed)
    deal = np.array([folds[groups == film][0] for film in range(n_films)])
    assert all(len(set(folds[groups == film])) == 1 for film in range(n_films))

    def unevenness(deal: np.ndarray) -> float:
        return sum(((loads[deal == f].sum(axis=0)) ** 2).sum() for f in range(n_folds))

    others = []
    for film, fold in itertools.product(range(n_films), range(n_folds)):
        moved = deal.copy()
        moved[film] = fold
        others.append(unevenness(moved))
    for one, other in itertools.combinations(range(n_films), 2):
        swapped = deal.copy()
        swapped[[one, other]] = deal[[other, one]]
        others.append(unevenness(swapped))
    assert set(deal) == set(range(n_folds))
    assert unevenness(deal) <= min(others) + 1e-9


def test_folds_that_cannot_be_are_refused() -> None:
    clips = tuple(Clip(f"{n}", f"film{n % 3}") for n in range(9))
    manifest = Manifest("films", Header("Films"), clips)
    assert len(set(grouped(manifest, 3).values())) == 3
    for k in (1, 5):
        with pytest.raises(FixUsage):
            grouped(manifest, k)
    without_films = [Clip(clip.clip_id, "") for clip in manifest]
    with pytest.raises(FixInput, match="is missing, so that the clips of a film"):
        grouped(manifest.with_clips(without_films), 2)
    with pytest.raises(FixInput, match="cannot make 3 folds of 2 films"):
        grouped_folds(["a", "b"], [0, 1], 3, seed=0)


def test_a_split_is_not_replaced(tmp_path: Path) -> None:
    clips = tuple(Clip(f"{n}", f"film{n % 2}", level="S") for n in range(3))
    path = tmp_path / "films.toml"
    write_manifest(Manifest("films", Header("Films"), clips), path)
    split = assign_folds(path, k=2)
    assert {fold: stats.clips for fold, stats in split.folds.items()} == {0: 2, 1: 1}
    assert read_manifest(path).folds == ("grouped",)
    with pytest.raises(AlreadyThere):
        assign_folds(path, k=2)


def test_leave_one_film_out() -> None:
    assert folds_by_group(["b", "a", "b", "c"]).tolist() == [1, 0, 1, 2]
    with pytest.raises(FixInput, match="cannot make 2 folds of 1 film"):
        folds_by_group(["a", "a"])
