"""Fit and test every cell of a protocol: fold by fold, model by model, store by store.

A cell depends on its own splits, settings and seeds alone, so that it has the same bytes in every
grid. Two cells that fit on the same rows share the fit; each is scored by itself, because the last
bits of a product depend on the number of its rows.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Container, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, product
from typing import Any

import numpy as np

from obygaze_features.core.console import Progress
from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.folds import OUTSIDE
from obygaze_models.evaluation.leakage import Leak, LeakIndex, check_leaks
from obygaze_models.evaluation.predictions import IntArray, Predictions, tune_threshold
from obygaze_models.models.common import FixTraining
from obygaze_models.models.registry import find_kind
from obygaze_models.protocols.clips import ClipTable, other_annotators
from obygaze_models.protocols.kinds import candidates
from obygaze_models.protocols.results.cells import SkippedFold
from obygaze_models.protocols.runner.banks import Banks
from obygaze_models.protocols.runner.cells import Cell, TestedFold
from obygaze_models.protocols.runner.features import Features
from obygaze_models.protocols.runner.finished import FinishedTests, Outcomes, TestKey
from obygaze_models.protocols.runner.models import (
    FoldFit,
    InnerScores,
    fit_baseline,
    fit_model,
    fit_perceptrons,
)
from obygaze_models.protocols.runner.processes import map_parts
from obygaze_models.protocols.schedule import (
    NOT_TESTED,
    REASONS_OF_SPLITS,
    FoldData,
    Labels,
    Pair,
    Schedule,
    leak_index,
    split_leak,
)
from obygaze_models.protocols.schema import Model, Protocol
from obygaze_models.protocols.splits import NO_ROWS, Split

SEEDS_APART = 10_000
NO_SCORES = InnerScores(NO_ROWS, np.zeros(0), NO_ROWS)


@dataclass(frozen=True, eq=False)
class FitContext:
    """A protocol with its clips, and one store's features (or none) and splits on the table."""

    protocol: Protocol
    table: ClipTable
    labels: Labels
    schedule: Schedule
    features: Features | None
    n_jobs: int = 0
    finished: FinishedTests = field(default_factory=FinishedTests)
    reads_features: bool = True  # baselines do not
    allows_no_fit: bool = (
        False  # a model that no fold could train has no cell, else it is an error
    )

    @property
    def feature(self) -> str:
        """The name of the store, "" without one."""
        return self.features.name if self.features else ""

    @property
    def folds(self) -> Iterator[tuple[Pair, int, Split]]:
        """Each fold of each cell, with its number."""
        for pair in self.protocol.pairs:
            for number, split in enumerate(self.schedule.pairs[pair]):
                yield pair, number, split

    @property
    def models(self) -> dict[str, Model]:
        """The models to train."""
        return {name: self.protocol.models[name] for name in self.protocol.model_names}

    @property
    def store(self) -> Features:
        """The features that models read."""
        if self.features is None:
            raise FixInput("a model needs a store", hint="--store NAME=STORE")
        return self.features

    @property
    def n_tests(self) -> int:
        """The number of tests of all models for the cells of the store."""
        n_tests = 0
        for model, (pair, _, _) in product(self.models.values(), self.folds):
            n_tests += self.protocol.n_seeds(pair[0]) if model.kind == "mlp" else 1
        return n_tests

    @cached_property
    def leaks(self) -> dict[tuple[Pair, int], Leak]:
        """The leak of each fold of each cell."""
        return {
            (pair, number): self.leak_of(pair, split)
            for pair, number, split in self.folds
        }

    def leak_of(self, pair: Pair, split: Split, found_on: IntArray = NO_ROWS) -> Leak:
        """Return the leak of a split; `found_on` are the clips of concept vectors."""
        return split_leak(split, pair, self.leak_index, found_on)

    @cached_property
    def leak_index(self) -> LeakIndex:
        """The clips by number, with the copies of the store that models read."""
        copies = None
        if self.features is not None and self.reads_features:
            copies = self.features.copies.group
        return leak_index(self.table, copies)

    def check_leaks(self, leaks: Sequence[Leak]) -> None:
        """Raise an error where the protocol forbids leaks."""
        check_leaks(leaks, allowed=self.protocol.leakage == "warn")

    def new_banks(self) -> Banks:
        """Return the store's features with its concept vectors, of which none is found yet."""
        splits = self.protocol.splits
        files = {}
        if splits.follow_scheme:
            usable = self.table.has_video
            if not usable.any():
                usable = np.ones(len(self.table), dtype=np.bool_)
            for train, _ in self.protocol.pairs:
                folds = self.table.fold(self.protocol.tasks[train].folds)
                files[train] = np.where(usable, folds, OUTSIDE)
        return Banks(
            self.store, self.table, splits.are_grouped, self.protocol.fit.seed, files
        )

    def joins_validation(self, model: Model) -> bool:
        """Return whether a model that is not a perceptron is fitted on validation clips too."""
        splits = self.protocol.splits
        has_choice = len(candidates(model)) > 1
        chooses_on_validation = has_choice and not splits.are_grouped
        return not splits.follow_scheme and not chooses_on_validation

    def fold_data(self, train: str, split: Split, **options: Any) -> FoldData:
        """Return what a model is fitted on in a fold."""
        labels = self.labels[train]
        groups = self.schedule.groups
        return FoldData(train, split, labels, self.table, groups, **options)


