"""The ids of a table's clips: as they are, or made of cells by a form such as `{film}-{n:03d}`.

In most tables that people write, the numbers of clips begin anew in each film. Where clips have no
numbers, `{count}` counts the clips of each film.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from obygaze_features.core.console import few
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.shell import shell_word
from obygaze_features.core.tables import CsvTable, TableRow, whole_number
from obygaze_features.manifest.adapters.table_mapping import NEEDED
from obygaze_features.manifest.adapters.table_times import SPAN_COLUMNS
from obygaze_features.manifest.expression import plain_value
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
    table: CsvTable, columns: Mapping[str, str], form: str = ""
) -> list[str]:
    """Return the columns of a table whose name another column of the manifest takes."""
    taken = {*columns, "clip_id"} if form else {*columns}
    used = {*columns.values(), *columns_of_form(form)}
    return [name for name in table.columns if name in taken and name not in used]


def counts_in_films(
    rows: Sequence[TableRow], cells: Sequence[Mapping[str, str]]
) -> list[str]:
    """Return the number of each row's clip in its film, from 1: rows with equal times are one clip.

    Without times, rows of several annotators may be of one clip or of several: each is a violation.
    """
    places_of_film: dict[str, dict[tuple[str, ...], str]] = {}
    counts = []
    for row, values in zip(rows, cells, strict=True):
        place = tuple(plain_value(values.get(column, ""), column) for column in _PLACES)
        if not any(place):
            if values.get("annotator"):
                row.add(
                    None,
                    f"{{{COUNT}}} of annotators' rows needs the times of the clips",
                )
            place = (str(row.line),)
        places = places_of_film.setdefault(values["movie_id"], {})
        counts.append(places.setdefault(place, str(len(places) + 1)))
    return counts


def id_of_form(form: str, row: TableRow, cells: Mapping[str, str]) -> str:
    """Return the id that a form makes of cells.

    Args:
        form: The form.
        row: Gets the violations of cells that make no id.
        cells: The cells by column.
    """

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


def add_ids(
    rows: Sequence[TableRow],
    cells: Sequence[dict[str, str]],
    form: str,
    targets: Collection[str],
    *,
    has_films: bool,
) -> None:
    """Add the clip ids that a form makes of the cells of the table and of the targets."""
    counts = [""] * len(rows)
    if COUNT in columns_of_form(form):
        counts = counts_in_films(rows, cells)
    for row, values, number in zip(rows, cells, counts, strict=True):
        of_targets = {target: values[target] for target in targets}
        named = {COUNT: number, **row.cells, **of_targets}
        if has_films and not values["movie_id"]:
            # It is a violation already.
            values["clip_id"] = f"{row.line}"
        else:
            values["clip_id"] = id_of_form(form, row, named)


def check_clip_ids(
    rows: Sequence[TableRow],
    cells: Sequence[dict[str, str]],
    given_ids: Sequence[Mapping[str, str]],
    names: Mapping[str, str],
) -> None:
    """Add violations: names that become one id, clip ids that several films have.

    Two ids that differ by capitals alone are one film written in two ways, and one file on some
    disks. `names` has the columns of the table by those of the manifest, where these differ.
    """
    clip, film = (names.get(name, name) for name in NEEDED)
    given_names: dict[tuple[str, str], str] = {}
    first_spelling: dict[tuple[str, str], str] = {}
    film_of_clip: dict[str, str] = {}
    repeated = []
    for row, values, given in zip(rows, cells, given_ids, strict=True):
        movie_id = values["movie_id"]
        for column in NEEDED:
            id_ = values[column]
            first_given = given_names.setdefault((column, id_), given[column])
            if first_given != given[column]:
                row.add(
                    column,
                    f"{first_given!r} and {given[column]!r} both become {id_!r}; rename one",
                )
            spelling = first_spelling.setdefault((column, id_.casefold()), id_)
            if spelling != id_:
                row.add(column, f"{id_!r} differs from {spelling!r} by capitals alone")
        # An empty cell is a violation of its own.
        if not values["clip_id"] or not movie_id:
            continue
        if film_of_clip.setdefault(values["clip_id"], movie_id) != movie_id:
            repeated.append((row, values))
    if not repeated:
        return
    # One sentence for all of them: where one number begins anew in each film, all do.
    first = repeated[0][1]
    films = f"{film_of_clip[first['clip_id']]!r} and of {first['movie_id']!r}"
    form = shell_word(f"{{{film}}}-{{{clip}}}")
    way = f"--id {form} makes unique ids"
    problem = f"{first['clip_id']!r} is a clip of {films}; {way}"
    for row, values in repeated:
        row.add("clip_id", problem)
        values["clip_id"] = f"{values['movie_id']}-{values['clip_id']}"


def changed_ids(
    cells: Sequence[Mapping[str, str]], given_ids: Sequence[Mapping[str, str]]
) -> list[str]:
    """Return sentences that name the first ids that are not what the table has."""
    rule = "ids have letters a-z, digits, . _ + - only and are unique"
    sentences = []
    for column in NEEDED:
        changes: dict[str, None] = {}
        for values, given in zip(cells, given_ids, strict=True):
            if values[column] != given[column]:
                changes[f"{given[column]!r} is now {values[column]!r}"] = None
        if changes:
            sentences.append(f"{column}: {rule}; {few(list(changes), 3)}")
    return sentences
