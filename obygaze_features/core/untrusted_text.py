"""Untrusted text, such as the title of a received store, made safe to show.

A publisher chooses the text of a licence, a title or a concept. Without changes, such a text could
fake lines of a terminal, headings and links of a card, or the markup of a page.
"""

import re
from html import escape
from typing import Literal

Medium = Literal["terminal", "markdown"]
# Invisible joiners, which some scripts and emoji need between characters.
_JOINERS = "\u200c\u200d"
_LINE_BREAKS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")
# Markup within a line; an underscore within a word is not markup.
_MARKUP = re.compile(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])")
# The start of a line that makes it a heading, a list, a quote or a rule.
_LINE_START = re.compile(r"#|[+-](?= |$)|(?:-[- ]*|=+)$|[0-9]{1,9}(?=[.)](?: |$))")


def safe_text(text: object, medium: Medium) -> str:
    """Return untrusted text as one line that a medium shows as plain text.

    Blanks and line breaks become one space. Other characters that are not printable, such as
    terminal controls and marks of writing direction, become escapes.

    Args:
        text: The text, or a value to show as text.
        medium: The medium: `terminal` or `markdown`.

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
        # In "1.", escape the dot: Markdown shows a backslash before a digit.
        position = start.end() if start[0].isdigit() else start.start()
        marked = f"{marked[:position]}\\{marked[position:]}"
    # Not all programs accept a backslash before "<".
    return escape(marked, quote=False)


def visible(text: str) -> str:
    """Return text with escapes for characters that are not printable, except line breaks."""
    if text.isprintable():
        return text
    return "".join(map(_visible_character, text))


def one_line(text: str) -> str:
    """Return text with each line break replaced by a space."""
    return text if text.isprintable() else _LINE_BREAKS.sub(" ", text)


def _visible_character(character: str) -> str:
    if character.isprintable() or character == "\n" or character in _JOINERS:
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
