"""Bootstrap intervals over films.

Clips of one film are not independent: 1,600 clips of 12 films have about as much information as
12 to 150 independent clips. So whole films are drawn.

With a dozen films the percentile interval is too short, because it takes the variance between k
films as known (Gauss instead of Student, k instead of k - 1). Hesterberg's expanded percentile
interval moves the quantiles outwards by these two factors: it follows a skewed distribution and
stays inside [0, 1]. (Of fewer than six films it would end at the most extreme draw: it is
Student's, and of fewer than three there is none.) In 400 simulated tests of 12 films with the sizes
of the published ones and a design effect of 11, over five metrics of a model on noise and of one on
signal, 95 % intervals covered .91 to .96 (mean .94); percentile intervals .88 to .94 (.90), BCa .86
to .94 (.90: drawing a film twice biases AUC, which misleads its correction), the delete-one-film
jackknife .93 to .97.

Predictions pooled from the folds of a cross-validation vary more than their clips do, because each
clip also trained the models that the others tested. With `n_folds` an interval is widened for that,
but not its part that comes from the shares of positives, which training does not change. For a
linear probe on noise, over the published clips in folds of whole films, the intervals of AUC
contained 0.5 in .78 to .88 of 60 runs without, and in .91 to 1.00 of 100 runs with it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.metrics import (
    METRICS,
    PREVALENCE,
    RANKING_METRICS,
    GroupCount,
    replicate,
)
from obygaze_models.evaluation.predictions import (
    BoolArray,
    FloatArray,
    IntArray,
    Predictions,
    as_codes,
)

Statistics = Callable[[FloatArray], dict[str, FloatArray]]
CONFIDENCE = 0.95  # of all intervals
# Blocks of this many weights limit the memory of a bootstrap to about 100 MB.
BLOCK = 2_000_000
NEXT_TO_ZERO = 1e-6
LEAST_WIDTH = 1e-9  # below it, draws differ by the rounding of sums
# Of fewer than MANY_GROUPS a straight line explains much by chance; of fewer than FEW_GROUPS the
# quantiles end at the most extreme draw; fewer than LEAST_GROUPS do not show how far groups differ.
MANY_GROUPS = 10
FEW_GROUPS = 6
LEAST_GROUPS = 3
# How intervals over clusters are made, for the page that shows them.
MADE_OVER_CLUSTERS = (
    f"bootstrapped over clusters, of fewer than {FEW_GROUPS} clusters by Student's t, of fewer"
    f" than {LEAST_GROUPS} none"
)
# Draws of films that are all ranked almost without error end at 1 (docs/design/0018).
NEARLY_PERFECT = 0.9


@dataclass(frozen=True)
class Interval:
    """An interval of 95 %; NaN where there is none."""

    low: float
    high: float

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Both ends; None in place of NaN, where there is no interval."""
        if np.isnan(self.low + self.high):
            return None, None
        return self.low, self.high

    def of_difference(self, lowest: float = -1.0, highest: float = 1.0) -> "Interval":
        """Return the interval within the values that a difference of two metrics can have."""
        low, high = np.clip((self.low, self.high), lowest, highest).tolist()
        return replace(self, low=low, high=high)


@dataclass(frozen=True)
class Estimate:
    """A metric with its interval over films, and how many films are behind it."""

    metric: str
    value: float
    by_film: Interval
    n_films: int


def estimate(
    predictions: Predictions,
    groups: ArrayLike,
    names: Iterable[str] = METRICS,
    *,
    n_replicates: int = 2000,
    seed: int = 0,
    n_folds: int | None = None,
) -> dict[str, Estimate]:
    """Return each metric with its interval over films.

    Args:
        predictions: Labels, scores and decisions.
        groups: The film of each clip; its id, to treat clips as independent.
        names: Names of metrics; the default is all.
        n_replicates: The number of bootstrap replicates.
        seed: The seed of the draws.
        n_folds: The number of folds that the predictions were pooled from, if any.
    """
    names = list(names)

    def statistics(weights: FloatArray) -> dict[str, FloatArray]:
        return replicate(predictions, weights, [*names, PREVALENCE.name])

    n_groups = len(np.unique(np.asarray(groups)))
    counts = dict.fromkeys(names, GroupCount(n_groups, n_groups))
    for name in RANKING_METRICS:
        counts[name] = groups_behind(name, predictions.y, groups)
    drawn = resample(
        statistics,
        groups,
        n_replicates=n_replicates,
        seed=(seed, 0),
        within_unit=True,
        inflation=reuse_inflation(n_folds),
        counts=counts,
    )
    point = statistics(np.ones((1, len(predictions))))
    estimates = {}
    for name in names:
        value = float(point[name][0])
        interval = drawn[name]
        if name in RANKING_METRICS:
            n_clips = RANKING_METRICS[name].n_behind(predictions.y)
            interval = not_narrower_than_clips(interval, value, n_clips)
        estimates[name] = Estimate(name, value, interval, counts[name].number)
    return estimates


