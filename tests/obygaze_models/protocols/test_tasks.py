from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.manifest.own_labels import even_limit
from obygaze_models.protocols.clips import (
    ClipTable,
    task_labels,
)
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.schema import Protocol, Task
from obygaze_models.protocols.tasks import with_tasks

LEVEL = ["EN", "HN", "NS", "S", ""]
CONCEPTS = [(), ("Look",), ("Body",), ("Look",), ()]
CLIPS = [
    Clip("c", "m", level=a, concepts=b, extra={"violent": c})
    for a, b, c in zip(LEVEL, CONCEPTS, ["no", "yes", "no", "", "yes|no"], strict=True)
]
TABLE = ClipTable("made-up", CLIPS, ())


def labels(**task: object) -> list[int]:
    return task_labels("t", Task(**task), TABLE).tolist()  # type: ignore[arg-type]


def test_values_of_a_column() -> None:
    assert labels(column="violent", values={"yes": 1, "no": 0, "yes|no": 1}) == [
        0,
        1,
        0,
        -1,
        1,
    ]
    with pytest.raises(FixInput, match=r"no class for 'yes\|no' of the column violent"):
        labels(column="violent", values={"yes": 1, "no": 0})


def test_classes_that_overlap() -> None:
    with pytest.raises(FixInput, match="1 clips are in both classes") as error:
        labels(positive="level == S", negative="Look in concept and level != HN")
    assert "level == S / Look in concept" in str(error.value)


def asked(column: str, cells: list[str], *tasks: str) -> Protocol:
    """The protocol `honest` with tasks of a table of one column."""
    manifest = manifest_of(column, cells)
    return with_tasks(load_protocol("honest", asked=tasks), tasks, manifest)


def manifest_of(column: str, cells: list[str]) -> Manifest:
    """The clips of a table of one column."""
    clips = [Clip(f"c{n}", "m") for n in range(len(cells))]
    manifest = Manifest("made-up", Header("m"), tuple(clips))
    return manifest.with_column(
        column, dict(zip(manifest.clip_ids, cells, strict=True))
    )


def test_a_column_with_the_name_of_a_task_is_asked_about() -> None:
    with pytest.raises(FixUsage, match="EN_S is a task of the protocol honest, and a"):
        asked("EN_S", ["yes", "no"], "EN_S")
    assert list(asked("EN_S", ["yes", "no"], "EN_S=yes").tasks) == ["EN_S=yes"]
    of_protocol = asked("EN_S", ["yes", "no"], "honest:EN_S").tasks["EN_S"]
    assert of_protocol == load_protocol("honest").tasks["EN_S"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a name=rating>=2", "the name 'a name' cannot be the name of a task"),
        ("EN_S=rating>=2", "the name 'EN_S' is taken: it is a task of the protocol"),
        ("level=rating>=2", "the name 'level' is taken: it is a column"),
        ("harsh=rating", "numbers from 1 to 3; which are positive?"),
        ("ratng=3", "unknown task or column 'ratng' (did you mean 'rating'?)"),
    ],
)
def test_a_short_name_that_is_refused(text: str, problem: str) -> None:
    with pytest.raises(FixUsage, match=re.escape(problem)):
        asked("rating", ["1", "2", "3", ""], text)


def test_a_word_in_other_capitals_is_the_word_of_the_column() -> None:
    assert list(asked("mood", ["Joy", "fear"], "mood=JOY").tasks) == ["mood=Joy"]
    with pytest.raises(FixUsage, match="the column mood has no 'Jo'"):
        asked("mood", ["Joy", "fear"], "mood=Jo")


def test_a_short_name_is_of_one_task() -> None:
    words = ["joy", "fear", "anger"]
    with pytest.raises(FixUsage, match="expected one task, but the column mood has"):
        asked("mood", words, "feeling=mood")
    with pytest.raises(FixUsage, match="two tasks have the name feeling"):
        asked("mood", words, "feeling=mood=joy", "feeling=mood=fear")


@pytest.mark.parametrize(
    "text",
    [
        "violent",
        "level and violent",
    ],
)
def test_a_column_alone_is_no_label(text: str) -> None:
    """Whether a cell is filled in is not what it says."""
    with pytest.raises(FixInput, match="a column is not a label"):
        labels(positive=text)


@given(st.lists(st.integers(-2, 5).map(str), min_size=2))
def test_a_limit_that_is_offered_makes_two_classes(cells: list[str]) -> None:
    if len(set(cells)) > 1:
        limit = float(even_limit(cells))
        assert min(map(float, cells)) < limit <= max(map(float, cells))


def test_a_number_in_two_spellings_is_no_bug() -> None:
    with pytest.raises(FixInput, match="the column own has one value, '1'"):
        asked("own", ["1", "01", "1"], "own")
    assert asked("own", ["1", "01", "2"], "own>=2")


def test_yes_and_no_in_one_cell_is_neither() -> None:
    cells = ["yes", "no", "yes|no", ""]
    (task,) = asked("stares", cells, "stares").tasks.values()
    clips = [Clip(f"c{n}", "m", extra={"stares": c}) for n, c in enumerate(cells)]
    with pytest.raises(FixInput, match="1 clips are in both classes"):
        task_labels("stares", task, ClipTable("made-up", clips, ()))
    del clips[2]
    table = ClipTable("made-up", clips, ())
    assert task_labels("stares", task, table).tolist() == [1, 0, -1]
