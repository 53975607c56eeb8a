"""Expected values in closed form: scores of predictions that ignore the clip, Cronbach's alpha."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class ClosedForm:
    """What a prediction that ignores the clip scores in the long run."""

    prevalence: float
    share: float
    precision: float
    recall: float
    f1_binary: float
    f1_weighted: float
    f1_macro: float
    accuracy: float


def closed_form(prevalence: float, share: float) -> ClosedForm:
    """Scores of calling a random `share` of clips positive: .5 is `random`, 1 `all_positive`."""
    positive = _blind_f1(prevalence, share)
    negative = _blind_f1(1 - prevalence, 1 - share)
    return ClosedForm(
        prevalence,
        share,
        precision=prevalence if share > 0 else 0.0,
        recall=share if prevalence > 0 else 0.0,
        f1_binary=positive,
        f1_weighted=prevalence * positive + (1 - prevalence) * negative,
        f1_macro=(positive + negative) / 2,
        accuracy=prevalence * share + (1 - prevalence) * (1 - share),
    )


def _blind_f1(prevalence: float, share: float) -> float:
    total = prevalence + share
    return 2 * prevalence * share / total if total > 0 else 0.0


def cronbach(ratings: npt.NDArray[np.float64]) -> float:
    """Cronbach's alpha of columns that rate the same rows."""
    n_raters = ratings.shape[1]
    of_each = ratings.var(axis=0, ddof=1).sum()
    of_sum = ratings.sum(axis=1).var(ddof=1)
    return float(n_raters / (n_raters - 1) * (1 - of_each / of_sum))
