"""Interventions: margins replaced by true values, as if a person corrected the concepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.grouped_stats import GroupedStats
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.common import Bools, FixTraining, Floats, Ints

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


@dataclass(frozen=True)
class InterventionCurve:
    """Metrics after 0, 1, ... corrected concepts per clip.

    For random order the curves are means over draws with standard deviations `f1_sd` and `ap_sd`.
    `sequence` is the order of the concepts of greedy.
    """

    order: Order
    f1: Floats
    ap: Floats
    f1_sd: Floats
    ap_sd: Floats
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
    case = _Case.of(head, margins, has, y, values)
    n_rows, n_concepts = case.margins.shape
    if order == "greedy":
        if fitting is None:
            raise FixTraining(
                "order 'greedy' requires training rows (fitting)",
                hint="fitting=(margins, has, y) of the training rows",
            )
        sequence = _greedy(_Case.of(head, *fitting, values))
        places = np.tile(np.argsort(sequence), (n_rows, 1))
        return _curve(order, [case.scores(places)], sequence)
    if order == "uncertainty":
        places = np.argsort(np.argsort(case.certainty(), axis=1, kind="stable"), axis=1)
        return _curve(order, [case.scores(places)])
    if order != "random":
        raise FixTraining(f"unknown order {order!r}", hint="random, uncertainty or greedy")
    rng = np.random.default_rng(seed)
    draws = [
        rng.permuted(np.tile(np.arange(n_concepts), (n_rows, 1)), axis=1) for _ in range(n_draws)
    ]
    return _curve(order, [case.scores(places) for places in draws])


@dataclass(frozen=True)
class _Case:
    head: Any
    margins: Floats
    true: Floats
    positive: Bools
    values: TrueValues

    @classmethod
    def of(cls, head: Any, margins: Any, has: Any, y: Any, values: TrueValues) -> _Case:
        rows, truth = np.asarray(margins, dtype=np.float64), np.asarray(has, dtype=bool)
        if rows.shape != truth.shape or len(rows) != len(np.asarray(y)):
            raise FixTraining("margins, has and y must have the same rows")
        if len(head.classes_) != 2:
            raise FixTraining(f"the head must have two classes, got {len(head.classes_)}")
        return cls(head, rows, values.of(truth), np.asarray(y) == head.classes_[1], values)

    def certainty(self) -> Floats:
        """Return the distance of each margin from the middle, relative to the true values."""
        present, absent = self.values.present, self.values.absent
        distance = np.maximum(np.abs(present - absent), 1e-12)
        return np.abs(self.margins - (present + absent) / 2) / distance

    def score(self, corrected: Bools | NDArray[Any]) -> tuple[float, float]:
        """Return binary F1 and average precision with some margins corrected."""
        mixed = np.where(corrected, self.true, self.margins)
        p = self.head.predict_proba(mixed)
        predicted = p[:, 1] > p[:, 0]
        f1 = 2 * (predicted & self.positive).sum() / max(predicted.sum() + self.positive.sum(), 1)
        ranked = GroupedStats(Predictions.of(self.positive, p[:, 1]), np.arange(len(p)))
        ap = ranked.order_metrics(np.ones((1, len(p))))[0][0]
        return float(f1), float(np.nan_to_num(ap))

    def scores(self, places: Ints) -> Floats:
        """Return both after each number of corrections; `places` is the order of each row."""
        return np.array([self.score(places < step) for step in range(self.margins.shape[1] + 1)])


def _greedy(case: _Case) -> tuple[int, ...]:
    """Return the concepts by how much they improve average precision; a tie is the earlier one."""
    n_concepts = case.margins.shape[1]
    chosen: list[int] = []
    for _ in range(n_concepts):
        left = [j for j in range(n_concepts) if j not in chosen]
        gains = [case.score(np.isin(np.arange(n_concepts), [*chosen, j]))[1] for j in left]
        chosen.append(left[int(np.argmax(gains))])
    return tuple(chosen)


def _curve(
    order: Order, runs: Sequence[Floats], sequence: tuple[int, ...] = ()
) -> InterventionCurve:
    table = np.stack(runs)
    mean, sd = table.mean(axis=0), table.std(axis=0, ddof=1 if len(runs) > 1 else 0)
    return InterventionCurve(order, mean[:, 0], mean[:, 1], sd[:, 0], sd[:, 1], sequence)
