"""Dots in one row of a figure, none of which hides another, and bars as one artist."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obygaze_features.core.figures import spread_dots


def test_dots_that_would_hide_each_other_by_hand() -> None:
    assert spread_dots([], 1.0) == []
    assert spread_dots([3.0, 0.0, 10.0], 1.0) == [0.0, 0.0, 0.0]
    assert spread_dots([5.0, 5.0], 1.0) == [-0.5, 0.5]
    # 1.6 is near to 0.8, which is near to 0: one heap of three, in the order given.
    assert spread_dots([0.0, 9.0, 1.6, 0.8], 1.0) == [-1.0, 0.0, 0.0, 1.0]


@given(st.lists(st.floats(0, 100), max_size=12), st.floats(0.01, 20))
def test_any_two_dots_are_a_dot_or_a_step_apart(
    values: list[float], least: float
) -> None:
    moved = spread_dots(values, least)
    assert sum(moved) == pytest.approx(0)
    for i in range(len(values)):
        for j in range(i):
            assert abs(values[i] - values[j]) >= least or abs(moved[i] - moved[j]) >= 1
