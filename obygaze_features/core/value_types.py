"""The types of values on the command line: numbers, words from a list, several items in one word.

An error says what the value must be: `must be a whole number from 1 to 1024, got 0`.
`usage_errors` puts the name of the option before it.
"""

import math
import os
from collections.abc import Sequence
from typing import Any

import click

from obygaze_features.core import system
from obygaze_features.core.clip_ids import clip_ids, ids_of_word, is_file_name
from obygaze_features.core.errors import near


class WholeNumber(click.IntRange):
    """A whole number within a range."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the number; the error says which numbers are allowed."""
        expected = _expected("a whole number", self)
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{expected}, got {value!r}", param, ctx)
        try:
            return super().convert(number, param, ctx)
        except click.BadParameter:
            self.fail(f"{expected}, got {number}", param, ctx)


class FiniteNumber(click.FloatRange):
    """A finite number within a range; click takes `nan` and `inf` for numbers of any range."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; the error says which numbers are allowed."""
        expected = _expected("a number", self)
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"{expected}, got {value!r}", param, ctx)
        try:
            return super().convert(number, param, ctx)
        except click.BadParameter:
            self.fail(f"{expected}, got {number:g}", param, ctx)


def range_in_words(kind: click.IntRange | click.FloatRange) -> str:
    """Return `from 0 to 1`, `more than 0`, or nothing where every number is allowed."""
    least = kind.min
    most = kind.max
    if least is not None and most is not None and not kind.min_open:
        return f"from {least:g} to {most:g}"
    limits = []
    if least is not None:
        limits.append(f"{'more than' if kind.min_open else 'at least'} {least:g}")
    if most is not None:
        limits.append(f"at most {most:g}")
    return ", ".join(limits)


def _expected(noun: str, kind: click.IntRange | click.FloatRange) -> str:
    """Return what a number must be, with its range."""
    words = range_in_words(kind)
    if words.startswith("from "):
        return f"must be {noun} {words}"
    return f"must be {noun}, {words}" if words else f"must be {noun}"


class OneOf(click.Choice[Any]):
    """One of several words."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return what the value must be, with the word that was perhaps meant."""
        words = [str(choice) for choice in self.choices]
        listed = " or ".join([", ".join(words[:-1]), words[-1]])
        return f"must be {listed}, got {value!r}{near(str(value), words)}"


class Items(click.ParamType[Sequence[str]]):
    """Items in one word; the function gets a tuple of those that are not empty."""

    name = "text"

    def __init__(self, separator: str) -> None:
        self.separator = separator

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Sequence[str]:
        """Return the items."""
        items = value.split(self.separator) if isinstance(value, str) else value
        stripped = (item.strip() for item in items)
        return tuple(item for item in stripped if item)


class ClipWords(Items):
    """Ids of clips with commas between them, or files that list them."""

    name = "clips"

    def __init__(self) -> None:
        super().__init__(",")

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Sequence[str]:
        """Return the ids."""
        if isinstance(value, str) and is_file_name(value):
            return tuple(clip_ids(value))
        words = super().convert(value, param, ctx)
        ids = [clip for word in words for clip in ids_of_word(word)]
        if not ids:
            self.fail("must be ids with commas between, or a file", param, ctx)
        return tuple(ids)


class NameOrPath(click.types.StringParamType):
    """A name in the workspace, a path or a URL, with `/` between folders on every system."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return the text."""
        return system.typed_path(super().convert(value, param, ctx))


class TypedPath(click.Path):
    """A path that a person typed, with `/` between folders on every system."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        """Return the path."""
        if isinstance(value, str):
            value = system.typed_path(value)
        return super().convert(value, param, ctx)
