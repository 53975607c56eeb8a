"""The film of each excerpt of LIRIS-ACCEDE, out of its description files: excerpts share films."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from xml.parsers import expat

from obygaze_features.core.console import human
from obygaze_features.core.errors import NotFound
from obygaze_features.core.schema_check import Violations
from obygaze_features.manifest.tables import MAX_FILE

WANTED = ("id", "name", "movie", "start", "end")
_OTHER = re.compile(r"[^A-Za-z0-9._+-]+")
_FRAME = re.compile(r"[0-9]{1,9}")
_LONGEST_TEXT = 10_000


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Where an excerpt comes from; both frames are in it, counted in the film."""

    line: int
    id: str
    name: str
    movie_id: str
    start_frame: str
    end_frame: str


def read_films(path: Path, wrong: Violations) -> Iterator[Excerpt]:
    """The excerpts of a description file."""
    if not path.is_file():
        raise NotFound("no such file", where=str(path))
    size = path.stat().st_size
    if size > MAX_FILE:
        wrong.add(None, None, f"it has {human(size)}, the most that is read is {human(MAX_FILE)}")
        return
    reader = _Reader(wrong)
    with path.open("rb") as stream:
        reader.read(stream)
    for line, cells in reader.rows:
        excerpt = _excerpt(line, {name: text.strip() for name, text in cells.items()}, wrong)
        if excerpt is not None:
            yield excerpt


def _excerpt(line: int, cells: dict[str, str], wrong: Violations) -> Excerpt | None:
    missing = [name for name in WANTED if not cells.get(name)]
    if missing:
        wrong.add(line, None, f"an excerpt without {', '.join(missing)}")
        return None
    for name in ("start", "end"):
        if not _FRAME.fullmatch(cells[name]):
            wrong.add(line, name, f"{cells[name]!r} is not the number of a frame")
    # A film is known by the name of its file; an id holds neither blanks nor separators.
    movie_id = _OTHER.sub("_", PurePosixPath(cells["movie"]).stem).lstrip(".+-") or "_"
    return Excerpt(line, cells["id"], cells["name"], movie_id, cells["start"], cells["end"])


class _Reader:
    """Collects the texts within each `media` element. A document type is refused: no entities."""

    def __init__(self, wrong: Violations) -> None:
        self.wrong = wrong
        self.rows: list[tuple[int, dict[str, str]]] = []
        self.line = 0
        self.cells: dict[str, str] = {}
        self.inside = ""
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._doctype

    def read(self, stream: BinaryIO) -> None:
        """Parse a file; the rows are there afterwards, up to where it is no longer XML."""
        try:
            self.parser.ParseFile(stream)
        except expat.ExpatError as error:
            self.wrong.add(error.lineno, None, f"not XML: {expat.ErrorString(error.code)}")
        except _Refused as refused:
            self.wrong.add(self.parser.CurrentLineNumber, None, str(refused))

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "media":
            self.line, self.cells = self.parser.CurrentLineNumber, {}
        self.inside = name if name in WANTED else ""

    def _end(self, name: str) -> None:
        self.inside = ""
        if name == "media":
            self.rows.append((self.line, self.cells))

    def _text(self, text: str) -> None:
        if self.inside:
            self.cells[self.inside] = self.cells.get(self.inside, "") + text
            if len(self.cells[self.inside]) > _LONGEST_TEXT:
                raise _Refused("a text that is longer than any name")

    def _doctype(self, *_: object) -> None:
        raise _Refused("a document type, which no description of excerpts needs")


class _Refused(Exception):
    """Ends the parsing of a document that is not read any further."""
