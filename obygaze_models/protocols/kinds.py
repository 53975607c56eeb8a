"""The model kinds that a protocol may name, what a quirk changes in them, and their candidates.

The kinds with their settings, rules and defaults are those of `models.registry`. A setting given
as a list is a choice: the value is picked on validation rows, never on test rows. A setting that a
protocol leaves out has the value of the quirk, else the default of the registry.
"""

from collections.abc import Mapping
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

# Concept vectors as published; heads then take margins as they are.
_PUBLISHED = {"tolerance": "paper", "cross_fit": 0, "scaled": False, "random_state": 42}
_BANKS: dict[str, Settings] = {
    "authors": {**_PUBLISHED, **{"balance": "weights", "unit_norm": False, "elect": True}},
    "text": {
        **{**_PUBLISHED, "tolerance": "folds"},
        **{"balance": "subsample", "unit_norm": True, "against": "EN"},
    },
    "none": {},
}
_PERCEPTRONS: dict[str, Settings] = {"authors": {"keep": "last", "double_softmax": True}}


def trainable() -> list[str]:
    """Return the names that `obygaze train` takes."""
    frames = {name for name, kind in KINDS.items() if kind.level != "clip"}
    clips = [name for name in registry.kind_names() if name not in frames]
    return [*clips, *ALIASES, CAV]


def defaults(kind: str, quirk: str) -> Settings:
    """Return the settings of a kind under a quirk, for those that a protocol leaves out."""
    own = registry.default_settings(kind)
    changed = _PERCEPTRONS.get(quirk, {}) if kind == "mlp" else {}
    if registry.find_kind(kind).head:
        changed = _BANKS[quirk]
    return {**own, **{name: value for name, value in changed.items() if name in own}}


def setting_rules(kind: str) -> dict[str, Rule]:
    """Return the rule of each setting of a kind: one value, or a list to choose from.

    An unknown kind has no settings.
    """
    settings = registry.find_kind(kind).settings if kind in registry.kind_names() else {}
    return {name: _or_choice(name, setting.rule) for name, setting in settings.items()}


def _or_choice(name: str, rule: Rule) -> Rule:
    offered = list_of(rule, least=1)
    return lambda value: (offered if is_choice(name, value) else rule)(value)


def is_choice(name: str, value: Any) -> bool:
    """Return whether the value of a setting is a list to choose from."""
    return isinstance(value, list | tuple) and name not in LISTS


def candidates(settings: Mapping[str, Any]) -> list[Settings]:
    """Return every combination of the values that the settings offer, one if there is no choice."""
    combinations: list[Settings] = [{}]
    for name, value in settings.items():
        values = value if is_choice(name, value) else [value]
        combinations = [{**one, name: item} for one in combinations for item in values]
    return combinations


def for_task(kind: str, settings: Mapping[str, Any], task: str) -> Settings:
    """Return settings with the word "paper" replaced by the released code's value for a task."""
    own = dict(settings)
    depth, leaf = PAPER_TREE.get(task, PAPER_TREE["ENHN_S"])
    penalty, strength = PAPER_LOGISTIC.get(task, PAPER_LOGISTIC["ENHN_S"])
    own_words: Settings = {"max_depth": depth, "min_samples_leaf": leaf, "penalty": penalty}
    if kind == "svm":
        from obygaze_models.models.concepts import tolerance_of  # late: it loads scikit-learn

        # The task is then named after a concept, and perhaps after what it is distinguished from.
        own_words["C"] = tolerance_of(task.removesuffix(AGAINST_EN))
    elif kind == "pcbm-lr":
        own_words["C"] = strength
    for name, value in own_words.items():
        if own.get(name) == "paper":
            own[name] = value
    return own
