"""A value in a command that a message tells a person to type."""

import shlex


def shell_word(value: object) -> str:
    """Return a value as one word of a command, in quotes where a shell would read it otherwise.

    >>> shell_word("films"), shell_word('clip_id in {"a", "b"}')
    ('films', '\\'clip_id in {"a", "b"}\\'')
    """
    return shlex.quote(str(value))
