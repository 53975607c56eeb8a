"""The settings of bottlenecks by training task, which are facts of the released code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.cells import with_folds
from support.experiments import films, quick

from obygaze_features.core.errors import FixInput
from obygaze_features.core.parts import trust
from obygaze_models.protocols.clips import clip_table, task_labels
from obygaze_models.protocols.kinds import for_task
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.schedule import splits_of_task
from obygaze_models.protocols.splits import Split

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


OWN_SCHEME = """
from dataclasses import replace

import numpy as np
from obygaze_models.protocols.splits import Split


def halves(folds, labels, usable, *, balanced, validates):
    rows = np.flatnonzero(usable & (labels >= 0))
    last = folds.max()
    train = rows[folds[rows] < last - 1]
    validation = rows[folds[rows] == last - 1]
    test = rows[folds[rows] == last]
    return [Split("own", train, validation, test, int(last), int(last) - 1)]


def nothing(folds, labels, usable, *, balanced, validates):
    return folds


def changed(folds, labels, usable, **changes):
    (split,) = halves(folds, labels, usable, balanced=True, validates=True)
    return [replace(split, **changes)]


def counted_from_the_end(folds, labels, usable, **options):
    return changed(folds, labels, usable, train=[-3, -2])


def beyond_the_last(folds, labels, usable, **options):
    return changed(folds, labels, usable, train=[0, len(folds)])


def of_another_task(folds, labels, usable, **options):
    return changed(folds, labels, usable, train=np.flatnonzero(labels < 0)[:4])


def of_another_fold(folds, labels, usable, **options):
    return changed(folds, labels, usable, test_fold=0)


def chosen_on_another_fold(folds, labels, usable, **options):
    return changed(folds, labels, usable, validation_fold=-1)


def of_one_name(folds, labels, usable, **options):
    return 2 * changed(folds, labels, usable)
"""


def plan(function: str, tmp_path: Path) -> list[Split]:
    """The splits of EN_S by a function of a file."""
    path = tmp_path / "mine.py"
    path.write_text(OWN_SCHEME)
    trust([f"{path}:{function}"])
    manifest = with_folds(films(6, 30, seed=2))
    changes = ("data.view=raw", f"splits.scheme={path}:{function}")
    protocol = quick("paper-table2", *changes)
    table = clip_table(manifest, protocol.data)
    labels = {"EN_S": task_labels("EN_S", protocol.tasks["EN_S"], table)}
    usable = np.ones(len(table), dtype=bool)
    return list(splits_of_task(protocol, table, labels, usable, "EN_S"))


def test_a_function_of_a_file_makes_training_sets(tmp_path: Path) -> None:
    (split,) = plan("halves", tmp_path)
    assert split.name == "own"
    assert len(split.train) and len(split.validation) and len(split.test)


def test_what_is_no_list_of_splits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FixInput, match="must return a list of splits"):
        plan("nothing", tmp_path)


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        ("counted_from_the_end", "row -3 is no clip, rows are 0 to 179"),
        ("beyond_the_last", "row 180 is no clip, rows are 0 to 179"),
        ("of_another_task", "is a clip without a class or without features"),
        ("of_another_fold", "test must be all clips of its test_fold, 0"),
        ("chosen_on_another_fold", "has a clip that is not of validation_fold"),
        ("of_one_name", "must give each split a name of its own, got 'own' twice"),
    ],
)
def test_rows_that_a_run_would_read_as_others_are_refused(
    function: str, problem: str, tmp_path: Path
) -> None:
    """Such rows trained on other clips than the function meant, and nothing said so."""
    with pytest.raises(FixInput, match=problem):
        plan(function, tmp_path)
