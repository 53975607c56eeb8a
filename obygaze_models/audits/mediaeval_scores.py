"""The scores of MediaEval 2015: three forms of average precision, and accuracy of classes.

`ap_trec` is what trec_eval prints: scores descending, ties by document name descending, and every
judged relevant document in the denominator, even if it was not returned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import fsum
from typing import Literal

import numpy as np

from obygaze_features.core.errors import FixInput

# trec_eval kept scores as C floats when the 2015 results were made; later versions as doubles.
Precision = Literal["float32", "float64"]
# The documents of one score: how many, and how many of them are relevant.
TieGroup = tuple[int, int]
CLASSES = (-1, 0, 1)
NEUTRAL = 0.15


@dataclass(frozen=True)
class RankingScore:
    """A ranked run against its judgements, in every form published as average precision.

    `tied` is the share of returned documents with a tied score; the `ap_ties` values are what
    other orders of them would give, and `ap_random` what a random order gives on average.
    """

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


@dataclass(frozen=True)
class AffectScore:
    """Predicted classes against true ones, over all clips and over the returned ones.

    The rows of `confusion` are the true classes -1, 0, 1.
    """

    accuracy: float
    accuracy_returned: float | None
    n: int
    n_returned: int
    n_unknown: int
    majority: float
    random: float
    confusion: tuple[tuple[int, ...], ...]


def affect_class(score: float) -> int:
    """Return the class -1, 0 or 1 of a score on [-1, 1]; -0.15 and 0.15 are neutral.

    Args:
        score: A valence or arousal score.
    """
    if not -1 <= score <= 1:
        raise FixInput(f"an affect score must be between -1 and 1, got {score}")
    return (score > NEUTRAL) - (score < -NEUTRAL)


def score_affect(truth: Mapping[str, int], predicted: Mapping[str, int]) -> AffectScore:
    """Score the classes of a run; a clip that was not returned counts as wrong over all.

    Args:
        truth: The true class of each clip.
        predicted: The class of each returned clip.
    """
    if not truth:
        raise FixInput("expected true classes to score against, got none")
    returned = [name for name in predicted if name in truth]
    hits = sum(truth[name] == predicted[name] for name in returned)
    pairs = Counter((truth[name], predicted[name]) for name in returned)
    return AffectScore(
        accuracy=hits / len(truth),
        accuracy_returned=hits / len(returned) if returned else None,
        n=len(truth),
        n_returned=len(returned),
        n_unknown=len(predicted) - len(returned),
        majority=max(Counter(truth.values()).values()) / len(truth),
        random=1 / len(CLASSES),
        confusion=tuple(tuple(pairs[true, guess] for guess in CLASSES) for true in CLASSES),
    )


def score_ranking(
    judgements: Mapping[str, int], run: Mapping[str, float], precision: Precision = "float32"
) -> RankingScore:
    """Score the ranking of one topic. A document without a judgement counts as not relevant.

    Args:
        judgements: The grade of each judged document; above 0 is relevant.
        run: The score of each returned document.
        precision: How `ap_trec` compares scores; sklearn always compares doubles.
    """
    relevant = {name for name, grade in judgements.items() if grade > 0}
    n_relevant = len(relevant)
    order, groups = _ranked(run, relevant, precision)
    # sklearn ranks all judged and returned documents, those not returned below all others.
    unreturned = judgements.keys() - run.keys()
    rest = [(len(unreturned), len(relevant & unreturned))] if unreturned else []
    curve = [(0.0, 1.0), *_curve([*_ranked(run, relevant, "float64")[1], *rest], n_relevant)]
    n_tied = sum(size for size, _ in groups if size > 1)
    best, worst = ([_hits(group)[::step] for group in groups] for step in (1, -1))
    return RankingScore(
        ap_trec=_ap((name in relevant for name in order), n_relevant),
        ap_sklearn=sum(((r - last) * p for (last, _), (r, p) in pairwise(curve)), 0.0),
        pr_auc_trapezoid=sum(
            ((r - r0) * (p0 + p) / 2 for (r0, p0), (r, p) in pairwise(curve)), 0.0
        ),
        tied=n_tied / len(order) if order else 0.0,
        ap_ties_best=_ap((hit for hits in best for hit in hits), n_relevant),
        ap_ties_worst=_ap((hit for hits in worst for hit in hits), n_relevant),
        ap_ties_expected=_expected_ap(groups, n_relevant),
        ap_random=random_ap(len(judgements), n_relevant),
        n_returned=len(order),
        n_judged=len(judgements),
        n_relevant=n_relevant,
        n_relevant_returned=sum(found for _, found in groups),
        n_unjudged=len(run.keys() - judgements.keys()),
    )


def random_ap(n: int, n_relevant: int) -> float:
    """Return the expected average precision of a random order of `n` documents."""
    if not 0 <= n_relevant <= n:
        raise FixInput(f"expected at most {n} relevant documents, got {n_relevant}")
    return _expected_ap([(n, n_relevant)], n_relevant) if n_relevant else 0.0


def _ranked(
    run: Mapping[str, float], relevant: set[str], precision: Precision
) -> tuple[list[str], list[TieGroup]]:
    """The documents from the highest score to the lowest, and the groups of one score."""
    scores = {name: _rounded(score, precision) for name, score in run.items()}
    order = sorted(scores, key=lambda name: (scores[name], name.encode("utf-8")), reverse=True)
    ties = [list(names) for _, names in groupby(order, key=scores.__getitem__)]
    return order, [(len(names), sum(name in relevant for name in names)) for names in ties]


def _rounded(score: float, precision: Precision) -> float:
    # NaN ranks below all other scores, as in trec_eval.
    if score != score:
        return float("-inf")
    with np.errstate(over="ignore"):
        return float(np.float32(score)) if precision == "float32" else float(score)


def _hits(group: TieGroup) -> list[bool]:
    size, found = group
    return [True] * found + [False] * (size - found)


def _ap(hits: Iterable[bool], n_relevant: int) -> float:
    ranks = [rank for rank, hit in enumerate(hits, start=1) if hit]
    return fsum(found / rank for found, rank in enumerate(ranks, start=1)) / max(n_relevant, 1)


def _expected_ap(groups: Sequence[TieGroup], n_relevant: int) -> float:
    """The mean over all orders of tied documents."""
    before, found, total = 0, 0, 0.0
    for size, relevant in groups:
        place = np.arange(1, size + 1)
        others = (relevant - 1) / (size - 1) if size > 1 else 0.0
        expected = (found + 1 + (place - 1) * others) / (before + place)
        total += relevant / size * float(expected.sum())
        before, found = before + size, found + relevant
    return total / max(n_relevant, 1)


def _curve(groups: Sequence[TieGroup], n_relevant: int) -> list[tuple[float, float]]:
    """Recall and precision after each group of equal scores."""
    points, before, found = [], 0, 0
    for size, relevant in groups:
        before, found = before + size, found + relevant
        points.append((found / max(n_relevant, 1), found / before))
    return points
