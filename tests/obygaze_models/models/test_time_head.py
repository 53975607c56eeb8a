"""A bottleneck over time: planted orders, peaks and shares of time, and their rules."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu
from sklearn.metrics import average_precision_score

from obygaze_models.models.bottleneck import Bottleneck, TrueValues, intervene
from obygaze_models.models.concepts import ConceptBank
from obygaze_models.models.estimator import load_state, save_state
from obygaze_models.models.heads import LogisticHead
from obygaze_models.models.time_head import MAXIMUM, MEAN, TimeHead, _auc, pool_in_time

N_FRAMES, WIDTH, STRENGTH = 8, 10, 5.0
# Strengths [frames, 2 concepts].
Marks = Callable[[np.random.Generator, bool], NDArray[Any]]


def order(rng: np.random.Generator, positive: bool) -> NDArray[Any]:
    """A before B, or B before A, anywhere in the clip."""
    marks, places = (
        np.zeros((N_FRAMES, 2)),
        np.sort(rng.choice(N_FRAMES, 2, replace=False)),
    )
    marks[places if positive else places[::-1], [0, 1]] = STRENGTH
    return marks


def peak(rng: np.random.Generator, positive: bool) -> NDArray[Any]:
    """A strongly in one frame, or weakly in all, with the same mean."""
    marks = np.zeros((N_FRAMES, 2))
    marks[:, 0] = 1.0
    if positive:
        marks[:, 0] = 0.0
        marks[rng.integers(N_FRAMES), 0] = N_FRAMES
    return marks


def share(rng: np.random.Generator, positive: bool) -> NDArray[Any]:
    """A in six frames or in two."""
    marks = np.zeros((N_FRAMES, 2))
    marks[rng.choice(N_FRAMES, 6 if positive else 2, replace=False), 0] = STRENGTH
    return marks


def planted(marks: Marks, seed: int) -> tuple[NDArray[Any], ...]:
    """Frames, class, concepts, film and use of clips: those of the task, and others for vectors."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, N_FRAMES, WIDTH))
    y, task = rng.random(400) < 0.5, np.arange(400) < 240
    has = rng.random((400, 2)) < 0.5
    for row in range(400):
        own = (
            marks(rng, bool(y[row]))
            if task[row]
            else np.outer(rng.random(N_FRAMES) < 0.5, has[row])
        )
        X[row, :, :2] += own if task[row] else STRENGTH * own
    has[task] = [marks(rng, True).any(axis=0)] * 240
    return X, y.astype(int), has.astype(int), np.arange(400) % 8, task


def fitted(model: Bottleneck, marks: Marks, seed: int = 0) -> float:
    """Fit on planted clips and return the average precision on other ones."""
    X, y, has, films, task = planted(marks, seed)
    model.fit(X, y, concepts=has, groups=films, rows=task)
    X, y, _, _, task = planted(marks, seed + 100)
    return float(average_precision_score(y[task], model.predict_proba(X[task])[:, 1]))


class Pooled(Bottleneck):
    """The bottleneck on the mean of frames."""

    def fit(self, X: Any, y: Any, *args: Any, **given: Any) -> Any:
        return super().fit(X.mean(axis=1), y, *args, **given)

    def predict_proba(self, X: Any) -> Any:
        return super().predict_proba(X.mean(axis=1))


@pytest.mark.parametrize(
    ("marks", "rule"), [(order, "before B"), (peak, "maximum"), (share, "mean")]
)
def test_the_rule_that_was_planted_is_found(marks: Marks, rule: str) -> None:
    model = Bottleneck(ConceptBank(["A", "B"], C=0.1), TimeHead())
    assert fitted(model, marks) > 0.9
    assert model.head_.rule_names(["A", "B"])[0] == rule
    pooled = fitted(Pooled(ConceptBank(["A", "B"], C=0.1), LogisticHead()), marks)
    print(rule, pooled)
    # Near the prevalence of about .5, except where the share of time is what was planted.
    assert pooled > 0.9 if marks is share else 0.35 < pooled < 0.65


def test_rules_by_hand() -> None:
    # A peaks second, B first.
    margins = np.array([[[0.0, 3.0], [2.0, 1.0], [1.0, 2.0]]])
    assert pool_in_time(margins, np.array([MAXIMUM, MEAN])).tolist() == [[2.0, 2.0]]
    assert pool_in_time(margins, np.array([1, 0])).tolist() == [[-0.5, 0.5]]


def test_the_area_is_that_of_scipy() -> None:
    rng = np.random.default_rng(0)
    values, positive = rng.integers(0, 6, (50, 3)).astype(float), rng.random(50) < 0.4
    for column, area in zip(values.T, _auc(values, positive), strict=True):
        u = mannwhitneyu(column[positive], column[~positive]).statistic
        assert area == pytest.approx(u / (positive.sum() * (~positive).sum()))


def test_a_concept_that_is_switched_off_takes_its_weight_away() -> None:
    model = Bottleneck(ConceptBank(["A", "B"], C=0.1), TimeHead())
    fitted(model, peak)
    X, y, has, _, task = planted(peak, 7)
    head, pooled = model.head_.on_pooled(), model.head_.pool(model.margins(X))
    np.testing.assert_allclose(head.predict_proba(pooled), model.predict_proba(X))
    base, parts = model.contributions(X)
    np.testing.assert_allclose(base + parts.sum(axis=1), head.decision_function(pooled))
    values = TrueValues.from_training(pooled[~task], has[~task] == 1)
    off = pooled[task].copy()
    off[:, 0] = values.absent[0]
    change = head.decision_function(pooled[task]) - head.decision_function(off)
    np.testing.assert_allclose(
        change, head.coef_[0] * (pooled[task][:, 0] - values.absent[0])
    )
    curve = intervene(
        head, pooled[~task], has[~task] == 1, y[~task], values, order="random"
    )
    assert len(curve.ap) == 3


def test_a_saved_bottleneck_over_time_predicts_the_same() -> None:
    model = Bottleneck(ConceptBank(["A", "B"], C=0.1), TimeHead())
    fitted(model, order)
    description, arrays = save_state(model)
    again: Any = load_state(json.loads(json.dumps(description)), arrays)
    X = planted(order, 3)[0]
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    # Tokens are the mean of the places of a frame.
    tokens = np.stack([X - 1, X + 1], axis=2)
    np.testing.assert_allclose(model.predict_proba(tokens), model.predict_proba(X))
