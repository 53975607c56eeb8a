"""The HTML file of a page, with its style sheet, its scripts, and the document that it shows.

Browsers refuse to load modules into a local file, so the modules become one script.
"""

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from obygaze_features import __version__
from obygaze_features.core.files import json_values

# In this order each script imports only scripts before it.
SCRIPTS = ("state", "tools", "player", "timeline", "clips", "keys", "main")
_IMPORTED = re.compile(
    r'^import (?:\* as )?(\{[^}]*\}|\w+) from "\./(\w+)\.js";$', re.MULTILINE
)
_EXPORTED = re.compile(
    r"^export ((?:async )?(?:const|class|function) ([\w$]+))", re.MULTILINE
)


def render_page(document: Mapping[str, Any]) -> bytes:
    """Return the page that shows a document."""
    data = json.dumps(json_values(document), allow_nan=False)
    # A "<" in the data could end the HTML element of the document.
    data = data.replace("<", "\\u003c")
    page = _read_text("page.html").replace("{{ version }}", __version__)
    page = page.replace("{{ style }}", _read_text("page.css"))
    page = page.replace("{{ script }}", joined())
    # The document is inserted last, so that its texts are not searched for placeholders.
    return page.replace("{{ document }}", data).encode("utf-8")


def joined() -> str:
    """Return the modules of the page as one script with a function for each module."""
    parts = ['"use strict";', "const modules = {};"]
    for name in SCRIPTS:
        text = _read_text(f"{name}.js")
        text = _IMPORTED.sub(r"const \1 = modules.\2;", text)
        names = ", ".join(match.group(2) for match in _EXPORTED.finditer(text))
        text = _EXPORTED.sub(r"\1", text)
        parts.append(f"(() => {{\n{text}\nmodules.{name} = {{ {names} }};\n}})();")
    return "\n".join(parts)


def _read_text(name: str) -> str:
    return files(__package__).joinpath("static", name).read_text("utf-8")
