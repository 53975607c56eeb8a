"""Bootstrap intervals over films.

Clips of one film are not independent: 1,600 clips of 12 films contain about as much information as
12 to 150 independent clips. Therefore, whole films are drawn with replacement.

With a dozen films, the percentile interval is too short: its quantiles are normal and not
Student's, and its variance is divided by the number k of films and not by k - 1. Hesterberg's
expanded percentile interval moves the quantiles outwards by these two factors. It follows a skewed
distribution and stays inside [0, 1]. With fewer than six films, the expanded interval would end at
the most extreme draw, and Student's interval is used instead. With fewer than three films, there
is no interval.

In 400 simulated tests, 95 % intervals covered .91 to .96 (mean .94). Percentile intervals covered
.88 to .94 (.90), BCa .86 to .94 (.90), and the delete-one-film jackknife .93 to .97. (Drawing a
film twice biases AUC, and this bias misleads the correction of BCa.) Each test had 12 films with
the sizes of the published films, and a design effect of 11. Five metrics were computed, for a model
trained on noise and for a model trained on signal.

A metric that is pooled over the folds of a cross-validation has a larger variance than its draws of
films have, because each clip tests the model of one fold and trains the models of the other folds.
With `n_folds`, an interval is widened for this reason. With ten films or more, the part of the
variance that comes from the share of positive clips in a draw is not increased, because training
does not change this share. For a linear probe on noise, over the published clips in folds of whole
films, the intervals of AUC contained 0.5 in .78 to .88 of 60 runs without `n_folds`, and in .91 to
1.00 of 100 runs with `n_folds`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.metrics import (
    AP,
    BLOCK,
    METRICS,
    PREVALENCE,
    RANKING_METRICS,
    evaluate,
    values_under,
)
from obygaze_models.evaluation.predictions import (
    BoolArray,
    FloatArray,
    IntArray,
    Predictions,
)

Statistics = Callable[[FloatArray], dict[str, FloatArray]]
Seed = int | tuple[int, ...]
CONFIDENCE = 0.95  # level of all intervals
NEXT_TO_ZERO = 1e-6
LEAST_WIDTH = 1e-9  # narrower draws differ by rounding only
# With fewer than MANY_GROUPS groups, a regression on the share of positives explains much by
# chance. With fewer than FEW_GROUPS groups, quantiles end at the most extreme draw. Fewer than
# LEAST_GROUPS groups do not show how much groups differ.
MANY_GROUPS = 10
FEW_GROUPS = 6
LEAST_GROUPS = 3
# The method of intervals over clusters, for pages that show them.
MADE_OVER_CLUSTERS = (
    f"bootstrapped over clusters, of fewer than {FEW_GROUPS} clusters by Student's t, of fewer"
    f" than {LEAST_GROUPS} none"
)
# Above this value, draws of films often end at 1 (docs/design/0007).
NEARLY_PERFECT = 0.9


class Interval(NamedTuple):
    """The ends of a 95 % interval; both are NaN if there is no interval."""

    low: float
    high: float

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Both ends; both are None if there is no interval."""
        return (
            (None, None) if math.isnan(self.low + self.high) else (self.low, self.high)
        )


NO_INTERVAL = Interval(math.nan, math.nan)


class GroupCount(NamedTuple):
    """The number of groups that contribute to a value, and the equivalent number of equal groups.

    The value is a mean over `n_clips` clips. If the value is above 0.9, its interval contains the
    interval that a mean over `n_clips` independent clips would have. If `n_clips` is 0, its
    interval is not extended.
    """

    number: int
    effective: float
    n_clips: int = 0


@dataclass(frozen=True)
class Estimate:
    """A metric with its interval over films, and the number of films that contribute."""

    value: float
    by_film: Interval
    n_films: int


def estimate(
    predictions: Predictions,
    names: Sequence[str] = tuple(METRICS),
    *,
    n_replicates: int = 2000,
    seed: int = 0,
    n_folds: int | None = None,
) -> dict[str, Estimate]:
    """Return each metric of one fit with its interval over films.

    Args:
        predictions: Labels, scores, decisions and films.
        names: Names of metrics; the default is all.
        n_replicates: The number of bootstrap replicates.
        seed: The seed of the draws.
        n_folds: The number of folds that the predictions were pooled from; None: a fixed test set.
    """
    n_films = int(predictions.films.max()) + 1
    counts = dict.fromkeys(names, GroupCount(n_films, n_films))
    for name in RANKING_METRICS:
        counts[name] = groups_behind(name, predictions.y, predictions.films)

    def statistics(weights: FloatArray) -> dict[str, FloatArray]:
        return values_under(weights, [predictions], [0], (*names, PREVALENCE.name))

    intervals = resample(
        statistics,
        n_films,
        n_replicates=n_replicates,
        seed=(seed, 0),
        within_unit=True,
        inflation=reuse_inflation(n_folds),
        counts=counts,
    )
    values = evaluate(predictions, names)
    return {
        name: Estimate(values[name], intervals[name], counts[name].number)
        for name in names
    }


