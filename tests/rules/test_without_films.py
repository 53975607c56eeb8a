"""A manifest without films: splits by film are refused, and nothing is said of films."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from support.experiments import films, planted, quick, run_on, store_of
from support.tables import rows_of

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import Manifest
from obygaze_models.runner.files import Run
from obygaze_models.runner.text import result_text

CHANGES = ('grid.train=["EN_S"]', 'grid.test=["EN_S"]', 'grid.models=["ridge"]')
OF_CLIPS = ("splits.kind=kfold", "splits.folds=3")


def without_films(manifest: Manifest) -> Manifest:
    return manifest.with_clips(replace(clip, movie_id="") for clip in manifest)


def run_of(path: Path, manifest: Manifest, *changes: str) -> Run:
    path.mkdir(parents=True, exist_ok=True)
    of_films = films(5, 8, seed=3)
    X = planted(of_films, width=14, strength=0.7, seed=5)
    store = store_of(path / "store", of_films, X)
    protocol = quick("honest", *CHANGES, *changes)
    return run_on(path, protocol, manifest, {"x": store})


def test_splits_by_film_are_refused(tmp_path: Path) -> None:
    manifest = without_films(films(5, 8, seed=3))
    with pytest.raises(FixInput, match="this manifest has no films") as no:
        run_of(tmp_path, manifest)
    assert no.value.message == (
        "nested splits hold out whole films, but this manifest has no films"
    )
    assert "--set splits.kind=kfold --set splits.folds=10" in str(no.value.hint)


def test_folds_of_clips_have_no_interval_and_speak_of_clips(tmp_path: Path) -> None:
    manifest = without_films(films(5, 8, seed=3))
    run = run_of(tmp_path, manifest, *OF_CLIPS)
    trained = [cell for cell in run.cells if cell.is_trained]
    assert {cell.basis for cell in trained} == {"film-unknown"}
    for row in rows_of(run.results):
        assert row["film"] == "" and not row["films"]
        assert all(math.isnan(row[name]) for name in ("low", "high", "p"))
    n_positive = sum(clip.level == "S" for clip in manifest)
    assert {cell.positive for cell in trained} == {n_positive}
    text = result_text(run).replace(str(run.folder), "")
    (n_tested,) = {cell.clips for cell in trained}
    assert f"\n{n_tested} clips, manifest" in text
    assert "a random order: films are unknown." in text
    reason = "films are unknown, so clips of one film may be both in training"
    assert reason in text
    # Films are named only where it is said that nobody knows them.
    for said in (reason, "the films of clips are unknown", "films are unknown"):
        text = text.replace(said, "")
    assert "film" not in text


def test_a_model_of_every_clip_leaves_out_clips_inside(tmp_path: Path) -> None:
    """Weights of concepts are of every clip; no concept vector is said to be tested."""
    manifest = without_films(films(5, 8, seed=3))
    bottleneck = ('grid.models=["pcbm-lr"]', "report.concepts=true")
    run = run_of(tmp_path, manifest, *OF_CLIPS, *bottleneck)
    concepts = run.table("concepts.csv")
    assert len(concepts) and concepts[["ap", "p"]].isna().all(axis=None)
    assert concepts["weight"].notna().any()
    assert set(concepts["films"]) == {0}
