"""What an audit has to say: a few true sentences, one table, one figure; for a page or a shell."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from obygaze_features.core.console import table


@dataclass(frozen=True)
class Finding:
    """An audit's outcome for a report: plain text and values, no markup."""

    title: str
    sentences: Sequence[str]
    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    figure: Path | None = field(default=None)

    def with_figure(self, path: Path) -> Finding:
        """The same finding, with where its figure lies."""
        return replace(self, figure=path)

    def to_text(self) -> str:
        """The finding as a person reads it in a shell."""
        told = table(self.headers, self.rows) if self.rows else ""
        return "\n\n".join(part for part in (self.title, told, "\n".join(self.sentences)) if part)

    def to_json(self) -> dict[str, Any]:
        """The finding as a report page reads it; its figure by name, since it lies beside it."""
        return {
            "title": self.title,
            "sentences": list(self.sentences),
            "headers": list(self.headers),
            "rows": [list(row) for row in self.rows],
            "figure": self.figure.name if self.figure else None,
        }

    def to_csv(self) -> bytes:
        """The table as a CSV file, at full precision; a value that is not there is empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.headers)
        writer.writerows(["" if cell is None else cell for cell in row] for row in self.rows)
        return text.getvalue().encode("utf-8")


class Audit(Protocol):
    """What every audit can do with its outcome."""

    def to_json(self) -> dict[str, Any]:
        """The outcome for programs."""

    def finding(self) -> Finding:
        """The outcome for people."""

    def draw(self, stem: Path) -> tuple[Path, Path]:
        """The outcome as a figure: STEM.svg and STEM.png."""


def p_text(p: float) -> str:
    """A p-value as papers print it; never zero."""
    return "< .0001" if p < 1e-4 else f"{p:.4f}" if p < 0.001 else f"{p:.3f}"


def finite(value: float) -> float | None:
    """A number for JSON, which knows no NaN: null stands for what cannot be known."""
    return float(value) if math.isfinite(value) else None
