"""What costs little on many films has the values of the plain way, worked out on small ones."""

import numpy as np
import pytest
from scipy import optimize
from sklearn.linear_model import Ridge
from support.experiments import films, planted, quick, store_of

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation import logistic
from obygaze_models.models import linear, linear_solvers
from obygaze_models.protocols import schedule
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.store_run import store_runs


def test_one_factor_is_separated_where_a_linear_program_says_so() -> None:
    rng = np.random.default_rng(0)
    answers = set()
    for _ in range(60):
        x = rng.integers(0, 6, size=5).astype(float)
        y = rng.random(5) < 0.5
        if np.ptp(x) == 0:
            continue
        signed = np.column_stack([np.ones(5), x]) * np.where(y, 1, -1)[:, None]
        solved = optimize.linprog(
            -signed.sum(0), A_ub=-signed, b_ub=np.zeros(5), bounds=(-1, 1)
        )
        expected = bool(-solved.fun > 1e-7)
        assert logistic.is_separated(np.column_stack([np.ones(5), x]), y) == expected
        answers.add(expected)
    assert answers == {False, True}


@pytest.mark.parametrize(("block_rows", "width"), [(1, 8), (7, 50), (2000, 8)])
def test_films_of_many_sizes_are_left_out_as_by_refitting(
    block_rows, width, monkeypatch
):
    monkeypatch.setattr(linear, "BLOCK_ROWS", block_rows)
    rng = np.random.default_rng(7)
    films_of_rows = rng.permutation(np.repeat(np.arange(6), [1, 2, 2, 9, 9, 12]))
    X = rng.normal(size=(35, width)) + 2
    targets = rng.normal(size=(35, 1))
    found = linear.RidgePath(X, targets).left_out([0.5, 20.0], films_of_rows)
    for number, alpha in enumerate((0.5, 20.0)):
        for film in range(6):
            out = films_of_rows == film
            model = Ridge(alpha=alpha).fit(X[~out], targets[~out, 0])
            expected = targets[out, 0] - model.predict(X[out])
            np.testing.assert_allclose(found[number, out, 0], expected, rtol=1e-9)


def test_so_many_splits_that_fits_never_end_are_refused(tmp_path, monkeypatch) -> None:
    """Four films have 12 pairs of a film that tests and one that validates."""
    manifest = films(4, 12)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    protocol = quick("honest", "splits.validation=each")
    inputs = gather(protocol, manifest, "", {"x": store})
    monkeypatch.setattr(schedule, "MOST_SPLITS", 12)
    store_runs(inputs)
    monkeypatch.setattr(schedule, "MOST_SPLITS", 11)
    with pytest.raises(FixInput, match="expected at most 11 splits, got 12"):
        store_runs(inputs)


def test_products_larger_than_the_machine_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(linear_solvers, "most_bytes", lambda: 8 * 99**2)
    assert linear_solvers.Gram(np.ones((99, 2))).products.shape == (99, 99)
    with pytest.raises(FixInput, match="the products of 100 clips need"):
        linear_solvers.Gram(np.ones((100, 2))).products  # noqa: B018
