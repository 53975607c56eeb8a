"""Run a protocol: make folds, fit and test the models, compute the values, write the files.

`run_protocol` fits the models of a protocol in each fold. `runner.testing` tests a saved model
instead. Both call `finish`, so their runs have the same values and files.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.leakage import Leak
from obygaze_models.evaluation.predictions import (
    NO_ROWS,
    BoolArray,
    FloatArray,
    as_scores,
)
from obygaze_models.evaluation.results import Jobs, results
from obygaze_models.evaluation.tables import (
    CELL,
    CONCEPT_COLUMNS,
    SUCCESS,
    TREES,
    Pair,
    RunRow,
    Test,
    columns_of_rows,
    table_of_columns,
    table_of_tests,
)
from obygaze_models.models.common import FixTraining
from obygaze_models.models.fitting import NO_SETTING, warn_of_split_films
from obygaze_models.models.registry import (
    BASELINES,
    find_kind,
    has_epochs,
)
from obygaze_models.protocols.kinds import offered_values
from obygaze_models.protocols.schedule import (
    NOT_TESTED,
    WITHOUT_FEATURES,
)
from obygaze_models.protocols.schema import Model
from obygaze_models.runner.about import about_run
from obygaze_models.runner.concepts import concept_tables
from obygaze_models.runner.files import (
    Run,
    check_run_folder,
    run_settings,
    write_run,
)
from obygaze_models.runner.heldout import HeldOut
from obygaze_models.runner.inputs import Inputs, list_needs
from obygaze_models.runner.processes import fitting, map_in_processes
from obygaze_models.runner.store_run import (
    Fitted,
    StoreRun,
    fit_baseline,
    fit_model,
    fit_seed,
    store_runs,
)
from obygaze_models.runner.success import success_rows
from obygaze_models.runner.text import printable_run

if TYPE_CHECKING:
    import pandas as pd

Watch = Callable[[str, int], AbstractContextManager[Progress]]
HANDFUL = 8  # clips of each class, on which user code is tried first


class TestKey(NamedTuple):
    """The model or baseline, the pair of tasks, the fold number and the repeat of a test."""

    model: str
    pair: Pair
    number: int
    repeat: int = 0


@dataclass(frozen=True, eq=False)
class OneTest:
    """The test of a fit: its rows of predictions.csv, and the entry of the fit in run.json."""

    test: Test
    about: Mapping[str, Any]
    leak: Leak

    def on_store(self, store: str) -> "OneTest":
        """Return the same test under the name of a store."""
        facts = {**self.test.facts, "store": store}
        return replace(self, test=self.test._replace(facts=facts))


Outcomes = dict[TestKey, OneTest | str]  # tests, or reasons why there is no test


@dataclass(frozen=True, eq=False)
class CellTests:
    """The tests of a cell, and the folds without a test.

    Attributes:
        name: The training task, test task, store and model of the cell.
        tests: The tests.
        skipped: The reason for each fold without a test, by the name of the fold.
        skipped_films: The films of skipped folds that hold out whole films, by the name of the
            fold.
    """

    name: Mapping[str, str]
    tests: Sequence[OneTest]
    skipped: Mapping[str, str] = field(default_factory=dict)
    skipped_films: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def on_store(self, store: str) -> "CellTests":
        """Return the same tests under the name of a store."""
        tests = [one.on_store(store) for one in self.tests]
        return replace(self, name={**self.name, "store": store}, tests=tests)

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the cell in the fits of run.json."""
        return {
            **self.name,
            "skipped": self.skipped,
            "skipped_films": self.skipped_films,
            "folds": [one.about for one in self.tests],
        }


# ---- the whole run ----


