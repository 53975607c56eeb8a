"""A value that a run cannot have is missing in its text and report; it does not end the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from support.experiments import cell_of, films, planted, quick, run_on, store_of

from obygaze_features.manifest.model import Manifest
from obygaze_models.protocols.runner.records import Run
from obygaze_models.protocols.runner.table import result_text
from obygaze_models.report import report

SHORT = ("report.concepts=false", 'grid.models=["ridge"]')


def run_of(tmp_path: Path, manifest: Manifest, name: str, *changes: str) -> Run:
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    return run_on(tmp_path, quick(name, *SHORT, *changes, replicates=20), manifest, {"s": store})


def test_films_of_one_clip_have_no_pairs_in_the_order_of_the_levels(tmp_path: Path) -> None:
    run = run_of(tmp_path, films(40, 1, runs_on=0), "honest-levels")
    found = [record["concordance"] for record in run.of("levels")]
    assert found and all(own == {"value": None, "ci": [None, None]} for own in found)
    assert "– of pairs of levels in the order of the levels" in result_text(run)
    text = report([run.folder], formats=["md"])[0].read_text("utf-8")
    assert "None" not in text and "nan" not in text


def test_a_test_set_of_one_class_has_no_contrast_of_ap(tmp_path: Path) -> None:
    manifest = films(8, 20, runs_on=0)
    clips = []
    for clip in manifest:
        is_test = clip.movie_id == "tt0000001"
        level = "EN" if is_test else clip.level
        concepts = () if is_test else clip.concepts
        extra = {**clip.extra, "part": "test" if is_test else "train"}
        clips.append(replace(clip, level=level, concepts=concepts, extra=extra))
    manifest = replace(manifest, clips=tuple(clips), columns=("part",))
    changes = ("splits.kind=fixed", "splits.column=part", 'splits.test=["test"]')
    run = run_of(tmp_path, manifest, "honest", *changes)
    contrast = cell_of(run.of("contrast"), test="EN_S", model="ridge", metric="ap")
    assert contrast["difference"] is None and contrast["n_movies"] == 0
    text = result_text(run)
    assert "ridge (s) has ap – / –, difference –" in text
    text = report([run.folder], formats=["md"])[0].read_text("utf-8")
    assert "None" not in text and "nan" not in text


def test_a_number_of_films_that_trains_nothing_is_a_missing_point(tmp_path: Path) -> None:
    manifest = films(6, 20, runs_on=0)
    # Each film is of one class, so that no fold has both in one training film.
    levels = ["EN", "S", "EN", "S", "EN", "S"]
    clips = []
    for clip in manifest:
        level = levels[int(clip.movie_id[-1]) - 1]
        concepts = ("Look",) if level == "S" else ()
        clips.append(replace(clip, level=level, concepts=concepts))
    manifest = replace(manifest, clips=tuple(clips))
    changes = ('grid.train=["EN_S"]', 'grid.test=["EN_S"]', "report.learning_films=[1, 4]")
    changes += ("splits.kind=group_kfold", "splits.folds=2", "grid.baselines=[]")
    run = run_of(tmp_path, manifest, "honest", *changes)
    (curve,) = run.of("learning")
    assert [point["n_films"] for point in curve["points"]] == [1, 4]
    assert curve["points"][0]["value"] is None
    (cell,) = run.cells
    assert curve["points"][1]["value"] == cell["ap"]["value"] is not None
    text = report([run.folder], formats=["md"])[0].read_text("utf-8")
    assert "1 films" in text and "4 films" in text
