"""The records of a whole run: learning curves, several tasks as one, analysis of errors, remarks.

Also the clips that are missing in a store.
"""

import math
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from importlib.resources import files
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.console import Quiet
from obygaze_models.evaluation.metrics import goodness
from obygaze_models.models.registry import find_kind
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.runner.cell_records import LEAST_CLIPS, LEAST_FILMS
from obygaze_models.protocols.runner.cells import Cell
from obygaze_models.protocols.runner.copies import deciding_column
from obygaze_models.protocols.runner.execute import FitContext, run_models
from obygaze_models.protocols.runner.records import Record
from obygaze_models.protocols.schedule import fewer_films
from obygaze_models.protocols.schema import Protocol

MARGIN = 0.02  # a baseline this close is as good


def coverage(context: FitContext, usable: NDArray[np.bool_]) -> Record:
    """Return the record of the clips without a vector in a store, with their tasks."""
    features = context.store
    row_of = {clip: row for row, clip in enumerate(context.table.ids)}
    missing: list[Record] = []
    for clip, reason in features.missing.items():
        row = row_of[clip]
        tasks = [name for name, labels in context.labels.items() if labels[row] >= 0]
        missing.append({"clip_id": clip, "reason": reason, "tasks": tasks})
    return {
        "kind": "coverage",
        "feature": features.name,
        "n_clips": len(context.table),
        "n_present": int(features.present.sum()),
        "n_missing": len(missing),
        "n_missing_in_tasks": sum(bool(item["tasks"]) for item in missing),
        "n_unused": int((features.present & ~usable).sum()),
        "reasons": dict(Counter(features.missing.values()).most_common()),
        "missing": missing,
    }


def learning_records(context: FitContext) -> list[Record]:
    """Return the learning curve of each cell of a store: the primary metric by training films.

    Bottlenecks have no curve, because their concept vectors are found on further films. Models that
    start at random are trained with the seeds of the cells, without those of a contrast. Where so
    few films train no model in any fold, the value is missing.
    """
    protocol = context.protocol
    metric = protocol.report.primary
    models = tuple(
        name for name, model in context.models.items() if not find_kind(model.kind).head
    )
    if not models:
        return []
    grid = replace(protocol.grid, models=models)
    report = replace(protocol.report, contrast=())
    without_heads = replace(protocol, grid=grid, report=report)
    curves: dict[tuple[str, str, str], list[Record]] = {}
    for n_films in report.learning_films:
        plan = fewer_films(context.schedule, n_films, protocol.splits.seed)
        fewer = replace(
            context, protocol=without_heads, schedule=plan, allows_no_fit=True
        )
        cells = run_models(fewer, Quiet())
        values = {(c.model, c.train, c.test): c.value.get(metric) for c in cells}
        for (train, test), model in product(protocol.pairs, models):
            key = (model, train, test)
            point = {"n_films": n_films, "value": values.get(key)}
            curves.setdefault(key, []).append(point)
    return [
        {
            "kind": "learning",
            "model": model,
            "feature": context.feature,
            "train": train,
            "test": test,
            "metric": metric,
            "points": points,
        }
        for (model, train, test), points in curves.items()
    ]


def argmax_records(protocol: Protocol, cells: Sequence[Cell]) -> Iterator[Record]:
    """Yield records of one-against-rest tasks as one: the class with the highest score.

    The score of a class is that of the model that was trained on its task.
    """
    tasks = protocol.report.argmax
    trained = [cell for cell in cells if cell.train == cell.test]
    for model, feature in dict.fromkeys((cell.model, cell.feature) for cell in trained):
        by_task = {
            c.test: c for c in trained if (c.model, c.feature) == (model, feature)
        }
        if len(tasks) < 2 or not set(tasks) <= by_task.keys():
            continue
        of_tasks = [by_task[task] for task in tasks]
        universe = of_tasks[0].universe
        for cell in of_tasks[1:]:
            universe = np.intersect1d(universe, cell.universe)
        truth = np.stack(
            [c.y[np.searchsorted(c.universe, universe)] for c in of_tasks], axis=1
        )
        has_one_class = truth.sum(axis=1) == 1
        universe = universe[has_one_class]
        truth = truth[has_one_class]
        if not len(universe):
            continue  # no clip was tested for all tasks
        scores = np.stack(
            [c.mean_scores[np.searchsorted(c.universe, universe)] for c in of_tasks], 1
        )
        true = truth.argmax(axis=1)
        called = scores.argmax(axis=1)
        table = np.zeros((len(tasks), len(tasks)), dtype=int)
        np.add.at(table, (true, called), 1)
        hits = np.diag(table)
        sizes = table.sum(axis=1)
        calls = table.sum(axis=0)
        yield {
            "kind": "argmax",
            "model": model,
            "feature": feature,
            "tasks": list(tasks),
            "n_test": len(universe),
            "accuracy": float((true == called).mean()),
            "f1_macro": float(np.mean(2 * hits / np.maximum(sizes + calls, 1))),
            "majority": float(sizes.max() / max(sizes.sum(), 1)),
            "confusion": table.tolist(),
        }


