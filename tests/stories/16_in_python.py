"""Story 16: I work in Python: six lines to a score, a matrix, a frame, xarray, scikit-learn."""

import runpy

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GroupKFold, cross_val_score

import obygaze as og
from stories.films import features_of, labelled_clips
from stories.made import begin_with_planted_and_noise
from stories.workspace import Workspace

SIX_LINES = """\
import obygaze as og
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GroupKFold, cross_val_score

X, y, groups, ids = og.dataset("planted", "films", task="EN_S")
print(cross_val_score(RidgeClassifier(), X, y, groups=groups, cv=GroupKFold(3)))
"""


@pytest.fixture
def planted(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Return a workspace with the store `planted`, in which Python runs."""
    begin_with_planted_and_noise(ws)
    monkeypatch.chdir(ws.folder)
    return ws


def test_six_lines_from_a_store_to_a_score(planted, capsys) -> None:
    six = planted.write("six.py", SIX_LINES)
    runpy.run_path(str(six))
    out = capsys.readouterr().out
    printed = [float(word) for word in out.strip(" []\n").split()]

    rows = labelled_clips()
    of_task = [number for number, row in enumerate(rows) if row["level"] != "HN"]
    X = features_of(rows, level=1.0, concepts=1.0)[of_task]
    y = [int(rows[number]["level"] == "S") for number in of_task]
    films = [rows[number]["movie_id"] for number in of_task]
    model = RidgeClassifier()
    expected = cross_val_score(model, X, y, groups=films, cv=GroupKFold(3))
    np.testing.assert_allclose(printed, expected, atol=1e-7)
    assert min(printed) > 0.6


def test_the_clips_of_a_task(planted: Workspace) -> None:
    rows = {row["clip_id"]: row for row in labelled_clips()}
    values = features_of(list(rows.values()), level=1.0, concepts=1.0)
    row_of = {clip: number for number, clip in enumerate(rows)}

    X, y, groups, ids = og.dataset("planted", "films", task={"HN": 0, "S": 1})
    expected = [clip for clip, row in rows.items() if row["level"] in ("HN", "S")]
    assert ids.tolist() == expected
    assert y.tolist() == [int(rows[clip]["level"] == "S") for clip in ids]
    assert groups.tolist() == [rows[clip]["movie_id"] for clip in ids]
    np.testing.assert_array_equal(X, values[[row_of[clip] for clip in ids]])

    task = {"positive": "Look in concept", "negative": "Look not in concept"}
    looks = og.dataset("planted", "films", task=task)
    assert looks.ids.tolist() == list(rows)
    has_look = ["Look" in rows[clip]["concepts"] for clip in rows]
    assert looks.y.astype(bool).tolist() == has_look


def test_a_matrix_has_the_rows_that_are_asked_for(planted: Workspace) -> None:
    rows = labelled_clips()
    ids = [row["clip_id"] for row in rows]
    X = features_of(rows, level=1.0, concepts=1.0)
    store = og.open_store("planted")
    assert len(store) == 240
    assert "film03-007" in store
    assert "film13-001" not in store
    np.testing.assert_array_equal(store["clip"], X)
    asked = ["film12-020", "film01-001", "film03-007"]
    matrix = store.matrix("clip", clips=asked)
    assert list(matrix.clip_ids) == asked
    np.testing.assert_array_equal(matrix, X[[ids.index(clip) for clip in asked]])
    of_film = [number for number, clip in enumerate(ids) if clip[:6] == "film03"]
    np.testing.assert_array_equal(store.matrix("clip", films=["film03"]), X[of_film])


def test_a_clip_that_is_missing_is_an_error_with_its_reason(planted: Workspace) -> None:
    ids = [row["clip_id"] for row in labelled_clips()]
    X = features_of(labelled_clips())
    X[5] = np.nan
    np.savez("part.npz", clip_id=ids[:200], X=X[:200])
    planted("store import part.npz --array clip=X --manifest films -o part", code=3)
    store = og.open_store("part")
    with pytest.raises(og.ObygazeError, match="film11-001"):
        store.matrix("clip", clips=["film01-001", "film11-001"])
    asked = ["film11-001", "film01-006", "film02-001"]
    filled = np.asarray(store.matrix("clip", clips=asked, missing="nan"))
    assert np.isnan(filled[:2]).all()
    np.testing.assert_array_equal(filled[2], X[ids.index("film02-001")])
    kept = store.matrix("clip", missing="drop")
    assert list(kept.clip_ids) == ids[:5] + ids[6:200]
    assert set(kept.reasons) == {ids[5], *ids[200:]}
    assert all(kept.reasons.values())

    # A task has the clips that have a label and features, each with its own row.
    of_task = og.dataset("part", "films", task="EN_S", array="clip")
    levels = {row["clip_id"]: row["level"] for row in labelled_clips()}
    expected = [clip for clip in kept.clip_ids if levels[clip] != "HN"]
    assert of_task.ids.tolist() == expected
    np.testing.assert_array_equal(of_task.X, X[[ids.index(clip) for clip in expected]])


def test_tables_of_pandas_and_xarray(planted: Workspace) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("xarray")
    rows = labelled_clips()
    ids = [row["clip_id"] for row in rows]
    X = features_of(rows, level=1.0, concepts=1.0)
    store = og.open_store("planted")

    frame = store.frame("clip")
    assert frame.index.tolist() == ids
    np.testing.assert_array_equal(frame.to_numpy(), X)
    labels = og.read_manifest("films").to_frame()
    # The mean of column 0 by level, once by pandas, once by hand.
    means = frame.iloc[:, 0].groupby(labels["level"]).mean()
    is_s = np.array([row["level"] == "S" for row in rows])
    assert np.isclose(means["S"], X[is_s, 0].mean())

    dataset = store.to_xarray()
    values = dataset["clip"]
    assert values.shape == X.shape
    assert dataset["clip_id"].to_numpy().tolist() == ids
    one_film = values[(dataset["movie_id"] == "film03").to_numpy()]
    of_film = [number for number, row in enumerate(rows) if row["movie_id"] == "film03"]
    np.testing.assert_array_equal(one_film, X[of_film])
