"""Estimate the share of positive clips in many films from a few marked clips of each film.

Clips are sampled at random within films. The share of a film is estimated from its marked clips,
and the share of all clips is the mean over films, weighted by their numbers of clips. The interval
holds for the population of films: its variance is the jackknife over films, with films - 1 degrees
of freedom. It is Korn and Graubard's interval (Survey Methodology 24, 1998): Clopper and Pearson's
interval for an effective number of independent clips. It stays inside [0, 1], and has a width even
if no marked clip is positive. With few films and rare positives, films often look more similar than
they are. Therefore, the intraclass correlation of the clips of a film is taken as at least 0.17.
With this value, simulated intervals miss the share in at most 0.05 of cases.

Scores of a model may reduce the variance. In each film, the mean score of all clips is compared
with the mean score of the marked clips. The share of the film is changed by this difference,
multiplied by the slope of marks on scores in all other films. The slope does not depend on the film
itself. Therefore, the estimate is unbiased for any scores, and useless scores widen the interval by
less than 1 %.

The last dimension of all arrays is the film; earlier dimensions may be simulated data sets.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from obygaze_models.evaluation.bootstrap import CONFIDENCE
from obygaze_models.evaluation.predictions import ROUNDING

Floats = NDArray[np.float64]
LEAST_ALIKE = 0.17  # smallest intraclass correlation of the clips of one film


@dataclass(frozen=True)
class MarkedFilms:
    """Sums over the marked clips of each film.

    Args:
        sizes: The number of clips of the film.
        n_marked: The number of marked clips.
        shares: The share of positive clips among the marked clips.
        ahead: The mean score of all clips minus the mean score of the marked clips.
        marks_squared: The sum of the squared distances of the marks (0 and 1) from their mean.
        scores_squared: The sum of the squared distances of the scores of the marked clips from
            their mean.
        products: The sum over the marked clips of the distance of the mark from its mean, times the
            distance of the score from its mean (signed distances).
    """

    sizes: Floats
    n_marked: Floats
    shares: Floats
    ahead: Floats
    marks_squared: Floats
    scores_squared: Floats
    products: Floats

    @classmethod
    def of(
        cls, sizes: Floats, marks: Floats, scores: Floats, score_of_all: Floats
    ) -> "MarkedFilms":
        """Return the sums over the marked clips of each film.

        The last dimension of `marks` and `scores` is the clip. A clip without a mark is NaN in
        `marks`. `score_of_all` is the mean score of all clips of each film.
        """
        is_marked = ~np.isnan(marks)
        n_marked = is_marked.sum(axis=-1)
        shares = np.nansum(marks, axis=-1) / n_marked
        mean_scores = np.sum(scores, axis=-1, where=is_marked) / n_marked
        marks_apart = np.where(is_marked, marks - shares[..., None], 0.0)
        scores_apart = np.where(is_marked, scores - mean_scores[..., None], 0.0)
        return cls(
            sizes=sizes,
            n_marked=n_marked.astype(np.float64),
            shares=shares,
            ahead=score_of_all - mean_scores,
            marks_squared=(marks_apart**2).sum(axis=-1),
            scores_squared=(scores_apart**2).sum(axis=-1),
            products=(marks_apart * scores_apart).sum(axis=-1),
        )

    def some(self, films: Any) -> "MarkedFilms":
        """Return some of the films."""
        return MarkedFilms(*(array[..., films] for array in vars(self).values()))

    @property
    def weights(self) -> Floats:
        """The number of clips of each film, divided by the number of clips of all films."""
        return np.asarray(self.sizes / self.sizes.sum(axis=-1, keepdims=True))

    @property
    def slopes(self) -> Floats:
        """For each film, the slope of marks on scores within all other films; 0 if undefined."""
        # Weights as in the variance of a mean: films with few marked clips count more.
        factors = self.weights**2 / self._pairs
        products = factors * self.products
        squares = factors * self.scores_squared
        products_of_others = products.sum(axis=-1, keepdims=True) - products
        squares_of_others = squares.sum(axis=-1, keepdims=True) - squares
        is_known = squares_of_others > 1e-12 * squares.sum(axis=-1, keepdims=True)
        slopes = np.zeros_like(products)
        np.divide(products_of_others, squares_of_others, out=slopes, where=is_known)
        return slopes

    @property
    def _pairs(self) -> Floats:
        """For each film, n (n - 1) for n marked clips; infinite for one marked clip.

        The variance of a mean is the sum of squares, divided by this number.
        """
        return np.where(self.n_marked > 1, self.n_marked * (self.n_marked - 1), np.inf)

    def variance_within(self, slopes: Floats | float = 0.0) -> Floats:
        """Return the part of the variance of the share that comes from sampling within films."""
        squares = self.marks_squared - 2 * slopes * self.products
        squares = squares + slopes**2 * self.scores_squared
        return np.asarray((self.weights**2 * squares / self._pairs).sum(axis=-1))


@dataclass(frozen=True)
class Share:
    """The share of positive clips among all clips of all films.

    `error` is its standard error, `low` and `high` are its 95 % interval; for a single film, these
    are NaN.
    """

    value: Floats
    error: Floats
    low: Floats
    high: Floats

    @property
    def width(self) -> Floats:
        """The width of the interval."""
        return np.asarray(self.high - self.low)


def variance_explained(films: MarkedFilms) -> Floats:
    """Return the share of the variance within films that scores explain; may be negative."""
    return 1 - _left_within(films, films.slopes)


def _left_within(films: MarkedFilms, slopes: Floats | float) -> Floats:
    """Return the share of the variance within films that scores do not explain.

    Return 1 if there is no variance.
    """
    by_marks = films.variance_within()
    left = np.ones_like(by_marks)
    np.divide(films.variance_within(slopes), by_marks, out=left, where=by_marks > 0)
    return left


def estimate_share(films: MarkedFilms, slopes: Floats | float = 0.0) -> Share:
    """Return the share of positive clips among all clips of the films.

    Args:
        films: The films.
        slopes: The slope of marks on scores for each film (`MarkedFilms.slopes`); 0: scores are
            ignored.
    """
    values = films.shares + slopes * films.ahead
    weights = films.weights
    n_films = weights.shape[-1]
    by_marks = (weights * films.shares).sum(axis=-1)
    value = (weights * values).sum(axis=-1)
    if n_films == 1:
        missing = np.full_like(value, np.nan)
        return Share(value, missing, missing, missing)
    # The change of the share if a film is left out.
    changes = weights * (values - value[..., None]) / (1 - weights)
    variance = (n_films - 1) / n_films * (changes**2).sum(axis=-1)
    value = np.clip(value, 0.0, 1.0)
    n_effective = _effective_clips(films, slopes, by_marks, variance)
    low, high = _clopper_pearson(value, n_effective)
    return Share(value, np.sqrt(variance), low, high)


def _effective_clips(
    films: MarkedFilms, slopes: Floats | float, by_marks: Floats, variance: Floats
) -> Floats:
    """Return the effective number of independent clips."""
    t_of_clips = special.stdtrit(films.n_marked.sum(axis=-1) - 1, (1 + CONFIDENCE) / 2)
    t_of_films = special.stdtrit(films.n_marked.shape[-1] - 1, (1 + CONFIDENCE) / 2)
    of_one_clip = by_marks * (1 - by_marks)
    shown = np.zeros_like(variance)
    # If all clips are positive, the sum of the weights may differ from 1 by rounding.
    np.divide(variance, of_one_clip, out=shown, where=of_one_clip > ROUNDING)
    # The smallest variance is not estimated from films, so it is not multiplied by the ratio of t.
    shown = shown * (t_of_films / t_of_clips) ** 2
    left = _left_within(films, slopes)[..., None]
    of_films = LEAST_ALIKE + (1 - LEAST_ALIKE) * left / films.n_marked
    least = (films.weights**2 * of_films).sum(axis=-1)
    return np.asarray(1 / np.maximum(shown, least))


def _clopper_pearson(share: Floats, n_clips: Floats) -> tuple[Floats, Floats]:
    """Return Clopper and Pearson's interval of a share, for a fractional number of clips."""
    n_with = share * n_clips
    n_without = n_clips - n_with
    tail = (1 - CONFIDENCE) / 2
    low = special.betaincinv(n_with, n_without + 1, tail)
    high = special.betaincinv(n_with + 1, n_without, 1 - tail)
    return np.where(n_with > 0, low, 0.0), np.where(n_without > 0, high, 1.0)