def analyses(
    protocol: Protocol, cells: Sequence[Cell], table: ClipTable
) -> Iterator[Record]:
    """Yield regressions of success on levels and concepts, for each cell."""
    if not protocol.report.error_analysis:
        return
    from obygaze_models.evaluation.error_analysis import (
        LEVEL_FACTORS,
        analyse_success,
        paper_factors,
    )

    for cell in cells:
        threshold = 0.5 if cell.tested[0].are_probabilities else 0.0
        success = (cell.mean_scores > threshold) == cell.y
        rows = cell.universe
        concepts = dict(
            zip(table.concept_names, table.has_concept[rows].T, strict=True)
        )
        factors = paper_factors(concepts, table.levels[rows].tolist())
        # Where each clip has one of the three levels, these are an intercept for each level.
        levelled = bool(np.all(sum(factors[name] for name in LEVEL_FACTORS) == 1))
        results = analyse_success(
            success, factors, table.movies[rows], intercept=not levelled
        )
        for result in results:
            yield {
                "kind": "analysis",
                "model": cell.model,
                "feature": cell.feature,
                "train": cell.train,
                "test": cell.test,
                **asdict(result),
            }


def remarks(
    cells: Sequence[Record], baselines: Sequence[Record], primary: str, *, grouped: bool
) -> Iterator[Record]:
    """Yield warnings that a result is misleading; `grouped` splits have no film on both sides."""
    texts = _remark_texts()
    because = "" if grouped else texts["same films"]
    warnings = (
        _of_leaks(cells),
        _of_copies(cells),
        _of_blind_baselines(cells, baselines, primary, because),
        _of_shared_tests(cells),
        _of_chance(cells),
        _of_no_interval(cells),
        _of_ceilings(cells, baselines),
        _of_skipped_folds(cells, baselines),
    )
    for warning in warnings:
        if warning is None:
            continue
        text = texts[warning.about].format(
            n=warning.n, n_cells=len(cells), **warning.facts
        )
        yield {
            "kind": "remark",
            "about": warning.about,
            "cells": warning.n,
            "text": text.strip(),
        }


class _Warning(NamedTuple):
    """A text of remarks.toml, the number of cells that it is about, and what it names."""

    about: str
    n: int
    facts: dict[str, Any]


def _remark_texts() -> dict[str, str]:
    path = files(__package__).joinpath("remarks.toml")
    return tomllib.loads(path.read_text("utf-8"))


def _of_leaks(cells: Sequence[Record]) -> _Warning | None:
    """Return a warning of test clips that trained, without copies under another name."""
    leaked: dict[tuple[str, str], Record] = {}
    for cell in cells:
        if cell["leaked"] > cell.get("copies", 0):
            leaked[cell["train"], cell["test"]] = cell
    if not leaked:
        return None
    worst = max(leaked.values(), key=lambda cell: cell["leak_share"])
    n_pairs = len({(cell["train"], cell["test"]) for cell in cells})
    return _Warning("leak", len(leaked), {"n_pairs": n_pairs, "worst": worst})


def _of_copies(cells: Sequence[Record]) -> _Warning | None:
    """Return a warning of test clips whose features trained under another name."""
    copied = [cell for cell in cells if cell.get("copies")]
    if not copied:
        return None
    worst = max(copied, key=lambda cell: cell["copies"] / cell["n_test"])
    return _Warning("copies", len(copied), {"worst": worst})


