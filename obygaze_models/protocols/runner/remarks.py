"""Warnings that a result is misleading."""

import math
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from obygaze_features.core.console import count, few
from obygaze_models.evaluation.bootstrap import FEW_GROUPS
from obygaze_models.evaluation.metrics import goodness, ranking_metric
from obygaze_models.protocols.results.cells import CellRecord
from obygaze_models.protocols.results.differences import (
    BETTER,
    NOT_SHOWN,
    PERHAPS_BETTER,
    PERHAPS_WORSE,
    UNKNOWN,
    WORSE,
    Comparison,
)
from obygaze_models.protocols.results.whole_run import Remark
from obygaze_models.protocols.runner.cell_records import LEAST_CLIPS, LEAST_FILMS
from obygaze_models.protocols.runner.copies import deciding_column
from obygaze_models.protocols.runner.execute import FitContext
from obygaze_models.protocols.runner.rare_concepts import rare_concepts
from obygaze_models.protocols.runner.records import FILM, count_groups

MARGIN = 0.02  # a model that is better by less than this is warned of


def remarks(
    cells: Sequence[CellRecord],
    baselines: Sequence[CellRecord],
    primary: str,
    *,
    grouped: bool,
    comparisons: Sequence[Comparison] = (),
    column: str = "",
    group: str = "movie_id",
) -> Iterator[Remark]:
    """Yield warnings that a result is misleading.

    Args:
        cells: The records of the models.
        baselines: The records of the baselines.
        primary: The metric that models and baselines are compared by.
        grouped: Whether the splits have no film on both sides.
        comparisons: The differences of models and baselines.
        column: The column of the manifest that divides the clips, of `fixed` splits.
        group: The column of the manifest whose values intervals are over.
    """
    texts = _remark_texts()
    because = "" if grouped else texts["same films"]
    warnings = (
        _of_leaks(cells),
        _of_copies(cells),
        _of_films_on_both_sides(cells, column),
        _of_blind_baselines(cells, baselines, comparisons, primary, because),
        _of_shared_tests(cells),
        _of_chance(cells, group),
        _of_few_groups(cells, group),
        _of_no_interval(cells, group),
        _of_ceilings(cells, baselines),
        _of_skipped_folds(cells, baselines),
    )
    for warning in warnings:
        if warning is None:
            continue
        text = texts[warning.about].format(
            n=warning.n, n_cells=len(cells), **warning.facts
        )
        yield Remark(about=warning.about, cells=warning.n, text=text.strip())


class _Warning(NamedTuple):
    """A text of remarks.toml, the number of cells that it is about, and what it names."""

    about: str
    n: int
    facts: dict[str, Any]


def _remark_texts() -> dict[str, str]:
    path = files(__package__).joinpath("remarks.toml")
    return tomllib.loads(path.read_text("utf-8"))


def _of_leaks(cells: Sequence[CellRecord]) -> _Warning | None:
    """Return a warning of test clips that trained, without copies under another name."""
    leaked: dict[tuple[str, str], CellRecord] = {}
    for cell in cells:
        if cell.leaked > (cell.copies or 0):
            leaked[cell.pair] = cell
    if not leaked:
        return None
    worst = max(leaked.values(), key=lambda cell: cell.leak_share)
    n_pairs = len({cell.pair for cell in cells})
    return _Warning("leak", len(leaked), {"n_pairs": n_pairs, "worst": worst})


def _of_copies(cells: Sequence[CellRecord]) -> _Warning | None:
    """Return a warning of test clips whose features trained under another name."""
    copied = [cell for cell in cells if cell.copies]
    if not copied:
        return None
    worst = max(copied, key=lambda cell: (cell.copies or 0) / cell.n_test)
    return _Warning("copies", len(copied), {"worst": worst})


def _of_films_on_both_sides(
    cells: Sequence[CellRecord], column: str
) -> _Warning | None:
    """Return a warning of test clips of training films, where a column divides the clips.

    Who asks for folds of clips knows that they divide films; a column may do it by mistake.
    """
    divided = [cell for cell in cells if column and cell.same_film]
    if not divided:
        return None
    worst = max(divided, key=lambda cell: (cell.same_film or 0) / cell.n_test)
    facts = {"worst": worst, "column": column}
    return _Warning("films on both sides", len(divided), facts)


