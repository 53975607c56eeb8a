"""Interventions: margins replaced by true values, as if a person corrected the concepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from obygaze_models.evaluation.grouped_stats import GroupedStats
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.common import Bools, FixTraining, Floats

Order = Literal["random", "uncertainty", "greedy"]


@dataclass(frozen=True)
class TrueValues:
    """The margins that replace a corrected one: present and absent, one of each per concept."""

    present: Floats
    absent: Floats

    @classmethod
    def from_training(cls, margins: Any, has: Any, quantile: float = 0.5) -> TrueValues:
        """Return quantiles of the training margins of clips with and without each concept.

        `quantile` is 0.5 for a typical clip, and 0.95 for a very clear one.
        """
        rows, truth = np.asarray(margins, dtype=np.float64), np.asarray(has, dtype=bool)
        if not 0 <= quantile <= 1:
            raise FixTraining(f"quantile must be between 0 and 1, got {quantile}")
        empty = np.flatnonzero(truth.all(axis=0) | ~truth.any(axis=0))
        if len(empty):
            raise FixTraining(
                f"concept {empty[0]} is in all training rows or in none",
                hint="leave that concept out",
            )
        columns = list(zip(rows.T, truth.T, strict=True))
        present = [np.quantile(column[there], quantile) for column, there in columns]
        absent = [np.quantile(column[~there], 1 - quantile) for column, there in columns]
        return cls(np.array(present), np.array(absent))

    def of(self, has: Bools) -> Floats:
        """Return the margins of clips whose every concept is corrected."""
        return np.where(has, self.present, self.absent)

    def certainty(self, margins: Floats) -> Floats:
        """Return the distance of margins from the middle, relative to that of the true values."""
        distance = np.maximum(np.abs(self.present - self.absent), 1e-12)
        return np.abs(margins - (self.present + self.absent) / 2) / distance


class InterventionCurve(NamedTuple):
    """Metrics after 0, 1, ... corrected concepts per clip; for random order means over draws.

    `sequence` is the order of the concepts of greedy.
    """

    f1: Floats
    ap: Floats
    sequence: tuple[int, ...] = ()


def intervene(
    head: Any,
    margins: Any,
    has: Any,
    y: Any,
    values: TrueValues,
    *,
    order: Order = "uncertainty",
    fitting: tuple[Any, Any, Any] | None = None,
    n_draws: int = 10,
    seed: int = 0,
) -> InterventionCurve:
    """Return the metrics of a head after each correction of a concept.

    Args:
        head: A fitted head of two classes.
        margins: The margins of each clip.
        has: Whether each clip has each concept.
        y: The class of each clip.
        values: The margins that replace corrected ones.
        order: "random" draws an order for each clip; "uncertainty" starts with the margin nearest
            to the middle of the two true values, relative to their distance; "greedy" takes for
            all clips the concept that improves average precision most on `fitting`.
        fitting: Margins, has and y of training rows.
        n_draws: The number of random orders.
        seed: The seed of the random orders.
    """
    score = _scorer(head, margins, has, y, values)
    rows = np.asarray(margins, dtype=np.float64)
    sequence: tuple[int, ...] = ()
    one_order = np.tile(np.arange(rows.shape[1]), (len(rows), 1))
    if order == "greedy":
        if fitting is None:
            raise FixTraining(
                "order 'greedy' requires training rows (fitting)",
                hint="fitting=(margins, has, y) of the training rows",
            )
        sequence = _greedy(_scorer(head, *fitting, values), rows.shape[1])
        orders = [np.argsort(sequence)[one_order]]
    elif order == "uncertainty":
        least_certain_first = np.argsort(values.certainty(rows), axis=1, kind="stable")
        orders = [np.argsort(least_certain_first, axis=1)]
    elif order == "random":
        rng = np.random.default_rng(seed)
        orders = [rng.permuted(one_order, axis=1) for _ in range(n_draws)]
    else:
        raise FixTraining(f"unknown order {order!r}", hint="random, uncertainty or greedy")
    steps = range(rows.shape[1] + 1)
    found = np.array([[score(places < step) for step in steps] for places in orders])
    f1, ap = found.mean(axis=0).T
    return InterventionCurve(f1, ap, sequence)


def _scorer(
    head: Any, margins: Any, has: Any, y: Any, values: TrueValues
) -> Callable[[Any], tuple[float, float]]:
    """Return the function from corrected margins (a mask) to binary F1 and average precision."""
    rows, truth = np.asarray(margins, dtype=np.float64), np.asarray(has, dtype=bool)
    if rows.shape != truth.shape or len(rows) != len(np.asarray(y)):
        raise FixTraining("margins, has and y must have the same rows")
    if len(head.classes_) != 2:
        raise FixTraining(f"the head must have two classes, got {len(head.classes_)}")
    true, positive = values.of(truth), np.asarray(y) == head.classes_[1]

    def score(corrected: Any) -> tuple[float, float]:
        p = head.predict_proba(np.where(corrected, true, rows))
        predicted = p[:, 1] > p[:, 0]
        f1 = 2 * (predicted & positive).sum() / max(predicted.sum() + positive.sum(), 1)
        ranked = GroupedStats(Predictions.of(positive, p[:, 1]), np.arange(len(p)))
        ap = ranked.order_metrics(np.ones((1, len(p))))[0][0]
        return float(f1), float(np.nan_to_num(ap))

    return score


def _greedy(score: Callable[[Any], tuple[float, float]], n_concepts: int) -> tuple[int, ...]:
    """Return the concepts by how much they improve average precision; a tie is the earlier one."""
    chosen: list[int] = []
    for _ in range(n_concepts):
        left = [j for j in range(n_concepts) if j not in chosen]
        gains = [score(np.isin(np.arange(n_concepts), [*chosen, j]))[1] for j in left]
        chosen.append(left[int(np.argmax(gains))])
    return tuple(chosen)