def run_models(context: FitContext, progress: Progress) -> list[Cell]:
    """Return the cells of all models on one store."""
    banks = context.new_banks()
    # The splits too: learning curves train on fewer films of the same folds.
    splits = f"{context.feature} {context.schedule.sha256}"
    outcomes = context.finished.of(splits)
    progress.advance(len(outcomes))
    done = set(outcomes)
    of_perceptrons = _test_perceptrons(context, done)
    of_others = _test_others(context, banks, done)
    with closing(of_perceptrons), closing(of_others):
        for made in chain(of_perceptrons, of_others):
            context.finished.add(splits, made)
            outcomes |= made
            progress.advance(len(made))
    cells = _cells(context, context.protocol.model_names, outcomes)
    # The clips of concept vectors are known only now; the first check knew those of the splits.
    leaks: list[Leak] = []
    for cell in cells:
        leaks += [t.leak for t in cell.tested]
    context.check_leaks(leaks)
    return cells


def run_baselines(context: FitContext) -> list[Cell]:
    """Return the cells of all baselines, on the clips of the splits."""
    context = replace(context, reads_features=False)
    outcomes: Outcomes = {}
    seen: set[tuple[str, Pair, bytes, bytes]] = set()
    protocol = context.protocol
    table = context.table
    is_possible = {
        "oracle": table.has_concept.any(),
        "neighbour": table.scene_of_clip is not None,
        "annotator": any(table.others),
    }
    names = [name for name in protocol.grid.baselines if is_possible.get(name, True)]
    marked = {}
    if "annotator" in names:
        for task in protocol.test_tasks:
            marked[task] = other_annotators(task, protocol.tasks[task], table)
    for name, (pair, number, split) in product(names, context.folds):
        # Tests clips that somebody else marked, and trains on none.
        if name == "annotator":
            others = marked[pair[1]]
            tested = split.test[np.isfinite(others[split.test])]
            if not len(tested):
                continue
            split = Split(split.name, NO_ROWS, NO_ROWS, tested)
        seed = protocol.fit.seed + number
        data = context.fold_data(pair[0], split, seed=seed, join_validation=True)
        # Folds that differ only in their validation clips are one fold to a baseline.
        key = (name, pair, data.fit_rows.tobytes(), split.test.tobytes())
        if key in seen:
            continue
        seen.add(key)
        fit: FoldFit | str
        if name == "annotator":
            fit = FoldFit(None, others.__getitem__)
        else:
            fit = try_fit(partial(fit_baseline, name, data), data)
        outcomes[name, pair, number, 0] = _test(context, pair, number, data, fit)
    return _cells(context, names, outcomes)


def every_clip(context: FitContext, task: str) -> tuple[IntArray, FoldData]:
    """Return every clip of a task, and the data of a fold that holds out none."""
    rows = np.flatnonzero(context.store.present & (context.labels[task] >= 0))
    split = Split("every clip", rows, NO_ROWS, NO_ROWS)
    seed = context.protocol.fit.seed
    return rows, context.fold_data(task, split, seed=seed, join_validation=True)


def fit_every_clip(
    context: FitContext, model: Model, task: str
) -> tuple[IntArray, FoldFit]:
    """Fit a model as the cells are fitted, but on every clip of a task; return clips and fit.

    Perceptrons stop on the validation clips of the first split, and train on all others.
    """
    rows, data = every_clip(context, task)
    if model.kind != "mlp":
        return rows, fit_model(model, data, context.new_banks())
    pairs = context.schedule.pairs  # a protocol may not test the task that it trains on
    pair = min(
        (pair for pair in pairs if pair[0] == task), key=lambda pair: pair[1] != task
    )
    validation = np.intersect1d(rows, pairs[pair][0].validation)
    split = Split("every clip", np.setdiff1d(rows, validation), validation, NO_ROWS)
    held_out = replace(
        data, split=split, seed=data.seed * SEEDS_APART, join_validation=False
    )
    return rows, fit_perceptrons(model, [held_out], context.store)[0]


