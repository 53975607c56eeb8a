"""A model of imported features on a later import, whose recipe has the hash of other files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.experiments import films, planted, store_of

from obygaze_features.core.errors import Mismatch
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_models.zoo import predict


def import_as(root: Path, name: str, manifest: Manifest) -> None:
    """Write features to a file of their own, and import it."""
    ids = [clip.clip_id for clip in manifest]
    movies = [clip.movie_id for clip in manifest]
    X = planted(manifest, width=14)
    np.savez(root / f"{name}.npz", clip_id=ids, movie_id=movies, clip=X)
    words = ("store", "import", "npz", root / f"{name}.npz", "-o", name)
    call_obygaze("-C", root, *words).ok()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained on one import, and another import of other films."""
    root = tmp_path_factory.mktemp("lab")
    manifest = films(6, 30, seed=2)
    write_manifest(manifest, root / "manifests" / "films.toml")
    import_as(root, "first", manifest)
    renamed = [
        replace(clip, clip_id=f"new-{clip.clip_id}", movie_id=f"new-{clip.movie_id}")
        for clip in films(2, 10, seed=7)
    ]
    import_as(root, "later", manifest.with_clips(renamed))
    words = ("train", "ridge", "first", "films", "-o", "mine")
    call_obygaze("-C", root, *words, "--set", "report.replicates=20").ok()
    return root


def test_a_later_import_is_refused_with_a_hint_that_works(lab: Path) -> None:
    words = ("-C", lab, "models", "predict", "mine", "later")
    refused = call_obygaze(*words)
    assert refused.code == 5
    assert "expects features of unknown (npz)" in refused.stderr
    assert "Try: --same-recipe, if both imports were made in the same way" in (
        refused.stderr
    )
    done = call_obygaze(*words, "--same-recipe").ok()
    assert len(done.stdout.splitlines()) == 1 + 20
    assert "the features are another import" in done.stderr
    document = call_obygaze(*words, "--same-recipe", "--json").ok().json()
    assert document["same_recipe"] is True
    assert {row["basis"] for row in document["rows"]} == {"unseen"}


def test_of_the_import_that_trained_nothing_is_assumed(lab: Path) -> None:
    words = ("-C", lab, "models", "predict", "mine", "first", "--same-recipe", "--json")
    done = call_obygaze(*words).ok()
    assert done.json()["same_recipe"] is False
    assert "another import" not in done.stderr


def test_features_of_a_known_recipe_cannot_be_taken_for_imported_ones(
    lab: Path, tmp_path: Path
) -> None:
    manifest = films(2, 10, seed=7)
    known = store_of(tmp_path / "known", manifest, planted(manifest, width=14))
    with pytest.raises(Mismatch, match="expects features of unknown") as raised:
        predict("mine", known, same_recipe=True, workspace=lab)
    assert "--same-recipe" not in raised.value.hint
