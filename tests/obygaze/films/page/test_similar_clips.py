"""Which clips the page shows as similar to one: those of a plain cosine of their features."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.experiments import films as made_up_films
from support.experiments import planted, write_workspace
from support.joined_stores import joined_stores
from support.stores import made_store

from obygaze.films.page.view import open_site
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.extraction.search import search
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import Array, Row


@settings(max_examples=20, deadline=None)
@given(
    dtype=st.sampled_from(["float16", "float32", "float64"]),
    shape=st.sampled_from([(6,), (4, 6), (4, 5, 6)]),
    scale=st.sampled_from([1e-3, 1.0, 100.0, 10_000.0]),
    has_mask=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_similar_clips_are_those_of_a_plain_cosine(
    dtype: str, shape: tuple[int, ...], scale: float, has_mask: bool, seed: int
) -> None:
    """The length of frames in float16 was infinite, and all clips were equally alike."""
    rng = np.random.default_rng(seed)
    rows = [Row(f"c{number}", f"film-{number % 2}") for number in range(7)]
    values = {"x": (scale * rng.normal(size=(7, *shape))).astype(dtype)}
    arrays = [Array.of("x", dtype, shape)]
    vectors = values["x"].astype(np.float64)
    if has_mask and len(shape) > 1:
        values["mask"] = rng.random((7, shape[0])) < 0.7
        values["mask"][:, 0] = True
        arrays.append(Array.of("mask", "bool", shape[:1], arrays[0].dims[:1]))
        vectors[~values["mask"]] = 0
    # Only what an annotator has watched is no clip.
    watched = {"annotator": "ada", "start_frame": "0", "comment": "watched"}
    clips = [Clip(row.clip_id, row.movie_id) for row in rows[:-1]]
    clips.append(Clip("c6", "film-0", extra=watched))
    manifest = Manifest("films", Header("Films"), clips, tuple(watched))
    flat = vectors.reshape(7, -1)
    unit = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    expected = {f"c{number}": unit[number] @ unit[0] for number in range(1, 6)}
    with tempfile.TemporaryDirectory() as folder:
        write_manifest(manifest, Path(folder) / "manifests" / "films.toml")
        made_store(Path(folder) / "stores" / "x", rows, values, arrays=arrays)
        page = open_site(store="x", workspace=folder)
        nearest = page.clip("c0")["nearest"]
        assert not page.clip("c6")["nearest"]
    assert dict(nearest) == pytest.approx(expected, abs=1e-5)
    cosines = [cosine for _, cosine in nearest]
    assert cosines == sorted(cosines, reverse=True)


def test_joined_features_have_no_similar_clips(tmp_path: Path) -> None:
    """The part with the largest numbers decided what was similar; a search refuses them."""
    manifest = made_up_films(n_films=2)
    features = planted(manifest)
    write_workspace(tmp_path, manifest, features)
    senses = {"seen": features, "heard": 1000 * features[:, ::-1]}
    joined = joined_stores(tmp_path / "stores", manifest, senses)["joined"]
    page = open_site(store=joined, workspace=tmp_path)
    document = page.clip(manifest.clip_ids[0])
    assert document["nearest"] == []
    assert not document["notes"]
    with pytest.raises(FixUsage, match="features of one model"):
        search(joined, like=manifest.clip_ids[0])


def test_kept_pictures_are_no_features(tmp_path: Path) -> None:
    """Pixels were compared; a search refuses them."""
    clips = [Clip(f"c{number}", "film") for number in range(3)]
    write_manifest(
        Manifest("films", Header("Films"), clips), tmp_path / "manifests" / "films.toml"
    )
    rows = [Row(clip.clip_id, clip.movie_id) for clip in clips]
    pictures = np.full((3, 2, 4, 4, 3), 9, np.uint8)
    store = made_store(tmp_path / "stores" / "x", rows, {"pictures": pictures})
    assert not open_site(store="x", workspace=tmp_path).clip("c0")["nearest"]
    with pytest.raises(FixInput, match="no vectors of features"):
        search(store, like="c0")
