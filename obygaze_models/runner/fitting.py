"""Fit a model of a protocol in folds with the same training clips, or a baseline in one fold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from obygaze_models.evaluation.predictions import NO_ROWS, FloatArray, IntArray
from obygaze_models.models.examples import rows_of_vectors
from obygaze_models.models.fitting import (
    fit_best,
    gives_probabilities,
    inner_scores,
    scores_of_rows,
    threshold_of,
)
from obygaze_models.models.lessons import InnerScores, Lessons, check_classes
from obygaze_models.models.registry import BASELINES, build, has_epochs
from obygaze_models.protocols.clips import ClipTable, LabelArray
from obygaze_models.protocols.kinds import candidates, for_task, offered_values
from obygaze_models.protocols.schema import Model
from obygaze_models.runner.heldout import HeldOut
from obygaze_models.runner.store_run import StoreRun

# The seed of a fit with epochs is that of the protocol times this number, and the number of its
# training set.
SEEDS_APART = 10_000


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit in a fold, and what it learned from.

    Attributes:
        estimator: What was fitted.
        unfitted: The same before, with the settings that were chosen.
        lessons: What it learned from.
        chosen: Settings that were chosen, and facts of the fit.
        clips: The number of the clip of each row of features.
    """

    estimator: Any
    unfitted: Any
    lessons: Lessons
    chosen: Mapping[str, Any]
    clips: IntArray

    @property
    def gives_probabilities(self) -> bool:
        """Whether scores are probabilities."""
        return gives_probabilities(self.estimator)

    @property
    def threshold(self) -> float:
        """The score above which a clip is called positive."""
        return threshold_of(self.estimator)

    @property
    def found_on(self) -> IntArray:
        """The clips that concept vectors were found on."""
        if not self.estimator.reads_concepts:
            return NO_ROWS
        core = self.estimator.core
        rows = rows_of_vectors(self.lessons, getattr(core, "bank_", core).against)
        found: IntArray = self.clips[rows]
        return found

    @cached_property
    def inner(self) -> InnerScores:
        """Scores of clips that did not train."""
        return inner_scores(self.unfitted, self.estimator, self.lessons)

    def scores(self, rows: IntArray) -> FloatArray:
        """Return the scores of some rows of features; equal rows have the same one."""
        return scores_of_rows(self.estimator, self.lessons, rows)


def fit_model(
    run: StoreRun, model: Model, task: str, folds: Sequence[HeldOut], seed: int
) -> list[Fitted]:
    """Fit a model in some folds with the same training clips, with the best of its settings.

    A `FixTraining` says why that is not possible.

    Args:
        run: The store.
        model: The model.
        task: The training task.
        folds: The folds, as the model takes them; they differ in their validation clips.
        seed: The seed of whatever is drawn at random.
    """
    offered = [for_task(settings, task) for settings in candidates(model)]
    options = estimators_of(run, model, task, seed)
    lessons = [run.lessons(task, held) for held in folds]
    clips = np.flatnonzero(run.of_store.present)
    fits = []
    best = fit_best(options, lessons)
    for of_fold, (number, estimator) in zip(lessons, best, strict=True):
        chosen = {**estimator.facts, **_chosen(model, offered[number])}
        fits.append(Fitted(estimator, options[number], of_fold, chosen, clips))
    return fits


def estimators_of(run: StoreRun, model: Model, task: str, seed: int) -> list[Any]:
    """Return the unfitted estimator of each combination of settings that a model offers."""
    estimators = []
    for settings in candidates(model):
        estimator = build(model.kind, for_task(settings, task), seed=seed)
        estimators.append(run.reading(estimator))
    return estimators


def seed_of(kind: str, seed: int, start: int = 0) -> int:
    """Return the seed of a fit; one with epochs has a start of its own in each training set."""
    return seed * SEEDS_APART + start if has_epochs(kind) else seed


def _chosen(model: Model, settled: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of each setting of which the model offers several."""
    return {
        name: settled[name]
        for name, value in model.settings.items()
        if offered_values(value) is not None
    }


def fit_baseline(
    name: str, held: HeldOut, labels: LabelArray, table: ClipTable
) -> Callable[[IntArray], FloatArray]:
    """Fit a baseline on film and scene, or on true concepts; return its scores of clips."""
    from obygaze_models.models.baselines import BY_NAME

    y = labels[held.train].astype(np.int64)
    kind = BASELINES[name]
    # A saved model may have been trained on clips of others: what learns nothing needs none.
    if kind.is_trained or len(y):
        check_classes(y)
    X = table.film_and_scene
    if kind.needs == "concepts":
        # A clip whose annotators differ on a concept is neither with it nor without it.
        X = np.where(table.is_open_concept, 0.5, table.has_concept)
    score = BY_NAME[name](X[held.train], y == 1)
    return lambda clips: score(X[clips])
