"""The settings of bottlenecks by training task, which are facts of the released code."""

from __future__ import annotations

import pytest

from obygaze_models.protocols.kinds import for_task
from obygaze_models.protocols.reading import load_protocol

TASKS = ("EN_S", "ENHN_S", "HN_S")


@pytest.mark.parametrize("name", ["paper-pcbm", "paper-pcbm-text"])
def test_the_released_numbers_by_task(name: str) -> None:
    models = load_protocol(name).models
    tree = models["pcbm-dt"]
    trees = {task: for_task(tree.settings, task) for task in TASKS}
    found = {t: (s["max_depth"], s["min_samples_leaf"]) for t, s in trees.items()}
    assert found == {"EN_S": (8, 6), "ENHN_S": (4, 6), "HN_S": (10, 10)}
    logistic = models["pcbm-lr"]
    heads = {task: for_task(logistic.settings, task) for task in TASKS}
    found = {t: (s["penalty"], s["C"]) for t, s in heads.items()}
    assert found == {"EN_S": ("l2", 0.1), "ENHN_S": ("l1", 0.01), "HN_S": ("l2", 0.1)}
    # Any other task has the numbers of the task with all levels.
    other = for_task(tree.settings, "mine")
    assert (other["max_depth"], other["min_samples_leaf"]) == (4, 6)
