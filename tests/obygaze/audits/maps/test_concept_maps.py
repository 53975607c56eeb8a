"""Concept maps of made-up films in which a patch moves: the peak lies on the patch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.experiments import VISUAL, films
from support.maps import GRID, places, token_store

from obygaze.audits.maps.concept_maps import (
    common_names,
    directions_by_film,
    maps_of_tokens,
    write_concept_maps,
)
from obygaze.audits.maps.stores import MAPS, map_names
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Store, open_store
from obygaze_models.models.registry import DEFAULT_TASK
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.training import training_protocol

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


def test_the_peak_lies_on_the_patch_and_random_directions_point_nowhere(
    made: tuple[Manifest, Store, Store],
) -> None:
    manifest, _, maps = made
    shares = {c: pointing(manifest, maps, c, c) for c in CONCEPTS}
    assert min(shares.values()) > 0.9
    null = [pointing(manifest, maps, f"random {i}", CONCEPTS[0]) for i in range(1, 21)]
    # Chance is 1/25, but a random direction has a part of the concept.
    assert np.mean(null) < 0.35
    assert max(null) < min(shares.values())


def test_a_map_is_the_projection_of_each_patch(
    made: tuple[Manifest, Store, Store],
) -> None:
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
    swapped = [
        c
        if c.movie_id != first
        else type(c)(**{**vars(c), "level": "EN", "concepts": ()})
        for c in manifest
    ]
    other = Manifest(manifest.name, manifest.header, tuple(swapped))
    for name, one in (("a", manifest), ("b", other)):
        write_concept_maps(tmp_path / name, store, one)
    a, b = (open_store(tmp_path / name).matrix(MAPS).values[:, 0] for name in "ab")
    same = np.array([np.array_equal(x, y) for x, y in zip(a, b, strict=True)])
    own = np.array([clip.movie_id == first for clip in manifest])
    assert same[own].all()
    assert not same[~own].any()


def test_a_concept_is_higher_where_it_is_annotated(
    made: tuple[Manifest, Store, Store],
) -> None:
    manifest, _, maps = made
    name, k = CONCEPTS[0], map_names(maps).index(CONCEPTS[0])
    means = {
        has: maps.matrix(
            MAPS, clips=[c.clip_id for c in manifest if (name in c.concepts) == has]
        )
        .values[:, k]
        .astype(np.float64)
        .mean()
        for has in (True, False)
    }
    assert means[True] > means[False]


def test_the_recipe_of_maps_names_their_source(
    made: tuple[Manifest, Store, Store],
) -> None:
    _, store, maps = made
    facts = maps.recipe.to_json()[MAPS]
    assert (facts["of"], facts["method"]) == (store.fingerprint, "projection")
    np.testing.assert_array_equal(
        maps.matrix("time_s").values, store.matrix("time_s", clips=maps.clip_ids).values
    )
    with pytest.raises(FixInput, match="not a store of maps"):
        map_names(store)


def test_maps_are_of_the_directions_that_were_found_without_each_film() -> None:
    a, b, c = np.eye(3)
    of_film = {"f": {"A": a, "B": b}, "g": {"A": a, "C": c}, "h": {"C": c, "A": a}}
    assert common_names(of_film) == ["A"]
    assert common_names({"f": {"A": a, "B": b}, "g": {"B": b, "A": a}}) == ["A", "B"]
    assert common_names({}) == []


@pytest.mark.filterwarnings("ignore:No vector is found")
def test_a_concept_of_one_film_alone_has_no_maps(tmp_path: Path) -> None:
    manifest = films(3, 24, seed=4)
    alone = {f"tt{film + 1:07d}": (concept,) for film, concept in enumerate(VISUAL[:3])}
    clips = []
    for number, clip in enumerate(manifest):
        level = ("EN", "HN", "S")[number % 3]
        concepts = (VISUAL[5], *alone.get(clip.movie_id, ())) if level != "EN" else ()
        clips.append(replace(clip, level=level, concepts=concepts))
    of_one_film = Manifest(manifest.name, manifest.header, tuple(clips))
    store = token_store(tmp_path / "tokens", of_one_film, VISUAL[:10])
    write_concept_maps(tmp_path / "maps", store, of_one_film)
    maps = open_store(tmp_path / "maps")
    protocol = training_protocol("cav", DEFAULT_TASK, of_one_film)
    by_film = directions_by_film(gather(protocol, of_one_film, "m", {"s": store}))
    assert [list(own) for own in by_film.values()] == [[VISUAL[5]]] * 3
    features = gather(protocol, of_one_film, "m", {"s": store}).stores[0]
    origin = features.X.mean(axis=0, dtype=np.float64)
    found = maps.matrix(MAPS, missing="drop")
    tokens = store.matrix("tokens", clips=found.clip_ids.tolist()).values
    names = [name for name in map_names(maps) if not name.startswith("random")]
    assert names == [VISUAL[5]] and len(found) == len(manifest)
    for clip, own, values in zip(found.clip_ids, tokens, found.values, strict=True):
        of_film = by_film[str(clip).partition("-")[0]]
        wanted = maps_of_tokens(
            own, {name: of_film[name] for name in names}, origin, GRID
        )
        np.testing.assert_allclose(values[: len(names)], wanted, atol=0.05, rtol=0.01)
