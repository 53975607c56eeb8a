"""The texts in the scripts and in the HTML of the film page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from obygaze import films

STATIC = Path(films.__path__[0]) / "static"
SHOWN_ATTRIBUTES = ("title", "aria-label", "placeholder", "alt")
# Before a slash that begins a regular expression, and no division.
BEFORE_REGEX = re.compile(r"[(,=:!&|?{};\n]\s*$")


class Literal(NamedTuple):
    """A string or a template of a script: its text, with {0}, {1} for values, and its tag."""

    text: str
    tag: str


class Script:
    """A reader of the literals of a script, also of those inside of templates."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.literals: list[Literal] = []
        self._code(0, within_template=False)

    def _code(self, place: int, *, within_template: bool) -> int:
        source = self.source
        depth = 0
        while place < len(source):
            sign = source[place]
            if source.startswith("//", place):
                place = (source + "\n").index("\n", place)
            elif sign == "/" and BEFORE_REGEX.search(source[:place][-20:]):
                place = self._regex(place)
            elif sign == '"':
                place = self._string(place)
            elif sign == "`":
                place = self._template(place)
            elif sign == "}" and within_template and depth == 0:
                return place + 1
            else:
                depth += {"{": 1, "}": -1}.get(sign, 0)
                place += 1
        return place

    def _regex(self, place: int) -> int:
        in_class = False
        place += 1
        while in_class or self.source[place] != "/":
            if self.source[place] == "\\":
                place += 1
            elif self.source[place] in "[]":
                in_class = self.source[place] == "["
            place += 1
        return place + 1

    def _string(self, start: int) -> int:
        end = start + 1
        while self.source[end] != '"':
            end += 2 if self.source[end] == "\\" else 1
        text = self.source[start + 1 : end].replace('\\"', '"')
        self.literals.append(Literal(text, ""))
        return end + 1

    def _template(self, start: int) -> int:
        tag = re.search(r"\w*$", self.source[:start][-30:])
        text = ""
        n_values = 0
        place = start + 1
        while self.source[place] != "`":
            if self.source.startswith("${", place):
                text += f"{{{n_values}}}"
                n_values += 1
                place = self._code(place + 2, within_template=True)
                continue
            if self.source[place] == "\\":
                place += 1
            text += self.source[place]
            place += 1
        self.literals.append(Literal(text, tag[0] if tag else ""))
        return place + 1


def script_names() -> list[str]:
    """The scripts, without the table of texts."""
    return sorted(path.name for path in STATIC.glob("*.js") if path.name != "texts.js")


def literals_of(name: str) -> list[Literal]:
    """The literals of a script."""
    return Script((STATIC / name).read_text("utf-8")).literals


def french_texts() -> dict[str, str]:
    """The table of texts: French by English."""
    source = (STATIC / "texts.js").read_text("utf-8")
    table = source.partition("const FRENCH = ")[2].partition("\n};")[0]
    texts: dict[str, str] = json.loads(table + "\n}")
    return texts


class PageTexts(HTMLParser):
    """The texts of index.html that are shown or read aloud."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.feed((STATIC / "index.html").read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the attributes that are shown."""
        self.tags.append(tag)
        self.texts += [
            value for name, value in attrs if name in SHOWN_ATTRIBUTES and value
        ]

    def handle_data(self, data: str) -> None:
        """Take a text, unless it is code."""
        text = " ".join(data.split())
        if text and self.tags[-1:] not in (["code"], ["kbd"], ["title"]):
            self.texts.append(text)

    def handle_endtag(self, tag: str) -> None:
        """Leave an element, with those in it that have no end."""
        while self.tags and self.tags.pop() != tag:
            pass
