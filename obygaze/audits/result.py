"""What all audits share: a table with sentences, JSON, files, intervals."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze.audits.figure import Plot, save_plot
from obygaze_features.core.console import table as aligned
from obygaze_features.core.figures import figure_stem
from obygaze_features.core.files import csv_bytes, write_new
from obygaze_features.core.function_commands import command_of


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
            figure: The figure: PATH.svg and PATH.png.
        """
        written = super().write(table=table, force=force)
        if figure is not None:
            stem = figure_stem(Path(figure))
            written += save_plot(self.plot(), stem, force=force)
        return written


def audit_command(
    function: Callable[..., Audit], name: str, result: type[Audit] = Audit
) -> click.Command:
    """Return the command of a function that returns an audit, with the options of its files."""
    return command_of(function, name, then=result.write)


Interval = list[float | None]


def ratio_interval(
    top: ArrayLike, bottom: ArrayLike, clusters: Sequence[str], *, scale: int = 1
) -> Interval:
    """Return the 95 % interval of scale * sum(top) / sum(bottom), bootstrapped over clusters.

    An end that cannot be computed is None.
    """
    from obygaze_models.evaluation.bootstrap import resample

    names, codes = np.unique(clusters, return_inverse=True)
    tops = np.bincount(codes, weights=np.asarray(top))
    bottoms = np.bincount(codes, weights=np.asarray(bottom))

    def ratio(weights: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        with np.errstate(invalid="ignore"):
            return {"ratio": scale * (weights @ tops) / (weights @ bottoms)}

    interval = resample(ratio, names)["ratio"]
    most = scale if np.all(tops <= bottoms) else math.inf
    ends = np.clip((interval.low, interval.high), 0, most).tolist()
    return [end if math.isfinite(end) else None for end in ends]
