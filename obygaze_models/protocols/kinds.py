"""Settings of models in a protocol: one value, a grid, or a value by task.

Model types, their settings and defaults are in `models.registry`.

`C = { grid = [0.1, 1.0] }` is a choice: the value is chosen on validation rows, never on test rows.
`C = { by_task = { EN_S = 0.1, other = 1.0 } }` has one value per training task.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from obygaze_features.core.files import canonical_json
from obygaze_models.models.registry import (
    KINDS,
    PUBLISHED_TOLERANCE,
    TEXTS,
    Settings,
    default_settings,
    setting_problem,
)
from obygaze_models.protocols.schema import Model

AGAINST_EN = " against EN"
GRID = "grid"
BY_TASK = "by_task"
OTHER_TASKS = "other"
OF_SENTENCES = (TEXTS, "positive", "negative")  # settings that cannot be a grid


def find_problem(kind: str, name: str, value: Any) -> str | None:
    """Return what is wrong with a setting in a protocol, or None if it is valid."""
    grid = offered_values(value)
    if isinstance(value, list | tuple) and not isinstance(
        default_settings(kind).get(name), list | tuple
    ):
        return "must be one value, or { grid = [...] } with several values"
    if grid is not None and kind in KINDS and name in OF_SENTENCES:
        return "must be one value, not a grid"
    if grid is not None and len({*map(repr, grid)}) < max(len(grid), 1):
        return "must list at least one value in grid, and no value twice"
    for item in [value] if grid is None else grid:
        of_tasks = item[BY_TASK] if _is_by_task(item) else {OTHER_TASKS: item}
        if not isinstance(of_tasks, Mapping) or OTHER_TASKS not in of_tasks:
            return f"must have in by_task a table of values, with a value for {OTHER_TASKS!r}"
        for one_value in of_tasks.values():
            problem = setting_problem(kind, name, one_value)
            if problem:
                return problem
    return None


def _is_by_task(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() == {BY_TASK}


def offered_values(value: Any) -> Sequence[Any] | None:
    """Return the values of a grid, or None for a single value."""
    if not isinstance(value, Mapping) or value.keys() != {GRID}:
        return None
    values = value[GRID]
    return values if isinstance(values, list | tuple) else [values]


def _values_to_try(value: Any) -> Sequence[Any]:
    """Return the values of a grid, or a single value as a list."""
    values = offered_values(value)
    return [value] if values is None else values


def named_tasks(model: Model) -> set[str]:
    """Return the tasks for which a setting of a model has a value of its own."""
    named: set[str] = set()
    for value in model.settings.values():
        for item in _values_to_try(value):
            if _is_by_task(item):
                named.update(item[BY_TASK])
    return named - {OTHER_TASKS}


def candidates(model: Model) -> list[Settings]:
    """Return the combinations of settings to choose from; a single combination without a grid."""
    offered = [_values_to_try(value) for value in model.settings.values()]
    names = list(model.settings)
    return [dict(zip(names, items, strict=True)) for items in product(*offered)]


def most_chosen(
    model: Model, task: str, chosen: Sequence[Mapping[str, Any]]
) -> Settings:
    """Return the settings with a grid, in the combination that most folds chose.

    Args:
        model: The model.
        task: The training task.
        chosen: The choices of each fold; without folds, the first combination is returned.
    """
    names = []
    for name, value in model.settings.items():
        if offered_values(value) is not None:
            names.append(name)
    offered = []
    for settings in candidates(model):
        # Folds record the value for the task if there is one per task.
        offered.append(for_task({name: settings[name] for name in names}, task))
    votes: Counter[bytes] = Counter()
    for fold in chosen:
        of_fold = {name: fold.get(name, offered[0][name]) for name in names}
        votes[canonical_json(of_fold)] += 1
    keys = [canonical_json(settings) for settings in offered]
    winner = votes.most_common(1)[0][0] if votes else keys[0]
    return offered[keys.index(winner)]


def for_task(settings: Mapping[str, Any], task: str) -> Settings:
    """Return the settings for one task, with values by task replaced.

    A published tolerance is replaced by the tolerance of the concept in the name of the task.
    """
    settled: Settings = {}
    for name, value in settings.items():
        if _is_by_task(value):
            by_task = value[BY_TASK]
            value = by_task.get(task, by_task[OTHER_TASKS])
        if name == "C" and value == PUBLISHED_TOLERANCE:
            # Imported here, because only a published tolerance needs it.
            from obygaze_models.models.concepts import published_tolerance

            value = published_tolerance(task.removesuffix(AGAINST_EN))
        settled[name] = value
    return settled
