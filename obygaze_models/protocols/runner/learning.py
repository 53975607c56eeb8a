"""Learning curves: the primary metric of each cell by the number of training films."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from obygaze_features.core.console import Quiet, count
from obygaze_features.core.errors import FixUsage
from obygaze_models.models.registry import find_kind
from obygaze_models.protocols.results.whole_run import LearningCurve, LearningPoint
from obygaze_models.protocols.runner.execute import FitContext, run_models
from obygaze_models.protocols.schedule import fewer_films


def check_learning_films(contexts: Sequence[FitContext]) -> None:
    """Raise an error for a number of training films that no fold of some store has."""
    for context in contexts:
        wanted = max(context.protocol.report.learning_films, default=0)
        most = 0
        for splits in context.schedule.pairs.values():
            for split in splits:
                groups = context.schedule.groups[split.train]
                most = max(most, len(np.unique(groups)))
        if wanted > most:
            raise FixUsage(
                f"report.learning_films has {wanted}, but no fold trains on more than "
                f"{count(most, 'film')}",
                where=context.feature or None,
                hint=f"numbers of training films up to {most}",
            )


def learning_records(context: FitContext) -> list[LearningCurve]:
    """Return the learning curve of each cell of a store: the primary metric by training films.

    Bottlenecks have no curve, because their concept vectors are found on further films. Models that
    start at random are trained with the seeds of the cells, without those of a contrast. Where so
    few films train no model in any fold, the value is missing.
    """
    protocol = context.protocol
    metric = protocol.report.primary
    models = tuple(
        name for name, model in context.models.items() if not find_kind(model.kind).head
    )
    if not models:
        return []
    grid = replace(protocol.grid, models=models)
    report = replace(protocol.report, contrast=())
    without_heads = replace(protocol, grid=grid, report=report)
    curves: dict[tuple[str, str, str], list[LearningPoint]] = {}
    for n_films in report.learning_films:
        plan = fewer_films(context.schedule, n_films, protocol.splits.seed)
        fewer = replace(
            context, protocol=without_heads, schedule=plan, allows_no_fit=True
        )
        cells = run_models(fewer, Quiet())
        values = {(c.model, c.train, c.test): c.value.get(metric) for c in cells}
        for (train, test), model in product(protocol.pairs, models):
            key = (model, train, test)
            point = LearningPoint(n_films=n_films, value=values.get(key))
            curves.setdefault(key, []).append(point)
    return [
        LearningCurve(
            model=model,
            feature=context.feature,
            train=train,
            test=test,
            metric=metric,
            points=points,
        )
        for (model, train, test), points in curves.items()
    ]
