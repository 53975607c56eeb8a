from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score
from statsmodels.stats.multitest import multipletests

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.bootstrap import estimate
from obygaze_models.evaluation.permutation import holm
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.evaluation.sign_flips import N_SAMPLED, sign_flip_p


def two_models(seed: int, k: int = 6, gain: float = 0.0) -> tuple:
    """Two models on the same clips; the first is better by `gain`."""
    rng = np.random.default_rng(seed)
    film = np.repeat(np.arange(k), 15)
    y = rng.random(film.size) < 0.4
    first = np.clip(rng.random(film.size) + gain * y, 0, 1)
    second = rng.random(film.size)
    return Predictions.of(y, first), Predictions.of(y, second), film


class TestSignFlip:
    def test_by_hand(self) -> None:
        # Of the 8 sums of +-1 +-2 +-4, only 7 and -7 are as far out as 7; 5, -5, 7 and -7 as 5.
        assert sign_flip_p([1, 2, 4]) == (2 / 8, True)
        assert sign_flip_p([-1, 2, 4]) == (4 / 8, True)

    def test_ties_are_counted_though_sums_are_inexact(self) -> None:
        assert sign_flip_p([0.1, 0.2, 0.3])[0] == 2 / 8
        assert sign_flip_p([0.3, 0.2, -0.1, 0.1, 0.1])[0] == self.enumerated(
            [3, 2, -1, 1, 1]
        )

    @pytest.mark.parametrize("unit", [1e-300, 1e-12, 1.0, 1e12])
    def test_ties_scale_with_the_differences(self, unit: float) -> None:
        """Of three positive differences two of eight patterns are as extreme: p is 1/4."""
        assert sign_flip_p(np.array([0.1, 0.2, 0.3]) * unit)[0] == 2 / 8
        assert sign_flip_p(np.zeros(3) * unit)[0] == 1

    @staticmethod
    def enumerated(d: list[int]) -> float:
        sums = [abs(sum(s * x for s, x in zip(signs, d, strict=True)))
                for signs in itertools.product([1, -1], repeat=len(d))]  # fmt: skip
        return sum(s >= abs(sum(d)) for s in sums) / len(sums)

    def test_against_scipy(self) -> None:
        d = np.random.default_rng(2).normal(0.3, 1, 12)
        theirs = stats.permutation_test(
            (d,), np.mean, permutation_type="samples", n_resamples=np.inf
        )
        assert sign_flip_p(d) == (pytest.approx(theirs.pvalue), True)

    def test_a_film_without_a_value_is_left_out(self) -> None:
        assert sign_flip_p([1, np.nan, 2, 4]) == sign_flip_p([1, 2, 4])

    def test_many_films_are_sampled_and_say_so(self) -> None:
        d = np.random.default_rng(3).normal(0.2, 1, 40)
        p, exact = sign_flip_p(d)
        assert not exact
        # With 40 films the flipped mean is nearly Gaussian with variance sum(d^2) / 40^2.
        z = d.mean() / np.sqrt((d**2).sum()) * 40
        assert p == pytest.approx(2 * stats.norm.sf(abs(z)), abs=0.015)
        assert (p, exact) == sign_flip_p(d)
        assert p != sign_flip_p(d, seed=1)[0]

    def test_a_sampled_p_is_never_zero(self) -> None:
        p, _ = sign_flip_p(np.ones(60))
        assert p == pytest.approx(1 / (N_SAMPLED + 1))

    def test_refusals(self) -> None:
        with pytest.raises(FixInput):
            sign_flip_p([np.nan])
        with pytest.raises(FixInput):
            sign_flip_p([np.inf, 1])


class TestDifference:
    def test_a_difference_of_accuracies_is_a_mean(self) -> None:
        first, second, film = two_models(1, k=12, gain=0.3)
        found = estimate(first, film, ["accuracy", "auc"], minus=second)
        right = (first.decision == first.y).astype(float) - (
            second.decision == second.y
        )
        of_film = np.array([right[film == k].mean() for k in range(12)])
        low, high = stats.t.interval(0.95, 11, of_film.mean(), stats.sem(of_film))
        accuracy = found["accuracy"]
        assert accuracy.value == pytest.approx(right.mean())
        assert accuracy.by_film.low == pytest.approx(low, abs=0.04)
        assert accuracy.by_film.high == pytest.approx(high, abs=0.04)
        ours, theirs = (
            roc_auc_score(model.y, model.score) for model in (first, second)
        )
        assert found["auc"].value == pytest.approx(ours - theirs)

    def test_pairing_takes_out_what_both_share(self) -> None:
        first, _, film = two_models(1, k=12, gain=0.3)
        nearly = Predictions.of(first.y, np.clip(first.score + 0.001, 0, 1))
        found = estimate(first, film, ["auc"], minus=nearly)["auc"]
        assert found.by_film.high - found.by_film.low < 0.01

    def test_other_clips_are_an_error(self) -> None:
        first, second, film = two_models(1)
        other = Predictions.of(~second.y, second.score)
        with pytest.raises(FixInput, match="not tested on the same clips"):
            estimate(first, film, ["auc"], minus=other)


class TestHolm:
    def test_by_hand(self) -> None:
        # .01 x 4, .02 x 3, .03 x 2 raised to .06, .9.
        np.testing.assert_allclose(
            holm([0.03, 0.01, 0.9, 0.02]), [0.06, 0.04, 0.9, 0.06]
        )

    def test_against_statsmodels(self) -> None:
        p = np.random.default_rng(0).random(20) ** 3
        np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1])

    @pytest.mark.parametrize("bad", [[], [1.2], [np.nan]])
    def test_refusals(self, bad: list) -> None:
        with pytest.raises(FixInput):
            holm(bad)