def reuse_inflation(n_folds: int | None) -> float:
    """Return the factor by which cross-validation raises the variance of a pooled metric.

    Each clip tests the model of one fold and trains the models of the other folds. Therefore, the
    errors of two clips are correlated. On noise the variance doubles; Nadeau and Bengio's
    correction for k folds, 1 + k / (k - 1), is a little larger. For a fixed test set (None) the
    factor is 1.
    """
    if n_folds is None:
        return 1.0
    if n_folds < 2:
        raise FixInput(f"n_folds must be at least 2, got {n_folds}")
    return 1 + n_folds / (n_folds - 1)


def not_narrower_than_clips(interval: Interval, value: float, n_clips: int) -> Interval:
    """Return the interval of a value, extended to Wilson's interval if the value is above 0.9.

    Clips of one film are not independent. Therefore, an interval over films must not be narrower
    than an interval for n independent clips. If clips are independent, the mean A of n values from
    0 to 1 has a variance of at most A (1 - A) / n, as in Wilson's interval of the share A. AP and
    AUC are such means: AP is the mean of the precision at each positive clip. AUC is a mean over
    the clips of either class: the value of a clip is the share of the clips of the other class that
    are ranked on the right side of this clip.
    """
    if not value > NEARLY_PERFECT or not n_clips:
        return interval
    z = float(special.ndtri((1 + CONFIDENCE) / 2))
    share = 1 + z**2 / n_clips
    centre = (value + z**2 / (2 * n_clips)) / share
    half = z / share * (value * (1 - value) / n_clips + (z / (2 * n_clips)) ** 2) ** 0.5
    return Interval(min(interval.low, centre - half), max(interval.high, centre + half))


def share_variance(n_clips: ArrayLike, n_positive: ArrayLike) -> float:
    """Return the variance of the share of positive clips over draws of groups, by linearisation.

    A group of n clips with the share p adds (n (p - P) / N)^2, where P is the share of all N clips.
    """
    sizes = np.asarray(n_clips, dtype=np.float64)
    positive = np.asarray(n_positive, dtype=np.float64)
    share = positive.sum() / sizes.sum()
    return float(np.sum((positive - sizes * share) ** 2) / sizes.sum() ** 2)


def n_behind(name: str, y: BoolArray) -> int:
    """Return the number of clips that AP or AUC is a mean over.

    AP is a mean over the positive clips. AUC is taken as a mean over the clips of the rarer class.
    """
    n_positive = int(y.sum())
    return n_positive if name == AP.name else min(n_positive, len(y) - n_positive)


def groups_behind(
    name: str,
    y: BoolArray,
    codes: IntArray,
    folds: Iterable[IntArray] | None = None,
) -> GroupCount:
    """Return the number of groups that contribute to AP or AUC.

    A fold without a positive clip has no AP, and a fold of one class has no AUC; the clips of these
    folds are not counted. For AP, the groups with a positive clip are counted. For AUC, the groups
    with a positive clip and the groups with a negative clip are counted separately, and the smaller
    number is returned.

    Twelve films of which three contain most positive clips are less informative than twelve equal
    films. Therefore, the result also contains an effective number. AP depends most on the share of
    positive clips: the effective number is (sum p)^2 / sum p^2, where p is the number of positive
    clips of a film. For AUC, the effective number is the number of films, multiplied by the square
    root of E / k. Here, E is (sum n)^2 / sum n^2, where n is the number of clips of each of the k
    films (simulations: docs/design/0007). With fewer than six groups, the effective number is the
    number of groups.

    Args:
        name: The metric.
        y: The class of each clip.
        codes: The number of the group of each clip.
        folds: The positions of the clips of each fold; None for a value of all clips together.
    """
    has_value = np.zeros(len(y), dtype=np.bool_)
    for clips in [np.arange(len(y))] if folds is None else folds:
        has_value[clips] |= n_behind(name, y[clips]) > 0
    if not has_value.any():
        return GroupCount(0, 0.0)
    sizes: FloatArray = np.bincount(codes, weights=has_value).astype(np.float64)
    n_positive: FloatArray = np.bincount(codes, weights=has_value & y).astype(
        np.float64
    )
    n_positive = n_positive[sizes > 0]
    sizes = sizes[sizes > 0]
    number = int(np.count_nonzero(n_positive))
    effective = effective_number(n_positive)
    if name != AP.name:
        number = min(number, int(np.count_nonzero(sizes > n_positive)))
        effective = number * (effective_number(sizes) / len(sizes)) ** 0.5
    if number < FEW_GROUPS:
        effective = float(number)
    return GroupCount(number, effective, n_behind(name, y))


