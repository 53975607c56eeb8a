"""Learning curves: the primary metric of each cell by the number of training films."""

from dataclasses import replace
from itertools import product

from obygaze_features.core.console import Quiet
from obygaze_models.models.registry import find_kind
from obygaze_models.protocols.results.whole_run import LearningCurve, LearningPoint
from obygaze_models.protocols.runner.execute import FitContext, run_models
from obygaze_models.protocols.schedule import fewer_films


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
