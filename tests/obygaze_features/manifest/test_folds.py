"""Folds: even where they can be, whole films where they must be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.folds import grouped
from obygaze_features.manifest.model import LEVELS, Clip, Header, Manifest


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


@given(sizes_of_films)
def test_grouped_folds_never_split_a_film_and_none_is_empty(sizes: list[int]) -> None:
    manifest = films(sizes, "0123")
    folds = grouped(manifest, 3)
    for film in manifest.films:
        assert (
            len({folds[clip.clip_id] for clip in manifest if clip.movie_id == film})
            == 1
        )
    assert set(folds.values()) == {0, 1, 2}


@pytest.mark.parametrize("k", [0, 1, 5])
def test_impossible_numbers_of_folds(k: int) -> None:
    with pytest.raises(FixUsage):
        grouped(films([3, 3, 3]), k)


def test_a_manifest_without_films_has_no_folds_of_films() -> None:
    manifest = films([2, 3])
    clips = [replace(clip, movie_id="") for clip in manifest]
    with pytest.raises(FixInput, match="is not stated, so that the clips of a film"):
        grouped(manifest.with_clips(clips), 2)
