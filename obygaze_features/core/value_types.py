"""Types of values on the command line: numbers, words of a list, several items in one word.

An error states the expected value: `must be a whole number, at least 1, got 0`. click writes the
name of the option before it.
"""

import math
import os
from collections.abc import Sequence
from typing import Any

import click

from obygaze_features.core import system
from obygaze_features.core.clip_ids import clip_ids, ids_of_word, is_file_name
from obygaze_features.core.errors import near


class Number(click.ParamType[float]):
    """A finite number within a range; `int` as kind means a whole number."""

    name = "number"

    def __init__(
        self,
        kind: type[int] | type[float],
        minimum: float | None = None,
        maximum: float | None = None,
        *,
        is_above: bool = False,
    ) -> None:
        self.kind = kind
        self.minimum = -math.inf if minimum is None else minimum
        self.maximum = math.inf if maximum is None else maximum
        self.is_above = is_above

    @property
    def range(self) -> str:
        """The range in words, such as `at least 1, at most 64`, or "" for every number."""
        limits = []
        if self.minimum > -math.inf:
            than = "more than" if self.is_above else "at least"
            limits.append(f"{than} {self.minimum:g}")
        if self.maximum < math.inf:
            limits.append(f"at most {self.maximum:g}")
        return ", ".join(limits)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; an error states the allowed numbers."""
        try:
            number = self.kind(value)
        except ValueError:
            number = math.nan
        is_too_small = number == self.minimum and self.is_above
        is_within = self.minimum <= number <= self.maximum and not is_too_small
        if is_within and math.isfinite(number):
            return number
        noun = "a whole number" if self.kind is int else "a number"
        expected = ", ".join(filter(None, (noun, self.range)))
        shown = repr(value) if math.isnan(number) else value
        self.fail(f"must be {expected}, got {shown}", param, ctx)


class OneOf(click.Choice[Any]):
    """One of several words."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return the expected words, with the word that is most like the typed value."""
        words = [str(choice) for choice in self.choices]
        *others, last = words
        listed = f"{', '.join(others)} or {last}" if others else last
        return f"must be {listed}, got {value!r}{near(str(value), words)}"


class Items(click.ParamType[Sequence[str]]):
    """Items in one word, split at a separator; empty items are removed."""

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
    """Clip ids separated by commas, or files that list clip ids."""

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
        ids: list[str] = []
        for word in words:
            ids += ids_of_word(word)
        if not ids:
            self.fail("must be ids separated by commas, or a file", param, ctx)
        return tuple(ids)


class NameOrPath(click.types.StringParamType):
    """A name in the workspace, a path or a URL, with `/` between folders on every system."""

    name = "path"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return the text, with `/` between folders."""
        return system.typed_path(super().convert(value, param, ctx))


class TypedPath(click.Path):
    """A typed path, with `/` between folders on every system."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.name = "path"  # the help shows PATH for files and folders alike

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
