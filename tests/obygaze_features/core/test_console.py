from __future__ import annotations

import json
from fractions import Fraction

import click
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from obygaze_features.core import console as module
from obygaze_features.core.console import (
    Console,
    Quiet,
    count,
    few,
    human,
    json_text,
    printable,
    table,
)


def test_a_table_puts_numbers_right_and_words_left():
    text = table(
        ["film", "clips", "share"], [["Juno", 120, 0.5], ["Up in the Air", 7, None]]
    )
    assert text.splitlines() == [
        "film           clips  share",
        "Juno             120  0.500",
        "Up in the Air      7      -",
    ]


def test_a_value_that_is_not_a_number_does_not_push_its_column_left():
    rows = [
        [np.float32(0.25)],
        [float("nan")],
        [float("-inf")],
        ["1,914"],
        ["+3.5%"],
        ["12x"],
    ]
    assert [line.rjust(5) for line in table(["f1"], rows).splitlines()] == table(
        ["f1"], rows
    ).splitlines()
    assert "0.250" in table(["f1"], rows)


@pytest.mark.parametrize(
    "word", ["1.2.3", "2026-11-20", "1 MB", "tt0108160", "e", "", "²"]
)
def test_what_only_looks_a_little_like_a_number_is_a_word(word):
    assert table(["column"], [[word], [1]]).splitlines()[-1] == "1"


def test_colour_has_no_width():
    plain = table(["a", "b"], [["x", "y"], ["long", "z"]])
    coloured = table(["a", "b"], [[click.style("x", fg="red"), "y"], ["long", "z"]])
    assert click.unstyle(coloured) == plain


def test_a_table_without_rows_is_its_header():
    assert table(["a", "bb"], []) == "a  bb"


def test_a_row_of_another_length_is_a_mistake_of_ours():
    with pytest.raises(ValueError):
        table(["a", "b"], [["only one"]])


def test_other_kinds_of_numbers_are_rounded_too():
    assert table(["x"], [[Fraction(1, 3)]]).splitlines() == ["    x", "0.333"]
    assert table(["x"], [[True], [3]]).splitlines() == ["x", "True", "3"]


def test_json_on_stdout_has_null_for_what_json_cannot_say(capsys):
    Console().json(
        {
            "nan": float("nan"),
            "inf": [float("inf"), (1.5, -float("inf"))],
            "numpy": np.array([1.0, np.nan], dtype=np.float32),
            "count": np.int64(3),
            "flag": np.bool_(True),
            1: "é",
        }
    )
    out = capsys.readouterr().out
    assert json.loads(out) == {
        "json_version": 1,
        "nan": None,
        "inf": [None, [1.5, None]],
        "numpy": [1.0, None],
        "count": 3,
        "flag": True,
        "1": "é",
    }
    assert "é" in out
    assert "NaN" not in out


@pytest.mark.parametrize(
    "verbosity, told", [(-1, "warn"), (0, "note warn"), (1, "note detail warn")]
)
def test_talk_goes_to_stderr_and_results_to_stdout(capsys, verbosity, told):
    console = Console(verbosity=verbosity)
    console.result("result")
    console.note("note")
    console.detail("detail")
    console.warn("warn")
    captured = capsys.readouterr()
    assert captured.out == "result\n"
    assert captured.err.replace("Warning: ", "").split() == told.split()


@pytest.mark.parametrize(
    "amount, unit, text",
    [
        (0, "B", "0 B"),
        (999, "B", "999 B"),
        (1000, "B", "1.0 kB"),
        (1914, "B", "1.9 kB"),
        (999_949, "B", "999.9 kB"),
        (999_960, "B", "1.0 MB"),
        (94e6, "B", "94.0 MB"),
        (3.2e9, "B", "3.2 GB"),
        (5e12, "B", "5.0 TB"),
        (2.5e15, "B", "2500.0 TB"),
        (-1500, "B", "-1.5 kB"),
        (1914, "clips", "1,914 clips"),
    ],
)
def test_amounts_as_people_say_them(amount, unit, text):
    assert human(amount, unit) == text


@given(st.floats(0, 1e12))
def test_no_amount_has_more_than_three_digits_before_its_point(amount):
    number = human(amount).split()[0]
    assert len(number.partition(".")[0]) <= 3


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_log_gets_a_line_every_half_minute(capsys, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module.time, "monotonic", clock)
    with Console().progress("extract", 100, "clips") as progress:
        for _ in range(40):
            clock.now += 1.0
            progress.remark("GPU waits")
            progress.advance()
    # 30 of 100 clips in 30 s leave 70 s for the other 70.
    captured = capsys.readouterr()
    assert captured.err == "extract: 30 of 100 clips, 30 s, 70 s to go GPU waits\n"
    assert captured.out == ""


def test_no_time_to_go_is_guessed_before_anything_is_done(capsys, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module.time, "monotonic", clock)
    with Console().progress("pull", 5_000_000, "B") as progress:
        clock.now += 31.0
        progress.advance(0)
    assert capsys.readouterr().err == "pull: 0 B of 5.0 MB, 31 s\n"


def test_quiet_means_no_progress(capsys, monkeypatch):
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", 0.0)
    with Console(verbosity=-1).progress("extract", 3) as progress:
        assert isinstance(progress, Quiet)
        progress.advance()
        progress.remark("nothing")
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar_that_is_gone_at_the_end(capsys, monkeypatch):
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: True)
    with Console().progress("extract", 3) as progress:
        progress.advance(2)
        progress.remark("GPU waits")
    err = capsys.readouterr().err
    assert "extract" in err
    assert err.endswith("\r")


def test_a_few_names_have_room_in_one_line():
    assert few([]) == ""
    assert few(["a", "b"], 2) == "a, b"
    assert few(["a", "b", "c", "d"], 2) == "a, b and 2 more"


def test_one_thing_is_told_in_the_singular():
    assert [count(n, "clip") for n in (0, 1, 2)] == ["0 clips", "1 clip", "2 clips"]


def test_control_characters_are_shown_and_colours_kept() -> None:
    hostile = "a\x1b]0;title\x07b\x1b[2Jc\x9b1Ad\re\u202ef"
    assert printable(hostile) == r"a\x1b]0;title\x07b\x1b[2Jc\x9b1Ad\x0de\u202ef"
    coloured = "\x1b[31m\x1b[1mred\x1b[0m\tand\nplain é"
    assert printable(coloured) == coloured
    text = json_text({"name": "a\x9b\x7f\u202eb", "n": [1, "é"]})
    assert text == r'{"name": "a\u009b\u007f\u202eb", "n": [1, "é"]}'
    assert json.loads(text)["name"] == "a\x9b\x7f\u202eb"
