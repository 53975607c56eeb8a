"""Read LIRIS-ACCEDE of MediaEval 2015: 10,900 excerpts, joined by name and checked by id.

The classes come from the affect files alone: ranking values are on another scale. The official
split comes from the shots files alone; the `set` of the sets files is another split.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path, PurePosixPath
from xml.parsers import expat

from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.schema_check import Violations, raise_together
from obygaze_features.manifest.adapters.common import (
    ImportedManifest,
    ValueTable,
    published,
    source_of,
)
from obygaze_features.manifest.io import ClipReader
from obygaze_features.manifest.model import FOLD_PREFIX, Manifest
from obygaze_features.manifest.tables import TableRow, numbered_lines, open_file, read_table

FOLD = FOLD_PREFIX + "mediaeval2015"
TEST, DEV = "0", "1"
UNKNOWN_FILM = "unknown"
SUBTASKS = {"valence": "valence_class", "arousal": "arousal_class", "violence": "violence"}
DESCRIPTION = ("id", "name", "movie", "start", "end")
_NO_ID = re.compile(r"[^A-Za-z0-9._+-]+")
_FRAME = re.compile(r"[0-9]{1,9}")
_LONGEST_TEXT = 10_000
_ID = re.compile(r"-?[0-9]{1,15}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9]{2,4})?")


@dataclass
class _Excerpts:
    """The values of each excerpt in the files read so far, by the stem of its name."""

    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, dict[str, str]] = field(default_factory=dict)
    id_of: dict[tuple[str, str], str] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    film_of: dict[str, str] = field(default_factory=dict)
    first_row: dict[str, TableRow] = field(default_factory=dict)

    def add(self, row: TableRow, family: str, **values: str) -> None:
        """Add values of a row; an excerpt has the same id in all files of one family."""
        id_, name = row["id"], row["name"]
        if not row.matching("name", _NAME, "the name of an excerpt"):
            return
        row.matching("id", _ID, "a whole number")
        stem = PurePosixPath(name).stem
        known = self.id_of.setdefault((family, stem), id_)
        if known != id_:
            row.add("id", f"{name} has the id {id_!r}, but {known!r} in another file")
        cells = self.values.setdefault(stem, {})
        for column in sorted(values.keys() & cells.keys()):
            row.add("name", f"{name} already has a value for {column}")
        cells |= values
        # Some files leave the extension out; where one has it, that is the file to look for.
        if "." in name or stem not in self.names:
            self.names[stem] = name
        self.first_row.setdefault(stem, row)
        self.columns += [column for column in values if column not in self.columns]

    def row_of(self, stem: str) -> tuple[TableRow, dict[str, str]]:
        """Return the first row of an excerpt, and the cells of its clip."""
        film = self.film_of.get(stem, UNKNOWN_FILM)
        cells = {"clip_id": stem, "movie_id": film, "video": self.names[stem]}
        return self.first_row[stem], cells | self.values[stem]


def read(
    files: Path | Sequence[Path], *, subtask: str | None = None, name: str = "liris-accede"
) -> ImportedManifest:
    """Return the manifest of the annotation files.

    Args:
        files: The annotation files, or the folders that contain them.
        subtask: Keep only the classes of `valence`, `arousal` or `violence`; None keeps all.
        name: The name of the manifest.
    """
    if subtask is not None and subtask not in SUBTASKS:
        raise FixUsage(f"unknown subtask {subtask!r}", hint=f"one of {', '.join(SUBTASKS)}")
    paths = _annotation_files([files] if isinstance(files, Path) else files)
    excerpts, wrong = _Excerpts(), [Violations(path) for path in paths]
    for path, violations in zip(paths, wrong, strict=True):
        _readers()[path.name](path, violations, excerpts)
    left_out = [column for other, column in SUBTASKS.items() if subtask not in (None, other)]
    columns = tuple(column for column in excerpts.columns if column not in left_out)
    reader = ClipReader((), columns)
    clips = tuple(reader.clip_of(*excerpts.row_of(stem)) for stem in sorted(excerpts.values))
    raise_together("these are not the files of LIRIS-ACCEDE", *wrong)
    if subtask is not None and SUBTASKS[subtask] not in columns:
        raise NotFound(
            f"no file has classes for {subtask}",
            where=", ".join(str(path) for path in paths),
            hint="the affect and violence files of MEDIAEVAL-annotations.zip",
        )
    sources = tuple(source_of(path) for path in paths)
    header = published("liris-accede").header("liris-accede", sources=sources)
    manifest = Manifest(name, header, clips, columns)
    return ImportedManifest(manifest, tuple(_warnings(manifest)))


def _warnings(manifest: Manifest) -> Iterable[str]:
    films_unknown = sum(clip.movie_id == UNKNOWN_FILM for clip in manifest)
    if films_unknown:
        yield (
            f"the film of {films_unknown} of {len(manifest)} excerpts is not known, so they cannot"
            " be split by film; also give ACCEDEdescription.xml and MEDIAEVALdescription.xml too"
        )
    without: dict[int, list[str]] = {}
    for column in manifest.columns:
        without.setdefault(sum(not clip.extra[column] for clip in manifest), []).append(column)
    for empty, columns in sorted(without.items()):
        if empty:
            yield f"{empty} of {len(manifest)} excerpts have no {', '.join(columns)}"
    if FOLD not in manifest.columns:
        yield "no shots-devset-nl.txt or shots-testset-nl.txt, so the official split is not known"


def _annotation_files(given: Sequence[Path]) -> list[Path]:
    """Return the files to read, in an order that does not depend on how they were given."""
    known = ", ".join(_readers())
    paths: set[Path] = set()
    for path in given:
        if not path.exists():
            raise NotFound("no such file or folder", where=str(path))
        inside = path.rglob("*") if path.is_dir() else [path]
        found = {file for file in inside if file.is_file() and file.name in _readers()}
        if not found and path.is_dir():
            raise NotFound(
                "no annotation file in this folder", where=str(path), hint=f"one with {known}"
            )
        if not found:
            raise FixInput(f"unknown file name; expected one of {known}", where=str(path))
        paths |= found
    if not paths:
        raise FixUsage("expected at least one file or folder")
    by_name: dict[str, Path] = {}
    for path in sorted(paths):
        twin = by_name.setdefault(path.name, path)
        if twin != path:
            where, hint = f"{twin}, {path}", "name one of them"
            raise FixInput(f"two files have the name {path.name}", where=where, hint=hint)
    return [by_name[name] for name in _readers() if name in by_name]


def _family(path: Path) -> str:
    return "MEDIAEVAL" if path.name.startswith("MEDIAEVAL") else "ACCEDE"


def _values(values: ValueTable, path: Path, wrong: Violations, excerpts: _Excerpts) -> None:
    """Add the values of a table to the excerpts."""
    required = ("id", "name", *values.columns)
    table = read_table(path, required=required, delimiter="\t", skip_blank=True, violations=wrong)
    columns = values.columns
    if not columns and not wrong:
        if len(table.columns) < 3 or table.columns[:2] != ("id", "name"):
            got = ", ".join(table.columns)
            wrong.add(1, None, f"expected the columns id, name and the class, got {got}")
            return
        columns = {table.columns[2]: "violence"}
    form = re.compile(values.form)
    for row in table.rows:
        for column in columns:
            row.matching(column, form, values.what)
        cells = {target: row[column] for column, target in columns.items()}
        excerpts.add(row, _family(path), **cells)


def _shots(path: Path, wrong: Violations, excerpts: _Excerpts) -> None:
    """Add the official split; the files have no header, and two cells: MediaEval id and name."""
    fold = DEV if "devset" in path.name else TEST
    for line, text in numbered_lines(path, wrong):
        cells = [cell.strip() for cell in text.split("\t")]
        if len(cells) != 2:
            wrong.add(line, None, f"expected an id and a name, got {len(cells)} cells")
            continue
        row = TableRow(line, {"id": cells[0], "name": cells[1]}, wrong)
        excerpts.add(row, "shots", mediaeval_id=cells[0], **{FOLD: fold})


def _description(path: Path, wrong: Violations, excerpts: _Excerpts) -> None:
    """Add the frames of each excerpt, and its film."""
    reader = _MediaReader(wrong)
    with open_file(path) as stream:
        try:
            reader.parser.ParseFile(stream)
        except expat.ExpatError as error:
            wrong.add(error.lineno, None, f"not XML: {expat.ErrorString(error.code)}")
        except _UnsafeXml as refused:
            wrong.add(reader.parser.CurrentLineNumber, None, str(refused))
    for row in reader.rows:
        missing = [name for name in DESCRIPTION if not row.cells.get(name)]
        if missing:
            row.add(None, f"an excerpt without {', '.join(missing)}")
            continue
        for column in ("start", "end"):
            row.matching(column, _FRAME, "a frame number (whole, from 0)")
        excerpts.add(row, _family(path), start_frame=row["start"], end_frame=row["end"])
        # The file name of a film identifies it; an id has neither blanks nor separators.
        film = _NO_ID.sub("_", PurePosixPath(row["movie"]).stem).lstrip(".+-") or "_"
        excerpts.film_of[PurePosixPath(row["name"]).stem] = film


class _MediaReader:
    """Collects the texts in each `media` element; a document type is refused, as are entities."""

    def __init__(self, wrong: Violations) -> None:
        self.wrong = wrong
        self.rows: list[TableRow] = []
        self.line = 0
        self.cells: dict[str, str] = {}
        self.inside = ""
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._doctype

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "media":
            self.line, self.cells = self.parser.CurrentLineNumber, {}
        self.inside = name if name in DESCRIPTION else ""

    def _end(self, name: str) -> None:
        self.inside = ""
        if name == "media":
            cells = {field: text.strip() for field, text in self.cells.items()}
            self.rows.append(TableRow(self.line, cells, self.wrong))

    def _text(self, text: str) -> None:
        if self.inside:
            self.cells[self.inside] = self.cells.get(self.inside, "") + text
            if len(self.cells[self.inside]) > _LONGEST_TEXT:
                raise _UnsafeXml(f"a text of more than {_LONGEST_TEXT:,} characters")

    def _doctype(self, *_: object) -> None:
        raise _UnsafeXml("a document type is not allowed; remove it")


class _UnsafeXml(Exception):
    """Raised to stop the parsing of an XML document with unsafe content."""


@cache
def _readers() -> dict[str, Callable[[Path, Violations, _Excerpts], None]]:
    """Return the function that reads each file, in the order in which they are read."""
    tables = published("liris-accede").tables
    return {
        **{name: partial(_values, table) for table in tables for name in table.files},
        **{f"shots-{part}-nl.txt": _shots for part in ("devset", "testset")},
        **{f"{family}description.xml": _description for family in ("ACCEDE", "MEDIAEVAL")},
    }