def run_protocol(
    inputs: Inputs,
    folder: Path,
    *,
    force: bool = False,
    n_jobs: int = 0,
    watch: Watch | None = None,
) -> Run:
    """Fit and test every cell, and write the run. Equal inputs give equal tables.

    Args:
        inputs: Clips, tasks and features (`inputs.gather`).
        folder: The folder of the run.
        force: Replace another run in this folder.
        n_jobs: The number of processes that fit. 0: one per core.
        watch: Function that makes a progress bar. None: no progress bar.
    """
    check_run_folder(folder, inputs.identity, force=force)
    watch = watch or without_progress_bar
    started = time.perf_counter()
    with fitting():
        stores = store_runs(inputs)
        # Models that cannot work are refused before all fits are made, which takes long.
        baselines = evaluate_baselines(stores)
        for store in stores:
            try_models(store)
        cells: list[CellTests] = []
        for store in stores:
            if store.features is not None and store.models:
                cells += tests_of_models(store, n_jobs, watch)
        cells += baselines
        return finish(
            inputs,
            folder,
            stores,
            cells,
            started,
            force=force,
            n_jobs=n_jobs,
            watch=watch,
        )


def finish(
    inputs: Inputs,
    folder: Path,
    stores: Sequence[StoreRun],
    cells: Sequence[CellTests],
    started: float,
    *,
    force: bool = False,
    n_jobs: int = 1,
    watch: Watch | None = None,
) -> Run:
    """Compute all tables from the tests, and write the run.

    Args:
        inputs: The inputs of the run.
        folder: The folder of the run.
        stores: Its stores, with their folds.
        cells: The tests of its models and baselines.
        started: The time when the run started, from `time.perf_counter`.
        force: Replace another run in this folder.
        n_jobs: The number of processes that compute. 0: one per core.
        watch: Function that makes a progress bar. None: no progress bar.
    """
    each = partial(_made, watch or without_progress_bar, n_jobs)
    report = inputs.protocol.report
    fits = [cell.to_json() for cell in cells]
    about = about_run(inputs, folder, fits)
    tests = table_of_tests([one.test for cell in cells for one in cell.tests])
    values = results(tests, run_settings(about), partial(each, "values"))
    files = {"predictions.csv": tests, "results.csv": values}
    if report.concepts:
        jobs = []
        for store in stores:
            if store.features is not None:
                jobs.append(partial(concept_tables, store, fits))
        made = [*each("concepts", jobs)]
        concepts = chain.from_iterable(of_concepts for of_concepts, _ in made)
        trees = chain.from_iterable(of_trees for _, of_trees in made)
        files["concepts.csv"] = _table([*concepts], CONCEPT_COLUMNS)
        files["trees.csv"] = _table([*trees], TREES)
    if report.error_analysis:
        of_values = values[values["against_model"] == ""].groupby([*CELL])
        bases = of_values["basis"].first().to_dict()
        rows = success_rows(tests, bases, inputs.table)
        files["success.csv"] = _table([*rows], SUCCESS)
    about["seconds"] = round(time.perf_counter() - started, 3)
    return printable_run(write_run(folder, about, files, force=force))


def _table(rows: Sequence[RunRow], kinds: Mapping[str, type]) -> "pd.DataFrame":
    return table_of_columns([columns_of_rows(rows, kinds)], kinds)


def _made(watch: Watch, n_jobs: int, label: str, jobs: Jobs) -> Iterator[Any]:
    """Yield the results of jobs in their order."""
    with (
        watch(label, len(jobs)) as progress,
        map_in_processes(lambda number: jobs[number](), len(jobs), n_jobs) as made,
    ):
        for result in made:
            progress.advance()
            yield result


@contextmanager
def without_progress_bar(label: str, total: int) -> Iterator[Progress]:
    """Yield a progress that shows nothing."""
    yield Quiet()


# ---- the fits and tests of a store ----


def try_models(run: StoreRun) -> None:
    """Raise the error of a model that cannot work, before the first fit.

    User code and classes of scikit-learn are fitted on a few rows. If this fails, they are fitted
    on all rows of the fold.
    """
    pair = run.protocol.pairs[0]
    for model in run.models.values():
        folds = run.folds[pair]
        held = run.for_model(model, folds[0])
        if find_kind(model.kind).estimator:
            continue
        try:
            _try_model(run, model, handful(run, pair[0], held))
        except FixInput:
            _try_model(run, model, held)


