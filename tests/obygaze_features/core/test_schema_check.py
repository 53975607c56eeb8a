from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from msgspec import Meta

from obygaze_features.core.errors import FixInput, Mismatch
from obygaze_features.core.schema_check import (
    Count,
    Record,
    Sha256,
    one_of,
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
    kind: Annotated[str, one_of(("", "short", "feature"))] = ""


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
        *("Alien", 1979, "colour", 3, (480, 640), ("a", "b"), (Source("a.csv"),)),
        *({"Ripley": Source("b.csv")}, Rate(24.0), True),
    )
    assert isinstance(film.rate.fps, float)
    few = record_of(read_json(b'{"title": "Alien"}', "f.json"), Film, "not valid")
    assert few == Film("Alien")


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('title = "Alien"\n', "", "f.toml: title: required key is missing"),
        ("year =", "yaer =", "f.toml: yaer: unknown key 'yaer' (did you mean 'year'?)"),
        (
            'file = "a.csv"',
            'file = "a.csv"\nsha256 = "ab"',
            "f.toml: sources[0].sha256: must be 64 hexadecimal digits, got 'ab'",
        ),
        ('"colour"', '"gray"', "f.toml: colour: must be one of grey, colour (did"),
        ("lost = true", 'kind = "shrt"', "f.toml: kind: must be one of short, feature"),
        ("fps = 24", "fps = -1", "f.toml: rate.fps: must be float >= 0.0"),
        ("fps = 24", f"fps = {10**400}", "f.toml: rate.fps: Number out of range"),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_key(before, after, told) -> None:
    toml = WHOLE.replace(before, after, 1)
    assert toml != WHOLE
    (line,) = lines(toml)
    assert told in line


def test_all_violations_are_named_at_once() -> None:
    found = lines('year = "x"\nbudget = 3\nrate = 5\n[cast]\nRipley = 7\n')
    keys = [line.partition(": ")[2].partition(":")[0] for line in found]
    assert keys == ["year", "budget", "rate", "cast.Ripley", "title"]


def test_a_value_that_is_not_from_the_file_is_reported_under_its_source() -> None:
    document = read_toml(WHOLE.encode(), "f.toml")
    document.overrides = {"rate.fps": "--set rate.fps=-1"}
    document.tree["rate"]["fps"] = -1
    assert document.check(Film) is None
    (line,) = document.violations.lines
    assert line == "--set rate.fps=-1: must be float >= 0.0, got -1"


def test_the_schema_key_tells_other_files_from_other_versions() -> None:
    later, other = b'schema = "obygaze-film/2"', (b'schema = "x"', b"", b"schema = 1")
    refused = [(later, Mismatch, "has schema 'obygaze-film/2', but ")]
    not_a_film = "not a film: schema must be 'obygaze-film/1', got"
    for data, error, words in [*refused, *((x, FixInput, not_a_film) for x in other)]:
        with pytest.raises(error, match=words):
            read_toml(data, "f").require_schema("obygaze-film/1", "film")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x = ", "not valid TOML"),
        (b"a = 1\nx = '\xe9'", "not UTF-8"),
        (f"a = {'[' * 5000}{']' * 5000}".encode(), "nested too deeply"),
        (b"#" * 2_000_000, "at most 1,048,576 bytes"),
    ],
)
def test_what_is_not_toml(data: bytes, message: str) -> None:
    with pytest.raises(FixInput, match=message):
        read_toml(data, "f.toml")
