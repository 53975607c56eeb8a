"""Runs with values that are missing, counted once, or at the end of their range."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.experiments import TOLERANCES, films, planted, quick, run_on, store_of
from support.tables import contrasts, curve, models, rows_of

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import Manifest
from obygaze_models.runner.files import Run

SHORT = ("report.concepts=false", 'grid.models=["ridge"]')


def run_of(tmp_path: Path, manifest: Manifest, name: str, *changes: str) -> Run:
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    return run_on(
        tmp_path, quick(name, *SHORT, *changes, replicates=20), manifest, {"s": store}
    )


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
    changes += ('grid.test=["EN_S"]', "report.compare=false")
    run = run_of(tmp_path, manifest, "honest", *changes)
    assert contrasts(run, test="EN_S", model="ridge", metric="ap") == []


def test_a_number_of_films_that_trains_nothing_is_a_missing_point(
    tmp_path: Path,
) -> None:
    manifest = films(6, 20, runs_on=0)
    # Each film is of one class, so that no fold has both in one training film.
    levels = ["EN", "S", "EN", "S", "EN", "S"]
    clips = []
    for clip in manifest:
        level = levels[int(clip.movie_id[-1]) - 1]
        concepts = ("Look",) if level == "S" else ()
        clips.append(replace(clip, level=level, concepts=concepts))
    manifest = replace(manifest, clips=tuple(clips))
    changes = (
        'grid.train=["EN_S"]',
        'grid.test=["EN_S"]',
        "report.learning_films=[1, 3]",
    )
    changes += ("splits.kind=nested", "splits.folds=2", "grid.baselines=[]")
    run = run_of(tmp_path, manifest, "honest", *changes)
    # One film is of one class: no fold can be trained.
    (point,) = curve(run)
    assert point["train_films"] == 3
    (whole,) = models(run)
    assert point["value"] == whole.value("ap")


def test_a_clip_is_correct_by_the_mean_of_its_scores(
    tmp_path: Path,
) -> None:
    """Each clip is tested by three seeds of a perceptron, which disagree on some clips."""
    manifest = films(4, 30, runs_on=0)
    store = store_of(tmp_path / "s", manifest, planted(manifest, strength=0.3))
    changes = (
        "report.concepts=false",
        'grid.models=["mlp"]',
        "grid.baselines=[]",
        "fit.seeds=3",
    )
    changes += (
        'grid.train=["EN_S"]',
        'grid.test=["EN_S"]',
        "report.error_analysis=true",
    )
    changes += (
        "models.mlp.min_epochs=1",
        "models.mlp.max_epochs=2",
        "report.contrast=[]",
    )
    run = run_on(
        tmp_path, quick("honest", *changes, replicates=20), manifest, {"s": store}
    )
    pooled = {
        (row["film"], row["successes"])
        for row in rows_of(run.table("success.csv"))
        if row["film"] == "all films"
    }
    ((_, n_success),) = pooled
    mean_of: dict[str, list[float]] = {}
    y_of = {}
    for row in rows_of(run.predictions):
        mean_of.setdefault(row["clip_id"], []).append(row["score"])
        y_of[row["clip_id"]] = row["y"]
    n_correct = sum(
        (np.mean(scores) > 0.5) == y_of[clip] for clip, scores in mean_of.items()
    )
    assert n_correct == n_success
    by_clip: dict[str, list[bool]] = {}
    for row in rows_of(run.predictions):
        by_clip.setdefault(row["clip_id"], []).append(row["decision"] == row["y"])
    by_majority = sum(sum(own) >= 2 for own in by_clip.values())
    assert by_majority != n_success


@pytest.mark.parametrize("seed", [2**31 - 1, 2**31, 2**32])
def test_every_seed_that_is_allowed_runs(tmp_path: Path, seed: int) -> None:
    changes = ('grid.train=["EN_S"]', 'grid.test=["EN_S"]', f"fit.seed={seed}")
    changes += ('grid.models=["ridge", "mlp", "pcbm-dt"]', "models.mlp.min_epochs=1")
    changes += ("models.mlp.max_epochs=2",)
    if seed >= 2**31:
        with pytest.raises(FixInput) as error:
            quick("honest", *changes)
        assert "at most 2147483647" in error.value.details[0]
        return
    manifest = films(4, 20, runs_on=0)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    changes += (
        "report.compare=false",
        "report.contrast=[]",
        "models.pcbm-dt.cross_fit=0",
        *TOLERANCES,
    )
    run = run_on(
        tmp_path, quick("honest", *changes, replicates=20), manifest, {"s": store}
    )
    assert len(models(run)) == 3
