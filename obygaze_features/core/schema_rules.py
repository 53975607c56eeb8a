"""Rules for the values of TOML and JSON files: each returns what a value must be, or None.

`schema_check` applies them to a file, key by key.
"""

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

Rule = Callable[[Any], str | None]
"""Takes a value; returns None where it is allowed, else words such as `must be a string`."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.+-]{0,79}")


def anything(value: Any) -> str | None:
    """Allow every value."""
    del value
    return None


def nothing(value: Any) -> str | None:
    """Allow null only."""
    return None if value is None else "must be null"


def text(value: Any) -> str | None:
    """Allow any string."""
    return None if isinstance(value, str) else "must be a string"


def filled(value: Any) -> str | None:
    """Allow any string that is not empty."""
    return (
        None
        if isinstance(value, str) and value
        else "must be a string that is not empty"
    )


def name(value: Any) -> str | None:
    """Allow a name that can stand in tables and in file names."""
    if isinstance(value, str) and _NAME.fullmatch(value):
        return None
    return "must be a name of letters, digits, blanks, . _ + -"


def boolean(value: Any) -> str | None:
    """Allow true and false."""
    return None if isinstance(value, bool) else "must be true or false"


def matching(form: str, expected: str) -> Rule:
    """Allow strings that match a regular expression; `expected` names them in messages."""
    pattern = re.compile(form)

    def check(value: Any) -> str | None:
        return (
            None
            if isinstance(value, str) and pattern.fullmatch(value)
            else f"must be {expected}"
        )

    return check


def choice(allowed: Collection[str], *, may_be_empty: bool = False) -> Rule:
    """Allow one of some words; "" too where it may be empty."""

    def check(value: Any) -> str | None:
        if isinstance(value, str) and (
            value in allowed or (may_be_empty and not value)
        ):
            return None
        return f"must be one of {', '.join(allowed)}" + near(str(value), allowed)

    return check


def whole(least: int | None = 0, most: int | None = None) -> Rule:
    """Allow a whole number within bounds; None is no bound."""

    def check(value: Any) -> str | None:
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and _within(value, least, most)
        ):
            return None
        return f"must be a whole number{_bounds(least, most)}"

    return check


def number(
    least: float | None = None, most: float | None = None, *, above: bool = False
) -> Rule:
    """Allow a finite number within bounds; `above` excludes the lower bound itself."""

    def check(value: Any) -> str | None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and _within(value, least, most) and not (above and value == least):
            return None
        return f"must be a number{_bounds(least, most, above=above)}"

    return check


def _within(value: float, least: float | None, most: float | None) -> bool:
    lower = -float("inf") < value if least is None else least <= value
    return lower and (value < float("inf") if most is None else value <= most)


def _bounds(least: float | None, most: float | None, *, above: bool = False) -> str:
    bounds = ""
    if least is not None:
        bounds = f", {'above' if above else 'at least'} {_in_full(least)}"
    if most is not None:
        bounds += f", at most {_in_full(most)}"
    return bounds


def _in_full(bound: float) -> str:
    """Return a bound with all digits of a whole number."""
    return f"{bound:d}" if isinstance(bound, int) else f"{bound:g}"


def list_of(
    rule: Rule, *, least: int = 0, most: int | None = None, unique: bool = True
) -> Rule:
    """Allow a list of `least` to `most` values that each keep a rule, with `unique` none twice."""

    def check(value: Any) -> str | None:
        if not isinstance(value, list | tuple) or not _within(len(value), least, most):
            if isinstance(value, str | int | float) and _within(1, least, most):
                return f"must be a list, such as {json.dumps([value])}"
            bounds = _bounds(least or None, most).lstrip(",")
            return f"must be a list of{bounds} values" if bounds else "must be a list"
        for item in value:
            reason = rule(item)
            if reason:
                return f"each item {reason}"
        if unique and len({repr(item) for item in value}) < len(value):
            return "must not list a value twice"
        return None

    return check


def mapping_of(rule: Rule) -> Rule:
    """Allow a table of names that is not empty, each with a value that keeps a rule."""

    def check(value: Any) -> str | None:
        if not isinstance(value, Mapping) or not value:
            return "must be a table { name = value, ... }"
        for key, item in value.items():
            reason = rule(item)
            if reason:
                return f"{key} {reason}"
        return None

    return check


def any_of(*rules: Rule) -> Rule:
    """Allow a value that keeps at least one of some rules."""

    def check(value: Any) -> str | None:
        reasons = []
        for rule in rules:
            reason = rule(value)
            if not reason:
                return None
            reasons.append(reason)
        return " or ".join(reasons)

    return check


def near(word: str, words: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the known word that is most like this one, or ``."""
    folded = {item.casefold(): item for item in words}
    similar = difflib.get_close_matches(word.casefold(), folded, 1, 0.6)
    return f" (did you mean {folded[similar[0]]!r}?)" if similar else ""
