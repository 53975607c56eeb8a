"""The files of a run: their columns, what is in them, and that they are read as they were."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pytest
from support.experiments import films, planted, quick, run_on, store_of

from obygaze_features.core.errors import FixInput
from obygaze_features.core.parts import trust
from obygaze_models.evaluation.tables import RUN_TABLES
from obygaze_models.runner.files import Run, read_folder

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


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_of_films(tmp_path_factory.mktemp("tables"), *ONE_PAIR)


def test_the_files_are_two_tables_and_run_json(run: Run) -> None:
    names = sorted(path.name for path in run.folder.iterdir())
    assert names == ["predictions.csv", "results.csv", "run.json"]
    for name in ("predictions.csv", "results.csv"):
        columns = RUN_TABLES[name]
        with (run.folder / name).open(encoding="utf-8") as stream:
            assert next(csv.reader(stream)) == list(columns)
    assert tuple(RUN_TABLES["results.csv"])[:8] == (
        *("task", "train", "test", "store", "model"),
        *("film", "metric", "value"),
    )


def test_a_run_is_read_back(run: Run) -> None:
    again = read_folder(run.folder)
    assert again.known == {}
    for name in ("predictions.csv", "results.csv"):
        pd.testing.assert_frame_equal(
            again.table(name), run.table(name), check_exact=True
        )
    assert not len(again.table("trees.csv")) and again.protocol["name"] == "honest"
    for cell, of_run in zip(again.cells, run.cells, strict=True):
        assert (cell.name, cell.values) == (of_run.name, of_run.values)
        assert cell.intervals == of_run.intervals
    chosen = again.folds_of(again.cells[0])[0]["chosen"]
    assert {"epochs", "alpha"}.intersection(chosen)


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
