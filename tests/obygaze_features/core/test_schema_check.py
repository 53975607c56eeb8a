"""The shared checker of TOML and JSON files: every violation with its line, key and suggestion."""

from __future__ import annotations

import doctest
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest

from obygaze_features.core import schema_check
from obygaze_features.core.errors import Corrupt, FixInput, Mismatch
from obygaze_features.core.schema_check import (
    Document,
    Rows,
    Table,
    line_numbers,
    read_json,
    read_toml,
    table_of,
)
from obygaze_features.core.schema_rules import (
    any_of,
    boolean,
    choice,
    filled,
    list_of,
    mapping_of,
    matching,
    name,
    number,
    text,
    whole,
)

SOURCE = Table(
    {"file": text, "sha256": matching("[0-9a-f]{4}", "4 hex digits")}, ("file",)
)
FILM = Table(
    {
        "title": text,
        "year": whole(1888),
        "tags": list_of(text),
        "sources": Rows(SOURCE),
        "cast": Table(others=Table({"age": whole()}), names=name),
    },
    required=("title",),
)
TOML = """\
schema = "obygaze-film/1"
title = "Alien"
year = 1979
tags = ["a", "b"]

[cast.Ripley]
age = 30

[[sources]]
file = "a.csv"

[[sources]]
file = "b.csv"
sha256 = "00ff"
"""


def details(toml: str, table: Table = FILM) -> tuple[str, ...]:
    document = read_toml(toml.encode(), "film.toml")
    document.require_schema("obygaze-film/1", "film")
    document.check(table)
    with pytest.raises(FixInput, match="the film is not valid") as caught:
        document.raise_if_any("the film is not valid")
    return caught.value.details


def test_a_valid_file_becomes_plain_values_with_tuples_for_lists() -> None:
    document = read_toml(TOML.encode(), "film.toml")
    document.require_schema("obygaze-film/1", "film")
    assert document.check(FILM) == {
        "title": "Alien",
        "year": 1979,
        "tags": ("a", "b"),
        "cast": {"Ripley": {"age": 30}},
        "sources": ({"file": "a.csv"}, {"file": "b.csv", "sha256": "00ff"}),
    }
    document.raise_if_any("the film is not valid")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            "year =",
            "yaer =",
            "film.toml:3: yaer: unknown key 'yaer' (did you mean 'year'?)",
        ),
        (
            "year =",
            "zz =",
            "film.toml:3: zz: unknown key 'zz'; known: title, year, tags, sources, cast",
        ),
        (
            "1979",
            '"x"',
            "film.toml:3: year: must be a whole number, at least 1888, got 'x'",
        ),
        (
            "1979",
            "true",
            "film.toml:3: year: must be a whole number, at least 1888, got True",
        ),
        ('title = "Alien"', "", "film.toml: title: required key is missing"),
        (
            '["a", "b"]',
            '["a", "a"]',
            "film.toml:4: tags: must not list a value twice, got",
        ),
        (
            '["a", "b"]',
            '["a", 1]',
            "film.toml:4: tags: each item must be a string, got",
        ),
        (
            "00ff",
            "00f",
            "film.toml:14: sources[1].sha256: must be 4 hex digits, got '00f'",
        ),
        (
            'file = "b.csv"',
            "",
            "film.toml:12: sources[1].file: required key is missing",
        ),
        (
            "age = 30",
            "age = -1",
            "film.toml:7: cast.Ripley.age: must be a whole number, at least",
        ),
        (
            "cast.Ripley",
            'cast."*"',
            "film.toml:6: cast.*: must be a name of letters",
        ),
        (
            "[cast.Ripley]\nage = 30",
            "cast = 3",
            "film.toml:6: cast: must be a table, got 3",
        ),
    ],
)
def test_each_violation_has_its_line_and_place(
    before: str, after: str, expected: str
) -> None:
    (line,) = details(TOML.replace(before, after, 1))
    assert line.startswith(expected)


def test_all_violations_are_reported_together_and_invalid_values_left_out() -> None:
    document = read_toml(b"title = 1\nyear = 1\ntags = []\nmore = 2\n", "film.toml")
    assert document.check(FILM) is None  # the required title is not valid
    assert len(document.violations) == 3
    assert read_toml(b'title = "x"\nyear = 1\n', "f").check(FILM) == {"title": "x"}


def test_a_list_of_tables_has_to_be_one() -> None:
    table = Table({"sources": Rows(SOURCE)})
    (line,) = details('schema = "obygaze-film/1"\nsources = 3', table)
    assert line == "film.toml:2: sources: must be a list of tables, got 3"


def test_a_list_of_tables_may_be_empty_if_nothing_else_is_said() -> None:
    document = read_toml(b'title = "x"\nsources = []\n', "film.toml")
    assert document.check(FILM) == {"title": "x", "sources": ()}


