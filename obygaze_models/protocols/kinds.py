"""The model kinds that a protocol may name, their default settings, and their candidates.

The kinds with their settings, rules and defaults are those of `models.registry`.

`C = { grid = [0.1, 1.0] }` is a choice: the value is picked on validation rows, never on test rows.
`C = { by_task = { EN_S = 0.1, other = 1.0 } }` has a value for each training task.
A list alone is a choice where the setting of a kind of obygaze has one value. Whether a setting of
an own class may be a list is not known: there, a list is a value where the default is one, and else
an error that asks for a grid.

With `draws = 20` in the table of a model, 20 combinations are drawn, and not all of them are tried.
Then `C = { log = [1e-4, 1e2] }` and `{ uniform = [0.0, 0.5] }` are ranges to draw from.
"""

import math
import random
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from obygaze_features.core.files import canonical_json
from obygaze_features.core.schema_rules import Rule, list_of
from obygaze_models.models import registry
from obygaze_models.models.registry import PUBLISHED, Settings
from obygaze_models.protocols.schema import Model

# Names for `obygaze train`, beside the kinds themselves; concept vectors alone are not a model.
ALIASES = {"linear": "logistic"}
CAV = "cav"
DEFAULT_TASK = "EN_S"  # of the protocol `honest`, where no task is named
AGAINST_EN = " against EN"
KINDS = registry.KINDS
LISTS = ("hidden",)  # settings whose value is a list, so that a list is not a choice
GRID = "grid"
LOG = "log"
UNIFORM = "uniform"
CHOICES = (GRID, LOG, UNIFORM)
# Of a drawn number: it is read by people, and is the same on every machine.
DRAWN_DIGITS = 4
BY_TASK = "by_task"
OTHER_TASKS = "other"


def trainable() -> list[str]:
    """Return the names that `obygaze train` takes."""
    frames = {name for name, kind in KINDS.items() if kind.reads != "clip"}
    clips = [name for name in KINDS if name not in frames]
    return [*clips, *ALIASES, CAV]


def setting_rules(kind: str) -> dict[str, Rule]:
    """Return the rule of each setting of a kind: one value, or a grid or range to choose from.

    An unknown kind has no settings.
    """
    if not registry.is_kind(kind):
        return {}
    settings = registry.find_kind(kind).settings
    return {name: _or_choice(kind, name, setting) for name, setting in settings.items()}


def _or_choice(kind: str, name: str, setting: registry.Setting) -> Rule:
    rule = _or_by_task(setting.rule)
    a_grid = list_of(rule, least=1)
    takes_lists = isinstance(setting.default, list | tuple)

    def check(value: Any) -> str | None:
        values = grid_of(kind, name, value)
        if values is not None:
            reason = a_grid(values)
            return f"as a grid {reason}" if reason else None
        if is_range(value):
            return _range_problem(setting, value)
        if isinstance(value, list | tuple) and kind not in KINDS and not takes_lists:
            return (
                "must be one value, or for a choice { grid = [...] } "
                "(a list that is the value itself: { grid = [[...]] })"
            )
        return rule(value)

    return check


def is_range(value: Any) -> bool:
    """Return whether a setting is a range, from which values are drawn."""
    return isinstance(value, Mapping) and value.keys() in ({LOG}, {UNIFORM})


