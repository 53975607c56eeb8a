"""Files are read into records: what is wrong in one is named, with its line and key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from msgspec import Meta

from obygaze_features.core.errors import FixInput
from obygaze_features.core.schema_check import (
    Count,
    Record,
    Sha256,
    read_json,
    read_toml,
    record_of,
)


class Source(Record, frozen=True):
    file: str
    sha256: Sha256 = "0" * 64


@dataclass(frozen=True)
class Rate:
    fps: Annotated[float, Meta(ge=0)] = 25.0


class Film(Record, frozen=True):
    title: str
    year: Annotated[int, Meta(ge=1888)] = 1888
    colour: Literal["", "grey", "colour"] = ""
    shots: Count = 0
    size: tuple[Count, Count] = (0, 0)
    tags: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    cast: Mapping[Annotated[str, Meta(pattern="^[A-Z]")], Source] = {}
    rate: Rate = Rate()
    lost: bool = False


WHOLE = """\
title = "Alien"
year = 1979
colour = "colour"
shots = 3
size = [480, 640]
tags = ["a", "b"]
lost = true
[[sources]]
file = "a.csv"
[cast.Ripley]
file = "b.csv"
[rate]
fps = 24
"""


def lines(toml: str) -> list[str]:
    with pytest.raises(FixInput, match="the film is not valid") as caught:
        record_of(read_toml(toml.encode(), "f.toml"), Film, "the film is not valid")
    return caught.value.details


def test_a_whole_file_is_read() -> None:
    film = record_of(read_toml(WHOLE.encode(), "f.toml"), Film, "not valid")
    assert film == Film(
        "Alien",
        1979,
        "colour",
        3,
        (480, 640),
        ("a", "b"),
        (Source("a.csv"),),
        {"Ripley": Source("b.csv")},
        Rate(24.0),
        True,
    )
    assert isinstance(film.rate.fps, float)
    few = record_of(read_json(b'{"title": "Alien"}', "f.json"), Film, "not valid")
    assert few == Film("Alien")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('title = "Alien"\n', "", "f.toml: title: required key is missing"),
        (
            "year =",
            "yaer =",
            "f.toml:2: yaer: unknown key 'yaer' (did you mean 'year'?)",
        ),
        ("1979", "1812", "f.toml:2: year: expected `int` >= 1888"),
        ("1979", "true", "f.toml:2: year: expected `int`, got True"),
        ("1979", "1979.0", "f.toml:2: year: expected `int`, got 1979.0"),
        ('"colour"', '"gray"', "f.toml:3: colour: must be one of grey, colour (did"),
        ("shots = 3", "shots = -1", "f.toml:4: shots: must be a whole number"),
        ("shots = 3", f"shots = {10**30}", "f.toml:4: shots: must be a whole number"),
        ("[480, 640]", "[480]", "f.toml:5: size: expected `array` of length 2, got 1"),
        (
            "[480, 640]",
            '[480, "a"]',
            "f.toml:5: size: expected `int` - at `$[1]`, got",
        ),
        ('["a", "b"]', '"a"', "f.toml:6: tags: must be a list, such as"),
        ('["a", "b"]', '["a", 1]', "f.toml:6: tags: each item must be a string"),
        ("true", "1", "f.toml:7: lost: must be true or false, got 1"),
        (
            'file = "a.csv"',
            'file = "a.csv"\nsha256 = "ab"',
            "f.toml:10: sources[0].sha256: must be 64 hexadecimal digits, got 'ab'",
        ),
        (
            'file = "a.csv"',
            f'file = "a.csv"\nsha256 = """{"a" * 64}\n"""',
            "f.toml:10: sources[0].sha256: must be 64 hexadecimal digits",
        ),
        (
            "[[sources]]",
            "[sources]",
            "f.toml:8: sources: must be a list of tables, got {",
        ),
        ('file = "b.csv"', "", "f.toml:10: cast.Ripley.file: required key is missing"),
        (
            "Ripley",
            "ripley",
            "f.toml:10: cast.ripley: expected `str` matching regex '^[A-Z]'",
        ),
        ("fps = 24", "fbs = 24", "f.toml:13: rate.fbs: unknown key 'fbs' (did you"),
        ("fps = 24", "fps = -1", "f.toml:13: rate.fps: expected `float` >= 0.0"),
        ("fps = 24", "fps = nan", "f.toml:13: rate.fps: expected `float` >= 0.0"),
        ("fps = 24", f"fps = {10**400}", "f.toml:13: rate.fps: number out of range"),
        ("[rate]\nfps = 24", "", ""),
        ("[rate]\nfps = 24", "rate = 3", "cast.Ripley.rate: unknown key 'rate'"),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_key(
    before: str, after: str, told: str
) -> None:
    toml = WHOLE.replace(before, after, 1)
    assert toml != WHOLE
    if not told:
        record_of(read_toml(toml.encode(), "f.toml"), Film, "not valid")
        return
    (line,) = lines(toml)
    assert told in line


def test_all_violations_are_named_at_once() -> None:
    found = lines('year = "x"\nbudget = 3\nrate = 5\n[cast]\nRipley = 7\n')
    assert [line.partition(": ")[2].partition(":")[0] for line in found] == [
        "year",
        "budget",
        "rate",
        "cast.Ripley",
        "title",
    ]
