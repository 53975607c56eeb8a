"""Story 14: I keep a model, use it on other features of its recipe, and give it to others."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from support.cli import without_torch

import obygaze as og
from stories.films import features_of, import_features, labelled_clips, rows_of_clips
from stories.made import begin_with_extracted_films
from stories.workspace import Workspace

QUICK = "--set report.replicates=50 --jobs 1"
LOGISTIC = f"train logistic --set model.C=0.5 {QUICK}"

PIPELINE = """
from pathlib import Path

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

Path(__file__).with_name("this-ran").touch()


def scaled_machine():
    return make_pipeline(StandardScaler(), SVC(C=2.0))
"""

# A class that needs another file.
OWN_CLASS = """
import numpy as np
from half import HALF
from sklearn.base import BaseEstimator, ClassifierMixin


class Middle(ClassifierMixin, BaseEstimator):
    def __init__(self, border=0.0):
        self.border = border

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.border_ = 2 * HALF * np.mean(X[:, 0])
        return self

    def decision_function(self, X):
        return X[:, 0] - self.border_

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]
"""


@pytest.fixture
def no_torch(tmp_path: Path) -> dict[str, str]:
    """Return the variables of a process without torch, which skops imports if it is there."""
    return without_torch(tmp_path / "no-torch")


def logistic(X: npt.NDArray[Any], y: npt.NDArray[Any]) -> LogisticRegression:
    """Return the model of scikit-learn that `train logistic` should be."""
    model = LogisticRegression(
        C=0.5, class_weight="balanced", tol=1e-9, max_iter=100_000
    )
    return model.fit(X.astype(float), y)


def planted_clips(ws: Workspace, n_films: int = 5) -> og.Dataset:
    """Make the store `planted` of the manifest `films`; return what a model of EN and S learns."""
    rows = labelled_clips(n_films=n_films, per_film=12)
    import_features(ws, rows, features_of(rows, level=1.5, width=6), "planted")
    return og.dataset("planted", "films", task="EN_S", workspace=ws.folder)


def probabilities(ws: Workspace, table: str, basis: str) -> dict[str, float]:
    """Return the probability of the positive class of the clips with this basis."""
    found: dict[str, float] = {}
    for row in ws.read_table(table):
        if row["basis"] == basis:
            found[row["clip_id"]] = float(row["p:positive"])
    return found


def test_clips_of_other_films_by_the_same_recipe(ws: Workspace) -> None:
    begin_with_extracted_films(ws)
    ws(
        f"{LOGISTIC} films.descriptors films -o known"
        """ --set 'data.where="movie_id != station"'"""
    )
    # Years later, another film is cut into other clips.
    later = rows_of_clips("station", per_film=5)
    ws.write_table("later.csv", later)
    ws("manifest import later.csv -o later")
    ws("manifest link later videos")
    ws("extract run later -b descriptors --workers 1")
    ws("models predict known later.descriptors -o later-predicted.csv")

    X, y, films, _ = og.dataset(
        "films.descriptors", "films", task="EN_S", workspace=ws.folder
    )
    of_known_films = films != "station"
    model = logistic(X[of_known_films], y[of_known_films])
    array = og.open_store("later.descriptors", workspace=ws.folder)
    rows = np.asarray(array.matrix("clip")).astype(float)
    expected = model.predict_proba(rows)[:, 1]
    found = probabilities(ws, "later-predicted.csv", "unseen")
    assert list(found) == [row["clip_id"] for row in later]
    np.testing.assert_allclose(list(found.values()), expected, atol=1e-4)

    # Numbers of the same shape of which nobody knows how they were made.
    np.savez(ws.path("other.npz"), clip_id=[row["clip_id"] for row in later], X=rows)
    ws("store import other.npz --array clip=X --manifest later -o other")
    refused = ws("models predict known other -o other.csv", code=5)
    assert "recipe" in refused.text
    assert not ws.path("other.csv").exists()


def test_clips_that_trained_get_scores_of_models_that_did_not_see_them(
    ws: Workspace,
) -> None:
    X, y, films, clip_ids = planted_clips(ws)
    ws(f"{LOGISTIC} planted films -o kept")
    said = ws("models predict kept planted -o predicted.csv").err
    assert "not on one scale: compare them within a film" in said
    found = probabilities(ws, "predicted.csv", "out-of-fold")
    assert sorted(found) == sorted(clip_ids)
    for film in np.unique(films):
        of_film = films == film
        model = logistic(X[~of_film], y[~of_film])
        expected = model.predict_proba(X[of_film].astype(float))[:, 1]
        scores = [found[clip_id] for clip_id in np.array(clip_ids)[of_film]]
        np.testing.assert_allclose(scores, expected, atol=1e-4)
    # HN clips trained nothing, but clips of their films did, and the table says so.
    others = probabilities(ws, "predicted.csv", "film-seen")
    assert len(found) + len(others) == 60

    # Asked for by name, the model scores its own clips, and the table says that too.
    in_sample = ws("models predict kept planted --in-sample -o in-sample.csv").err
    assert "on one scale" not in in_sample
    own = probabilities(ws, "in-sample.csv", "in-sample")
    expected = logistic(X, y).predict_proba(X.astype(float))[:, 1]
    np.testing.assert_allclose(
        [own[clip_id] for clip_id in clip_ids], expected, atol=1e-4
    )


def test_another_lab_predicts_the_same(ws: Workspace, tmp_path: Path) -> None:
    begin_with_extracted_films(ws)
    ws(f"{LOGISTIC} films.descriptors films -o ours")
    ws("models predict ours films.descriptors -o ours.csv")
    said = ws("models push ours ../disk/ours").text
    assert "licence of the annotations: not stated; of the features: " in said

    lab = Workspace(tmp_path / "lab")
    begin_with_extracted_films(lab)
    lab("models pull ../disk/ours -o theirs")
    lab("models predict theirs films.descriptors -o theirs.csv")
    assert lab.read("theirs.csv") == ws.read("ours.csv")
    assert "descriptors" in lab("models show theirs").text

    # One damaged byte of what was learnt, and the model is not used.
    (arrays,) = lab.path("models/theirs").glob("*.safetensors")
    content = bytearray(arrays.read_bytes())
    content[-1] ^= 1
    arrays.chmod(0o644)
    arrays.write_bytes(content)
    lab("models show theirs", code=4)
    lab("models predict theirs films.descriptors -o again.csv", code=4)
    assert not lab.path("again.csv").exists()


def test_a_saved_model_runs_no_code_that_is_not_trusted(
    ws: Workspace, no_torch: dict[str, str]
) -> None:
    X, y, _, _ = planted_clips(ws)
    ws.write("mine.py", PIPELINE)
    ws(f"train mine.py:scaled_machine planted films -o machine {QUICK}")
    ws.path("this-ran").unlink()

    predict = "models predict machine planted --in-sample"
    refused = ws.process(f"{predict} -o no.csv", code=2, env=no_torch)
    assert "--trust models/machine/code/mine.py:scaled_machine" in refused.text
    assert not ws.path("this-ran").exists()

    trusting = f"{predict} --trust mine.py:scaled_machine"
    ws(f"{trusting} -o machine.csv")
    X = X.astype(float)
    machine = make_pipeline(StandardScaler(), SVC(C=2.0)).fit(X, y)
    assert has_scores(ws, "machine.csv", machine.decision_function(X))

    # Other code under the same name is another model.
    ws.write("mine.py", PIPELINE.replace("C=2.0", "C=200.0"))
    ws(f"{trusting} -o changed.csv", code=5)
    assert not ws.path("changed.csv").exists()


def test_what_cannot_be_saved_is_said_before_the_training(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted_clips(ws)
    ws.write("mine.py", PIPELINE)
    ws.write("big.py", f"{PIPELINE}# {'a' * 10**6}\n")
    line = f"planted films -o machine {QUICK}"
    said = ws(f"train big.py:scaled_machine {line}", code=1).text
    assert "a model cannot take along the file big.py" in said
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name == "skops" else find(name),
    )
    said = ws(f"train mine.py:scaled_machine {line}", code=2).text
    assert "obygaze[skops]" in said
    assert not ws.path("runs/machine").exists()


def has_scores(ws: Workspace, table: str, expected: npt.NDArray[Any]) -> bool:
    """Return whether the EN and S clips of a table have the expected scores."""
    clip_ids = og.dataset("planted", "films", task="EN_S", workspace=ws.folder).ids
    found = {}
    for row in ws.read_table(table):
        found[row["clip_id"]] = float(row["score:positive"])
    scores = [found[clip_id] for clip_id in clip_ids]
    return np.allclose(scores, expected, atol=1e-5)


@pytest.mark.check("a process for each refusal")
def test_a_model_of_own_code_takes_its_file_to_another_lab(
    ws: Workspace, tmp_path: Path, no_torch: dict[str, str]
) -> None:
    """The file stayed behind, and nothing said so."""
    X = planted_clips(ws).X
    ws.write("half.py", "HALF = 0.5\n")
    ws.write("own.py", OWN_CLASS)
    ws(f"train own.py:Middle planted films -o own {QUICK}")
    # A process that has trained with the code trusts it.
    ws.process("models push own ../disk/own", code=2, env=no_torch)
    said = ws("models push own ../disk/own --trust own.py:Middle").text
    assert "with the own code that it needs: half.py, own.py" in said
    ws("store push planted ../disk/planted --no-licence")

    lab = Workspace(tmp_path / "lab")
    shutil.copytree(ws.path("manifests"), lab.path("manifests"))
    lab("store pull ../disk/planted")
    said = lab.process("models pull ../disk/own", env=no_torch).text
    assert "own would run own code, own.py:Middle, which is not trusted" in said
    assert "--trust models/own/code/own.py:Middle" in said
    assert lab.read("models/own/code/own.py") == ws.read("own.py")
    predict = "models predict own planted --in-sample -o own.csv"
    refused = lab.process(predict, code=2, env=no_torch).text
    assert "--trust models/own/code/own.py:Middle" in refused
    lab(f"{predict} --trust models/own/code/own.py:Middle")
    assert has_scores(lab, "own.csv", X[:, 0] - X[:, 0].mean())
    # Another file of this name is not the code that the model was trained with.
    lab.write("models/own/code/half.py", "HALF = 5\n")
    lab(f"{predict} --force --trust models/own/code/own.py:Middle", code=5)
