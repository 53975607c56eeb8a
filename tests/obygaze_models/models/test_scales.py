"""Features of any scale: fitted as those of deviation 1, or refused before the fit, in words."""

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from support.experiments import films
from support.fold_data import fold_data_of

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import Manifest
from obygaze_models.models import registry
from obygaze_models.models.concepts import CAV
from obygaze_models.models.fitting import fit
from obygaze_models.models.linear import LogisticProbe, RidgeProbe, SVMProbe
from obygaze_models.models.linear_solvers import machines_on
from obygaze_models.models.scaling import Scaling

N, D = 112, 8
STANDARD = "use --set data.scale=standard"


def world(deviation: float) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Clips that no plane separates, with the films of each."""
    random = np.random.default_rng(0)
    y = np.arange(N) % 2
    X = random.standard_normal((N, D))
    X[:, 0] += y
    return (X * deviation).astype(np.float32), y, np.arange(N) // 14


@pytest.mark.parametrize("probe", [RidgeProbe, LogisticProbe])
@pytest.mark.parametrize("scale", [2.0**-60, 2.0**60, 2.0**100])
def test_what_a_scale_does_not_change_is_fitted(probe: Any, scale: float) -> None:
    X, y, groups = world(1.0)
    penalty = {} if probe is RidgeProbe else {"C": 1.0}
    expected = probe(**penalty).fit(X, y, groups).decision_function(X)
    if penalty:
        # The penalty of a coefficient grows with the square of the scale.
        penalty = {"C": scale**-2}
    found = probe(**penalty).fit(X * scale, y, groups).decision_function(X * scale)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["svm", "mlp"])
def test_values_without_end_are_refused(kind: str) -> None:
    X, y, groups = world(1e30)
    probe = registry.build(kind, registry.default_settings(kind), seed=0)
    data = fold_data_of(X, y, [], np.zeros((len(y), 0), dtype=np.int64), groups)
    with pytest.raises(FixInput, match=r"values up to [34]e\+30") as refusal:
        fit(probe, data)
    assert refusal.value.hint == STANDARD


@pytest.mark.parametrize("n_clips", [N, registry.PRIMAL_CLIPS])  # both solvers
def test_a_machine_without_end_is_refused_before_it_begins(n_clips: int) -> None:
    random = np.random.default_rng(1)
    X = random.standard_normal((n_clips, D)) * 1000
    y = random.integers(0, 2, n_clips)
    variance = float(np.var(X, axis=0).sum())
    with pytest.raises(FixInput, match=re.escape(f"got {variance:.1g}: ")) as refusal:
        SVMProbe().fit(X, y)
    assert refusal.value.hint == STANDARD
    # The small tolerance of a concept counts: .005 of 8e6 is below the bound of 5e4.
    assert variance * 0.005 < 5e4 < variance * 0.05
    with pytest.raises(FixInput, match=r"tolerance 0\.05"):
        machines_on(X).svm(np.arange(n_clips), y == 1, 0.05)


def test_a_machine_of_a_large_tolerance_ends_or_is_refused() -> None:
    X, y, _ = world(30.0)
    with pytest.raises(FixInput, match="did not converge in 500,000 steps") as refusal:
        SVMProbe(100.0).fit(X, y)
    assert str(refusal.value.hint).startswith(STANDARD)


@pytest.mark.parametrize("solver", ["libsvm", "primal"])
def test_a_clip_that_is_not_fitted_may_have_any_values(solver: str) -> None:
    """A clip without a label may be broken; what others of the store give is not less right."""
    X, y, _ = world(1.0)
    rows = np.arange(1, N)
    normal, bias = machines_on(X, solver).svm(rows, y[rows] == 1, 1.0)
    for broken in (1e4, 1e20):
        others = X.astype(np.float64)
        others[0] *= broken
        found = machines_on(others, solver).svm(rows, y[rows] == 1, 1.0)
        np.testing.assert_allclose(found[0], normal, rtol=0, atol=1e-9)
        assert found[1] == pytest.approx(bias, abs=1e-9)


@pytest.fixture
def manifest() -> Manifest:
    return films(4, 40, seed=1)


def test_concept_vectors_of_scaled_rows_read_rows_as_they_are() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(90, 6)) * [1, 5, 25, 1, 1, 1] + 7
    targets = (X[:, [0, 3]] > 7).astype(np.int64)
    rows = np.arange(60)
    bank = CAV(C=0.1, scaled=True).fit(X[rows], targets[rows])
    scaler = StandardScaler().fit(X[rows])
    expected = CAV(["a", "b"], C=0.1).fit(scaler.transform(X[rows]), targets[rows])
    of_scaled = expected.transform(scaler.transform(X))
    np.testing.assert_allclose(bank.transform(X), of_scaled, atol=1e-9)


def test_a_constant_feature_keeps_its_scale() -> None:
    X = np.array([[1.0, 5.0], [3.0, 5.0]])
    scaled = Scaling().fit(X).scale([[1.0, 7.0]])
    assert scaled.tolist() == [[-1.0, 2.0]]
