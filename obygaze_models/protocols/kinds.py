"""The kinds of models a protocol may name, their settings, and what each quirk makes of them.

A setting given as a list is a choice: the value is picked on validation rows, never on test rows.
A setting that a protocol leaves out comes from the quirk, and else from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from obygaze_models.models.registry import PAPER_LOGISTIC, PAPER_TREE
from obygaze_models.protocols.rules import Rule, boolean, choice, either, mapping, number, several
from obygaze_models.protocols.rules import whole as _whole

Settings = dict[str, Any]

# Names that people train by, beside the kinds themselves; concept vectors alone are not a model.
ALIASES = {"linear": "logistic"}
CAV = "cav"
QUIRKS = ("authors", "text", "none")
POSITIVE = number(0, above=True)
METHODS = ("svm", "liblinear", "logistic", "ridge", "mean-difference", "lda")
WEIGHT = choice(("balanced", "none"))
TOLERANCE = either(choice(("paper", "inner")), POSITIVE, mapping(POSITIVE))

_MLP: dict[str, tuple[Rule, Any]] = {
    "hidden": (several(_whole(1), least=1), [128]),
    "min_epochs": (_whole(0), 5),
    "max_epochs": (_whole(1), 100),
    "patience": (_whole(1), 5),
    "batch_size": (_whole(1), 16),
    "learning_rate": (POSITIVE, 1e-3),
    "weight_decay": (number(0), 0.0),
    "dropout": (number(0, 0.99), 0.0),
    "class_weight": (WEIGHT, "none"),
    "keep": (choice(("best", "last")), "best"),
    "double_softmax": (boolean, False),
}
_BANK: dict[str, tuple[Rule, Any]] = {
    "method": (choice(METHODS), "svm"),
    "tolerance": (TOLERANCE, "inner"),
    "balance": (choice(("weights", "subsample", "none")), "weights"),
    "unit_norm": (boolean, True),
    "against": (choice(("EN", "absent", "HN+S")), "absent"),
    "cross_fit": (_whole(0), 5),
}
_PAPER = choice(("paper",))
_SCALED: dict[str, tuple[Rule, Any]] = {"scaled": (boolean, True)}  # margins, for a penalised head
KINDS: dict[str, dict[str, tuple[Rule, Any]]] = {
    "mlp": _MLP,
    "logistic": {"C": (POSITIVE, 1.0), "class_weight": (WEIGHT, "balanced")},
    "ridge": {},
    "svm": {
        "C": (either(POSITIVE, choice(("paper",))), 1.0),
        "class_weight": (WEIGHT, "balanced"),
    },
    "pcbm-dt": {
        **_BANK,
        "max_depth": (either(_whole(1), _PAPER), 4),
        "min_samples_leaf": (either(_whole(1), _PAPER), 6),
    },
    "pcbm-lr": {
        **_BANK,
        "C": (either(POSITIVE, _PAPER), 0.1),
        "penalty": (choice(("l1", "l2", "paper")), "l2"),
        **_SCALED,
    },
    "pcbm-sparse": {**_BANK, "max_concepts": (_whole(1), 8)},
    "scorecard": {**_BANK, "max_points": (_whole(1), 5), "C": (POSITIVE, 1.0)},
    "pcbm-h": {**_BANK, "C": (POSITIVE, 0.1), "residual_C": (POSITIVE, 0.01), **_SCALED},
    "ordinal": {**_BANK, "C": (POSITIVE, 1.0), **_SCALED},
}
LISTS = ("hidden",)  # settings that are lists by nature, so a list of them is no choice

_AUTHORS_BANK = {"tolerance": "paper", "balance": "weights", "unit_norm": False, "cross_fit": 0}
_TEXT_BANK = {"tolerance": "paper", "balance": "subsample", "unit_norm": True, "cross_fit": 0}


def trainable() -> list[str]:
    """What `obygaze train` takes by name."""
    return [*KINDS, *ALIASES, CAV]


def _as_published(bank: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Each bottleneck on vectors of the paper: heads take margins as they are."""
    kinds = {kind: own for kind, own in KINDS.items() if "tolerance" in own}
    return {
        k: {**bank, **({"scaled": False} if "scaled" in own else {})} for k, own in kinds.items()
    }


BY_QUIRK: dict[str, Mapping[str, Mapping[str, Any]]] = {
    "authors": {
        "mlp": {"keep": "last", "double_softmax": True},
        **_as_published(_AUTHORS_BANK),
    },
    "text": _as_published(_TEXT_BANK),
    "none": {},
}
# No setting: what a baseline does is fixed, and its name says it.
BASELINES = ("random", "all_positive", "prevalence", "film_prior", "neighbour", "oracle")


def defaults(kind: str, quirk: str) -> Settings:
    """The settings of a kind under a quirk, for what a protocol leaves out."""
    own = {name: value for name, (_, value) in KINDS[kind].items()}
    return {**own, **BY_QUIRK[quirk].get(kind, {})}


def check_setting(kind: str, name: str, value: Any) -> str | None:
    """Why a setting is refused, or None; a list offers values to choose from."""
    rule = KINDS[kind][name][0]
    if name in LISTS or not isinstance(value, list):
        return rule(value)
    return several(rule, least=1)(value)


def candidates(settings: Mapping[str, Any]) -> list[Settings]:
    """Every combination of the values that a model's settings offer, one where none is a choice."""
    combinations: list[Settings] = [{}]
    for name, value in settings.items():
        values = value if isinstance(value, list) and name not in LISTS else [value]
        combinations = [{**one, name: item} for one in combinations for item in values]
    return combinations


def for_task(kind: str, settings: Mapping[str, Any], task: str) -> Settings:
    """Settings with the word "paper" replaced by what the released code has for this task."""
    own = dict(settings)
    depth, leaf = PAPER_TREE.get(task, PAPER_TREE["ENHN_S"])
    penalty, strength = PAPER_LOGISTIC.get(task, PAPER_LOGISTIC["ENHN_S"])
    own_words: Settings = {"max_depth": depth, "min_samples_leaf": leaf, "penalty": penalty}
    if kind == "svm":
        from obygaze_models.models.concepts import tolerance_of  # late: it loads scikit-learn

        own_words["C"] = tolerance_of(task)  # the task is then a concept's name
    elif kind == "pcbm-lr":
        own_words["C"] = strength
    for name, value in own_words.items():
        if own.get(name) == "paper":
            own[name] = value
    return own
