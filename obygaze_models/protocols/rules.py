"""What a value of a protocol may be: small checks that answer with the reason for a refusal."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

Rule = Callable[[Any], str | None]
"""Takes a value as TOML has it; None where it is allowed, else what it must be."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.+-]{0,79}")


def text(value: Any) -> str | None:
    """Any text."""
    return None if isinstance(value, str) else "must be a text in quotes"


def name(value: Any) -> str | None:
    """A name that can stand in tables and file names."""
    if isinstance(value, str) and NAME.fullmatch(value):
        return None
    return "must be a name of letters, digits, blanks, . _ + -"


def boolean(value: Any) -> str | None:
    """True or false."""
    return None if isinstance(value, bool) else "must be true or false"


def choice(allowed: Collection[str]) -> Rule:
    """One of some words."""

    def check(value: Any) -> str | None:
        if isinstance(value, str) and value in allowed:
            return None
        return f"must be one of {', '.join(allowed)}" + near(str(value), allowed)

    return check


def whole(least: int, most: int = 10**9) -> Rule:
    """A whole number."""

    def check(value: Any) -> str | None:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return None
        bound = f"at least {least}" if most == 10**9 else f"from {least} to {most}"
        return f"must be a whole number, {bound}"

    return check


def number(least: float, most: float = float("inf"), *, above: bool = False) -> Rule:
    """A number; `above` leaves out the lower bound itself."""

    def check(value: Any) -> str | None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and (least < value if above else least <= value) and value <= most:
            return None
        lower = f"above {least:g}" if above else f"at least {least:g}"
        return f"must be a number {lower}" + (f", at most {most:g}" if most < float("inf") else "")

    return check


def several(rule: Rule, *, least: int = 0) -> Rule:
    """A list of values that each keep a rule, none of them twice."""

    def check(value: Any) -> str | None:
        if not isinstance(value, list) or len(value) < least:
            return "must be a list" + (f" of at least {least}" if least else "")
        for item in value:
            reason = rule(item)
            if reason:
                return f"{item!r} in it {reason}"
        if len({repr(item) for item in value}) < len(value):
            return "holds something twice"
        return None

    return check


def either(*rules: Rule) -> Rule:
    """A value that keeps one of some rules."""

    def check(value: Any) -> str | None:
        reasons = [reason for rule in rules if (reason := rule(value))]
        return None if len(reasons) < len(rules) else " or ".join(reasons)

    return check


def mapping(rule: Rule) -> Rule:
    """A table of names, each with a value that keeps a rule."""

    def check(value: Any) -> str | None:
        if not isinstance(value, Mapping) or not value:
            return "must be a table { name = value, ... }"
        for key, item in value.items():
            reason = rule(item)
            if reason:
                return f"{key} = {item!r} in it {reason}"
        return None

    return check


def near(word: str, known: Iterable[str]) -> str:
    """`, did you mean ...?` where some known word is like this one."""
    folded = {item.casefold(): item for item in known}
    found = difflib.get_close_matches(word.casefold(), folded, 1, 0.6)
    return f", did you mean {folded[found[0]]!r}?" if found else ""
