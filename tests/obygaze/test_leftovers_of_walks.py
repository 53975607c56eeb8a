"""What people met who used the program with its README and help alone."""

from __future__ import annotations

import numpy as np
import pytest

import obygaze as og
from obygaze_features.core.errors import FixInput, FixUsage

# ---- ways in and out ----------------------------------------------------------------------------


# ---- tasks --------------------------------------------------------------------------------------


def test_a_data_set_takes_tasks_of_columns_and_expressions(inside):
    decade = {"column": "decade", "values": {1990: 0, 2000: 1}}
    data = og.dataset("mine", "films", task=decade)
    assert dict(zip(data.ids.tolist(), data.y.tolist(), strict=True)) == {
        "a-1": 0,
        "a-2": 0,
        "b-1": 1,
        "b-2": 1,
    }
    looks = og.dataset("mine", "films", task={"positive": "Look in concept"})
    assert looks.ids[looks.y == 1].tolist() == ["a-2", "b-2"]
    assert sorted(looks.ids[looks.y == 0].tolist()) == ["a-1", "b-1"]
    levels = og.dataset("mine", "films", {"EN": 0, "S": 1})
    assert sorted(levels.ids.tolist()) == ["a-1", "a-2", "b-2"]


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        ({}, "needs one of classes, positive and column"),
        ({"EN": 0, "S": 2}, "classes.S: must be int"),
        ({"EN": 0, "X": 1}, "'X'"),
        ({"classes": {"EN": 0, "S": 1}, "positive": "level == S"}, "needs one of"),
        ({"column": "decade", "values": ["1990"]}, "values"),
        ({"column": "decade"}, "column and values go together"),
        ({"positive": "level == S", "negativ": "x"}, "unknown key 'negativ'"),
    ],
)
def test_what_is_no_task_is_refused_as_in_a_protocol(inside, task, problem):
    """Of two ways to name the classes one was taken, an unknown word was none, 5 was a crash."""
    with pytest.raises(FixInput, match="the task is not valid") as raised:
        og.dataset("mine", "films", task=task)
    assert problem in " ".join(raised.value.details)


def test_a_task_may_have_numbers_of_numpy(inside):
    levels = og.dataset("mine", "films", task={"EN": np.int64(0), "S": np.int64(1)})
    assert sorted(levels.ids.tolist()) == ["a-1", "a-2", "b-2"]
    with pytest.raises(FixUsage, match="task must be a name or a mapping"):
        og.dataset("mine", "films", task=["EN"])
