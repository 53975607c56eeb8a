"""Average precision of a ranked list in its three meanings, and what ties do to it.

`ap_trec` is what trec_eval prints: scores descending, ties by document name descending, every
judged relevant document in the denominator whether it was returned or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import fsum
from typing import Any, Literal

import numpy as np

from obygaze_features.core.errors import FixInput

# trec_eval kept scores as C floats when the 2015 results were made; later versions as doubles.
Precision = Literal["float32", "float64"]


@dataclass(frozen=True)
class RankingScore:
    """A run against its judgements, in every form that has been reported under one name."""

    ap_trec: float
    ap_sklearn: float
    pr_auc_trapezoid: float
    tied: float
    ap_ties_best: float
    ap_ties_worst: float
    ap_ties_expected: float
    ap_random: float
    n_returned: int
    n_judged: int
    n_relevant: int
    n_relevant_returned: int
    n_unjudged: int

    def to_json(self) -> dict[str, Any]:
        """The values under their names."""
        return dict(vars(self))


@dataclass(frozen=True)
class _Group:
    """Documents of one score: how many, and how many of them relevant."""

    size: int
    relevant: int


def score_ranking(
    judgements: Mapping[str, int], run: Mapping[str, float], precision: Precision = "float32"
) -> RankingScore:
    """Score one topic. A document without a judgement counts as not relevant.

    `precision` is that of trec_eval; sklearn always compares scores as doubles.
    """
    scores = {name: _rounded(score, precision) for name, score in run.items()}
    relevant = {name for name, grade in judgements.items() if grade > 0}
    order = _ordered(scores)
    groups = _groups(scores, relevant)
    # What sklearn sees: all judged and returned documents, those not returned below all others.
    unreturned = judgements.keys() - scores.keys()
    rest = [_Group(len(unreturned), len(relevant & unreturned))] if unreturned else []
    doubles = {name: _rounded(score, "float64") for name, score in run.items()}
    curve = [*_groups(doubles, relevant), *rest]
    n_relevant = len(relevant)
    return RankingScore(
        ap_trec=_ap([name in relevant for name in order], n_relevant),
        ap_sklearn=_ap_by_threshold(curve, n_relevant),
        pr_auc_trapezoid=_trapezoid(curve, n_relevant),
        tied=_share_tied(groups),
        ap_ties_best=_ap(_arranged(groups, relevant_first=True), n_relevant),
        ap_ties_worst=_ap(_arranged(groups, relevant_first=False), n_relevant),
        ap_ties_expected=_expected_ap(groups, n_relevant),
        ap_random=random_ap(len(judgements), n_relevant),
        n_returned=len(order),
        n_judged=len(judgements),
        n_relevant=n_relevant,
        n_relevant_returned=sum(group.relevant for group in groups),
        n_unjudged=len(scores.keys() - judgements.keys()),
    )


def _ordered(scores: Mapping[str, float]) -> list[str]:
    return sorted(scores, key=lambda name: (scores[name], name.encode("utf-8")), reverse=True)


def _groups(scores: Mapping[str, float], relevant: set[str]) -> list[_Group]:
    """The documents of each score, best first."""
    return [
        _Group(len(names), sum(name in relevant for name in names))
        for _, found in groupby(_ordered(scores), key=lambda name: scores[name])
        for names in [list(found)]
    ]


def random_ap(n: int, n_relevant: int) -> float:
    """The expected average precision of a random order of `n` documents, in closed form."""
    if not 0 <= n_relevant <= n:
        raise FixInput(f"{n_relevant} relevant documents of {n}")
    if not n_relevant:
        return 0.0
    return _expected_ap([_Group(n, n_relevant)], n_relevant)


def _rounded(score: float, precision: Precision) -> float:
    # A score that is not a number ranks below all others, as it does in trec_eval.
    if score != score:
        return float("-inf")
    with np.errstate(over="ignore"):
        return float(np.float32(score)) if precision == "float32" else float(score)


def _ap(hits: Sequence[bool], n_relevant: int) -> float:
    if not n_relevant:
        return 0.0
    ranks = [rank for rank, hit in enumerate(hits, start=1) if hit]
    return fsum(found / rank for found, rank in enumerate(ranks, start=1)) / n_relevant


def _arranged(groups: Sequence[_Group], *, relevant_first: bool) -> list[bool]:
    hits: list[bool] = []
    for group in groups:
        pieces = [[True] * group.relevant, [False] * (group.size - group.relevant)]
        hits += [*pieces[0], *pieces[1]] if relevant_first else [*pieces[1], *pieces[0]]
    return hits


def _expected_ap(groups: Sequence[_Group], n_relevant: int) -> float:
    """The mean over all orders of tied documents."""
    if not n_relevant:
        return 0.0
    before, found, total = 0, 0, 0.0
    for group in groups:
        place = np.arange(1, group.size + 1)
        among = (group.relevant - 1) / (group.size - 1) if group.size > 1 else 0.0
        expected = (found + 1 + (place - 1) * among) / (before + place)
        total += group.relevant / group.size * float(expected.sum())
        before, found = before + group.size, found + group.relevant
    return total / n_relevant


def _curve(groups: Sequence[_Group], n_relevant: int) -> list[tuple[float, float]]:
    """Recall and precision after each group of equal scores."""
    points, before, found = [], 0, 0
    for group in groups:
        before, found = before + group.size, found + group.relevant
        points.append((found / n_relevant, found / before))
    return points


def _ap_by_threshold(groups: Sequence[_Group], n_relevant: int) -> float:
    if not n_relevant:
        return 0.0
    points = [(0.0, 1.0), *_curve(groups, n_relevant)]
    return sum((r - last) * p for (last, _), (r, p) in pairwise(points))


def _trapezoid(groups: Sequence[_Group], n_relevant: int) -> float:
    if not n_relevant:
        return 0.0
    points = [(0.0, 1.0), *_curve(groups, n_relevant)]
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))


def _share_tied(groups: Sequence[_Group]) -> float:
    total = sum(group.size for group in groups)
    return sum(group.size for group in groups if group.size > 1) / total if total else 0.0
