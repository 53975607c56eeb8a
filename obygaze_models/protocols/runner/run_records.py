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
from typing import Any

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
    row = {clip: i for i, clip in enumerate(context.table.ids)}
    missing = [
        {
            "clip_id": clip,
            "reason": reason,
            "tasks": [
                name for name, own in context.labels.items() if own[row[clip]] >= 0
            ],
        }
        for clip, reason in features.missing.items()
    ]
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
    metric = context.protocol.report.primary
    models = tuple(
        n for n, model in context.models.items() if not find_kind(model.kind).head
    )
    grid = replace(protocol.grid, models=models)
    report = replace(protocol.report, contrast=())
    own = replace(context, protocol=replace(protocol, grid=grid, report=report))
    curves: dict[tuple[str, str, str], list[Record]] = {}
    for n_films in report.learning_films if models else ():
        plan = fewer_films(context.schedule, n_films, protocol.splits.seed)
        fewer = replace(own, schedule=plan, allows_no_fit=True)
        values = {
            (cell.model, cell.train, cell.test): cell.value.get(metric)
            for cell in run_models(fewer, Quiet())
        }
        for (train, test), model in product(protocol.pairs, models):
            point = {"n_films": n_films, "value": values.get((model, train, test))}
            curves.setdefault((model, train, test), []).append(point)
    return [
        {
            "kind": "learning",
            **{
                "model": model,
                "feature": context.feature,
                "train": train,
                "test": test,
            },
            **{"metric": metric, "points": points},
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
        own = [by_task[task] for task in tasks]
        universe = own[0].universe
        for cell in own[1:]:
            universe = np.intersect1d(universe, cell.universe)
        truth = np.stack(
            [c.y[np.searchsorted(c.universe, universe)] for c in own], axis=1
        )
        kept = truth.sum(axis=1) == 1
        universe = universe[kept]
        truth = truth[kept]
        if not len(universe):
            continue  # no clip was tested for all tasks
        scores = np.stack(
            [c.mean_scores[np.searchsorted(c.universe, universe)] for c in own], 1
        )
        true = truth.argmax(axis=1)
        called = scores.argmax(axis=1)
        table = np.zeros((len(own), len(own)), dtype=int)
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
        for found in analyse_success(
            success, factors, table.movies[rows], intercept=not levelled
        ):
            yield {
                "kind": "analysis",
                **{
                    key: getattr(cell, key)
                    for key in ("model", "feature", "train", "test")
                },
                **asdict(found),
            }


def remarks(
    cells: Sequence[Record], baselines: Sequence[Record], primary: str, *, grouped: bool
) -> Iterator[Record]:
    """Yield warnings that a result is misleading; `grouped` splits have no film on both sides."""

    texts = tomllib.loads(
        files(__package__).joinpath("remarks.toml").read_text("utf-8")
    )

    def remark(about: str, n: int, **facts: Any) -> Record:
        text = texts[about].format(n=n, n_cells=len(cells), **facts).strip()
        return {"kind": "remark", "about": about, "cells": n, "text": text}

    leaked = {
        (c["train"], c["test"]): c for c in cells if c["leaked"] > c.get("copies", 0)
    }
    if leaked:
        worst = max(leaked.values(), key=lambda c: c["leak_share"])
        n_pairs = len({(c["train"], c["test"]) for c in cells})
        yield remark("leak", len(leaked), n_pairs=n_pairs, worst=worst)
    copied = [cell for cell in cells if cell.get("copies")]
    if copied:
        worst = max(copied, key=lambda cell: cell["copies"] / cell["n_test"])
        yield remark("copies", len(copied), worst=worst)
    beaten = _beaten(cells, baselines, primary)
    if beaten:
        cell, other = max(beaten, key=lambda pair: _lead(pair[0], pair[1], primary))
        n = len({id(cell) for cell, _ in beaten})
        facts = {"ours": cell[primary]["value"], "theirs": other[primary]["value"]}
        facts["why"] = "" if grouped else texts["same films"]
        yield remark(
            "blind baseline", n, primary=primary, cell=cell, other=other, **facts
        )
    shared = [c for c in cells if c["repeated"]]
    if shared:
        times = max(sum(f["n_test"] for f in c["folds"]) / c["n_test"] for c in shared)
        yield remark("shared test", len(shared), times=times)
    chance = [
        c for c in cells if c["auc"]["ci"][0] is not None and c["auc"]["ci"][0] <= 0.5
    ]
    if chance:
        yield remark("chance", len(chance))
    without = [cell for cell in cells if cell.get("no_interval")]
    if without:
        least = min(without, key=lambda cell: cell["n_positive"])
        n_films = sum(own["n_positive"] > 0 for own in least["by_movie"].values())
        facts = {"least": least, "n_films": n_films}
        facts |= {"least_clips": LEAST_CLIPS, "least_films": LEAST_FILMS}
        yield remark("no interval", len(without), **facts)
    ceilings = [
        b
        for b in baselines
        if b["model"] == "oracle" and (b["auc"]["value"] or 0) > 0.98
    ]
    trivial = {(b["train"], b["test"]) for b in ceilings}
    if any((c["train"], c["test"]) in trivial for c in cells):
        listed = ", ".join(f"{train} -> {test}" for train, test in sorted(trivial))
        yield remark("ceiling", len(trivial), listed=listed)
    lost = [r for r in (*cells, *baselines) if r["skipped"]]
    if lost:
        reasons = sorted({item["reason"] for r in lost for item in r["skipped"]})
        # The tables of models and baselines have a cell for each pair of tasks on the same folds.
        n_folds = len({item["fold"] for r in lost for item in r["skipped"]})
        yield remark(
            "skipped folds", len(lost), n_folds=n_folds, reasons="; ".join(reasons[:3])
        )


def feature_remarks(context: FitContext) -> Iterator[Record]:
    """Yield a warning where one number of the features alone decides a task."""
    texts = tomllib.loads(
        files(__package__).joinpath("remarks.toml").read_text("utf-8")
    )
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
            same = (cell["train"], cell["test"]) == (other["train"], other["test"])
            here = other["feature"] in ("", cell["feature"])
            blind = other["model"] in ("neighbour", "film_prior")
            if same and here and blind and _lead(cell, other, primary) > -MARGIN:
                beaten.append((cell, other))
    return beaten


def _lead(cell: Record, other: Record, metric: str) -> float:
    """Return by how much a second record is better; minus infinity where one has no value."""
    ours, theirs = (record.get(metric, {}).get("value") for record in (cell, other))
    if ours is None or theirs is None:
        return -math.inf
    lead: float = goodness(metric, theirs) - goodness(metric, ours)
    return lead
