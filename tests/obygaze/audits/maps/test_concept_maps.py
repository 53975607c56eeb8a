"""Concept maps of made-up films in which a patch moves: the peak lies on the patch."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.experiments import VISUAL, films
from support.maps import GRID, places, token_store

from obygaze.audits.maps.concept_maps import maps_of_tokens, write_concept_maps
from obygaze.audits.maps.stores import MAPS, map_names
from obygaze_features.manifest.model import DIFFERS, Manifest
from obygaze_features.store import Store, open_store

CONCEPTS = VISUAL[:3]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Manifest, Store, Store]:
    folder, manifest = tmp_path_factory.mktemp("maps"), films(4, 40)
    store = token_store(folder / "tokens", manifest, VISUAL[:10])
    write_concept_maps(folder / "maps", store, manifest)
    return manifest, store, open_store(folder / "maps")


def pointing(manifest: Manifest, maps: Store, direction: str, concept: str) -> float:
    """The share of frames, of clips with the concept, whose largest value is on the patch."""
    at, k = places(len(manifest)), map_names(maps).index(direction)
    has = [i for i, clip in enumerate(manifest) if concept in clip.concepts]
    own = maps.matrix(MAPS).values[has, k].reshape(len(has), GRID[0], -1)
    patch = at[has, :, 0] * 5 + at[has, :, 1]
    return float((own.argmax(axis=2) == patch).mean())


def test_the_peak_lies_on_the_patch_and_random_directions_point_nowhere(made) -> None:
    manifest, _, maps = made
    shares = {c: pointing(manifest, maps, c, c) for c in CONCEPTS}
    assert min(shares.values()) > 0.9
    null = [pointing(manifest, maps, f"random {i}", CONCEPTS[0]) for i in range(1, 21)]
    # Chance is 1/25, but a random direction has a part of the concept.
    assert np.mean(null) < 0.35
    assert max(null) < min(shares.values())


def test_a_map_is_the_projection_of_each_patch(made) -> None:
    _, store, _ = made
    tokens = store.matrix("tokens", clips=store.clip_ids[:1]).values[0]
    origin = np.arange(16) / 16
    found = maps_of_tokens(
        tokens, {"a": 2 * np.eye(16)[0], "b": np.eye(16)[3]}, origin, GRID
    )
    assert found.shape == (2, *GRID)
    assert found[0, 2, 1, 4] == tokens[2, 1 + 1 * 5 + 4, 0]
    assert found[1, 2, 1, 4] == pytest.approx(
        tokens[2, 1 + 1 * 5 + 4, 3] - 3 / 16, abs=1e-6
    )


def test_directions_never_saw_the_film(tmp_path: Path) -> None:
    """Other labels in a film change the maps of all films but this one."""
    manifest = films(4, 30, seed=3)
    store = token_store(tmp_path / "tokens", manifest, VISUAL[:10])
    first = manifest.clips[0].movie_id
    swapped = []
    for clip in manifest:
        is_changed = clip.movie_id == first
        swapped.append(replace(clip, level="EN", concepts=()) if is_changed else clip)
    other = manifest.with_clips(swapped)
    for name, one in (("a", manifest), ("b", other)):
        write_concept_maps(tmp_path / name, store, one)
    a, b = (open_store(tmp_path / name).matrix(MAPS).values[:, 0] for name in "ab")
    same = np.array([np.array_equal(x, y) for x, y in zip(a, b, strict=True)])
    own = np.array([clip.movie_id == first for clip in manifest])
    assert same[own].all()
    assert not same[~own].any()


def test_films_that_test_no_clip_have_maps_and_remove_no_direction(
    tmp_path: Path,
) -> None:
    """Nobody annotated the first film, and on the second the annotators differ."""
    manifest = films(4, 30, seed=3)
    store = token_store(tmp_path / "tokens", manifest, VISUAL[:10])
    unseen = {"level": "", "concepts": ()}
    disputed = {"extra": {DIFFERS: VISUAL[0]}}
    changes = {"tt0000001": unseen, "tt0000002": disputed}
    clips = [replace(clip, **changes.get(clip.movie_id, {})) for clip in manifest]
    made = write_concept_maps(tmp_path / "maps", store, manifest.with_clips(clips))
    assert made.counts["ok"] == len(manifest)
    assert VISUAL[0] in map_names(open_store(tmp_path / "maps"))
