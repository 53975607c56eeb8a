"""The store of each fold, chosen on training films.

To name the best of several stores after the test is to choose it on test films. So the choice is
made in each fold, as that of any setting: every store has scored training clips by fits without
their film, and the one with the highest average precision there is taken. The tests are those of
the single stores; nothing is fitted again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.results.cells import CHOSEN
from obygaze_models.protocols.runner.cells import Cell, TestedFold
from obygaze_models.protocols.runner.features import Features


def with_common_clips(features: Sequence[Features], table: ClipTable) -> list[Features]:
    """Return the features of all stores, of the clips that all of them have."""
    names = [store.name for store in features]
    if len(names) < 2:
        raise FixUsage(
            f"fit.choose_store needs two stores or more, got {len(names)}",
            hint="--store NAME=STORE for each",
        )
    if CHOSEN in names:
        raise FixUsage(
            f"with fit.choose_store, no store can be called {CHOSEN!r}",
            hint="another NAME in --store NAME=STORE",
        )
    is_common = np.all([store.present for store in features], axis=0)
    if not is_common.any():
        raise FixInput(
            f"no clip has features in all stores ({', '.join(names)})",
            where=table.name,
            hint="obygaze store info lists the clips of a store; or fit.choose_store=false",
        )
    return [store.only(is_common, table.ids) for store in features]


def chosen_cells(cells: Sequence[Cell]) -> list[Cell]:
    """Return a cell for each model and pair of tasks, from its cells on all stores."""
    same_model: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        key = (cell.train, cell.test, cell.model)
        same_model.setdefault(key, []).append(cell)
    return [_chosen_cell(on_stores) for on_stores in same_model.values()]


def _chosen_cell(on_stores: Sequence[Cell]) -> Cell:
    """Return a cell with the test of the chosen store in each fold, for each seed alone."""
    tests_of_folds: dict[tuple[str, int], dict[str, TestedFold]] = {}
    for cell in on_stores:
        for test in cell.tested:
            tests = tests_of_folds.setdefault((test.fold, test.seed), {})
            tests[cell.feature] = test
    tested = [_chosen_test(tests) for tests in tests_of_folds.values()]
    tested_folds = {test.fold for test in tested}
    first = on_stores[0]
    skipped = [item for item in first.skipped if item.fold not in tested_folds]
    return replace(first, feature=CHOSEN, tested=tested, skipped=skipped)


def _chosen_test(tests: Mapping[str, TestedFold]) -> TestedFold:
    """Return the test of the store with the best inner score; of equal ones, the first."""
    inner_ap = {store: test.inner_ap for store, test in tests.items()}
    known = {store: ap for store, ap in inner_ap.items() if ap is not None}
    best = next(iter(tests))
    if known:
        best = max(known, key=known.__getitem__)
    chosen = {**tests[best].chosen, "store": best, "inner_ap": inner_ap}
    return replace(tests[best], chosen=chosen)
