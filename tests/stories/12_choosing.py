"""Story 12: One run compares stores; training films choose settings; a model may be my own."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score
from sklearn.naive_bayes import GaussianNB

from stories.films import Row, features_of, import_features, labelled_clips
from stories.results import in_order, scores_of, the_result
from stories.workspace import Workspace

ONE_TASK = """--set 'grid.train=["EN_S"]' --set 'grid.test=["EN_S"]' --jobs 1"""
QUICK = f"{ONE_TASK} --set report.concepts=false --set report.replicates=50"

# The score of a clip is one of its numbers, so that what was chosen can be read from the scores.
ONE_NUMBER = """
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class OneNumber(ClassifierMixin, BaseEstimator):
    def __init__(self, column=0):
        self.column = column

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return np.asarray(X)[:, self.column] - 0.5

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]
"""


def with_a_trap(rows: list[Row]) -> tuple[np.ndarray, np.ndarray]:
    """Return two features of clips: a planted one, and one that is better in film01 alone.

    The second knows the levels of film01. A choice that sees the test film would select the second
    feature for film01.
    """
    is_s = np.array([row["level"] == "S" for row in rows])
    of_first_film = np.array([row["movie_id"] == "film01" for row in rows])
    noise = np.random.default_rng(3).normal(size=(2, len(rows)))
    planted = noise[0] + 1.5 * is_s
    trap = np.where(of_first_film, is_s, noise[1] + 0.5 * is_s)
    return planted.astype(np.float32), trap.astype(np.float32)


def ap_of_films(ws: Workspace, store: str) -> np.ndarray:
    films: dict[str, list[Row]] = {}
    for row in ws.read_table("runs/stores/predictions.csv"):
        if (row["model"], row["store"]) == ("ridge", store):
            films.setdefault(row["movie_id"], []).append(row)
    values = []
    for rows in films.values():
        y = [row["y"] == "1" for row in rows]
        values.append(average_precision_score(y, [float(row["score"]) for row in rows]))
    return np.array(values)


def test_one_run_says_which_store_is_better(ws: Workspace) -> None:
    """Its p is corrected for the three differences of three stores."""
    rows = labelled_clips(n_films=6, per_film=15)
    planted, trap = with_a_trap(rows)
    import_features(ws, rows, planted[:, None], "planted")
    import_features(ws, rows, trap[:, None], "trap")
    import_features(ws, rows, features_of(rows, level=0.0), "noise")
    stores = "--store planted --store trap --store noise"
    run = ws(
        f"run honest --manifest films {stores} -o stores"
        f""" --set 'grid.models=["ridge"]' {QUICK}"""
    )
    assert "planted - noise" in run.text
    found = 0
    for row in ws.read_table("runs/stores/results.csv"):
        if not row["against_store"] or row["film"]:
            continue
        apart = ap_of_films(ws, row["store"]) - ap_of_films(ws, row["against_store"])
        assert float(row["value"]) == pytest.approx(apart.mean(), abs=1e-9)
        assert row["comparisons"] == "3"
        found += 1
    assert found == 3


def test_training_films_choose_the_settings(ws: Workspace) -> None:
    rows = labelled_clips(n_films=6, per_film=15)
    planted, trap = with_a_trap(rows)
    X = np.column_stack([planted, trap])
    import_features(ws, rows, X, "mine")
    ws.write("one_number.py", ONE_NUMBER)
    ws(
        "run honest --manifest films --store mine -o settings"
        " --set models.one.kind=one_number.py:OneNumber"
        f""" --set 'models.one.column.grid=[0, 1]' --set 'grid.models=["one"]' {QUICK}"""
    )
    found = scores_of(ws, "settings", model="one")
    for number, row in enumerate(rows):
        if row["level"] in ("EN", "S"):
            assert found[row["clip_id"]] == pytest.approx(planted[number] - 0.5)


def test_a_model_and_folds_of_my_own(ws: Workspace) -> None:
    """A classifier of scikit-learn by its name, and a column of the manifest as folds."""
    rows = labelled_clips(n_films=6, per_film=15)
    for row in rows:
        row["fold:parity"] = str(int(row["movie_id"][-2:]) % 2)
    X = features_of(rows, level=1.0)
    import_features(ws, rows, X, "planted")
    ws(
        "run honest --manifest films --store planted -o own"
        " --set models.bayes.kind=sklearn.naive_bayes.GaussianNB"
        """ --set 'grid.models=["bayes"]'"""
        f" --set splits.kind=published --set tasks.EN_S.folds=parity {QUICK}"
    )

    used = [number for number, row in enumerate(rows) if row["level"] in ("EN", "S")]
    clip_ids = [rows[number]["clip_id"] for number in used]
    y = np.array([rows[number]["level"] == "S" for number in used])
    parity = np.array([int(rows[number]["movie_id"][-2:]) % 2 for number in used])
    expected = np.zeros(len(used))
    for fold in (0, 1):
        tested = parity == fold
        model = GaussianNB().fit(X[used][~tested].astype(float), y[~tested])
        expected[tested] = model.predict_proba(X[used][tested].astype(float))[:, 1]
    found = in_order(scores_of(ws, "own", model="bayes"), clip_ids)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert the_result(ws, "own", model="bayes")["leaked"] == 0
