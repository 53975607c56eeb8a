"""The audit of reliability: do several raters, or several prompts, measure one thing?

Cronbach's alpha compares the variance of the sum of the raters with the sum of their variances. It
ignores that one rater gives higher numbers than another; Krippendorff's alpha for intervals, which
is beside it, counts this as disagreement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze.audits.result import (
    Audit,
    Finding,
    IntervalEnds,
)
from obygaze.audits.texts import (
    TextSource,
    column_names,
    read_records,
    source_name,
)
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest import read_manifest
from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.manifest.same_clip import clips_of_rows

if TYPE_CHECKING:
    from obygaze_models.evaluation.bootstrap import Interval

Floats = NDArray[np.float64]
HEADERS = ("rater", "mean", "sd")


@dataclass(frozen=True)
class Rater:
    """The mean and the standard deviation of the numbers of one rater."""

    name: str
    mean: float
    sd: float


@dataclass(frozen=True, eq=False, repr=False)
class ReliabilityAudit(Audit):
    """Cronbach's and Krippendorff's alpha of raters, with their 95 % intervals over clusters.

    Both are of the `n_items` that all raters have rated; `n_incomplete` others are left out. The
    alphas are None where no item differs from another.
    """

    source: str
    n_items: int
    n_incomplete: int
    n_clusters: int
    cronbach: float | None
    cronbach_interval: IntervalEnds
    krippendorff: float | None
    krippendorff_interval: IntervalEnds
    raters: tuple[Rater, ...]

    def finding(self) -> Finding:
        """Return a row for each rater, and a sentence for each alpha."""
        rows = [(rater.name, rater.mean, rater.sd) for rater in self.raters]
        sentences = [
            f"Cronbach's alpha of {len(self.raters)} raters: "
            f"{_alpha_text(self.cronbach, self.cronbach_interval)}.",
            f"Krippendorff's alpha (interval): "
            f"{_alpha_text(self.krippendorff, self.krippendorff_interval)}.",
            f"{self.n_items} items in {self.n_clusters} clusters; intervals (95 %) are "
            "bootstrapped over clusters.",
        ]
        if self.n_incomplete:
            sentences.append(
                f"{self.n_incomplete} items that not all raters have rated are left out."
            )
        title = f"Reliability: {self.source}"
        return Finding(title, HEADERS, tuple(rows), sentences=tuple(sentences))


def audit_reliability(
    source: TextSource | Manifest,
    *,
    raters: str | Sequence[str] | None = None,
    column: str | None = None,
    cluster: str | Sequence[str] | None = None,
    workspace: str | Path | None = None,
) -> ReliabilityAudit:
    """Measure whether several raters or prompts measure one thing: Cronbach's alpha."""
    names = column_names(raters)
    if column is None and not names:
        raise FixUsage(
            "expected the columns of the raters, or the column that annotators filled in",
            hint="--raters ada,ben of a table, or --column Rating of a manifest with annotators",
        )
    records, title, annotators = _records_of(source, column, workspace)
    names = names or annotators
    if len(names) < 2:
        raise FixInput(
            f"expected at least two raters, got {len(names)}", hint="--raters ada,ben"
        )
    rows: list[list[float]] = []
    clusters: list[str] = []
    n_incomplete = 0
    cluster_columns = column_names(cluster)
    needed = (*names, *cluster_columns)
    for record in read_records(records, needed, hint="--raters, --cluster"):
        numbers = [_number(record.cells[name], name, record.where) for name in names]
        rated = [number for number in numbers if number is not None]
        if len(rated) < len(names):
            n_incomplete += 1
            continue
        rows.append(rated)
        clusters.append(record.cluster(cluster_columns))
    if len(rows) < 2:
        raise FixInput(
            f"expected at least two items that all raters have rated, got {len(rows)}",
            where=title,
        )
    return reliability_of(
        np.array(rows),
        names,
        clusters,
        source=title,
        n_incomplete=n_incomplete,
    )


def _records_of(
    source: TextSource | Manifest, column: str | None, workspace: str | Path | None
) -> tuple[TextSource, str, tuple[str, ...]]:
    """Return a table with a column for each rater, its title, and the annotators of a manifest."""
    if isinstance(source, Manifest):
        manifest = source
    elif not isinstance(source, str | Path):
        return source, source_name(source), ()
    else:
        path = Path(source)
        is_table = path.exists() or path.suffix not in ("", ".toml")
        if is_table and column is None:
            return source, source_name(source), ()
        manifest = read_manifest(source, workspace=workspace)
    if column is None:
        return [_cells(clip) for clip in manifest], manifest.name, ()
    rows, annotators = _rated_clips(manifest, column)
    return rows, f"{manifest.name}, {column}", annotators


def _cells(clip: Clip) -> dict[str, str]:
    return {"clip_id": clip.clip_id, "movie_id": clip.movie_id, **clip.extra}


