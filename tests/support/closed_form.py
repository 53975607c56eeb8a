"""Expected values in closed form: F1 of predictions that ignore the clip, Cronbach's alpha."""

import numpy as np
import numpy.typing as npt


def blind_f1(prevalence: float, share: float) -> tuple[float, float, float]:
    """Binary, weighted and macro F1 of calling a random `share` of clips positive."""
    positive = 2 * prevalence * share / (prevalence + share)
    negative = 2 * (1 - prevalence) * (1 - share) / ((1 - prevalence) + (1 - share))
    weighted = prevalence * positive + (1 - prevalence) * negative
    return positive, weighted, (positive + negative) / 2


def cronbach(ratings: npt.NDArray[np.float64]) -> float:
    """Cronbach's alpha of columns that rate the same rows."""
    n_raters = ratings.shape[1]
    of_each = ratings.var(axis=0, ddof=1).sum()
    of_sum = ratings.sum(axis=1).var(ddof=1)
    return float(n_raters / (n_raters - 1) * (1 - of_each / of_sum))
