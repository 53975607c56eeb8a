"""One store with the folds of its clips, and fits of models on it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.leakage import NO_GROUP, Leak, check_leaks, find_leak
from obygaze_models.evaluation.predictions import NO_ROWS, FloatArray, IntArray
from obygaze_models.evaluation.tables import Pair
from obygaze_models.models.estimator import Estimator
from obygaze_models.models.examples import concept_example_rows, known_concepts
from obygaze_models.models.fitting import (
    decision_threshold,
    facts_of,
    fit_best,
    gives_probabilities,
    reads_concepts,
    score_rows,
    stops_early,
)
from obygaze_models.models.fold_data import (
    Concepts,
    FeatureRows,
    FoldData,
    Memo,
    check_classes,
)
from obygaze_models.models.linear_solvers import RowMemory
from obygaze_models.models.preprocessing import last_step, with_preprocessing
from obygaze_models.models.registry import (
    BASELINES,
    ESTIMATOR,
    build,
    choose_solver,
    find_kind,
    finds_concepts,
    has_epochs,
)
from obygaze_models.protocols.clips import LabelArray, TaskClips
from obygaze_models.protocols.kinds import candidates, for_task, offered_values
from obygaze_models.protocols.schedule import Labels
from obygaze_models.protocols.schema import Model, Protocol
from obygaze_models.runner.features import Features
from obygaze_models.runner.heldout import HeldOut, make_folds
from obygaze_models.runner.inputs import Inputs
from obygaze_models.text_vectors import (
    Sentences,
)

Folds = Mapping[Pair, Sequence[HeldOut]]
# Seed of a fit with epochs: seed of the protocol x SEEDS_APART + number of the training set.
SEEDS_APART = 10_000


@dataclass(frozen=True, eq=False)
class StoreRun:
    """One store with the folds of its clips. Without features, it has only baselines."""

    protocol: Protocol
    table: TaskClips
    labels: Labels
    features: Features | None
    folds: Folds
    sentences: Mapping[str, Sentences] = field(default_factory=dict)
    estimators: Mapping[str, Any] = field(default_factory=dict)
    _unfitted: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the store, or "" without a store."""
        return self.features.name if self.features else ""

    @property
    def models(self) -> dict[str, Model]:
        """The models to train."""
        return {name: self.protocol.models[name] for name in self.protocol.model_names}

    @property
    def every_fold(self) -> Iterator[tuple[Pair, int, HeldOut]]:
        """Each fold of each pair of tasks, with its number."""
        for pair in self.protocol.pairs:
            for number, held in enumerate(self.folds[pair]):
                yield pair, number, held

    def for_model(self, model: Model, held: HeldOut) -> HeldOut:
        """Return the fold for a model, with validation clips kept apart or added to training.

        Validation clips are kept apart if the epoch at which a fit stops is chosen on them. In
        splits by clip, they are also kept apart if the settings of the model are chosen on them.
        With a published scheme, they are always kept apart.
        """
        has_choice = len(candidates(model)) > 1
        chooses = self.stops_early(model) or (has_choice and not held.is_by_film)
        if chooses or self.protocol.splits.follow_scheme:
            return held.apart()
        return held.merge_validation()

    def stops_early(self, model: Model) -> bool:
        """Return whether the fits of a model stop on validation clips."""
        kind = find_kind(model.kind)
        return kind.has_epochs if kind.estimator else stops_early(self.unfitted(model))

    def finds_concepts(self, model: Model) -> bool:
        """Return whether a model fits concept vectors on clips, and does not read sentences."""
        if find_kind(model.kind).estimator:
            return finds_concepts(model.kind, model.settings)
        return reads_concepts(self.unfitted(model))

    def unfitted(self, model: Model) -> Any:
        """Return an estimator of code of others, which is asked what its fit takes."""
        described = model.settings.get(ESTIMATOR, "")
        key = f"{model.kind} {described}"
        if key not in self._unfitted:
            made = self.estimators[described] if described else build(model.kind)
            self._unfitted[key] = made
        return self._unfitted[key]

    @property
    def of_store(self) -> Features:
        """The features of the store. Raise an error if there is no store."""
        if self.features is None:
            raise FixInput("a model needs a store", hint="add --store NAME=STORE")
        return self.features

    @cached_property
    def rows(self) -> FeatureRows:
        """The rows of features."""
        features = self.of_store
        equal = None
        if features.equal is not None:
            equal = features.equal[features.present]
        return FeatureRows(features.X, equal)

    @cached_property
    def memory(self) -> Memo:
        """What the fits of this process remember: vectors, margins, and dot products of rows."""
        X = self.of_store.X
        return RowMemory(X) if np.ndim(X) == 2 else Memo()

    @cached_property
    def concepts(self) -> Concepts:
        """The concepts of the clips with features."""
        table = self.table
        present = self.of_store.present
        return known_concepts(
            table.concept_names,
            table.levels[present],
            table.has_concept[present],
            table.is_open_concept[present],
        )

    def fold_data(self, task: str, held: HeldOut) -> FoldData:
        """Return the data on which models of a training task are fitted in a fold."""
        row_of = self.of_store.row_of
        present = self.of_store.present
        file_folds = None
        if held.file_folds is not None:
            file_folds = held.file_folds[present]
        return FoldData(
            self.rows,
            self.labels[task][present].astype(np.int64),
            row_of[held.train],
            row_of[held.validation],
            held.films[present],
            held.units[present],
            held.is_by_film,
            held.may_learn[present],
            self.concepts,
            file_folds,
            self.sentences,
        )

    def preprocess(self, estimator: Any) -> Any:
        """Return an estimator with the preprocessing of the protocol, fitted in each fold."""
        if isinstance(estimator, Estimator):
            # All fits of a run use the same solver, and share what they compute on equal rows.
            solver = choose_solver(len(self.table))
            of_run = {"memory": self.memory, "solver": solver}
            known = estimator.get_params()
            for name, value in of_run.items():
                for path in (name, f"bank__{name}"):
                    if path in known and known[path] in (None, "auto"):
                        estimator.set_params(**{path: value})
        return with_preprocessing(
            estimator,
            parts=self.of_store.parts,
            scaled=self.protocol.data.scale == "standard",
        )

    def leak(
        self, pair: Pair, held: HeldOut, found_on: IntArray, *, with_copies: bool = True
    ) -> Leak:
        """Return which test clips a fit of a fold has seen.

        Args:
            pair: The training and the test task.
            held: The fold. For a model that is not trained: the fold without training clips.
            found_on: The clips that concept vectors were found on.
            with_copies: Whether the fit read features, so that copies of clips count as seen.
        """
        copies = self.features.copies if self.features and with_copies else None
        if copies is None:
            copies = np.full(len(self.table), NO_GROUP, dtype=np.intp)
        return find_leak(
            held.train,
            held.validation,
            held.test,
            found_on,
            copies,
            self._films,
            cell=f"{pair[0]} -> {pair[1]}, {held.name}",
        )

    @cached_property
    def _films(self) -> IntArray:
        """The number of each clip's film, or of its group. -1: the film is unknown."""
        return np.where(self.table.groups == "", NO_GROUP, self.table.group_numbers)

    def check_leaks(self, leaks: Sequence[Leak]) -> None:
        """Raise an error if test clips leaked, unless the protocol allows leaks."""
        check_leaks(leaks, allowed=self.protocol.leakage == "warn")


