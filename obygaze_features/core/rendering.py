"""Cards, pages and other documents that are made from templates.

What a template prints is made safe for its kind of file, except what it marks with `safe` and what
passes through a filter of this module. No text is run as a template.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from obygaze_features.core.shell import shell_word
from obygaze_features.core.untrusted_text import Medium, safe_text, visible

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.runtime import Context

CORE = "obygaze_features.core"
MEDIUM = "shown_in"  # the value of a template that says where its text is shown


def render(
    template: str, package: str = CORE, *, medium: Medium | None = None, **facts: Any
) -> str:
    """Return the text of a template in the folder `templates` of a package.

    Args:
        template: The name of the file, whose suffix says what its values are made safe for.
        package: The package.
        medium: What they are made safe for, if the text is shown elsewhere.
        facts: The values.
    """
    made = environment(package).get_template(template)
    text: str = made.render({**facts, MEDIUM: medium})
    return text


@cache
def environment(package: str) -> Environment:
    """Return the environment of the templates of a package; HTML is escaped."""
    from jinja2 import (
        Environment,
        PackageLoader,
        StrictUndefined,
        pass_context,
        select_autoescape,
    )

    templates = Environment(
        loader=PackageLoader(package),
        autoescape=select_autoescape(["html"], default=False),
        undefined=StrictUndefined,
        finalize=pass_context(_printed),
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {
        "number": _number,
        "markdown": _markdown,
        "json": _json,
        "code": _code,
        "quote": _quoted,
    }
    return templates


# How values are made safe in the templates of each extension. Those of other formats (JSON, YAML,
# LaTeX, shell) name the filter themselves; values in HTML are escaped by Jinja after this.
_MEDIA: Mapping[str, Medium] = {
    ".txt": "terminal",
    ".md": "markdown",
    ".html": "terminal",
}


def _printed(context: Context, value: Any) -> Any:
    """Return what a template prints for a value."""
    medium = context.get(MEDIUM) or _MEDIA.get(PurePath(context.name or "").suffix)
    is_safe = isinstance(value, SafeText | int | float) or hasattr(value, "__html__")
    if medium is None or is_safe:
        return value
    text = str(value)
    safe = safe_text(text, medium)
    if not safe:
        return text[:1].replace("\n", " ")
    # The words of a template keep the blanks around them.
    before = " " if text.startswith(" ") else ""
    after = " " if text.endswith(" ") else ""
    return f"{before}{safe}{after}"


class SafeText(str):
    """What a filter returns: text that is safe where the template puts it."""

    __slots__ = ()


def _markdown(value: Any) -> str:
    return SafeText(safe_text(value, "markdown"))


def _number(value: Any) -> str:
    # A whole number of 400 digits is no float, and cannot be written as one.
    is_float = isinstance(value, int | float) and abs(value) < 1e300
    return SafeText(f"{value:.3f}" if is_float else "-")


def _json(value: Any) -> str:
    """Return a text, or a list of texts, as JSON; it is YAML too."""
    shown = (
        visible(value)
        if isinstance(value, str)
        else [visible(str(item)) for item in value]
    )
    return SafeText(json.dumps(shown, ensure_ascii=False))


def _code(value: Any) -> str:
    """Return a text for a span or a block of code in Markdown."""
    return SafeText(safe_text(value, "terminal").replace("`", "'"))


def _quoted(value: Any) -> str:
    """Return a text as one word of a command line."""
    return SafeText(shell_word(_code(value)))