def reuse_inflation(n_folds: int | None) -> float:
    """Return the factor by which cross-validation raises the variance of a pooled metric.

    Each clip tests one model and trains the others, so errors of two clips are correlated. On noise
    the variance doubles; Nadeau and Bengio's correction for k folds, 1 + k / (k - 1), is a little
    larger. For a fixed test set (None) the factor is 1.
    """
    if n_folds is None:
        return 1.0
    if n_folds < 2:
        raise FixInput(f"n_folds must be at least 2, got {n_folds}")
    return 1 + n_folds / (n_folds - 1)


def not_narrower_than_clips(interval: Interval, value: float, n_clips: int) -> Interval:
    """Return the interval of a nearly perfect AP or AUC, not narrower than clips allow.

    The mean A of n values from 0 to 1 has a variance of at most A (1 - A) / n, if clips are
    independent. So the interval contains Wilson's of A for n clips. AP is the mean of the precision
    at each positive clip. AUC is the mean, over clips of either class, of the share of the other
    class that is on the right side.
    """
    if not value > NEARLY_PERFECT or interval.ends == (None, None):
        return interval
    z = float(special.ndtri((1 + CONFIDENCE) / 2))
    share = 1 + z**2 / n_clips
    centre = (value + z**2 / (2 * n_clips)) / share
    half = z / share * (value * (1 - value) / n_clips + (z / (2 * n_clips)) ** 2) ** 0.5
    low = min(interval.low, centre - half)
    high = max(interval.high, centre + half)
    return replace(interval, low=low, high=high)


def share_variance(n_clips: ArrayLike, n_positive: ArrayLike) -> float:
    """Return the variance of the share of positives over draws of whole groups, by linearisation.

    A group of n clips with the share p adds (n (p - P) / N)^2, where P is the share of all N clips.
    """
    sizes = np.asarray(n_clips, dtype=np.float64)
    positive = np.asarray(n_positive, dtype=np.float64)
    share = positive.sum() / sizes.sum()
    return float(np.sum((positive - sizes * share) ** 2) / sizes.sum() ** 2)


def groups_behind(
    name: str,
    y: ArrayLike,
    groups: ArrayLike,
    folds: Iterable[IntArray] | None = None,
) -> GroupCount:
    """Return how many groups are behind AP or AUC.

    A fold without a positive clip has no AP, and a fold of one class no AUC, so that their groups
    are behind neither. Of the other groups, those with a positive clip are behind AP. For AUC they
    are as many as have a positive clip, or as have a negative clip if these are fewer.

    Twelve films of which three hold most of the positive clips say less than twelve equal ones. AP
    depends most on the share of positives: it has (sum p)^2 / sum p^2 films, where p is the number
    of positive clips of each. AUC has the geometric mean of the number of films and of the same
    formula for their sizes (simulations: docs/design/0018). Of few groups it is their number.

    Args:
        name: The metric.
        y: The class of each clip.
        groups: The group of each clip.
        folds: The positions of the clips of each fold; None where a value is of all together.
    """
    labels = np.asarray(y, dtype=np.bool_)
    _, codes = as_codes(groups, len(labels))
    ranking = RANKING_METRICS[name]
    if folds is None:
        folds = [np.arange(len(labels))]
    has_value = np.zeros(len(labels), dtype=np.bool_)
    for clips in folds:
        has_value[clips] |= ranking.n_behind(labels[clips]) > 0
    if not has_value.any():
        return GroupCount(0, 0.0)
    sizes = np.bincount(codes, weights=has_value).astype(np.float64)
    n_positive = np.bincount(codes, weights=has_value & labels).astype(np.float64)
    is_behind = sizes > 0
    count = ranking.n_groups(sizes[is_behind], n_positive[is_behind])
    if count.number < FEW_GROUPS:
        return GroupCount(count.number, count.number)
    return count


