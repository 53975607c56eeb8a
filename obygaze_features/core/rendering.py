"""Cards, pages and other documents from templates.

Values are made safe for the file type of the template, except values marked with `safe` and results
of the filters of this module. A value is never interpreted as a template.
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
MEDIUM = "shown_in"  # the value of a template that states the medium of its text


def render(
    template: str, package: str = CORE, *, medium: Medium | None = None, **facts: Any
) -> str:
    """Return the text of a template in the folder `templates` of a package.

    Args:
        template: The name of the file.
        package: The package.
        medium: Where values are shown: in a terminal or in Markdown. None: the extension of the
            template selects it.
        facts: The values.
    """
    made = environment(package).get_template(template)
    text: str = made.render({**facts, MEDIUM: medium})
    return text


@cache
def environment(package: str) -> Environment:
    """Return the environment of the templates of a package; it escapes values in HTML."""
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
        finalize=pass_context(_make_safe),
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {
        "number": _number,
        "markdown": _markdown,
        "json": _json,
        "code": _code,
        "quote": _quote_word,
    }
    return templates


# The medium of values, by the extension of the template. Templates of other formats (JSON, YAML,
# LaTeX, shell) apply a filter to each value. Jinja escapes values in HTML afterwards.
_MEDIA: Mapping[str, Medium] = {
    ".txt": "terminal",
    ".md": "markdown",
    ".html": "terminal",
}


def _make_safe(context: Context, value: Any) -> Any:
    """Return a value as text that is safe in its template."""
    medium = context.get(MEDIUM) or _MEDIA.get(PurePath(context.name or "").suffix)
    is_safe = isinstance(value, SafeText | int | float) or hasattr(value, "__html__")
    if medium is None or is_safe:
        return value
    text = str(value)
    safe = safe_text(text, medium)
    if not safe:
        return text[:1].replace("\n", " ")
    # Keep the blanks around words of a template.
    before = " " if text.startswith(" ") else ""
    after = " " if text.endswith(" ") else ""
    return f"{before}{safe}{after}"


class SafeText(str):
    """The result of a filter: text that is safe in the template."""

    __slots__ = ()


def _markdown(value: Any) -> str:
    return SafeText(safe_text(value, "markdown"))


def _number(value: Any) -> str:
    # A whole number of 400 digits cannot be converted to a float.
    is_float = isinstance(value, int | float) and abs(value) < 1e300
    return SafeText(f"{value:z.3f}" if is_float else "-")


def _json(value: Any) -> str:
    """Return a text, or a list of texts, as JSON, which is also valid YAML."""
    shown = (
        visible(value)
        if isinstance(value, str)
        else [visible(str(item)) for item in value]
    )
    return SafeText(json.dumps(shown, ensure_ascii=False))


def _code(value: Any) -> str:
    """Return a text for a span or a block of code in Markdown."""
    return SafeText(safe_text(value, "terminal").replace("`", "'"))


def _quote_word(value: Any) -> str:
    """Return a text as one word of a command line."""
    return SafeText(shell_word(_code(value)))