def effective_number(sizes: FloatArray) -> float:
    """Return (sum n)^2 / sum n^2 for the sizes n; this is the number of sizes if all are equal."""
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def resample(
    statistics: Statistics,
    n_groups: int,
    *,
    n_replicates: int = 2000,
    seed: Seed = 0,
    within_unit: bool = False,
    inflation: float = 1.0,
    label_inflation: float = 1.0,
    counts: Mapping[str, GroupCount] | None = None,
) -> dict[str, Interval]:
    """Return the interval of each statistic, from bootstrap draws of whole groups.

    Args:
        statistics: A function of weights of groups, one row per draw; it returns the value of each
            statistic for each row.
        n_groups: The number of groups.
        n_replicates: The number of draws.
        seed: The seed of the draws.
        within_unit: Whether values lie in [0, 1]; draws are then widened on the logit scale.
        inflation: The true variance of a statistic, divided by the variance of its draws
            (`reuse_inflation`).
        label_inflation: This ratio for the part of the variance that the share of positive clips
            explains; only used for statistics in [0, 1] with ten groups or more.
        counts: The number of groups that contribute to each statistic (`groups_behind`). All groups
            contribute to a statistic that is not in `counts`.
    """
    point = statistics(np.ones((1, n_groups)))
    drawn = draw(statistics, n_groups, n_replicates, seed)
    all_groups = GroupCount(n_groups, n_groups)
    factor = (label_inflation / inflation) ** 0.5
    shares = drawn.get(PREVALENCE.name) if within_unit else None
    intervals = {}
    for name, values in drawn.items():
        behind = (counts or {}).get(name, all_groups)
        if shares is not None and behind.number >= MANY_GROUPS:
            values = _with_labels(values, shares, factor)
        intervals[name] = interval_from_draws(
            values,
            float(point[name][0]),
            behind,
            within_unit=within_unit,
            inflation=inflation,
        )
    return intervals


def _with_labels(values: FloatArray, shares: FloatArray, factor: float) -> FloatArray:
    """Return draws in [0, 1]; multiply the part that shares of positive clips explain by a factor.

    The explained part is found by a linear regression on the logit scale. Draws of 0 and 1 are not
    changed: a changed draw would be between 0 and 1, and `widen` would move it far away from all
    other draws.
    """
    is_known = np.isfinite(values) & np.isfinite(shares)
    if factor == 1 or not is_known.any():
        return values
    x = shares[is_known]
    y, _ = _on_logit_scale(values[is_known])
    if min(np.ptp(x), np.ptp(y)) < NEXT_TO_ZERO:
        return values
    x = x - x.mean()
    moved = special.expit(y + (factor - 1) * x * (x @ y) / (x @ x))
    adjusted = values.copy()
    adjusted[is_known] = np.where(_is_inside(values[is_known]), moved, values[is_known])
    return adjusted


def draw(
    statistics: Statistics, n_groups: int, n_replicates: int, seed: Seed
) -> dict[str, FloatArray]:
    """Return the value of each statistic in each bootstrap replicate."""
    weights_of_blocks = draw_weights(n_groups, n_replicates, seed)
    blocks = [statistics(weights) for weights in weights_of_blocks]
    return {
        name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]
    }


def interval_from_draws(
    values: FloatArray,
    point: float,
    groups: GroupCount,
    *,
    within_unit: bool = False,
    inflation: float = 1.0,
) -> Interval:
    """Return the interval of a value from its draws.

    The ends are NaN for fewer than three groups, for an infinite inflation, if no draw has a value,
    and if all draws are equal. Equal draws mean that there are too few clips, and not that the
    value is certain.
    """
    if values.size < 2:
        raise FixInput(f"n_replicates must be at least 2, got {values.size}")
    draws = values[np.isfinite(values)]
    is_known = groups.number >= LEAST_GROUPS and np.isfinite(inflation + point)
    if not is_known or not draws.size:
        return NO_INTERVAL
    k = groups.effective
    if groups.number < FEW_GROUPS:
        low, high = _student(draws, point, k, inflation, within_unit=within_unit)
    else:
        wide = widen(draws, inflation**0.5, within_unit=within_unit)
        # At this tail probability, the normal quantile has the width of Student's t for k groups
        # with the unbiased variance.
        t = special.stdtrit(k - 1, (1 - CONFIDENCE) / 2)
        tail = special.ndtr((k / (k - 1)) ** 0.5 * t)
        low, high = np.quantile(wide, (tail, 1 - tail)).tolist()
    if not high - low > LEAST_WIDTH:
        return NO_INTERVAL
    return not_narrower_than_clips(Interval(low, high), point, groups.n_clips)


