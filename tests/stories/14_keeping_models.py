"""Story 14: I keep a model, use it on other features of its recipe, and give it to others."""

from pathlib import Path

import numpy as np
from sklearn.naive_bayes import GaussianNB
from support.damage import flip_bit

import obygaze as og
from stories.films import features_of, import_features, labelled_clips
from stories.made import begin_with_extracted_films
from stories.results import logistic, scores_of
from stories.workspace import Workspace

QUICK = "--set report.replicates=20 --jobs 1"
LOGISTIC = f"train logistic --set model.C=0.5 {QUICK}"


def planted_clips(ws: Workspace, n_films: int = 5) -> og.Dataset:
    """Make the store `planted` of the manifest `films`; return what a model of EN and S learns."""
    rows = labelled_clips(n_films=n_films, per_film=12)
    import_features(ws, rows, features_of(rows, level=1.5, width=6), "planted")
    return og.dataset("planted", "films", task="EN_S", workspace=ws.folder)


def probabilities(ws: Workspace, table: str, basis: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in ws.read_table(table):
        if row["basis"] == basis:
            found[row["clip_id"]] = float(row["p:positive"])
    return found


def test_clips_that_trained_get_scores_of_models_that_did_not_see_them(ws) -> None:
    X, y, films, clip_ids = planted_clips(ws)
    ws(f"{LOGISTIC} --store planted --manifest films -o kept")
    said = ws("models predict kept planted -o predicted.csv").err
    assert "with different scales: compare them only within a fold" in said
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
    ws(f"{LOGISTIC} --store films.descriptors --manifest films -o ours")
    ws("models predict ours films.descriptors -o ours.csv")
    said = ws("models push ours ../disk/ours").text
    assert "licence of the annotations: not stated; of the features: " in said
    seal = said.partition("seal: ")[2].split()[0]

    lab = Workspace(tmp_path / "lab")
    begin_with_extracted_films(lab)
    lab(f"models pull '../disk/ours#sha256={seal}' -o theirs")
    lab("models predict theirs films.descriptors -o theirs.csv")
    assert lab.read("theirs.csv") == ws.read("ours.csv")
    assert "descriptors" in lab("models show theirs").text
    # Arrays, tables and texts: nothing of it is code.
    assert set(lab.bytes_of("models/theirs")) == {
        *("model.safetensors", "model.json", "training-clips.csv", "README.md")
    }

    # One damaged byte of what was learnt, and the model is not used.
    (arrays,) = lab.path("models/theirs").glob("*.safetensors")
    flip_bit(arrays, -1)
    lab("models show theirs", code=4)
    lab("models predict theirs films.descriptors -o again.csv", code=4)
    assert not lab.path("again.csv").exists()


def test_a_model_of_scikit_learn_is_kept_if_it_is_arrays_and_numbers(ws) -> None:
    X, y, films, clip_ids = planted_clips(ws)
    ws(
        f"train sklearn.naive_bayes.GaussianNB --store planted --manifest films -o bayes {QUICK}"
        " --set model.var_smoothing=0.5"
    )
    ws("models predict bayes planted -o predicted.csv")
    found = probabilities(ws, "predicted.csv", "out-of-fold")
    assert sorted(found) == sorted(clip_ids)
    for film in np.unique(films):
        of_film = films == film
        model = GaussianNB(var_smoothing=0.5).fit(
            X[~of_film].astype(float), y[~of_film]
        )
        expected = model.predict_proba(X[of_film].astype(float))[:, 1]
        scores = [found[clip_id] for clip_id in np.array(clip_ids)[of_film]]
        np.testing.assert_allclose(scores, expected, atol=1e-6)
    ws("models push bayes ../disk/bayes")
    ws("models pull ../disk/bayes -o theirs")
    ws("models predict theirs planted -o theirs.csv")
    assert ws.read("theirs.csv") == ws.read("predicted.csv")
    (arrays,) = ws.path("../disk/bayes").glob("*.safetensors")
    flip_bit(arrays, -1)
    ws("models pull ../disk/bayes -o broken", code=4)
    assert not ws.path("models/broken").exists()


def test_a_forest_is_refused_before_it_is_fitted_and_can_be_tested(ws) -> None:
    planted_clips(ws)
    forest = "sklearn.ensemble.RandomForestClassifier"
    stores = "--store planted --manifest films"
    refused = ws(f"train {forest} {stores} -o trees {QUICK}", code=1)
    assert f"{forest} cannot be kept" in refused.err
    assert not ws.path("models").exists() and not ws.path("runs").exists()
    few = """--set models.mine.n_estimators=5 --set 'grid.models=["mine"]'"""
    kind = f"--set models.mine.kind={forest} --set report.concepts=false"
    ws(f"run honest {stores} --task EN_S {kind} {few} {QUICK} -o trees")
    assert scores_of(ws, "trees", model="mine")
