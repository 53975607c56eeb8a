"""Cards and metadata of what is published: Croissant 1.1, CITATION.cff, .zenodo.json, Markdown.

Each is a template; text from outside is escaped, and no text is ever run as a template.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from obygaze_features.core.files import pretty_json

if TYPE_CHECKING:
    from jinja2 import Environment

CROISSANT_FILE, CITATION_FILE, ZENODO_FILE = "croissant.json", "CITATION.cff", ".zenodo.json"
# The licences that the hub, Zenodo and CITATION.cff know, by their SPDX identifiers.
LICENCES = (
    *("Apache-2.0", "BSD-3-Clause", "CC-BY-4.0", "CC-BY-NC-4.0", "CC-BY-NC-ND-4.0"),
    *("CC-BY-NC-SA-4.0", "CC-BY-SA-4.0", "CC0-1.0", "MIT", "ODbL-1.0"),
)


@dataclass(frozen=True)
class Publication:
    """A store or a model that is published, for every form of metadata.

    Args:
        kind: "store" or "model", which decides the sentences on responsible use.
        name: A short name.
        title: A title in words.
        description: A few sentences.
        collection: What it was made from.
        licence: Its licence.
        citation: What to cite for it.
        created: The day it was made, as 2026-01-31.
        creators: Who made it, each as "Family, Given" or the name of an institution.
        more: Further facts that the templates use.
    """

    kind: Literal["store", "model"]
    name: str
    title: str
    description: str
    collection: str
    licence: str = ""
    citation: str = ""
    created: str = ""
    creators: Sequence[str] = ()
    more: Mapping[str, Any] | None = None

    def document(self, name: str, **facts: Any) -> bytes:
        """Return the document of a name, such as `CROISSANT_FILE`.

        Args:
            name: The name of the file.
            facts: What else its template names in its first lines.
        """
        text = render(name.lstrip("."), publication=self, spdx=spdx_of(self.licence), **facts)
        if not name.endswith(".json"):
            return text.encode()
        return pretty_json({key: value for key, value in json.loads(text).items() if value})


def spdx_of(licence: str) -> str:
    """Return the SPDX identifier of a licence, "" where none is known here.

    >>> spdx_of("cc-by-4.0"), spdx_of("odbl"), spdx_of("by hand")
    ('CC-BY-4.0', 'ODbL-1.0', '')
    """
    given = licence.lower()
    return next((known for known in LICENCES if known.lower() in (given, f"{given}-1.0")), "")


def render(template: str, package: str = "obygaze_features.core", **facts: Any) -> str:
    """Return the text of a template in the folder `templates` of a package."""
    text: str = environment(package).get_template(template).render(facts)
    return text


@cache
def environment(package: str) -> Environment:
    """Return the environment of the templates of a package; HTML is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    made = Environment(
        loader=PackageLoader(package),
        autoescape=select_autoescape(["html"], default=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "number": _number,
        "json": partial(json.dumps, ensure_ascii=False),
        "text": partial(escape, quote=False),
    }
    return made


def _number(value: Any) -> str:
    # A whole number of 400 digits is no float, and cannot be written as one.
    is_float = isinstance(value, int | float) and abs(value) < 1e300
    return f"{value:.3f}" if is_float else "-"
