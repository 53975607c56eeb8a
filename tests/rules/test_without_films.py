"""A manifest without films: splits by film are refused, and nothing is said of films."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.experiments import films, planted, quick, run_on, store_of
from support.tables import rows_of

from obygaze.films.formats import export_manifest
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.extraction.subtitles import words_of_clips
from obygaze_features.manifest.model import Manifest
from obygaze_models.report.page import write_report
from obygaze_models.runner.files import Run
from obygaze_models.runner.text import result_text

CHANGES = (
    'grid.train=["EN_S"]',
    'grid.test=["EN_S"]',
    'grid.models=["ridge", "logistic"]',
    "models.logistic.kind=logistic",
    "models.logistic.C.grid=[0.1, 1.0]",
)
OF_CLIPS = ("splits.kind=kfold", "splits.folds=4")


def without_films(manifest: Manifest) -> Manifest:
    return manifest.with_clips(replace(clip, movie_id="") for clip in manifest)


def with_participants(manifest: Manifest) -> Manifest:
    """Return clips with a participant each, whole films of one."""
    names = {clip.clip_id: f"p{clip.movie_id[-1]}" for clip in manifest}
    return manifest.with_column("participant", names)


def run_of(path: Path, manifest: Manifest, *changes: str) -> Run:
    path.mkdir(parents=True, exist_ok=True)
    of_films = films(8, 14, seed=3)
    X = planted(of_films, width=14, strength=0.7, seed=5)
    store = store_of(path / "store", of_films, X)
    protocol = quick("honest", *CHANGES, *changes)
    return run_on(path, protocol, manifest, {"x": store})


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("splits.folds=3",),
        ("splits.validation=each", 'grid.models=["ridge"]'),
        ("report.learning_films=[2]",),
    ],
)
def test_splits_by_film_are_refused(tmp_path: Path, changes: tuple[str, ...]) -> None:
    manifest = without_films(films(8, 14, seed=3))
    with pytest.raises(FixInput, match="this manifest has no films") as no:
        run_of(tmp_path, manifest, *changes)
    assert no.value.message == (
        "nested splits hold out whole films, and this manifest has no films"
    )
    assert "--set splits.kind=kfold --set splits.folds=10" in str(no.value.hint)


def test_folds_of_clips_have_no_interval_and_speak_of_clips(tmp_path: Path) -> None:
    manifest = without_films(films(8, 14, seed=3))
    run = run_of(tmp_path, manifest, *OF_CLIPS)
    trained = [cell for cell in run.cells if cell.is_trained]
    assert {cell.basis for cell in trained} == {"film-unknown"}
    for row in rows_of(run.results):
        assert row["film"] == "" and not row["films"]
        assert all(math.isnan(row[name]) for name in ("low", "high", "p", "p_all"))
    n_positive = sum(clip.level == "S" for clip in manifest)
    assert {cell.n_positive for cell in trained} == {n_positive}
    text = result_text(run).replace(str(run.folder), "")
    assert f"\n{len(manifest)} clips (" in text
    assert "On clips it has not seen, ridge ranks clips (EN_S) with AP" in text
    reason = "films are not known, so that clips of one film may be on both sides"
    assert reason in text
    assert "film" not in re.sub(reason, "", text)
    write_report([run.folder])
    page = (run.folder / "report.html").read_text("utf-8")
    assert "films it has not seen" not in page and "unseen films" not in page
    assert "draws of" not in page


def test_subtitles_and_segments_are_of_films(tmp_path: Path) -> None:
    manifest = without_films(films(2, 3, seed=3))
    cue = "1\n00:00:01,000 --> 00:00:02,000\nhello\n"
    (tmp_path / "lake.srt").write_text(cue)
    not_stated = "the film of 6 clips is not stated, so that "
    with pytest.raises(FixInput, match=not_stated + "the subtitles of films have"):
        words_of_clips(manifest, str(tmp_path))
    with pytest.raises(FixInput, match=not_stated + "clips are marks of no film"):
        export_manifest(manifest, tmp_path / "out", format="vtt")


def test_no_curve_counts_films(tmp_path: Path) -> None:
    manifest = without_films(films(8, 14, seed=3))
    with pytest.raises(FixUsage, match="no fold trains on more than 0, got 2"):
        run_of(tmp_path, manifest, *OF_CLIPS, "report.learning_films=[2]")


def test_groups_of_a_column_have_the_numbers_of_films(tmp_path: Path) -> None:
    """Participants are held out, drawn and counted as films are."""
    manifest = with_participants(films(8, 14, seed=3))
    # The other baselines guess from films.
    changes = ("splits.column=participant", 'grid.baselines=["random", "prevalence"]')
    expected = run_of(tmp_path / "films", manifest, *changes)
    run = run_of(tmp_path / "none", without_films(manifest), *changes)
    name = "results.csv"
    assert run.about["files"][name] == expected.about["files"][name]
    text = result_text(run).replace(str(run.folder), "")
    assert "participants it has not seen" in text
    assert "intervals over 8 participants" in text


def test_a_clip_without_a_group_is_refused(tmp_path: Path) -> None:
    manifest = without_films(with_participants(films(8, 14, seed=3)))
    names = {clip.clip_id: clip.extra["participant"] for clip in manifest}
    first = manifest.clips[0].clip_id
    changed = manifest.with_column("participant", {**names, first: ""})
    with pytest.raises(FixInput, match=f"the clip '{first}' has no value in the"):
        run_of(tmp_path, changed, "splits.column=participant")


def test_a_model_of_every_clip_leaves_out_clips_inside(tmp_path: Path) -> None:
    """Weights of concepts are of every clip; no concept vector is said to be tested."""
    manifest = without_films(films(8, 14, seed=3))
    bottleneck = ('grid.models=["pcbm-lr"]', "report.concepts=true")
    run = run_of(tmp_path, manifest, *OF_CLIPS, *bottleneck)
    concepts = run.table("concepts.csv")
    assert len(concepts) and concepts[["ap", "p"]].isna().all(axis=None)
    assert concepts["weight"].notna().any()
    assert set(concepts["films"]) == {0}
