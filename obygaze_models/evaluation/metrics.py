"""Metrics of binary predictions, for all clips or for clips of drawn films.

A draw gives each film a weight, which is the number of times that the film was drawn. A row of
weights is one draw. `values_under` computes a metric for many rows in one step: the counts of
decisions are the matrix product of the weights with the counts of each film.

Precision, recall and F1 are 0 where their denominator is 0. AP without a positive clip and AUC
without clips of both classes are NaN. If scores are tied, AP is the mean over all orders of the
tied clips, and a tied pair counts one half in AUC.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.predictions import BoolArray, FloatArray, Predictions

MetricValues = dict[str, FloatArray]
# Blocks of this many weights limit the memory of draws to about 100 MB.
BLOCK = 2_000_000


class Confusion(NamedTuple):
    """The numbers of true and false positives and negatives, with one entry per row of weights."""

    tp: FloatArray
    fp: FloatArray
    fn: FloatArray
    tn: FloatArray

    @property
    def total(self) -> FloatArray:
        """The number of clips."""
        return self.tp + self.fp + self.fn + self.tn

    def swapped(self) -> Self:
        """Return the counts with the two classes exchanged."""
        return self._replace(tp=self.tn, fp=self.fn, fn=self.fp, tn=self.tp)


@dataclass(frozen=True)
class Metric:
    """A metric and its properties.

    Attributes:
        name: Its name in protocols and tables.
        of_counts: A function that computes the metric from the confusion counts; None for metrics
            of ranks or probabilities.
        title: Its name in texts, tables and figures; the default is `name`.
        direction: 1 if larger values are better, -1 if smaller values are better, 0 for neither.
        needs_probabilities: Whether the metric is undefined for margins.
        needs_positives: Whether the metric is undefined for a film without positive clips.
        is_on_card: Whether the card of a saved model contains the metric.
    """

    name: str
    of_counts: Callable[[Confusion], FloatArray] | None = None
    title: str = ""
    direction: int = 1
    needs_probabilities: bool = False
    needs_positives: bool = False
    is_on_card: bool = False


def divide(top: FloatArray, bottom: FloatArray, empty: float = np.nan) -> FloatArray:
    """Return `top / bottom`, and `empty` where `bottom` is 0."""
    out = np.full_like(top, empty, dtype=np.float64)
    np.divide(top, bottom, out=out, where=bottom != 0)
    return out


# ---- metrics of decisions ----


def precision(c: Confusion) -> FloatArray:
    """Return the share of positive clips among the clips that are classified as positive."""
    return divide(c.tp, c.tp + c.fp, 0.0)


def recall(c: Confusion) -> FloatArray:
    """Return the share of the positive clips that is classified as positive."""
    return divide(c.tp, c.tp + c.fn, 0.0)


def f1_binary(c: Confusion) -> FloatArray:
    """Return the F1 of the positive class."""
    return divide(2 * c.tp, 2 * c.tp + c.fp + c.fn, 0.0)


def f1_weighted(c: Confusion) -> FloatArray:
    """Return the mean F1 of both classes, weighted by their numbers of clips."""
    positive = c.tp + c.fn
    negative = c.tn + c.fp
    weighted = positive * f1_binary(c) + negative * f1_binary(c.swapped())
    return divide(weighted, positive + negative)


def f1_macro(c: Confusion) -> FloatArray:
    """Return the unweighted mean F1 of both classes; the F1 of a class without clips is 0."""
    return (f1_binary(c) + f1_binary(c.swapped())) / 2


def accuracy(c: Confusion) -> FloatArray:
    """Return the share of correct decisions."""
    return divide(c.tp + c.tn, c.total)


def prevalence(c: Confusion) -> FloatArray:
    """Return the share of positive clips, which F1 and AP depend on."""
    return divide(c.tp + c.fn, c.total)


def share_positive(c: Confusion) -> FloatArray:
    """Return the share of clips that are classified as positive."""
    return divide(c.tp + c.fp, c.total)


# ---- the records ----

F1 = Metric("f1_binary", f1_binary, "F1 binary", needs_positives=True, is_on_card=True)
F1_WEIGHTED = Metric("f1_weighted", f1_weighted, "F1 weighted", is_on_card=True)
PREVALENCE = Metric("prevalence", prevalence, direction=0)
AP = Metric("ap", title="AP", is_on_card=True)
AUC = Metric("auc", title="AUC", is_on_card=True)
# The mean squared error of probabilities.
BRIER = Metric(
    "brier", title="Brier", direction=-1, needs_probabilities=True, is_on_card=True
)
_ALL = (
    F1,
    F1_WEIGHTED,
    Metric("f1_macro", f1_macro, "F1 macro"),
    Metric("precision", precision),
    Metric("recall", recall, needs_positives=True),
    Metric("accuracy", accuracy),
    PREVALENCE,
    Metric("share_positive", share_positive, direction=0),
    AP,
    AUC,
    BRIER,
)
METRICS = {metric.name: metric for metric in _ALL}
# Scores of different fits are on different scales, so clips are ranked within folds. Only these
# metrics compare models. For a trained model of a run, only these metrics and the prevalence have
# an interval over films.
RANKING_METRICS = (AP.name, AUC.name)
MARGIN_METRICS = tuple(
    name for name, metric in METRICS.items() if not metric.needs_probabilities
)


def metric_name(name: str) -> str:
    """Return the name of a metric for a text, a table or a figure."""
    return METRICS[name].title or name


def ranking_metric(primary: str) -> str:
    """Return the metric to compare models: the primary metric if it is a ranking one, else AP."""
    return primary if primary in RANKING_METRICS else AP.name


def goodness(name: str, value: float) -> float:
    """Return a number that is larger for a better value of a metric."""
    return -value if METRICS[name].direction < 0 else value


# ---- values ----


def evaluate(
    predictions: Predictions, names: Iterable[str] = METRICS
) -> dict[str, float]:
    """Return each metric of the predictions of one fit, in which each clip counts once."""
    once = np.ones((1, int(predictions.films.max()) + 1))
    values = values_under(once, [predictions], [0], [*names])
    return {name: float(value[0]) for name, value in values.items()}


def average_precision(predictions: Predictions) -> float:
    """Return the average precision, by which settings and tolerances are chosen."""
    return evaluate(predictions, [AP.name])[AP.name]


def values_under(
    weights: FloatArray,
    fits: Sequence[Predictions],
    runs: Sequence[Hashable],
    names: Sequence[str],
) -> MetricValues:
    """Return the values of each metric, one for each row of weights.

    Decisions of the fits of one run are pooled; clips are ranked within each fit. A value is the
    weighted mean over runs. The weight of a run is the number of its clips in the draw, divided by
    the number of its clips.

    Args:
        weights: The weight of each film (column) in each draw (row).
        fits: The predictions of each fit.
        runs: The run of each fit, such as its seed; for means over fits, each fit is a run.
        names: The metrics.
    """
    n_clips = sum(map(len, fits))
    step = max(1, BLOCK // max(n_clips, 1))
    if len(weights) > step:
        blocks = []
        for start in range(0, len(weights), step):
            blocks.append(
                values_under(weights[start : start + step], fits, runs, names)
            )
        whole = {}
        for name in names:
            whole[name] = np.concatenate([block[name] for block in blocks])
        return whole
    of_runs = []
    drawn = []
    for run in dict.fromkeys(runs):
        own = [fit for fit, other in zip(fits, runs, strict=True) if other == run]
        values, share = _values_of_run(weights, own, names)
        of_runs.append(values)
        drawn.append(share)
    means = {}
    for name in names:
        means[name] = _mean([of_run[name] for of_run in of_runs], drawn)
    return means


def _values_of_run(
    weights: FloatArray, fits: Sequence[Predictions], names: Sequence[str]
) -> tuple[MetricValues, FloatArray]:
    """Return each metric of one run, and the weight of the run (see `values_under`)."""
    whole = fits[0] if len(fits) == 1 else Predictions.join(fits)

    def total(of_clips: Any) -> FloatArray:
        of_films = np.bincount(whole.films, of_clips, minlength=weights.shape[1])
        return np.asarray(weights @ of_films)

    y = whole.y
    called = whole.decision
    counts = Confusion(
        *map(total, (y * called, ~y * called, y * (1.0 - called), ~y * (1.0 - called)))
    )
    values: MetricValues = {}
    for name in names:
        of_counts = METRICS[name].of_counts
        if of_counts is not None:
            values[name] = of_counts(counts)
    if BRIER.name in names:
        _check_probabilities(whole.score)
        values[BRIER.name] = divide(total((whole.score - y) ** 2), counts.total)
    if {*RANKING_METRICS} & {*names}:
        values |= _ranked_within(fits, weights)
    return values, counts.total / len(whole)


def _check_probabilities(score: FloatArray) -> None:
    low = score.min()
    high = score.max()
    if not (low >= 0 and high <= 1):
        raise FixInput(
            f"{BRIER.name} requires probabilities, got scores from {low:g} to {high:g}"
        )


def _mean(values: Sequence[FloatArray], weights: Sequence[FloatArray]) -> FloatArray:
    """Return the element-wise weighted mean of the finite values."""
    if len(values) == 1:
        return np.where(weights[0] > 0, values[0], np.nan)
    stacked = np.array(values)
    counts = np.where(np.isfinite(stacked), weights, 0.0)
    known = np.where(counts > 0, stacked, 0.0)
    return divide((counts * known).sum(axis=0), counts.sum(axis=0))


def _ranked_within(fits: Sequence[Predictions], weights: FloatArray) -> MetricValues:
    """Return AP and AUC of clips that are ranked within each fit.

    AP is the weighted mean over fits. The weight of a fit is the number of its clips in the draw,
    divided by the number of its clips. AUC is the number of correctly ordered pairs, divided by the
    number of pairs. Pairs are clips of different classes within one fit. Both numbers are sums over
    fits, in which a fit is divided by its number of drawn clips (van Elteren's weights), so that a
    film that is drawn twice counts twice. Pairs of clips of different folds are not used, because
    the models of different folds were trained on different shares of positive clips: if a film has
    many positive clips, the model that scores it was trained on fewer positive clips.
    """
    precisions = []
    shares = []
    won = np.zeros(len(weights))
    pairs = np.zeros(len(weights))
    for fit in fits:
        films = fit.films
        of_one_film = films.min() == films.max()
        # The order within one film does not depend on the weight of the film.
        of_clips = np.ones((1, len(fit))) if of_one_film else weights[:, films]
        ap, won_in_fit, all_pairs = rank(fit.y, fit.score, of_clips)
        drawn = of_clips.sum(axis=1)
        if of_one_film:
            times = weights[:, films[0]]
            ap = np.repeat(ap, len(weights))
            drawn = drawn * times
            won_in_fit = won_in_fit * times**2
            all_pairs = all_pairs * times**2
        precisions.append(ap)
        shares.append(drawn / len(fit))
        won += divide(won_in_fit, drawn, 0.0)
        pairs += divide(all_pairs, drawn, 0.0)
    return {AP.name: _mean(precisions, shares), AUC.name: divide(won, pairs)}


def rank(
    y: BoolArray, score: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return AP, the number of pairs of both classes in the right order, and the number of pairs.

    AP is the mean precision at positive clips. A tied pair counts one half.

    Args:
        y: The class of each clip.
        score: The score of each clip.
        weights: The weight of each clip (column) in each draw (row).
    """
    order = np.argsort(-score, kind="stable")
    last_of_tie = np.append(np.flatnonzero(np.diff(score[order])), len(order) - 1)
    ordered = weights[:, order]
    # The weights of positive clips and of all clips at or above each distinct score.
    tp = np.cumsum(ordered * y[order], axis=1)[:, last_of_tie]
    total = np.cumsum(ordered, axis=1)[:, last_of_tie]
    positive = np.diff(tp, axis=1, prepend=0.0)
    of_tie = np.diff(total, axis=1, prepend=0.0)
    areas = positive * divide(tp, total, 0.0)
    tied = np.diff(last_of_tie, prepend=-1) > 1
    if tied.any():
        n_drawn = np.cumsum(ordered > 0, axis=1)[:, last_of_tie]
        areas[:, tied] = precision_of_ties(
            positive[:, tied],
            of_tie[:, tied],
            np.diff(n_drawn, axis=1, prepend=0)[:, tied],
            (tp - positive)[:, tied],
            (total - of_tie)[:, tied],
        )
    n_positive = tp[:, -1]
    won = ((of_tie - positive) * (tp - positive / 2)).sum(axis=1)
    ap = divide(areas.sum(axis=1), n_positive)
    return ap, won, n_positive * (total[:, -1] - n_positive)


def precision_of_ties(
    positive: FloatArray,
    total: FloatArray,
    n_clips: FloatArray,
    positive_above: FloatArray,
    total_above: FloatArray,
) -> FloatArray:
    """Return the sum of the precisions at the positive clips of a tie, as a mean over all orders.

    This is the closed form of McSherry and Najork (2008). A clip that is drawn several times has
    one rank. If the clips of a tie have different weights, each rank has the mean weight.

    Args:
        positive: The weight of the positive clips of the tie.
        total: The weight of all clips of the tie.
        n_clips: The number of clips of the tie with a weight above 0.
        positive_above: The weight of the positive clips with higher scores.
        total_above: The weight of all clips with higher scores.
    """
    from scipy.special import digamma  # takes longer to import than NumPy

    weight = divide(total, n_clips, 1.0)
    # Given a positive clip, the share of positives among the other clips of the tie.
    share = (positive / weight - 1) / np.maximum(n_clips - 1, 1)
    share = np.clip(share, 0.0, 1.0)
    first_place = total_above / weight + 1
    # The sum of 1 / place over the places of the tie.
    inverse_places = digamma(first_place + n_clips) - digamma(first_place)
    at_first_place = positive_above / weight + 1 - share * first_place
    precisions = share * n_clips + at_first_place * inverse_places
    return np.asarray(positive * precisions / np.maximum(n_clips, 1))
