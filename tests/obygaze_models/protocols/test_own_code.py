"""Models of a file: FILE.py:NAME."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.experiments import films, planted, write_workspace
from support.tables import models, rows_of

import obygaze as og
from obygaze_features.core import user_code
from obygaze_features.core.errors import FixInput, ObygazeWarning
from obygaze_models.runner import run as runner
from obygaze_models.runner.files import Run

FILE = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class NearestMean(ClassifierMixin, BaseEstimator):
    def __init__(self, shrink=0.0):
        self.shrink = shrink

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.means_ = np.array([X[y == label].mean(axis=0) for label in self.classes_])
        return self

    def decision_function(self, X):
        far, near = (((X - mean) ** 2).sum(axis=1) for mean in self.means_)
        return far - near

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


class Probable(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.nearest_ = NearestMean().fit(X, y)
        self.classes_ = self.nearest_.classes_[::-1]
        return self

    def predict_proba(self, X):
        positive = 1 / (1 + np.exp(-self.nearest_.decision_function(X) / 50))
        return np.column_stack([positive, 1 - positive])

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Reversed(NearestMean):
    def fit(self, X, y):
        super().fit(X, y)
        self.classes_ = self.classes_[::-1]
        return self

    def decision_function(self, X):
        return -super().decision_function(X)


class Plain(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        raise AssertionError("it trained")

    def predict(self, X):
        return [0] * len(X)


class Short(NearestMean):
    def decision_function(self, X):
        return super().decision_function(X)[:3]


class Doubled(NearestMean):
    def fit(self, X, y):
        super().fit(X, y)
        self.classes_ = np.array([1, 1])
        return self
"""
FILMS = replace(films(4, 30), name="films")
QUICK = [
    *("report.replicates=20", "report.contrast=[]", "report.concepts=false"),
    "report.compare=false",
]
ONE_TASK = [*QUICK, 'grid.train=["EN_S"]', 'grid.test=["EN_S"]']


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with features, and a file of user code; nothing is trusted yet."""
    write_workspace(tmp_path, FILMS, planted(FILMS), "sig")
    (tmp_path / "own.py").write_text(FILE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(user_code, "_TRUSTED", {})
    return tmp_path


def own_run(name: str) -> Run:
    """Test a class of the file."""
    changes = [*ONE_TASK, f"models.mine.kind=own.py:{name}", 'grid.models=["mine"]']
    return og.run("honest", "sig", "films", changes=changes, output=name)


def test_classes_of_an_own_model_may_have_any_order(here: Path) -> None:
    plain = own_run("NearestMean")
    (theirs,) = models(plain)
    assert theirs.value("ap") > 0.5
    expected = rows_of(plain.predictions, model="mine")
    found = rows_of(own_run("Reversed").predictions, model="mine")
    assert [row["score"] for row in found] == [row["score"] for row in expected]
    run = own_run("Probable")
    (ours,) = models(run)
    assert ours.value("ap") == pytest.approx(theirs.value("ap"))
    for before, after in zip(
        expected, rows_of(run.predictions, model="mine"), strict=True
    ):
        assert after["clip_id"] == before["clip_id"]
        probability = 1 / (1 + np.exp(-before["score"] / 50))
        assert after["score"] == pytest.approx(probability)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Doubled", "must have each class once in classes_"),
        ("Plain", "neither predict_proba"),
        ("Short", "must return finite numbers of the shape"),
    ],
)
def test_a_model_that_cannot_work_is_refused_before_the_first_fit(
    here, monkeypatch, name, problem
):
    def fits(*_: object) -> None:
        raise AssertionError("a model was fitted")

    monkeypatch.setattr(runner, "tests_of_models", fits)
    with pytest.raises(FixInput, match=problem):
        own_run(name)


def test_a_warning_of_a_library_is_given_once_with_its_count(here: Path) -> None:
    kind = "models.mine.kind=sklearn.linear_model.LogisticRegression"
    changes = [*ONE_TASK, kind, "models.mine.max_iter=1", 'grid.models=["mine"]']
    # A fit on a handful, and one for each of the four films, in two processes.
    with pytest.warns(ObygazeWarning, match=r"^ConvergenceWarning: .*\(5 times\)$"):
        og.run("honest", "sig", "films", changes=changes, output="w", n_jobs=2)


def test_a_model_that_needs_many_rows_is_no_broken_one(here: Path) -> None:
    kind = "models.mine.kind=sklearn.neighbors.KNeighborsClassifier"
    changes = [*ONE_TASK, kind, "models.mine.n_neighbors=25", 'grid.models=["mine"]']
    (cell,) = models(og.run("honest", "sig", "films", changes=changes, output="k"))
    assert cell.value("ap") > 0.5


@pytest.mark.parametrize("setting", ["weights=distanse", "leaf_size=-1"])
def test_a_setting_that_scikit_learn_does_not_know_is_refused(here, setting) -> None:
    kind = "models.mine.kind=sklearn.neighbors.KNeighborsClassifier"
    changes = [*ONE_TASK, kind, f"models.mine.{setting}", 'grid.models=["mine"]']
    with pytest.raises(FixInput, match=setting.partition("=")[0]):
        og.run("honest", "sig", "films", changes=changes, output="k")


def test_what_user_code_prints_is_no_part_of_the_result(here: Path) -> None:
    loud = FILE.replace("self.means_ =", "print('fitting'); self.means_ =")
    (here / "own.py").write_text(loud + "\nprint('imported')\n", encoding="utf-8")
    changes = [*ONE_TASK, "models.mine.kind=own.py:NearestMean", 'grid.models=["mine"]']
    sets = [word for change in changes for word in ("--set", change)]
    words = ("run", "honest", "--manifest", "films", "--store", "sig", "--jobs", "1")
    printed = call_obygaze("-C", here, *words, *sets, "--json").ok()
    assert json.loads(printed.stdout)["json_version"] == 1
    assert {"imported", "fitting"} <= {*printed.stderr.splitlines()}


def test_a_protocol_that_names_a_file_runs_it_only_where_it_is_trusted(here) -> None:
    Path("mine.toml").write_text(
        'schema = "obygaze-protocol/1"\n[tasks.EN_S]\nclasses = { EN = 0, S = 1 }\n'
        '[splits]\nkind = "nested"\n'
        '[models.mine]\nkind = "own.py:NearestMean"\n[report]\nreplicates = 20\n',
        encoding="utf-8",
    )
    (here / "own.py").write_text(FILE + "\nopen('it-ran', 'w')\n", encoding="utf-8")
    words = ("run", "mine.toml", "--manifest", "films", "--store", "sig", "-o", "a")
    refused = call_obygaze("-C", here, *words)
    assert (refused.code, Path("it-ran").exists()) == (2, False)
    assert "--trust own.py:NearestMean" in refused.stderr
    call_obygaze("-C", here, *words, "--trust", "own.py:NearestMean").ok()
    about = json.loads((here / "runs/a/run.json").read_text("utf-8"))
    settings = about["protocol"]["models"]["mine"]["settings"]
    assert settings["package"].startswith("own.py ")
