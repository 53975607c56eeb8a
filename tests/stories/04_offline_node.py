"""Story 4: on a node without network I extract with weights that were fetched elsewhere, checked
and carried there, with a checkpoint of my own, and with LSMDC's X-CLIP from its released file."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from support.checkpoints import hub_cache, save_tiny, write_lsmdc_card, write_tiny_card
from support.damage import flip_bit
from support.data import golden
from support.fake_hub import model_hub

import obygaze as og
from stories import lsmdc_by_hand
from stories.films import PICTURES, RATE, import_films, write_films
from stories.own_models import numbers_of_clip
from stories.workspace import Workspace

REPOSITORY = "lab/tiny-clip"
N_FRAMES = 3
CLIPS_A_FILM = 5
LENGTH = PICTURES // CLIPS_A_FILM
RELEASED = {"width": 128, "out": 64, "layers": 3, "patch": 16, "grid": 4, "frames": 12}


Pictures = list[npt.NDArray[np.uint8]]


def decoded(film: Path, numbers: Sequence[int]) -> Pictures:
    """Return pictures of a film by their place in it, decoded from its beginning."""
    with av.open(str(film)) as container:
        frames = [*container.decode(video=0)]
    return [frames[number].to_ndarray(format="rgb24") for number in numbers]


def pixels_of_clip_models(pictures: Pictures, size: int) -> npt.NDArray[np.float32]:
    """Return pixels [T, 3, size, size] as CLIP was trained: bicubic, cropped in the middle."""
    from transformers import CLIPImageProcessor

    processor = CLIPImageProcessor(size={"shortest_edge": size}, crop_size=size)
    return np.asarray(processor(pictures, return_tensors="np")["pixel_values"])


def begin(ws: Workspace) -> None:
    """Begin with a film of five clips, and the card of a checkpoint that the hub has."""
    import_films(ws, "harbour", per_film=CLIPS_A_FILM)
    write_tiny_card("clip", ws.path("backbones"), REPOSITORY)


def vectors_by_transformers(ws: Workspace, weights: Path) -> npt.NDArray[Any]:
    """Return the vectors of the frames of each clip, by PyAV, Pillow and transformers alone."""
    import torch
    from transformers import CLIPVisionModelWithProjection

    model = CLIPVisionModelWithProjection.from_pretrained(weights)
    vectors = []
    for clip in range(CLIPS_A_FILM):
        numbers = numbers_of_clip(clip * LENGTH, LENGTH, N_FRAMES)
        pictures = decoded(ws.path("videos/harbour.mp4"), numbers)
        pixels = torch.as_tensor(pixels_of_clip_models(pictures, 32))
        with torch.no_grad():
            vectors.append(model(pixels).image_embeds.numpy())
    return np.stack(vectors)


def assert_vectors(ws: Workspace, store: str, expected: npt.NDArray[Any]) -> None:
    """Demand the vectors of frames, to 11 bits, and of clips, which are their mean."""
    opened = og.open_store(store, workspace=ws.folder)
    frames = opened.matrix("frames").values
    clips = opened.matrix("clip").values
    np.testing.assert_allclose(frames, expected, rtol=0, atol=5e-3)
    np.testing.assert_allclose(clips, expected.mean(axis=1), rtol=0, atol=1e-3)


def test_weights_are_fetched_elsewhere_checked_and_carried(ws: Workspace) -> None:
    begin(ws)
    weights = save_tiny("clip", ws.path("served"))
    login = {name: None for name in os.environ if name.lower().endswith("_proxy")}
    login |= {"HF_HUB_OFFLINE": None, "HF_HOME": str(ws.path("login"))}
    with model_hub(REPOSITORY, weights) as address:
        env = {**login, "HF_ENDPOINT": address}
        fetched = ws.process("backbones fetch tiny-clip", env=env)
    assert str(ws.path("login")) in fetched.text
    shutil.copytree(ws.path("login"), ws.path("carried"), symlinks=True)
    shutil.rmtree(ws.path("login"))
    node = {"HF_HOME": str(ws.path("carried")), "HF_HUB_OFFLINE": "1"}
    checked = ws("backbones check tiny-clip", env=node)
    assert "all tensors are from the files" in checked.text
    ws("extract run films -b tiny-clip --workers 1", env=node)
    assert_vectors(ws, "films.tiny-clip", vectors_by_transformers(ws, weights))
    assert "not verified" not in ws("store info films.tiny-clip").text


def test_weights_that_are_missing_or_damaged_are_an_error_before_the_work(ws) -> None:
    begin(ws)
    node = {"HF_HOME": str(ws.path("carried")), "HF_HUB_OFFLINE": "1"}
    run = "extract run films -b tiny-clip --workers 1"
    missing = ws(run, code=1, env=node)
    assert "no weights for tiny-clip" in missing.text
    assert "obygaze backbones fetch tiny-clip" in missing.text
    card = SimpleNamespace(checkpoint=REPOSITORY, revision="main")
    weights = save_tiny("clip", ws.path("served"))
    snapshot = hub_cache(card, ws.path("carried/hub"), weights)
    file = (snapshot / "model.safetensors").resolve()
    flip_bit(file, -100)
    assert (
        "the file is damaged" in ws("backbones check tiny-clip", code=4, env=node).text
    )
    damaged = ws(run, code=4, env=node)
    assert "model.safetensors" in damaged.text
    assert not ws.path("stores/films.tiny-clip").exists()


def test_a_checkpoint_of_my_own_is_named_by_its_folder(ws: Workspace) -> None:
    begin(ws)
    mine = save_tiny("clip", ws.path("mine"), seed=7)
    save_tiny("clip", ws.path("later"), seed=8)
    save_tiny("dinov2", ws.path("other"))
    run = "extract run films -b tiny-clip --workers 1 --weights tiny-clip="
    ws(f"{run}mine")
    expected = vectors_by_transformers(ws, mine)
    assert_vectors(ws, "films.tiny-clip", expected)
    described = ws("store info films.tiny-clip").text
    assert f"weights of {REPOSITORY}, not verified" in " ".join(described.split())
    other_weights = ws(f"{run}later", code=5)
    assert "weights" in other_weights.text
    other_model = ws(f"{run}other --store tiny-clip=other", code=1)
    assert "expected a checkpoint of the model type" in other_model.text
    assert not ws.path("stores/other").exists()
    assert_vectors(ws, "films.tiny-clip", expected)


def test_x_clip_of_lsmdc_is_read_from_its_released_file(ws: Workspace) -> None:
    """One picture a second: a clip of ten seconds has ten frames, and two of padding."""
    write_films(ws.path("videos"), "lake", "night")
    times = {"lake": (0, 10), "night": (2, 6)}
    rows = [f"{film}-1,{film},{start},{end}" for film, (start, end) in times.items()]
    header = "clip_id,movie_id,start_s,end_s"
    ws.write("clips.csv", "\n".join([header, *rows, ""]))
    ws("manifest import clips.csv -o films")
    ws("manifest link films videos")
    write_lsmdc_card(ws.path("backbones"), **RELEASED)
    file = golden("lsmdc", "pytorch_model.bin.0")
    ws(f"extract run films -b tiny-lsmdc --weights tiny-lsmdc={file} --workers 1")
    store = og.open_store("films.tiny-lsmdc", workspace=ws.folder)
    frames = store.matrix("frames").values
    clips = store.matrix("clip").values
    for row, (film, (start_s, end_s)) in enumerate(times.items()):
        numbers = range(start_s * RATE, end_s * RATE, RATE)
        pictures = decoded(ws.path(f"videos/{film}.mp4"), numbers)
        pixels = np.zeros((1, 12, 3, 64, 64), np.float32)
        pixels[0, : len(numbers)] = pixels_of_clip_models(pictures, 64)
        mask = (np.arange(12) < len(numbers))[None].astype(int)
        expected = lsmdc_by_hand.features(file, pixels, mask)
        found = frames[row, : len(numbers)]
        expected_frames = expected["frames"][0, : len(numbers)]
        np.testing.assert_allclose(found, expected_frames, rtol=0, atol=5e-3)
        np.testing.assert_allclose(clips[row], expected["video"][0], rtol=0, atol=1e-3)
