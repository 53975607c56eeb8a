"""A threshold for every model, chosen on clips that its fit did not see."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import f1_score
from support.experiments import films, planted, quick, run_on, store_of
from support.tables import result_of, rows_of, the_cell

from obygaze_models.models.linear import RidgeProbe
from obygaze_models.models.registry import CAV, KINDS, trainable
from obygaze_models.runner.files import Run

# Vectors alone decide nothing.
NAMES = [name for name in trainable() if name != CAV]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("thresholds")
    manifest = films(4, 30, seed=3)
    store = store_of(folder / "store", manifest, planted(manifest, strength=1.5))
    models = [f"models.{name}.kind={name}" for name in NAMES]
    models += [f"models.{name}.tolerance=0.01" for name in NAMES if KINDS[name].head]
    grid = ('grid.train=["EN_S"]', 'grid.test=["EN_S"]', f"grid.models={NAMES}")
    changes = (*models, *grid, "report.concepts=false", "models.mlp.max_epochs=8")
    return run_on(folder, quick("honest", *changes), manifest, {"x": store})


@pytest.mark.parametrize("kind", NAMES)
def test_every_model_has_one(run: Run, kind: str) -> None:
    """F1 at the thresholds of the folds, from predictions.csv with scikit-learn."""
    cell = the_cell(run, model=kind)
    thresholds = {fold["fold"]: fold["threshold"] for fold in run.folds_of(cell)}
    assert None not in thresholds.values()
    rows = [row for row in rows_of(run.predictions) if row["model"] == kind]
    decided = [row["score"] > thresholds[row["fold"]] for row in rows]
    expected = f1_score([row["y"] for row in rows], decided)
    assert cell.tuned()["f1_binary"] == pytest.approx(expected)
    assert result_of(run, cell, "f1_binary_tuned")["value"] == cell.tuned()["f1_binary"]


def test_scores_of_ridge_without_a_film_are_those_of_a_refit() -> None:
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(60, 5)), np.arange(60) % 4
    y = (X[:, 0] + rng.normal(size=60) > 0).astype(int)
    probe = RidgeProbe().fit(X, y, groups)
    for film in range(4):
        inside = groups == film
        other = Ridge(alpha=probe.alpha_).fit(X[~inside], 2.0 * y[~inside] - 1)
        np.testing.assert_allclose(
            probe.left_out_scores_[inside, 0], other.predict(X[inside])
        )
