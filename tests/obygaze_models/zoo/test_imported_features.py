"""A model of imported features: the recipe is what the importer states."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.experiments import films, planted

from obygaze_features.manifest.io import write_manifest
from obygaze_models.zoo import predict

CITATION = "Lab, Made-up features, 2026"


def import_as(root, name, manifest, *options, array="clip") -> None:
    """Write features to a file of their own, and import it."""
    ids = [clip.clip_id for clip in manifest]
    movies = [clip.movie_id for clip in manifest]
    # Films of another number have other features: equal ones would be copies.
    arrays = {array: planted(manifest, width=14, seed=len(manifest))}
    np.savez(root / f"{name}.npz", clip_id=ids, movie_id=movies, **arrays)
    words = ("store", "import", root / f"{name}.npz", "-o", name)
    call_obygaze("-C", root, *words, *options).ok()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained on one import, and another import of other films."""
    root = tmp_path_factory.mktemp("lab")
    manifest = films(4, 20, seed=2)
    write_manifest(manifest, root / "manifests" / "films.toml")
    import_as(root, "first", manifest)
    renamed = [
        replace(clip, clip_id=f"new-{clip.clip_id}", movie_id=f"new-{clip.movie_id}")
        for clip in films(2, 10, seed=7)
    ]
    later = manifest.with_clips(renamed)
    import_as(root, "later", later)
    facts = ("--backbone", "my ViViT")
    terms = ("--licence", "CC-BY-4.0", "--citation", CITATION)
    import_as(root, "named", manifest, *facts, *terms)
    import_as(root, "later-named", later, *facts)
    import_as(root, "later-16", later, "--backbone", "my ViViT 16")
    for store, model in (("first", "mine"), ("named", "mine-named")):
        words = ("train", "ridge", "--store", store, "--manifest", "films", "-o", model)
        call_obygaze("-C", root, *words, "--set", "report.replicates=20").ok()
    return root


def test_a_later_import_is_refused_unless_it_is_stated_to_be_the_same(lab) -> None:
    for model, store, hint in (
        ("mine", "later", "train again"),
        ("mine-named", "later", "--backbone 'my ViViT' -o STORE"),
        ("mine-named", "later-16", "--backbone 'my ViViT' -o STORE"),
    ):
        refused = call_obygaze("-C", lab, "models", "predict", model, store)
        assert refused.code == 5
        assert "expects features of " in refused.stderr
        assert hint in refused.stderr
    scores = predict("mine-named", "later-named", workspace=lab)
    # The files name the films, and none of them is one of the training.
    assert set(scores.basis) == {"unseen"}