def _of_blind_baselines(
    cells: Sequence[CellRecord],
    baselines: Sequence[CellRecord],
    comparisons: Sequence[Comparison],
    primary: str,
    because: str,
) -> _Warning | None:
    """Return a warning of models that are hardly better than a baseline that sees no video."""
    beside_best = _beside_best_blind(cells, baselines, primary)
    if not beside_best:
        return None
    cell, other = max(beside_best, key=lambda pair: _lead(pair[0], pair[1], primary))
    of_store = ""
    if len({cell.feature for cell in cells}) > 1:
        of_store = f", {cell.feature}"
    facts = {
        "primary": primary,
        "cell": cell,
        "other": other,
        "ours": cell.metrics[primary].value,
        "theirs": other.metrics[primary].value,
        "why": because,
        "of_store": of_store,
        "stores": _stores_of([cell for cell, _ in beside_best], cells),
        "margin": f"{MARGIN:.2f}",
        "tested": _text_of_tests(beside_best, comparisons, primary),
    }
    return _Warning("blind baseline", len(beside_best), facts)


def _text_of_tests(
    pairs: Sequence[tuple[CellRecord, CellRecord]],
    comparisons: Sequence[Comparison],
    primary: str,
) -> str:
    """Return in how many pairs of a model and a baseline one of both is shown to be better.

    A model that may rank by chance is not: AP of a baseline with one score for all clips is the
    share of positives, and that of any order, on average, a little more.
    """
    verdict_of = {}
    for record in comparisons:
        first = (record.first.model, record.first.feature)
        second = (record.second.model, record.second.feature)
        verdict_of[record.pair, first, second] = record.verdict
    verdicts = []
    for cell, other in pairs:
        first = (cell.model, cell.feature)
        second = (other.model, other.feature)
        verdict = verdict_of.get((cell.pair, first, second), UNKNOWN)
        if verdict == BETTER and _may_rank_by_chance(cell):
            verdict = NOT_SHOWN
        verdicts.append(verdict)
    counts = Counter(verdicts)
    texts = _remark_texts()
    if counts[UNKNOWN] == len(pairs):
        return texts["not tested"]
    return texts["tested"].format(
        ranking=ranking_metric(primary),
        n_better=counts[BETTER],
        n_worse=counts[WORSE],
        n_not_shown=counts[NOT_SHOWN] + counts[PERHAPS_BETTER] + counts[PERHAPS_WORSE],
        n_unknown=counts[UNKNOWN],
    )


def _stores_of(some: Sequence[CellRecord], cells: Sequence[CellRecord]) -> str:
    """Return a sentence on the stores of some cells, "" where all cells are of one store."""
    if len({cell.feature for cell in cells}) < 2:
        return ""
    different = {id(cell): cell for cell in some}
    counts = Counter(cell.feature for cell in different.values())
    stores = ", ".join(f"{store} ({n})" for store, n in counts.items())
    return f" They are cells of {stores}."


def _of_shared_tests(cells: Sequence[CellRecord]) -> _Warning | None:
    """Return a warning of cells whose runs share their test clips."""
    shared = [cell for cell in cells if cell.repeated]
    if not shared:
        return None
    times = max(_times_tested(cell) for cell in shared)
    return _Warning("shared test", len(shared), {"times": times})


def _times_tested(cell: CellRecord) -> float:
    """Return how often a clip of a cell is tested, on average."""
    n_tests: int = sum(fold.n_test for fold in cell.folds)
    n_clips: int = cell.n_test
    return n_tests / n_clips


def _of_chance(cells: Sequence[CellRecord], group: str) -> _Warning | None:
    """Return a warning of cells that may rank by chance."""
    by_chance = [cell for cell in cells if _may_rank_by_chance(cell)]
    if not by_chance:
        return None
    groups = "films" if group == FILM else f"values of {group}"
    facts = {"stores": _stores_of(by_chance, cells), "groups": groups}
    return _Warning("chance", len(by_chance), facts)


def _may_rank_by_chance(cell: CellRecord) -> bool:
    """Return whether the interval of AUC reaches one half."""
    auc = cell.metrics.get("auc")
    low = None if auc is None else auc.ends[0]
    return low is not None and low <= 0.5


def _of_few_groups(cells: Sequence[CellRecord], group: str) -> _Warning | None:
    """Return a warning of intervals over so few films or groups that chance makes them."""
    few = []
    for cell in cells:
        has_interval = any(
            metric.ends[0] is not None for metric in cell.metrics.values()
        )
        if has_interval and cell.n_films < FEW_GROUPS:
            few.append(cell)
    if not few:
        return None
    least = min(cell.n_films for cell in few)
    others = "other films" if group == FILM else f"other values of {group}"
    facts = {"groups": count_groups(least, group), "others": others}
    return _Warning("few groups", len(few), facts)


