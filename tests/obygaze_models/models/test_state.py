"""Saved estimators: plain data, a closed table of kinds, and nothing broken comes through."""

import json
from typing import Any

import numpy as np
import pytest
from support.fold_data import taught

from obygaze_features.core.errors import Corrupt, FixInput
from obygaze_models.models.bottleneck import PCBM
from obygaze_models.models.concepts import CAV
from obygaze_models.models.heads import LogisticHead, TreeHead
from obygaze_models.models.mlp import MLPProbe
from obygaze_models.models.registry import CLASSES, estimator_class
from obygaze_models.models.state import build_estimator, load_state, save_state

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
Y = np.where(X[:, 0] > 0, "S", "EN")


def test_a_kind_from_elsewhere_is_never_built() -> None:
    for kind in ("os.system", "SVC", "sklearn.svm.SVC", None, ["PCBM"], {}):
        with pytest.raises(Corrupt, match="unknown estimator"):
            build_estimator({"kind": kind, "params": {}})
    with pytest.raises(Corrupt, match="invalid params"):
        build_estimator({"kind": "LogisticHead", "params": {"command": "rm"}})


def test_a_setting_that_is_no_plain_data_is_refused() -> None:
    model = LogisticHead().fit(X, Y)
    model.C = np.float64  # type: ignore[assignment]
    with pytest.raises(FixInput, match="'C' is a type"):
        save_state(model)


def perceptron() -> MLPProbe:
    return MLPProbe((2,), max_epochs=5).fit(X, Y)


def saved() -> tuple[dict[str, Any], dict[str, Any]]:
    return save_state(taught(PCBM(CAV(C=0.1), LogisticHead()), X, Y))


@pytest.mark.parametrize(
    "name", ["bank_/coef_", "head_/mean_", "classes_#text", "n_features_in_"]
)
def test_a_missing_array_and_one_too_many_are_named(name: str) -> None:
    description, arrays = saved()
    with pytest.raises(Corrupt, match="'extra' in the saved CAV"):
        load_state(description, {**arrays, "bank_/extra": np.zeros(3)})
    del arrays[name]
    with pytest.raises(Corrupt, match=name.split("/")[-1].split("#")[0]):
        load_state(description, arrays)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("bank_/coef_", np.zeros((1, 9))),
        ("bank_/intercept_", np.array([np.nan])),
        ("head_/coef_", np.zeros(7)),
        ("n_features_in_", np.array(10**12)),
        ("n_features_in_", np.array(2.5)),
        ("classes_#text", np.full((2, 1), 0xFFFFFFFF, dtype=np.uint32)),
    ],
)
def test_arrays_that_do_not_fit_together_are_corrupt(name: str, wrong: Any) -> None:
    description, arrays = saved()
    with pytest.raises(Corrupt):
        load_state(description, {**arrays, name: wrong})


# A stump on the last of three columns, by hand: at most 0.5 goes to node 1, more to node 2.
STUMP: dict[str, Any] = {
    "left_": np.array([1, -1, -1]),
    "right_": np.array([2, -1, -1]),
    "feature_": np.array([2, -2, -2]),
    "threshold_": np.array([0.5, -2.0, -2.0]),
    "share_": np.array([0.5, 0.0, 1.0]),
    "n_rows_": np.array([4, 2, 2]),
}
STUMP_X = np.array([[9.0, 9.0, 0.0], [9.0, 9.0, 1.0]] * 6)


def load_stump(**changed: Any) -> Any:
    head = TreeHead(1, min_samples_leaf=1).fit(STUMP_X, np.arange(12) % 2)
    description, arrays = save_state(head)
    return load_state(description, {**arrays, **STUMP, **changed})


def test_a_tree_by_hand_is_loaded() -> None:
    head = load_stump()
    assert head.predict_proba([[9.0, 9.0, 0.5], [9.0, 9.0, 0.6]])[:, 1].tolist() == [
        0.0,
        1.0,
    ]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("left_", [np.iinfo(np.int64).max, -1, -1]),
        ("right_", [3, -1, -1]),
        ("right_", [0, 0, 0]),
        ("feature_", [-1, -2, -2]),
        ("feature_", [4, 0, 0]),
        ("n_rows_", [4, 2]),
        ("share_", [0.5, 0.0]),
        ("threshold_", [0.5, np.nan, -2.0]),
        ("share_", [0.5, 0.0, 1.1]),
    ],
)
def test_an_invalid_tree_is_refused(name: str, wrong: list[Any]) -> None:
    with pytest.raises(Corrupt, match="not a valid tree"):
        load_stump(**{name: np.array(wrong)})


def test_a_list_with_a_gap_is_corrupt() -> None:
    description, arrays = save_state(perceptron())
    arrays["layers_/3"] = arrays.pop("layers_/1")
    with pytest.raises(Corrupt, match="has no item"):
        load_state(description, arrays)


# Vectors have targets in place of classes, sentences learn from no row, and the others scale.
NO_CLASSIFIERS = {"CAV", "ZeroShot", "PartScaling", "Scaling"}
SETTINGS = {"PCBM": {"bank": CAV(C=0.1), "cross_fit": 3}}
ESTIMATORS: list[Any] = [
    estimator_class(name)(**SETTINGS.get(name, {}))
    for name in CLASSES
    if name not in NO_CLASSIFIERS
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_saved_and_loaded_predicts_the_same(estimator: Any) -> None:
    if isinstance(estimator, PCBM):
        taught(estimator, X, Y)
    elif isinstance(estimator, MLPProbe):
        estimator = perceptron()
    else:
        estimator.fit(X, Y)
    description, arrays = save_state(estimator)
    assert all(array.dtype.kind in "fiub" for array in arrays.values())
    again: Any = load_state(json.loads(json.dumps(description)), arrays)
    answer = (
        "predict_proba" if hasattr(estimator, "predict_proba") else "decision_function"
    )
    np.testing.assert_array_equal(
        getattr(again, answer)(X), getattr(estimator, answer)(X)
    )
