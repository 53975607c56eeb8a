import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.own_labels import even_limit
from obygaze_models.protocols.clips import TaskClips, task_labels
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.schema import Protocol, Task
from obygaze_models.protocols.tasks import with_tasks

VIOLENT = ["no", "yes", "no", "", "yes|no"]
CLIPS = [
    Clip(f"c{n}", "m", level=level, extra={"violent": violent})
    for n, (level, violent) in enumerate(
        zip(["EN", "HN", "NS", "S", ""], VIOLENT, strict=True)
    )
]


def labels(**task: object) -> list[int]:
    table = TaskClips("made-up", CLIPS, ())
    return task_labels("t", Task(**task), table).tolist()  # type: ignore[arg-type]


def test_the_labels_of_a_task_are_each_of_one_class() -> None:
    """Whether a cell is filled in is not what it says."""
    classes = {"yes": 1, "no": 0, "yes|no": 1}
    assert labels(column="violent", values=classes) == [0, 1, 0, -1, 1]
    del classes["yes|no"]
    for task, problem in (
        ({"column": "violent", "values": classes}, r"no class for 'yes\|no' of the co"),
        ({"positive": "level == S", "negative": "level != HN"}, "1 clips are in both"),
        ({"positive": "violent"}, "expected a condition, got a column"),
        ({"positive": "level and violent"}, "expected a condition, got a column"),
    ):
        with pytest.raises(FixInput, match=problem):
            labels(**task)


def asked(column: str, cells: list[str], *tasks: str) -> Protocol:
    """The protocol `honest` with tasks of a table of one column."""
    clips = tuple(Clip(f"c{n}", "m") for n in range(len(cells)))
    manifest = Manifest("made-up", Header("m"), clips)
    manifest = manifest.with_column(
        column, dict(zip(manifest.clip_ids, cells, strict=True))
    )
    return with_tasks(load_protocol("honest", asked=tasks), tasks, manifest)


def test_short_names_of_tasks() -> None:
    assert list(asked("EN_S", ["yes", "no"], "EN_S=yes").tasks) == ["EN_S=yes"]
    of_protocol = asked("EN_S", ["yes", "no"], "honest:EN_S").tasks["EN_S"]
    assert of_protocol == load_protocol("honest").tasks["EN_S"]
    # `honest` has one task, and the others of levels are known by name.
    negatives = load_protocol("honest-negatives").tasks
    assert asked("rating", ["1", "2"], "HN_S").tasks == {"HN_S": negatives["HN_S"]}
    assert list(asked("mood", ["Joy", "fear"], "mood=JOY").tasks) == ["mood=Joy"]
    assert asked("own", ["1", "01", "2"], "own>=2")
    expression = "mood in {Joy, odd}"
    tasks = asked("mood", ["Joy", "fear", "odd"], expression).tasks
    assert tasks[expression].positive == expression


@pytest.mark.parametrize(
    ("column", "cells", "tasks", "problem"),
    [
        (
            "EN_S",
            "yes no",
            ["EN_S"],
            "EN_S is both a task of the protocol honest and a",
        ),
        (
            "HN_S",
            "yes no",
            ["HN_S"],
            "HN_S is both a task of the protocol honest-negatives and a column",
        ),
        *(
            ("rating", "1 2 3", [text], problem)
            for text, problem in (
                ("a name=rating>=2", "the task name 'a name' is not valid"),
                ("EN_S=rating>=2", "the task name 'EN_S' is already the name of a"),
                ("HN_S=rating>=2", "the task name 'HN_S' is already the name of a"),
                ("HN_s", "unknown task or column 'HN_s' (did you mean 'HN_S'?)"),
                (
                    "level=rating>=2",
                    "the task name 'level' is already the name of a column",
                ),
                ("harsh=rating", "numbers from 1 to 3; the positive values are not"),
                ("ratng=3", "unknown task or column 'ratng' (did you mean 'rating'?)"),
            )
        ),
        ("mood", "Joy fear", ["mood=Jo"], "the column mood has no value 'Jo'"),
        ("mood", "joy fear odd", ["m=mood"], "expected one task, got the column mood"),
        (
            "mood",
            "joy fear",
            ["m=mood=joy", "m=mood=fear"],
            "two tasks have the name m",
        ),
        ("own", "1 01 1", ["own"], "the column own has one value, '1'"),
    ],
)
def test_what_is_no_short_name_of_a_task_is_refused(column, cells, tasks, problem):
    with pytest.raises((FixUsage, FixInput), match=re.escape(problem)):
        asked(column, [*cells.split(), ""], *tasks)


@given(st.lists(st.integers(-2, 5).map(str), min_size=2))
def test_a_limit_that_is_offered_makes_two_classes(cells: list[str]) -> None:
    if len(set(cells)) > 1:
        limit = float(even_limit(cells))
        assert min(map(float, cells)) < limit <= max(map(float, cells))


def test_a_limit_is_any_number_of_a_table() -> None:
    for limit in (".3", "00.3", "+.3"):
        (task,) = asked("x", ["0.25", ".5"], f"x>={limit}").tasks.values()
        assert task.positive == f'x >= "{limit}"'
        (task,) = asked("x", ["0.25", ".5"], f"not (x < {limit})").tasks.values()
        clips = [Clip(cell, "m", extra={"x": cell}) for cell in ("0.25", ".5")]
        table = TaskClips("made-up", clips, ())
        assert task_labels("t", task, table).tolist() == [0, 1]


def test_yes_and_no_in_one_cell_is_neither() -> None:
    cells = ["yes", "no", "yes|no", ""]
    (task,) = asked("stares", cells, "stares").tasks.values()
    clips = [Clip(f"c{n}", "m", extra={"stares": c}) for n, c in enumerate(cells)]
    with pytest.raises(FixInput, match="1 clips are in both classes"):
        task_labels("stares", task, TaskClips("made-up", clips, ()))
    del clips[2]
    table = TaskClips("made-up", clips, ())
    assert task_labels("stares", task, table).tolist() == [1, 0, -1]
