"""`data.scale = "standard"` scales features as the training clips of each fit, and no others."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from support.experiments import films, planted, run_one_pair, scores_of

from obygaze_features.manifest.model import Manifest
from obygaze_models.models.common import Scaling
from obygaze_models.models.concepts import ConceptBank
from obygaze_models.models.lessons import lessons_of


@pytest.fixture
def manifest() -> Manifest:
    return films(4, 40, seed=1)


def test_each_fold_is_a_pipeline_of_scikit_learn(
    tmp_path: Path, manifest: Manifest
) -> None:
    X = planted(manifest) * np.arange(1, 25, dtype=np.float32) + np.float32(50)
    kind = ("models.mine.kind=logistic", 'grid.models=["mine"]', "models.mine.C=0.1")
    run = run_one_pair(tmp_path, manifest, X, *kind, "data.scale=standard")
    levels = np.array([clip.level for clip in manifest])
    films_of = np.array([clip.clip_id.split("-")[0] for clip in manifest])
    in_task = np.isin(levels, ["EN", "HN", "S"])
    expected = {}
    for film in np.unique(films_of):
        rows = np.flatnonzero(in_task & (films_of != film))
        tested = np.flatnonzero(in_task & (films_of == film))
        logistic = LogisticRegression(
            C=0.1, class_weight="balanced", tol=1e-10, max_iter=10_000
        )
        pipeline = make_pipeline(StandardScaler(), logistic)
        pipeline.fit(X[rows].astype(np.float64), levels[rows] == "S")
        scores = pipeline.predict_proba(X[tested].astype(np.float64))[:, 1]
        ids = [manifest.clip_ids[row] for row in tested]
        expected |= dict(zip(ids, scores.tolist(), strict=True))
    assert scores_of(run) == pytest.approx(expected, abs=1e-5)


def test_concept_vectors_of_scaled_rows_read_rows_as_they_are() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(90, 6)) * [1, 5, 25, 1, 1, 1] + 7
    targets = (X[:, [0, 3]] > 7).astype(np.int64)
    rows = np.arange(60)
    lessons = lessons_of(X, targets[:, 0], ["a", "b"], targets, None)
    bank = ConceptBank(C=0.1, scaled=True).found_on(lessons, rows)
    scaler = StandardScaler().fit(X[rows])
    expected = ConceptBank(["a", "b"], C=0.1).fit(
        scaler.transform(X[rows]), targets[rows]
    )
    of_scaled = expected.transform(scaler.transform(X))
    np.testing.assert_allclose(bank.transform(X), of_scaled, atol=1e-9)


def test_a_constant_feature_keeps_its_scale() -> None:
    X = np.array([[1.0, 5.0], [3.0, 5.0]])
    scaled = Scaling.of(X).scaled([[1.0, 7.0]])
    assert scaled.tolist() == [[-1.0, 2.0]]
