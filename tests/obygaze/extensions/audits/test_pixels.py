"""What a small decoder recovers of pictures: projections of them, and noise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.stores import fill_store, plan_store, some_ids

from obygaze.extensions.audits.pixels import SIDE, audit_pixels, recovered
from obygaze_features.store import ArraySpec, RowStatus, open_store

N, PIXELS = 600, 64
FILMS = [f"film {i // 20}" for i in range(N)]
RANDOM = np.random.default_rng(0)
PICTURES = RANDOM.uniform(size=(N, PIXELS))


@pytest.mark.parametrize("width", [16, 32, 64])
def test_a_random_projection_gives_its_share_of_the_pixels(width: int) -> None:
    # The pixels are independent, so a projection to m of n dimensions holds m / n of the variance.
    found = recovered(PICTURES @ RANDOM.normal(size=(PIXELS, width)), PICTURES, FILMS)
    assert found.r2 == pytest.approx(width / PIXELS, abs=0.06)
    assert (
        found.low is not None
        and found.high is not None
        and found.low < found.r2 < found.high
    )
    # A uniform number between 0 and 1 has the variance 1/12; what is left of it is 1 - R2.
    assert found.blind_psnr == pytest.approx(10 * np.log10(12), abs=0.1)
    assert found.psnr - found.blind_psnr == pytest.approx(
        -10 * np.log10(1 - found.r2), abs=1e-6
    )


def test_noise_gives_nothing_and_films_are_not_shared() -> None:
    noise = recovered(RANDOM.normal(size=(N, 32)), PICTURES, FILMS)
    assert abs(noise.r2) < 0.02
    # Pictures of a film are alike, and features tell the film: that recovers no picture of others.
    tone = RANDOM.uniform(size=(30, PIXELS)).repeat(20, axis=0)
    film = recovered(np.eye(30).repeat(20, axis=0), tone, FILMS)
    assert film.r2 < 0.05


@pytest.fixture
def home(workspace: Path) -> Path:
    """A store of grid tokens and pooled vectors of pictures, and the private store of these."""
    n = 60
    small = RANDOM.integers(0, 256, size=(n, 3, SIDE, SIDE)).astype(np.uint8)
    pictures = small.repeat(2, axis=2).repeat(2, axis=3)[..., None].repeat(3, axis=-1)
    tokens = small.reshape(n, 3, SIDE * SIDE).astype(np.float32)
    arrays = {
        "tokens": tokens,
        "clip": tokens.mean(axis=(1, 2))[:, None].repeat(4, axis=1),
    }
    specs = (
        ArraySpec("tokens", (3, SIDE * SIDE), ("frame", "cell")),
        ArraySpec("clip", (4,)),
    )
    plan_store(workspace / "stores" / "toy", n, arrays=specs)
    fill_store(workspace / "stores" / "toy", arrays).seal()
    shape, dims = pictures.shape[1:], ("frame", "height", "width", "colour")
    spec = ArraySpec("pictures", shape, dims, "uint8")
    plan_store(workspace / "stores" / "toy.frames", n, arrays=(spec,))
    fill_store(workspace / "stores" / "toy.frames", {"pictures": pictures}).seal()
    return workspace


def test_tokens_give_more_than_pooled_vectors_and_the_card_says_so(home: Path) -> None:
    document = home / "pixels.json"
    call_obygaze(
        "-C", home, "audit", "pixels", "toy", "toy.frames", "-o", document
    ).ok()
    found = json.loads(document.read_bytes())
    tokens, clip = found["arrays"]
    assert (tokens["array"], clip["array"]) == ("tokens", "clip")
    assert tokens["r2"] > clip["r2"] + 0.05 and clip["r2"] < 0.05
    assert (tokens["n_clips"], tokens["n_films"]) == (60, len(set(some_ids(60)[1])))
    card = (
        call_obygaze("-C", home, "store", "card", "toy", "--recovered", document)
        .ok()
        .stdout
    )
    assert f"- {found['sentences'][0]}" in card and "- clip: a linear decoder" in card
    audit = audit_pixels(
        home / "stores" / "toy", home / "stores" / "toy.frames", arrays=["clip"]
    )
    assert audit.arrays[0].r2 == clip["r2"]
    assert open_store(home / "stores" / "toy").plan.sha256 == found["store_sha256"]


def test_one_film_cannot_be_tested(home: Path) -> None:
    for name, shape in (("one", (4,)), ("one.frames", (2, 16, 16, 3))):
        array = "pictures" if "frames" in name else "clip"
        dims = ("frame", "height", "width", "colour") if array == "pictures" else ()
        spec = ArraySpec(
            array, shape, dims, "uint8" if array == "pictures" else "float32"
        )
        plan_store(home / "stores" / name, 5, arrays=(spec,))
        values = np.ones((5, *shape), spec.dtype)
        fill_store(home / "stores" / name, {array: values}).seal()
    failed = call_obygaze("-C", home, "audit", "pixels", "one", "one.frames")
    assert failed.code == 1 and "at least 2 films" in failed.stderr


def test_clips_need_features_and_pictures(home: Path) -> None:
    """Of 60 clips, one has no features and two have no pictures."""
    failed = RowStatus.failed("decode", "OSError", "a broken file")
    rng = np.random.default_rng(1)
    spec = ArraySpec("clip", (4,))
    plan_store(home / "stores" / "few", 60, arrays=(spec,))
    values = {"clip": rng.normal(size=(60, 4)).astype(np.float32)}
    fill_store(home / "stores" / "few", values, {7: failed}).seal()
    dims = ("frame", "height", "width", "colour")
    spec = ArraySpec("pictures", (1, 16, 16, 3), dims, "uint8")
    plan_store(home / "stores" / "few.frames", 60, arrays=(spec,))
    shown = {"pictures": rng.integers(0, 256, (60, 1, 16, 16, 3)).astype(np.uint8)}
    lost = {30: failed, 31: failed}
    fill_store(home / "stores" / "few.frames", shown, lost).seal()
    (clip,) = audit_pixels(
        home / "stores" / "few", home / "stores" / "few.frames"
    ).arrays
    assert clip.n_clips == 57
