"""Records of learning curves: the same cells, trained on a few of their training films."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from obygaze_features.core.console import Quiet
from obygaze_models.models.registry import find_kind
from obygaze_models.protocols.runner.execute import FitContext, run_models
from obygaze_models.protocols.runner.records import Record
from obygaze_models.protocols.schedule import Schedule
from obygaze_models.protocols.schema import Protocol


def learning_records(context: FitContext) -> list[Record]:
    """Return the learning curve of each cell of a store: the primary metric by training films."""
    own, metric = _of_each_point(context.protocol), context.protocol.report.primary
    curves: dict[tuple[str, str, str], list[Record]] = {}
    for n_films in own.report.learning_films if own.grid.models else ():
        plan = fewer_films(context.schedule, n_films, own.splits.seed)
        for cell in run_models(replace(context, protocol=own, schedule=plan), Quiet()):
            point = {"n_films": n_films, "value": cell.value.get(metric)}
            curves.setdefault((cell.model, cell.train, cell.test), []).append(point)
    return [
        {
            "kind": "learning",
            **{"model": model, "feature": context.feature, "train": train, "test": test},
            **{"metric": metric, "points": points},
        }
        for (model, train, test), points in curves.items()
    ]


def _of_each_point(protocol: Protocol) -> Protocol:
    """Return the protocol of each point of the curves.

    Bottlenecks have no curve, because their concept vectors are found on further films. Models that
    start at random are trained with the seeds of the cells, without those of a contrast.
    """
    kinds = {name: find_kind(protocol.models[name].kind) for name in protocol.model_names}
    models = tuple(name for name, kind in kinds.items() if not kind.head)
    grid, report = replace(protocol.grid, models=models), replace(protocol.report, contrast=())
    return replace(protocol, grid=grid, report=report)


def fewer_films(schedule: Schedule, n_films: int, seed: int) -> Schedule:
    """Return splits that train on at most `n_films` of their training films, drawn by seed.

    The films of a smaller number are among those of a larger one. Validation and test clips are
    those of the whole split.
    """
    pairs = {}
    for pair, splits in schedule.pairs.items():
        thinned = []
        for number, split in enumerate(splits):
            films = schedule.groups[split.train]
            drawn = np.random.default_rng([seed, number]).permutation(np.unique(films))[:n_films]
            thinned.append(replace(split, train=split.train[np.isin(films, drawn)]))
        pairs[pair] = thinned
    return replace(schedule, pairs=pairs)
