"""Story 46: I know scikit-learn: its tools on a store, its models in a run, kept and loaded."""

import json
import runpy
import shutil

import numpy as np
import pytest
from sklearn import config_context
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import (
    GroupKFold,
    LeaveOneGroupOut,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import obygaze as og
from obygaze_models.models.common import FixTraining
from stories.films import labelled_clips
from stories.made import begin_with_planted_and_noise
from stories.workspace import Workspace

QUICK = ["report.replicates=20"]
# The whole of a notebook, from a store to a prediction.
TEN_LINES = """\
import obygaze as og
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

X, y, films, ids = og.dataset("planted", "films", task="EN_S")
probe = make_pipeline(StandardScaler(), og.SVMProbe())
search = GridSearchCV(probe, {"svmprobe__C": [0.01, 0.1]}, cv=GroupKFold(4))
best = search.fit(X, y, groups=films).best_estimator_
run = og.evaluate(best, "planted", "films", task="EN_S", changes=["report.replicates=20"])
"""


@pytest.fixture
def planted(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Return a workspace with the store `planted`, in which Python runs."""
    begin_with_planted_and_noise(ws)
    monkeypatch.chdir(ws.folder)
    return ws


def test_ridge_of_scikit_learns_tools_has_the_scores_of_a_run(planted) -> None:
    X, y, films, ids = og.dataset("planted", "films", task="EN_S")
    ridge = og.RidgeProbe().set_fit_request(groups=True)
    with config_context(enable_metadata_routing=True):
        scores = cross_val_predict(
            ridge,
            X,
            y,
            cv=LeaveOneGroupOut(),
            method="decision_function",
            params={"groups": films},
        )
    changes = [*QUICK, "grid.models=['ridge']"]
    run = og.run("honest", "planted", "films", tasks=["EN_S"], changes=changes)
    tests = run.predictions
    of_run = tests[tests["model"] == "ridge"].set_index("clip_id")["score"]
    assert np.abs(of_run[ids.tolist()].to_numpy() - scores).max() == 0.0


def test_ten_lines_from_a_store_to_an_answer(planted, capsys) -> None:
    ten = planted.write("ten.py", TEN_LINES)
    made = runpy.run_path(str(ten))
    assert isinstance(made["best"][-1], og.SVMProbe)
    scores = cross_val_score(
        made["best"], made["X"], made["y"], groups=made["films"], cv=GroupKFold(4)
    )
    assert scores.mean() > 0.6
    text = str(made["run"])
    assert "svmprobe ranks clips better than" in text
    capsys.readouterr()


def test_a_bottleneck_learns_from_the_concepts_of_a_store(planted) -> None:
    data = og.dataset("planted", "films", task="EN_S")
    X, y, films, ids = data
    names = list(data.concept_names)
    rows = {row["clip_id"]: row for row in labelled_clips()}
    look = names.index("Look")
    has_look = ["Look" in rows[clip]["concepts"] for clip in ids]
    assert (data.concepts[:, look] == 1).tolist() == has_look
    bottleneck = og.PCBM(og.CAV(names, C=0.1))
    fitted = bottleneck.fit(X, y, concepts=data.concepts, groups=films)
    assert fitted.bank_.concepts_.tolist() == names
    assert fitted.score(X, y) > 0.7
    vectors = og.CAV(names, C=0.1).fit(X, data.concepts, groups=films)
    np.testing.assert_array_equal(vectors.transform(X), fitted.margins(X))
    with pytest.raises(FixTraining, match="needs the concepts of each row"):
        bottleneck.fit(X, y)


def test_a_model_of_scikit_learn_is_kept_and_predicts_elsewhere(
    planted, tmp_path
) -> None:
    pipeline = make_pipeline(StandardScaler(), LinearSVC(random_state=0))
    og.train(pipeline, "planted", "films", changes=QUICK, output="kept")
    X, y, *_ = og.dataset("planted", "films", task="EN_S")
    by_hand = pipeline.fit(np.asarray(X, dtype=np.float64), y)
    loaded = og.load_model("kept")
    np.testing.assert_array_equal(loaded.predict(X), by_hand.predict(X))
    np.testing.assert_array_equal(
        loaded.decision_function(X), by_hand.decision_function(np.float64(X))
    )
    # In another lab: a folder with the model and the store, without manifest and run.
    lab = tmp_path / "lab"
    og.models.push("kept", lab / "models" / "theirs")
    shutil.copytree(planted.folder / "stores" / "planted", lab / "stores" / "planted")
    theirs = og.load_model("theirs", workspace=lab)
    assert theirs.predict("planted").shape == (240,)
    np.testing.assert_array_equal(theirs.predict(X), by_hand.predict(X))
    # Without code, and refused when one byte was changed.
    assert {path.suffix for path in (lab / "models" / "theirs").iterdir()} == {
        *(".csv", ".json", ".md", ".safetensors")
    }
    document = lab / "models" / "theirs" / "model.json"
    content = json.loads(document.read_text("utf-8"))
    content["estimator"]["steps"][1]["kind"] = "sklearn.svm.SVC"
    document.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(og.ObygazeError, match="differs from its sha256"):
        og.load_model("theirs", workspace=lab)


def test_a_forest_is_tested_and_not_kept(planted) -> None:
    forest = RandomForestClassifier(n_estimators=20, random_state=0)
    with pytest.raises(og.ObygazeError, match="RandomForestClassifier cannot be kept"):
        og.train(forest, "planted", "films", changes=QUICK, output="forest")
    assert not (planted.folder / "runs" / "forest").exists()
    both = [forest, og.RidgeProbe()]
    run = og.evaluate(both, "planted", "films", changes=QUICK, output="both")
    # The p of each of the two is corrected for both.
    of_baselines = run.results[run.results["against_model"] == "random"]
    assert set(of_baselines["comparisons"].dropna()) == {2.0}
    X, y, films, ids = og.dataset("planted", "films", task="EN_S")
    tests = run.predictions
    of_run = tests[tests["model"] == "randomforestclassifier"].set_index("clip_id")
    expected = cross_val_predict(
        forest,
        np.float64(X),
        y,
        groups=films,
        cv=LeaveOneGroupOut(),
        method="predict_proba",
    )
    found = of_run["score"][ids.tolist()].to_numpy()
    np.testing.assert_allclose(found, expected[:, 1], atol=1e-12)
