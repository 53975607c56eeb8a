"""One-against-rest tasks as one question with several classes."""

from collections.abc import Iterator, Sequence

import numpy as np

from obygaze_models.protocols.results.whole_run import Argmax
from obygaze_models.protocols.runner.cells import Cell
from obygaze_models.protocols.schema import Protocol


def argmax_records(protocol: Protocol, cells: Sequence[Cell]) -> Iterator[Argmax]:
    """Yield records of one-against-rest tasks as one: the class with the highest score.

    The score of a class is that of the model that was trained on its task.
    """
    tasks = protocol.report.argmax
    trained = [cell for cell in cells if cell.train == cell.test]
    for model, feature in dict.fromkeys((cell.model, cell.feature) for cell in trained):
        by_task = {
            c.test: c for c in trained if (c.model, c.feature) == (model, feature)
        }
        if len(tasks) < 2 or not set(tasks) <= by_task.keys():
            continue
        of_tasks = [by_task[task] for task in tasks]
        universe = of_tasks[0].universe
        for cell in of_tasks[1:]:
            universe = np.intersect1d(universe, cell.universe)
        truth = np.stack(
            [c.y[np.searchsorted(c.universe, universe)] for c in of_tasks], axis=1
        )
        has_one_class = truth.sum(axis=1) == 1
        universe = universe[has_one_class]
        truth = truth[has_one_class]
        if not len(universe):
            continue  # no clip was tested for all tasks
        scores = np.stack(
            [c.mean_scores[np.searchsorted(c.universe, universe)] for c in of_tasks], 1
        )
        true = truth.argmax(axis=1)
        called = scores.argmax(axis=1)
        table = np.zeros((len(tasks), len(tasks)), dtype=int)
        np.add.at(table, (true, called), 1)
        hits = np.diag(table)
        sizes = table.sum(axis=1)
        calls = table.sum(axis=0)
        yield Argmax(
            model=model,
            feature=feature,
            tasks=tasks,
            n_test=len(universe),
            accuracy=float((true == called).mean()),
            f1_macro=float(np.mean(2 * hits / np.maximum(sizes + calls, 1))),
            majority=float(sizes.max() / max(sizes.sum(), 1)),
            confusion=table.tolist(),
        )
