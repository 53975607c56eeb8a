"""The protocols over segments of whole films, on planted signals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from support.experiments import (
    long_segments,
    quick,
    run_on,
    store_of_windows,
)
from support.tables import the_cell

from obygaze_features.manifest.model import Clip

PLAIN = (
    "report.compare=false",
    "data.segments=made-up",
    'grid.train=["ENHN_S"]',
    'grid.test=["ENHN_S"]',
)


def seconds(clip: Clip) -> slice:
    return slice(int(clip.start_s or 0), int(clip.end_s or 0))


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Windows in sure segments of Ada stand out a little."""
    manifest, noise = long_segments()
    for clip in manifest:
        if clip.level == "S" and clip.extra["annotator"] == "ada":
            noise[clip.movie_id][seconds(clip), :2] += 0.7
    return manifest, noise, store_of_windows(tmp_path_factory.mktemp("w") / "s", noise)


def test_the_precision_of_segments_is_that_of_a_computation_without_the_runner(
    planted, tmp_path: Path
) -> None:
    manifest, values, store = planted
    changes = (
        "models.logistic.kind=logistic",
        "models.logistic.C=1.0",
        'grid.models=["logistic"]',
        "data.where=annotator == ada",
    )
    run = run_on(
        tmp_path, quick("mobygaze-visual", *PLAIN, *changes), manifest, {"w": store}
    )
    cell = the_cell(run, model="logistic", train="ENHN_S", test="ENHN_S")
    mine = [c for c in manifest if c.extra["annotator"] == "ada"]
    X = np.stack(
        [values[c.movie_id][seconds(c)].astype(np.float32).max(axis=0) for c in mine]
    )
    y = np.array([c.level == "S" for c in mine])
    films = np.array([c.movie_id for c in mine])
    found = []
    for film in np.unique(films):
        train, test = films != film, films == film
        model = LogisticRegression(
            C=1.0, class_weight="balanced", tol=1e-10, max_iter=10_000
        )
        score = model.fit(X[train], y[train]).decision_function(X[test])
        found.append(average_precision_score(y[test], score))
    assert cell.value("ap") == pytest.approx(np.mean(found), abs=1e-12)
    assert cell.value("ap") > y.mean() + 0.2
    assert (cell.n_clips, cell.leaked, cell.n_films) == (len(y), 0, 6)
    low, high = cell.ends("ap")
    assert low < cell.value("ap") < high
