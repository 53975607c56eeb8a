"""Run a protocol: clips and tasks, what each fold holds out, features, fits, results."""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from obygaze_features import __version__
from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.errors import FixUsage, ObygazeWarning
from obygaze_features.core.files import sha256_bytes
from obygaze_features.core.machine import this_machine
from obygaze_features.manifest.io import manifest_sha256
from obygaze_features.manifest.own import packages_that_read
from obygaze_models.models.registry import solver_of
from obygaze_models.protocols.clips import ClipTable, labels_sha256
from obygaze_models.runner.code import used_parts
from obygaze_models.runner.concepts import concept_tables, rare_concepts
from obygaze_models.runner.heldout import with_few_films
from obygaze_models.runner.inputs import Inputs
from obygaze_models.runner.processes import fitting, map_groups
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
from obygaze_models.runner.scores import Cell
from obygaze_models.runner.summary import many_fits
from obygaze_models.runner.tables import (
    RUN_FORMAT,
    Run,
    check_free,
    prediction_rows,
    stated_place,
    write_run,
)
from obygaze_models.runner.testing import (
    StoreRun,
    baseline_cells,
    model_cells,
    n_tests,
    store_runs,
    with_chosen_stores,
)

Watch = Callable[[str, int], AbstractContextManager[Progress]]
PACKAGES = ("numpy", "scipy", "scikit-learn")


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
    check_free(folder, inputs.identity, force=force)
    watch = watch or _no_progress
    started = time.perf_counter()
    protocol = inputs.protocol
    with fitting():
        stores = store_runs(inputs, n_jobs)
        _check_learning_films(stores)
        _warn_of_many_fits(stores)
        cells: list[Cell] = []
        for store in stores:
            if store.features is not None and store.models:
                with watch(f"tests on {store.name}", n_tests(store)) as progress:
                    cells += model_cells(store, progress)
        if protocol.fit.choose_store:
            cells += with_chosen_stores(cells)
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
            learning += _learning(store, evaluation)
    differences = add_p_of_all(_joined(made["differences"]), protocol.report.questions)
    results = chain(*made["cells"], differences, *made["contrasts"], learning)
    tables: dict[str, Any] = {
        "predictions.csv": prediction_rows(every_cell, inputs.table),
        "results.csv": results,
    }
    if protocol.report.concepts:
        tables["concepts.csv"] = _joined([concepts for concepts, _ in made["concepts"]])
        tables["trees.csv"] = _joined([trees for _, trees in made["concepts"]])
    if protocol.report.error_analysis:
        tables["success.csv"] = _success(cells, inputs.table)
    seconds = round(time.perf_counter() - started, 3)
    about = _about(inputs, folder, stores, every_cell, seconds)
    return write_run(folder, about, tables, force=force)