def test_a_value_that_is_not_from_the_file_is_reported_under_its_source() -> None:
    overrides = {"fit.seed": "--set fit.seed=-1"}
    document = read_toml(b"[fit]\nseed = 0\n", "p.toml")
    document.overrides = overrides
    document.tree["fit"]["seed"] = -1
    document.check(Table({"fit": Table({"seed": whole(0)})}))
    assert document.violations.lines == [
        "--set fit.seed=-1: must be a whole number, at least 0, got -1"
    ]


def test_the_schema_key_tells_other_files_from_other_versions() -> None:
    with pytest.raises(
        Mismatch, match="has schema 'obygaze-film/2', this version of obygaze reads"
    ):
        read_toml(b'schema = "obygaze-film/2"', "f").require_schema(
            "obygaze-film/1", "film"
        )
    for other in (b'schema = "x"', b"", b"schema = 1"):
        with pytest.raises(
            FixInput, match="not a film: schema must be 'obygaze-film/1', got"
        ):
            read_toml(other, "f").require_schema("obygaze-film/1", "film")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x = ", "not valid TOML"),
        (b"a = 1\nx = '\xe9'", "not UTF-8"),
        (f"a = {'[' * 5000}{']' * 5000}".encode(), "nested too deeply"),
        (b"#" * 2_000_000, "more than 1,048,576 bytes"),
    ],
)
def test_what_is_not_toml(data: bytes, message: str) -> None:
    with pytest.raises(FixInput, match=message):
        read_toml(data, "f.toml")


def test_json_has_places_without_lines_and_its_own_error() -> None:
    document = read_json(b'{"title": 3}', "film.json")
    document.check(FILM)
    with pytest.raises(Corrupt) as caught:
        document.raise_if_any("the film is damaged", error=Corrupt)
    assert caught.value.details == ("film.json: title: must be a string, got 3",)
    for data in (b"{", b"[]", b"[" * 100_000, b"\xff"):
        with pytest.raises(Corrupt):
            read_json(data, "film.json", error=Corrupt)


@dataclass(frozen=True)
class Actor:
    name: str
    age: int | None = None


@dataclass(frozen=True)
class Film:
    title: str
    year: Annotated[int, whole(1888)] = 1888
    cut: bool = False
    length_s: float = 0.0
    tags: tuple[str, ...] = ()
    cast: tuple[Actor, ...] = ()
    lead: Actor | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def test_a_dataclass_is_a_schema() -> None:
    rules = table_of(Film, lead=table_of(Actor))
    tree = {
        "title": "x",
        "cast": [{"name": "a"}, {"name": "b", "age": 3}],
        "tags": ["t", "t"],
    }
    assert Document(tree, "f").check(rules) == Film(
        "x", cast=(Actor("a"), Actor("b", 3)), tags=("t", "t")
    )
    wrong = Document(
        {"year": 3, "cut": 1, "length_s": "x", "cast": [{"age": "x"}]}, "f"
    )
    assert wrong.check(rules) is None
    assert [line.split(": ")[1] for line in wrong.violations.lines] == [
        *("year", "cut", "length_s", "cast[0].age", "cast[0].name", "title")
    ]
    ignoring = Table({"title": text}, ignore_unknown=True)
    assert Document({"title": "x", "more": 1}, "f").check(ignoring) == {"title": "x"}


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (filled, ["x"], ["", 1]),
        (boolean, [True, False], [0, "true"]),
        (choice(("a", "b")), ["a"], ["c", 1, ["a"]]),
        (whole(1, 3), [1, 3], [0, 4, 1.0, True]),
        (whole(None), [-5, 10**20], [0.5]),
        (number(0, 1), [0, 0.5, 1], [-0.1, 1.1, True, "1", float("nan")]),
        (number(0, above=True), [0.1], [0, float("inf"), float("nan")]),
        (number(), [-1e300], [float("inf"), float("-inf"), float("nan")]),
        (
            list_of(text, least=1, most=2),
            [["a"], ["a", "b"]],
            [[], ["a", "b", "c"], "a", [1]],
        ),
        (list_of(text, unique=False), [["a", "a"], []], [[1]]),
        (mapping_of(whole(0, 1)), [{"a": 1}], [{}, {"a": 2}, 3]),
        (any_of(boolean, text), [True, "x"], [1]),
    ],
)
def test_rules(rule: Any, good: list[Any], bad: list[Any]) -> None:
    assert [rule(value) for value in good] == [None] * len(good)
    assert all("must" in rule(value) for value in bad)


def test_line_numbers_follow_sections_rows_and_quoted_keys() -> None:
    toml = "a = 1\n[b]\n'c d' = 2\n[[e]]\nf = 1\n[[e]]\nf = 2\n"
    assert line_numbers(toml) == {
        **{
            "a": 1,
            "b": 2,
            "b.c d": 3,
            "e": 4,
            "e[0]": 4,
            "e[0].f": 5,
            "e[1]": 6,
            "e[1].f": 7,
        }
    }


def test_the_example_of_the_module_runs() -> None:
    names = {"dataclass": dataclass, "Annotated": Annotated, "whole": whole}
    result = doctest.testmod(schema_check, extraglobs=names)
    assert (result.failed, result.attempted) == (0, 2)
