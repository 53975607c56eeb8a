"""Models of scikit-learn that are kept: without code, and as they were."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from support.experiments import films, planted, write_workspace

import obygaze as og
from obygaze_features.core.errors import Corrupt, FixInput, Mismatch
from obygaze_models.models.registry import OF_SKLEARN, class_of_name
from obygaze_models.models.state import load_state, save_state
from obygaze_models.zoo import read_model, save_model

FILMS = replace(films(4, 30), name="films")
OUTPUTS = ("predict_proba", "decision_function", "predict")


def rows() -> tuple[NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 5))
    return X, (X[:, 0] > 0).astype(np.int64)


def loaded(estimator: Any) -> Any:
    description, arrays = save_state(estimator)
    assert all(array.dtype.kind in "biuf" for array in arrays.values())
    return load_state(json.loads(json.dumps(description)), arrays)


@pytest.mark.parametrize("name", OF_SKLEARN)
def test_what_is_kept_is_as_it_was(name: str) -> None:
    X, y = rows()
    estimator = class_of_name(name)()
    if hasattr(estimator, "predict"):
        again = loaded(estimator.fit(X, y))
        for output in OUTPUTS:
            if hasattr(estimator, output):
                expected = getattr(estimator, output)(X)
                assert np.array_equal(getattr(again, output)(X), expected)
    else:
        pipeline = make_pipeline(estimator, og.SVMProbe()).fit(X, y)
        expected = pipeline.decision_function(X)
        assert np.array_equal(loaded(pipeline).decision_function(X), expected)


def test_what_is_no_arrays_and_numbers_is_not_kept() -> None:
    X, y = rows()
    for estimator in (RandomForestClassifier(2), SVC()):
        with pytest.raises(FixInput, match="cannot be kept: a kept model is arrays"):
            save_state(estimator.fit(X, y))
    # A file cannot name a class that is not in the list, nor a folder to write into.
    for kind, params in (("sklearn.svm.SVC", {}), ("RidgeProbe", {"memory": "/tmp/x"})):
        with pytest.raises(
            Corrupt, match=r"unknown estimator|memory is not a parameter"
        ):
            load_state({"kind": kind, "params": params}, {})


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_workspace(tmp_path, FILMS, planted(FILMS), "sig")
    monkeypatch.chdir(tmp_path)
    name = "sklearn.naive_bayes.GaussianNB"
    changes = ["report.replicates=20"]
    og.train(name, "sig", "films", changes=changes, output="nb", n_jobs=1)
    return tmp_path


def test_classes_in_the_other_order_are_predicted_as_they_are(kept: Path) -> None:
    saved = read_model("nb")
    other = clone(saved.estimator)
    for name, value in vars(saved.estimator).items():
        is_of_classes = isinstance(value, np.ndarray) and len(value) == 2
        setattr(other, name, value[::-1].copy() if is_of_classes else value)
    assert other.classes_.tolist() == [1, 0]
    X = og.open_store("sig").matrix("clip").values.astype(np.float64)
    info = saved.info
    save_model(other, replace_name(info), kept / "models" / "other", X)
    expected = og.predict("nb", "sig", in_sample=True).to_frame()
    found = og.predict("other", "sig", in_sample=True).to_frame()
    assert found["decision"].tolist() == expected["decision"].tolist()
    np.testing.assert_allclose(found["p:positive"], expected["p:positive"], atol=1e-12)


def replace_name(info: Any) -> Any:
    from msgspec import structs

    return structs.replace(info, name="other")


def test_a_loaded_model_takes_stores_and_rows_of_its_recipe(kept: Path) -> None:
    model = og.load_model("nb")
    X = og.open_store("sig").matrix("clip").values
    by_store = model.predict_proba("sig")
    np.testing.assert_array_equal(by_store, model.predict_proba(np.float64(X)))
    table = og.predict("nb", "sig", in_sample=True).to_frame()
    np.testing.assert_allclose(by_store[:, 1], table["p:positive"], atol=1e-12)
    assert og.predict(model, "sig", in_sample=True).to_frame().equals(table)
    write_workspace(kept / "other", FILMS, planted(FILMS, width=16), "sig")
    with pytest.raises(Mismatch, match="expects"):
        model.predict(str(kept / "other" / "stores" / "sig"))
