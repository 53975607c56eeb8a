"""Folds: even where they can be, whole films where they must be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.folds import grouped, leave_one_film_out
from obygaze_features.manifest.model import LEVELS, Clip, Header, Manifest
from obygaze_features.manifest.stats import compute_stats


def films(sizes: list[int], levels: str = "") -> Manifest:
    """Films with so many scenes; levels by cycling through a string of digits."""
    clips = [
        Clip(
            f"m{m:02d}-{scene:03d}",
            f"m{m:02d}",
            scene,
            level=LEVELS[int(levels[(m + scene) % len(levels)])] if levels else "",
        )
        for m, size in enumerate(sizes)
        for scene in range(size)
    ]
    return Manifest("films", Header("Films", {}), tuple(clips))


sizes_of_films = st.lists(st.integers(3, 30), min_size=3, max_size=8)


@given(sizes_of_films, st.integers(0, 99))
def test_grouped_folds_never_split_a_film_and_none_is_empty(
    sizes: list[int], seed: int
) -> None:
    manifest = films(sizes, "0123")
    folds = grouped(manifest, 3, seed)
    for film in manifest.films:
        assert (
            len({folds[clip.clip_id] for clip in manifest if clip.movie_id == film})
            == 1
        )
    assert set(folds.values()) == {0, 1, 2}


def test_grouped_folds_balance_what_can_be_balanced() -> None:
    folds = grouped(films([40, 30, 20, 10], "0"), 2)
    assert sorted(Counter(folds.values()).values()) == [50, 50]


def test_one_fold_a_film() -> None:
    folds = leave_one_film_out(films([2, 1, 3]))
    assert [folds[f"m{m:02d}-000"] for m in range(3)] == [0, 1, 2]
    assert Counter(folds.values()) == {0: 2, 1: 1, 2: 3}


@pytest.mark.parametrize("k", [0, 1, 5])
def test_impossible_numbers_of_folds(k: int) -> None:
    with pytest.raises(FixUsage):
        grouped(films([3, 3, 3]), k)


class Counted(Manifest):
    """A manifest that counts how often somebody goes through all its clips."""

    def __iter__(self) -> Iterator[Clip]:
        PASSES.append(len(self))
        return super().__iter__()


PASSES: list[int] = []


def test_a_manifest_of_many_films_is_not_gone_through_once_for_each() -> None:
    many, passes = films([3] * 200, "03"), []
    counted = Counted(many.name, many.header, many.clips)
    for work in (lambda m: grouped(m, 4), compute_stats):
        PASSES.clear()
        work(counted)
        passes.append(len(PASSES))
    # With a pass for each film these would be hundreds; a million clips would take an hour.
    assert max(passes) < 20
    # Film 199 starts with the second level of the cycle: S, EN, S.
    assert compute_stats(counted).by_film["m199"] == {
        "EN": 1,
        "HN": 0,
        "NS": 0,
        "S": 2,
    }


@pytest.mark.parametrize("work", [lambda m: grouped(m, 2), leave_one_film_out])
def test_a_manifest_without_films_has_no_folds_of_films(
    work: Callable[[Manifest], object],
) -> None:
    manifest = films([2, 3])
    clips = [replace(clip, movie_id="") for clip in manifest]
    with pytest.raises(FixInput, match="is not stated, so that the clips of a film"):
        work(manifest.with_clips(clips))
