"""Run a protocol, one step after the other: folds, fits and their scores, results, tables.

`run_protocol` has the steps. Each distinct fit is made once, and shared by the tests that need it:
`model_cells` goes through them.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features.core.console import Progress, Quiet, plural
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeWarning
from obygaze_features.manifest.model import disputed
from obygaze_models.evaluation.leakage import Leak
from obygaze_models.evaluation.predictions import Predictions, tune_threshold
from obygaze_models.models.common import FixTraining
from obygaze_models.models.registry import PERCEPTRON, UNTRAINED, find_kind
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.schedule import (
    NOT_TESTED,
    OF_FOLDS,
    WITHOUT_FEATURES,
    Pair,
    unit_of,
)
from obygaze_models.protocols.schema import Model
from obygaze_models.protocols.splits import NO_ROWS
from obygaze_models.runner.about import about_run
from obygaze_models.runner.basis import has_interval, no_interval_because
from obygaze_models.runner.concepts import concept_tables
from obygaze_models.runner.fitting import (
    SEEDS_APART,
    Fitted,
    fit_baseline,
    fit_model,
    fit_perceptrons,
    with_inner_scores,
)
from obygaze_models.runner.heldout import (
    HeldOut,
    basis_of,
    repeats_clips,
    with_few_films,
)
from obygaze_models.runner.inputs import Inputs
from obygaze_models.runner.limits import many_fits
from obygaze_models.runner.processes import fitting, map_groups, mapped
from obygaze_models.runner.results import (
    Difference,
    Draws,
    Evaluation,
    add_p_of_all,
    cell_results,
    comparable,
    contrast_jobs,
    difference,
    learning_rows,
)
from obygaze_models.runner.rows import ResultRow, SuccessRow
from obygaze_models.runner.scores import (
    RANDOM,
    RANDOM_SHARE,
    Cell,
    ScoredFold,
    number_of_groups,
    with_chosen_stores,
)
from obygaze_models.runner.store_run import StoreRun, store_runs
from obygaze_models.runner.tables import (
    Run,
    check_run_folder,
    prediction_rows,
    write_run,
)

Watch = Callable[[str, int], AbstractContextManager[Progress]]
# What a baseline cannot do without.
NEEDS = {
    "oracle": "visual concepts",
    "neighbour": "the scene or the times of each clip, and two films",
    "film_prior": "films",
}
TestKey = tuple[str, Pair, int, int]  # model, tasks, numbers of fold and seed
Outcomes = dict[TestKey, ScoredFold | str]  # the test, or why there is none


def run_protocol(
    inputs: Inputs,
    folder: Path,
    *,
    force: bool = False,
    n_jobs: int = 0,
    watch: Watch | None = None,
) -> Run:
    """Fit and test every cell, and write the run; equal inputs give equal tables.

    Args:
        inputs: Clips, tasks and features (`inputs.gather`).
        folder: The folder of the run.
        force: Replace another run that is there.
        n_jobs: Processes that fit; 0 for one a core.
        watch: Makes a progress bar.
    """
    check_run_folder(folder, inputs.identity, force=force)
    watch = watch or _no_progress
    started = time.perf_counter()
    protocol = inputs.protocol
    with fitting():
        stores = store_runs(inputs)
        _check_learning_films(stores)
        _warn_of_many_fits(stores)
        cells: list[Cell] = []
        for store in stores:
            if store.features is not None and store.models:
                with watch(f"tests on {store.name}", n_tests(store)) as progress:
                    cells += model_cells(store, n_jobs, progress)
        if protocol.fit.choose_store:
            joined = [store.name for store in inputs.stores if store.parts]
            single = [cell for cell in cells if cell.store not in joined]
            cells += with_chosen_stores(single)
        baselines = _baselines(stores)
        evaluation = Evaluation.of(inputs)
        every_cell = [*cells, *baselines]
        jobs: dict[str, list[Callable[[], Any]]] = {
            "cells": [partial(cell_results, cell, evaluation) for cell in every_cell],
            "differences": _difference_jobs(every_cell, evaluation),
            "contrasts": contrast_jobs(cells, evaluation),
            "concepts": [
                partial(concept_tables, store)
                for store in stores
                if store.features is not None
            ],
        }
        with watch("evaluation", sum(map(len, jobs.values()))) as progress:
            made = map_groups(jobs, n_jobs, progress)
        learning: list[ResultRow] = []
        for store in stores:
            learning += _learning(store, evaluation, n_jobs)
    questions = protocol.report.questions
    differences = add_p_of_all([*chain(*made["differences"])], questions)
    results = chain(*made["cells"], differences, *made["contrasts"], learning)
    tables: dict[str, Any] = {
        "predictions.csv": prediction_rows(every_cell, inputs.table),
        "results.csv": results,
    }
    if protocol.report.concepts:
        tables["concepts.csv"] = chain(*(concepts for concepts, _ in made["concepts"]))
        tables["trees.csv"] = chain(*(trees for _, trees in made["concepts"]))
    if protocol.report.error_analysis:
        tables["success.csv"] = _success(cells, inputs.table)
    seconds = round(time.perf_counter() - started, 3)
    about = about_run(inputs, folder, stores, every_cell, seconds)
    return write_run(folder, about, tables, force=force)


def _baselines(stores: Sequence[StoreRun]) -> list[Cell]:
    """Return the cells of the baselines: they read no features, only which clips have some."""
    by_clips: dict[bytes, list[Cell]] = {}
    cells = []
    for store in stores:
        key = b""
        if store.features is not None:
            key = store.features.present.tobytes()
        if key not in by_clips:
            by_clips[key] = baseline_cells(store)
        cells += [replace(cell, store=store.name) for cell in by_clips[key]]
    if len(by_clips) == 1:
        return [replace(cell, store="") for cell in by_clips[key]]
    return cells


def _difference_jobs(
    cells: Sequence[Cell], evaluation: Evaluation
) -> list[Callable[[], list[Difference]]]:
    """Return functions that compute the differences of cells with the same tasks."""
    if not evaluation.protocol.report.compare:
        return []
    by_tasks: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        by_tasks.setdefault((cell.train, cell.test), []).append(cell)

    def differences(of_tasks: Sequence[Cell]) -> list[Difference]:
        draws = Draws(evaluation)
        pairs = comparable(of_tasks)
        return [difference(first, second, draws) for first, second in pairs]

    return [partial(differences, of_tasks) for of_tasks in by_tasks.values()]


def _check_learning_films(stores: Sequence[StoreRun]) -> None:
    """Raise an error for a number of training films that no fold has."""
    for store in stores:
        wanted = max(store.protocol.report.learning_films, default=0)
        if not wanted:
            continue
        most = 0
        for _, _, held in store.every_fold:
            films = held.films[held.joined().train]
            most = max(most, number_of_groups(films))
        if wanted > most:
            splits = store.protocol.splits
            units = plural(unit_of(splits.kind, splits.column))
            hint = f"numbers of training {units} up to {most}"
            raise FixUsage(
                f"report.learning_films counts {units} here: no fold trains on more than {most},"
                f" got {wanted}",
                where=store.name or None,
                hint=hint if most else "leave out report.learning_films",
            )


def _warn_of_many_fits(stores: Sequence[StoreRun]) -> None:
    """Warn where each of many films is left out, before the fits begin that take so long."""
    n_folds = 0
    for store in stores:
        if store.models:
            n_folds = max(n_folds, *map(len, store.folds.values()))
    text = many_fits(stores[0].protocol.to_json()["splits"], n_folds)
    if text:
        warnings.warn(text, ObygazeWarning, stacklevel=3)


def _learning(store: StoreRun, evaluation: Evaluation, n_jobs: int) -> list[ResultRow]:
    """Return the learning curve of each model on a store: the primary metric by training films.

    Films are drawn from those that a fit sees: with validation films, where these train too.
    """
    protocol = store.protocol
    if store.features is None:
        return []
    curves: dict[tuple[str, str, str], dict[int, Cell]] = {}
    for n_films in protocol.report.learning_films:
        for name, model in store.models.items():
            if not find_kind(model.kind).is_trained:
                continue
            as_fitted = partial(store.for_model, model)
            thinned = with_few_films(
                store.folds, n_films, protocol.splits.seed, as_fitted
            )
            grid = replace(protocol.grid, models=(name,))
            alone = replace(protocol, grid=grid)
            fewer = replace(store, protocol=alone, folds=thinned)
            for cell in model_cells(fewer, n_jobs, Quiet(), may_fail=True):
                curve = (cell.train, cell.test, cell.model)
                curves.setdefault(curve, {})[n_films] = cell
    rows: list[ResultRow] = []
    for points in curves.values():
        rows += learning_rows(points, evaluation)
    return rows


def _success(cells: Sequence[Cell], table: ClipTable) -> Iterator[SuccessRow]:
    """Yield the rows of success.csv: decisions regressed on levels and concepts of the clips."""
    from obygaze_models.evaluation.error_analysis import (
        LEVEL_FACTORS,
        analyse_success,
        paper_factors,
    )

    # Clips whose annotators differ on a factor are neither with it nor without it.
    names = ("level", *table.concept_names)
    is_decided = np.array([disputed(clip).isdisjoint(names) for clip in table.clips])
    has_groups = number_of_groups(table.groups) > 0
    for cell in cells:
        decided = is_decided[cell.clips]
        if not decided.any():
            continue
        clips = cell.clips[decided]
        threshold = 0.5 if cell.tested[0].gives_probabilities else 0.0
        is_correct = ((cell.mean_scores > threshold) == cell.y)[decided]
        has_concept = table.has_concept[clips].T
        concepts = dict(zip(table.concept_names, has_concept, strict=True))
        factors = paper_factors(concepts, table.levels[clips].tolist())
        # Where each clip has one of the three levels, these are an intercept for each level.
        is_levelled = bool(np.all(sum(factors[name] for name in LEVEL_FACTORS) == 1))
        results = analyse_success(
            is_correct,
            factors,
            table.groups[clips],
            intercept=not is_levelled,
        )
        for result in results:
            if not result.film:
                continue
            row: SuccessRow = {
                "task": cell.test,
                "train": cell.train,
                "test": cell.test,
                "store": cell.store,
                "model": cell.model,
                "film": result.film,
                "all_clips": result.n,
                "successes": result.n_success,
                "method": result.method,
                "errors": result.errors,
                "note": result.note or no_interval_because(cell.basis),
            }
            if not is_levelled or not result.factors:
                yield {**row, "factor": "intercept", "log_odds": result.intercept}
            for item in result.factors:
                of_factor: SuccessRow = {**row, "factor": item.name, "clips": item.n}
                of_factor["log_odds"] = item.log_odds
                if has_groups and has_interval(cell.basis):
                    of_factor |= {"se": item.se, "low": item.low, "high": item.high}
                    of_factor["p"] = item.p
                yield of_factor
            for name, reason in result.left_out.items():
                yield {**row, "factor": name, "note": f"left out: {reason}"}


@contextmanager
def _no_progress(label: str, total: int) -> Iterator[Progress]:
    yield Quiet()


# ---- the fits and tests of a store ----


@dataclass(eq=False)
class PlannedFit:
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
    run: StoreRun, n_jobs: int, progress: Progress, *, may_fail: bool = False
) -> list[Cell]:
    """Return the cells of all models on one store.

    Fits of one fold are made in one process, because they share concept vectors.

    Args:
        run: The store.
        n_jobs: Processes that fit; 0 for one a core.
        progress: What is told of each test.
        may_fail: Whether a cell without any fit is left out; else it is an error.
    """
    parts = list(_fits_by_fold(run).values())
    needs_products = any(
        find_kind(model.kind).head or model.kind == "svm"
        for model in run.models.values()
    )
    # Changed features have products of their own in each fold.
    is_changed = run.context(run.protocol.train_tasks[0]).changes_features()
    if parts and needs_products and not is_changed:
        run.vectors.machines.prepare()

    def tests_of_fold(number: int) -> Outcomes:
        # Margins are those of one part only: those of all folds would fill the memory.
        run.vectors.forget_margins()
        outcomes: Outcomes = {}
        for plan in parts[number]:
            tests = []
            for key, position in plan.tests:
                if len(run.folds[key[1]][key[2]].test):
                    tests.append((key, position))
                else:
                    held = run.folds[key[1]][key[2]]
                    outcomes[key] = _why_not_tested(run, key[1], held)
            if not tests:
                continue
            model = run.models[plan.model]
            context = run.context(plan.task)
            folds = [run.for_model(model, run.folds[pair][n]) for pair, n in plan.folds]
            try:
                if model.kind == PERCEPTRON:
                    fits = fit_perceptrons(model, folds, context, plan.seed)
                else:
                    fits = [fit_model(model, folds[0], context)]
            except FixTraining as error:
                for key, _ in tests:
                    outcomes[key] = error.reason
                continue
            fits = [
                with_inner_scores(fitted, held, context)
                for fitted, held in zip(fits, folds, strict=True)
            ]
            for key, position in tests:
                outcomes[key] = _test(run, key, fits[position])
        return outcomes

    outcomes: Outcomes = {}
    with mapped(tests_of_fold, len(parts), n_jobs) as made:
        for of_fold in made:
            outcomes |= of_fold
            progress.advance(len(of_fold))
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


def _fits_by_fold(run: StoreRun) -> dict[str, list[PlannedFit]]:
    """Return every distinct fit, under the name of the first fold that needs it."""
    fits: dict[Any, PlannedFit] = {}
    by_fold: dict[str, list[PlannedFit]] = {}
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
            has_classes = len(np.unique(run.labels[pair[0]][own.train])) > 1
            if model.kind == PERCEPTRON and has_classes:
                numbers = starts.setdefault((name, pair), {})
                start = numbers.setdefault(own.key_of("train"), len(numbers))
                n_repeats = run.protocol.fit.seeds
            for repeat in range(n_repeats):
                seed = (run.protocol.fit.seed + repeat) * SEEDS_APART + start
                key = (name, pair[0], seed, rows_of_fit)
                if key not in fits:
                    fits[key] = PlannedFit(name, pair[0], seed)
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


def _test(run: StoreRun, key: TestKey, fitted: Fitted) -> ScoredFold:
    """Return the test of a fit."""
    name, pair, number, repeat = key
    held = run.folds[pair][number]
    scores = fitted.score_clips(run.vectors.features, held.test)
    y = run.labels[pair[1]][held.test] == 1
    starts_at_random = run.models[name].kind == PERCEPTRON
    learned_from = held
    if not find_kind(run.models[name].kind).is_trained:
        learned_from = replace(held, train=NO_ROWS, validation=NO_ROWS)
    # Only a choice of a store asks for it, and of thousands of films it takes long.
    inner_ap = fitted.inner.precision if run.protocol.fit.choose_store else None
    return ScoredFold(
        fold=held.name,
        seed=run.protocol.fit.seed + repeat if starts_at_random else 0,
        rows=held.test,
        predictions=Predictions.of(y, scores, fitted.threshold),
        n_train=len(held.train),
        n_validation=len(held.validation),
        leak=run.leak(pair, learned_from, fitted.found_on),
        gives_probabilities=fitted.gives_probabilities,
        tuned=tune_threshold(fitted.inner.y, fitted.inner.scores),
        chosen=fitted.chosen,
        inner_ap=inner_ap,
        recalibrated=fitted.recalibrated(scores),
    )


def _why_not_tested(run: StoreRun, pair: Pair, held: HeldOut) -> str:
    """Return why a fold tests no clip: its films have labels, but no features, or neither."""
    if run.features is None:
        return NOT_TESTED
    is_labelled = run.labels[pair[1]] >= 0
    of_fold = np.isin(held.units, held.hidden)
    lacks_features = of_fold & is_labelled & ~run.features.present
    return WITHOUT_FEATURES if lacks_features.any() else NOT_TESTED


def baseline_cells(run: StoreRun) -> list[Cell]:
    """Return the cells of all baselines, on the clips of the folds; they read no features."""
    protocol = run.protocol
    table = run.table
    is_possible = {
        "oracle": table.has_concept.any(),
        "neighbour": table.scenes is not None,
        "film_prior": table.has_films,
    }
    names = [name for name in protocol.grid.baselines if is_possible.get(name, True)]
    if not names and not run.models:
        lacking = [f"{name} needs {NEEDS[name]}" for name in protocol.grid.baselines]
        raise FixInput(
            f"no baseline can be computed: {'; '.join(lacking)}",
            where=table.name,
            hint="another baseline (grid.baselines), or a model",
        )
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
        return _why_not_tested(run, pair, held)
    labels = run.labels[pair[0]]
    seed = run.protocol.fit.seed + number
    try:
        score = fit_baseline(name, held.joined(), labels, run.table, seed)
    except FixTraining as error:
        return error.reason
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
            "basis_of_folds": basis_of(folds),
        }
    for pair, name in product(run.protocol.pairs, names):
        tested: list[ScoredFold] = []
        skipped: dict[str, str] = {}
        skipped_films: dict[str, list[str]] = {}
        for number, held in enumerate(run.folds[pair]):
            for repeat in range(run.protocol.fit.seeds):
                outcome = outcomes.get((name, pair, number, repeat))
                if isinstance(outcome, str):
                    skipped[held.name] = outcome
                    skipped_films[held.name] = held.hidden_films
                elif outcome is not None:
                    tested.append(outcome)
        if not tested:
            if may_fail:
                continue
            raise _without_fit(run, pair, name, list(skipped.values()))
        if are_models:
            is_trained = find_kind(run.models[name].kind).is_trained
        else:
            is_trained = name not in UNTRAINED
        cells.append(
            Cell(
                *pair,
                model=name,
                store=run.name,
                is_model=are_models,
                tested=tested,
                skipped=skipped,
                skipped_films=skipped_films,
                share=RANDOM_SHARE if name == RANDOM else None,
                further_metrics=run.protocol.further_metrics,
                is_trained=is_trained,
                **facts_of[pair],
            )
        )
    return cells


def _without_fit(
    run: StoreRun, pair: Pair, name: str, reasons: Sequence[str]
) -> FixInput:
    """Return the error for a model that could be fitted in no fold."""
    where = f"model {name}"
    if run.features is not None:
        n_clips = int(run.features.present.sum())
        where += f" on {run.name}, with vectors of {n_clips} of {len(run.table)} clips"
    hint = "other splits, or a task with more clips of both classes"
    # Another model has the same folds.
    if not all(reason.startswith(OF_FOLDS) for reason in reasons):
        hint += ", or other models (grid.models)"
    return FixInput(
        f"no fold of {pair[0]} -> {pair[1]} could be trained and tested: "
        f"{'; '.join(dict.fromkeys(reasons)) or 'there is none'}",
        where=where,
        hint=hint,
    )
