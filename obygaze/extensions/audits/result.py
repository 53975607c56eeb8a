"""What all audits share: a table with sentences, JSON, files, intervals, the report of a run."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count as count_from
from pathlib import Path
from typing import Annotated, Any

import click
import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze.extensions.audits.figure import Plot, save_plot
from obygaze_features.core.console import table as aligned
from obygaze_features.core.errors import Corrupt, NotFound
from obygaze_features.core.figures import figure_stem
from obygaze_features.core.files import csv_table, pretty_json, write_new
from obygaze_features.core.function_commands import command_of
from obygaze_features.core.options import Option
from obygaze_features.core.schema_check import read_json, table_of
from obygaze_features.core.schema_rules import list_of
from obygaze_features.core.workspace import Workspace
from obygaze_models.evaluation.bootstrap import resample
from obygaze_models.report.findings import Finding

FOLDER = "audits"


def _check_cells(value: Any) -> str | None:
    is_list = isinstance(value, list)
    if is_list and all(isinstance(cell, str | int | float | None) for cell in value):
        return None
    return "must be a list of texts and numbers"


Rows = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class FindingFile:
    """A finding as a JSON file in the folder of a run; `figure` names an SVG file there."""

    title: str
    sentences: tuple[str, ...] = field(default=(), kw_only=True)
    headers: tuple[str, ...]
    rows: Annotated[Rows, list_of(_check_cells, unique=False)]
    figure: Any = None


def read_findings(run: Path) -> dict[str, Finding]:
    """Return the findings in the folder of a run by name; other JSON files are skipped."""
    findings: dict[str, Finding] = {}
    schema = replace(table_of(FindingFile), ignore_unknown=True)
    for path in sorted((run / FOLDER).glob("*.json")):
        document = read_json(path.read_bytes(), str(path), error=Corrupt)
        if not set(schema.required) <= document.tree.keys():
            continue
        file = document.check(schema)
        if file and any(len(row) != len(file.headers) for row in file.rows):
            document.add("rows", f"each row must have {len(file.headers)} cells")
        document.violations.raise_if_any(
            "the audit finding is not valid",
            "the same obygaze audit again, with --force",
            Corrupt,
        )
        findings[path.stem] = Finding(
            title=file.title,
            headers=file.headers,
            rows=file.rows,
            sentences=file.sentences,
            figure=_figure_in(run, file.figure),
        )
    return findings


def _figure_in(run: Path, name: object) -> Path | None:
    """Return the figure of a name in the folder of a run; None if a file is missing or a link."""
    if not isinstance(name, str):
        return None
    if Path(name).name != name or not name.endswith(".svg"):
        return None
    path = run / FOLDER / name
    for file in (path, path.with_suffix(".png")):
        if not file.is_file() or file.is_symlink():
            return None
    return path


class Audit(ABC):
    """The result of an audit. Printing it shows its table; `to_json()` has every number."""

    @abstractmethod
    def finding(self) -> Finding:
        """Return the title, the table and the sentences for a reader."""

    @abstractmethod
    def plot(self) -> Plot:
        """Return what the figure shows."""

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

    def draw(self, stem: Path, *, force: bool = True) -> tuple[Path, Path]:
        """Draw the figure into STEM.svg and STEM.png; return both paths.

        Args:
            stem: The path without its suffix.
            force: Replace files that have other contents.
        """
        return save_plot(self.plot(), stem, force=force)

    def write(
        self,
        *,
        document: Annotated[str | Path | None, Option("-o --output")] = None,
        table: str | Path | None = None,
        figure: str | Path | None = None,
        report: Annotated[str | Path | None, Option(metavar="RUN")] = None,
        for_spreadsheets: bool = False,
        force: bool = False,
        workspace: str | Path | None = None,
    ) -> list[Path]:
        """Write the audit to the given files and return the paths that were written.

        Args:
            document: The JSON file for `to_json()`.
            table: The CSV file for the table, at full precision.
            figure: The figure: PATH.svg and PATH.png.
            report: The name or the folder of a run, whose report then includes this audit.
            for_spreadsheets: Put an apostrophe before text of the table that a spreadsheet program
                would take for a formula; the first line says so.
            force: Replace files that have other contents.
            workspace: The workspace, if it is not the current one.
        """
        written: list[Path] = []
        finding = self.finding()
        if document is not None:
            written.append(Path(document))
            write_new(written[-1], pretty_json(self.to_json()), force=force)
        if table is not None:
            written.append(Path(table))
            data = csv_table(
                finding.headers, finding.rows, for_spreadsheets=for_spreadsheets
            )
            write_new(written[-1], data, force=force)
        if figure is not None:
            written += self.draw(figure_stem(Path(figure)), force=force)
        if report is not None:
            run = Workspace.of(workspace).existing("runs", report)
            if not Path(run, "run.json").is_file():
                message = "not a run folder: run.json is missing"
                hint = "obygaze run --help"
                raise NotFound(message, where=str(run), hint=hint)
            document_path = _path_in_run(Path(run, FOLDER), finding, force=force)
            svg, png = self.draw(document_path.with_suffix(""), force=force)
            written += [document_path, svg, png]
            write_new(
                document_path, _document_in_run(finding, document_path), force=force
            )
        return written


def audit_command(function: Callable[..., Audit], name: str) -> click.Command:
    """Return the command of a function that returns an audit, with the options of its files."""
    return command_of(function, name, then=Audit.write)


def _path_in_run(folder: Path, finding: Finding, *, force: bool) -> Path:
    """Return the file of an audit in a run's folder, called after the title.

    Another audit of the same title (of other columns, say) keeps its file: this one gets the next
    free number, unless `force` says that it is to be replaced.
    """
    title = re.sub(r"[^A-Za-z0-9]+", "-", finding.title).strip("-").lower()[:80]
    path = folder / f"{title}.json"
    if force:
        return path
    for number in count_from(2):
        if not path.exists() or path.read_bytes() == _document_in_run(finding, path):
            break
        path = folder / f"{title}-{number}.json"
    return path


def _document_in_run(finding: Finding, path: Path) -> bytes:
    file = FindingFile(
        title=finding.title,
        sentences=finding.sentences,
        headers=finding.headers,
        rows=finding.rows,
        figure=path.with_suffix(".svg").name,
    )
    return pretty_json(asdict(file))


Interval = list[float | None]


def ratio_interval(
    top: ArrayLike, bottom: ArrayLike, clusters: Sequence[str], *, scale: int = 1
) -> Interval:
    """Return the 95 % interval of scale * sum(top) / sum(bottom), bootstrapped over clusters.

    An end that cannot be computed is None.
    """
    names, codes = np.unique(clusters, return_inverse=True)
    tops = np.bincount(codes, weights=np.asarray(top))
    bottoms = np.bincount(codes, weights=np.asarray(bottom))

    def ratio(weights: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        with np.errstate(invalid="ignore"):
            return {"ratio": scale * (weights @ tops) / (weights @ bottoms)}

    interval, _ = resample(ratio, names)["ratio"]
    most = scale if np.all(tops <= bottoms) else math.inf
    ends = np.clip((interval.low, interval.high), 0, most).tolist()
    return [end if math.isfinite(end) else None for end in ends]
