"""Concept vectors: the paper's machines, their tolerances, and margins that saw nothing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.svm import SVC
from support.fold_data import fold_data_of

from obygaze_models.models.common import FixTraining
from obygaze_models.models.concepts import CAV, TOLERANCES, subsample
from obygaze_models.models.examples import concept_targets
from obygaze_models.models.fitting import fit
from obygaze_models.models.linear_solvers import optimal_biases

NAMES = ("Body", "Look", "Clothing")


def clips(n=240, width=30, strength=2.0):
    """Rows, three concepts planted along the first three axes, and films."""
    rng = np.random.default_rng(4)
    has = rng.random((n, 3)) < (0.3, 0.2, 0.15)
    X = rng.normal(size=(n, width))
    X[:, :3] += strength * has
    return X, has.astype(int), rng.integers(0, 8, n)


def test_rows_left_out_take_no_part() -> None:
    X, Y, _ = clips()
    Y = Y.copy()
    Y[:100, 1] = -1
    bank = CAV(NAMES, C=0.05).fit(X, Y)
    alone = CAV(["Look"], C=0.05).fit(X[100:], Y[100:, 1])
    np.testing.assert_allclose(bank.coef_[1], alone.coef_[0], rtol=0, atol=1e-12)


def test_the_inner_tolerance_is_the_one_with_the_best_precision_on_other_films():
    X, Y, films = clips(strength=0.8)
    variance = ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    grid = np.array([0.03, 0.1, 0.3, 1, 3, 10]) / variance
    bank = CAV(NAMES).fit(X, Y, groups=films)
    for i in range(3):
        scores = []
        for C in grid:
            parts = StratifiedGroupKFold(3).split(X, Y[:, i], films)
            scores.append(
                np.mean(
                    [
                        average_precision_score(
                            Y[test, i],
                            SVC(C=C, kernel="linear", class_weight="balanced")
                            .fit(X[train], Y[train, i])
                            .decision_function(X[test]),
                        )
                        for train, test in parts
                    ]
                )
            )
        assert bank.C_[i] == pytest.approx(grid[int(np.argmax(scores))])


def test_tolerances_by_name_must_name_every_concept() -> None:
    X, Y, _ = clips()
    assert CAV(NAMES, C={"Body": 1, "Look": 2, "Clothing": 3}).fit(
        X, Y
    ).C_.tolist() == [*(1.0, 2.0, 3.0)]
    with pytest.raises(FixTraining, match="C has no value") as refusal:
        CAV(NAMES, C={"Body": 1, "Look": 2}).fit(X, Y)
    assert refusal.value.where == "concept Clothing"


def test_a_balanced_draw_keeps_all_of_the_smaller_side() -> None:
    positive = np.arange(100) < 20
    kept = subsample(positive, [0, 0])
    assert positive[kept].sum() == 20
    assert (~positive[kept]).sum() == 20
    assert not np.array_equal(kept, subsample(positive, [1, 0]))
    X, Y, _ = clips()
    banks = [
        CAV(C=0.05, balance="subsample", random_state=s).fit(X, Y) for s in (0, 0, 1)
    ]
    np.testing.assert_array_equal(banks[0].coef_, banks[1].coef_)
    assert not np.array_equal(banks[0].coef_, banks[2].coef_)


def test_without_balance_it_is_the_machine_of_libsvm_without_weights() -> None:
    X, Y, _ = clips()
    bank = CAV(C=0.05, balance=None, unit_norm=False).fit(X, Y[:, :1])
    exact = SVC(C=0.05, kernel="linear", tol=1e-8).fit(X, Y[:, 0])
    margins = bank.transform(X)[:, 0]
    np.testing.assert_allclose(margins, exact.decision_function(X), atol=0.01)


def test_targets_hold_no_other_number() -> None:
    X, Y, _ = clips()
    with pytest.raises(FixTraining, match="got 0, 1, 2"):
        CAV(C=0.1).fit(X, Y + (Y > 0) * (np.arange(240) % 2)[:, None])


def test_without_inner_folds_the_middle_tolerance_is_taken() -> None:
    X, Y, _ = clips(40, width=3)
    bank = CAV(["Body"]).fit(X, Y[:, :1], groups=np.zeros(40))
    variance = ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert pytest.approx(1 / variance) == bank.C_


def test_what_a_concept_is_told_apart_from() -> None:
    levels = np.array(["EN", "HN", "HN", "NS", "S", "S"])
    has = np.array([[0], [1], [0], [1], [1], [0]], dtype=bool)
    expected = {"EN": [0, 1, -1, -1, 1, -1], "absent": [0, 1, 0, -1, 1, 0]}
    for against, column in expected.items():
        assert concept_targets(levels, has, against)[:, 0].tolist() == column  # type: ignore[arg-type]


def test_a_machine_that_leaves_its_bias_open_stands_midway_between_both_sides():
    # All rows lie inside the margin of so tolerant a machine. Means of the sides: 0.3 and 0.1; the
    # middle of the biases that are left open, which libsvm takes, is (0.36 + 0.06) / 2 = 0.21.
    X = np.array([[0.30], [0.36], [0.24], [0.10], [0.06], [0.14], [0.10]])
    y = np.array([1, 1, 1, 0, 0, 0, 0])
    bank = CAV(["there"], C=0.001).fit(X, y[:, None])
    assert bank.coef_[0, 0] == pytest.approx(1.0)
    assert bank.intercept_[0] == pytest.approx(-0.2)
    assert (bank.transform(X)[:, 0] > 0).tolist() == (y == 1).tolist()


def test_the_biases_that_are_left_open_by_hand() -> None:
    # Row with at 2, row without at 0: the loss is flat between bias -1 (both lose 1 in all) ...
    along, positive = np.array([0.5, 0.0]), np.array([True, False])
    assert optimal_biases(along, positive, np.ones(2)) == (-1.0, 0.5)
    # ... and with twice the weight without, it falls until the row without stops losing at -1.
    assert optimal_biases(along, positive, np.array([1.0, 2.0])) == (-1.0, -1.0)


def test_the_tolerance_over_folds_has_the_best_mean_f1_there() -> None:
    """As the text of the paper has it: a fold of the file is tested by a machine of the others."""
    X, Y, films = clips(strength=0.6)
    folds = films % 4
    targets = np.where((Y == 0) & (films[:, None] == 7), -1, Y)
    data = fold_data_of(X, Y[:, 0], NAMES, targets, None)
    bank: Any = fit(CAV(C="folds"), replace(data, file_folds=folds))
    chosen = dict(zip(bank.concepts_.tolist(), bank.C_.tolist(), strict=True))
    for column, name in enumerate(NAMES):
        used = targets[:, column] >= 0
        positive = targets[:, column] == 1
        means = []
        for C in TOLERANCES:
            scores = []
            for fold in range(4):
                train, tested = used & (folds != fold), used & (folds == fold)
                svm = SVC(C=C, kernel="linear", class_weight="balanced")
                called = svm.fit(X[train], positive[train]).predict(X[tested])
                scores.append(f1_score(positive[tested], called, zero_division=0))
            means.append(np.mean(scores))
        assert chosen[name] == TOLERANCES[int(np.argmax(means))]
    assert len(set(chosen.values())) > 1
