"""Ids that are made of the cells of a row, by a form such as `{film}-{n:03d}`.

In most tables that people write, the numbers of clips begin anew in each film. Where clips have no
numbers, `{count}` counts the clips of each film.
"""

import re
from collections.abc import Mapping, Sequence

from obygaze_features.core.errors import FixUsage
from obygaze_features.core.tables import TableRow, whole_number

COUNT = "count"
# Rows of several annotators are of one clip if these are equal.
_PLACES = (
    *("start_s", "end_s", "film_start_s", "film_end_s"),
    *("start_frame", "end_frame", "video"),
)
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


def counts_in_films(
    rows: Sequence[TableRow], cells: Sequence[Mapping[str, str]]
) -> list[str]:
    """Return the number of each row's clip in its film, from 1: rows with equal times are one clip.

    Without times, rows of several annotators may be of one clip or of several: each is a violation.
    """
    places_of_film: dict[str, dict[tuple[str, ...], str]] = {}
    counts = []
    for row, values in zip(rows, cells, strict=True):
        place = tuple(values.get(column, "") for column in _PLACES)
        if not any(place):
            if values.get("annotator", "").strip():
                row.add(
                    None,
                    f"{{{COUNT}}} of annotators' rows needs the times of the clips",
                )
            place = (str(row.line),)
        places = places_of_film.setdefault(values["movie_id"].strip(), {})
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
        cell = cells[column].strip()
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
