import numpy as np
import pytest
from scipy import stats

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation import bootstrap, metrics
from obygaze_models.evaluation.bootstrap import (
    GroupCount,
    Interval,
    estimate,
    interval_from_draws,
    n_behind,
    ratio_interval,
    resample,
    reuse_inflation,
)
from obygaze_models.evaluation.error_analysis import analyse
from obygaze_models.evaluation.predictions import Predictions

SIZES = np.array([110, 132, 192, 169, 148, 120, 169, 135, 223, 182, 112, 222])


def films(seed: int, k: int = 12, effect: float = 0.6, scale: int = 1) -> tuple:
    """Clips whose truth and whose score both depend on the film, and not on each other."""
    rng = np.random.default_rng(seed)
    film = np.repeat(np.arange(k), rng.choice(SIZES // scale, k))
    of_film = rng.normal(0, effect, (2, k))[:, film]
    y = rng.random(film.size) < 1 / (1 + np.exp(1.2 - of_film[0]))
    score = 1 / (1 + np.exp(0.8 - of_film[1] - rng.normal(size=film.size)))
    return Predictions.of(y, score, films=film), film


class TestWeights:
    def test_blocks_are_as_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        predictions, film = films(0, k=4, scale=10)
        whole = estimate(predictions, ["auc"], n_replicates=50)
        monkeypatch.setattr(bootstrap, "BLOCK", 7 * 4)
        monkeypatch.setattr(metrics, "BLOCK", 3 * film.size)
        assert estimate(predictions, ["auc"], n_replicates=50) == whole


class TestReuse:
    """Pooled over folds, each clip also trained what the others tested."""

    def test_the_factor(self) -> None:
        # Nadeau and Bengio: 1/k + n_test/n_train over 1/k, with n_test/n_train = 1 / (k - 1).
        assert reuse_inflation(10) == pytest.approx((1 / 10 + 1 / 9) * 10)
        assert reuse_inflation(None) == 1
        with pytest.raises(FixInput, match="at least 2, got 1"):
            reuse_inflation(1)


class TestRefusals:
    def test_a_single_replicate(self) -> None:
        with pytest.raises(FixInput, match="n_replicates must be at least 2, got 1"):
            resample(lambda weights: {"sum": weights.sum(axis=1)}, 3, n_replicates=1)

    def test_groups_or_factors_of_another_length(self) -> None:
        with pytest.raises(FixInput):
            Predictions.of([1, 0], [0.1, 0.2], films=["a"])
        with pytest.raises(FixInput, match="'a'"):
            analyse([1, 0, 1], {"a": [1, 0]})


def test_clusters_of_which_nothing_is_counted_have_no_share() -> None:
    """Five of twelve films have ten words each; the share is the mean of five numbers."""
    names = [f"f{number:02d}" for number in range(12)]
    tops = np.array([2, 3, 4, 5, 6, *[0] * 7])
    bottoms = np.array([10] * 5 + [0] * 7)
    low, high = ratio_interval(tops, bottoms, names, most=1)
    half = stats.t.ppf(0.975, 4) * (tops[:5] / 10).std(ddof=1) / 5**0.5
    assert low is not None and high is not None
    assert 0.4 - low == pytest.approx(half, rel=0.25)
    assert high - 0.4 == pytest.approx(half, rel=0.25)
    assert ratio_interval([0] * 3, [0] * 3, names[:3]) == [None, None]
    assert ratio_interval([1, 3, 0], [9, 9, 0], names[:3]) == [None, None]


@pytest.mark.parametrize(("n_right", "n"), [(38, 40), (199, 200), (10, 10)])
def test_a_nearly_perfect_value_is_no_surer_than_so_many_clips(n_right, n) -> None:
    y = np.array([True] * n + [False] * 3 * n)
    value = n_right / n
    narrow = Interval(value - 1e-3, value)
    # AP is a mean over positive clips, AUC over those of the rarer class: here the same ones.
    assert n_behind("ap", y) == n_behind("auc", y) == n
    assert n_behind("ap", ~y) == 3 * n
    assert n_behind("auc", ~y) == n
    found = bootstrap.not_narrower_than_clips(narrow, value, n)
    wilson = stats.binomtest(n_right, n).proportion_ci(0.95, method="wilson")
    assert found.low == pytest.approx(wilson.low)
    assert found.high == pytest.approx(wilson.high)
    inside = estimate(
        Predictions.of(
            y, np.where(y, 1.0, 0.0) - np.eye(1, 4 * n)[0], films=np.arange(4 * n) % 12
        ),
        ["auc"],
        n_replicates=50,
    )["auc"]
    of_value = stats.binomtest(n, n).proportion_ci(0.95, method="wilson")
    assert inside.value > 0.9
    assert inside.by_film.low < of_value.low


def test_draws_of_one_do_not_make_an_interval_of_values_near_one_useless() -> None:
    # One of 150 pairs is out of order, and in more than half of the draws it is not there.
    rng = np.random.default_rng(0)
    draws = np.where(rng.random(2000) < 0.6, 1.0, rng.uniform(0.96, 0.994, 2000))
    for k, inflation in ((9, 4.0), (5, 1.0)):
        groups = GroupCount(k, k)
        interval = interval_from_draws(
            draws, 0.9936, groups, within_unit=True, inflation=inflation
        )
        assert 0.5 < interval.low < 0.97 and interval.high > 0.999
    # Draws that are 1 are so after widening too.
    moved = bootstrap.widen(draws, 2.0, within_unit=True)
    assert np.array_equal(moved == 1, draws == 1)


@pytest.mark.parametrize("inflation", [1.0, 2.0])
@pytest.mark.parametrize("k", [4, 12])
def test_a_statistic_that_may_be_negative_is_widened_as_it_is(k, inflation) -> None:
    """Such as alpha: on the logit scale, draws below 0 would all count as 0."""
    draws = np.random.default_rng(0).normal(-0.2, 0.1, 2000)
    groups = GroupCount(k, k)
    found = interval_from_draws(draws, -0.2, groups, inflation=inflation)
    half = stats.t.ppf(0.975, k - 1) * draws.std() * (inflation * k / (k - 1)) ** 0.5
    expected = np.median(draws) + half * np.array([-1, 1])
    np.testing.assert_allclose([found.low, found.high], expected, atol=0.02)
