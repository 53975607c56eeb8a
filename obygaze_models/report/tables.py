"""A table of a page, as text, CSV and LaTeX."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from obygaze_features import __version__
from obygaze_features.core.console import count_decimals, table
from obygaze_features.core.figures import COLORS, DARK_COLORS
from obygaze_features.core.files import csv_for_people
from obygaze_features.core.made_ids import ascii_id
from obygaze_features.core.rendering import environment
from obygaze_features.core.untrusted_text import safe_text
from obygaze_models.evaluation.tables import RunRow
from obygaze_models.runner.answer import films_text, short, short_p
from obygaze_models.runner.files import NUMBER_OF_ROW

if TYPE_CHECKING:
    from jinja2 import Environment

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{mark: f"\\{mark}" for mark in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        # Babel reads a straight quote as the start of a shorthand, such as "a in German, and fonts
        # of OT1 have no \textquotedbl. Two apostrophes are a quote in every encoding.
        '"': "''",
        "`": r"\`{}",
        # At the start of a row, LaTeX would read these as arguments of the previous row.
        "[": "{[}",
        "*": "{*}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "–": "--",
        "→": r"$\rightarrow$",
        "−": "--",
    }
)
DASH = "–"
PARTS_OF_NUMBER = ("", " low", " high", " SD")

Cells = tuple[Any, ...]


@dataclass(frozen=True)
class InResults:
    """The cells of results.csv that a cell of a page shows: a row, from 1, and its columns."""

    row: int
    columns: Sequence[str]

    @classmethod
    def of(cls, row: RunRow, *columns: str) -> InResults | None:
        """Return the source of a cell, or None for a row that is not of results.csv."""
        number = row.get(NUMBER_OF_ROW)
        return cls(number, columns) if number else None


@dataclass(frozen=True)
class NumberCell:
    """A number in a cell, with its interval or standard deviation. Missing numbers are NaN."""

    value: float
    low: float = math.nan
    high: float = math.nan
    sd: float = math.nan
    source: InResults | None = None

    @classmethod
    def of(cls, row: RunRow | None, column: str = "value") -> NumberCell:
        """Return a column of a row of results.csv, and for a value its interval."""
        if row is None:
            return NO_NUMBER
        if column != "value":
            return cls(row[column], source=InResults.of(row, column))
        source = InResults.of(row, "value", "low", "high")
        return cls(row["value"], row["low"], row["high"], source=source)

    @classmethod
    def with_sd(cls, row: RunRow, column: str, sd: str) -> NumberCell:
        """Return a column of a row of results.csv, with the column of its standard deviation."""
        columns = [column, sd] if math.isfinite(row[sd]) else [column]
        return cls(row[column], sd=row[sd], source=InResults.of(row, *columns))

    @property
    def short(self) -> str:
        """The number without its interval, or a dash if it is NaN.

        A standard deviation follows in brackets, such as `.79 (.05)`.
        """
        if not math.isfinite(self.value):
            return DASH
        spread = f" ({short(self.sd)})" if math.isfinite(self.sd) else ""
        value = round(self.value, self.digits) + 0.0  # -0.001 is .00
        return f"{short(value, self.digits)}{spread}"

    @property
    def digits(self) -> int:
        """The number of decimals."""
        return 2

    @property
    def interval(self) -> str:
        """The ends of the interval, or "" without an interval."""
        if math.isnan(self.low + self.high):
            return ""
        digits = count_decimals(self.low, self.high)
        return f"[{short(self.low, digits)}, {short(self.high, digits)}]"

    def __str__(self) -> str:
        """Return the number and its interval in one line."""
        return f"{self.short} {self.interval}".rstrip()


class DifferenceCell(NumberCell):
    """A difference in a cell.

    A difference that would look like 0 with two decimals has more decimals, at most nine.
    """

    @property
    def digits(self) -> int:
        """The number of decimals."""
        return count_decimals(0.0, abs(self.value)) if self.value else 2


@dataclass(frozen=True)
class PValueCell:
    """A p in a cell. A missing p is NaN."""

    value: float
    source: InResults | None = None

    @classmethod
    def of(cls, row: RunRow) -> PValueCell:
        """Return the p of a row of results.csv."""
        return cls(row["p"], InResults.of(row, "p"))

    def __str__(self) -> str:
        """Return three decimals, or a dash for NaN."""
        return DASH if math.isnan(self.value) else short_p(self.value)


@dataclass(frozen=True)
class CountCell:
    """A count in a cell, or a text of counts, such as `11 of 12`."""

    value: int | str
    source: InResults | None = None

    @classmethod
    def of(cls, row: RunRow, column: str) -> CountCell:
        """Return a count of a row of results.csv."""
        return cls(int(row[column]), InResults.of(row, column))

    @classmethod
    def of_films(cls, row: RunRow) -> CountCell:
        """Return the number of films in which the first side of a row is better."""
        columns = ("films_better", "films_compared", "films_equal")
        return cls(films_text(row), InResults.of(row, *columns))

    def __str__(self) -> str:
        return str(self.value)


NO_NUMBER = NumberCell(math.nan)


def is_numeric(cell: Any) -> bool:
    """Return whether a cell is a number."""
    if isinstance(cell, CountCell):
        return isinstance(cell.value, int)
    return isinstance(cell, int | float | NumberCell | PValueCell)


@dataclass(frozen=True)
class ResultTable:
    """A table of a page. `key` is the file name without its suffix.

    A row is a tuple of cells, or a text as the heading of the rows below. A `folded` table is
    closed when the page opens.
    """

    key: str
    title: str
    headers: Sequence[str]
    rows: Sequence[Cells | str]
    note: str = ""
    folded: bool = False

    @property
    def cells(self) -> list[Cells]:
        """The rows without headings."""
        return [row for row in self.rows if not isinstance(row, str)]

    def blocks(self) -> list[tuple[str, list[Cells]]]:
        """Return each heading with the rows below it.

        Rows above the first heading have the heading "".
        """
        blocks: list[tuple[str, list[Cells]]] = [("", [])]
        for row in self.rows:
            if isinstance(row, str):
                blocks.append((row, []))
            else:
                blocks[-1][1].append(row)
        begins_with_heading = len(blocks) > 1 and not blocks[0][1]
        return blocks[1:] if begins_with_heading else blocks

    @property
    def numeric(self) -> list[bool]:
        """Whether each column has numbers only."""
        are_numeric = [True] * len(self.headers)
        for row in self.cells:
            for number, cell in enumerate(row):
                are_numeric[number] &= is_numeric(cell)
        return are_numeric

    def as_text(self) -> str:
        """Return the rows without headings for a terminal, or "" without rows."""
        if not self.cells:
            return ""
        return table(self.headers, [[*map(str, row)] for row in self.cells])

    def as_csv(self) -> bytes:
        """Return CSV with all decimals, and columns for intervals, deviations and headings."""
        names = []
        columns: list[list[Any]] = []
        headings: list[str] = []
        for title, of_heading in self.blocks():
            headings += [title] * len(of_heading)
        if any(headings):
            names.append("group")
            columns.append(headings)
        for number, header in enumerate(self.headers):
            parts = [_cell_parts(row[number]) for row in self.cells]
            for place, part in enumerate(PARTS_OF_NUMBER):
                column = [of_row[place] for of_row in parts]
                if not part or any(content != "" for content in column):
                    names.append(f"{header}{part}")
                    columns.append(column)
        return csv_for_people(names, zip(*columns, strict=True))


def result_table(
    key: str,
    title: str,
    rows: Sequence[Mapping[str, Any] | str],
    note: str = "",
    *,
    folded: bool = False,
) -> ResultTable:
    """Return a table of headings and rows. Rows are mappings with the same keys: the headers."""
    headers: Sequence[str] = ()
    cells: list[Cells | str] = []
    for row in rows:
        if isinstance(row, str):
            cells.append(row)
        else:
            headers = [*row]
            cells.append((*row.values(),))
    return ResultTable(key, title, headers, cells, note, folded)


def _cell_parts(cell: Any) -> list[Any]:
    """Return the values of a cell in a CSV file, one for each of `PARTS_OF_NUMBER`.

    Missing values are "".
    """
    parts: list[Any] = [cell, *[None] * 3]
    if isinstance(cell, NumberCell):
        parts = [cell.value, cell.low, cell.high, cell.sd]
    elif isinstance(cell, PValueCell | CountCell):
        parts[0] = cell.value
    # NaN is the only value that differs from itself.
    return ["" if part in (None, DASH) or part != part else part for part in parts]


def cell_parts(cell: Any) -> tuple[str, str]:
    """Return the text of a cell and the text of its interval, or "" without an interval."""
    if isinstance(cell, NumberCell):
        return cell.short, cell.interval
    return str(cell), ""


def source_of(cell: Any) -> InResults | None:
    """Return the cells of results.csv that a cell shows, or None for all other cells."""
    return getattr(cell, "source", None)


def latex_text(text: object) -> str:
    """Return text escaped for LaTeX."""
    return safe_text(text, "terminal").translate(_LATEX)


def slug(*texts: str) -> str:
    """Return a name for files and anchors, made of any texts."""
    return re.sub(r"[^A-Za-z0-9]+", "-", ascii_id("-".join(texts))).strip("-") or "none"


def render_template(template: str, **values: Any) -> str:
    """Render a template of this package. Text is escaped for the format."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    made = environment("obygaze_models.report")
    made.filters |= {"latex": latex_text, "slug": slug}
    made.globals |= {"version": __version__, "cell_parts": cell_parts}
    made.globals["source_of"] = source_of
    made.globals |= {"light": COLORS, "dark": DARK_COLORS}
    return made
