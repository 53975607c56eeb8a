from __future__ import annotations

import numpy as np
import pytest

from obygaze_models.evaluation.bootstrap import Interval, expanded_tail, widen


def test_the_expanded_tail() -> None:
    # t(11) at .025 is -2.201; times sqrt(12/11) that is -2.2988, whose Gauss tail is .01076.
    assert expanded_tail(12) == pytest.approx(0.01076, abs=1e-5)
    assert expanded_tail(100_000) == pytest.approx(0.025, abs=1e-4)


class TestWiden:
    def test_plain(self) -> None:
        found = widen(np.array([-1.0, 0.5, 1.0]), 2.0, within_unit=False)
        assert found.tolist() == [-2.5, 0.5, 1.5]

    def test_logit(self) -> None:
        # The odds of .75 are 3 times those of .5: stretched by 2 they are 9 times.
        found = widen(np.array([0.25, 0.5, 0.75]), 2.0, within_unit=True)
        assert found == pytest.approx([0.1, 0.5, 0.9])

    @pytest.mark.parametrize("draws", [[0.0] * 5, [1.0] * 5, [0.0, 0.5, 1.0]])
    def test_zero_and_one_stay(self, draws: list[float]) -> None:
        assert widen(np.array(draws), 1.5, within_unit=True).tolist() == draws

    def test_no_stretch_changes_no_bit(self) -> None:
        draws = np.random.default_rng(0).random(50)
        assert widen(draws, 1.0, within_unit=True) is draws


def test_covers_includes_the_ends() -> None:
    interval = Interval(0.2, 0.4, 0.95, 12, 0, 1.0)
    assert [interval.covers(v) for v in (0.19, 0.2, 0.4, 0.41)] == [False, True, True, False]
    assert not Interval(np.nan, np.nan, 0.95, 1, 0, 1.0).covers(0.5)
