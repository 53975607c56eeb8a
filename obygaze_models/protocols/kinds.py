"""The model kinds that a protocol may name, what a quirk changes in them, and their candidates.

The kinds with their settings, rules and defaults are those of `models.registry`. A setting that a
protocol leaves out has the value of the quirk, else the default of the registry.

`C = { grid = [0.1, 1.0] }` is a choice: the value is picked on validation rows, never on test rows.
A list alone is a choice where the setting of a kind of obygaze has one value, as in older
protocols. Whether a plugin's setting may be a list is not known: there, a list is a value where the
default is one, and else an error that asks for a grid.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from obygaze_features.core.schema_rules import Rule, list_of
from obygaze_models.models import registry
from obygaze_models.models.registry import PAPER_LOGISTIC, PAPER_TREE, Settings

# Names for `obygaze train`, beside the kinds themselves; concept vectors alone are not a model.
ALIASES = {"linear": "logistic"}
CAV = "cav"
AGAINST_EN = " against EN"
QUIRKS = ("authors", "text", "none")
KINDS = registry.KINDS
LISTS = ("hidden",)  # settings whose value is a list, so that a list is not a choice
GRID = "grid"

# Concept vectors as published; heads then take margins as they are.
_PUBLISHED = {"tolerance": "paper", "cross_fit": 0, "scaled": False, "random_state": 42}
_BANKS: dict[str, Settings] = {
    "authors": {
        **_PUBLISHED,
        **{"balance": "weights", "unit_norm": False, "elect": True},
    },
    "text": {
        **{**_PUBLISHED, "tolerance": "folds"},
        **{"balance": "subsample", "unit_norm": True, "against": "EN"},
    },
    "none": {},
}
_PERCEPTRONS: dict[str, Settings] = {
    "authors": {"keep": "last", "double_softmax": True}
}


def trainable() -> list[str]:
    """Return the names that `obygaze train` takes."""
    frames = {name for name, kind in KINDS.items() if kind.level != "clip"}
    clips = [name for name in registry.kind_names() if name not in frames]
    return [*clips, *ALIASES, CAV]


def defaults(kind: str, quirk: str) -> Settings:
    """Return the settings of a kind under a quirk, for those that a protocol leaves out."""
    settings = dict(registry.default_settings(kind))
    changed: Settings = {}
    if kind == "mlp":
        changed = _PERCEPTRONS.get(quirk, {})
    if registry.find_kind(kind).head:
        changed = _BANKS[quirk]
    for name, value in changed.items():
        if name in settings:
            settings[name] = value
    return settings


def setting_rules(kind: str) -> dict[str, Rule]:
    """Return the rule of each setting of a kind: one value, or a grid of values to choose from.

    An unknown kind has no settings.
    """
    if kind not in registry.kind_names():
        return {}
    settings = registry.find_kind(kind).settings
    return {name: _or_grid(kind, name, setting) for name, setting in settings.items()}


def _or_grid(kind: str, name: str, setting: registry.Setting) -> Rule:
    a_grid = list_of(setting.rule, least=1)
    takes_lists = isinstance(setting.default, list | tuple)

    def check(value: Any) -> str | None:
        values = grid_of(kind, name, value)
        if values is not None:
            reason = a_grid(values)
            return f"as a grid {reason}" if reason else None
        if isinstance(value, list | tuple) and kind not in KINDS and not takes_lists:
            return (
                "must be one value, or for a choice { grid = [...] } "
                "(a list that is the value itself: { grid = [[...]] })"
            )
        return setting.rule(value)

    return check


def grid_of(kind: str, name: str, value: Any) -> Sequence[Any] | None:
    """Return the values to choose from, or None where the setting has one value."""
    if isinstance(value, Mapping) and value.keys() == {GRID}:
        values = value[GRID]
        return values if isinstance(values, list | tuple) else [values]
    has_one_value = kind in KINDS and name not in LISTS
    if has_one_value and isinstance(value, list | tuple):
        return value
    return None


def candidates(kind: str, settings: Mapping[str, Any]) -> list[Settings]:
    """Return every combination of the values that the settings offer, one if there is no choice."""
    combinations: list[Settings] = [{}]
    for name, value in settings.items():
        values = grid_of(kind, name, value)
        if values is None:
            values = [value]
        combinations = [
            {**chosen, name: item} for chosen, item in product(combinations, values)
        ]
    return combinations


def for_task(kind: str, settings: Mapping[str, Any], task: str) -> Settings:
    """Return settings with the word "paper" replaced by the released code's value for a task."""
    own = dict(settings)
    depth, leaf = PAPER_TREE.get(task, PAPER_TREE["ENHN_S"])
    penalty, strength = PAPER_LOGISTIC.get(task, PAPER_LOGISTIC["ENHN_S"])
    own_words: Settings = {
        "max_depth": depth,
        "min_samples_leaf": leaf,
        "penalty": penalty,
    }
    if kind == "svm":
        from obygaze_models.models.concepts import (
            tolerance_of,
        )  # late: it loads scikit-learn

        # The task is then named after a concept, and perhaps after what it is distinguished from.
        own_words["C"] = tolerance_of(task.removesuffix(AGAINST_EN))
    elif kind == "pcbm-lr":
        own_words["C"] = strength
    for name, value in own_words.items():
        if own.get(name) == "paper":
            own[name] = value
    return own
