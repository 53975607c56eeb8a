"""Tables of results, written as Markdown, LaTeX, CSV and HTML, and the text of a report."""

import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from itertools import chain
from typing import Any

from obygaze_features.core.console import digits_of
from obygaze_features.core.files import csv_for_people
from obygaze_features.core.outside import safe_text

Row = tuple[Any, ...]
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{mark: f"\\{mark}" for mark in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        # At the start of a row, LaTeX would take these as arguments of the row before.
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


@cache
def report_text() -> dict[str, Any]:
    """Return texts.toml; headings are in the order of the page, metrics in that of tables."""
    return tomllib.loads(files(__package__).joinpath("texts.toml").read_text("utf-8"))


def sentence(key: str, **names: object) -> str:
    """Return a sentence with names filled in."""
    text: str = report_text()["sentences"][key]
    return text.format(**names)


@dataclass(frozen=True)
class Number:
    """A number in a cell, with its interval, or its standard deviation over folds or runs."""

    value: float | None
    low: float | None = None
    high: float | None = None
    sd: float | None = None
    digits: int = 2
    mark: str = ""
    is_p: bool = False

    def __str__(self) -> str:
        """Return the number and its interval in one line."""
        text = self.short
        return f"{text} [{self.interval}]" if self.interval else text

    @property
    def short(self) -> str:
        """The number without its interval, such as `0.79 (0.05)`; a dash if it is missing."""
        if self.value is None or not math.isfinite(self.value):
            return "–"
        if self.is_p and self.value < 10**-self.digits / 2:
            return f"<{10**-self.digits:.{self.digits}f}"
        spread = "" if self.sd is None else f" ({self.sd:.{self.digits}f})"
        return f"{self.value:z.{self.digits}f}{self.mark}{spread}"

    @property
    def interval(self) -> str:
        """The ends of the interval; empty if it is missing."""
        if self.low is None or self.high is None or math.isnan(self.low + self.high):
            return ""
        digits = digits_of(self.low, self.high, self.digits)
        return f"{self.low:z.{digits}f}, {self.high:z.{digits}f}"


@dataclass(frozen=True)
class Heading:
    """A line above rows that belong together; `quiet` rows are there for comparison only."""

    title: str
    quiet: bool = False


Rows = Sequence[Row | Heading]


@dataclass(frozen=True)
class ResultTable:
    """A table of a report.

    `rows` are tuples of cells, with a `Heading` above those that belong together. Rows whose cell
    in the column `warn` is not 0 are red on the page. A `folded` table is closed on the page,
    because a figure shows the same.
    """

    key: str
    title: str
    headers: Sequence[str]
    rows: Rows
    note: str = ""
    warn: str = ""
    folded: bool = False

    def as_csv(self) -> str:
        """Return the numbers at full precision; intervals, SD and headings have own columns."""
        ends = ("", " low", " high", " SD")
        columns = ["group"]
        for header in self.headers:
            columns += [f"{header}{end}" for end in ends]
        table = []
        for heading, rows in self.blocks():
            group = heading.title if heading else ""
            for row in rows:
                values = chain.from_iterable(map(_values, row))
                table.append([group, *values])
        used = set()
        for values_of_row in table:
            used |= {i for i, value in enumerate(values_of_row) if value != ""}
        # The column of the value itself stays, though it may be empty.
        written = [i for i in range(len(columns)) if i in used or i % len(ends) == 1]
        pick = partial(_picked, positions=written)
        return csv_for_people(pick(columns), map(pick, table)).decode("utf-8")

    def blocks(self) -> list[tuple[Heading | None, list[Row]]]:
        """Return the rows below each heading; rows before the first one have None."""
        blocks: list[tuple[Heading | None, list[Row]]] = []
        for row in self.rows:
            if isinstance(row, Heading):
                blocks.append((row, []))
            else:
                if not blocks:
                    blocks.append((None, []))
                blocks[-1][1].append(row)
        return blocks

    @property
    def numeric(self) -> list[bool]:
        """Whether each column holds numbers only."""
        rows = [row for row in self.rows if not isinstance(row, Heading)]
        are_numeric = []
        for i in range(len(self.headers)):
            cells = [row[i] for row in rows if row[i] is not None]
            all_numbers = all(isinstance(cell, NUMERIC) for cell in cells)
            are_numeric.append(bool(cells) and all_numbers)
        return are_numeric


NUMERIC = (int, float, Number)
# What a part of the page yields: sentences, then tables.
Part = Iterator[str | ResultTable]


def make_table(
    kind: str, key: str, rows: Rows, headers: Sequence[str] = (), **names: object
) -> ResultTable:
    """Return a table with the text of its kind.

    Args:
        kind: The kind of table in texts.toml.
        key: The file name without suffix.
        rows: The rows and headings.
        headers: Headers after those of the kind.
        names: The names to fill into title, first headers and note.
    """
    text = report_text()["tables"][kind]
    title = text["title"].format(**names)
    note = text.get("note", "").format(**names)
    columns = (
        *(header.format(**names) for header in text.get("headers", ())),
        *headers,
    )
    options = {option: text[option] for option in ("warn", "folded") if option in text}
    return ResultTable(key, title, columns, rows, note, **options)


def latex_text(text: object) -> str:
    """Return text escaped for LaTeX."""
    return safe_text(text, "terminal").translate(_LATEX)


def slug(text: str) -> str:
    """Return a name for files, labels and anchors made from any text."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-") or "none"


def shown(cell: Any) -> Any:
    """Return what a cell shows: floats are rounded, a missing value is a dash."""
    if cell is None:
        return "–"
    return Number(cell) if isinstance(cell, float) else cell


def _picked(values: Sequence[Any], positions: Sequence[int]) -> list[Any]:
    """Return the values at some positions."""
    return [values[i] for i in positions]


def _values(cell: Any) -> list[Any]:
    values = [cell, None, None, None]
    if isinstance(cell, Number):
        values = [cell.value, cell.low, cell.high, cell.sd]
    return ["" if value is None else value for value in values]


def cell_parts(cell: Any) -> tuple[str, str, bool]:
    """Return the text of a cell, the text of its interval, and whether it holds a number."""
    cell = shown(cell)
    if isinstance(cell, Number):
        dash = " to " if "-" in cell.interval else "–"
        return cell.short, cell.interval.replace(", ", dash), True
    return str(cell), "", isinstance(cell, NUMERIC) or cell == "–"