def resample(
    statistics: Statistics,
    groups: ArrayLike,
    *,
    n_replicates: int = 2000,
    seed: int | tuple[int, ...] = 0,
    within_unit: bool = False,
    inflation: float = 1.0,
    label_inflation: float = 1.0,
    counts: Mapping[str, GroupCount] | None = None,
) -> dict[str, Interval]:
    """Return the interval of each statistic, by drawing whole groups.

    Args:
        statistics: A function from rows of clip weights to values, one for each row.
        groups: The group of each clip.
        n_replicates: The number of draws.
        seed: The seed of the draws.
        within_unit: Whether draws lie in [0, 1]; they are widened on the logit scale.
        inflation: A factor of the variance that the draws do not show (`reuse_inflation`).
        label_inflation: The same for what the share of positives explains of statistics in [0, 1].
        counts: How many groups are behind a statistic (`groups_behind`), where not all are.
    """
    labels = np.asarray(groups)
    _, codes = as_codes(labels, labels.size)
    point = statistics(np.ones((1, codes.size)))
    drawn = draw(statistics, codes, n_replicates, seed)
    n_groups = int(codes.max()) + 1
    all_groups = GroupCount(n_groups, n_groups)
    factor = (label_inflation / inflation) ** 0.5
    shares = drawn.get(PREVALENCE.name) if within_unit else None
    intervals = {}
    for name, values in drawn.items():
        behind = (counts or {}).get(name, all_groups)
        if shares is not None and behind.number >= MANY_GROUPS:
            values = _with_labels(values, shares, factor)
        intervals[name] = interval_of(
            values,
            float(point[name][0]),
            behind,
            within_unit=within_unit,
            inflation=inflation,
        )
    return intervals


def _with_labels(values: FloatArray, shares: FloatArray, factor: float) -> FloatArray:
    """Multiply what the shares of positives explain of draws in [0, 1] by a factor.

    They explain it by a straight line, on the logit scale. Draws of 0 and 1 stay as they are: next
    to them, they would count as inside for `widen`, and be far from all others.
    """
    is_known = np.isfinite(values) & np.isfinite(shares)
    if factor == 1 or not is_known.any():
        return values
    x = shares[is_known]
    edge = _next_to_edge(values[is_known])
    y = special.logit(np.clip(values[is_known], edge, 1 - edge))
    if min(np.ptp(x), np.ptp(y)) < NEXT_TO_ZERO:
        return values
    x = x - x.mean()
    moved = special.expit(y + (factor - 1) * x * (x @ y) / (x @ x))
    adjusted = values.copy()
    adjusted[is_known] = np.where(_is_inside(values[is_known]), moved, values[is_known])
    return adjusted


def draw(
    statistics: Statistics,
    codes: IntArray,
    n_replicates: int,
    seed: int | tuple[int, ...],
) -> dict[str, FloatArray]:
    """Return the value of each statistic in each replicate; `codes` is the group of each clip."""
    blocks = [
        statistics(weights) for weights in draw_weights(codes, n_replicates, seed)
    ]
    values = {}
    for name in blocks[0]:
        values[name] = np.concatenate([block[name] for block in blocks])
    return values


