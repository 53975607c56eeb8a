"""What all audits share: a table with sentences, JSON, files, intervals, a figure."""

import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from obygaze_features.core.console import table as aligned
from obygaze_features.core.figures import (
    COLORS,
    WIDTH,
    canvas,
    draw_dots,
    draw_grid,
    label_rows,
    save,
)
from obygaze_features.core.files import csv_bytes, write_new

IntervalEnds = list[float | None]
MAX_ROWS = 40


@dataclass(frozen=True)
class Finding:
    """The result of an audit as a reader sees it: plain text and values, no markup.

    Each row has a cell for each header.
    """

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    sentences: tuple[str, ...] = ()


class Audit(ABC):
    """The result of an audit. Printing it shows its table; `to_json()` has every number."""

    @abstractmethod
    def finding(self) -> Finding:
        """Return the title, the table and the sentences for a reader."""

    def to_json(self) -> dict[str, Any]:
        """Return every number as one JSON document."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    def __str__(self) -> str:
        finding = self.finding()
        rows = aligned(finding.headers, finding.rows) if finding.rows else ""
        sentences = "\n".join(finding.sentences)
        parts = (finding.title, rows, sentences)
        return "\n\n".join(part for part in parts if part)

    def __repr__(self) -> str:
        finding = self.finding()
        return (
            f"<{type(self).__name__}: {finding.title[:80]}, {len(finding.rows)} rows>"
        )

    def write(
        self, *, table: str | Path | None = None, force: bool = False
    ) -> list[Path]:
        """Write the audit to the given file and return the paths that were written.

        Args:
            table: The CSV file for the table, at full precision.
            force: Replace files that have other contents.
        """
        if table is None:
            return []
        finding = self.finding()
        data = csv_bytes(finding.headers, finding.rows)
        write_new(Path(table), data, force=force)
        return [Path(table)]


class Point(NamedTuple):
    """A labelled row: a value with the ends of its interval, and a note beside the axes."""

    label: str
    value: float
    ends: Sequence[float | None] = ()
    note: str = ""


class Plot(NamedTuple):
    """Rows from top to bottom; `line` is a value that all rows are compared with."""

    title: str
    points: Sequence[Point]
    xlabel: str
    line: float | None = None


class DrawnAudit(Audit):
    """An audit with a figure."""

    @abstractmethod
    def plot(self) -> Plot:
        """Return what the figure shows."""

    def write(
        self,
        *,
        table: str | Path | None = None,
        force: bool = False,
        figure: str | Path | None = None,
    ) -> list[Path]:
        """Write the audit to the given files and return the paths that were written.

        Args:
            table: The CSV file for the table, at full precision.
            force: Replace files that have other contents.
            figure: Draw PATH.svg and PATH.png; a PATH with .svg, .png or .pdf is one file.
        """
        written = super().write(table=table, force=force)
        if figure is not None:
            with drawing(self.plot()) as drawn:
                written += save(drawn, Path(figure), force=force)
        return written


class ReportedAudit(DrawnAudit):
    """An audit with a figure and a page."""

    @abstractmethod
    def page(self) -> str:
        """Return the page as HTML."""

    def write(
        self,
        *,
        table: str | Path | None = None,
        force: bool = False,
        figure: str | Path | None = None,
        report: str | Path | None = None,
    ) -> list[Path]:
        """Write the audit to the given files and return the paths that were written.

        Args:
            table: The CSV file for the table, at full precision.
            force: Replace files that have other contents.
            figure: Draw PATH.svg and PATH.png; a PATH with .svg, .png or .pdf is one file.
            report: The HTML file for a page with the answer, the figure and the table.
        """
        written = super().write(table=table, force=force, figure=figure)
        if report is not None:
            write_new(Path(report), self.page().encode("utf-8"), force=force)
            written.append(Path(report))
        return written


@contextmanager
def drawing(plot: Plot) -> Iterator[Any]:
    """Yield the first 40 rows as a figure."""
    points = plot.points[:MAX_ROWS]
    n_all = len(plot.points)
    with canvas(WIDTH, 65 + 20 * max(len(points), 1)) as (figure, axes):
        for row, (_, value, ends, note) in enumerate(points):
            is_below = plot.line is not None and value < plot.line
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
        if plot.line is not None:
            axes.axvline(plot.line, color=COLORS["muted"], lw=0.8, zorder=1)
        draw_grid(axes)
        axes.set_xlabel(plot.xlabel)
        title = plot.title
        if n_all > MAX_ROWS:
            title += f" ({MAX_ROWS} of {n_all} rows)"
        axes.set_title(title)
        yield figure