def _range_problem(setting: registry.Setting, value: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a range of a setting; None if nothing is."""
    ((scale, ends),) = value.items()
    is_pair = isinstance(ends, list | tuple) and len(ends) == 2
    if not is_pair or not all(_is_number(end) for end in ends) or ends[0] >= ends[1]:
        return "as a range must be two numbers, the smaller one first"
    if scale == LOG and ends[0] <= 0:
        return f"as a range must be above 0 for {LOG}"
    if _is_whole(setting.default) and not all(_is_whole(end) for end in ends):
        return "as a range must be two whole numbers"
    for end in ends:
        reason = setting.rule(end)
        if reason is not None:
            return f"as a range: {end} {reason}"
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _or_by_task(rule: Rule) -> Rule:
    """Allow what a rule allows, or a table of such values by training task."""

    def check(value: Any) -> str | None:
        if not _is_by_task(value):
            return rule(value)
        by_task = value[BY_TASK]
        if not isinstance(by_task, Mapping) or OTHER_TASKS not in by_task:
            return f"by_task must be a table of values, with one for {OTHER_TASKS!r}"
        for task, of_task in by_task.items():
            reason = rule(of_task)
            if reason is not None:
                return f"for the task {task!r} {reason}"
        return None

    return check


def _is_by_task(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() == {BY_TASK}


def grid_of(kind: str, name: str, value: Any) -> Sequence[Any] | None:
    """Return the values to choose from, or None where the setting has one value."""
    if isinstance(value, Mapping) and value.keys() == {GRID}:
        values = value[GRID]
        return values if isinstance(values, list | tuple) else [values]
    has_one_value = kind in KINDS and name not in LISTS
    if has_one_value and isinstance(value, list | tuple):
        return value
    return None


def candidates(model: Model) -> list[Settings]:
    """Return the combinations of settings to choose from, one if there is no choice.

    They are those that were drawn, else all combinations of the values that the settings offer.
    """
    if model.drawn:
        return [dict(settings) for settings in model.drawn]
    combinations: list[Settings] = [{}]
    for name, value in model.settings.items():
        values = grid_of(model.kind, name, value)
        if values is None:
            values = [value]
        combinations = [
            {**chosen, name: item} for chosen, item in product(combinations, values)
        ]
    return combinations


def draw_candidates(model: Model, seed: int) -> list[Settings]:
    """Return `model.draws` combinations, drawn from the grids and ranges; equal ones count once.

    The values of a setting depend on its name and the seed, not on the other settings.
    """
    defaults_of_kind = registry.find_kind(model.kind).settings
    distinct: dict[bytes, Settings] = {}
    generators = {name: random.Random(f"{seed} {name}") for name in model.settings}
    for _ in range(model.draws):
        drawn: Settings = {}
        for name, value in model.settings.items():
            share = generators[name].random()
            values = grid_of(model.kind, name, value)
            if values is not None:
                drawn[name] = values[int(share * len(values))]
            elif is_range(value):
                default = defaults_of_kind[name].default
                drawn[name] = _in_range(value, share, default)
            else:
                drawn[name] = value
        distinct.setdefault(canonical_json(drawn), drawn)
    return list(distinct.values())


def _in_range(value: Mapping[str, Any], share: float, default: Any) -> float | int:
    """Return the number at a share of a range, from 0 to 1.

    It is a whole number if both ends are whole and the default is not a decimal number.
    """
    ((scale, (low, high)),) = value.items()
    draws_whole = _is_whole(low) and _is_whole(high) and not isinstance(default, float)
    # Each whole number has a part of the same length, the last one too.
    end = high + 1 if draws_whole else high
    number = low + (end - low) * share
    if scale == LOG:
        number = math.exp(math.log(low) + (math.log(end) - math.log(low)) * share)
    if draws_whole:
        return int(min(max(number, low), high))
    rounded = float(f"{number:.{DRAWN_DIGITS}g}")
    return float(min(max(rounded, low), high))


def for_task(kind: str, settings: Mapping[str, Any], task: str) -> Settings:
    """Return settings with one value each, where they have one for each task or concept."""
    settled: Settings = {}
    for name, value in settings.items():
        if _is_by_task(value):
            by_task = value[BY_TASK]
            value = by_task.get(task, by_task[OTHER_TASKS])
        elif kind == "svm" and name == "C" and value == PUBLISHED:
            value = _published_tolerance(task)
        settled[name] = value
    return settled


def _published_tolerance(task: str) -> float:
    """Return the tolerance of the concept that a task is named after."""
    from obygaze_models.models.concepts import published_tolerance  # late: scikit-learn

    return published_tolerance(task.removesuffix(AGAINST_EN))
