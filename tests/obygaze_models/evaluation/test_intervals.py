from __future__ import annotations

import numpy as np
import pytest
from obygaze_models.evaluation.intervals import Interval, Scale, bounds, expanded_tail

NONE = np.zeros(0)


def test_the_expanded_tail() -> None:
    # t(11) at .025 is -2.201; times sqrt(12/11) that is -2.2988, whose Gauss tail is .01076.
    assert expanded_tail(12) == pytest.approx(0.01076, abs=1e-5)
    assert expanded_tail(100_000) == pytest.approx(0.025, abs=1e-4)


class TestScale:
    def test_plain(self) -> None:
        scale = Scale(within_unit=False, stretch=2.0)
        assert scale.widen(np.array([-1.0, 0.5, 1.0])).tolist() == [-2.5, 0.5, 1.5]

    def test_logit(self) -> None:
        # The odds of .75 are 3 times those of .5: stretched by 2 they are 9 times.
        scale = Scale(within_unit=True, stretch=2.0)
        assert scale.widen(np.array([0.25, 0.5, 0.75])) == pytest.approx([0.1, 0.5, 0.9])

    def test_zero_and_one_stay(self) -> None:
        scale = Scale(within_unit=True, stretch=1.5)
        assert scale.widen(np.zeros(5)).tolist() == [0.0] * 5
        assert scale.widen(np.ones(5)).tolist() == [1.0] * 5
        assert scale.widen(np.array([0.0, 0.5, 1.0])).tolist() == [0.0, 0.5, 1.0]

    def test_no_stretch_changes_no_bit(self) -> None:
        draws = np.random.default_rng(0).random(50)
        assert Scale(True, 1.0).widen(draws) is draws


class TestBounds:
    plain = Scale(False, 1.0)

    def test_percentiles(self) -> None:
        draws = np.arange(101) / 100
        found = bounds("percentile", draws, 0.5, NONE, 12, 0.1, self.plain)
        assert found == pytest.approx((0.05, 0.95))

    def test_an_unskewed_unbiased_bca_is_the_percentile(self) -> None:
        draws = np.arange(101) / 100
        left_out = np.array([0.4, 0.5, 0.6])
        found = bounds("bca", draws, 0.5, left_out, 3, 0.1, self.plain)
        assert found == pytest.approx((0.05, 0.95))

    @pytest.mark.parametrize(
        ("k", "draws", "point"), [(1, np.ones(3), 1.0), (3, NONE, 1.0), (3, np.ones(3), np.nan)]
    )
    def test_nothing_to_say(self, k: int, draws: np.ndarray, point: float) -> None:
        assert np.isnan(bounds("expanded", draws, point, NONE, k, 0.05, self.plain)).all()

    def test_a_jackknife_of_one(self) -> None:
        found = bounds("jackknife", np.ones(3), 1.0, np.ones(1), 3, 0.05, self.plain)
        assert np.isnan(found).all()


def test_covers_includes_the_ends() -> None:
    interval = Interval(0.2, 0.4, 0.95, "expanded", "movie", 12, 100, 0, 1.0)
    assert [interval.covers(v) for v in (0.19, 0.2, 0.4, 0.41)] == [False, True, True, False]
    assert not Interval(np.nan, np.nan, 0.95, "x", "movie", 1, 100, 0, 1.0).covers(0.5)