def _test_others(
    context: FitContext, banks: Banks, done: Container[TestKey]
) -> Generator[Outcomes, None, None]:
    """Yield the tests of every model but perceptrons; each process has whole folds."""
    models = {
        name: model for name, model in context.models.items() if model.kind != "mlp"
    }
    by_number: dict[int, list[tuple[TestKey, Split]]] = defaultdict(list)
    for (pair, number, split), name in product(context.folds, models):
        test_key = (name, pair, number, 0)
        if test_key not in done:
            by_number[number].append((test_key, split))
    needs_products = any(
        find_kind(m.kind).head or m.kind == "svm" for m in models.values()
    )
    if by_number and needs_products and not context.store.depend_on_fold:
        banks.gram.products  # noqa: B018 - computed here, so that no process computes its own
    # All cells of a fold stay in one process, because they share fits and concept vectors.
    folds = list(by_number.values())
    # Of the last fold: where films are tested in pairs, the fold after it shares its fits. Those of
    # all folds would need memory that grows with folds times clips.
    fits_before: dict[tuple[str, str, bytes], FoldFit | str] = {}

    def work(part: int) -> Outcomes:
        outcomes: Outcomes = {}
        fits: dict[tuple[str, str, bytes], FoldFit | str] = {}
        for key, split in folds[part]:
            name, pair, number, _ = key
            model = models[name]
            seed = context.protocol.fit.seed
            joins = context.joins_validation(model)
            data = context.fold_data(pair[0], split, seed=seed, join_validation=joins)
            fit = (name, pair[0], _rows_of(data, model, banks))
            if fit not in fits:
                known = fits_before.get(fit)
                if known is None:
                    known = try_fit(partial(fit_model, model, data, banks), data)
                fits[fit] = known
            outcomes[key] = _test(context, pair, number, data, fits[fit])
        fits_before.clear()
        fits_before.update(fits)
        return outcomes

    return map_parts(work, len(folds), context.n_jobs)


def _rows_of(data: FoldData, model: Model, banks: Banks) -> bytes:
    """Return all rows that a fit depends on: two cells that have the same here share the fit."""
    parts = [data.fit_rows, np.setdiff1d(data.split.validation, data.fit_rows)]
    if find_kind(model.kind).head:
        parts.append(banks.bank_rows(data))
        if len(candidates(model)) > 1:
            parts.append(data.split.test)  # held out of the fits that choose
    return b"|".join(part.tobytes() for part in parts)


def try_fit(fit: Callable[[], FoldFit], data: FoldData) -> FoldFit | str:
    """Return the fit, or the reason why there is none for the rows of this fold."""
    try:
        return data.problem or fit()
    except FixTraining as error:
        # `where` names the concept, if it is about one of several.
        return f"{error.where}: {error.message}" if error.where else error.message


def _test_perceptrons(
    context: FitContext, done: Container[TestKey]
) -> Generator[Outcomes, None, None]:
    """Yield the tests of the best candidates; fits that share a trajectory are in one process."""
    models = {
        name: model for name, model in context.models.items() if model.kind == "mlp"
    }
    # Each training set of a cell starts from weights of its own: with one start for all,
    # the luck of that start would look like a property of the features.
    starts: dict[tuple[str, Pair], dict[bytes, int]] = defaultdict(dict)
    together: dict[tuple[str, str, int, bytes], list[tuple[TestKey, FoldData]]] = (
        defaultdict(list)
    )
    for (pair, number, split), name in product(context.folds, models):
        data = context.fold_data(pair[0], split)
        rows = split.train.tobytes()
        start = 0
        n_repeats = 1
        starts_of_cell = starts[name, pair]
        if not data.problem:
            start = starts_of_cell.setdefault(rows, len(starts_of_cell))
            n_repeats = context.protocol.n_seeds(pair[0])
        for repeat in range(n_repeats):
            seed = (context.protocol.fit.seed + repeat) * SEEDS_APART + start
            key = (name, pair, number, repeat)
            if key not in done:
                seeded = replace(data, seed=seed)
                together[name, pair[0], seed, rows].append((key, seeded))
    groups = list(together.values())

    def work(part: int) -> Outcomes:
        """Fit a perceptron on training rows that folds share, and test it in each of them."""
        folds = groups[part]
        first_key, _ = folds[0]
        model = models[first_key[0]]
        distinct = {
            data.split.validation.tobytes(): data
            for _, data in folds
            if not data.problem
        }
        fits: dict[bytes, FoldFit] = {}
        if distinct:
            fitted = fit_perceptrons(model, list(distinct.values()), context.store)
            fits = dict(zip(distinct, fitted, strict=True))
        outcomes: Outcomes = {}
        for key, data in folds:
            fit: FoldFit | str = data.problem
            if not data.problem:
                fit = fits[data.split.validation.tobytes()]
            seed = context.protocol.fit.seed + key[3]
            outcomes[key] = _test(context, key[1], key[2], data, fit, seed)
        return outcomes

    return map_parts(work, len(groups), context.n_jobs)


