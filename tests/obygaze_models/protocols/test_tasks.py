from __future__ import annotations

import pytest

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.model import Clip
from obygaze_models.protocols.clips import ClipTable, task_labels
from obygaze_models.protocols.schema import Task

LEVEL = ["EN", "HN", "NS", "S", ""]
CONCEPTS = [(), ("Look",), ("Body",), ("Look",), ()]
CLIPS = [
    Clip("c", "m", level=a, concepts=b, extra={"violent": c})
    for a, b, c in zip(LEVEL, CONCEPTS, ["no", "yes", "no", "", "yes|no"], strict=True)
]
TABLE = ClipTable("made-up", CLIPS, ())


def labels(**task: object) -> list[int]:
    return task_labels("t", Task(**task), TABLE).tolist()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ({"S": 1, "EN": 0}, [0, -1, -1, 1, -1]),
        ({"S": 1, "EN": 0, "HN": 0}, [0, 0, -1, 1, -1]),
    ],
)
def test_label_maps(classes: dict[str, int], expected: list[int]) -> None:
    assert labels(classes=classes) == expected


@pytest.mark.parametrize(
    ("classes", "what"),
    [
        ({"Sure": 1, "EN": 0}, r"no clip of class 1 \(Sure\)"),
        ({"S": 1}, "no clip of class 0"),
        ({"S": 1, "EN": 1}, "no clip of class 0"),
        ({"S": 2, "EN": 0}, "no clip of class 1"),
        ({}, "no clip of class 0 and no clip of class 1"),
    ],
)
def test_maps_that_are_none(classes: dict, what: str) -> None:
    with pytest.raises(FixInput, match=what):
        labels(classes=classes)


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


def test_an_expression_against_the_rest() -> None:
    found = labels(positive="Look in concept")
    assert found == [0, 1, 0, 1, -1], "a clip without a level is in no class"


def test_two_expressions() -> None:
    found = labels(positive="level == S", negative="level in {EN, HN} and not concept")
    assert found == [0, -1, -1, 1, -1]


def test_classes_that_overlap() -> None:
    with pytest.raises(FixInput, match="1 clips are in both classes") as error:
        labels(positive="level == S", negative="Look in concept and level != HN")
    assert "level == S / Look in concept" in str(error.value)