def _of_blind_baselines(
    cells: Sequence[Record], baselines: Sequence[Record], primary: str, because: str
) -> _Warning | None:
    """Return a warning of baselines that see no video and are as good."""
    beaten = _beaten(cells, baselines, primary)
    if not beaten:
        return None
    cell, other = max(beaten, key=lambda pair: _lead(pair[0], pair[1], primary))
    n_cells = len({id(cell) for cell, _ in beaten})
    facts = {
        "primary": primary,
        "cell": cell,
        "other": other,
        "ours": cell[primary]["value"],
        "theirs": other[primary]["value"],
        "why": because,
    }
    return _Warning("blind baseline", n_cells, facts)


def _of_shared_tests(cells: Sequence[Record]) -> _Warning | None:
    """Return a warning of cells whose runs share their test clips."""
    shared = [cell for cell in cells if cell["repeated"]]
    if not shared:
        return None
    times = max(_times_tested(cell) for cell in shared)
    return _Warning("shared test", len(shared), {"times": times})


def _times_tested(cell: Record) -> float:
    """Return how often a clip of a cell is tested, on average."""
    n_tests: int = sum(fold["n_test"] for fold in cell["folds"])
    n_clips: int = cell["n_test"]
    return n_tests / n_clips


def _of_chance(cells: Sequence[Record]) -> _Warning | None:
    """Return a warning of cells that may rank by chance."""
    lows = [cell["auc"]["ci"][0] for cell in cells]
    n_chance = sum(low is not None and low <= 0.5 for low in lows)
    return _Warning("chance", n_chance, {}) if n_chance else None


def _of_no_interval(cells: Sequence[Record]) -> _Warning | None:
    """Return a warning of cells with too few clips or films for an interval."""
    without = [cell for cell in cells if cell.get("no_interval")]
    if not without:
        return None
    least = min(without, key=lambda cell: cell["n_positive"])
    n_films = sum(film["n_positive"] > 0 for film in least["by_movie"].values())
    facts = {
        "least": least,
        "n_films": n_films,
        "least_clips": LEAST_CLIPS,
        "least_films": LEAST_FILMS,
    }
    return _Warning("no interval", len(without), facts)


def _of_ceilings(
    cells: Sequence[Record], baselines: Sequence[Record]
) -> _Warning | None:
    """Return a warning of tasks that the true concepts decide."""
    trivial = set()
    for record in baselines:
        if record["model"] != "oracle":
            continue
        auc = record["auc"]["value"] or 0
        if auc > 0.98:
            trivial.add((record["train"], record["test"]))
    if not any((cell["train"], cell["test"]) in trivial for cell in cells):
        return None
    listed = ", ".join(f"{train} -> {test}" for train, test in sorted(trivial))
    return _Warning("ceiling", len(trivial), {"listed": listed})


def _of_skipped_folds(
    cells: Sequence[Record], baselines: Sequence[Record]
) -> _Warning | None:
    """Return a warning of folds that could not be trained or tested."""
    reasons = set()
    # The tables of models and baselines have a cell for each pair of tasks on the same folds.
    folds = set()
    n_records = 0
    for record in (*cells, *baselines):
        for item in record["skipped"]:
            reasons.add(item["reason"])
            folds.add(item["fold"])
        n_records += bool(record["skipped"])
    if not n_records:
        return None
    facts = {"n_folds": len(folds), "reasons": "; ".join(sorted(reasons)[:3])}
    return _Warning("skipped folds", n_records, facts)


def feature_remarks(context: FitContext) -> Iterator[Record]:
    """Yield a warning where one number of the features alone decides a task."""
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
        yield {
            "kind": "remark",
            "about": "one number",
            "cells": len(decided),
            "text": text,
        }


def _beaten(
    cells: Sequence[Record], baselines: Sequence[Record], primary: str
) -> list[tuple[Record, Record]]:
    """Return cells with baselines that see no video and are as good."""
    beaten = []
    for cell in cells:
        for other in baselines:
            if (cell["train"], cell["test"]) != (other["train"], other["test"]):
                continue
            same_clips = other["feature"] in ("", cell["feature"])
            blind = other["model"] in ("neighbour", "film_prior")
            if same_clips and blind and _lead(cell, other, primary) > -MARGIN:
                beaten.append((cell, other))
    return beaten


def _lead(cell: Record, other: Record, metric: str) -> float:
    """Return by how much a second record is better; minus infinity where one has no value."""
    ours = cell.get(metric, {}).get("value")
    theirs = other.get(metric, {}).get("value")
    if ours is None or theirs is None:
        return -math.inf
    lead: float = goodness(metric, theirs) - goodness(metric, ours)
    return lead