def _without_model(protocol: Protocol, model: str, reasons: Sequence[str]) -> str:
    """Return what can be done where a model cannot be trained on any fold."""
    hint = "other splits, or a task with more clips of both classes"
    if all(reason.startswith(REASONS_OF_SPLITS) for reason in reasons):
        return hint  # other models have the same folds
    kind_of = {name: protocol.models[name].kind for name in protocol.model_names}
    if model not in kind_of:
        return hint
    estimator = find_kind(kind_of[model]).estimator
    others = [
        name for name, kind in kind_of.items() if find_kind(kind).estimator != estimator
    ]
    if not others:
        return hint
    return (
        f"--set 'grid.models={json.dumps(others)}' runs without such models; or {hint}"
    )


def _cells(context: FitContext, names: Sequence[str], outcomes: Outcomes) -> list[Cell]:
    cells = []
    for pair, model in product(context.protocol.pairs, names):
        tested, skipped = _tested_and_skipped(context, pair, model, outcomes)
        if not tested and model == "annotator":
            continue  # nobody else marked a clip of this task
        if not tested and context.allows_no_fit:
            continue
        if not tested:
            reasons = list(dict.fromkeys(fold.reason for fold in skipped))
            reason = "; ".join(reasons) or "there is none"
            where = f"model {model}"
            if context.features is not None:
                where += f" on {context.feature}"
            if context.features is not None and context.features.missing:
                n_clips = int(context.features.present.sum())
                where += f", with vectors of {n_clips} of {len(context.table)} clips"
            raise FixInput(
                f"no fold of {pair[0]} -> {pair[1]} could be trained and tested: {reason}",
                where=where,
                hint=_without_model(context.protocol, model, reasons),
            )
        train, test = pair
        cell = Cell(
            train,
            test,
            model,
            context.feature,
            tested,
            skipped,
            averaged=context.schedule.is_repeated(pair),
            shares_films=context.schedule.shares_films(pair),
            share=0.5 if model == "random" else None,
            further_metrics=context.protocol.further_metrics,
        )
        cells.append(cell)
    return cells


def _tested_and_skipped(
    context: FitContext, pair: Pair, model: str, outcomes: Outcomes
) -> tuple[list[TestedFold], list[SkippedFold]]:
    """Return the tests of a cell, and the folds without one with the reason, once for all seeds."""
    tested = []
    skipped: list[SkippedFold] = []
    for number, split in enumerate(context.schedule.pairs[pair]):
        for repeat in range(context.protocol.n_seeds(pair[0])):
            outcome = outcomes.get((model, pair, number, repeat))
            if outcome is None:
                continue
            if not isinstance(outcome, str):
                tested.append(outcome)
                continue
            without_test = SkippedFold(fold=split.name, reason=outcome)
            if without_test not in skipped:
                skipped.append(without_test)
    return tested, skipped


def _test(
    context: FitContext,
    pair: Pair,
    number: int,
    data: FoldData,
    fit: FoldFit | str,
    seed: int = 0,
) -> TestedFold | str:
    """Return the test of a fit, or the reason why there is none."""
    split = data.split
    if not len(split.test):
        return NOT_TESTED
    if isinstance(fit, str):
        return fit
    clips = np.union1d(split.test, split.validation)
    values = fit.score(clips)
    scores = values[np.searchsorted(clips, split.test)]
    if data.join_validation:
        # Clips that the model was fitted on cannot choose a threshold by its own scores.
        inner = fit.inner or NO_SCORES
    else:
        validation_scores = values[np.searchsorted(clips, split.validation)]
        one_fold = np.zeros(len(split.validation), dtype=np.intp)
        inner = InnerScores(data.y_of(split.validation), validation_scores, one_fold)
    leak = context.leaks[pair, number]
    if len(fit.found_on) or not len(data.fit_rows):  # not the clips of the schedule
        leak = context.leak_of(pair, split, fit.found_on)
    y = context.labels[pair[1]][split.test] == 1
    return TestedFold(
        fold=split.name,
        seed=seed,
        rows=split.test,
        predictions=Predictions.of(y, scores, fit.threshold),
        n_train=len(split.train),
        n_validation=len(split.validation),
        leak=leak,
        are_probabilities=fit.threshold == 0.5,
        tuned=tune_threshold(inner.y, inner.scores),
        inner_ap=inner.precision,
        chosen=fit.chosen,
    )
