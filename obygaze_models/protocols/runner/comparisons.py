"""The records of two cells: differences of models, and of training tasks.

A contrast is a model trained on one task and on another, on the same test clips. Where all runs
share one test set, as in Table 2, a difference of AP or AUC has an interval over films and
re-trainings, and a p. Where each film is tested by models of the others, it has neither: how much
the two training sets vary together depends on the data (docs/design/0009). Test clips that trained
or chose one of the two models favour it: they are counted, and the contrast is computed again
without them if enough films are left.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.bootstrap import Interval, interval_of
from obygaze_models.evaluation.compare import nadeau_bengio, sign_flip
from obygaze_models.evaluation.metrics import RANKING_METRICS, ranking_metric
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.runner.cells import Cell
from obygaze_models.protocols.runner.records import Record
from obygaze_models.protocols.schema import Protocol

Groups = NDArray[np.str_]
MIN_FILMS = 6  # with clips of both classes; no test over fewer films has a p below .05


def comparable(cells: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """Return the pairs of models and baselines on one cell, and of a model on two stores."""
    pairs = []
    for first, second in combinations(cells, 2):
        same_cell = (first.train, first.test) == (second.train, second.test)
        one_model = first.model == second.model and first.feature != second.feature
        one_store = first.feature == second.feature or not second.feature
        if (
            same_cell
            and (one_model or one_store)
            and first.feature
            and np.array_equal(first.universe, second.universe)
        ):
            pairs.append((first, second))
    return pairs


def comparison(first: Cell, second: Cell, protocol: Protocol, groups: Groups) -> Record:
    """Return the record of the difference of two cells."""
    metric = ranking_metric(protocol.report.primary)
    inflation = max(first.inflation, second.inflation)
    interval, _ = difference_interval(
        first, second, metric, protocol, groups, inflation
    )
    return {
        "kind": "comparison",
        **{"task": first.test, "train": first.train, "test": first.test},
        "metric": metric,
        "first": {"model": first.model, "feature": first.feature},
        "second": {"model": second.model, "feature": second.feature},
        "difference": first.value[metric] - second.value[metric],
        "ci": [interval.low, interval.high],
        **p_values(first, second, metric, groups),
    }


def difference_interval(
    first: Cell,
    second: Cell,
    metric: str,
    protocol: Protocol,
    groups: Groups,
    inflation: float,
) -> tuple[Interval, float]:
    """Return interval and standard error of a difference, both cells on the same drawn films."""
    report = protocol.report
    seed = (protocol.fit.seed, 2)
    ours, theirs = (
        cell.draws(groups, metric, report.replicates, seed) for cell in (first, second)
    )
    k = len(np.unique(groups[first.universe]))
    difference = first.value[metric] - second.value[metric]
    return interval_of(
        ours - theirs, difference, k, report.confidence, inflation=inflation
    )


def p_values(first: Cell, second: Cell, metric: str, groups: Groups) -> Record:
    """Return a p by films where one set of clips is tested, else over test sets of whole films.

    Flipping the signs of films assumes that they are independent, but each film also trains the
    models that are tested on the others. Runs that share their test clips are averaged first.
    Test sets that share films are not independent either, and have no p.
    """
    ours, theirs = (cell.by_film(groups, metric) for cell in (first, second))
    by_movie = (ours - theirs)[np.isfinite(ours - theirs)]
    one, other = (
        cell.means(metric, lambda t: t.rows.tobytes()) for cell in (first, second)
    )
    by_set = np.array([one[rows] - other[rows] for rows in one if rows in other])
    by_set = by_set[np.isfinite(by_set)]
    found: Record = {"p_sign_flip": np.nan, "n_movies": len(by_movie), "exact": False}
    found |= {"p_corrected_t": np.nan, "n_test_sets": len(by_set)}
    if first.n_test_sets == 1 and len(by_movie):
        found["p_sign_flip"], found["exact"] = sign_flip(by_movie)
    elif len(by_set) > 1 and not first.shares_films:
        train = float(np.mean([t.n_train + t.n_validation for t in first.tested]))
        test = float(np.mean([len(t.rows) for t in first.tested]))
        found["p_corrected_t"] = nadeau_bengio(by_set, n_train=train, n_test=test)
    return found


def contrast_jobs(
    cells: Sequence[Cell], protocol: Protocol, table: ClipTable
) -> list[Callable[[], Record]]:
    """Return functions that compute the contrasts of the two training tasks of `report.contrast`.

    The cells have all of their seeds.
    """
    groups = table.column(protocol.splits.group)
    found = {(c.train, c.test, c.model, c.feature): c for c in cells}
    jobs: list[Callable[[], Record]] = []
    for (train, test, model, feature), first in found.items():
        if not protocol.contrast or train != protocol.contrast[0]:
            continue
        second = found.get((protocol.contrast[1], test, model, feature))
        if second is None or not np.array_equal(first.universe, second.universe):
            continue
        for one, other, leaked in _with_and_without_leaks(first, second, groups, table):
            primary = protocol.report.primary
            # Margins have no Brier score and no calibration error.
            metrics = [primary] if primary in one.value else []
            metrics = list(dict.fromkeys([*metrics, ranking_metric(primary)]))
            jobs += [
                partial(_contrast, one, other, m, leaked, protocol, groups)
                for m in metrics
            ]
    return jobs


def _with_and_without_leaks(
    first: Cell, second: Cell, groups: Groups, table: ClipTable
) -> Iterator[tuple[Cell, Cell, int]]:
    """Yield both cells with the number of leaked test clips, and if any leaked, without those."""
    clips = {
        clip for cell in (first, second) for t in cell.tested for clip in t.leak.clips
    }
    rows = np.array(
        [row for row in first.universe if table.ids[row] in clips], dtype=np.intp
    )
    yield first, second, len(rows)
    kept = first.without(rows)
    other = second.without(rows)
    if len(rows) and kept.tested:
        films = groups[kept.universe]
        y = kept.y
        if len(np.intersect1d(films[y], films[~y])) >= MIN_FILMS:
            yield kept, other, 0


def _contrast(
    first: Cell,
    second: Cell,
    metric: str,
    leaked: int,
    protocol: Protocol,
    groups: Groups,
) -> Record:
    by_seed = [
        np.array([cell.values([seed])[metric] for seed in cell.seeds])
        for cell in (first, second)
    ]
    one, other = (float(values.mean()) for values in by_seed)
    by_film = np.subtract(*(cell.by_film(groups, metric) for cell in (first, second)))
    by_film = by_film[np.isfinite(by_film)]
    interval = None
    p = np.nan
    if first.n_test_sets == 1 and metric in RANKING_METRICS:
        p = p_values(first, second, metric, groups)["p_sign_flip"]
        # Over films, with the variance over seeds added.
        inflated = partial(difference_interval, first, second, metric, protocol, groups)
        of_seeds = sum(float(v.var(ddof=1)) / len(v) for v in by_seed if len(v) > 1)
        _, error = inflated(1.0)
        found, _ = inflated(1 + of_seeds / error**2 if error > 0 else 1.0)
        interval = [found.low, found.high]
    return {
        "kind": "contrast",
        **{key: getattr(first, key) for key in ("model", "feature", "test")},
        "metric": metric,
        "first": {"train": first.train, "value": one},
        "second": {"train": second.train, "value": other},
        "difference": one - other,
        "ci": interval,
        "p": p,
        "n_seeds": max(len(values) for values in by_seed),
        "seed_sd": [float(v.std(ddof=1)) if len(v) > 1 else np.nan for v in by_seed],
        "n_movies": len(by_film),
        "n_movies_higher": int((by_film > 0).sum()),
        "n_test": len(first.universe),
        "n_positive": int(first.y.sum()),
        "leaked": leaked,
    }
