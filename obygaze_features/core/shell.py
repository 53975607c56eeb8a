"""Quoting of values in the commands that messages suggest."""

import shlex
from collections.abc import Iterable


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
