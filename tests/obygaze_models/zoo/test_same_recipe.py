"""A model of imported features on a later import, whose recipe has the hash of other files."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.experiments import films, planted, store_of

from obygaze_features.core.errors import Mismatch
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_models.zoo import load_model, predict

CITATION = "Lab, Made-up features, 2026"


def import_as(root: Path, name: str, manifest: Manifest, *options: str) -> None:
    """Write features to a file of their own, and import it."""
    ids = [clip.clip_id for clip in manifest]
    movies = [clip.movie_id for clip in manifest]
    X = planted(manifest, width=14)
    np.savez(root / f"{name}.npz", clip_id=ids, movie_id=movies, clip=X)
    words = ("store", "import", "npz", root / f"{name}.npz", "-o", name)
    call_obygaze("-C", root, *words, *options).ok()


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
    later = manifest.with_clips(renamed)
    import_as(root, "later", later)
    facts = ("--backbone", "my ViViT", "--fact", "frames=32")
    terms = ("--licence", "CC-BY-4.0", "--citation", CITATION)
    import_as(root, "named", manifest, *facts, *terms)
    import_as(root, "later-named", later, *facts)
    import_as(
        root, "other-frames", later, "--backbone", "my ViViT", "--fact", "frames=16"
    )
    import_as(root, "other-backbone", later, "--backbone", "S3D", "--fact", "frames=32")
    for store, model in (("first", "mine"), ("named", "mine-named")):
        words = ("train", "ridge", store, "films", "-o", model)
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
    # A file of the scores says so too; one of the model's own import has no such column.
    call_obygaze(*words, "--same-recipe", "-o", lab / "later.csv").ok()
    table = (lab / "later.csv").read_text("utf-8")
    rows = list(csv.DictReader(table.splitlines()))
    assert [row["same_recipe"] for row in rows] == ["True"] * 20
    first = ("-C", lab, "models", "predict", "mine", "first", "-o", lab / "first.csv")
    call_obygaze(*first).ok()
    assert "same_recipe" not in (lab / "first.csv").read_text("utf-8")


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
    # The store of the workspace that the model was trained on is named.
    assert raised.value.hint == "first, of the same recipe"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    model = load_model("mine", workspace=lab)
    with pytest.raises(Mismatch) as raised:
        predict(model, known, workspace=elsewhere)
    assert raised.value.hint.startswith(
        "a store of the same recipe; obygaze store info"
    )


def test_imports_with_the_same_backbone_and_facts_are_taken(lab: Path) -> None:
    words = ("-C", lab, "models", "predict", "mine-named", "later-named")
    refused = call_obygaze(*words)
    assert refused.code == 5
    assert "got another import: " in refused.stderr
    assert "(my ViViT (imported))" in refused.stderr
    assert "Try: --same-recipe" in refused.stderr
    done = call_obygaze(*words, "--same-recipe", "--json").ok()
    assert done.json()["same_recipe"] is True
    assert len(done.json()["rows"]) == 20


@pytest.mark.parametrize(
    ("store", "fact"),
    [
        ("other-frames", 'frames: "32" for the model, "16" here'),
        ("other-backbone", 'backbone: "my ViViT" for the model, "S3D" here'),
    ],
)
def test_an_import_of_which_other_facts_were_stated_is_refused(
    lab: Path, store: str, fact: str
) -> None:
    words = ("-C", lab, "models", "predict", "mine-named", store, "--same-recipe")
    refused = call_obygaze(*words)
    assert refused.code == 5
    assert fact in refused.stderr
    assert "Try: --same-recipe" not in refused.stderr


def test_a_fact_that_one_import_does_not_state_is_not_compared(lab: Path) -> None:
    for model, store in (("mine-named", "later"), ("mine", "later-named")):
        words = ("-C", lab, "models", "predict", model, store, "--same-recipe")
        assert "the features are another import" in call_obygaze(*words).ok().stderr


def test_lists_name_the_backbone_that_an_import_states(lab: Path) -> None:
    rows = call_obygaze("-C", lab, "store", "ls", "--json").ok().json()["stores"]
    backbones = {row["name"]: row["backbone"] for row in rows}
    assert backbones["named"] == "my ViViT (imported)"
    assert backbones["first"] == "unknown (npz)"


def test_model_and_report_name_what_to_cite_for_the_features(lab: Path) -> None:
    folder = lab / "models" / "mine-named"
    model = json.loads((folder / "model.json").read_text("utf-8"))
    assert model["features"]["citation"] == CITATION
    assert model["features"]["licence"] == "CC-BY-4.0"
    card = (folder / "README.md").read_text("utf-8")
    assert f"Cite for the features: {CITATION}" in card
    assert "Licence of the features: CC-BY-4.0." in card
    assert "unless `--same-recipe` states that they were made in the same way" in card
    call_obygaze("-C", lab, "report", "mine-named", "--format", "html").ok()
    report = (lab / "runs" / "mine-named" / "report.html").read_text("utf-8")
    assert CITATION in report and "CC-BY-4.0" in report
    unnamed = json.loads((lab / "models" / "mine" / "model.json").read_text("utf-8"))
    assert not {"facts", "licence", "citation"} & set(unnamed["features"])


def test_scores_of_training_clips_are_not_given_for_features_of_another_import(
    lab: Path,
) -> None:
    # The model keeps an out-of-fold score of each training clip: of the features it was trained on.
    manifest = films(6, 30, seed=2)
    rng = np.random.default_rng(3)
    np.savez(
        lab / "noise.npz",
        clip_id=[clip.clip_id for clip in manifest],
        movie_id=[clip.movie_id for clip in manifest],
        clip=rng.normal(size=(len(manifest), 14)).astype(np.float32),
    )
    words = ("store", "import", "npz", lab / "noise.npz", "-o", "noise")
    call_obygaze("-C", lab, *words).ok()
    ask = ("-C", lab, "models", "predict", "mine", "noise", "--same-recipe", "--json")
    given = call_obygaze(*ask).ok()
    assert "is that of the features it was trained on, not of these" in given.stderr
    assert "out-of-fold" not in {row["basis"] for row in given.json()["rows"]}
    own = predict("mine", "first", in_sample=True, workspace=lab)
    other = predict("mine", "noise", in_sample=True, same_recipe=True, workspace=lab)
    assert not np.allclose(own.scores, other.scores)
