from __future__ import annotations

import pytest
from obygaze_models.protocols.tasks import check_label_map, label_by_expression, label_by_map

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.expression import parse
from obygaze_features.manifest.model import Clip

LEVEL = ["EN", "HN", "NS", "S", ""]
CONCEPTS = [(), ("Look",), ("Body",), ("Look",), ()]
CLIPS = [Clip("c", "m", level=a, concepts=b) for a, b in zip(LEVEL, CONCEPTS, strict=True)]


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ({"S": 1, "EN": 0}, [0, -1, -1, 1, -1]),
        ({"S": 1, "EN": 0, "HN": 0}, [0, 0, -1, 1, -1]),
    ],
)
def test_label_maps(classes: dict[str, int], expected: list[int]) -> None:
    assert label_by_map(classes, LEVEL).tolist() == expected


@pytest.mark.parametrize(
    ("classes", "what"),
    [
        ({"Sure": 1, "EN": 0}, "unknown level 'Sure'"),
        ({"S": 1}, "must be 0 and 1"),
        ({"S": 1, "EN": 1}, "must be 0 and 1"),
        ({"S": 2, "EN": 0}, "must be 0 and 1"),
        ({"S": 1, "EN": -1}, "must be 0 and 1"),
        ({"S": True, "EN": False}, "must be 0 and 1"),
        ({"S": 1.0, "EN": 0}, "must be 0 and 1"),
        ({}, "must be 0 and 1"),
        ({"EN": 0, "HN": 1, "S": 2}, "must be 0 and 1"),
    ],
)
def test_maps_that_are_none(classes: dict, what: str) -> None:
    with pytest.raises(FixInput, match=what):
        check_label_map(classes)


def test_an_expression_against_the_rest() -> None:
    labels = label_by_expression(parse("Look in concept"), CLIPS)
    assert labels.tolist() == [0, 1, 0, 1, -1], "a clip without a level is in no class"


def test_two_expressions() -> None:
    labels = label_by_expression(
        parse("level == S"), CLIPS, negative=parse("level in {EN, HN} and not concept")
    )
    assert labels.tolist() == [0, -1, -1, 1, -1]


def test_classes_that_overlap() -> None:
    with pytest.raises(FixInput, match="1 clips are in both classes") as error:
        label_by_expression(
            parse("level == S"), CLIPS, negative=parse("Look in concept and level != HN")
        )
    assert "level == S / Look in concept" in str(error.value)
