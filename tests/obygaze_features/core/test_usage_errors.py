"""A wrong command line is answered in the words of the program, with the option as it is typed."""

from __future__ import annotations

import pytest
from support.cli import call_obygaze


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "extract run x --workers 0",
            "--workers must be a whole number from 1 to 1024, got 0",
        ),
        (
            "extract run x --workers five",
            "--workers must be a whole number from 1 to 1024, got 'five'",
        ),
        (
            "store verify x --decode 0",
            "--decode must be a whole number, at least 1, got 0",
        ),
        (
            "extract run x --max-substituted 2",
            "--max-substituted must be a number from 0 to 1, got 2",
        ),
        (
            "extract run x --max-substituted nan",
            "--max-substituted must be a number from 0 to 1, got 'nan'",
        ),
        (
            "extract run x --sampling kard",
            "--sampling must be card or keyframes, got 'kard' (did you mean 'card'?)",
        ),
        (
            "--color blue doctor",
            "--color must be auto, always or never, got 'blue'",
        ),
        (
            "extract run x --smpling card",
            "no option '--smpling' (did you mean '--sampling'?)",
        ),
        (
            "extract run x y",
            "unexpected argument: y (obygaze extract run takes MANIFEST)",
        ),
        (
            "extract run x y z",
            "unexpected arguments: y z (obygaze extract run takes MANIFEST)",
        ),
        (
            "manifest show x --concept Body --film a --concept Look",
            "--concept takes one value, and is given 2 times",
        ),
        ("store ls x", "unexpected argument: x (obygaze store ls takes none)"),
        ("extract run", "missing argument MANIFEST"),
        ("extract run x --device", "--device needs a value"),
        ("extract run x --tf32=yes", "--tf32 takes no value"),
        (
            "manifest link films nowhere",
            "FOLDER: directory 'nowhere' does not exist",
        ),
        ("store lss", "no command 'lss' (did you mean 'ls'?)"),
    ],
)
def test_usage_errors_say_what_is_expected_and_point_to_the_help(
    words: str, message: str
) -> None:
    answer = call_obygaze(*words.split())
    assert answer.code == 2
    error, hint = answer.stderr.splitlines()
    assert error == f"Error: {message}"
    assert hint.startswith("  Try: obygaze ")
    assert hint.endswith(" --help")


def test_an_option_is_not_suggested_for_its_hyphens() -> None:
    refused = call_obygaze("manifest", "show", "films", "--store", "x")
    assert "no option '--store'" in refused.stderr
    assert "--json" not in refused.stderr
