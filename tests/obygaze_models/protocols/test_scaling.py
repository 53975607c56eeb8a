"""`data.scale = "standard"` scales features as the training clips of each fit, and no others."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from support.experiments import films
from support.fold_data import fold_data_of

from obygaze_features.manifest.model import Manifest
from obygaze_models.models.common import Scaling
from obygaze_models.models.concepts import ConceptBank


@pytest.fixture
def manifest() -> Manifest:
    return films(4, 40, seed=1)


def test_concept_vectors_of_scaled_rows_read_rows_as_they_are() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(90, 6)) * [1, 5, 25, 1, 1, 1] + 7
    targets = (X[:, [0, 3]] > 7).astype(np.int64)
    rows = np.arange(60)
    data = fold_data_of(X, targets[:, 0], ["a", "b"], targets, None)
    bank = ConceptBank(C=0.1, scaled=True).fit_on(data, rows)
    scaler = StandardScaler().fit(X[rows])
    expected = ConceptBank(["a", "b"], C=0.1).fit(
        scaler.transform(X[rows]), targets[rows]
    )
    of_scaled = expected.transform(scaler.transform(X))
    np.testing.assert_allclose(bank.transform(X), of_scaled, atol=1e-9)


def test_a_constant_feature_keeps_its_scale() -> None:
    X = np.array([[1.0, 5.0], [3.0, 5.0]])
    scaled = Scaling.of(X).scaled([[1.0, 7.0]])
    assert scaled.tolist() == [[-1.0, 2.0]]
