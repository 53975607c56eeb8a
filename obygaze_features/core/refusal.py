"""Refuse invalid values in one error: which values, how many, where, and what to do."""

from collections.abc import Iterable, Sequence

from obygaze_features.core.errors import ObygazeError

_MOST_SHOWN = 3
_MOST_LETTERS = 80


def refuse_if(
    wrong: Iterable[object],
    error: type[ObygazeError],
    problem: str,
    *,
    where: object = None,
    hint: str | None = None,
) -> None:
    """Raise an error if there are invalid values.

    Args:
        wrong: The invalid values. The message shows three of them and counts the others.
        error: The class of the error, which states what the user can do.
        problem: What is wrong with the values, without a full stop.
        where: The file, store or option with the values. None: not stated.
        hint: What to do. None: no hint.

    >>> refuse_if(["a 1", "b"], ObygazeError, "clips have no film", where="clips.csv",
    ...           hint="obygaze manifest show 'a 1'")
    Traceback (most recent call last):
    obygaze_features.core.errors.ObygazeError: clips have no film: 'a 1', b
      in: clips.csv
      Try: obygaze manifest show 'a 1'
    """
    values = list(wrong)
    if not values:
        return
    place = None if where is None else str(where)
    raise error(f"{problem}: {join_first(values)}", where=place, hint=hint)


def join_first(values: Sequence[object]) -> str:
    """Return the first three values, and the number of other values.

    >>> join_first(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    first = ", ".join(map(_quote_value, values[:_MOST_SHOWN]))
    n_more = len(values) - _MOST_SHOWN
    return f"{first} and {n_more} more" if n_more > 0 else first


def _quote_value(value: object) -> str:
    """Return a value as text, in quotes if it is empty or has blanks, commas or quotes in it."""
    text = str(value)
    if len(text) > _MOST_LETTERS:
        text = text[:_MOST_LETTERS] + "..."
    is_plain = text and not any(letter.isspace() or letter in ",'\"" for letter in text)
    return text if is_plain else repr(text)
