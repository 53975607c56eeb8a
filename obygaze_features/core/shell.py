"""Quoting of values in the commands that messages suggest, and words NAME=VALUE."""

import shlex
from collections.abc import Iterable

from obygaze_features.core.errors import FixUsage


def shell_word(value: object) -> str:
    """Return a value as one word of a command, quoted if a shell would change it.

    >>> shell_word("films"), shell_word('clip_id in {"a", "b"}')
    ('films', '\\'clip_id in {"a", "b"}\\'')
    """
    return shlex.quote(str(value))


def shell_line(words: Iterable[object]) -> str:
    """Return words as a command line that a shell splits into the same words.

    >>> shell_line(["obygaze", "manifest", "show", "my films"])
    "obygaze manifest show 'my films'"
    """
    return " ".join(map(shell_word, words))


def named_values(
    words: Iterable[str], option: str, *, may_be_empty: bool = False
) -> dict[str, str]:
    """Return the words NAME=VALUE of a repeatable option as a mapping.

    With `may_be_empty`, the words are OLD=NEW: one side may be empty, and OLD may contain "=".
    """
    values: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if may_be_empty:
            name, sign, value = word.rpartition("=")
        is_pair = sign and (may_be_empty or (name and value))
        if not is_pair:
            raise FixUsage(f"{option} must be of the form NAME=VALUE, got {word!r}")
        if name in values:
            raise FixUsage(f"{option} names {name!r} twice")
        values[name] = value
    return values
