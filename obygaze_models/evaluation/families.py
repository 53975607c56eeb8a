"""Many differences of one run: which of them differ from 0 if all of them are looked at.

The differences of a run depend on each other, because they are computed on the same films. One
resampling of the films gives all of them at once: in each draw, the largest of the standardised
differences says how far chance alone would take the most striking one (Westfall and Young's max-T,
stepping down from the largest difference). With 180 independent differences of 0, nine have p < .05
each; none should be left after this correction in 95 % of runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from obygaze_models.evaluation.predictions import FloatArray


@dataclass(frozen=True)
class DrawnDifference:
    """A difference, and its values if films are drawn.

    Attributes:
        value: The difference.
        draws: Its values in the draws of films, which are alike for all differences of a family.
        n_films: The number of films.
        inflation: A factor of the variance that the draws do not show (`reuse_inflation`).
        lowest: The lowest value that the difference can have.
        highest: The highest.
    """

    value: float
    draws: FloatArray
    n_films: int
    inflation: float
    lowest: float = -1.0
    highest: float = 1.0

    @property
    def score(self) -> float:
        """How many standard errors the difference is from 0, as a quantile of the normal.

        NaN where the films give no standard error. A score has the two-sided p of Student's t, with
        a degree of freedom fewer than there are films.
        """
        k = self.n_films
        finite = self.draws[np.isfinite(self.draws)]
        if k < 2 or finite.size < 2 or not np.isfinite(self.inflation):
            return np.nan
        error = float(finite.std()) * (self.inflation * k / (k - 1)) ** 0.5
        if error == 0:
            return np.nan
        tail = float(special.stdtr(k - 1, -abs(self.value) / error))
        return float(-special.ndtri(max(tail, np.finfo(np.float64).tiny)))

    @property
    def scores_of_draws(self) -> FloatArray:
        """How many standard deviations each draw is from their mean; 0 where it has no value."""
        finite = np.isfinite(self.draws)
        values = self.draws[finite]
        scores = np.zeros(self.draws.size)
        scores[finite] = np.abs(values - values.mean()) / values.std()
        return scores


def family_p_values(family: Sequence[DrawnDifference]) -> list[float]:
    """Return the p of each difference, corrected for all differences of the family.

    NaN where a difference has no standard error; it does not count as a member of the family.
    """
    scores = np.array([difference.score for difference in family])
    p_values = np.full(len(family), np.nan)
    # From the smallest to the largest: each is compared with the largest of those up to itself.
    ascending = [number for number in np.argsort(scores) if np.isfinite(scores[number])]
    if not ascending:
        return p_values.tolist()
    n_draws = family[ascending[0]].draws.size
    largest = np.zeros(n_draws)
    for number in ascending:
        largest = np.maximum(largest, family[number].scores_of_draws)
        n_larger = int(np.sum(largest >= scores[number]))
        p_values[number] = (n_larger + 1) / (n_draws + 1)
    # A difference is not more certain than a larger one.
    least = 0.0
    for number in reversed(ascending):
        least = max(least, p_values[number])
        p_values[number] = least
    return p_values.tolist()
