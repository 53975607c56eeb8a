"""Corrected concepts: the true values, the orders, the curves."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score

from obygaze_models.models.bottleneck import TrueValues, intervene
from obygaze_models.models.common import FixTraining
from obygaze_models.models.heads import LogisticHead

rng = np.random.default_rng(0)
HAS = rng.random((400, 3)) < 0.4
Y = np.where(HAS @ [2.0, 6.0, 0.2] + 0.5 * rng.logistic(size=400) > 3, "S", "HN")
MARGINS = np.where(HAS, 1.0, -1.0) + rng.normal(size=(400, 3)) * [0.3, 2.0, 2.0]
HEAD = LogisticHead(10.0).fit(np.where(HAS, 1.0, -1.0), Y)
VALUES = TrueValues(present=np.ones(3), absent=-np.ones(3))


def test_true_values_are_the_medians_of_each_side() -> None:
    margins = np.array([[0.0], [1.0], [2.0], [10.0], [20.0], [30.0]])
    has = np.array([[0], [0], [0], [1], [1], [1]])
    middle = TrueValues.from_training(margins, has)
    assert (middle.present[0], middle.absent[0]) == (20.0, 1.0)


@pytest.mark.parametrize("order", ["random", "greedy"])
def test_every_curve_starts_at_the_margins_and_ends_at_the_truth(order: str) -> None:
    fitting = (MARGINS[:200], HAS[:200], Y[:200])
    curve = intervene(
        HEAD,
        MARGINS[200:],
        HAS[200:],
        Y[200:],
        VALUES,
        order=order,
        fitting=fitting,  # type: ignore[arg-type]
    )
    assert len(curve.f1) == len(curve.ap) == 4
    true = np.where(HAS[200:], 1.0, -1.0)
    for point, rows in ((0, MARGINS[200:]), (3, true)):
        p = HEAD.predict_proba(rows)[:, 1]
        assert curve.ap[point] == pytest.approx(
            average_precision_score(Y[200:] == "S", p)
        )
        assert curve.f1[point] == pytest.approx(f1_score(Y[200:] == "S", p > 0.5))
    assert curve.ap[-1] > curve.ap[0]


def test_greedy_corrects_first_what_helps_most() -> None:
    # The second concept matters and is noisy, the first is known already, the third hardly matters.
    curve = intervene(
        HEAD, MARGINS, HAS, Y, VALUES, order="greedy", fitting=(MARGINS, HAS, Y)
    )
    assert curve.sequence[0] == 1
    mixed = MARGINS.copy()
    mixed[:, 1] = np.where(HAS[:, 1], 1.0, -1.0)
    expected = average_precision_score(Y == "S", HEAD.predict_proba(mixed)[:, 1])
    assert curve.ap[1] == pytest.approx(expected)


def test_random_order_is_a_mean_over_draws_and_repeats_with_its_seed() -> None:
    one, same, other = (
        intervene(HEAD, MARGINS, HAS, Y, VALUES, order="random", seed=s)
        for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.ap, same.ap)
    assert not np.array_equal(one.ap, other.ap)
    (single,) = (intervene(HEAD, MARGINS, HAS, Y, VALUES, order="random", n_draws=1),)
    assert single.ap[0] == pytest.approx(one.ap[0], abs=1e-12)
    assert single.ap[1] != one.ap[1]


def test_greedy_without_training_rows_is_refused() -> None:
    with pytest.raises(FixTraining, match="training rows"):
        intervene(HEAD, MARGINS, HAS, Y, VALUES, order="greedy")


def test_a_concept_without_training_rows_is_refused() -> None:
    with pytest.raises(FixTraining, match="concept 1"):
        TrueValues.from_training(np.zeros((4, 2)), [[0, 1], [1, 1], [0, 1], [1, 1]])
