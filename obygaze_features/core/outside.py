"""Text from outside, such as the title of a received store, made safe to be shown.

A publisher decides what a licence, a title or a concept is called. Shown as it is, such a text
could fake lines of a terminal, headings and links of a card, or markup of a page.
"""

import re
from html import escape
from typing import Literal

Medium = Literal["terminal", "markdown"]
# Between the letters of scripts that need them, and in emoji.
_JOINERS = "\u200c\u200d"
_LINE_BREAKS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")
# Markup within a line; an underscore within a word is none.
_MARKUP = re.compile(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])")
# What makes a heading, a list, a quote or a rule at the start of a line.
_LINE_START = re.compile(r"#|[+-](?= |$)|(?:-[- ]*|=+)$|[0-9]{1,9}(?=[.)](?: |$))")


def safe_text(text: object, medium: Medium) -> str:
    """Return a text from outside as one line that is only text in a medium.

    Blanks and line breaks become one space. Other characters that are not printed, such as those
    that control a terminal or turn the direction of writing, are shown as escapes.

    Args:
        text: The text, or a value that is shown as text.
        medium: Where it is shown: `terminal` or `markdown`.

    >>> safe_text("CC0\\n\\n# Free\\x1b[2J", "terminal")
    'CC0 # Free\\\\x1b[2J'
    >>> safe_text("# [here](javascript:alert)", "markdown")
    '\\\\# \\\\[here\\\\](javascript:alert)'
    """
    line = visible(" ".join(str(text).split()))
    if medium == "terminal":
        return line
    marked = _MARKUP.sub(r"\\\g<0>", line)
    start = _LINE_START.match(marked)
    if start is not None:
        # Of "1." the dot is escaped, since a backslash before a digit would be shown.
        position = start.end() if start[0].isdigit() else start.start()
        marked = f"{marked[:position]}\\{marked[position:]}"
    # Not all programs accept a backslash before "<".
    return escape(marked, quote=False)


def visible(text: str) -> str:
    """Return text in which characters that are not printed are escapes, except line breaks."""
    if text.isprintable():
        return text
    return "".join(map(_visible_character, text))


def one_line(text: str) -> str:
    """Return text with a space in place of line breaks."""
    return text if text.isprintable() else _LINE_BREAKS.sub(" ", text)


def _visible_character(character: str) -> str:
    if character.isprintable() or character == "\n" or character in _JOINERS:
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
