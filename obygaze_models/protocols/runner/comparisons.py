"""The records of two cells: differences of models, and of training tasks.

A contrast is a model trained on one task and on another, on the same test clips. Where all runs
share one test set, as in Table 2, a difference of AP or AUC has an interval over films and
re-trainings, and a p. Where each film is tested by models of the others, it has neither: how much
the two training sets vary together depends on the data (docs/design/0018). Test clips that trained
or chose one of the two models favour it: they are counted, and the contrast is computed again
without them if enough films are left.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.bootstrap import Interval, interval_of
from obygaze_models.evaluation.compare import nadeau_bengio, sign_flip
from obygaze_models.evaluation.families import DrawnDifference, family_p_values
from obygaze_models.evaluation.metrics import RANKING_METRICS, ranking_metric
from obygaze_models.evaluation.predictions import FloatArray
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.results.differences import (
    Comparison,
    Contrast,
    ModelOnStore,
    TrainedValue,
)
from obygaze_models.protocols.runner.cells import Cell
from obygaze_models.protocols.schema import Protocol, Question

Groups = NDArray[np.str_]
MIN_FILMS = 6  # with clips of both classes; no test over fewer films has a p below .05


def comparable(cells: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """Return the pairs of models and baselines on one cell, and of a model on two stores."""
    pairs = []
    for first, second in combinations(cells, 2):
        if not first.feature:
            continue
        if (first.train, first.test) != (second.train, second.test):
            continue
        one_model = first.model == second.model and first.feature != second.feature
        one_store = first.feature == second.feature or not second.feature
        if not one_model and not one_store:
            continue
        if np.array_equal(first.universe, second.universe):
            pairs.append((first, second))
    return pairs


@dataclass(frozen=True)
class Compared:
    """The record of the difference of two cells, and its values in the draws of films."""

    record: Comparison
    drawn: DrawnDifference


def compare_cells(
    first: Cell, second: Cell, protocol: Protocol, groups: Groups
) -> Compared:
    """Return the difference of two cells, with its interval over films."""
    metric = ranking_metric(protocol.report.primary)
    inflation = max(first.inflation, second.inflation)
    drawn = drawn_difference(first, second, metric, protocol, groups, inflation)
    over_films, _ = interval_of_difference(drawn, protocol)
    tests = p_values(first, second, metric, groups)
    interval = as_sure_as(tests.p_sign_flip, over_films, protocol.report.confidence)
    record = Comparison(
        task=first.test,
        train=first.train,
        test=first.test,
        metric=metric,
        first=ModelOnStore(model=first.model, feature=first.feature),
        second=ModelOnStore(model=second.model, feature=second.feature),
        difference=drawn.value,
        ci=[interval.low, interval.high],
        p_sign_flip=tests.p_sign_flip,
        n_films=tests.n_films,
        exact=tests.is_exact,
        p_corrected_t=tests.p_corrected_t,
        n_test_sets=tests.n_test_sets,
    )
    return Compared(record, drawn)


def drawn_difference(
    first: Cell,
    second: Cell,
    metric: str,
    protocol: Protocol,
    groups: Groups,
    inflation: float,
) -> DrawnDifference:
    """Return a difference, and its values if films are drawn, as often as the protocol says."""
    seed = (protocol.fit.seed, 2)
    n_replicates = protocol.report.replicates
    return drawn_over_films(
        first, second, metric, groups, n_replicates, seed, inflation
    )


def drawn_over_films(
    first: Cell,
    second: Cell,
    metric: str,
    groups: Groups,
    n_replicates: int,
    seed: tuple[int, ...],
    inflation: float,
) -> DrawnDifference:
    """Return a difference, and its values if films are drawn, the same for both cells."""
    ours = first.draws(groups, metric, n_replicates, seed)
    theirs = second.draws(groups, metric, n_replicates, seed)
    # The AUC of a constant is one half whatever films are drawn.
    lowest_of_first, highest_of_first = _possible_values(ours)
    lowest_of_second, highest_of_second = _possible_values(theirs)
    return DrawnDifference(
        value=first.value[metric] - second.value[metric],
        draws=ours - theirs,
        n_films=len(np.unique(groups[first.universe])),
        inflation=inflation,
        lowest=lowest_of_first - highest_of_second,
        highest=highest_of_first - lowest_of_second,
    )


def _possible_values(draws: FloatArray) -> tuple[float, float]:
    """Return the lowest and highest value of a metric: 0 and 1, or the one that it always has."""
    finite = draws[np.isfinite(draws)]
    # Draws of a perfect model are all 1, which shows too few clips, and not a sure value.
    if finite.size and np.ptp(finite) == 0 and 0 < finite[0] < 1:
        return float(finite[0]), float(finite[0])
    return 0.0, 1.0


def interval_of_difference(
    drawn: DrawnDifference, protocol: Protocol
) -> tuple[Interval, float]:
    """Return interval and standard error of a difference."""
    interval, error = interval_of(
        drawn.draws,
        drawn.value,
        drawn.n_films,
        protocol.report.confidence,
        inflation=drawn.inflation,
    )
    return interval.of_difference(drawn.lowest, drawn.highest), error


def as_sure_as(p: float, interval: Interval, confidence: float) -> Interval:
    """Return the interval, reaching to 0 if the p by films says that the difference may be 0.

    Draws of a dozen films are narrower than sign flips allow if films differ very much in their
    look (docs/design/0018). A p that is NaN says nothing.
    """
    if not p > 1 - confidence or interval.ends == (None, None):
        return interval
    return replace(interval, low=min(interval.low, 0.0), high=max(interval.high, 0.0))


def with_families(
    compared: Sequence[Compared], questions: Sequence[Question]
) -> list[Comparison]:
    """Return the records, each with its p among all differences of its family.

    The differences that the questions of the protocol ask for are one family. All others, which
    nobody asked for before the run, are the other one.
    """
    number_of = [_number_of_question(item.record, questions) for item in compared]
    records = [item.record for item in compared]
    for is_asked in (True, False):
        members = [
            position
            for position, number in enumerate(number_of)
            if (number is not None) == is_asked
        ]
        p_of_members = family_p_values([compared[i].drawn for i in members])
        for position, p in zip(members, p_of_members, strict=True):
            number = number_of[position]
            records[position] = replace(
                records[position], question=number, p_family=p, n_family=len(members)
            )
    return records


def _number_of_question(
    record: Comparison, questions: Sequence[Question]
) -> int | None:
    """Return the number of the first question that asks for a difference; None if none does."""
    for number, question in enumerate(questions):
        if _asks_for(question, record):
            return number
    return None


def _asks_for(question: Question, record: Comparison) -> bool:
    """Return whether a question asks for a difference, of either sign."""
    if question.train and question.train != record.train:
        return False
    if question.test and question.test != record.test:
        return False
    first = (question.first, question.first_store)
    second = (question.second, question.second_store)
    forwards = _is_about(first, record.first) and _is_about(second, record.second)
    backwards = _is_about(first, record.second) and _is_about(second, record.first)
    return forwards or backwards


def _is_about(asked: tuple[str, str], side: ModelOnStore) -> bool:
    """Return whether a model and its store are the ones asked for; an empty name is any."""
    model, store = asked
    return model in ("", side.model) and store in ("", side.feature)


@dataclass(frozen=True)
class Tests:
    """The two p of a difference, NaN where there is none, and what they were computed of."""

    n_films: int
    n_test_sets: int
    p_sign_flip: float = np.nan
    is_exact: bool = False
    p_corrected_t: float = np.nan


def p_values(first: Cell, second: Cell, metric: str, groups: Groups) -> Tests:
    """Return a p by films where one set of clips is tested, else over test sets of whole films.

    Flipping the signs of films assumes that they are independent, but each film also trains the
    models that are tested on the others. Runs that share their test clips are averaged first.
    Test sets that share films are not independent either, and have no p. Of five films, no pattern
    of signs has a p below .05, so fewer than six have none.
    """
    by_film = first.by_film(groups, metric) - second.by_film(groups, metric)
    by_film = by_film[np.isfinite(by_film)]
    ours = first.means(metric, lambda t: t.rows.tobytes())
    theirs = second.means(metric, lambda t: t.rows.tobytes())
    by_set = np.array([ours[rows] - theirs[rows] for rows in ours if rows in theirs])
    by_set = by_set[np.isfinite(by_set)]
    n_films = len(by_film)
    n_sets = len(by_set)
    if first.shares_films:
        return Tests(n_films, n_sets)
    if first.n_test_sets == 1 and n_films >= MIN_FILMS:
        p, is_exact = sign_flip(by_film)
        return Tests(n_films, n_sets, p_sign_flip=p, is_exact=is_exact)
    if first.n_test_sets == 1 or n_sets < 2:
        return Tests(n_films, n_sets)
    train = float(np.mean([t.n_train + t.n_validation for t in first.tested]))
    if (
        not train
    ):  # nothing was trained, so there is no share of test clips to correct for
        return Tests(n_films, n_sets)
    test = float(np.mean([len(t.rows) for t in first.tested]))
    p = nadeau_bengio(by_set, n_train=train, n_test=test)
    return Tests(n_films, n_sets, p_corrected_t=p)


def contrast_jobs(
    cells: Sequence[Cell], protocol: Protocol, table: ClipTable
) -> list[Callable[[], Contrast]]:
    """Return functions that compute the contrasts of the two training tasks of `report.contrast`.

    The cells have all of their seeds.
    """
    if not protocol.contrast:
        return []
    groups = table.column(protocol.splits.group)
    primary = protocol.report.primary
    cell_of = {(c.train, c.test, c.model, c.feature): c for c in cells}
    jobs: list[Callable[[], Contrast]] = []
    for (train, test, model, feature), first in cell_of.items():
        if train != protocol.contrast[0]:
            continue
        second = cell_of.get((protocol.contrast[1], test, model, feature))
        if second is None or not np.array_equal(first.universe, second.universe):
            continue
        for ours, theirs, n_leaked in _with_and_without_leaks(
            first, second, groups, table
        ):
            metrics = [ranking_metric(primary)]
            # Margins have no Brier score and no calibration error.
            if primary in ours.value and primary not in metrics:
                metrics.insert(0, primary)
            for metric in metrics:
                jobs.append(
                    partial(_contrast, ours, theirs, metric, n_leaked, protocol, groups)
                )
    return jobs


def _with_and_without_leaks(
    first: Cell, second: Cell, groups: Groups, table: ClipTable
) -> Iterator[tuple[Cell, Cell, int]]:
    """Yield both cells with the number of leaked test clips, and if any leaked, without those."""
    leaked: set[str] = set()
    for t in (*first.tested, *second.tested):
        leaked.update(t.leak.clips)
    rows = np.array(
        [row for row in first.universe if table.ids[row] in leaked], dtype=np.intp
    )
    yield first, second, len(rows)
    if not len(rows):
        return
    ours = first.without(rows)
    theirs = second.without(rows)
    if not ours.tested:
        return
    films = groups[ours.universe]
    y = ours.y
    if len(np.intersect1d(films[y], films[~y])) >= MIN_FILMS:
        yield ours, theirs, 0


def _by_seed(cell: Cell, metric: str) -> NDArray[np.float64]:
    """Return the value of a metric for each seed of a cell."""
    return np.array([cell.values([seed])[metric] for seed in cell.seeds])


def _contrast(
    first: Cell,
    second: Cell,
    metric: str,
    leaked: int,
    protocol: Protocol,
    groups: Groups,
) -> Contrast:
    by_seed = [_by_seed(first, metric), _by_seed(second, metric)]
    ours = float(by_seed[0].mean())
    theirs = float(by_seed[1].mean())
    by_film = first.by_film(groups, metric) - second.by_film(groups, metric)
    by_film = by_film[np.isfinite(by_film)]
    interval = None
    p = np.nan
    if first.n_test_sets == 1 and metric in RANKING_METRICS:
        p = p_values(first, second, metric, groups).p_sign_flip
        # Over films, with the variance over seeds added.
        drawn = drawn_difference(first, second, metric, protocol, groups, 1.0)
        of_seeds = sum(float(v.var(ddof=1)) / len(v) for v in by_seed if len(v) > 1)
        _, error = interval_of_difference(drawn, protocol)
        inflation = 1 + of_seeds / error**2 if error > 0 else 1.0
        widened = replace(drawn, inflation=inflation)
        over_films, _ = interval_of_difference(widened, protocol)
        reaching = as_sure_as(p, over_films, protocol.report.confidence)
        interval = [reaching.low, reaching.high]
    return Contrast(
        model=first.model,
        feature=first.feature,
        test=first.test,
        metric=metric,
        first=TrainedValue(train=first.train, value=ours),
        second=TrainedValue(train=second.train, value=theirs),
        difference=ours - theirs,
        ci=interval,
        p=p,
        n_seeds=max(len(values) for values in by_seed),
        seed_sd=[float(v.std(ddof=1)) if len(v) > 1 else np.nan for v in by_seed],
        n_films=len(by_film),
        n_films_higher=int((by_film > 0).sum()),
        n_test=len(first.universe),
        n_positive=int(first.y.sum()),
        leaked=leaked,
    )
