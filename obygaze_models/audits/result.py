"""What all audits share: a table with sentences, JSON, files, intervals and parts of figures."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.console import table as aligned
from obygaze_features.core.errors import AlreadyThere, Corrupt, NotFound
from obygaze_features.core.figures import figure_stem
from obygaze_features.core.files import csv_for_people, pretty_json, write_new
from obygaze_features.core.schema_check import read_json, table_of
from obygaze_features.core.schema_rules import list_of
from obygaze_models.evaluation.bootstrap import resample

FOLDER = "audits"
BLUE, RED = "#4f7ea3", "#a8324a"


def _check_cells(value: Any) -> str | None:
    if isinstance(value, list) and all(isinstance(c, str | int | float | None) for c in value):
        return None
    return "must be a list of texts and numbers"


Rows = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Finding:
    """The result of an audit as a reader sees it: plain text and values, no markup.

    `figure` is the name of an SVG file in the same folder.
    """

    title: str
    sentences: tuple[str, ...] = field(default=(), kw_only=True)
    headers: tuple[str, ...]
    rows: Annotated[Rows, list_of(_check_cells, unique=False)]
    figure: Any = None

    def to_text(self) -> str:
        """Return the title, the aligned table and the sentences."""
        rows = aligned(self.headers, self.rows) if self.rows else ""
        return "\n\n".join(part for part in (self.title, rows, "\n".join(self.sentences)) if part)

    def to_csv(self) -> bytes:
        """Return the table as CSV at full precision; a missing value is an empty cell."""
        return csv_for_people(self.headers, self.rows)

    def svg(self, run: Path) -> Path | None:
        """Return the figure in the folder of a run; None if it is missing or a link."""
        name = self.figure
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(".svg"):
            return None
        path = run / FOLDER / name
        return path if path.is_file() and not path.is_symlink() else None


def read_findings(run: Path) -> dict[str, Finding]:
    """Return the findings in the folder of a run by name; other JSON files are skipped."""
    found: dict[str, Finding] = {}
    schema = replace(table_of(Finding), ignore_unknown=True)
    for path in sorted((run / FOLDER).glob("*.json")):
        document = read_json(path.read_bytes(), str(path), error=Corrupt)
        if set(schema.required) <= document.tree.keys():
            finding = document.check(schema)
            if finding and any(len(row) != len(finding.headers) for row in finding.rows):
                document.add("rows", f"each row must have {len(finding.headers)} cells")
            hint = "the same obygaze audit again, with --force"
            document.violations.raise_if_any("the audit finding is not valid", hint, Corrupt)
            found[path.stem] = finding
    return found


class Audit(ABC):
    """The result of an audit. Printing it shows its table; `to_json()` has every number."""

    @abstractmethod
    def finding(self) -> Finding:
        """Return the title, the table and the sentences for a reader."""

    @abstractmethod
    def draw(self, stem: Path) -> tuple[Path, Path]:
        """Draw the figure into STEM.svg and STEM.png; return both paths."""

    @property
    def warnings(self) -> Sequence[str]:
        """What the command prints as warnings, even with --quiet."""
        return ()

    def to_json(self) -> dict[str, Any]:
        """Return every number as one JSON document."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    def __str__(self) -> str:
        return self.finding().to_text()

    def __repr__(self) -> str:
        finding = self.finding()
        return f"<{type(self).__name__}: {finding.title[:80]}, {len(finding.rows)} rows>"

    def write(
        self,
        *,
        document: str | Path | None = None,
        table: str | Path | None = None,
        figure: str | Path | None = None,
        run: str | Path | None = None,
        force: bool = False,
    ) -> list[Path]:
        """Write the audit to the given files and return the paths that were written.

        Args:
            document: The JSON file for `to_json()`.
            table: The CSV file for the table.
            figure: The figure: PATH.svg and PATH.png.
            run: The folder of a run, whose report then includes this audit.
            force: Replace files that exist.
        """
        written: list[Path] = []
        if document is not None:
            written.append(Path(document))
            write_new(written[-1], pretty_json(self.to_json()), force=force)
        if table is not None:
            written.append(Path(table))
            write_new(written[-1], self.finding().to_csv(), force=force)
        if figure is not None:
            stem = figure_stem(Path(figure))
            _check_free([stem.with_name(f"{stem.name}{end}") for end in (".svg", ".png")], force)
            written += self.draw(stem)
        return [*written, *(self._add_to_run(Path(run), force) if run is not None else ())]

    def _add_to_run(self, run: Path, force: bool) -> list[Path]:
        if not (run / "run.json").is_file():
            raise NotFound(
                "not a run folder: run.json is missing", where=str(run), hint="obygaze run --help"
            )
        finding = self.finding()
        name = re.sub(r"[^A-Za-z0-9]+", "-", finding.title).strip("-").lower()[:80]
        files = [run / FOLDER / f"{name}{end}" for end in (".json", ".svg", ".png")]
        _check_free(files, force)
        self.draw(run / FOLDER / name)
        document = asdict(replace(finding, figure=files[1].name))
        write_new(files[0], pretty_json(document), force=force)
        return files


def p_text(p: float) -> str:
    """Return a p-value as papers print it, never as zero."""
    return "< .0001" if p < 1e-4 else f"{p:.4f}" if p < 0.001 else f"{p:.3f}"


def p_equals(p: float) -> str:
    """Return a p-value in a sentence: "p = 0.300" or "p < .0001"."""
    return f"p {p_text(p)}" if p < 1e-4 else f"p = {p_text(p)}"


def ratio_interval(
    top: ArrayLike, bottom: ArrayLike, clusters: Sequence[str], *, scale: int = 1, seed: int = 0
) -> list[float | None]:
    """Return the 95 % interval of scale * sum(top) / sum(bottom), bootstrapped over clusters.

    An end that cannot be computed is None.
    """
    names, codes = np.unique(clusters, return_inverse=True)
    tops, bottoms = (np.bincount(codes, weights=np.asarray(side)) for side in (top, bottom))

    def ratio(weights: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        with np.errstate(invalid="ignore"):
            return {"ratio": scale * (weights @ tops) / (weights @ bottoms)}

    interval, _ = resample(ratio, names, unit="cluster", seed=seed)["ratio"]
    return [float(end) if math.isfinite(end) else None for end in (interval.low, interval.high)]


def add_note(
    axes: Any, text: str, at: tuple[float, float], shift: tuple[float, float], **style: Any
) -> None:
    """Write a note at a point, shifted by some points of the page."""
    axes.annotate(text, at, xytext=shift, textcoords="offset points", **style)


def note_beside(axes: Any, row: int, text: str, shift: float, **style: Any) -> None:
    """Write a note to the right of the axes, at the height of a row."""
    place = {"xycoords": ("axes fraction", "data"), "va": "center"}
    add_note(axes, text, (1.0, row), (shift, 0), **place, **style)


def _check_free(paths: Sequence[Path], force: bool) -> None:
    for path in paths:
        if path.exists() and not force:
            raise AlreadyThere("this file exists already", where=str(path), hint="--force")
