"""Sheets of maps in the page are those of made-up maps over the exact pictures."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image
from support.checkpoints import save_tiny, write_tiny_card
from support.extraction import film_folder, keep_manifest
from support.film_pages import ask, served
from support.stores import a_recipe, made_store

import obygaze as og
from obygaze.films.page.media import Media
from obygaze.films.page.site import Site
from obygaze.films.page.view import open_site
from obygaze.maps.drawing import overlay, without_padding
from obygaze.maps.pictures import exact_pictures
from obygaze.maps.stores import grid_of, write_maps
from obygaze_features.core.errors import FixInput
from obygaze_features.core.workspace import Workspace
from obygaze_features.store import Array, Reason, Row, open_store

pytest.importorskip("transformers")

DIRECTIONS = ["joy", "../<b>&", "random 1"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with four films and with maps of three, of which one could not be decoded."""
    root = tmp_path_factory.mktemp("maps")
    keep_manifest(film_folder(root, 4), root)
    write_tiny_card("clip", root / "backbones")
    save_tiny("clip", root / "weights")
    og.extract(
        "films", "tiny-clip", weights={"tiny-clip": root / "weights"}, workspace=root
    )
    store = open_store(root / "stores" / "films.tiny-clip")
    failed = Reason("failed", "DecodeError: broken")
    made = [*made_up(grid_of(store)), failed]
    clips = ["tt0-001", "tt0-002", "tt0-003"]
    write_maps(root / "stores" / "maps", store, clips, DIRECTIONS, {}, made)
    return root


def made_up(grid: tuple[int, int, int]) -> Any:
    """The maps of two clips: of each direction, another place."""
    maps = np.zeros((2, len(DIRECTIONS), *grid))
    for direction in range(len(DIRECTIONS)):
        maps[:, direction, :, direction // 2, direction % 2] = 1
    return maps


@pytest.fixture
def page(place: Path) -> Site:
    return open_site("films", maps="maps", workspace=place)


def first_picture(data: bytes) -> Any:
    with Image.open(io.BytesIO(data)) as sheet:
        return np.asarray(sheet)[8 : 8 + 32, 8 : 8 + 32].astype(int)


def test_a_clip_has_a_sheet_for_each_direction_not_at_random(
    page: Site, place: Path
) -> None:
    store = open_store(place / "stores" / "films.tiny-clip")
    frames = exact_pictures(Workspace(place), store, "tt0-002").pictures
    maps = made_up(grid_of(store))[1]
    with served(page) as server:
        facts = ask(server, "/api/clip?clip_id=tt0-002").json()["maps"]
        assert [fact["name"] for fact in facts] == DIRECTIONS
        assert facts[0]["about"] == (
            "It varies over the pictures more than 0 of 1 random directions: no more than chance"
            " may paint."
        )
        assert facts[2]["about"].startswith("A random direction, on the same scale")
        for name, own in zip(DIRECTIONS, maps, strict=True):
            answer = ask(server, f"/map/tt0-002?direction={quote(name)}")
            assert answer.headers["Content-Type"] == "image/png"
            np.testing.assert_array_equal(
                first_picture(answer.body), overlay(frames, own)[0]
            )


def test_a_clip_without_maps_shows_nothing(page: Site, place: Path) -> None:
    with served(page) as server:
        for clip in ("tt0-000", "tt0-003"):
            assert ask(server, f"/api/clip?clip_id={clip}").json()["maps"] == []
        for path in (
            "tt0-000?direction=joy",
            "tt0-002?direction=fear",
            "tt0-002?direction=",
        ):
            assert ask(server, f"/map/{path}").status == 404
        assert ask(server, "/map/tt0-002").status == 400
        assert ask(server, "/map/tt0-002?direction=joy", {"Cookie": None}).status == 403
    with served(open_site("films", workspace=place)) as server:
        assert ask(server, "/api/clip?clip_id=tt0-002").json()["maps"] == []
        assert ask(server, "/map/tt0-002?direction=joy").status == 404


def test_the_reason_is_sent_if_the_pictures_are_not_those_of_the_maps(
    place: Path,
) -> None:
    video = place / "videos" / "tt0" / "tt0-001.mp4"
    before = video.read_bytes()
    video.write_bytes((place / "videos" / "tt0" / "tt0-003.mp4").read_bytes())
    with served(open_site("films", maps="maps", workspace=place)) as server:
        answer = ask(server, "/map/tt0-001?direction=joy")
    video.write_bytes(before)
    assert answer.status == 400
    assert "would not be those of the features" in answer.json()["error"]


def test_the_blind_arm_has_no_maps(place: Path) -> None:
    page = open_site("films", maps="maps", annotate="eva", blind=True, workspace=place)
    assert page.clip("tt0-002")["maps"] == []


def test_another_store_is_refused(place: Path) -> None:
    with pytest.raises(FixInput, match="not a store of maps"):
        open_site("films", maps="films.tiny-clip", workspace=place)


def test_padding_of_a_short_clip_is_not_compared_with_random_maps(
    tmp_path: Path,
) -> None:
    """A map whose mean is not 0 varied from step to step of the padding, which is 0."""
    grid = (4, 2, 2)
    real = np.array([True, True, False, False])
    recipe = a_recipe(backbone={"name": "toy", "geometry": {"grid": list(grid)}})
    source = made_store(
        tmp_path / "tokens",
        [Row("lake-000", "lake")],
        {"clip": np.ones((1, 4)), "time_s": np.arange(4.0)[None], "mask": real[None]},
        arrays=(
            Array.of("clip", "float64", (4,)),
            Array.of("time_s", "float64", (4,), ("frame",)),
            Array.of("mask", "bool", (4,), ("frame",)),
        ),
        recipe=recipe,
    )
    places = np.arange(4.0).reshape(2, 2)
    of_random = np.stack([(1 + n / 100) * places for n in range(20)])
    maps = np.stack([9 + places / 100, *of_random])[:, None].repeat(4, axis=1)
    maps[:, ~real] = 0
    names = ["flat", *(f"random {n}" for n in range(20))]
    write_maps(tmp_path / "maps", source, ["lake-000"], names, {}, [maps])
    media = Media("", [], Workspace(tmp_path), open_store(tmp_path / "maps"))
    (flat, _) = media.directions("lake-000")
    assert flat["about"].startswith(
        "It varies over the pictures more than 0 of 20 random directions"
    )
    drawn = without_padding(maps, real)
    assert drawn[:, :2] == pytest.approx(maps[:, :2])
    pictures = np.full((4, 8, 8, 3), 60, np.uint8)
    # Below 0, the padding was above the mean, and orange.
    below = overlay(pictures, without_padding(maps - 20 * real[:, None, None], real)[0])
    assert (below[2:] == 60).all() and (below[:2] != 60).any()
