"""The share of clips with something in many films, from a few clips of each that were marked.

Clips are drawn at random within films. The share of a film is estimated from its marked clips, and
the share of all clips is the mean over films, weighted by their numbers of clips. The interval
speaks of films of which these are a draw: its variance is the jackknife over films, with films - 1
degrees of freedom. It is Korn and Graubard's interval (Survey Methodology 24, 1998), which is
Clopper and Pearson's for the number of independent clips that tell as much, so that it stays inside
[0, 1], and has a width where no marked clip has it. Few films of which few clips have it often look
more alike than films are. So the clips of a film never count as less alike than by an intraclass
correlation of 0.17, with which simulated intervals miss the share in at most 0.05.

Scores of a model may reduce the variance. In each film, the mean score of the marked clips is
compared with that of all clips, and the share moves by the difference, times the slope of marks on
scores in the other films. As the clips of a film say nothing of its own slope, the estimate stays
without bias, whatever the scores are: useless scores make the interval wider by less than 1 %.

All arrays have films in their last dimension; those before it may be worlds of a simulation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from obygaze_models.evaluation.bootstrap import CONFIDENCE
from obygaze_models.evaluation.predictions import ROUNDING

Floats = NDArray[np.float64]
LEAST_ALIKE = 0.17  # of the clips of one film: the least intraclass correlation


@dataclass(frozen=True)
class MarkedFilms:
    """What the marked clips of each film say.

    Args:
        sizes: All clips of the film.
        n_marked: The marked clips.
        shares: The share of the marked clips that have it.
        ahead: The mean score of all clips, less that of the marked clips.
        marks_squared: The sum of squares of the marks (0 and 1) about their mean.
        scores_squared: The same of the scores of the marked clips.
        products: The sum of the products of both.
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
        """Return the sums of clips, which are in the last dimension; NaN where none is marked."""
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
        """The share of each film in all clips."""
        return np.asarray(self.sizes / self.sizes.sum(axis=-1, keepdims=True))

    @property
    def slopes(self) -> Floats:
        """The slope of marks on scores within the other films; 0 where they have none."""
        # As in the variance of a mean, films with few marked clips count for more.
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
        """The factors n (n - 1) of the variance of a mean; of one clip, nothing is known."""
        return np.where(self.n_marked > 1, self.n_marked * (self.n_marked - 1), np.inf)

    def variance_within(self, slopes: Floats | float = 0.0) -> Floats:
        """Return the variance of the share that the draw of clips within films makes."""
        squares = self.marks_squared - 2 * slopes * self.products
        squares = squares + slopes**2 * self.scores_squared
        return np.asarray((self.weights**2 * squares / self._pairs).sum(axis=-1))


@dataclass(frozen=True)
class Share:
    """The share of clips of all films, with its standard error and its interval of 95 %.

    Standard error and interval are NaN for a single film.
    """

    value: Floats
    error: Floats
    low: Floats
    high: Floats

    @property
    def width(self) -> Floats:
        """The width of the interval."""
        return np.asarray(self.high - self.low)


def explained_by_scores(films: MarkedFilms) -> Floats:
    """Return the share of the variance within films that scores explain; below 0 is nothing."""
    return 1 - _left_within(films, films.slopes)


def _left_within(films: MarkedFilms, slopes: Floats | float) -> Floats:
    """Return the share of the variance within films that is left by scores; 1 without variance."""
    by_marks = films.variance_within()
    left = np.ones_like(by_marks)
    np.divide(films.variance_within(slopes), by_marks, out=left, where=by_marks > 0)
    return left


def share_of(films: MarkedFilms, slopes: Floats | float = 0.0) -> Share:
    """Return the share of all clips of films.

    Args:
        films: The films.
        slopes: By how much marks follow scores in each film; 0 for the marks alone.
    """
    values = films.shares + slopes * films.ahead
    weights = films.weights
    n_films = weights.shape[-1]
    by_marks = (weights * films.shares).sum(axis=-1)
    value = (weights * values).sum(axis=-1)
    if n_films == 1:
        missing = np.full_like(value, np.nan)
        return Share(value, missing, missing, missing)
    # Without a film, the share would be another one by so much.
    changes = weights * (values - value[..., None]) / (1 - weights)
    variance = (n_films - 1) / n_films * (changes**2).sum(axis=-1)
    value = np.clip(value, 0.0, 1.0)
    n_effective = _effective_clips(films, slopes, by_marks, variance)
    low, high = _clopper_pearson(value, n_effective)
    return Share(value, np.sqrt(variance), low, high)


def _effective_clips(
    films: MarkedFilms, slopes: Floats | float, by_marks: Floats, variance: Floats
) -> Floats:
    """Return how many independent clips tell as much as the marked clips of these films."""
    t_of_clips = special.stdtrit(films.n_marked.sum(axis=-1) - 1, (1 + CONFIDENCE) / 2)
    t_of_films = special.stdtrit(films.n_marked.shape[-1] - 1, (1 + CONFIDENCE) / 2)
    of_one_clip = by_marks * (1 - by_marks)
    shown = np.zeros_like(variance)
    # Where all clips have it, the sum of the weights may differ from 1 by rounding.
    np.divide(variance, of_one_clip, out=shown, where=of_one_clip > ROUNDING)
    # The least variance is not estimated from films, so that t does not make it larger.
    shown = shown * (t_of_films / t_of_clips) ** 2
    left = _left_within(films, slopes)[..., None]
    of_films = LEAST_ALIKE + (1 - LEAST_ALIKE) * left / films.n_marked
    least = (films.weights**2 * of_films).sum(axis=-1)
    return np.asarray(1 / np.maximum(shown, least))


def _clopper_pearson(share: Floats, n_clips: Floats) -> tuple[Floats, Floats]:
    """Return Clopper and Pearson's interval of a share of clips; both may be fractions."""
    n_with = share * n_clips
    n_without = n_clips - n_with
    tail = (1 - CONFIDENCE) / 2
    low = special.betaincinv(n_with, n_without + 1, tail)
    high = special.betaincinv(n_with + 1, n_without, 1 - tail)
    return np.where(n_with > 0, low, 0.0), np.where(n_without > 0, high, 1.0)
