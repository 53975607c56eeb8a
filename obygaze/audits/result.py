"""The result of all audits: text, table, figure, page and JSON."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from obygaze_features.core.console import table as aligned
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.figures import (
    COLORS,
    WIDTH,
    canvas,
    draw_dots,
    draw_grid,
    label_rows,
    save,
    tick_text,
)
from obygaze_features.core.files import csv_for_people, write_new

IntervalEnds = list[float | None]
MAX_ROWS = 40
LATEX = ".tex"


class Drawable(Protocol):
    """The figure of an audit."""

    @property
    def title(self) -> str:
        """The title of the figure."""

    def drawn(self) -> AbstractContextManager[Any]:
        """Return a context with the matplotlib figure."""


class Point(NamedTuple):
    """A labelled row of a figure: a value with the ends of its interval, and a note on the right.

    A row without a value (None) has no dot.
    """

    label: str
    value: float | None
    ends: Sequence[float | None] = ()
    note: str = ""


class Plot(NamedTuple):
    """A figure of rows from top to bottom; `line` is a value with which all rows are compared."""

    title: str
    points: Sequence[Point]
    xlabel: str
    line: float | None = None

    @contextmanager
    def drawn(self) -> Iterator[Any]:
        """Yield the first 40 rows as a figure."""
        points = self.points[:MAX_ROWS]
        n_all = len(self.points)
        with canvas(WIDTH, 65 + 20 * max(len(points), 1)) as (figure, axes):
            for row, (_, value, ends, note) in enumerate(points):
                if value is None:
                    continue
                is_below = self.line is not None and value < self.line
                color = "wrong" if is_below else "model"
                draw_dots(axes, [value], [row], color, 6)
                if ends and None not in ends:
                    axes.plot(ends, [row, row], color=COLORS[color], lw=1.7, alpha=0.75)
                beside = {
                    "xycoords": ("axes fraction", "data"),
                    "textcoords": "offset points",
                }
                style = {"va": "center", "fontsize": 7.5}
                axes.annotate(note, (1.0, row), xytext=(5, 0), **beside, **style)
            label_rows(
                axes, [textwrap.shorten(p.label, 60, placeholder=" …") for p in points]
            )
            if self.line is not None:
                axes.axvline(self.line, color=COLORS["muted"], lw=0.8, zorder=1)
            draw_grid(axes)
            axes.set_xlabel(self.xlabel)
            axes.xaxis.set_major_formatter(tick_text)
            # The page and the caption have the title.
            if n_all > MAX_ROWS:
                axes.set_title(f"{MAX_ROWS} of {n_all} rows")
            yield figure


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """The result of an audit. Printing it shows its table; `to_json()` has every number.

    `audit[NAME]` returns the value that has this name in the JSON document.

    Args:
        title: The measure and its source.
        headers: The columns of the table.
        rows: The rows of the table, with a cell for each header.
        answers: The results in sentences.
        limits: Sentences on assumptions and on what was excluded.
        values: The JSON document.
        figure: The figure.
        warnings: Problems of the input.
        notes: Further lines to print.
        caption: How to read the figure, on the page.
    """

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    answers: Sequence[str]
    limits: Sequence[str]
    values: Mapping[str, Any]
    figure: Drawable
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    caption: str = ""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def to_json(self) -> dict[str, Any]:
        """Return every number as one JSON document."""
        return dict(self.values)

    def __str__(self) -> str:
        rows = aligned(self.headers, self.rows) if self.rows else ""
        sentences = "\n".join([*self.answers, *self.limits])
        return "\n\n".join(part for part in (self.title, rows, sentences) if part)

    def __repr__(self) -> str:
        return f"<Audit: {self.title[:80]}, {len(self.rows)} rows>"

    def page(self) -> str:
        """Return the answers, the figure and the table as an HTML page."""
        from obygaze_models.report import figures, tables

        with self.figure.drawn() as drawing:
            return tables.render_template(
                "finding.html",
                title=self.title,
                answers=self.answers,
                limits=self._all_limits(),
                figure=figures.Figure(
                    "figure", self.figure.title, self.caption, drawing
                ),
                table=tables.ResultTable(
                    "table", "Numbers", self.headers, self._shown_rows()
                ),
            )

    def latex(self) -> str:
        """Return the table in LaTeX, with the limits as its note."""
        from obygaze_models.report import tables

        note = " ".join(self._all_limits())
        shown = tables.ResultTable(
            "audit", self.title, self.headers, self._shown_rows(), note
        )
        return tables.render_template("table.tex", table=shown, run=self.title)

    def _shown_rows(self) -> list[tuple[object, ...]]:
        return [tuple(map(_cell_of_page, row)) for row in self.rows]

    def _all_limits(self) -> list[str]:
        """Return the limits and the warnings, which a reader of a file has not seen."""
        warned = [f"{text[:1].upper()}{text[1:]}." for text in self.warnings]
        return [*self.limits, *warned]

    def write(
        self,
        *,
        table: str | Path | None = None,
        figure: str | Path | None = None,
        report: str | Path | None = None,
        force: bool = False,
    ) -> list[Path]:
        """Write the audit to the given files and return the paths that were written.

        Args:
            table: The file for the table: .csv at full precision, or .tex for LaTeX.
            figure: Draw PATH.svg and PATH.png, or only PATH if it ends in .svg, .png or .pdf.
            report: The HTML file for a page with the answers, the figure and the table.
            force: Replace files that have other contents.
        """
        for path, suffixes in ((table, (".csv", LATEX)), (report, (".html",))):
            if path is not None and Path(path).suffix.lower() not in suffixes:
                raise FixUsage(
                    f"expected a file with the extension {' or '.join(suffixes)}, got"
                    f" {path}"
                )
        written = []
        if table is not None and Path(table).suffix.lower() == LATEX:
            write_new(Path(table), self.latex().encode("utf-8"), force=force)
            written.append(Path(table))
        elif table is not None:
            rows = []
            for row in self.rows:
                # Some cells are shown as a rounded text; the file has their number.
                rows.append([getattr(cell, "value", cell) for cell in row])
            write_new(Path(table), csv_for_people(self.headers, rows), force=force)
            written.append(Path(table))
        if figure is not None:
            with self.figure.drawn() as drawing:
                written += save(drawing, Path(figure), force=force)
        if report is not None:
            write_new(Path(report), self.page().encode("utf-8"), force=force)
            written.append(Path(report))
        return written


def record_cells(record: Mapping[str, Any], names: Sequence[str]) -> tuple[object, ...]:
    """Return the values of a record as the cells of a row; an interval becomes two cells."""
    cells: list[object] = []
    for name in names:
        value = record[name]
        cells += value if isinstance(value, list) else [value]
    return tuple(cells)


class _Shown(float):
    """A number with three decimals on a page and in LaTeX; NaN is a dash."""

    def __str__(self) -> str:
        return "–" if math.isnan(self) else f"{float(self):z.3f}"


def _cell_of_page(value: object) -> object:
    if value is None:
        return _Shown(math.nan)
    return _Shown(value) if isinstance(value, float) else value
