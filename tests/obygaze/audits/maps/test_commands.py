"""`obygaze explain`: maps of a tiny CLIP on films whose pictures are known."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.checkpoints import save_tiny, write_tiny_card
from support.cli import call_obygaze
from support.extraction import film_folder, keep_manifest
from support.videos import write_video

import obygaze as og
from obygaze.audits.maps.pictures import exact_pictures
from obygaze.audits.maps.saliency import grad_cam
from obygaze.audits.maps.stores import MAPS, map_names
from obygaze_features.backbones.actions import load_backbone
from obygaze_features.core.errors import Mismatch
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


def test_another_video_is_refused(world: tuple[Path, list[Any]]) -> None:
    place, _ = world
    video = place / "videos" / "tt0" / "tt0-000.mp4"
    before = video.read_bytes()
    write_video(video, numbers=range(50, 68), size=(64, 48))
    changed = "the video of tt0-000 has changed"
    with pytest.raises(Mismatch, match=changed) as caught:
        exact_pictures(
            Workspace(place), open_store(place / "stores" / "joy"), "tt0-000"
        )
    video.write_bytes(before)
    assert caught.value.exit_code == 5


def test_other_weights_are_refused(world: tuple[Path, list[Any]]) -> None:
    place, _ = world
    save_tiny("clip", place / "other", seed=1)
    done = call_obygaze(
        *("-C", place, "explain", "model", "films.tiny-clip", place / "t.npz"),
        *("-o", "x", "--weights", place / "other"),
    )
    assert (done.code, "differ from those of the store" in done.stderr) == (5, True)
