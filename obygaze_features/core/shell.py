"""Values in a command that a message tells a person to type."""

import shlex
from collections.abc import Iterable


def shell_word(value: object) -> str:
    """Return a value as one word of a command, in quotes where a shell would read it otherwise.

    >>> shell_word("films"), shell_word('clip_id in {"a", "b"}')
    ('films', '\\'clip_id in {"a", "b"}\\'')
    """
    return shlex.quote(str(value))


def shell_line(words: Iterable[object]) -> str:
    """Return words as one line that a shell divides into the same words.

    >>> shell_line(["obygaze", "manifest", "show", "my films"])
    "obygaze manifest show 'my films'"
    """
    return " ".join(map(shell_word, words))
