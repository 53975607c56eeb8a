"""Run a protocol, one step after the other: folds, fits and their tests, values, files.

`run_protocol` has the steps. Each distinct fit is made once, and shared by the tests that need it:
`tests_of_models` goes through them.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import FixInput
from obygaze_features.core.shell import shell_word
from obygaze_features.manifest.model import disputed
from obygaze_models.evaluation.basis import has_interval, no_interval_because
from obygaze_models.evaluation.cells import Cell, cells_of, number_of_groups
from obygaze_models.evaluation.leakage import Leak
from obygaze_models.evaluation.predictions import (
    NO_ROWS,
    BoolArray,
    FloatArray,
    as_scores,
)
from obygaze_models.evaluation.results import Jobs, chosen, chosen_stores, results
from obygaze_models.evaluation.tables import (
    CHOSEN,
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
from obygaze_models.models.registry import (
    BASELINES,
    find_kind,
    finds_concepts,
    has_epochs,
)
from obygaze_models.protocols.clips import ClipTable
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
    settings_of,
    write_run,
)
from obygaze_models.runner.fitting import (
    Fitted,
    estimators_of,
    fit_baseline,
    fit_model,
    seed_of,
)
from obygaze_models.runner.heldout import HeldOut
from obygaze_models.runner.inputs import Inputs
from obygaze_models.runner.processes import fitting, mapped
from obygaze_models.runner.store_run import StoreRun, store_runs
from obygaze_models.runner.text import printed

if TYPE_CHECKING:
    import pandas as pd

Watch = Callable[[str, int], AbstractContextManager[Progress]]
# Why a fold has no test on the store that training films choose.
NOT_CHOSEN = "there are no scores of held-out training clips to compare the stores by"
# What a baseline cannot do without.
NEEDS = {
    "concepts": "visual concepts",
    "scenes": "the scene or the times of each clip, and two films",
    "films": "films",
}
HANDFUL = 8  # of each class, on which a model of own code is tried
TestKey = tuple[str, Pair, int, int]  # model, tasks, numbers of fold and seed
RowsKey = tuple[bytes, ...]  # of `HeldOut.key_of`


@dataclass(frozen=True, eq=False)
class OneTest:
    """The test of a fit: its rows of the table of tests, and what run.json says of the fit."""

    test: Test
    about: Mapping[str, Any]
    leak: Leak


Outcomes = dict[TestKey, OneTest | str]  # the test, or why there is none


@dataclass(frozen=True, eq=False)
class CellTests:
    """The tests of a cell, and the folds that it has none of.

    Attributes:
        name: Its training task, test task, store and model.
        tests: The tests.
        skipped: The folds without a test, and why.
        skipped_films: The films of these folds, where folds are of whole films.
    """

    name: Mapping[str, str]
    tests: Sequence[OneTest]
    skipped: Mapping[str, str] = field(default_factory=dict)
    skipped_films: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def on_store(self, store: str) -> "CellTests":
        """Return the same tests under the name of a store."""
        tests = []
        for one in self.tests:
            test = one.test._replace(facts={**one.test.facts, "store": store})
            tests.append(replace(one, test=test))
        return replace(self, name={**self.name, "store": store}, tests=tests)

    def to_json(self) -> dict[str, Any]:
        """Return what run.json says of the fits."""
        return {
            **self.name,
            "skipped": dict(self.skipped),
            "skipped_films": {
                fold: list(films) for fold, films in self.skipped_films.items() if films
            },
            "folds": [one.about for one in self.tests],
        }


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
        # What cannot work is refused before the fits, which take long.
        baselines = _baselines(stores)
        for store in stores:
            try_own_models(store)
        of_models: list[CellTests] = []
        for store in stores:
            if store.features is not None and store.models:
                with watch(f"tests on {store.name}", n_tests(store)) as progress:
                    of_models += tests_of_models(store, n_jobs, progress)
        fits = [cell.to_json() for cell in of_models]
        tables = [_table(of_models)]
        if protocol.fit.choose_store:
            joined = {store.name for store in inputs.stores if store.parts}
            on_chosen, fits_of_chosen = _on_chosen_stores(tables[0], fits, joined)
            tables.append(on_chosen)
            fits += fits_of_chosen
        fits += [cell.to_json() for cell in baselines]
        tables.append(_table(baselines))
        about = about_run(inputs, folder, stores, fits)
        files = tables_of_run(_joined(tables), about, watch, n_jobs)
        concepts: list[RunRow] = []
        trees: list[RunRow] = []
        with_features = [store for store in stores if store.features is not None]
        if protocol.report.concepts:
            jobs = [partial(concept_tables, store, fits) for store in with_features]
            for of_concepts, of_trees in _made(watch, "concepts", n_jobs, jobs):
                concepts += of_concepts
                trees += of_trees
    if protocol.report.concepts:
        files["concepts.csv"] = table_of_columns(
            [columns_of_rows(concepts, CONCEPT_COLUMNS)], CONCEPT_COLUMNS
        )
        files["trees.csv"] = table_of_columns([columns_of_rows(trees, TREES)], TREES)
    if protocol.report.error_analysis:
        tests = files["predictions.csv"]
        cells = cells_of(tests[tests["is_model"]])
        rows = [*_success(cells, inputs.table)]
        files["success.csv"] = table_of_columns(
            [columns_of_rows(rows, SUCCESS)], SUCCESS
        )
    about["seconds"] = round(time.perf_counter() - started, 3)
    return printed(write_run(folder, about, files, force=force))


def run_fitted(
    run: StoreRun,
    inputs: Inputs,
    folder: Path,
    outcomes: Outcomes,
    *,
    force: bool = False,
) -> Run:
    """Write the run of a fitted model: its tests in place of fits, all else as in any other run.

    Args:
        run: The store, with the fold of the clips that trained the model and of those it is tested
            on.
        inputs: What the run reads.
        folder: The folder of the run.
        outcomes: The test of the model.
        force: Replace another run that is there.
    """
    started = time.perf_counter()
    cells = _cells(run, run.protocol.model_names, outcomes)
    cells += [cell.on_store("") for cell in tests_of_baselines(run)]
    # What concept vectors lacked in their training is not known.
    about = about_run(inputs, folder, [], [cell.to_json() for cell in cells])
    files = tables_of_run(_table(cells), about, _no_progress, n_jobs=1)
    about["seconds"] = round(time.perf_counter() - started, 3)
    return printed(write_run(folder, about, files, force=force))


def tables_of_run(
    tests: "pd.DataFrame", about: Mapping[str, Any], watch: Watch, n_jobs: int
) -> dict[str, "pd.DataFrame"]:
    """Return the tables that every run has, by the names of their files."""
    each = partial(_made, watch, "values", n_jobs)
    found = results(tests, settings_of(about), each)
    return {"predictions.csv": tests, "results.csv": found}


def _made(watch: Watch, label: str, n_jobs: int, jobs: Jobs) -> Iterator[Any]:
    """Yield what jobs return, in their order."""
    with (
        watch(label, len(jobs)) as progress,
        mapped(lambda number: jobs[number](), len(jobs), n_jobs) as made,
    ):
        for result in made:
            progress.advance()
            yield result


def _table(cells: Iterable[CellTests]) -> "pd.DataFrame":
    """Return the table of the tests of some cells."""
    tests = chain.from_iterable(cell.tests for cell in cells)
    return table_of_tests([one.test for one in tests])


def _joined(tables: Sequence["pd.DataFrame"]) -> "pd.DataFrame":
    """Return some tables of tests, one below the other."""
    import pandas as pd

    return pd.concat([table for table in tables if len(table)], ignore_index=True)


def _on_chosen_stores(
    tests: "pd.DataFrame", fits: Sequence[Mapping[str, Any]], joined: set[str]
) -> tuple["pd.DataFrame", list[dict[str, Any]]]:
    """Return the tests on the stores that training films choose, and what run.json says of them.

    Args:
        tests: The tests of all models.
        fits: What run.json says of their fits.
        joined: The stores of joined features, which are not chosen.
    """
    single = tests[~tests["store"].isin(joined)]
    best = chosen_stores(single)
    of_cell: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for cell in fits:
        if cell["store"] not in joined:
            name = (cell["train"], cell["test"], cell["model"])
            of_cell.setdefault(name, []).append(cell)
    found = []
    for (train, test, model), cells in of_cell.items():
        fold_of: dict[tuple[str, int], dict[str, Mapping[str, Any]]] = {}
        for cell in cells:
            for fold in cell["folds"]:
                key = (fold["fold"], fold["seed"])
                fold_of.setdefault(key, {})[cell["store"]] = fold
        # A fold that only some stores lack is tested on the others.
        tested = {name for name, _ in fold_of}
        skipped = {
            fold: reason
            for fold, reason in cells[0]["skipped"].items()
            if fold not in tested
        }
        folds = []
        for (fold, seed), on_stores in fold_of.items():
            stores = best.get((train, test, model, fold, seed))
            if stores is None:
                skipped[fold] = NOT_CHOSEN
                continue
            store, inner_ap = stores
            facts = on_stores[store]
            of_choice = {**facts["chosen"], "store": store, "inner_ap": inner_ap}
            folds.append({**facts, "chosen": of_choice})
        if not folds:
            raise FixInput(
                f"training films cannot choose a store for {model} in any fold: {NOT_CHOSEN}",
                hint="splits with validation clips, grid.models without"
                f" {model}, or --set fit.choose_store=false",
            )
        of_all = {"train": train, "test": test, "store": CHOSEN, "model": model}
        films = cells[0]["skipped_films"]
        found.append(
            {**of_all, "skipped": skipped, "skipped_films": films, "folds": folds}
        )
    return chosen(single, best, CHOSEN), found


def _baselines(stores: Sequence[StoreRun]) -> list[CellTests]:
    """Return the tests of the baselines: they read no features, only which clips have some."""
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


def _success(cells: Sequence[Cell], table: ClipTable) -> Iterator[RunRow]:
    """Yield the rows of success.csv: decisions regressed on levels and concepts of the clips."""
    from obygaze_models.evaluation.error_analysis import (
        LEVEL_FACTORS,
        analyse_success,
        level_contrasts,
        paper_factors,
    )

    # Clips whose annotators differ on a factor are neither with it nor without it.
    names = ("level", *table.concept_names)
    is_decided = np.array([disputed(clip).isdisjoint(names) for clip in table.clips])
    has_groups = number_of_groups(table.groups) > 0
    row_of = {clip_id: row for row, clip_id in enumerate(table.ids)}
    for cell in cells:
        rows = np.array([row_of[clip_id] for clip_id in cell.clip_ids.tolist()])
        decided = is_decided[rows]
        if not decided.any():
            continue
        clips = rows[decided]
        is_correct = ((cell.mean_scores > cell.threshold) == cell.y)[decided]
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
        if is_levelled and results[0].factors:
            contrasts = level_contrasts(is_correct, factors, table.groups[clips])
            of_all_films = (*results[0].factors, *contrasts)
            results[0] = replace(results[0], factors=of_all_films)
        for result in results:
            if not result.film:
                continue
            row: RunRow = {
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
                of_factor: RunRow = {**row, "factor": item.name, "clips": item.n}
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
    """A fit, or several with the same training rows, which are made together.

    Attributes:
        model: The name of the model.
        task: The training task.
        seed: The seed of the fit.
        folds: The tasks and the number of a fold for each of the fits, by the key of its validation
            rows.
        tests: Each test, with the key of the validation rows of its fit.
    """

    model: str
    task: str
    seed: int
    folds: dict[RowsKey, tuple[Pair, int]] = field(default_factory=dict)
    tests: list[tuple[TestKey, RowsKey]] = field(default_factory=list)


def tests_of_models(run: StoreRun, n_jobs: int, progress: Progress) -> list[CellTests]:
    """Return the tests of all models on one store.

    Fits of one fold are made in one process, because they share concept vectors.

    Args:
        run: The store.
        n_jobs: Processes that fit; 0 for one a core.
        progress: What is told of each test.
    """
    parts = list(_fits_by_fold(run).values())
    if parts:
        prepare(run)

    def tests_of_fold(number: int) -> Outcomes:
        outcomes: Outcomes = {}
        for plan in parts[number]:
            outcomes |= _outcomes_of(run, plan)
        return outcomes

    outcomes: Outcomes = {}
    with mapped(tests_of_fold, len(parts), n_jobs) as made:
        for of_fold in made:
            outcomes |= of_fold
            progress.advance(len(of_fold))
    cells = _cells(run, run.protocol.model_names, outcomes)
    # The clips of concept vectors are known only now.
    tests_of_cells = chain.from_iterable(cell.tests for cell in cells)
    run.check_leaks([one.leak for one in tests_of_cells])
    return cells


def try_own_models(run: StoreRun) -> None:
    """Fit each model of own code or of scikit-learn once, and raise its error.

    It gets a handful of rows. Where it cannot work with so few, it gets all rows of the fold.
    """
    pair = run.protocol.pairs[0]
    for model in run.models.values():
        if not find_kind(model.kind).class_name:
            continue
        held = run.for_model(model, run.folds[pair][0])
        labels = run.labels[pair[0]][held.train]
        of_both = [held.train[labels == number][:HANDFUL] for number in (0, 1)]
        few = replace(held, train=np.sort(np.concatenate(of_both)))
        try:
            _try_model(run, model, pair[0], few)
        except FixInput:
            _try_model(run, model, pair[0], held)


def _try_model(run: StoreRun, model: Model, task: str, held: HeldOut) -> None:
    try:
        (fitted,) = fit_model(run, model, task, [held], run.protocol.fit.seed)
    except FixTraining:  # the fold is left out, with this reason
        return
    fitted.scores(run.of_store.row_of[held.train])


def _outcomes_of(run: StoreRun, plan: PlannedFit) -> Outcomes:
    """Make the fits of a plan, and return the tests that need them."""
    outcomes: Outcomes = {}
    tests = []
    for key, validation in plan.tests:
        _, pair, number, _ = key
        held = run.folds[pair][number]
        if len(held.test):
            tests.append((key, validation))
        else:
            outcomes[key] = _why_not_tested(run, pair, held)
    if not tests:
        return outcomes
    model = run.models[plan.model]
    folds = [
        run.for_model(model, run.folds[pair][number])
        for pair, number in plan.folds.values()
    ]
    try:
        fits = fit_model(run, model, plan.task, folds, plan.seed)
    except FixTraining as error:
        return {**outcomes, **{key: error.reason for key, _ in tests}}
    fit_of = dict(zip(plan.folds, fits, strict=True))
    for key, validation in tests:
        outcomes[key] = _test(run, key, fit_of[validation])
    return outcomes


def prepare(run: StoreRun) -> None:
    """Compute the products of rows that fits share, before processes are forked."""
    task = run.protocol.train_tasks[0]
    for model in run.models.values():
        estimator = estimators_of(run, model, task, run.protocol.fit.seed)[0]
        if estimator.needs_products:
            run.rows.machines.prepare()


def n_tests(run: StoreRun) -> int:
    """Return the number of tests of all models on a store."""
    n_folds = sum(map(len, run.folds.values()))
    n = 0
    for model in run.models.values():
        n += n_folds * (run.protocol.fit.seeds if has_epochs(model.kind) else 1)
    return n


def _fits_by_fold(run: StoreRun) -> dict[str, list[PlannedFit]]:
    """Return every distinct fit, under the name of the first fold that needs it."""
    fits: dict[Any, PlannedFit] = {}
    by_fold: dict[str, list[PlannedFit]] = {}
    # Each training set of a cell starts from weights of its own: with one start for all,
    # the luck of that start would look like a property of the features.
    starts: dict[tuple[str, Pair], dict[RowsKey, int]] = {}
    for pair, number, held in run.every_fold:
        for name, model in run.models.items():
            own = run.for_model(model, held)
            rows_of_fit = _rows_of(model, own)
            validation = own.key_of("validation")
            start = 0
            n_repeats = 1
            has_classes = len(np.unique(run.labels[pair[0]][own.train])) > 1
            if has_epochs(model.kind) and has_classes:
                numbers = starts.setdefault((name, pair), {})
                start = numbers.setdefault(own.key_of("train"), len(numbers))
                n_repeats = run.protocol.fit.seeds
            for repeat in range(n_repeats):
                seed = seed_of(model.kind, run.protocol.fit.seed + repeat, start)
                key = (name, pair[0], seed, rows_of_fit)
                if key not in fits:
                    fits[key] = PlannedFit(name, pair[0], seed)
                    by_fold.setdefault(held.name, []).append(fits[key])
                fits[key].folds.setdefault(validation, (pair, number))
                test = (name, pair, number, repeat)
                fits[key].tests.append((test, validation))
    return by_fold


def _rows_of(model: Model, held: HeldOut) -> RowsKey:
    """Return all rows that a fit depends on: two with the same rows are one fit."""
    if finds_concepts(model.kind, model.settings):
        return held.key_of("train", "validation", "hidden", "excluded")
    if has_epochs(model.kind):  # with other validation rows it stops at another epoch
        return held.key_of("train")
    return held.key_of("train", "validation")


def _test(run: StoreRun, key: TestKey, fitted: Fitted) -> OneTest:
    """Return the test of a fit."""
    name, pair, number, repeat = key
    held = run.folds[pair][number]
    kind = find_kind(run.models[name].kind)
    scores = fitted.scores(run.of_store.row_of[held.test])
    learned_from = held if kind.is_trained else held.untrained()
    starts_at_random = has_epochs(run.models[name].kind)
    facts: RunRow = {
        "seed": run.protocol.fit.seed + repeat if starts_at_random else 0,
        "is_model": True,
        "is_trained": kind.is_trained,
        "is_probability": fitted.gives_probabilities,
    }
    # Only a choice of a store asks for it, and of thousands of films it takes long.
    if run.protocol.fit.choose_store and fitted.inner.precision is not None:
        facts["inner_ap"] = fitted.inner.precision
    return tested(
        run,
        (name, pair, number),
        facts,
        scores,
        scores > fitted.threshold,
        run.leak(pair, learned_from, fitted.found_on),
        chosen=fitted.chosen,
    )


def tested(
    run: StoreRun,
    place: tuple[str, Pair, int],
    facts: RunRow,
    scores: FloatArray,
    decision: BoolArray | FloatArray,
    leak: Leak,
    chosen: Mapping[str, Any],
) -> OneTest:
    """Return the rows of the clips that a fold tests.

    Args:
        run: The store.
        place: The name of the model, its tasks and the number of the fold.
        facts: Columns that are the same for all clips.
        scores: The score of each clip.
        decision: Its decision.
        leak: What the fit had seen.
        chosen: What run.json says of the fit: settings that were chosen, and facts.
    """
    name, pair, number = place
    held = run.folds[pair][number]
    table = run.table
    of_all = {
        "task": pair[1],
        "train": pair[0],
        "test": pair[1],
        "store": run.name,
        "model": name,
        "fold": held.name,
        "n_seen": len(held.train) + len(held.validation),
        **facts,
    }
    test = Test(
        of_all,
        clip_id=table.id_array[held.test],
        movie_id=table.films[held.test],
        group=table.groups[held.test],
        y=run.labels[pair[1]][held.test] == 1,
        score=as_scores(scores, len(held.test)),
        decision=decision,
        seen=leak.seen,
        leaked=leak.is_leaked,
    )
    of_fit = {
        "fold": held.name,
        "seed": of_all["seed"],
        "n_train": of_all["n_seen"] - len(held.validation),
        "n_validation": len(held.validation),
        "chosen": dict(chosen),
    }
    return OneTest(test, of_fit, leak)


def _why_not_tested(run: StoreRun, pair: Pair, held: HeldOut) -> str:
    """Return why a fold tests no clip: its films have labels, but no features, or neither."""
    if run.features is None:
        return NOT_TESTED
    is_labelled = run.labels[pair[1]] >= 0
    of_fold = np.isin(held.units, held.hidden)
    lacks_features = of_fold & is_labelled & ~run.features.present
    return WITHOUT_FEATURES if lacks_features.any() else NOT_TESTED


def tests_of_baselines(run: StoreRun) -> list[CellTests]:
    """Return the tests of all baselines, on the clips of the folds; they read no features."""
    protocol = run.protocol
    table = run.table
    is_possible = {
        "": True,
        "concepts": table.has_concept.any(),
        "scenes": table.scenes is not None,
        "films": table.has_films,
    }
    needs = {name: BASELINES[name].needs for name in protocol.grid.baselines}
    names = [name for name, needed in needs.items() if is_possible[needed]]
    if not names and not run.models:
        lacking = [f"{name} needs {NEEDS[needed]}" for name, needed in needs.items()]
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
    return _cells(run, names, outcomes)


def _test_baseline(
    run: StoreRun, pair: Pair, number: int, held: HeldOut, name: str
) -> OneTest | str:
    if not len(held.test):
        return _why_not_tested(run, pair, held)
    labels = run.labels[pair[0]]
    try:
        score = fit_baseline(name, held.joined(), labels, run.table)
    except FixTraining as error:
        return error.reason
    scores = score(held.test)
    decision = (scores > 0.5).astype(np.float64)
    kind = BASELINES[name]
    if kind.is_drawn:
        # Half of each clip is called positive.
        decision = np.full(len(held.test), 0.5)
    facts = {
        "seed": 0,
        "is_model": False,
        "is_trained": kind.is_trained,
        "is_probability": not kind.is_drawn,
    }
    learned_from = held if kind.is_trained else held.untrained()
    leak = run.leak(pair, learned_from, NO_ROWS, with_copies=False)
    place = (name, pair, number)
    return tested(run, place, facts, scores, decision, leak, chosen={})


def _cells(run: StoreRun, names: Sequence[str], outcomes: Outcomes) -> list[CellTests]:
    """Return the tests of each cell; an error for a model without any."""
    cells = []
    for pair, name in product(run.protocol.pairs, names):
        tested: list[OneTest] = []
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
            raise _without_fit(run, pair, name, list(skipped.values()))
        of_cell = {"train": pair[0], "test": pair[1], "store": run.name, "model": name}
        cells.append(CellTests(of_cell, tested, skipped, skipped_films))
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
    others = [model for model in run.models if model != name]
    if others:
        hint += f", or --set {shell_word(f'grid.models={json.dumps(others)}')}"
    return FixInput(
        f"no fold of {pair[0]} -> {pair[1]} could be trained and tested: "
        f"{'; '.join(dict.fromkeys(reasons)) or 'there is none'}",
        where=where,
        hint=hint,
    )
