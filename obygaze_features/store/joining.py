"""What a joined store is made of: vectors of several stores side by side, each a part of a row.

Runs, models, searches and pages ask `recipe.joined_parts` whether features are joined, and
`part_slices` where each part is in a row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from obygaze_features.core.console import few
from obygaze_features.core.errors import FixInput
from obygaze_features.core.schema_check import Filled, Record, Sha256

if TYPE_CHECKING:
    from obygaze_features.store.layout import Array

# The key of the recipe of a joined store that has its parts.
JOINED = "joined"
# Where all parts are of windows, the key that says how films were cut.
SAMPLING = "sampling"
# The only array of a joined store.
JOINED_ARRAY = "clip"
JOINED_DTYPE = "float32"
# What becomes float32 without a change of any number.
DTYPES_OF_PARTS = ("float16", JOINED_DTYPE)
# STORE:ARRAY. No URL ends so.
_WITH_ARRAY = re.compile(r"(.+):([a-z][a-z0-9_]*)")


class JoinedPart(Record, frozen=True):
    """One part of the rows of a joined store.

    Args:
        title: The title of its recipe, such as its backbone.
        fingerprint: The fingerprint of its recipe; of windows, that of the recipe for clips.
        array: The array of its store.
        dtype: The number format of this array, one of `DTYPES_OF_PARTS`.
        width: How many numbers a row has of it.
        medium: What of a clip its model took, as the recipe of its store says it.
    """

    title: Filled
    fingerprint: Sha256
    array: Filled
    dtype: str
    width: Annotated[int, Meta(ge=1)]
    medium: str


def are_of_words(parts: Sequence[JoinedPart]) -> bool:
    """Return whether all parts are made of words, so that a joined store may count them."""
    return {part.medium for part in parts} == {"words"}


def check_joined_arrays(
    recipe: Mapping[str, Any], arrays: Sequence[Array], where: str
) -> None:
    """Raise an error unless a store of a recipe may have these arrays, if it joins parts."""
    # Imported late, since it needs NumPy.
    from obygaze_features.store.layout import N_WORDS, TIMES_OF_WINDOWS

    parts = parts_of(recipe)
    vectors = (JOINED_ARRAY, JOINED_DTYPE, (sum(part.width for part in parts),))
    expected: list[tuple[str, str, tuple[int, ...]]] = [vectors]
    if len(arrays) > 1 and are_of_words(parts):
        expected.append((N_WORDS, "int32", ()))
    elif len(arrays) > 1 or SAMPLING in recipe:
        expected += [(name, "float64", ()) for name in TIMES_OF_WINDOWS]
    found = [(array.name, array.dtype, array.shape) for array in arrays]
    if parts and found != expected:
        raise FixInput(
            f"a store that joins others has the array {JOINED_ARRAY} of all their vectors, got"
            f" {few([array.name for array in arrays])}",
            where=where,
        )


def part_slices(parts: Sequence[JoinedPart]) -> list[slice]:
    """Return where each part is in a row."""
    slices = []
    first = 0
    for part in parts:
        slices.append(slice(first, first + part.width))
        first += part.width
    return slices


def part_names(parts: Sequence[JoinedPart]) -> list[str]:
    """Return a name for each part, which no other part has: the title, if that is enough."""
    names = []
    for part in parts:
        name = part.title
        same_title = [other for other in parts if other.title == part.title]
        if len(same_title) > 1:
            name = f"{name}:{part.array}"
        if len([other for other in same_title if other.array == part.array]) > 1:
            name = f"{name}@{part.fingerprint[:8]}"
        names.append(name)
    return names


def split_array(text: str) -> tuple[str, str]:
    """Return a store as it was named, without `:ARRAY`, and the array; "" if none is named."""
    found = _WITH_ARRAY.fullmatch(text)
    return (found[1], found[2]) if found else (text, "")


def canonical_order(parts: Sequence[JoinedPart]) -> list[int]:
    """Return the places of parts in the order that they have in a recipe, whoever joins them."""

    def key(place: int) -> tuple[str, str, str]:
        part = parts[place]
        return (part.title, part.fingerprint, part.array)

    return sorted(range(len(parts)), key=key)


def recipe_of_parts(
    parts: Sequence[JoinedPart], windows: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the recipe of a joined store, as plain JSON.

    Args:
        parts: The parts.
        windows: How films were cut, where all parts are of windows.
    """
    recipe: dict[str, Any] = {JOINED: [msgspec.to_builtins(part) for part in parts]}
    if windows:
        recipe[SAMPLING] = dict(windows)
    return recipe


def parts_of(recipe: Mapping[str, Any]) -> tuple[JoinedPart, ...]:
    """Return the parts in a recipe that may come from a stranger."""
    if JOINED not in recipe:
        return ()
    where = f"recipe.{JOINED}"
    try:
        parts = msgspec.convert(recipe[JOINED], tuple[JoinedPart, ...])
    except msgspec.ValidationError as error:
        raise FixInput(f"invalid part: {error}", where=where) from error
    names = {(part.fingerprint, part.array) for part in parts}
    if len(names) < len(parts) or len(parts) < 2:
        raise FixInput("expected at least two parts, each of them once", where=where)
    if any(part.dtype not in DTYPES_OF_PARTS for part in parts):
        raise FixInput(
            f"dtype must be one of {', '.join(DTYPES_OF_PARTS)}", where=where
        )
    if canonical_order(parts) != list(range(len(parts))):
        raise FixInput("the parts are not in their order", where=where)
    return parts
