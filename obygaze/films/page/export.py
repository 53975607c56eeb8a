"""The page as files that a browser opens without a server, for a colleague.

Browsers refuse modules in a file, so the modules of the page are joined into one script.
"""

import json
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from obygaze.films.page.routes import SCRIPTS
from obygaze.films.page.site import Site
from obygaze_features.core.files import json_values, write_then_rename
from obygaze_features.core.own_results import (
    PAGE,
    PAGE_DATA,
    PAGE_DATA_START,
    check_folder,
)

MODULE = '<script type="module" src="main.js"></script>'
JOINED = '<script src="data.js" defer></script>\n<script src="page.js" defer></script>'
_NAMED = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
_WHOLE = re.compile(r'^import \* as (\w+) from "\./(\w+)\.js";$', re.MULTILINE)
_ONLY = re.compile(r'^import "\./\w+\.js";$', re.MULTILINE)
_EXPORTED = re.compile(
    r"^export ((?:async )?(?:const|class|function) ([\w$]+))", re.MULTILINE
)


def export_page(site: Site, folder: Path) -> None:
    """Write the page as files; they contain no videos and no pictures.

    Args:
        site: The page.
        folder: The new folder; an exported page there is replaced, if nothing was added to it.
    """
    shown = replace(site, marks=None)
    overview = shown.overview()
    content: dict[str, Any] = {"overview": overview}
    for film in shown.films:
        content[f"film {film}"] = {**shown.film(film), "pieces": []}
    for number, _ in enumerate((overview["scored_by"] or {"cells": []})["cells"]):
        content[f"scores {number}"] = shown.scores(number)
    for clip_id in shown.shown:
        content[f"clip {clip_id}"] = shown.clip(clip_id)
    data = json.dumps(json_values(content), allow_nan=False).encode("utf-8")
    page = _text_of("index.html").replace(MODULE, JOINED)
    texts = {"index.html": page, "page.css": _text_of("page.css"), "page.js": joined()}

    def check() -> None:
        check_folder(folder, PAGE, force=True)

    with write_then_rename(folder, check) as draft:
        draft.mkdir()
        for name, text in texts.items():
            (draft / name).write_bytes(text.encode("utf-8"))
        (draft / PAGE_DATA).write_bytes(PAGE_DATA_START + data + b"\n")


def joined() -> str:
    """Return the modules of the page as one script: each is a function with its own names."""
    parts = ['"use strict";', "const modules = {};"]
    for name in SCRIPTS:
        text = _text_of(f"{name}.js")
        text = _NAMED.sub(r"const \1 = modules.\2;", text)
        text = _WHOLE.sub(r"const \1 = modules.\2;", text)
        text = _ONLY.sub("", text)
        names = ", ".join(match.group(2) for match in _EXPORTED.finditer(text))
        text = _EXPORTED.sub(r"\1", text)
        parts.append(f"(() => {{\n{text}\nmodules.{name} = {{ {names} }};\n}})();")
    return "\n".join(parts)


def _text_of(name: str) -> str:
    return files(__package__).joinpath("static", name).read_text("utf-8")