def handful(run: StoreRun, task: str, held: HeldOut) -> HeldOut:
    """Return a fold that trains on a few of its training clips of each class, of several films."""
    labels = run.labels[task][held.train]
    few = []
    for number in (0, 1):
        of_class = held.train[labels == number]
        step = max(1, len(of_class) // HANDFUL)
        few.append(of_class[::step][:HANDFUL])
    return replace(held, train=np.sort(np.concatenate(few)))


def _try_model(run: StoreRun, model: Model, held: HeldOut) -> None:
    task, _ = run.protocol.pairs[0]
    try:
        (fitted,) = fit_model(run, model, task, [held], run.protocol.fit.seed)
    except FixTraining:  # the run skips this fold, and states the reason
        return
    fitted.scores(run.of_store.row_of[held.train])
    warn_of_split_films(fitted.estimator)


def tests_of_models(run: StoreRun, n_jobs: int, watch: Watch) -> list[CellTests]:
    """Return the tests of all models on one store.

    One process makes all fits of a fold, because these fits share concept vectors.

    Args:
        run: The store, with its folds.
        n_jobs: The number of processes that fit. 0: one per core.
        watch: Function that makes the progress bar of the tests.
    """
    parts = _fits_by_fold(run)
    n_tests = 0
    for fits in parts:
        n_tests += sum(len(tests) for _, tests in fits)

    def tests_of_fold(number: int) -> Outcomes:
        outcomes: Outcomes = {}
        for seed, tests in parts[number]:
            outcomes |= _fit_and_test(run, seed, tests)
        return outcomes

    outcomes: Outcomes = {}
    with (
        watch(f"tests on {run.name}", n_tests) as progress,
        map_in_processes(tests_of_fold, len(parts), n_jobs) as made,
    ):
        for of_fold in made:
            outcomes |= of_fold
            progress.advance(len(of_fold))
    # Leaks are checked again, because the clips of concept vectors are known only after the fits.
    run.check_leaks([one.leak for one in outcomes.values() if isinstance(one, OneTest)])
    return group_into_cells(run, run.protocol.model_names, outcomes)


# A seed, and the tests whose fits have the same training rows and are made together.
PlannedFits = tuple[int, list[TestKey]]


def _fits_by_fold(run: StoreRun) -> list[list[PlannedFits]]:
    """Return the distinct fits, grouped by the first fold that needs them."""
    tests_of_fit: dict[Any, list[TestKey]] = {}
    by_fold: dict[str, list[PlannedFits]] = {}
    # Each training set of a cell has its own initial weights. With the same initial weights for
    # all, their luck would look like a property of the features.
    starts: dict[tuple[str, Pair], dict[Any, int]] = {}
    for pair, number, held in run.every_fold:
        for name, model in run.models.items():
            own = run.for_model(model, held)
            rows = _fit_key(run, model, own)
            start = 0
            n_repeats = 1
            if has_epochs(model.kind):
                has_classes = len(np.unique(run.labels[pair[0]][own.train])) > 1
                if has_classes:
                    numbers = starts.setdefault((name, pair), {})
                    start = numbers.setdefault(own.make_key("train"), len(numbers))
                    n_repeats = run.protocol.fit.seeds
            for repeat in range(n_repeats):
                seed = fit_seed(model.kind, run.protocol.fit.seed + repeat, start)
                fit = (name, pair[0], seed, rows)
                if fit not in tests_of_fit:
                    tests_of_fit[fit] = []
                    of_fold = by_fold.setdefault(held.name, [])
                    of_fold.append((seed, tests_of_fit[fit]))
                tests_of_fit[fit].append(TestKey(name, pair, number, repeat))
    return [*by_fold.values()]


def _fit_key(run: StoreRun, model: Model, held: HeldOut) -> tuple[bytes, ...]:
    """Return a key of all rows that a fit depends on. Fits with equal keys are the same."""
    if run.finds_concepts(model):
        return held.make_key("train", "validation", "hidden", "excluded")
    if has_epochs(model.kind):  # validation rows decide only at which epoch a fit stops
        return held.make_key("train")
    return held.make_key("train", "validation")


def _fit_and_test(run: StoreRun, seed: int, tests: Sequence[TestKey]) -> Outcomes:
    """Fit a model for tests that need the same training rows, and make the tests."""
    outcomes: Outcomes = {}
    model = run.models[tests[0].model]
    # Tests with the same validation rows share a fit.
    folds: dict[Any, HeldOut] = {}
    tests_of: dict[Any, list[TestKey]] = {}
    for key in tests:
        held = run.folds[key.pair][key.number]
        if len(held.test):
            own = run.for_model(model, held)
            validation = own.make_key("validation")
            folds.setdefault(validation, own)
            tests_of.setdefault(validation, []).append(key)
        else:
            outcomes[key] = _why_not_tested(run, key.pair, held)
    if not folds:
        return outcomes
    try:
        fits = fit_model(run, model, tests[0].pair[0], [*folds.values()], seed)
    except FixTraining as error:
        tested_keys = chain.from_iterable(tests_of.values())
        return {**outcomes, **dict.fromkeys(tested_keys, error.reason)}
    for fitted, keys in zip(fits, tests_of.values(), strict=True):
        for key in keys:
            outcomes[key] = _test_of_fit(run, key, fitted)
    return outcomes


def _test_of_fit(run: StoreRun, key: TestKey, fitted: Fitted) -> OneTest:
    """Return the test of a fit on the test clips of the fold of `key`."""
    held = run.folds[key.pair][key.number]
    kind = find_kind(run.models[key.model].kind)
    scores = fitted.scores(run.of_store.row_of[held.test])
    facts: RunRow = {
        "is_model": True,
        "is_trained": kind.is_trained,
        "is_probability": fitted.gives_probabilities,
    }
    if kind.has_epochs:
        facts["seed"] = run.protocol.fit.seed + key.repeat
    learned_from = held if kind.is_trained else held.without_training()
    leak = run.leak(key.pair, learned_from, fitted.found_on)
    decision = scores > fitted.threshold
    return make_test(run, key, facts, scores, decision, leak, fitted.chosen)


def make_test(
    run: StoreRun,
    key: TestKey,
    facts: RunRow,
    scores: FloatArray,
    decision: BoolArray | FloatArray,
    leak: Leak,
    chosen: Mapping[str, Any],
) -> OneTest:
    """Return the test of a fit on the test clips of a fold.

    Args:
        run: The store, with its folds.
        key: The model or baseline, its tasks and its fold.
        facts: The columns with the same value for all clips, by name.
        scores: The score of each clip.
        decision: The decision for each clip.
        leak: Which test clips the fit has seen.
        chosen: Chosen settings and facts of the fit, for run.json.
    """
    held = run.folds[key.pair][key.number]
    table = run.table
    train, test = key.pair
    n_train = len(held.train)
    n_validation = len(held.validation)
    of_all = {
        "task": test,
        **dict(zip(CELL, (train, test, run.name, key.model), strict=True)),
        "fold": held.name,
        "seed": 0,
        "n_seen": n_train + n_validation,
        **facts,
    }
    rows = Test(
        of_all,
        clip_id=table.id_array[held.test],
        movie_id=table.films[held.test],
        group=table.groups[held.test],
        y=run.labels[test][held.test] == 1,
        score=as_scores(scores, len(held.test)),
        decision=decision,
        seen=leak.seen,
        leaked=leak.is_leaked,
    )
    of_fit = {
        "fold": held.name,
        "seed": of_all["seed"],
        "n_train": n_train,
        "n_validation": n_validation,
        "chosen": dict(chosen),
    }
    return OneTest(rows, of_fit, leak)


def _why_not_tested(run: StoreRun, pair: Pair, held: HeldOut) -> str:
    """Return why a fold tests no clip: its films have no features, or no labels."""
    if run.features is None:
        return NOT_TESTED
    is_labelled = run.labels[pair[1]] >= 0
    of_fold = np.isin(held.units, held.hidden)
    lacks_features = of_fold & is_labelled & ~run.features.present
    return WITHOUT_FEATURES if lacks_features.any() else NOT_TESTED


def group_into_cells(
    run: StoreRun, names: Sequence[str], outcomes: Outcomes
) -> list[CellTests]:
    """Return the tests of each cell. Raise an error for a model without any test."""
    cells = []
    for pair, name in product(run.protocol.pairs, names):
        tests: list[OneTest] = []
        skipped: dict[str, str] = {}
        films: dict[str, list[str]] = {}
        of_cell = [key for key in outcomes if (key.model, key.pair) == (name, pair)]
        for key in sorted(of_cell):
            outcome = outcomes[key]
            if isinstance(outcome, OneTest):
                tests.append(outcome)
                continue
            held = run.folds[pair][key.number]
            skipped[held.name] = outcome
            if held.hidden_films:
                films[held.name] = held.hidden_films
        if not tests:
            raise _without_fit(run, pair, name, skipped.values())
        cell = dict(zip(CELL, (*pair, run.name, name), strict=True))
        cells.append(CellTests(cell, tests, skipped, films))
    return cells


def _without_fit(
    run: StoreRun, pair: Pair, name: str, reasons: Iterable[str]
) -> FixInput:
    """Return the error for a model that no fold could fit and test."""
    where = f"model {name}"
    if run.features is not None:
        n_clips = int(run.features.present.sum())
        where += f" on {run.name}, with features of {n_clips} of {len(run.table)} clips"
    different = list(dict.fromkeys(reasons))
    hint = "use different splits, or a task with more clips of both classes"
    # Of one model, as in `train`, and of a baseline, there is no other model to select.
    if {name} < {*run.protocol.models}:
        hint += f", or --set grid.models=[...] without {name}"
    if NO_SETTING in different:
        settings = run.protocol.models[name].settings
        keys = [key for key in settings if offered_values(settings[key]) is not None]
        values = [f"--set models.{name}.{key}=VALUE" for key in keys]
        hint = f"use one value in place of a grid: {' '.join(values)}"
    return FixInput(
        f"no fold of {pair[0]} -> {pair[1]} could be trained and tested: "
        f"{'; '.join(different) or 'there are no folds'}",
        where=where,
        hint=hint,
    )


# ---- baselines ----


def evaluate_baselines(stores: Sequence[StoreRun]) -> list[CellTests]:
    """Return the tests of the baselines.

    Baselines read no features, but are tested only on clips with features. If all stores have
    features of the same clips, the baselines have one cell for all stores, with the store "".
    """
    by_clips: dict[bytes, list[CellTests]] = {}
    cells = []
    for store in stores:
        key = b""
        if store.features is not None:
            key = store.features.present.tobytes()
        if key not in by_clips:
            by_clips[key] = tests_of_baselines(store)
        cells += [cell.on_store(store.name) for cell in by_clips[key]]
    if len(by_clips) == 1:
        return [cell.on_store("") for cell in by_clips[key]]
    return cells


def tests_of_baselines(run: StoreRun) -> list[CellTests]:
    """Return the tests of the baselines of the protocol that are possible with these clips."""
    asked = run.protocol.grid.baselines
    names = [name for name in asked if run.table.has(BASELINES[name].needs)]
    if not names and not run.models:
        raise FixInput(
            f"no baseline can be computed: {list_needs(asked)}", where=run.table.name
        )
    outcomes: Outcomes = {}
    known: set[Any] = set()
    for pair, number, held in run.every_fold:
        # A baseline also trains on validation clips. Folds that differ only in which of their clips
        # are for validation give equal baselines, and are tested once.
        fold = (pair, held.merge_validation().make_key("train", "test"))
        if fold not in known:
            known.add(fold)
            for name in names:
                key = TestKey(name, pair, number)
                outcomes[key] = _test_of_baseline(run, key, held)
    return group_into_cells(run, names, outcomes)


def _test_of_baseline(run: StoreRun, key: TestKey, held: HeldOut) -> OneTest | str:
    if not len(held.test):
        return _why_not_tested(run, key.pair, held)
    try:
        score = fit_baseline(
            key.model, held.merge_validation(), run.labels[key.pair[0]], run.table
        )
    except FixTraining as error:
        return error.reason
    scores = score(held.test)
    decision = (scores > 0.5).astype(np.float64)
    kind = BASELINES[key.model]
    if kind.is_drawn:
        # A random decision counts as half positive for each clip.
        decision = np.full(len(held.test), 0.5)
    facts = {
        "is_model": False,
        "is_trained": kind.is_trained,
        "is_probability": not kind.is_drawn,
    }
    learned_from = held if kind.is_trained else held.without_training()
    leak = run.leak(key.pair, learned_from, NO_ROWS, with_copies=False)
    return make_test(run, key, facts, scores, decision, leak, chosen={})
