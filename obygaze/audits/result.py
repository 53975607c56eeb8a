"""What all audits share: a table with sentences, JSON, files, intervals."""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from obygaze.audits.figure import Plot, save_plot
from obygaze_features.core.console import table as aligned
from obygaze_features.core.files import csv_bytes, write_new


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
            written += save_plot(self.plot(), Path(figure), force=force)
        return written


IntervalEnds = list[float | None]
