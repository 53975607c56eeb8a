from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.permutation import holm
from obygaze_models.evaluation.sign_flips import N_SAMPLED, sign_flip_p


class TestSignFlip:
    @pytest.mark.parametrize("unit", [1e-300, 1e-12, 1.0, 1e12])
    def test_ties_scale_with_the_differences(self, unit: float) -> None:
        """Of three positive differences two of eight patterns are as extreme: p is 1/4."""
        assert sign_flip_p(np.array([0.1, 0.2, 0.3]) * unit)[0] == 2 / 8
        assert sign_flip_p(np.zeros(3) * unit)[0] == 1

    def test_many_films_are_sampled_and_say_so(self) -> None:
        d = np.random.default_rng(3).normal(0.2, 1, 40)
        p, exact = sign_flip_p(d)
        assert not exact
        # With 40 films the flipped mean is nearly Gaussian with variance sum(d^2) / 40^2.
        z = d.mean() / np.sqrt((d**2).sum()) * 40
        assert p == pytest.approx(2 * stats.norm.sf(abs(z)), abs=0.015)
        assert (p, exact) == sign_flip_p(d)

    def test_a_sampled_p_is_never_zero(self) -> None:
        p, _ = sign_flip_p(np.ones(60))
        assert p == pytest.approx(1 / (N_SAMPLED + 1))


class TestHolm:
    def test_against_statsmodels(self) -> None:
        p = np.random.default_rng(0).random(20) ** 3
        np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1])

    @pytest.mark.parametrize("bad", [[], [1.2], [np.nan]])
    def test_refusals(self, bad: list) -> None:
        with pytest.raises(FixInput):
            holm(bad)