def interval_of(
    values: FloatArray,
    point: float,
    groups: GroupCount,
    *,
    within_unit: bool = False,
    inflation: float = 1.0,
) -> Interval:
    """Return the interval from the values in draws of groups.

    It is NaN for fewer than three groups, for an infinite inflation, if no replicate has a value,
    and if all draws are equal: that shows too few clips, and not a sure value.
    """
    if values.size < 2:
        raise FixInput(f"n_replicates must be at least 2, got {values.size}")
    draws = values[np.isfinite(values)]
    low = np.nan
    high = np.nan
    is_known = groups.number >= LEAST_GROUPS and np.isfinite(inflation)
    if is_known and draws.size and np.isfinite(point):
        k = groups.effective
        if groups.number < FEW_GROUPS:
            low, high = _student(draws, point, k, inflation, within_unit=within_unit)
        else:
            wide = widen(draws, inflation**0.5, within_unit=within_unit)
            # The tail with which k groups have the width of Student's t, unbiased variance.
            tail = special.ndtr(
                (k / (k - 1)) ** 0.5 * special.stdtrit(k - 1, (1 - CONFIDENCE) / 2)
            )
            low, high = np.quantile(wide, (tail, 1 - tail)).tolist()
        if not high - low > LEAST_WIDTH:
            low = np.nan
            high = np.nan
    return Interval(low, high)


def _student(
    draws: FloatArray, point: float, k: float, inflation: float, *, within_unit: bool
) -> tuple[float, float]:
    """Return Student's interval of k groups.

    That of a value in [0, 1] is made on the scale of arcsin(sqrt(value)), on which the variance of
    a share does not depend on it: the interval of a value near 1 is short, and stays below 1.
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


def _next_to_edge(draws: FloatArray) -> float:
    """Return half the least distance from 0 or 1 that draws in [0, 1] have without being there.

    Draws of 0 and 1 count as so far from it. A number that is much smaller would make the few draws
    that are 1 more different from the others than these are from one half.
    """
    distances = np.minimum(draws, 1 - draws)
    inside = distances[distances > NEXT_TO_ZERO]
    return float(inside.min()) / 2 if inside.size else NEXT_TO_ZERO


def widen(draws: FloatArray, stretch: float, *, within_unit: bool) -> FloatArray:
    """Return the draws, moved away from their median; those in [0, 1] on the logit scale."""
    if stretch == 1:
        return draws
    centre = float(np.median(draws))
    if not within_unit:
        return centre + stretch * (draws - centre)
    edge = _next_to_edge(draws)
    middle = special.logit(np.clip(centre, edge, 1 - edge))
    values = special.logit(np.clip(draws, edge, 1 - edge))
    moved = special.expit(middle + stretch * (values - middle))
    return np.asarray(np.where(_is_inside(draws), moved, np.round(draws)))


def _is_inside(draws: FloatArray) -> BoolArray:
    """Return which draws are neither 0 nor 1."""
    return (draws > NEXT_TO_ZERO) & (draws < 1 - NEXT_TO_ZERO)


def draw_weights(
    codes: IntArray, n_replicates: int, seed: int | tuple[int, ...]
) -> Iterator[FloatArray]:
    """Yield how often each clip is in each replicate, if k groups are drawn with replacement."""
    rng = np.random.default_rng(seed)
    k = int(codes.max()) + 1
    step = max(1, BLOCK // max(codes.size, k))
    for start in range(0, n_replicates, step):
        rows = min(step, n_replicates - start)
        drawn = rng.integers(0, k, size=(rows, k)) + k * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * k).reshape(rows, k)
        yield counts[:, codes].astype(np.float64)


def ratio_interval(
    top: ArrayLike,
    bottom: ArrayLike,
    clusters: Sequence[str],
    *,
    scale: int = 1,
    most: float = math.inf,
) -> list[float | None]:
    """Return the 95 % interval of scale * sum(top) / sum(bottom), bootstrapped over clusters.

    It lies between 0 and `most`, which is 1 of a share. An end that cannot be computed is None.
    """
    names, codes = np.unique(clusters, return_inverse=True)
    tops = np.bincount(codes, weights=np.asarray(top))
    bottoms = np.bincount(codes, weights=np.asarray(bottom))

    def ratio(weights: FloatArray) -> dict[str, FloatArray]:
        with np.errstate(invalid="ignore"):
            return {"ratio": scale * (weights @ tops) / (weights @ bottoms)}

    # A cluster of which nothing is counted, such as a film without a word, has no share.
    n_behind = int(np.count_nonzero(bottoms))
    counts = {"ratio": GroupCount(n_behind, n_behind)}
    interval = resample(ratio, names, counts=counts)["ratio"]
    ends = np.clip((interval.low, interval.high), 0, most).tolist()
    return [end if math.isfinite(end) else None for end in ends]
