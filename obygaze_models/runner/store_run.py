"""One store with the folds of its clips: what every fit and test on it reads."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.leakage import Leak, check_leaks, leak_of
from obygaze_models.evaluation.predictions import IntArray
from obygaze_models.evaluation.tables import Pair
from obygaze_models.models.registry import PERCEPTRON
from obygaze_models.models.sentences import Sentences
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.kinds import candidates
from obygaze_models.protocols.schedule import Labels
from obygaze_models.protocols.schema import Model, Protocol
from obygaze_models.protocols.splits import NO_ROWS
from obygaze_models.runner.concept_vectors import ConceptVectors
from obygaze_models.runner.features import Features
from obygaze_models.runner.fitting import FitContext
from obygaze_models.runner.heldout import HeldOut, folds_of, seen_of
from obygaze_models.runner.inputs import Inputs

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

        They choose when perceptrons stop, and the settings of models where splits are by clip; and
        whatever a scheme says.
        """
        has_choice = len(candidates(model)) > 1
        chooses = model.kind == PERCEPTRON or (has_choice and not held.is_by_film)
        if chooses or self.protocol.splits.follow_scheme:
            return held.apart()
        return held.joined()

    @cached_property
    def vectors(self) -> ConceptVectors:
        """The concept vectors of the store, of which none is found yet."""
        if self.features is None:
            raise FixInput("a model needs a store", hint="--store NAME=STORE")
        seed = self.protocol.fit.seed
        scale = self.protocol.data.scale == "standard"
        return ConceptVectors(
            self.features, self.table, seed, scale, sentences=self.sentences
        )

    def context(self, task: str) -> FitContext:
        """Return what the fits of a training task read."""
        data = self.protocol.data
        return FitContext(
            task,
            self.labels[task],
            self.vectors.features,
            self.vectors,
            data.scale == "standard",
            data.erase,
        )

    def leak(
        self, pair: Pair, held: HeldOut, found_on: IntArray, *, with_copies: bool = True
    ) -> Leak:
        """Return which test clips trained, or found concept vectors."""
        copies = None
        if with_copies and self.features is not None:
            copies = self.features.copies
        if copies is None:
            copies = np.full(len(self.table), -1, dtype=np.intp)
        cell = f"{pair[0]} -> {pair[1]}, {held.name}"
        return leak_of(
            held.train, held.validation, held.test, found_on, copies, cell=cell
        )

    @cached_property
    def _seen(self) -> dict[tuple[Pair, int], NDArray[np.str_]]:
        return {}

    def seen(self, pair: Pair, number: int) -> NDArray[np.str_]:
        """Return what may have been learned of the films of the clips that a fold tests."""
        if (pair, number) not in self._seen:
            held = self.folds[pair][number]
            self._seen[pair, number] = seen_of(held, self.table.group_numbers)
        return self._seen[pair, number]

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
