"""The settings of the two schemes, which are facts of the released code and of the text."""

from __future__ import annotations

import numpy as np
import pytest
from support.experiments import films

from obygaze_features.core.errors import FixInput
from obygaze_models.models.registry import KINDS
from obygaze_models.protocols import schedule as schedule_module
from obygaze_models.protocols.clips import clip_table
from obygaze_models.protocols.kinds import defaults, for_task, setting_rules
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.schedule import schedule
from obygaze_models.protocols.schemes import Scheme, find_scheme, scheme_names
from obygaze_models.protocols.splits import Split

TASKS = ("EN_S", "ENHN_S", "HN_S")
SCHEMES = ("obygaze12-code", "obygaze12-text")


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


def test_an_error_in_the_code_of_a_scheme_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*clips: object, **options: bool) -> list[Split]:
        raise ZeroDivisionError("no folds")

    scheme = Scheme("Mine.", broken)
    monkeypatch.setattr(schedule_module, "find_scheme", lambda name: scheme)
    protocol = load_protocol("paper-table2", ['grid.train=["EN_S"]'])
    manifest = films()
    for name in {task.folds for task in protocol.tasks.values()}:
        folds = {clip.clip_id: "0" for clip in manifest}
        manifest = manifest.with_column(f"fold:{name}", folds)
    table = clip_table(manifest, load_protocol("honest").data)
    labels = {task: np.zeros(len(table), dtype=np.intp) for task in protocol.tasks}
    expected = "the scheme 'obygaze12-code': ZeroDivisionError: no folds"
    with pytest.raises(FixInput, match=expected):
        schedule(protocol, table, labels, np.ones(len(table), dtype=np.bool_))


def test_every_default_of_a_scheme_keeps_its_own_rule() -> None:
    assert scheme_names() == ["none", *SCHEMES]
    for name in SCHEMES:
        for kind in KINDS:
            for setting, value in defaults(kind, find_scheme(name)).items():
                assert setting_rules(kind)[setting](value) is None, f"{kind}.{setting}"
