"""`og.evaluate`: estimators of scikit-learn go the road of the models of a run."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from support.experiments import films, planted, write_workspace
from support.tables import models, rows_of

import obygaze as og
from obygaze_features.core.errors import FixUsage
from obygaze_models.models.heads import LogisticHead
from obygaze_models.runner.files import Run

FILMS = replace(films(8, 20), name="films")
QUICK = ["report.replicates=20"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_workspace(tmp_path, FILMS, planted(FILMS), "sig")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def evaluated(estimators: Any, output: str, *changes: str) -> Run:
    changed = [*QUICK, *changes]
    return og.evaluate(
        estimators, "sig", "films", changes=changed, output=output, n_jobs=1
    )


def scores_of(run: Run, model: str) -> list[tuple[str, float]]:
    rows = rows_of(run.predictions, model=model)
    return [(row["clip_id"], row["score"]) for row in rows]


def test_an_estimator_has_the_scores_of_its_kind() -> None:
    kinds = 'grid.models=["ridge", "pcbm-lr"]'
    changes = [*QUICK, kinds, "models.pcbm-lr.C=0.1", "report.concepts=false"]
    run = og.run(
        *("honest", "sig", "films"),
        tasks=["EN_S"],
        changes=changes,
        output="kinds",
        n_jobs=1,
    )
    ours = {"ridge": og.RidgeProbe(), "pcbm-lr": og.PCBM(og.CAV(), LogisticHead())}
    found = evaluated(ours, "classes")
    for name in ours:
        assert scores_of(found, name) == scores_of(run, name)
    # The p of each of the two is corrected for both.
    of_baselines = found.results[found.results["against_model"] == "random"]
    assert set(of_baselines["comparisons"].dropna()) == {2.0}


def test_a_perceptron_in_a_pipeline_stops_on_validation_clips() -> None:
    probe = og.MLPProbe(
        (4,), min_epochs=1, max_epochs=40, patience=1, learning_rate=0.1
    )
    run = evaluated(make_pipeline(StandardScaler(), probe), "mlp")
    (cell,) = models(run)
    epochs = [fold["chosen"]["epochs"] for fold in run.folds_of(cell)]
    assert max(epochs) < 40


class Reversed(ClassifierMixin, BaseEstimator):
    """The mean of each class; its classes are in the other order."""

    def fit(self, X: Any, y: Any) -> Any:
        self.classes_ = np.unique(y)[::-1]
        self.means_ = [X[y == name].mean(axis=0) for name in self.classes_]
        return self

    def predict_proba(self, X: Any) -> Any:
        far = np.stack([((X - mean) ** 2).sum(axis=1) for mean in self.means_], axis=1)
        near = np.exp(-far / 10)
        return near / near.sum(axis=1, keepdims=True)


def test_classes_in_the_other_order_are_scored_with_the_right_sign() -> None:
    run = evaluated(Reversed(), "reversed")
    (cell,) = models(run)
    assert cell.value("auc") > 0.6
    # The class in a file, as a run takes it.
    code = inspect.getsource(Reversed)
    head = (
        "import numpy as np\n"
        "from sklearn.base import BaseEstimator, ClassifierMixin\n\nAny = object\n"
    )
    Path("own.py").write_text(f"{head}\n{code}", encoding="utf-8")
    changes = [*QUICK, 'models.mine.kind="own.py:Reversed"', 'grid.models=["mine"]']
    by_run = og.run(
        *("honest", "sig", "films"),
        tasks=["EN_S"],
        changes=changes,
        output="mine",
        n_jobs=1,
    )
    assert scores_of(by_run, "mine") == scores_of(run, "reversed")


def test_what_is_no_estimator_is_refused_and_names_are_told_apart() -> None:
    for wrong in (og.RidgeProbe, "ridge", StandardScaler()):
        with pytest.raises(FixUsage, match=r"expected an estimator|neither predict"):
            evaluated(wrong, "wrong")
    with pytest.raises(FixUsage, match="expected at least one estimator"):
        evaluated([], "none")
    # scikit-learn prints 30 steps of a pipeline; these two are printed alike.
    alike = [
        make_pipeline(*(StandardScaler() for _ in range(30)), og.LogisticProbe(C=C))
        for C in (0.1, 1.0)
    ]
    with pytest.raises(FixUsage, match="logisticprobe-2 is printed as another"):
        evaluated(alike, "alike")
    run = evaluated([og.LogisticProbe(), og.LogisticProbe(C=0.1)], "two")
    assert {cell.model for cell in models(run)} == {"logisticprobe", "logisticprobe-2"}
