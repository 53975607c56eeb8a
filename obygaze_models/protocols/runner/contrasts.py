"""Records of contrasts: a model trained on one task and on another, on the same test clips.

Where all runs share one test set, as in Table 2, the difference has an interval over films and
re-trainings, and a p. Where each film is tested by models of the others, it has neither: how much
the two training sets vary together depends on the data (docs/design/0009).

Test clips that trained or chose one of the two models favour it: they are counted, and the contrast
is computed again without them if enough films are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.intervals import Interval
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.runner.cell_records import difference_interval, p_values
from obygaze_models.protocols.runner.cells import Cell
from obygaze_models.protocols.runner.records import Record
from obygaze_models.protocols.schema import Protocol

Groups = NDArray[np.str_]
# Its p-value has a known level, whatever the primary metric is.
TESTED_METRIC = "ap"
MIN_FILMS = 6  # with clips of both classes; no test over fewer films has a p below .05


def contrast_jobs(
    cells: Sequence[Cell], protocol: Protocol, table: ClipTable
) -> list[Callable[[], Record]]:
    """Return functions that compute the contrasts of the two training tasks of `report.contrast`.

    Args:
        cells: The cells with all of their seeds.
        protocol: The protocol.
        table: The clips.
    """
    groups = np.array(table.column(protocol.splits.group), dtype=np.str_)
    found = {(c.train, c.test, c.model, c.feature): c for c in cells}
    jobs: list[Callable[[], Record]] = []
    for (train, test, model, feature), first in found.items():
        if not protocol.contrast or train != protocol.contrast[0]:
            continue
        second = found.get((protocol.contrast[1], test, model, feature))
        if second is None or not np.array_equal(first.universe, second.universe):
            continue
        for one, other, leaked in _parts(first, second, groups, table):
            metrics = dict.fromkeys((protocol.report.primary, TESTED_METRIC))
            jobs += [partial(_record, one, other, m, leaked, protocol, groups) for m in metrics]
    return jobs


def _parts(
    first: Cell, second: Cell, groups: Groups, table: ClipTable
) -> Iterator[tuple[Cell, Cell, int]]:
    """Yield both cells with the number of leaked test clips, and if any leaked, without those."""
    clips = {clip for cell in (first, second) for t in cell.tested for clip in t.leak.clips}
    rows = np.array([row for row in first.universe if table.ids[row] in clips], dtype=np.intp)
    yield first, second, len(rows)
    kept, other = first.without(rows), second.without(rows)
    if len(rows) and kept.tested:
        films, y = groups[kept.universe], kept.y
        if len(np.intersect1d(films[y], films[~y])) >= MIN_FILMS:
            yield kept, other, 0


def _record(
    first: Cell, second: Cell, metric: str, leaked: int, protocol: Protocol, groups: Groups
) -> Record:
    by_seed = [
        np.array([cell.values([seed])[metric] for seed in cell.seeds]) for cell in (first, second)
    ]
    one, other = (float(values.mean()) for values in by_seed)
    by_film = np.subtract(*(cell.by_group(groups, [metric])[1][metric] for cell in (first, second)))
    by_film = by_film[np.isfinite(by_film)]
    inflated = partial(difference_interval, first, second, metric, protocol, groups)
    return {
        "kind": "contrast",
        **{key: getattr(first, key) for key in ("model", "feature", "test")},
        "metric": metric,
        "first": {"train": first.train, "value": one},
        "second": {"train": second.train, "value": other},
        "difference": one - other,
        "ci": _interval(inflated, by_seed) if first.n_test_sets == 1 else None,
        "p": p_values(first, second, metric, groups)["p_sign_flip"],
        "n_seeds": max(len(values) for values in by_seed),
        "seed_sd": [float(v.std(ddof=1)) if len(v) > 1 else np.nan for v in by_seed],
        "n_movies": len(by_film),
        "n_movies_higher": int((by_film > 0).sum()),
        "n_test": len(first.universe),
        "n_positive": int(first.y.sum()),
        "leaked": leaked,
    }


def _interval(
    inflated: Callable[[float], tuple[Interval, float]], by_seed: Sequence[NDArray[np.float64]]
) -> list[float]:
    """Return the interval of the difference over films, with the variance over seeds added."""
    of_seeds = sum(float(v.var(ddof=1)) / len(v) for v in by_seed if len(v) > 1)
    _, error = inflated(1.0)
    interval, _ = inflated(1 + of_seeds / error**2 if error > 0 else 1.0)
    return [interval.low, interval.high]
