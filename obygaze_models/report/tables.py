"""Tables as data, and as Markdown, LaTeX, CSV and HTML: one content, four spellings."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{mark: f"\\{mark}" for mark in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
)


@dataclass(frozen=True)
class Number:
    """A number in a cell, with its interval where it has one."""

    value: float | None
    low: float | None = None
    high: float | None = None
    digits: int = 2
    mark: str = ""

    def __str__(self) -> str:
        """The number and its interval, in one line."""
        text = self.short
        return f"{text} [{self.interval}]" if self.interval else text

    @property
    def short(self) -> str:
        """The number alone; a dash where there is none."""
        if self.value is None or not math.isfinite(self.value):
            return "–"
        return f"{self.value:.{self.digits}f}{self.mark}"

    @property
    def interval(self) -> str:
        """The ends of the interval, empty where there is none."""
        if self.low is None or self.high is None or math.isnan(self.low + self.high):
            return ""
        return f"{self.low:.{self.digits}f}, {self.high:.{self.digits}f}"


@dataclass(frozen=True)
class Spread:
    """A mean with its standard deviation, as the paper prints them."""

    mean: float | None
    sd: float | None = None

    def __str__(self) -> str:
        """.79 (.05)"""
        if self.mean is None:
            return "–"
        return f"{self.mean:.2f}" + ("" if self.sd is None else f" ({self.sd:.2f})")


@dataclass(frozen=True)
class Table:
    """One table of a report. `warn` are the rows (by number) that a reader must not overlook."""

    key: str
    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""
    warn: frozenset[int] = frozenset()

    def as_markdown(self) -> str:
        """A Markdown table under its title."""
        lines = [f"### {self.title}", "", _bar(self.headers), _bar("---" for _ in self.headers)]
        lines += [
            _bar(str(cell).replace("|", "\\|") for cell in map(_shown, row)) for row in self.rows
        ]
        return "\n".join([*lines, "", *([self.note, ""] if self.note else [])])

    def as_latex(self) -> str:
        """A booktabs table, ready to be input."""
        aligned = "".join("r" if self._is_numeric(i) else "l" for i in range(len(self.headers)))
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex(self.title)}}}",
            rf"\label{{tab:{self.key}}}",
            rf"\begin{{tabular}}{{{aligned}}}",
            r"\toprule",
            " & ".join(map(_latex, self.headers)) + r" \\",
            r"\midrule",
            *(" & ".join(_latex(str(_shown(cell))) for cell in row) + r" \\" for row in self.rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def as_csv(self) -> str:
        """The numbers at full precision, intervals in columns of their own."""
        wide = [i for i in range(len(self.headers)) if self._has_interval(i)]
        headers = [name for i, h in enumerate(self.headers) for name in _columns(h, i in wide)]
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(headers)
        for row in self.rows:
            writer.writerow([v for i, cell in enumerate(row) for v in _values(cell, i in wide)])
        return stream.getvalue()

    def as_html(self) -> str:
        """A table for the page; numbers are aligned, intervals small under them."""
        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in self.headers)
        body = "\n".join(
            f'<tr class="warn">{cells}</tr>' if number in self.warn else f"<tr>{cells}</tr>"
            for number, row in enumerate(self.rows)
            for cells in ["".join(_html_cell(cell) for cell in row)]
        )
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"

    def _is_numeric(self, column: int) -> bool:
        return all(isinstance(row[column], int | float | Number | Spread) for row in self.rows)

    def _has_interval(self, column: int) -> bool:
        cells = (row[column] for row in self.rows)
        return any(isinstance(cell, Number) and cell.interval for cell in cells)


def _shown(cell: Any) -> Any:
    if cell is None:
        return "–"
    return Number(cell) if isinstance(cell, float) else cell


def _bar(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def _latex(text: str) -> str:
    return text.translate(_LATEX).replace("–", "--")


def _columns(header: str, wide: bool) -> list[str]:
    return [header, f"{header} low", f"{header} high"] if wide else [header]


def _values(cell: Any, wide: bool) -> Sequence[Any]:
    if isinstance(cell, Number):
        found = [cell.value, cell.low, cell.high] if wide else [cell.value]
        return ["" if value is None else value for value in found]
    plain = "" if cell is None else str(cell) if isinstance(cell, Spread) else cell
    return [plain, "", ""] if wide else [plain]


def _html_cell(cell: Any) -> str:
    cell = _shown(cell)
    if isinstance(cell, Number) and cell.interval:
        low_high = html.escape(cell.interval)
        return f'<td class="n">{html.escape(cell.short)}<small>{low_high}</small></td>'
    numeric = isinstance(cell, int | Number | Spread)
    kind = ' class="n"' if numeric else ""
    return f"<td{kind}>{html.escape(str(cell))}</td>"
