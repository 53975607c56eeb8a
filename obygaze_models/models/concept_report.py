"""The quality of concept vectors: ranking against chance, and other information in their margins.

Margins may contain information about the task itself and about other concepts (`leakage_scores`),
or about the film (`film_leak`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata
from sklearn.feature_selection import mutual_info_classif, mutual_info_regression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, mutual_info_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from obygaze_models.evaluation.bootstrap import Estimate, estimate, reuse_inflation
from obygaze_models.evaluation.permutation import holm
from obygaze_models.evaluation.predictions import Predictions
from obygaze_models.models.common import Bools, FixTraining, Floats, one_thread
from obygaze_models.models.concepts import concept_columns

METRICS = ("ap", "auc", "f1_binary")


@dataclass(frozen=True)
class ConceptQuality:
    """Metrics of one concept on clips that its vector was not found on.

    `p` is the p-value of a ranking against shifted labels; `p_holm` has Holm's correction for all
    concepts of the bank.
    """

    concept: str
    n: int
    n_positive: int
    metrics: dict[str, Estimate]
    p: float
    p_holm: float


def concept_quality(
    margins: Any,
    targets: Any,
    films: Any,
    concepts: Any,
    *,
    n_replicates: int = 1000,
    seed: int = 0,
    n_folds: int | None = None,
) -> list[ConceptQuality]:
    """Return the quality of the margins of each concept; a margin above 0 means present.

    Args:
        margins: A row for each clip, in the order of its film, and a column for each concept.
        targets: The targets, as in `concept_targets`.
        films: The film of each row.
        concepts: The names of the concepts.
        n_replicates: The number of bootstrap replicates.
        seed: The seed of the draws.
        n_folds: The number of folds, if margins are cross-fitted.
    """
    margins = np.asarray(margins, dtype=np.float64)
    films = np.asarray(films)
    columns = concept_columns(targets, len(margins))
    tested = []
    for scores, column, name in zip(
        margins.T, columns.T, map(str, concepts), strict=True
    ):
        rows = column >= 0
        present = column[rows] == 1
        if present.all() or not present.any():
            raise FixTraining(
                "clips with the concept and clips without it are both required",
                where=name,
            )
        predictions = Predictions.of(present, scores[rows], threshold=0.0)
        metrics = estimate(
            predictions,
            films[rows],
            METRICS,
            n_replicates=n_replicates,
            seed=seed,
            n_folds=n_folds,
        )
        p = shift_test(scores[rows], present, films[rows], n_folds)
        tested.append((name, len(present), int(present.sum()), metrics, p))
    adjusted = holm([row[-1] for row in tested]).tolist()
    return [
        ConceptQuality(*row, p_holm)
        for row, p_holm in zip(tested, adjusted, strict=True)
    ]


def shift_test(
    scores: Floats, positive: Bools, films: NDArray[Any], n_folds: int | None = None
) -> float:
    """Return the p-value of a rank sum against labels shifted in a circle within each film.

    Labels of neighbouring clips are alike, so labels are shifted and not permuted. The mean and the
    variance over all shifts are exact; the tail is that of a Gaussian. For scores cross-fitted over
    `n_folds` folds, the variance is multiplied by `reuse_inflation`, because clips both test and
    train; without it, a true null hypothesis is rejected in .12 of cases at .05.
    """
    ranks = rankdata(scores)
    mean = 0.0
    variance = 0.0
    for film in np.unique(films):
        of_film = films == film
        shifted = [
            ranks[of_film][np.roll(positive[of_film], by)].sum()
            for by in range(of_film.sum())
        ]
        mean = mean + np.mean(shifted)
        variance = variance + np.var(shifted)
    if n_folds is not None:
        variance *= reuse_inflation(n_folds)
    away = float(ranks[positive].sum() - mean)
    return float(norm.sf(away / variance**0.5)) if variance > 0 else 1.0


def leakage_scores(
    margins: Any, has: Any, y: Any, *, seed: int = 0
) -> dict[str, float]:
    """Return how much more margins say about the task and each other than true concepts do.

    The scores of arXiv 2504.14094. `ctl` (concepts to task): the information of a margin about the
    task less that of the true concept, as shares of the entropy of the task, at least 0, averaged
    over concepts. `icl` (between concepts): the same for each pair of concepts, where information
    is divided by the root of the product of both own ones. Information of margins is estimated from
    three nearest neighbours; `ctl_chance` and `icl_chance` are what that gives for shuffled margins
    beside concepts without information.
    """
    rows = np.asarray(margins, dtype=np.float64)
    truth = np.asarray(has)
    labels = np.asarray(y)
    rng = np.random.default_rng(seed)
    of_truth = _information(truth, labels, discrete=True)
    parts = {"": _information(rows, labels, seed=seed)}
    parts["_chance"] = _information(rng.permuted(rows, axis=0), labels, seed=seed)
    scores: dict[str, float] = {}
    for name, shares in parts.items():
        gains = [a - (0 if name else b) for a, b in zip(shares, of_truth, strict=True)]
        ctl, icl = (np.maximum(gain, 0).mean() if gain.size else 0.0 for gain in gains)
        scores |= {f"ctl{name}": float(ctl), f"icl{name}": float(icl)}
    return scores


def _information(
    columns: Any, y: Any, *, discrete: bool = False, seed: int = 0
) -> tuple[Floats, Floats]:
    """Return shares of information: of each column about the class, and of each pair of columns."""
    options = {"discrete_features": discrete, "random_state": seed}
    between = mutual_info_classif if discrete else mutual_info_regression
    table = np.array([between(columns, column, **options) for column in columns.T])
    self_information = np.maximum(np.diag(table), 1e-12)  # of a constant column 0
    pairs = np.triu_indices(len(table), 1)
    task = mutual_info_classif(columns, y, **options) / mutual_info_score(y, y)
    return task, (table / np.sqrt(np.outer(self_information, self_information)))[pairs]


def film_leak(
    margins: Any, films: Any, *, n_folds: int = 5, seed: int = 0
) -> dict[str, float]:
    """Return how well logistic regression on margins predicts the film, over random folds.

    The `balanced_accuracy` out of fold, that of `chance`, `n_films`, and the `excess`: 0 for
    margins without information about the film, 1 for margins that identify it.
    """
    films = np.asarray(films)
    rows = np.asarray(margins, dtype=np.float64)
    names, counts = np.unique(films, return_counts=True)
    if len(names) < 2 or counts.min() < n_folds:
        raise FixTraining(
            f"film_leak requires at least two films with {n_folds} clips each",
            hint="fewer folds, or without the films that have too few clips",
        )
    model = make_pipeline(
        StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=2000)
    )
    with one_thread():
        predicted = cross_val_predict(
            model,
            rows,
            films,
            cv=StratifiedKFold(n_folds, shuffle=True, random_state=seed),
        )
    accuracy = float(balanced_accuracy_score(films, predicted))
    chance = 1 / len(names)
    return {
        "balanced_accuracy": accuracy,
        "chance": chance,
        "n_films": len(names),
        "excess": (accuracy - chance) / (1 - chance),
    }
