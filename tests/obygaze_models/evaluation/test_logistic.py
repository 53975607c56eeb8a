import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.linalg import fractional_matrix_power

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.logistic import (
    fit_logistic,
    is_separated,
    with_intercept,
)


def clips(seed: int = 0, n: int = 300, k: int = 12) -> tuple:
    rng = np.random.default_rng(seed)
    film = rng.integers(0, k, n)
    X = np.column_stack([rng.random(n) < 0.3, rng.random(n) < 0.5, rng.normal(size=n)])
    margin = X @ [1.0, -0.7, 0.4] + rng.normal(0, 0.7, k)[film]
    return X.astype(float), rng.random(n) < 1 / (1 + np.exp(-margin)), film


def table(a: int, b: int, c: int, d: int) -> tuple:
    """A two-by-two table: successes and failures with (a, b) and without (c, d) the factor."""
    x = np.repeat([1.0, 1.0, 0.0, 0.0], [a, b, c, d])
    return x[:, None], np.repeat([1, 0, 1, 0], [a, b, c, d])


class TestMaximumLikelihood:
    def test_against_statsmodels(self) -> None:
        X, y, _ = clips()
        ours, theirs = fit_logistic(X, y), sm.Logit(y, sm.add_constant(X)).fit(disp=0)
        np.testing.assert_allclose(ours.beta, theirs.params, rtol=1e-6)
        np.testing.assert_allclose(ours.se, theirs.bse, rtol=1e-6)
        np.testing.assert_allclose(ours.p, theirs.pvalues, rtol=1e-5)
        np.testing.assert_allclose(
            np.column_stack([ours.low, ours.high]), theirs.conf_int()
        )

    def test_errors_by_film_are_those_of_bell_and_mccaffrey(self) -> None:
        """CR2 as it is defined: residuals of a film, times the inverse root of what it moves."""
        X, y, film = clips(n=240)
        ours, design = fit_logistic(X, y, clusters=film), sm.add_constant(X)
        theirs = sm.Logit(y, design).fit(disp=0)
        p = theirs.predict()
        root_weight = np.sqrt(p * (1 - p))
        scaled, residual = design * root_weight[:, None], (y - p) / root_weight
        bread = np.linalg.inv(scaled.T @ scaled)
        meat = np.zeros_like(bread)
        for own in (film == name for name in np.unique(film)):
            hat = scaled[own] @ bread @ scaled[own].T
            score = (
                scaled[own].T
                @ fractional_matrix_power(np.eye(own.sum()) - hat, -0.5).real
            )
            score = score @ residual[own]
            meat += np.outer(score, score)
        se = np.sqrt(np.diag(bread @ meat @ bread))
        np.testing.assert_allclose(ours.se, se, rtol=1e-5)
        assert ours.errors == "films"
        # Eleven degrees of freedom: films less one.
        np.testing.assert_allclose(
            ours.high - ours.beta, stats.t.ppf(0.975, 11) * se, rtol=1e-5
        )
        np.testing.assert_allclose(
            ours.p, 2 * stats.t.sf(abs(theirs.params / se), 11), rtol=1e-4
        )

    def test_a_factor_found_in_one_film_has_no_error_by_film(self) -> None:
        X, y, film = clips(n=600)
        X[:, 0] *= film == 3
        fit = fit_logistic(X, y, clusters=film)
        assert np.isnan([fit.se[1], fit.low[1], fit.p[1]]).all()
        assert np.isfinite(fit.se[[0, 2, 3]]).all() and np.isfinite(fit.beta).all()
        assert np.isfinite(fit_logistic(X, y).se).all()


class TestFirth:
    @pytest.mark.parametrize("cells", [(30, 0, 12, 24), (7, 0, 3, 9), (5, 0, 0, 8)])
    def test_of_a_table_it_adds_a_half_to_each_cell(self, cells: tuple) -> None:
        a, b, c, d = (cell + 0.5 for cell in cells)
        fit = fit_logistic(*table(*cells))
        assert fit.beta[1] == pytest.approx(np.log(a * d / (b * c)), rel=1e-6)
        assert fit.beta[0] == pytest.approx(np.log(c / d), rel=1e-6)

    def test_chosen_only_if_it_must_be(self) -> None:
        assert fit_logistic(*table(7, 0, 3, 9)).method == "firth"
        assert fit_logistic(*table(7, 1, 3, 9)).method == "ml"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_every_table_of_clips_settles_where_the_score_is_zero(seed: int) -> None:
    """Few clips, rare factors, factors of any scale, success foretold: the score is zero there."""
    rng = np.random.default_rng(seed)
    n, width = int(rng.integers(8, 90)), int(rng.integers(1, 6))
    X = (rng.random((n, width)) < rng.uniform(0.05, 0.95, width)).astype(float)
    X[:, 0] = rng.normal(0, 10 ** rng.uniform(-3, 3), n)
    y = X[:, -1] > 0 if rng.random() < 0.3 else rng.random(n) < 0.6
    design = np.hstack([np.ones((n, 1)), X])
    if y.all() or not y.any() or np.linalg.matrix_rank(design) <= width:
        return
    fit = fit_logistic(X, y)
    p = 1 / (1 + np.exp(-np.clip(design @ fit.beta, -700, 700)))
    score = y - p
    if fit.method == "firth":
        root = design * np.sqrt(p * (1 - p))[:, None]
        base, _ = np.linalg.qr(root)
        score = score + (base**2).sum(axis=1) * (0.5 - p)
    np.testing.assert_allclose(
        score @ (design / np.abs(design).max(axis=0)), 0, atol=1e-4
    )
    assert np.isfinite(fit.se).all()


class TestSeparation:
    def test_by_a_mix_of_columns_only(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 2))
        y = X[:, 0] - 2 * X[:, 1] > 0.3
        assert is_separated(with_intercept(X, 60), y)
        y[np.argmax(X[:, 0] - 2 * X[:, 1])] = False
        assert not is_separated(with_intercept(X, 60), y)


def test_what_cannot_be_fitted_is_refused() -> None:
    X, y, _ = clips()
    with pytest.raises(FixInput, match="linearly dependent"):
        fit_logistic(np.column_stack([X, X[:, 0]]), y)
    with pytest.raises(FixInput, match="two films"):
        fit_logistic(X, y, clusters=np.zeros(y.size))
    X[3, 1] = np.nan
    with pytest.raises(FixInput, match="finite"):
        fit_logistic(X, y)
