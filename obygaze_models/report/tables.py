"""Tables as data, and as Markdown, LaTeX, CSV and HTML: one content, four spellings."""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{mark: f"\\{mark}" for mark in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        # After the end of a row, these would be read as its arguments.
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


@dataclass(frozen=True)
class Number:
    """A number in a cell, with its interval where it has one."""

    value: float | None
    low: float | None = None
    high: float | None = None
    digits: int = 2
    mark: str = ""
    is_p: bool = False

    def __str__(self) -> str:
        """The number and its interval, in one line."""
        text = self.short
        return f"{text} [{self.interval}]" if self.interval else text

    @property
    def short(self) -> str:
        """The number alone; a dash where there is none."""
        if self.value is None or not math.isfinite(self.value):
            return "–"
        if self.is_p and self.value < 10**-self.digits / 2:
            return f"<{10**-self.digits:.{self.digits}f}"
        return f"{self.value:z.{self.digits}f}{self.mark}"

    @property
    def interval(self) -> str:
        """The ends of the interval, empty where there is none."""
        if self.low is None or self.high is None or math.isnan(self.low + self.high):
            return ""
        return f"{self.low:z.{self.digits}f}, {self.high:z.{self.digits}f}"


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
class Group:
    """Rows of a table that belong together, from `start` on; `quiet` ones only give the measure."""

    start: int
    title: str
    quiet: bool = False


@dataclass(frozen=True)
class Table:
    """One table of a report.

    `warn` are the rows (by number) that a reader must not overlook; a `folded` table is closed on
    the page, because a figure says the same.
    """

    key: str
    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""
    warn: frozenset[int] = frozenset()
    groups: tuple[Group, ...] = ()
    folded: bool = False

    def as_markdown(self) -> str:
        """A Markdown table under its title."""
        bars = ["---:" if self._is_numeric(i) else "---" for i in range(len(self.headers))]
        lines = [f"### {plain(self.title)}", "", _bar(map(plain, self.headers)), _bar(bars)]
        titles = {group.start: group.title for group in self.groups}
        for number, row in enumerate(self.rows):
            if number in titles:
                lines.append(_bar([f"**{plain(titles[number])}**", *[""] * (len(row) - 1)]))
            lines.append(_bar(plain(str(cell)) for cell in map(_shown, row)))
        return "\n".join([*lines, "", *([plain(self.note), ""] if self.note else [])])

    def as_latex(self) -> str:
        """A booktabs table, ready to be input."""
        aligned = "".join("r" if self._is_numeric(i) else "l" for i in range(len(self.headers)))
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex(self.title)}}}",
            rf"\label{{tab:{slug(self.key)}}}",
            rf"\begin{{tabular}}{{{aligned}}}",
            r"\toprule",
            " & ".join(map(_latex, self.headers)) + r" \\",
            *self._latex_rows(),
            r"\bottomrule",
            r"\end{tabular}",
            *([rf"\par\smallskip{{\footnotesize {_latex(self.note)}}}"] if self.note else []),
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def _latex_rows(self) -> list[str]:
        titles = {group.start: group.title for group in self.groups}
        lines = [] if 0 in titles else [r"\midrule"]
        for number, row in enumerate(self.rows):
            if number in titles:
                told = _latex(titles[number])
                lines += [r"\midrule", rf"\multicolumn{{{len(row)}}}{{l}}{{\emph{{{told}}}}} \\"]
            lines.append(" & ".join(_latex(str(_shown(cell))) for cell in row) + r" \\")
        return lines

    def as_csv(self) -> str:
        """The numbers at full precision; intervals and groups in columns of their own."""
        wide = [i for i in range(len(self.headers)) if self._has_interval(i)]
        headers = [name for i, h in enumerate(self.headers) for name in _columns(h, i in wide)]
        if self.groups:
            headers = ["group", *headers]
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(headers)
        for group, rows in self._grouped():
            first = [group.title if group else ""] if self.groups else []
            for _, row in rows:
                cells = [v for i, cell in enumerate(row) for v in _values(cell, i in wide)]
                writer.writerow([*first, *cells])
        return stream.getvalue()

    def as_html(self) -> str:
        """A table for the page; numbers are aligned, intervals small under them."""
        numeric = [self._is_numeric(i) for i in range(len(self.headers))]
        head = "".join(
            f'<th scope="col"{_N if n else ""}>{html.escape(name)}</th>'
            for n, name in zip(numeric, self.headers, strict=True)
        )
        parts = [f"<table>\n<thead><tr>{head}</tr></thead>"]
        for group, rows in self._grouped():
            parts.append('<tbody class="quiet">' if group and group.quiet else "<tbody>")
            if group:
                wide = f'colspan="{len(self.headers)}" scope="rowgroup"'
                parts.append(f'<tr class="group"><th {wide}>{html.escape(group.title)}</th></tr>')
            for number, row in rows:
                cells = "".join(map(_html_cell, row))
                parts.append(f"<tr{_WARN if number in self.warn else ''}>{cells}</tr>")
            parts.append("</tbody>")
        return "\n".join([*parts, "</table>"])

    def _grouped(self) -> list[tuple[Group | None, list[tuple[int, tuple[Any, ...]]]]]:
        rows = list(enumerate(self.rows))
        if not self.groups:
            return [(None, rows)]
        ends = [*(group.start for group in self.groups[1:]), len(rows)]
        found: list[tuple[Group | None, list[tuple[int, tuple[Any, ...]]]]] = [
            (group, rows[group.start : end]) for group, end in zip(self.groups, ends, strict=True)
        ]
        return found

    def _is_numeric(self, column: int) -> bool:
        cells = [row[column] for row in self.rows]
        known = [cell for cell in cells if cell is not None]
        return bool(known) and all(isinstance(cell, NUMERIC) for cell in known)

    def _has_interval(self, column: int) -> bool:
        cells = (row[column] for row in self.rows)
        return any(isinstance(cell, Number) and cell.interval for cell in cells)


NUMERIC = (int, float, Number, Spread)
_N, _WARN = ' class="n"', ' class="warn"'
# What could be taken for markup, or for a link, by a reader of Markdown.
_MARKUP = re.compile(r"([\\`*_\[\]<>|#])")


def plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def slug(text: str) -> str:
    """A name for files, labels and anchors, whatever was in the text."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-") or "none"


def _shown(cell: Any) -> Any:
    if cell is None:
        return "–"
    return Number(cell) if isinstance(cell, float) else cell


def _bar(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def _latex(text: str) -> str:
    return " ".join(text.translate(_LATEX).split())


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
        apart = " to " if "-" in cell.interval else "–"
        ends = html.escape(cell.interval.replace(", ", apart))
        return f'<td class="n">{html.escape(cell.short)} <small>{ends}</small></td>'
    kind = _N if isinstance(cell, NUMERIC) or cell == "–" else ""
    return f"<td{kind}>{html.escape(str(cell))}</td>"
