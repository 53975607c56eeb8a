"""`obygaze explain`: maps of a tiny CLIP on films whose pictures are known, boxes, and sheets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.checkpoints import save_tiny, write_tiny_card
from support.cli import call_obygaze
from support.extraction import film_folder, keep_manifest
from support.videos import write_video

import obygaze as og
from obygaze.audits.maps.drawing import overlay
from obygaze.audits.maps.pictures import exact_pictures
from obygaze.audits.maps.saliency import grad_cam
from obygaze.audits.maps.stores import MAPS, map_names
from obygaze_features.backbones.actions import load_backbone
from obygaze_features.core.workspace import Workspace
from obygaze_features.store import open_store
from obygaze_features.store.recipe import space_of_array
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.decoded_clip import PictureView

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """A workspace with four films, their features of a tiny CLIP, and two texts."""
    place = tmp_path_factory.mktemp("explain")
    manifest = film_folder(place, 4)
    keep_manifest(manifest, place)
    write_tiny_card("clip", place / "backbones")
    save_tiny("clip", place / "weights")
    weights = {"tiny-clip": place / "weights"}
    og.extract("films", "tiny-clip", weights=weights, workspace=place)
    recipe = open_store(place / "stores" / "films.tiny-clip").recipe
    vectors = np.random.default_rng(0).normal(size=(3, 24)).astype(np.float32)
    np.savez(
        place / "t.npz",
        embeddings=vectors,
        attribute=np.array(["joy", "joy", "fear"]),
        space_id=np.array(space_of_array(recipe, "clip")),
    )
    done = call_obygaze(
        *("-C", place, "explain", "model", "films.tiny-clip", place / "t.npz"),
        *("--weights", place / "weights", "-o", "joy"),
    ).ok()
    assert "maps of 4 of 4 clips" in done.stdout
    return place, list(vectors)


def test_maps_are_those_of_the_model_on_the_same_frames(world) -> None:
    place, (a, b, c) = world
    maps = open_store(place / "stores" / "joy")
    assert map_names(maps)[:3] == ["joy", "fear", "random 1"]
    assert maps.recipe.to_json()[MAPS]["method"] == "grad-cam"
    backbone = load_backbone("tiny-clip", place / "weights", workspace=Workspace(place))
    video = place / "videos" / "tt0" / "tt0-002.mp4"
    frames = decode_clip(video, PictureView(3, "even", backbone.resize)).pictures
    directions = np.stack([(a + b) / 2, c])
    expected = grad_cam(backbone, backbone.normalise(frames)[None], directions)[0]
    found = maps.matrix(MAPS, clips=["tt0-002"]).values[0, :2]
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_a_sheet_for_each_direction_over_the_exact_pictures(world) -> None:
    place, _ = world
    words = ("-C", place, "explain", "draw", "joy", "tt0-003", "-o", place / "sheets")
    found = call_obygaze(*words, "--json").ok().json()["files"]
    # Both directions and, for comparison, the first random one.
    sheets = [f"tt0-003.{name}.png" for name in ("joy", "fear", "random-1")]
    assert [Path(one).name for one in found] == sheets
    store = open_store(place / "stores" / "films.tiny-clip")
    decoded = exact_pictures(Workspace(place), store, "tt0-003")
    with Image.open(found[0]) as sheet:
        cell = np.asarray(sheet)[8 : 8 + 32, 8 : 8 + 32].astype(int)
    maps = (
        open_store(place / "stores" / "joy")
        .matrix(MAPS, clips=["tt0-003"])
        .values[0, :3]
    )
    scale = max(float((one - one.mean()).max()) for one in maps.astype(np.float32))
    np.testing.assert_array_equal(cell, overlay(decoded.pictures, maps[0], scale)[0])


def test_what_is_above_the_mean_of_a_map_is_orange_and_nothing_else() -> None:
    """With a soft edge of one patch; both pictures have the one step of the map."""
    seen = np.zeros((1, 4, 4), np.float16)
    seen[0, 1, 2] = 4
    drawn = overlay(np.full((2, 32, 32, 3), 90, np.uint8), seen, 3.75).astype(int)
    for picture in drawn:
        assert (picture[8:16, 16:24].min(axis=(0, 1))[0]) > picture[0, 0, 0] == 90
        rows, columns = np.nonzero(picture[..., 0] - picture[..., 2])
        assert {*rows} == {*range(4, 20)} and {*columns} == {*range(12, 28)}


def test_another_video_is_refused(world: tuple[Path, list[Any]]) -> None:
    place, _ = world
    video = place / "videos" / "tt0" / "tt0-000.mp4"
    before = video.read_bytes()
    write_video(video, numbers=range(50, 68), size=(64, 48))
    done = call_obygaze(
        "-C", place, "explain", "draw", "joy", "tt0-000", "-o", place / "s"
    )
    video.write_bytes(before)
    assert (done.code, "the video of tt0-000 has changed" in done.stderr) == (5, True)


def test_other_weights_are_refused(world: tuple[Path, list[Any]]) -> None:
    place, _ = world
    save_tiny("clip", place / "other", seed=1)
    done = call_obygaze(
        *("-C", place, "explain", "model", "films.tiny-clip", place / "t.npz"),
        *("-o", "x", "--weights", place / "other"),
    )
    assert (done.code, "differ from those of the store" in done.stderr) == (5, True)
