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
from obygaze_models.audits.mediaeval_files import CLASSES, TrecRun

# trec_eval kept scores as C floats when the 2015 results were made; later versions as doubles.
Precision = Literal["float32", "float64"]
# The documents of one score: how many, and how many of them are relevant.
TieGroup = tuple[int, int]
# A score, its lowest and highest possible value, chance, and the score of the majority class.
Span = tuple[float, float, float, float, float | None]
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

    @property
    def span(self) -> Span:
        """The score, its lowest and highest value under ties, chance, and no majority."""
        return self.ap_trec, self.ap_ties_worst, self.ap_ties_best, self.ap_random, None

    def to_rows(self) -> list[tuple[object, ...]]:
        """Return the measure, value, value over returned clips, chance and majority per row."""
        return [
            ("ap_trec", self.ap_trec, None, self.ap_random, None),
            ("ap_sklearn", self.ap_sklearn, None, self.ap_random, None),
            ("pr_auc_trapezoid", self.pr_auc_trapezoid, None, None, None),
        ]

    def to_sentences(self) -> list[str]:
        """Return what a reader must know about ties and missing clips."""
        sentences = []
        if self.tied:
            sentences.append(
                f"{100 * self.tied:.1f} % of the scores are tied; ap_trec could be "
                f"{self.ap_ties_worst:.4f} to {self.ap_ties_best:.4f} by their order, "
                f"{self.ap_ties_expected:.4f} on average."
            )
        if missing := self.n_judged + self.n_unjudged - self.n_returned:
            sentences.append(f"{missing} judged clips were not returned.")
        if self.n_unjudged:
            sentences.append(f"{self.n_unjudged} clips without judgement count as not relevant.")
        return sentences


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

    @property
    def span(self) -> Span:
        """The accuracy, its highest value with the missing clips right, chance, majority."""
        highest = self.accuracy + (self.n - self.n_returned) / self.n
        return self.accuracy, self.accuracy, highest, self.random, self.majority

    def to_rows(self) -> list[tuple[object, ...]]:
        """Return the measure, value, value over returned clips, chance and majority."""
        values = (self.accuracy, self.accuracy_returned, self.random, self.majority)
        return [("accuracy", *values)]

    def to_sentences(self) -> list[str]:
        """Return what a reader must know about missing and unknown clips."""
        missing = self.n - self.n_returned
        texts = {
            "clips without a class count as wrong over all.": missing,
            "clips of the run have no true class.": self.n_unknown,
        }
        return [f"{n} {text}" for text, n in texts.items() if n]


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


def score_violence(
    qrels: Mapping[str, Mapping[str, int]], run: TrecRun, precision: Precision = "float32"
) -> RankingScore:
    """Score a run on the one topic that it shares with the judgements.

    Args:
        qrels: The grade of each document by topic.
        run: The run, as read_trec_run returns it.
        precision: How `ap_trec` compares scores.
    """
    if len(run.scores) != 1 or not run.scores.keys() <= qrels.keys():
        topics = f"{', '.join(sorted(run.scores))} in the run, {', '.join(sorted(qrels))} judged"
        raise FixInput(f"a run and its judgements must have the same topic, got {topics}")
    [(topic, scores)] = run.scores.items()
    return score_ranking(qrels[topic], scores, precision)


def random_ap(n: int, n_relevant: int) -> float:
    """Return the expected average precision of a random order of `n` documents."""
    if not 0 <= n_relevant <= n:
        raise FixInput(f"expected at most {n} relevant documents, got {n_relevant}")
    return _expected_ap([(n, n_relevant)], n_relevant) if n_relevant else 0.0


def _ranked(
    run: Mapping[str, float], relevant: set[str], precision: Precision
) -> tuple[list[str], list[TieGroup]]:
    """Return the documents from the highest score to the lowest, and the groups of one score."""
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
    """Return the mean over all orders of tied documents."""
    before, found, total = 0, 0, 0.0
    for size, relevant in groups:
        place = np.arange(1, size + 1)
        others = (relevant - 1) / (size - 1) if size > 1 else 0.0
        expected = (found + 1 + (place - 1) * others) / (before + place)
        total += relevant / size * float(expected.sum())
        before, found = before + size, found + relevant
    return total / max(n_relevant, 1)


def _curve(groups: Sequence[TieGroup], n_relevant: int) -> list[tuple[float, float]]:
    """Return recall and precision after each group of equal scores."""
    points, before, found = [], 0, 0
    for size, relevant in groups:
        before, found = before + size, found + relevant
        points.append((found / max(n_relevant, 1), found / before))
    return points