def _joined(parts: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the items of all parts, one after the other."""
    items: list[Any] = []
    for part in parts:
        items += part
    return items


def _baselines(stores: Sequence[StoreRun]) -> list[Cell]:
    """Return the cells of the baselines: they read no features, only which clips have some."""
    by_clips: dict[bytes, list[Cell]] = {}
    for store in stores:
        key = b""
        if store.features is not None:
            key = store.features.present.tobytes()
        if key not in by_clips:
            by_clips[key] = baseline_cells(store)
    cells = _joined([*by_clips.values()])
    if len(by_clips) == 1:
        return [replace(cell, store="") for cell in cells]
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
            most = max(most, len(np.unique(films)))
        if wanted > most:
            raise FixUsage(
                f"report.learning_films has {wanted}, but no fold trains on more than {most} films",
                where=store.name or None,
                hint=f"numbers of training films up to {most}",
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


def _learning(store: StoreRun, evaluation: Evaluation) -> list[ResultRow]:
    """Return the learning curve of each model on a store: the primary metric by training films.

    Films are drawn from those that a fit sees: with validation films, where these train too.
    """
    protocol = store.protocol
    if store.features is None:
        return []
    curves: dict[tuple[str, str, str], dict[int, Cell]] = {}
    for n_films in protocol.report.learning_films:
        for name, model in store.models.items():
            as_fitted = partial(store.for_model, model)
            thinned = with_few_films(
                store.folds, n_films, protocol.splits.seed, as_fitted
            )
            grid = replace(protocol.grid, models=(name,))
            alone = replace(protocol, grid=grid)
            fewer = replace(store, protocol=alone, folds=thinned)
            for cell in model_cells(fewer, Quiet(), may_fail=True):
                curve = (cell.train, cell.test, cell.model)
                curves.setdefault(curve, {})[n_films] = cell
    return _joined([learning_rows(points, evaluation) for points in curves.values()])


def _success(cells: Sequence[Cell], table: ClipTable) -> Iterator[SuccessRow]:
    """Yield the rows of success.csv: decisions regressed on levels and concepts of the clips."""
    from obygaze_models.evaluation.error_analysis import (
        LEVEL_FACTORS,
        analyse_success,
        paper_factors,
    )

    for cell in cells:
        threshold = 0.5 if cell.tested[0].gives_probabilities else 0.0
        is_correct = (cell.mean_scores > threshold) == cell.y
        has_concept = table.has_concept[cell.clips].T
        concepts = dict(zip(table.concept_names, has_concept, strict=True))
        factors = paper_factors(concepts, table.levels[cell.clips].tolist())
        # Where each clip has one of the three levels, these are an intercept for each level.
        is_levelled = bool(np.all(sum(factors[name] for name in LEVEL_FACTORS) == 1))
        results = analyse_success(
            is_correct, factors, table.films[cell.clips], intercept=not is_levelled
        )
        for result in results:
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
                "note": result.note,
            }
            if not is_levelled or not result.factors:
                yield {**row, "factor": "intercept", "log_odds": result.intercept}
            for item in result.factors:
                yield {
                    **row,
                    "factor": item.name,
                    "log_odds": item.log_odds,
                    "se": item.se,
                    "low": item.low,
                    "high": item.high,
                    "p": item.p,
                    "clips": item.n,
                }
            for name, reason in result.left_out.items():
                yield {**row, "factor": name, "note": f"left out: {reason}"}


def _about(
    inputs: Inputs,
    folder: Path,
    stores: Sequence[StoreRun],
    cells: Sequence[Cell],
    seconds: float,
) -> dict[str, Any]:
    """Return the content of run.json."""
    protocol = inputs.protocol
    manifest = inputs.manifest
    machine = this_machine(PACKAGES)
    parts = used_parts(protocol)
    read_by = packages_that_read(manifest.header)
    if read_by:
        parts["datasets"] = {manifest.name: ", ".join(read_by)}
    manifest_path = inputs.manifest_path
    if manifest_path.endswith(".toml"):  # else the name of a manifest in memory
        manifest_path = stated_place(manifest_path, folder)
    terms = {
        "licence": manifest.header.licence,
        "citation": manifest.header.citation,
    }
    return {
        "format": RUN_FORMAT,
        "name": folder.name,
        "identity": inputs.identity,
        "protocol": protocol.to_json(),
        "protocol_sha256": protocol.sha256,
        "manifest": {
            "name": manifest.name,
            "path": manifest_path,
            "sha256": manifest_sha256(manifest),
            "view": protocol.data.view,
            "has_levels": inputs.table.has_labels,
            "labels": labels_sha256(inputs.table, inputs.labels),
            "n_clips": len(inputs.table),
            "n_films": len(set(inputs.table.films.tolist())),
            **{key: value for key, value in terms.items() if value},
        },
        "stores": {
            store.name: {
                **store.origin,
                "location": stated_place(store.origin["location"], folder),
                "n_present": int(store.present.sum()),
                "missing": dict(store.missing),
            }
            for store in inputs.stores
        },
        "remarks": dict(inputs.table.remarks),
        "rare_concepts": {
            store.name: rare_concepts(store) for store in stores if store.name
        },
        "solver": solver_of(len(inputs.table)),
        "fits": [_fit_facts(cell) for cell in cells],
        "versions": {"obygaze": __version__, **machine.packages},
        "parts": parts,
        "machine": machine.to_json(),
        "seconds": seconds,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "created_by": f"obygaze {__version__}",
    }


def _fit_facts(cell: Cell) -> Mapping[str, Any]:
    """Return what was chosen in each fold of a cell, and why folds were skipped.

    `tested` is a hash of the tested clips: cells with the same one have tested the same clips.
    `copies` are the tested clips that leaked by their features alone; `same_film` counts clips of
    films that also trained or chose.
    """
    by_name: set[str] = set()
    by_features: set[str] = set()
    of_known_films = []
    for t in cell.tested:
        by_features.update(t.leak.copies)
        by_name.update(set(t.leak.clips).difference(t.leak.copies))
        if t.seed == cell.seeds[0]:
            of_known_films.append(t.leak.same_film)
    # Runs that are averaged test the same clips.
    same_film = max(of_known_films) if cell.is_averaged else sum(of_known_films)
    return {
        "train": cell.train,
        "test": cell.test,
        "store": cell.store,
        "model": cell.model,
        "is_model": cell.is_model,
        "is_averaged": cell.is_averaged,
        "shares_films": cell.shares_films,
        "knows_films": cell.knows_films,
        "tested": sha256_bytes(cell.clips.astype(np.int64).tobytes()),
        "copies": len(by_features - by_name),
        "same_film": same_film,
        "skipped": dict(cell.skipped),
        "folds": [
            {
                "fold": t.fold,
                "seed": t.seed,
                "n_train": t.n_train,
                "n_validation": t.n_validation,
                "leaked": t.leak.leaked,
                "copies": len(t.leak.copies),
                "same_film": t.leak.same_film,
                "threshold": t.tuned,
                "chosen": dict(t.chosen),
            }
            for t in cell.tested
        ],
    }


@contextmanager
def _no_progress(label: str, total: int) -> Iterator[Progress]:
    yield Quiet()
