"""Read LIRIS-ACCEDE of MediaEval 2015: 10,900 excerpts, joined by name and checked by id.

The classes come only from the affect files, because rankings have a different scale. The official
split comes only from the shots files; the `set` of the sets files is a different split.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import Any
from xml.parsers import expat

from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.refusal import refuse_if
from obygaze_features.core.schema_check import Violations, raise_together
from obygaze_features.core.tables import (
    TableRow,
    numbered_lines,
    open_file,
    read_table,
)
from obygaze_features.manifest.adapters import (
    ImportedManifest,
    dataset_entry,
    published_header,
    source_file,
    unread_columns,
)
from obygaze_features.manifest.io import clips_of_table
from obygaze_features.manifest.model import (
    CLIP_COLUMNS,
    FOLD_PREFIX,
    NO_FILMS,
    Manifest,
)

FOLD = FOLD_PREFIX + "mediaeval2015"
TEST = "0"
DEV = "1"
NOT_ITS_FILES = "these are not the files of LIRIS-ACCEDE"
WITH_FILMS = "ACCEDEdescription.xml and MEDIAEVALdescription.xml"
DESCRIPTION = ("id", "name", "movie", "start", "end")
_ENDING = re.compile(r"\.[A-Za-z0-9]{2,4}")
_FRAME = re.compile(r"[0-9]{1,9}")
_ID = re.compile(r"-?[0-9]{1,15}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9]{2,4})?")


@dataclass
class _Excerpts:
    """The excerpts in the files read so far.

    `rows` has the first row and all cells of each excerpt, by its clip id. `id_of` has the id of
    each excerpt, by the family of the files and the name of the excerpt. `unread` are warnings
    about columns that are not read.
    """

    rows: dict[str, tuple[TableRow, dict[str, str]]] = field(default_factory=dict)
    id_of: dict[tuple[str, str], str] = field(default_factory=dict)
    name_of_film: dict[str, str] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    def add(self, row: TableRow, family: str, **values: str) -> None:
        """Add values of a row; an excerpt must have the same id in all files of one family."""
        id_ = row["id"]
        name = row["name"]
        if not row.match("name", _NAME, "the name of an excerpt"):
            return
        row.match("id", _ID, "a whole number")
        stem = PurePosixPath(name).stem
        known = self.id_of.setdefault((family, stem), id_)
        if known != id_:
            row.add("id", f"{name} has the id {id_!r}, but {known!r} in another file")
        _, cells = self.rows.setdefault(stem, (row, {"clip_id": stem, "video": name}))
        for column in sorted(values.keys() & cells.keys()):
            row.add("name", f"{name} already has a value for {column}")
        cells |= values
        # Some files have names without an extension; a name with an extension is preferred.
        if "." in name:
            cells["video"] = name


def read(
    files: str | Path | Sequence[str | Path],
    *,
    name: str = "liris-accede",
) -> ImportedManifest:
    """Read the clips of MediaEval 2015 (LIRIS-ACCEDE).

    The films are in ACCEDEdescription.xml and MEDIAEVALdescription.xml; without these, no excerpt
    has a film.

    Args:
        files: The annotation files or their folder; rows are joined by the name of the excerpt.
        name: The name of the manifest.
    """
    given = [files] if isinstance(files, str | Path) else files
    paths = _annotation_files([Path(file) for file in given])
    excerpts = _Excerpts()
    wrong = [Violations(path) for path in paths]
    for path, violations in zip(paths, wrong, strict=True):
        _readers()[path.name](path, violations, excerpts)
    raise_together(NOT_ITS_FILES, *wrong)
    rows = [excerpts.rows[stem] for stem in sorted(excerpts.rows)]
    without_film = [cells["clip_id"] for _, cells in rows if "movie_id" not in cells]
    has_films = len(without_film) < len(rows)
    warnings = [*excerpts.unread]
    if has_films:
        refuse_if(
            without_film,
            FixInput,
            f"the film of {len(without_film)} of {count(len(rows), 'excerpt')} is not stated",
            hint=f"pass both {WITH_FILMS}, or neither",
        )
    else:
        warnings.append(
            f"the films of the {len(rows)} excerpts are not stated, so they cannot be split by"
            f" film; also pass {WITH_FILMS}"
        )
    columns: dict[str, None] = {}
    for _, cells in rows:
        columns |= dict.fromkeys(cells)
    own = tuple(name for name in columns if name not in CLIP_COLUMNS)
    clips = clips_of_table(rows, columns=own, has_films=has_films)
    raise_together(NOT_ITS_FILES, *wrong)
    if FOLD not in own:
        warnings.append(
            "the official split is unknown; pass shots-devset-nl.txt and shots-testset-nl.txt"
        )
    films = "" if has_films else NO_FILMS
    header = published_header("liris-accede", *map(source_file, paths), films=films)
    return ImportedManifest(Manifest(name, header, clips, own), tuple(warnings))


def _annotation_files(given_paths: Sequence[Path]) -> list[Path]:
    """Return the files to read, in a fixed order."""
    by_name: dict[str, Path] = {}
    for path in given_paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.name in _readers() and file.is_file():
                twin = by_name.setdefault(file.name, file)
                if twin != file:
                    problem = f"two files have the name {file.name}"
                    where = f"{twin}, {file}"
                    raise FixInput(problem, where=where, hint="pass one of them")
    if not by_name:
        hint = f"pass one of {', '.join(_readers())}, or their folder"
        where = ", ".join(map(str, given_paths))
        raise NotFound("no annotation file of LIRIS-ACCEDE", where=where, hint=hint)
    return [by_name[name] for name in _readers() if name in by_name]


def _family(path: Path) -> str:
    return "MEDIAEVAL" if path.name.startswith("MEDIAEVAL") else "ACCEDE"


def _values(
    values: Mapping[str, Any], path: Path, wrong: Violations, excerpts: _Excerpts
) -> None:
    """Add the values of a table to the excerpts.

    If `values` names no columns, the third column is the class of violence.
    """
    columns: Mapping[str, str] = values.get("columns", {})
    table = read_table(path, required=("id", "name", *columns), violations=wrong)
    if not columns:
        columns = dict.fromkeys(table.columns[2:3], "violence")
        if not columns and not wrong:
            got = ", ".join(table.columns)
            problem = f"expected the columns id, name and the class, got {got}"
            wrong.add(1, None, problem)
    excerpts.unread += unread_columns(path, table.columns, "id", "name", *columns)
    form = re.compile(values["form"])
    for row in table.rows if columns else ():
        for column in columns:
            row.match(column, form, values["what"])
        cells = {target: row[column] for column, target in columns.items()}
        excerpts.add(row, _family(path), **cells)


def _shots(path: Path, wrong: Violations, excerpts: _Excerpts) -> None:
    """Add the official split; the files have no header and two columns: MediaEval id and name."""
    fold = DEV if "devset" in path.name else TEST
    for line, text in numbered_lines(path):
        cells = [cell.strip() for cell in text.split("\t")]
        if len(cells) != 2:
            wrong.add(line, None, f"expected an id and a name, got {len(cells)} cells")
            continue
        row = TableRow(line, dict(zip(("id", "name"), cells, strict=True)), wrong)
        excerpts.add(row, "shots", mediaeval_id=cells[0], **{FOLD: fold})


def _description(path: Path, wrong: Violations, excerpts: _Excerpts) -> None:
    """Add the frames of each excerpt, and its film."""
    for row in _media(path, wrong):
        missing = [name for name in DESCRIPTION if not row.cells.get(name)]
        if missing:
            row.add(None, f"an excerpt without {', '.join(missing)}")
            continue
        for column in ("start", "end"):
            row.match(column, _FRAME, "a frame number (whole, from 0)")
        # The id of a film is made of its file name, without an extension such as .mp4.
        name = PurePosixPath(row["movie"])
        film = ascii_id(name.stem if _ENDING.fullmatch(name.suffix) else name.name)
        first = excerpts.name_of_film.setdefault(film, row["movie"])
        if first != row["movie"]:
            problem = f"{row['movie']!r} and {first!r} both become the film {film!r}; rename one"
            row.add("movie", problem)
        frames = {"start_frame": row["start"], "end_frame": row["end"]}
        excerpts.add(row, _family(path), movie_id=film, **frames)


def _media(path: Path, wrong: Violations) -> list[TableRow]:
    """Return the texts of each `media` element; a document type (with entities) is a violation."""
    rows: list[TableRow] = []
    cells: dict[str, str] = {}
    texts: list[str] = []
    line = 0
    parser = expat.ParserCreate()

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal line
        texts.clear()
        if name == "media":
            line = parser.CurrentLineNumber
            cells.clear()

    def end(name: str) -> None:
        if name in DESCRIPTION:
            cells[name] = "".join(texts).strip()
        elif name == "media":
            rows.append(TableRow(line, dict(cells), wrong))

    def refuse(*_: object) -> None:
        raise ValueError("a document type is not allowed; remove it")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = texts.append
    parser.StartDoctypeDeclHandler = refuse
    try:
        with open_file(path) as stream:
            parser.ParseFile(stream)
    except expat.ExpatError as error:
        wrong.add(error.lineno, None, f"not XML: {expat.ErrorString(error.code)}")
    except ValueError as error:
        wrong.add(parser.CurrentLineNumber, None, str(error))
    return rows


@cache
def _readers() -> dict[str, Callable[[Path, Violations, _Excerpts], None]]:
    """Return the function for each file name, in the order in which the files are read."""
    readers: dict[str, Callable[[Path, Violations, _Excerpts], None]] = {}
    for table in dataset_entry("liris-accede")["tables"]:
        readers |= dict.fromkeys(table["files"], partial(_values, table))
    readers |= dict.fromkeys(("shots-devset-nl.txt", "shots-testset-nl.txt"), _shots)
    return readers | dict.fromkeys(
        ("ACCEDEdescription.xml", "MEDIAEVALdescription.xml"), _description
    )
