"""Every estimator of the room passes scikit-learn's own checks, and survives being saved."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from obygaze_models.models.concepts import ConceptBank
from obygaze_models.models.estimator import load_state, save_state
from obygaze_models.models.registry import CLASSES, estimator_class

# Vectors have targets in place of classes, sentences learn from no row, and estimators of others
# are what they are.
NO_CLASSIFIERS = {"ConceptBank", "ZeroShot", "OwnClassifier"}
SETTINGS = {"Bottleneck": {"bank": ConceptBank(C=0.1), "cross_fit": 3}}
ESTIMATORS: list[Any] = [
    estimator_class(name)(**SETTINGS.get(name, {}))
    for name in CLASSES
    if name not in NO_CLASSIFIERS
]
BANKS: list[Any] = [ConceptBank()]


# One test for each of hundreds of checks would take as long as the checks.
@pytest.mark.parametrize("estimator", ESTIMATORS + BANKS, ids=str)
@pytest.mark.filterwarnings("ignore")
def test_sklearn_contract(estimator: Any) -> None:
    check_estimator(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_saved_and_loaded_predicts_the_same(estimator: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=80) > 0, "S", "EN")
    estimator.fit(X, y)
    description, arrays = save_state(estimator)
    assert all(array.dtype.kind in "fiub" for array in arrays.values())
    again: Any = load_state(json.loads(json.dumps(description)), arrays)
    answer = (
        "predict_proba" if hasattr(estimator, "predict_proba") else "decision_function"
    )
    np.testing.assert_array_equal(
        getattr(again, answer)(X), getattr(estimator, answer)(X)
    )
    np.testing.assert_array_equal(again.predict(X), estimator.predict(X))
