"""The settings of the two schemes, which are facts of the released code and of the text."""

from __future__ import annotations

import pytest

from obygaze_models.models.registry import KINDS
from obygaze_models.protocols.kinds import defaults, for_task, setting_rules
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.schemes import SCHEMES

TASKS = ("EN_S", "ENHN_S", "HN_S")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_released_numbers_by_task(scheme: str) -> None:
    models = load_protocol("paper-pcbm", [f"splits.scheme={scheme}"]).models
    tree = models["pcbm-dt"]
    trees = {task: for_task(tree.kind, tree.settings, task) for task in TASKS}
    found = {t: (s["max_depth"], s["min_samples_leaf"]) for t, s in trees.items()}
    assert found == {"EN_S": (8, 6), "ENHN_S": (4, 6), "HN_S": (10, 10)}
    logistic = models["pcbm-lr"]
    heads = {task: for_task(logistic.kind, logistic.settings, task) for task in TASKS}
    found = {t: (s["penalty"], s["C"]) for t, s in heads.items()}
    assert found == {"EN_S": ("l2", 0.1), "ENHN_S": ("l1", 0.01), "HN_S": ("l2", 0.1)}
    # Any other task has the numbers of the task with all levels.
    other = for_task(tree.kind, tree.settings, "mine")
    assert (other["max_depth"], other["min_samples_leaf"]) == (4, 6)


def test_every_default_of_a_scheme_keeps_its_own_rule() -> None:
    for name in SCHEMES:
        for kind in KINDS:
            for setting, value in defaults(kind, SCHEMES[name]).items():
                assert setting_rules(kind)[setting](value) is None, f"{kind}.{setting}"
