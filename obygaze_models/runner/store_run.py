"""One store with the folds of its clips: what every fit and test on it reads."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.leakage import NO_GROUP, Leak, check_leaks, leak_of
from obygaze_models.evaluation.predictions import NO_ROWS, IntArray
from obygaze_models.evaluation.tables import Pair
from obygaze_models.models.changed import reading_changed
from obygaze_models.models.examples import known_concepts
from obygaze_models.models.lessons import Concepts, FeatureRows, Lessons
from obygaze_models.models.registry import find_kind, solver_of
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.kinds import candidates
from obygaze_models.protocols.schedule import Labels
from obygaze_models.protocols.schema import Model, Protocol
from obygaze_models.runner.features import Features
from obygaze_models.runner.heldout import HeldOut, folds_of
from obygaze_models.runner.inputs import Inputs
from obygaze_models.text_vectors import (
    Sentences,
)

Folds = Mapping[Pair, Sequence[HeldOut]]


@dataclass(frozen=True, eq=False)
class StoreRun:
    """One store (or none, for baselines alone) with the folds of its clips."""

    protocol: Protocol
    table: ClipTable
    labels: Labels
    features: Features | None
    folds: Folds
    sentences: Mapping[str, Sentences] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the store; empty without one."""
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
        """Return the fold as a model takes it: validation clips train too, or they choose.

        They choose when a fit with epochs stops, and the settings of models where splits are by
        clip; and whatever a scheme says.
        """
        has_choice = len(candidates(model)) > 1
        has_epochs = find_kind(model.kind).has_epochs
        chooses = has_epochs or (has_choice and not held.is_by_film)
        if chooses or self.protocol.splits.follow_scheme:
            return held.apart()
        return held.joined()

    @property
    def of_store(self) -> Features:
        """The features; an error without a store."""
        if self.features is None:
            raise FixInput("a model needs a store", hint="--store NAME=STORE")
        return self.features

    @cached_property
    def rows(self) -> FeatureRows:
        """The rows of features; the number of clips decides the solver of every fit."""
        features = self.of_store
        equal = None
        if features.equal is not None:
            equal = features.equal[features.present]
        return FeatureRows(features.X, solver_of(len(self.table)), equal)

    @cached_property
    def concepts(self) -> Concepts:
        """The concepts of the rows."""
        table = self.table
        present = self.of_store.present
        return known_concepts(
            table.concept_names,
            table.levels[present],
            table.has_concept[present],
            table.is_open_concept[present],
        )

    def lessons(self, task: str, held: HeldOut) -> Lessons:
        """Return what fits of a training task learn from in a fold."""
        row_of = self.of_store.row_of
        present = self.of_store.present
        file_folds = None
        if held.file_folds is not None:
            file_folds = held.file_folds[present]
        return Lessons(
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

    def reading(self, estimator: Any) -> Any:
        """Return an estimator that reads the features as the protocol changes them in each fold."""
        return reading_changed(
            estimator,
            parts=self.of_store.parts,
            scaled=self.protocol.data.scale == "standard",
        )

    def leak(
        self, pair: Pair, held: HeldOut, found_on: IntArray, *, with_copies: bool = True
    ) -> Leak:
        """Return what a fit of a fold had seen of the clips that are tested.

        Args:
            pair: The training and the test task.
            held: The fold; of what learns nothing, without clips that train.
            found_on: The clips that concept vectors were found on.
            with_copies: Whether the fit read features, which copies have in common.
        """
        copies = self._no_copies
        if (
            with_copies
            and self.features is not None
            and self.features.copies is not None
        ):
            copies = self.features.copies
        return leak_of(
            held.train,
            held.validation,
            held.test,
            found_on,
            copies,
            self._films,
            cell=f"{pair[0]} -> {pair[1]}, {held.name}",
        )

    @cached_property
    def _no_copies(self) -> IntArray:
        return np.full(len(self.table), NO_GROUP, dtype=np.intp)

    @cached_property
    def _films(self) -> IntArray:
        """The number of the film, or group, of each clip; -1 where films are not known."""
        return np.where(self.table.groups == "", NO_GROUP, self.table.group_numbers)

    def check_leaks(self, leaks: Sequence[Leak]) -> None:
        """Raise an error where the protocol forbids leaks."""
        check_leaks(leaks, allowed=self.protocol.leakage == "warn")


def store_runs(inputs: Inputs) -> list[StoreRun]:
    """Return each store with its folds; without a store, the folds of all clips."""
    runs = []
    for features in inputs.stores or (None,):
        protocol = inputs.protocol
        usable = inputs.usable(features)
        folds = folds_of(protocol, inputs.table, inputs.labels, usable)
        sentences = {path: file.sentences for path, file in inputs.texts.items()}
        run = StoreRun(
            protocol, inputs.table, inputs.labels, features, folds, sentences
        )
        leaks = [run.leak(pair, held, NO_ROWS) for pair, _, held in run.every_fold]
        run.check_leaks(leaks)
        runs.append(run)
    return runs
