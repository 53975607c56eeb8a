"""The same pictures under two names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from support.experiments import films, quick, run_on, store_of
from support.tables import baselines, models

from obygaze_features.manifest.model import Manifest
from obygaze_models.models.lessons import FeatureRows
from obygaze_models.runner.limits import limits_of
from obygaze_models.runner.text import result_text

CHANGES = (
    *('grid.models=["ridge"]', 'grid.train=["ENHN_S"]', 'grid.test=["ENHN_S"]'),
    *("report.contrast=[]", "report.concepts=false", "report.compare=false"),
    'grid.baselines=["all_positive"]',
)


def doubled(manifest: Manifest) -> Manifest:
    """Every clip again, under the name of a second film."""
    again = [
        replace(clip, clip_id=f"x{clip.clip_id}", movie_id=f"x{clip.movie_id}")
        for clip in manifest
    ]
    return replace(manifest, clips=(*manifest.clips, *again))


def test_copies_under_another_film_are_counted_and_warned_of(tmp_path: Path) -> None:
    manifest = films(4, 20, seed=2)
    twice = doubled(manifest)
    X = np.random.default_rng(0).normal(size=(len(manifest), 24)).astype(np.float32)
    store = store_of(tmp_path / "s", twice, np.concatenate([X, X]))
    run = run_on(
        tmp_path, quick("honest", *CHANGES, replicates=20), twice, {"s": store}
    )
    (cell,) = models(run)
    # Each clip but those that are not sure is tested once, by a model of its copy.
    assert cell.leaked == cell.copies == cell.n_clips > 0
    assert baselines(run)[0].leaked == 0
    (said,) = [w.text for w in limits_of(run) if w.name == "copies"]
    assert f"{cell.n_clips} of the {cell.n_clips} test clips" in said
    assert said in result_text(run)


def test_equal_features_are_tied_whatever_their_scores_were_rounded_to() -> None:
    """A product of matrices rounds equal rows in other ways; their order is no order."""
    rows = FeatureRows(np.zeros((4, 1)), equal=np.array([0, 1, 0, 1]))
    scores = np.array([0.3, 0.1 + 0.2, 0.2])
    tied = rows.tied(np.array([3, 0, 1]), scores)
    assert tied.tolist() == [0.3, 0.1 + 0.2, 0.3]
