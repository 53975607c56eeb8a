"""The files of a run: their columns, what is in them, and that they are read as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.experiments import films, planted, quick, run_on, store_of

from obygaze_features.core.errors import FixInput
from obygaze_features.core.parts import trust
from obygaze_models.runner.files import Run

ONE_PAIR = (
    'grid.train=["EN_S"]',
    'grid.test=["EN_S"]',
    'grid.models=["ridge", "mlp"]',
    "report.contrast=[]",
    "report.concepts=false",
    "models.mlp.max_epochs=3",
    "models.mlp.min_epochs=1",
)


def run_of_films(folder: Path, *changes: str) -> Run:
    """A run on made-up films, in which models know a part of the level."""
    manifest = films(5, 20, seed=3)
    store = store_of(folder / "store", manifest, planted(manifest, strength=0.6))
    protocol = quick("honest", *changes, replicates=40)
    return run_on(folder, protocol, manifest, {"x": store})


def test_a_class_without_scores_is_refused_before_it_trains(tmp_path: Path) -> None:
    code = tmp_path / "mine.py"
    code.write_text(
        "from sklearn.base import BaseEstimator, ClassifierMixin\n"
        "class Plain(ClassifierMixin, BaseEstimator):\n"
        "    def fit(self, X, y):\n"
        "        raise AssertionError('it trained')\n"
        "    def predict(self, X):\n"
        "        return [0] * len(X)\n",
        encoding="utf-8",
    )
    trust([f"{code}:Plain"])
    with pytest.raises(FixInput, match="neither predict_proba"):
        run_of_films(
            tmp_path,
            *ONE_PAIR,
            f"models.mine.kind={code}:Plain",
            'grid.models=["mine"]',
        )
