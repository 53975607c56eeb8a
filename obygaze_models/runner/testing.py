"""Fit and test every cell of a store: each distinct fit once, shared by the tests that need it.

Fits of one fold are made in one process, because they share concept vectors. Perceptrons with the
same training rows and seed are trained together.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np

from obygaze_features.core.console import Progress
from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.leakage import Leak, LeakIndex, check_leaks
from obygaze_models.evaluation.predictions import (
    IntArray,
    Predictions,
    tune_threshold,
)
from obygaze_models.models.registry import PERCEPTRON, find_kind
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.kinds import candidates
from obygaze_models.protocols.schedule import (
    NOT_TESTED,
    REASONS_OF_SPLITS,
    Labels,
    Pair,
)
from obygaze_models.protocols.schema import Model, Protocol
from obygaze_models.protocols.splits import NO_ROWS
from obygaze_models.runner.concept_vectors import ConceptVectors
from obygaze_models.runner.features import CHOSEN, Features
from obygaze_models.runner.fitting import (
    FitContext,
    Fitted,
    fit_baseline,
    fit_model,
    fit_perceptrons,
    problem_of,
    try_fit,
)
from obygaze_models.runner.heldout import (
    HeldOut,
    folds_of,
    knows_films,
    nothing_held_out,
    repeats_clips,
    shares_films,
)
from obygaze_models.runner.inputs import Inputs
from obygaze_models.runner.processes import map_parts
from obygaze_models.runner.scores import RANDOM, RANDOM_SHARE, Cell, ScoredFold

# A perceptron's seed is that of the protocol times this number, and the number of its training set.
SEEDS_APART = 10_000

Folds = Mapping[Pair, Sequence[HeldOut]]
TestKey = tuple[str, Pair, int, int]  # model, tasks, numbers of fold and seed
Outcomes = dict[TestKey, ScoredFold | str]  # the test, or why there is none


@dataclass(frozen=True, eq=False)
class StoreRun:
    """One store (or none, for baselines alone) with the folds of its clips."""

    protocol: Protocol
    table: ClipTable
    labels: Labels
    features: Features | None
    folds: Folds
    n_jobs: int = 0

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
        return ConceptVectors(self.features, self.table, seed, scale)

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
        """Return what the test clips share with those that trained or found concept vectors."""
        index = self._leak_index if with_copies else self._leak_index_of_names
        cell = f"{pair[0]} -> {pair[1]}, {held.name}"
        return index.count(held.train, held.validation, held.test, found_on, cell=cell)

    @cached_property
    def _leak_index(self) -> LeakIndex:
        copies = None if self.features is None else self.features.copies
        return self._index(copies)

    @cached_property
    def _leak_index_of_names(self) -> LeakIndex:
        return self._index(None)

    def _index(self, copies: Mapping[str, int] | None) -> LeakIndex:
        table = self.table
        return LeakIndex.of(
            table.ids,
            table.films.tolist(),
            clip_of=table.clip_of,
            copies=copies,
        )

    def check_leaks(self, leaks: Sequence[Leak]) -> None:
        """Raise an error where the protocol forbids leaks."""
        check_leaks(leaks, allowed=self.protocol.leakage == "warn")


def store_runs(inputs: Inputs, n_jobs: int) -> list[StoreRun]:
    """Return each store with its folds; without a store, the folds of all clips."""
    runs = []
    for features in inputs.stores or (None,):
        protocol = inputs.protocol
        usable = inputs.usable(features)
        folds = folds_of(protocol, inputs.table, inputs.labels, usable)
        run = StoreRun(protocol, inputs.table, inputs.labels, features, folds, n_jobs)
        leaks = [run.leak(pair, held, NO_ROWS) for pair, _, held in run.every_fold]
        run.check_leaks(leaks)
        runs.append(run)
    return runs


@dataclass(eq=False)
class _Fit:
    """A fit, or several perceptrons that are trained together, and the tests that need it.

    Perceptrons with the same training rows differ in their validation rows.

    Attributes:
        model: The name of the model.
        task: The training task.
        seed: The seed of the fit.
        folds: The tasks and the number of a fold for each of the perceptrons, or for the fit.
        validations: The key of the validation rows of each of `folds`.
        tests: Each test, with the position in `folds` of what it tests.
    """

    model: str
    task: str
    seed: int
    folds: list[tuple[Pair, int]] = field(default_factory=list)
    validations: list[tuple[bytes, ...]] = field(default_factory=list)
    tests: list[tuple[TestKey, int]] = field(default_factory=list)


def model_cells(
    run: StoreRun, progress: Progress, *, may_fail: bool = False
) -> list[Cell]:
    """Return the cells of all models on one store.

    Args:
        run: The store.
        progress: What is told of each test.
        may_fail: Whether a cell without any fit is left out; else it is an error.
    """
    parts = list(_fits_by_fold(run).values())
    needs_products = any(
        find_kind(model.kind).head or model.kind == "svm"
        for model in run.models.values()
    )
    is_changed = run.protocol.data.scale == "standard" or bool(run.protocol.data.erase)
    if parts and needs_products and not is_changed:
        run.vectors.machines.prepare()

    def work(number: int) -> Outcomes:
        # Margins are those of one part only: those of all folds would fill the memory.
        run.vectors.forget_margins()
        outcomes: Outcomes = {}
        for fit in parts[number]:
            outcomes |= _test_fit(run, fit)
        return outcomes

    outcomes: Outcomes = {}
    with closing(map_parts(work, len(parts), run.n_jobs)) as made:
        for of_part in made:
            outcomes |= of_part
            progress.advance(len(of_part))
    cells = _cells(run, run.protocol.model_names, outcomes, may_fail=may_fail)
    # The clips of concept vectors are known only now.
    leaks: list[Leak] = []
    for cell in cells:
        leaks += [t.leak for t in cell.tested]
    run.check_leaks(leaks)
    return cells


def n_tests(run: StoreRun) -> int:
    """Return the number of tests of all models on a store."""
    n_folds = sum(map(len, run.folds.values()))
    n = 0
    for model in run.models.values():
        n += n_folds * (run.protocol.fit.seeds if model.kind == PERCEPTRON else 1)
    return n


def _fits_by_fold(run: StoreRun) -> dict[str, list[_Fit]]:
    """Return every distinct fit, under the name of the first fold that needs it."""
    fits: dict[Any, _Fit] = {}
    by_fold: dict[str, list[_Fit]] = {}
    # Each training set of a cell starts from weights of its own: with one start for all,
    # the luck of that start would look like a property of the features.
    starts: dict[tuple[str, Pair], dict[tuple[bytes, ...], int]] = {}
    for pair, number, held in run.every_fold:
        for name, model in run.models.items():
            own = run.for_model(model, held)
            rows_of_fit = _rows_of(model, own)
            validation = own.key_of("validation")
            start = 0
            n_repeats = 1
            is_perceptron = model.kind == PERCEPTRON
            if is_perceptron and not problem_of(run.labels[pair[0]], own):
                numbers = starts.setdefault((name, pair), {})
                start = numbers.setdefault(own.key_of("train"), len(numbers))
                n_repeats = run.protocol.fit.seeds
            for repeat in range(n_repeats):
                seed = (run.protocol.fit.seed + repeat) * SEEDS_APART + start
                key = (name, pair[0], seed, rows_of_fit)
                if key not in fits:
                    fits[key] = _Fit(name, pair[0], seed)
                    by_fold.setdefault(held.name, []).append(fits[key])
                fit = fits[key]
                if validation not in fit.validations:
                    fit.validations.append(validation)
                    fit.folds.append((pair, number))
                position = fit.validations.index(validation)
                fit.tests.append(((name, pair, number, repeat), position))
    return by_fold


def _rows_of(model: Model, held: HeldOut) -> tuple[bytes, ...]:
    """Return all rows that a fit depends on: two with the same rows are one fit."""
    if find_kind(model.kind).head:
        return held.key_of("train", "validation", "hidden", "excluded")
    if model.kind == PERCEPTRON:  # with other validation rows it stops at another epoch
        return held.key_of("train")
    return held.key_of("train", "validation")


def _test_fit(run: StoreRun, fit: _Fit) -> Outcomes:
    """Fit a model, and return its tests."""
    model = run.models[fit.model]
    context = run.context(fit.task)
    folds = []
    for pair, number in fit.folds:
        folds.append(run.for_model(model, run.folds[pair][number]))
    if model.kind == PERCEPTRON:
        fitted = try_fit(
            partial(fit_perceptrons, model, folds, context, fit.seed),
            folds[0],
            context,
        )
    else:
        fitted = try_fit(
            lambda: [fit_model(model, folds[0], context)], folds[0], context
        )
    outcomes: Outcomes = {}
    for key, position in fit.tests:
        of_fold = fitted if isinstance(fitted, str) else fitted[position]
        outcomes[key] = _test(run, key, of_fold)
    return outcomes


def _test(run: StoreRun, key: TestKey, fitted: Fitted | str) -> ScoredFold | str:
    """Return the test of a fit, or why there is none."""
    _, pair, number, repeat = key
    held = run.folds[pair][number]
    if not len(held.test):
        return NOT_TESTED
    if isinstance(fitted, str):
        return fitted
    if run.features is None:
        raise FixInput("a model needs a store", hint="--store NAME=STORE")
    scores = fitted.score(run.features.of(held.test))
    y = run.labels[pair[1]][held.test] == 1
    model = run.models[key[0]]
    seed = run.protocol.fit.seed + repeat if model.kind == PERCEPTRON else 0
    # Only a choice of a store asks for it, and of thousands of films it takes long.
    inner_ap = fitted.inner.precision if run.protocol.fit.choose_store else None
    return ScoredFold(
        fold=held.name,
        seed=seed,
        rows=held.test,
        predictions=Predictions.of(y, scores, fitted.threshold),
        n_train=len(held.train),
        n_validation=len(held.validation),
        leak=run.leak(pair, held, fitted.found_on),
        gives_probabilities=fitted.gives_probabilities,
        tuned=tune_threshold(fitted.inner.y, fitted.inner.scores),
        chosen=fitted.chosen,
        inner_ap=inner_ap,
        recalibrated=fitted.recalibrated(scores),
    )


def baseline_cells(run: StoreRun) -> list[Cell]:
    """Return the cells of all baselines, on the clips of the folds; they read no features."""
    protocol = run.protocol
    table = run.table
    is_possible = {
        "oracle": table.has_concept.any(),
        "neighbour": table.scenes is not None,
    }
    names = [name for name in protocol.grid.baselines if is_possible.get(name, True)]
    outcomes: Outcomes = {}
    seen: set[tuple[Any, ...]] = set()
    for pair, number, held in run.every_fold:
        # Folds that differ only in their validation clips are one fold to a baseline.
        key = (pair, *held.joined().key_of("train", "test"))
        if key in seen:
            continue
        seen.add(key)
        for name in names:
            test = _test_baseline(run, pair, number, held, name)
            outcomes[name, pair, number, 0] = test
    return _cells(run, names, outcomes, are_models=False)


def _test_baseline(
    run: StoreRun, pair: Pair, number: int, held: HeldOut, name: str
) -> ScoredFold | str:
    if not len(held.test):
        return NOT_TESTED
    labels = run.labels[pair[0]]
    joined = held.joined()
    problem = problem_of(labels, joined)
    if problem:
        return problem
    seed = run.protocol.fit.seed + number
    score = fit_baseline(name, joined, labels, run.table, seed)
    y = run.labels[pair[1]][held.test] == 1
    return ScoredFold(
        fold=held.name,
        seed=0,
        rows=held.test,
        predictions=Predictions.of(y, score(held.test)),
        n_train=len(held.train),
        n_validation=len(held.validation),
        leak=run.leak(pair, held, NO_ROWS, with_copies=False),
    )


def _cells(
    run: StoreRun,
    names: Sequence[str],
    outcomes: Outcomes,
    *,
    are_models: bool = True,
    may_fail: bool = False,
) -> list[Cell]:
    """Return the cells with these tests; an error for a model without any."""
    cells = []
    facts_of: dict[Pair, dict[str, Any]] = {}
    for pair in run.protocol.pairs:
        folds = run.folds[pair]
        facts_of[pair] = {
            "is_averaged": repeats_clips(folds),
            "shares_films": shares_films(folds),
            "knows_films": knows_films(folds),
        }
    for pair, name in product(run.protocol.pairs, names):
        tested: list[ScoredFold] = []
        skipped: dict[str, str] = {}
        for number, held in enumerate(run.folds[pair]):
            for repeat in range(run.protocol.fit.seeds):
                outcome = outcomes.get((name, pair, number, repeat))
                if isinstance(outcome, str):
                    skipped[held.name] = outcome
                elif outcome is not None:
                    tested.append(outcome)
        if not tested:
            if may_fail:
                continue
            raise _without_fit(run, pair, name, list(skipped.values()))
        cells.append(
            Cell(
                *pair,
                model=name,
                store=run.name,
                is_model=are_models,
                tested=tested,
                skipped=skipped,
                share=RANDOM_SHARE if name == RANDOM else None,
                further_metrics=run.protocol.further_metrics,
                **facts_of[pair],
            )
        )
    return cells


def _without_fit(
    run: StoreRun, pair: Pair, name: str, reasons: Sequence[str]
) -> FixInput:
    """Return the error for a model that could be fitted in no fold."""
    distinct = list(dict.fromkeys(reasons))
    where = f"model {name}"
    if run.features is not None:
        where += f" on {run.name}"
    if run.features is not None and run.features.missing:
        n_clips = int(run.features.present.sum())
        where += f", with vectors of {n_clips} of {len(run.table)} clips"
    return FixInput(
        f"no fold of {pair[0]} -> {pair[1]} could be trained and tested: "
        f"{'; '.join(distinct) or 'there is none'}",
        where=where,
        hint=_other_models(run.protocol, name, distinct),
    )


def _other_models(protocol: Protocol, name: str, reasons: Sequence[str]) -> str:
    """Return what can be done where a model cannot be trained on any fold."""
    hint = "other splits, or a task with more clips of both classes"
    if all(reason.startswith(REASONS_OF_SPLITS) for reason in reasons):
        return hint  # other models have the same folds
    kind_of = {name: protocol.models[name].kind for name in protocol.model_names}
    if name not in kind_of:
        return hint
    estimator = find_kind(kind_of[name]).estimator
    others = [
        other
        for other, kind in kind_of.items()
        if find_kind(kind).estimator != estimator
    ]
    if not others:
        return hint
    return (
        f"--set 'grid.models={json.dumps(others)}' runs without such models; or {hint}"
    )


def fit_every_clip(run: StoreRun, model: Model, task: str) -> tuple[IntArray, Fitted]:
    """Fit a model as the cells are fitted, but on every clip of a task; return clips and fit.

    Perceptrons stop on the validation clips of the first fold, and train on all others.
    """
    features = run.vectors.features
    rows = np.flatnonzero(features.present & (run.labels[task] >= 0))
    held = nothing_held_out(run.table, rows)
    if model.kind != PERCEPTRON:
        return rows, fit_model(model, held, run.context(task))
    # A protocol may not test the task that it trains on.
    pairs = sorted(run.folds, key=lambda pair: pair[1] != task)
    pair = next(pair for pair in pairs if pair[0] == task)
    validation = np.intersect1d(rows, run.folds[pair][0].validation)
    held = replace(held, train=np.setdiff1d(rows, validation), validation=validation)
    seed = run.protocol.fit.seed * SEEDS_APART
    return rows, fit_perceptrons(model, [held], run.context(task), seed)[0]


def with_chosen_stores(cells: Sequence[Cell]) -> list[Cell]:
    """Return a cell for each model and pair of tasks, with the chosen store of each fold.

    To name the best of several stores after the test is to choose it on test films. So it is chosen
    in each fold, as any setting is: fits without their film have scored training clips of every
    store, and the store with the highest average precision there is taken. Nothing is fitted again.
    """
    same_model: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        same_model.setdefault((cell.train, cell.test, cell.model), []).append(cell)
    chosen = []
    for on_stores in same_model.values():
        tests_of_folds: dict[tuple[str, int], dict[str, ScoredFold]] = {}
        for cell in on_stores:
            for t in cell.tested:
                tests_of_folds.setdefault((t.fold, t.seed), {})[cell.store] = t
        tested = [_chosen_test(tests) for tests in tests_of_folds.values()]
        # A fold that only some stores lack is tested on the others.
        names = {t.fold for t in tested}
        skipped = {
            fold: reason
            for fold, reason in on_stores[0].skipped.items()
            if fold not in names
        }
        of_model = replace(on_stores[0], tested=tested, skipped=skipped)
        chosen.append(replace(of_model, store=CHOSEN))
    return chosen


def _chosen_test(tests: Mapping[str, ScoredFold]) -> ScoredFold:
    """Return the test of the store with the best inner score; of equal ones, the first."""
    inner_ap = {store: t.inner_ap for store, t in tests.items()}
    known = {store: ap for store, ap in inner_ap.items() if ap is not None}
    best = max(known, key=known.__getitem__) if known else next(iter(tests))
    facts = {**tests[best].chosen, "store": best, "inner_ap": inner_ap}
    return replace(tests[best], chosen=facts)
