"""Ids that are made of the cells of a row, by a form such as `{film}-{n:03d}`.

In most tables that people write, the numbers of clips begin anew in each film.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from obygaze_features.core.errors import FixUsage
from obygaze_features.manifest.tables import TableRow

_PART = re.compile(r"\{(?P<column>[^{}:]+)(?::(?P<digits>0?[0-9]{1,2})d)?\}")


def columns_of_form(form: str) -> list[str]:
    """Return the columns that a form names; an error for one that is not a form."""
    columns = [match["column"] for match in _PART.finditer(form)]
    between = _PART.sub("", form)
    if not columns or "{" in between or "}" in between:
        raise FixUsage(
            f"not a form of ids: {form!r}",
            hint="columns in braces, numbers with their digits: '{film}-{n:03d}'",
        )
    return columns


def with_mapped_columns(form: str, targets: Mapping[str, str]) -> str:
    """Return a form with the columns of the table in place of targets that are mapped to them.

    >>> with_mapped_columns("{movie_id}-{n:03d}", {"movie_id": "Film"})
    '{Film}-{n:03d}'
    """

    def mapped(match: re.Match[str]) -> str:
        column = match["column"]
        digits = match["digits"]
        of_digits = f":{digits}d" if digits else ""
        return f"{{{targets.get(column, column)}{of_digits}}}"

    return _PART.sub(mapped, form)


def row_with_id(row: TableRow, form: str) -> TableRow:
    """Return a row whose cell clip_id is made of the others."""

    def filled(match: re.Match[str]) -> str:
        column = match["column"]
        cell = row[column].strip()
        if not cell:
            row.add(column, "is empty, and is a part of the id")
        if not match["digits"]:
            return cell
        number = row.whole(column)
        return "" if number is None else f"{number:0{int(match['digits'])}d}"

    clip_id = _PART.sub(filled, form)
    return replace(row, cells={**row.cells, "clip_id": clip_id})
