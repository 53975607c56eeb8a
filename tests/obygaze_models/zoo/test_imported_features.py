"""A model of imported features: the recipe is what the importer states."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.experiments import films, planted, store_of

from obygaze_features.core.errors import FixInput, FixUsage, Mismatch
from obygaze_features.manifest.io import read_manifest, write_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_features.store.reading import open_store
from obygaze_models.zoo import predict

BARE = "manifests/bare.toml"
CITATION = "Lab, Made-up features, 2026"


def import_as(
    root: Path, name: str, manifest: Manifest, *options: str, array: str = "clip"
) -> None:
    """Write features to a file of their own, and import it."""
    ids = [clip.clip_id for clip in manifest]
    movies = [clip.movie_id for clip in manifest]
    arrays = {array: planted(manifest, width=14)}
    np.savez(root / f"{name}.npz", clip_id=ids, movie_id=movies, **arrays)
    words = ("store", "import", root / f"{name}.npz", "-o", name)
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
    import_as(root, "later-16", later, "--backbone", "my ViViT", "--fact", "frames=16")
    for store, model in (("first", "mine"), ("named", "mine-named")):
        words = ("train", "ridge", store, "films", "-o", model)
        call_obygaze("-C", root, *words, "--set", "report.replicates=20").ok()
    return root


def test_a_later_import_is_refused_unless_it_is_stated_to_be_the_same(
    lab: Path,
) -> None:
    again = (
        "the same recipe with the same --backbone and --fact: import both so, each under a new"
        " name (-o), and train again"
    )
    as_before = "--backbone 'my ViViT' -o STORE"
    files = "unknown (npz) with fingerprint"
    for model, store, features, hint in (
        ("mine", "later", files, again),
        ("mine", "later-16", files, again),
        ("mine-named", "later", "my ViViT (imported) with fingerprint", as_before),
        ("mine-named", "later-16", "my ViViT (imported) with", as_before),
    ):
        refused = call_obygaze("-C", lab, "models", "predict", model, store)
        assert refused.code == 5
        assert f"expects features of {features}" in refused.stderr
        assert hint in refused.stderr
        is_again = hint is again
        assert ("train again" in refused.stderr) == is_again
    scores = predict("mine-named", "later-named", workspace=lab)
    # The files name the films, and none of them is one of the training.
    assert set(scores.basis) == {"unseen"}


@pytest.mark.parametrize("ending", ["h5", "npz", "parquet"])
def test_a_file_of_features_is_no_store_and_leads_to_its_import(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    name = f"nouveaux films.{ending}"
    (tmp_path / name).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    refused = call_obygaze("-C", lab, "models", "predict", "mine", name, cwd=tmp_path)
    assert f"{name} is a file, not a store" in refused.stderr
    command = f"Try: obygaze store import 'nouveaux films.{ending}' -o NAME"
    assert command in refused.stderr
    with pytest.raises(FixInput, match="a store is a folder, got a file") as raised:
        open_store(tmp_path / name)
    assert "obygaze store import " in str(raised.value.hint)


def test_the_only_array_of_a_later_import_may_have_another_name(lab: Path) -> None:
    later = read_manifest("films", workspace=lab).with_clips(films(2, 10, seed=7))
    facts = ("--backbone", "my ViViT", "--fact", "frames=32")
    import_as(lab, "features", later, *facts, array="features")
    import_as(lab, "again", later, *facts)
    as_features = predict("mine-named", "features", workspace=lab)
    as_clip = predict("mine-named", "again", workspace=lab)
    np.testing.assert_array_equal(as_features.scores, as_clip.scores)


def test_features_of_a_known_recipe_cannot_be_taken_for_imported_ones(
    lab: Path, tmp_path: Path
) -> None:
    manifest = films(2, 10, seed=7)
    known = store_of(tmp_path / "known", manifest, planted(manifest, width=14))
    with pytest.raises(Mismatch, match="features of unknown") as raised:
        predict("mine", known, workspace=lab)
    # The store that the model was trained on is named.
    assert "/stores/first, on which it was trained" in raised.value.hint


def test_model_and_report_name_what_to_cite_for_the_features(lab: Path) -> None:
    folder = lab / "models" / "mine-named"
    model = json.loads((folder / "model.json").read_text("utf-8"))
    assert model["features"]["citation"] == CITATION
    assert model["features"]["licence"] == "CC-BY-4.0"
    card = (folder / "README.md").read_text("utf-8")
    assert f"Cite for the features: {CITATION}" in card
    assert "Licence of the features: CC-BY-4.0." in card
    call_obygaze("-C", lab, "report", "mine-named", "--format", "html").ok()
    report = (lab / "runs" / "mine-named" / "report.html").read_text("utf-8")
    assert CITATION in report and "CC-BY-4.0" in report
    unnamed = json.loads((lab / "models" / "mine" / "model.json").read_text("utf-8"))
    assert not {"licence", "citation"} & set(unnamed["features"])


def test_clips_of_a_store_without_films_are_predicted_with_a_manifest(
    tmp_path: Path,
) -> None:
    """The ids say nothing of the films; a manifest does."""
    manifest = films(6, 30, seed=2)
    renamed = []
    for number, clip in enumerate(manifest):
        renamed.append(replace(clip, clip_id=f"c{number:03d}"))
    manifest = manifest.with_clips(renamed)
    write_manifest(manifest, tmp_path / "manifests" / "films.toml")
    ids = [clip.clip_id for clip in manifest]
    X = planted(manifest, width=14)
    np.savez(tmp_path / "bare.npz", clip_id=ids, clip=X)
    call = ("-C", tmp_path)
    words = ("store", "import", tmp_path / "bare.npz")
    call_obygaze(*call, *words, "-o", "bare").ok()
    call_obygaze(*call, *words, "-o", "whole", "--manifest", "films").ok()
    # No clip of the last film trains, and none that is not EN or S.
    last = manifest.clips[-1].movie_id
    where = f'data.where=movie_id != "{last}"'
    settings = ("--set", where, "--set", "report.replicates=20", "--task", "EN_S")
    call_obygaze(*call, "train", "ridge", "whole", "films", "-o", "m", *settings).ok()

    bare = call_obygaze(*call, "models", "predict", "m", "bare")
    assert (bare.code, bare.stdout) == (5, "")
    n_clips = len(manifest)
    assert f"the films of {n_clips} clips are not stated" in bare.stderr
    assert "Try: --manifest NAME," in bare.stderr
    film_of = {clip.clip_id: clip.movie_id for clip in manifest}
    words = (
        "models",
        "predict",
        "m",
        "bare",
        "--manifest",
        "films",
        "-o",
        tmp_path / "known.csv",
    )
    done = call_obygaze(*call, *words).ok()
    assert f"{n_clips} clips of the manifest matched by the ids alone" in done.stderr
    known = predict("m", "bare", manifest="films", workspace=tmp_path)
    assert known.films["movie_id"] == [film_of[clip] for clip in known.clip_ids]
    for clip, basis in zip(known.clip_ids, known.basis, strict=True):
        assert (basis == "unseen") == (film_of[clip] == last)
    assert set(known.basis) == {"out-of-fold", "film-seen", "unseen"}


def test_a_manifest_stands_for_the_store_of_its_features(
    lab: Path, tmp_path: Path
) -> None:
    """Features that were imported can only be imported for new films, too."""
    root = tmp_path / "again"
    shutil.copytree(lab, root)
    manifest = read_manifest("films", workspace=root)
    new = manifest.with_clips(
        [
            replace(clip, clip_id=f"x-{clip.clip_id}", movie_id=f"x-{clip.movie_id}")
            for clip in manifest
        ]
    )
    write_manifest(new, root / "manifests" / "new.toml")
    with pytest.raises(FixInput, match="no store has features of new") as raised:
        predict("mine-named", "new", workspace=root)
    assert raised.value.hint.startswith(
        "obygaze store import FILE --manifest new --backbone 'my ViViT' -o STORE"
    )
    facts = ("--backbone", "my ViViT", "--fact", "frames=32", "--manifest", "new")
    import_as(root, "of-new", new, *facts)
    scores = predict("mine-named", "new", workspace=root)
    assert list(scores.clip_ids) == list(new.clip_ids)
    # A store that was made of another manifest of this name has none of its clips.
    others = []
    for clip in new:
        others.append(replace(clip, clip_id=f"y-{clip.clip_id}", movie_id="y"))
    write_manifest(new.with_clips(others), root / "manifests" / "new.toml", force=True)
    with pytest.raises(FixInput, match="no store has features of new"):
        predict("mine-named", "new", workspace=root)
    assert set(scores.basis) == {"unseen"}
    # A clip that was added since has no features, and is named.
    more = replace(new.clips[0], clip_id="x-added")
    more_clips = new.with_clips([*new.clips, more])
    write_manifest(more_clips, root / "manifests" / "new.toml", force=True)
    scores = predict("mine-named", "new", workspace=root)
    assert list(scores.absent) == ["x-added"]
    import_as(root, "of-new-2", more_clips, *facts)
    # The one with the features of most clips is the first, also in what is to be typed.
    with pytest.raises(FixUsage, match="of-new-2 and of-new have features") as asked:
        predict("mine-named", "new", workspace=root)
    assert "predict mine-named of-new-2 --manifest new" in str(asked.value.hint)


def test_any_store_with_the_clips_of_a_manifest_has_its_features(
    lab: Path, tmp_path: Path
) -> None:
    """Somebody received a model and a store, and has an own table of the same clips."""
    here = tmp_path / "here"
    shutil.copytree(lab / "models" / "mine-named", here / "models" / "theirs")
    own = here / "manifests" / "own.toml"
    manifest = read_manifest("films", workspace=lab)
    some = manifest.with_clips(manifest.clips[:40])
    write_manifest(some, own)
    with pytest.raises(FixInput, match="features of own that theirs reads") as raised:
        predict("theirs", "own", workspace=here)
    command = "obygaze store import FILE --manifest own --backbone 'my ViViT'"
    assert str(raised.value.hint).startswith(command)
    shutil.copytree(lab / "models" / "mine", here / "models" / "of-a-file")
    with pytest.raises(FixInput, match="features of own that of-a-file") as raised:
        predict("of-a-file", "own", workspace=here)
    assert str(raised.value.hint).startswith("imports have the same recipe with")
    X = planted(manifest, width=14)
    ids = [clip.clip_id for clip in manifest]
    np.savez(tmp_path / "all.npz", clip_id=ids, clip=X)
    facts = ("--backbone", "my ViViT", "--fact", "frames=32", "--manifest", "films")
    words = ("store", "import", tmp_path / "all.npz", *facts)
    call_obygaze("-C", lab, *words, "-o", here / "stores" / "received").ok()
    found = predict("theirs", "own", workspace=here)
    expected = predict("theirs", "received", manifest="own", workspace=here)
    assert list(found.clip_ids) == [clip.clip_id for clip in some]
    np.testing.assert_array_equal(found.scores, expected.scores)
    # A clip of the same id and another film is another clip.
    other = replace(some.clips[0], movie_id="another")
    write_manifest(some.with_clips([other]), own, force=True)
    with pytest.raises(FixInput, match="no store has") as raised:
        predict("theirs", "own", workspace=here)
    assert raised.value.hint.startswith("obygaze store import")
    write_manifest(some, own, force=True)
    shutil.copytree(here / "stores" / "received", here / "stores" / "twice")
    with pytest.raises(FixUsage, match="received and twice have features") as used:
        predict("theirs", "own", workspace=here)
    assert "predict theirs received --manifest own" in str(used.value.hint)