def _student(
    draws: FloatArray, point: float, k: float, inflation: float, *, within_unit: bool
) -> tuple[float, float]:
    """Return the ends of Student's interval for k groups.

    The interval of a value in [0, 1] is computed on the scale of arcsin(sqrt(value)). On this
    scale, the variance of a share does not depend on the share. Therefore, the interval of a value
    near 1 is short, and it does not exceed 1.
    """
    t = float(special.stdtrit(k - 1, (1 + CONFIDENCE) / 2))
    half = t * float(np.std(draws)) * (inflation * k / (k - 1)) ** 0.5
    if not within_unit:
        centre = float(np.median(draws))
        return centre - half, centre + half
    value = min(max(point, 0.0), 1.0)
    centre = math.asin(value**0.5)
    half /= max(2 * (value * (1 - value)) ** 0.5, NEXT_TO_ZERO)
    low = max(centre - half, 0.0)
    high = min(centre + half, math.pi / 2)
    return math.sin(low) ** 2, math.sin(high) ** 2


def _on_logit_scale(draws: FloatArray) -> tuple[FloatArray, float]:
    """Return draws in [0, 1] on the logit scale, and their median on this scale.

    A draw of 0 or 1 would be infinite on this scale. It is moved inside, by half of the smallest
    distance of any other draw from 0 or 1. If it were moved by much less, the few draws of 1 would
    be farther from the other draws than the other draws are from 0.5.
    """
    distances = np.minimum(draws, 1 - draws)
    inside = distances[distances > NEXT_TO_ZERO]
    edge = float(inside.min()) / 2 if inside.size else NEXT_TO_ZERO
    middle = np.clip(np.median(draws), edge, 1 - edge)
    return special.logit(np.clip(draws, edge, 1 - edge)), float(special.logit(middle))


def widen(draws: FloatArray, stretch: float, *, within_unit: bool) -> FloatArray:
    """Return the draws after each was moved to `stretch` times its distance from their median.

    Draws in [0, 1] are moved on the logit scale.
    """
    if stretch == 1:
        return draws
    if not within_unit:
        centre = float(np.median(draws))
        return centre + stretch * (draws - centre)
    values, middle = _on_logit_scale(draws)
    moved = special.expit(middle + stretch * (values - middle))
    return np.asarray(np.where(_is_inside(draws), moved, np.round(draws)))


def _is_inside(draws: FloatArray) -> BoolArray:
    """Return for each draw whether it is neither 0 nor 1."""
    return (draws > NEXT_TO_ZERO) & (draws < 1 - NEXT_TO_ZERO)


def draw_weights(n_groups: int, n_replicates: int, seed: Seed) -> Iterator[FloatArray]:
    """Yield blocks of draws, one draw per row: how often each group was drawn.

    A draw takes k of the k groups with replacement.
    """
    rng = np.random.default_rng(seed)
    k = n_groups
    step = max(1, BLOCK // k)
    for start in range(0, n_replicates, step):
        rows = min(step, n_replicates - start)
        drawn = rng.integers(0, k, size=(rows, k)) + k * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * k)
        yield counts.reshape(rows, k).astype(np.float64)


def ratio_interval(
    top: ArrayLike,
    bottom: ArrayLike,
    clusters: Sequence[str],
    *,
    scale: int = 1,
    most: float = math.inf,
) -> list[float | None]:
    """Return the 95 % interval of scale * sum(top) / sum(bottom), bootstrapped over clusters.

    Both ends are limited to the range from 0 to `most`; for a share, `most` is 1. An end that
    cannot be computed is None.
    """
    names, codes = np.unique(clusters, return_inverse=True)
    tops = np.bincount(codes, weights=np.asarray(top))
    bottoms = np.bincount(codes, weights=np.asarray(bottom))

    def ratio(weights: FloatArray) -> dict[str, FloatArray]:
        with np.errstate(invalid="ignore"):
            return {"ratio": scale * (weights @ tops) / (weights @ bottoms)}

    # A cluster with a denominator of 0, such as a film without a word, has no share.
    n_behind = int(np.count_nonzero(bottoms))
    counts = {"ratio": GroupCount(n_behind, n_behind)}
    interval = resample(ratio, len(names), counts=counts)["ratio"]
    ends = np.clip(interval, 0, most).tolist()
    return [end if math.isfinite(end) else None for end in ends]