def _rated_clips(
    manifest: Manifest, column: str
) -> tuple[list[dict[str, str]], tuple[str, ...]]:
    """Return a row for each clip with a column for each annotator, and the annotators."""
    clips = [clip for clip in manifest if clip.values(column)]
    words = sorted({"|".join(clip.values(column)) for clip in clips})
    number_of: dict[str, str] = {}
    # The alphas of two words are the same, whatever their numbers.
    if len(words) == 2 and np.isnan([*map(_as_number, words)]).all():
        number_of = {word: str(n) for n, word in enumerate(words)}
    annotators: dict[str, None] = {}
    rows = []
    for rows_of_clip in clips_of_rows(clips):
        cells = _cells(rows_of_clip[0])
        for clip in rows_of_clip:
            annotator = clip.extra.get("annotator", "").strip()
            if not annotator or annotator in cells:
                raise FixInput(
                    f"expected a row of each annotator, got {annotator!r} again",
                    where=f"{manifest.name}: {clip.clip_id}",
                    hint="--raters names the columns, if each annotator has a column",
                )
            word = "|".join(clip.values(column))
            cells[annotator] = number_of.get(word, word)
            annotators[annotator] = None
        rows.append(cells)
    everyone = dict.fromkeys(annotators, "")
    return [{**everyone, **cells} for cells in rows], tuple(sorted(annotators))


def reliability_of(
    ratings: ArrayLike,
    names: Sequence[str],
    clusters: Sequence[str],
    *,
    source: str = "rows",
    n_incomplete: int = 0,
) -> ReliabilityAudit:
    """Return both alphas of a table of numbers, a row for each item, a column for each rater."""
    from obygaze_models.evaluation.bootstrap import resample

    table = np.asarray(ratings, dtype=np.float64)
    # Neither alpha changes; sums of squares keep their digits.
    centred = table - table.mean()
    items = np.ones((1, len(table)))
    point = _alphas(centred, items)
    names_of_clusters, codes = np.unique(clusters, return_inverse=True)

    def alphas_of_clusters(weights: Floats) -> dict[str, Floats]:
        return _alphas(centred, weights[:, codes])

    intervals = resample(alphas_of_clusters, names_of_clusters)
    means = table.mean(axis=0).tolist()
    deviations = table.std(axis=0, ddof=1).tolist()
    return ReliabilityAudit(
        source=source,
        n_items=len(table),
        n_incomplete=n_incomplete,
        n_clusters=len(names_of_clusters),
        cronbach=_finite(point["cronbach"][0]),
        cronbach_interval=_interval(intervals["cronbach"]),
        krippendorff=_finite(point["krippendorff"][0]),
        krippendorff_interval=_interval(intervals["krippendorff"]),
        raters=tuple(map(Rater, names, means, deviations)),
    )


def cronbach_alpha(ratings: ArrayLike) -> float | None:
    """Return Cronbach's alpha of a table, a row for each item, a column for each rater.

    It is None where the sums of all items are equal.

    >>> cronbach_alpha([[1, 2], [2, 3], [3, 4]])
    1.0
    """
    table = np.asarray(ratings, dtype=np.float64)
    centred = table - table.mean()
    return _finite(_alphas(centred, np.ones((1, len(table))))["cronbach"][0])


def _alphas(table: Floats, weights: Floats) -> dict[str, Floats]:
    """Return both alphas for each row of item weights; NaN where they are not defined."""
    n_raters = table.shape[1]
    n_items = weights.sum(axis=1)
    sums = table.sum(axis=1)
    of_raters = _squares(table, weights, n_items).sum(axis=1)
    of_sums = _squares(sums[:, None], weights, n_items)[:, 0]
    within_items = weights @ table.var(axis=1, ddof=1)
    n_values = n_items * n_raters
    mean = weights @ sums / n_values
    of_values = weights @ (table**2).sum(axis=1) - n_values * mean**2
    # Rounding leaves a remainder of the squares where all numbers are equal.
    smallest = 1e-12 * max(float((table**2).sum()), 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        cronbach = n_raters / (n_raters - 1) * (1 - of_raters / of_sums)
        expected = of_values / (n_values - 1)
        krippendorff = 1 - within_items / n_items / expected
    return {
        "cronbach": np.where(of_sums > smallest, cronbach, np.nan),
        "krippendorff": np.where(of_values > smallest, krippendorff, np.nan),
    }


def _squares(columns: Floats, weights: Floats, n_items: Floats) -> Floats:
    """Return the weighted sum of squares of each column around its mean, a row a weighting."""
    means = weights @ columns / n_items[:, None]
    return np.asarray(weights @ columns**2 - n_items[:, None] * means**2)


def _interval(bootstrapped: Interval) -> IntervalEnds:
    """Return the ends of an interval of alpha, which is at most 1."""
    return [_finite(bootstrapped.low), _finite(min(bootstrapped.high, 1))]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _number(cell: str, column: str, where: str) -> float | None:
    """Return the number of a cell; None of an empty one."""
    if not str(cell).strip():
        return None
    number = _as_number(cell)
    if not np.isfinite(number):
        raise FixInput(f"expected a number in {column!r}, got {cell!r}", where=where)
    return number


def _as_number(cell: str) -> float:
    """Return the number that a cell is; NaN if it is none."""
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def _alpha_text(alpha: float | None, interval: IntervalEnds) -> str:
    """Return an alpha with its interval as text."""
    if alpha is None:
        return "not defined, because no item differs from another"
    low, high = interval
    if low is None or high is None:
        return f"{alpha:.3f}"
    return f"{alpha:.3f} ({low:.3f} to {high:.3f})"