def _of_no_interval(cells: Sequence[CellRecord], group: str) -> _Warning | None:
    """Return a warning of cells with too few clips or films for an interval."""
    without = [cell for cell in cells if cell.no_interval]
    if not without:
        return None
    cells_of_reason: dict[str, list[CellRecord]] = {}
    for cell in without:
        reason = _reason_without_interval(cell, group)
        cells_of_reason.setdefault(reason, []).append(cell)
    reasons = []
    for reason, of_reason in cells_of_reason.items():
        names = [
            f"{cell.model} on {cell.feature} ({cell.train} -> {cell.test})"
            for cell in of_reason
        ]
        reasons.append(f"{few(names)}: {reason}")
    facts = {
        "reasons": "; ".join(reasons),
        "least_clips": LEAST_CLIPS,
        "least_groups": count_groups(LEAST_FILMS, group),
        "differ": _differ(group),
    }
    return _Warning("no interval", len(without), facts)


def _differ(group: str) -> str:
    """Return how values differ over films, or over the values of a column."""
    return "from film to film" if group == FILM else "from one to another"


def _reason_without_interval(cell: CellRecord, group: str) -> str:
    """Return which of the conditions of an interval a cell does not meet."""
    n_groups = sum(values.n_positive > 0 for values in cell.by_film.values())
    n_negative = cell.n_test - cell.n_positive
    failed = []
    if n_groups < LEAST_FILMS:
        failed.append(f"{count_groups(n_groups, group)} with positive clips")
    if cell.n_positive < LEAST_CLIPS:
        failed.append(count(cell.n_positive, "positive clip"))
    if n_negative < LEAST_CLIPS:
        failed.append(count(n_negative, "negative clip"))
    if failed:
        return f"only {', '.join(failed)}"
    return f"the values do not differ {_differ(group)}"


def _of_ceilings(
    cells: Sequence[CellRecord], baselines: Sequence[CellRecord]
) -> _Warning | None:
    """Return a warning of tasks that the true concepts decide."""
    trivial = set()
    for record in baselines:
        if record.model != "oracle":
            continue
        auc = record.metrics["auc"].value or 0
        if auc > 0.98:
            trivial.add(record.pair)
    if not any(cell.pair in trivial for cell in cells):
        return None
    listed = ", ".join(f"{train} -> {test}" for train, test in sorted(trivial))
    return _Warning("ceiling", len(trivial), {"listed": listed})


def _of_skipped_folds(
    cells: Sequence[CellRecord], baselines: Sequence[CellRecord]
) -> _Warning | None:
    """Return a warning of folds that could not be trained or tested."""
    reasons = set()
    # The tables of models and baselines have a cell for each pair of tasks on the same folds.
    folds = set()
    n_records = 0
    for record in (*cells, *baselines):
        for item in record.skipped:
            reasons.add(item.reason)
            folds.add(item.fold)
        n_records += bool(record.skipped)
    if not n_records:
        return None
    facts = {"n_folds": len(folds), "reasons": "; ".join(sorted(reasons)[:3])}
    return _Warning("skipped folds", n_records, facts)


def feature_remarks(context: FitContext) -> Iterator[Remark]:
    """Yield warnings of what a store decides alone, and of concepts that its bottlenecks lack."""
    rare = rare_concepts(context)
    if rare is not None:
        yield Remark(about="rare concepts", cells=rare.n_cells, text=str(rare))
    texts = _remark_texts()
    features = context.store
    decided = {}
    for task in context.protocol.test_tasks:
        labels = context.labels[task]
        rows = np.flatnonzero(features.present & (labels >= 0))
        column = deciding_column(features.of(rows), labels[rows] == 1)
        if column is not None:
            decided[task] = column
    if decided:
        listed = ", ".join(
            f"{task} (number {column})" for task, column in decided.items()
        )
        text = texts["one number"].format(feature=features.name, listed=listed)
        yield Remark(about="one number", cells=len(decided), text=text)


def _beside_best_blind(
    cells: Sequence[CellRecord], baselines: Sequence[CellRecord], primary: str
) -> list[tuple[CellRecord, CellRecord]]:
    """Return the cells that are hardly better than a baseline without video, each with the best."""
    beside_best = []
    for cell in cells:
        close = []
        for other in baselines:
            if cell.pair != other.pair:
                continue
            same_clips = other.feature in ("", cell.feature)
            blind = other.model in ("neighbour", "film_prior")
            if same_clips and blind and _lead(cell, other, primary) > -MARGIN:
                close.append(other)
        if close:
            best = max(close, key=partial(_lead, cell, metric=primary))
            beside_best.append((cell, best))
    return beside_best


def _lead(cell: CellRecord, other: CellRecord, metric: str) -> float:
    """Return by how much a second record is better; minus infinity where one has no value."""
    if metric not in cell.metrics or metric not in other.metrics:
        return -math.inf
    ours = cell.metrics[metric].value
    theirs = other.metrics[metric].value
    if ours is None or theirs is None:
        return -math.inf
    return goodness(metric, theirs) - goodness(metric, ours)