def store_runs(inputs: Inputs) -> list[StoreRun]:
    """Return each store with its folds. Without stores, return the folds of all clips."""
    protocol = inputs.protocol
    table = inputs.table
    sentences = {path: file.sentences for path, file in inputs.texts.items()}
    runs = []
    for features in inputs.stores or (None,):
        usable = np.ones(len(table), dtype=np.bool_)
        if features is not None:
            usable = features.present
        elif protocol.splits.follow_scheme and table.has_video.any():
            usable = table.has_video
        folds = make_folds(protocol, table, inputs.labels, usable)
        run = StoreRun(
            protocol,
            table,
            inputs.labels,
            features,
            folds,
            sentences,
            inputs.estimators,
        )
        run.check_leaks(
            [run.leak(pair, held, NO_ROWS) for pair, _, held in run.every_fold]
        )
        runs.append(run)
    return runs


# ---- fits ----


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit in a fold, and the data of the fit.

    Attributes:
        estimator: The fitted estimator.
        data: The data of the fold.
        chosen: Chosen settings, and facts of the fit.
        clips: The number of the clip of each row of features.
    """

    estimator: Any
    data: FoldData
    chosen: Mapping[str, Any]
    clips: IntArray

    @property
    def gives_probabilities(self) -> bool:
        """Whether scores are probabilities."""
        return gives_probabilities(self.estimator)

    @property
    def threshold(self) -> float:
        """The score above which a clip is classified as positive."""
        return decision_threshold(self.estimator)

    @property
    def found_on(self) -> IntArray:
        """The clips that concept vectors were found on."""
        if not reads_concepts(self.estimator):
            return NO_ROWS
        core = last_step(self.estimator)
        rows = concept_example_rows(self.data, getattr(core, "bank_", core).against)
        found: IntArray = self.clips[rows]
        return found

    def scores(self, rows: IntArray) -> FloatArray:
        """Return the scores of rows of features. Equal rows have equal scores."""
        return score_rows(self.estimator, self.data, rows)


def fit_model(
    run: StoreRun, model: Model, task: str, folds: Sequence[HeldOut], seed: int
) -> list[Fitted]:
    """Return a fit of a model for each of several folds, with the best settings of its grid.

    Raise `FixTraining` with the reason if the model cannot be fitted.

    Args:
        run: The store, with its folds.
        model: The model.
        task: The training task.
        folds: Folds from `StoreRun.for_model` that have the same training clips, and differ only
            in their validation clips.
        seed: Random seed.
    """
    offered = [for_task(settings, task) for settings in candidates(model)]
    options = build_estimators(run, model, task, seed)
    data = [run.fold_data(task, held) for held in folds]
    clips = np.flatnonzero(run.of_store.present)
    fits = []
    best = fit_best(options, data)
    for of_fold, (number, estimator) in zip(data, best, strict=True):
        chosen = facts_of(estimator)
        for name, value in model.settings.items():
            if offered_values(value) is not None:
                chosen[name] = offered[number][name]
        fits.append(Fitted(estimator, of_fold, chosen, clips))
    return fits


def build_estimators(run: StoreRun, model: Model, task: str, seed: int) -> list[Any]:
    """Return an unfitted estimator for each combination of settings in the grid of a model."""
    estimators = []
    for settings in candidates(model):
        if model.kind == ESTIMATOR:
            estimator = deepcopy(run.estimators[settings[ESTIMATOR]])
            for name, value in estimator.get_params().items():
                if name.rpartition("__")[2] == "random_state" and value is None:
                    estimator.set_params(**{name: seed})
        else:
            estimator = build(model.kind, for_task(settings, task), seed=seed)
        estimators.append(run.preprocess(estimator))
    return estimators


def fit_seed(kind: str, seed: int, start: int = 0) -> int:
    """Return the seed of a fit.

    Args:
        kind: The type of the model.
        seed: The seed of the protocol.
        start: The number of the training set. Only models with epochs have a different seed for
            each training set.
    """
    return seed * SEEDS_APART + start if has_epochs(kind) else seed


def fit_baseline(
    name: str, held: HeldOut, labels: LabelArray, table: TaskClips
) -> Callable[[IntArray], FloatArray]:
    """Fit a baseline on film and scene, or on true concepts, and return its scoring function."""
    from obygaze_models.models.baselines import BY_NAME

    y = labels[held.train].astype(np.int64)
    kind = BASELINES[name]
    # Baselines that are not trained need no training clips.
    if kind.is_trained or len(y):
        check_classes(y)
    X = table.film_and_scene
    if kind.needs == "concepts":
        # A clip on whose concept annotators differ counts as half.
        X = np.where(table.is_open_concept, 0.5, table.has_concept)
    score = BY_NAME[name](X[held.train], y == 1)
    return lambda clips: score(X[clips])
