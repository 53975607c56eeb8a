"""The ids of a table's clips: as they are, or made of cells by a form such as `{film}-{n:03d}`.

In most tables that people write, the numbers of clips begin anew in each film. Where clips have no
numbers, `{count}` counts the clips of each film.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from obygaze_features.core.console import few
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import TableRow, whole_number
from obygaze_features.manifest.adapters.table_mapping import NEEDED, TableMapping
from obygaze_features.manifest.adapters.table_times import SPAN_COLUMNS
from obygaze_features.manifest.expression import plain_value
from obygaze_features.manifest.io import as_id
from obygaze_features.manifest.listing import TITLE
from obygaze_features.manifest.spans import FILM_TIMES, FRAMES

COUNT = "count"
# Rows of several annotators are of one clip if these are equal.
_PLACES = (*SPAN_COLUMNS, *FILM_TIMES, *FRAMES, "video")
_PART = re.compile(r"\{(?P<column>[^{}:]+)(?::(?P<digits>0?[0-9]{1,2})d)?\}")


def columns_of_form(form: str) -> list[str]:
    """Return the columns that a form names; none of "", an error for what is not a form."""
    columns = [match["column"] for match in _PART.finditer(form)]
    between = _PART.sub("", form)
    if form and (not columns or "{" in between or "}" in between):
        raise FixUsage(
            f"not a form of ids: {form!r}",
            hint="columns in braces, numbers with their digits: '{film}-{n:03d}'",
        )
    return columns


def hidden_columns(
    names: Sequence[str], columns: Mapping[str, str], form: str = ""
) -> list[str]:
    """Return the columns of a table whose name another column of the manifest takes."""
    taken = {*columns, "clip_id"} if form else {*columns}
    used = {*columns.values(), *columns_of_form(form)}
    return [name for name in names if name in taken and name not in used]


def with_names(
    rows: Sequence[TableRow], written: Sequence[TableRow], mapping: TableMapping
) -> list[TableRow]:
    """Return rows with the names of their clips, which a form makes of cells if there is one.

    Args:
        rows: The rows by the columns of the manifest.
        written: The same rows by the columns of the table.
        mapping: What names are made of.
    """
    if not mapping.id:
        return [*rows]
    counts = [""] * len(rows)
    if COUNT in columns_of_form(mapping.id):
        counts = _counts_in_films(rows)
    named = []
    for row, as_written, number in zip(rows, written, counts, strict=True):
        cells = {COUNT: number, **as_written.cells, **row.cells}
        # Without a film, which is a violation already, the name is made of the line.
        name = f"{row.line}"
        if mapping.films or row["movie_id"]:
            name = _name_of_form(mapping.id, row, cells)
        named.append(replace(row, cells={**row.cells, "clip_id": name}))
    return named


def with_ids(named: Sequence[TableRow], mapping: TableMapping) -> list[TableRow]:
    """Return rows with ids in place of names, and with the scenes and titles that names have."""
    rows = []
    for row in named:
        cells = {**row.cells, **{name: as_id(row[name]) for name in NEEDED}}
        cells.setdefault("scene", _scene_in(cells["clip_id"], cells["movie_id"]))
        rows.append(replace(row, cells=cells))
    _check_names(named, rows)
    _check_films(rows, mapping)
    return _with_titles(named, rows)


def _counts_in_films(rows: Sequence[TableRow]) -> list[str]:
    """Return the number of each row's clip in its film, from 1: rows with equal times are one clip.

    Without times, rows of several annotators may be of one clip or of several: each is a violation.
    """
    places_of_film: dict[str, dict[tuple[str, ...], str]] = {}
    counts = []
    for row in rows:
        place = tuple(plain_value(row.cells.get(name, ""), name) for name in _PLACES)
        if not any(place):
            if row.cells.get("annotator"):
                row.add(
                    None,
                    f"{{{COUNT}}} of annotators' rows needs the times of the clips",
                )
            place = (str(row.line),)
        places = places_of_film.setdefault(row["movie_id"], {})
        counts.append(places.setdefault(place, str(len(places) + 1)))
    return counts


def _name_of_form(form: str, row: TableRow, cells: Mapping[str, str]) -> str:
    """Return the name that a form makes of cells; a cell that makes none is a violation."""

    def filled(match: re.Match[str]) -> str:
        column = match["column"]
        cell = cells[column]
        if not cell:
            row.add(column, "is empty, and is a part of the id")
        if not match["digits"]:
            return cell
        number = whole_number(cell)
        if number is None or number < 0:
            row.add(column, f"{cell!r} is not a whole number")
            return ""
        return f"{number:0{int(match['digits'])}d}"

    return _PART.sub(filled, form)


def _scene_in(clip_id: str, movie_id: str) -> str:
    """Return the scene number of an id such as `tt0108160-011`, or an empty string."""
    film, _, text = clip_id.rpartition("-")
    number = whole_number(text)
    return "" if not film or film != movie_id or number is None else str(number)


def _check_names(given: Sequence[TableRow], made: Sequence[TableRow]) -> None:
    """Add violations: names that become one id, and ids that differ by capitals alone.

    Two such ids are one film written in two ways, and one file on some disks.
    """
    for column in NEEDED:
        name_of: dict[str, str] = {}
        spelling_of: dict[str, str] = {}
        for before, row in zip(given, made, strict=True):
            id_ = row[column]
            first = name_of.setdefault(id_, before[column])
            if first != before[column]:
                row.add(
                    column,
                    f"{first!r} and {before[column]!r} both become {id_!r}; rename one",
                )
            spelling = spelling_of.setdefault(id_.casefold(), id_)
            if spelling != id_:
                row.add(column, f"{id_!r} differs from {spelling!r} by capitals alone")


def _check_films(rows: Sequence[TableRow], mapping: TableMapping) -> None:
    """Add violations of clip ids that several films of a table have."""
    film_of_clip: dict[tuple[str, str], str] = {}
    problem = ""
    for row in rows:
        clip_id = row["clip_id"]
        film = row["movie_id"]
        # An empty cell is a violation of its own.
        key = (row.violations.path, clip_id)
        first = film_of_clip.setdefault(key, film) if clip_id and film else film
        if first != film:
            # One sentence for all of them: where one number begins anew in each film, all do.
            problem = problem or of_two_films(clip_id, first, film, mapping)
            row.add("clip_id", problem)


def form_of_films(mapping: TableMapping) -> str:
    """Return the form of ids that are made of the film and of the column of ids."""
    clip, film = (mapping.columns.get(name, name) for name in NEEDED)
    return f"{{{film}}}-{{{clip}}}"


def of_two_films(clip: str, first: str, second: str, mapping: TableMapping) -> str:
    """Return the sentence on a clip that two films have."""
    way = f"--id {shell_word(form_of_films(mapping))} makes unique ids"
    return f"{clip!r} is a clip of {first!r} and of {second!r}; {way}"


def _with_titles(given: Sequence[TableRow], made: Sequence[TableRow]) -> list[TableRow]:
    """Return rows with the names of films as their titles, if any is not the id of its film."""
    pairs = list(zip(given, made, strict=True))
    has_titles = any(TITLE in row.cells for row in given[:1])
    if has_titles or all(a["movie_id"] == b["movie_id"] for a, b in pairs):
        return [*made]
    return [replace(b, cells={**b.cells, TITLE: a["movie_id"]}) for a, b in pairs]


def changed_ids(given: Sequence[TableRow], made: Sequence[TableRow]) -> list[str]:
    """Return sentences that name the first ids that are not what the table has."""
    rule = "ids have letters a-z, digits, . _ + - only and are unique"
    sentences = []
    for column in NEEDED:
        changes: dict[str, None] = {}
        for before, row in zip(given, made, strict=True):
            if before[column] != row[column]:
                changes[f"{before[column]!r} is now {row[column]!r}"] = None
        if changes:
            sentences.append(f"{column}: {rule}; {few(list(changes), 3)}")
    return sentences
