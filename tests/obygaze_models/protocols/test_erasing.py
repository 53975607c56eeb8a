"""`data.erase` removes concepts as the training clips of each fit have them, and no others."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from support.experiments import films, planted, run_one_pair, scores_of

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.model import Manifest
from obygaze_models.models.erasure import Leace
from obygaze_models.runner.training import training_protocol

ERASE = 'data.erase=["Look", "Body"]'


@pytest.fixture
def manifest() -> Manifest:
    return films(4, 40, seed=1)


def test_each_fold_scales_and_erases_as_its_training_clips(
    tmp_path: Path, manifest: Manifest
) -> None:
    X = planted(manifest)
    kind = ("models.mine.kind=logistic", 'grid.models=["mine"]', "models.mine.C=0.1")
    run = run_one_pair(tmp_path, manifest, X, *kind, ERASE, "data.scale=standard")
    levels = np.array([clip.level for clip in manifest])
    films_of = np.array([clip.movie_id for clip in manifest])
    concepts = np.array(
        [["Look" in clip.concepts, "Body" in clip.concepts] for clip in manifest]
    )
    in_task = np.isin(levels, ["EN", "HN", "S"])
    expected = {}
    for film in np.unique(films_of):
        rows = np.flatnonzero(in_task & (films_of != film))
        tested = np.flatnonzero(in_task & (films_of == film))
        features = X.astype(np.float64) - X[rows].mean(axis=0, dtype=np.float64)
        features /= features[rows].std(axis=0)
        eraser = Leace().fit(features[rows], concepts[rows])
        logistic = LogisticRegression(
            C=0.1, class_weight="balanced", tol=1e-10, max_iter=10_000
        )
        logistic.fit(eraser.transform(features[rows]), levels[rows] == "S")
        scores = logistic.predict_proba(eraser.transform(features[tested]))[:, 1]
        ids = [manifest.clip_ids[row] for row in tested]
        expected |= dict(zip(ids, scores.tolist(), strict=True))
    assert scores_of(run) == pytest.approx(expected, abs=1e-5)


def test_settings_that_cannot_be_met_are_errors(
    tmp_path: Path, manifest: Manifest
) -> None:
    X = planted(manifest)
    ridge = 'grid.models=["ridge"]'
    with pytest.raises(FixInput, match="unknown concept 'Lok'") as error:
        run_one_pair(tmp_path, manifest, X, ridge, 'data.erase=["Lok"]')
    assert "Look" in str(error.value)
    with pytest.raises(FixUsage, match="its features as they are"):
        training_protocol("ridge", "EN_S", manifest, ['data.erase=["Look"]'])
