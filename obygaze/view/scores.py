"""Out-of-fold scores of a run by clip, with their band over folds and seeds."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from obygaze_models.protocols.runner.records import Record
from obygaze_models.report.lookup import (
    ReportRun,
    grouped,
    model_and_store,
    pair_name,
    pair_of,
    rank_of,
)

CELL = ("train", "test", "model", "feature")
Score = dict[str, Any]


def cells_of(run: ReportRun) -> list[Record]:
    """Return the cells of models: those with most clips first, and of these the best."""

    def order(cell: Record) -> tuple[int, bool, float]:
        return cell["n_test"], cell["train"] == cell["test"], rank_of(cell, run.primary)

    return sorted((cell for cell in run.cells if cell["feature"]), key=order, reverse=True)


def scores_of(run: ReportRun, cell: Record) -> dict[str, Score]:
    """Return the score of each clip that a cell tested: the mean over fits, and the band.

    `positive` is what most fits decided, and `correct` whether that is the label.
    """
    own = [row for row in run.predictions if all(row[key] == cell[key] for key in CELL)]
    found = {}
    for clip, fits in grouped(own, lambda row: str(row["clip_id"])).items():
        values = [fit["score"] for fit in fits]
        positive = 2 * sum(fit["decision"] for fit in fits) > len(fits)
        band = {"score": fmean(values), "low": min(values), "high": max(values)}
        facts = {"fits": len(fits), "positive": positive, "correct": positive == bool(fits[0]["y"])}
        found[clip] = {**{name: round(value, 4) for name, value in band.items()}, **facts}
    return found


def run_facts(run: ReportRun, number: int, scores: Mapping[str, Score]) -> dict[str, Any]:
    """Return what the page says about a run and the chosen cell.

    The axis of scores is 0 to 1 for probabilities and symmetric for margins; in its middle the
    decision changes.
    """
    cells = cells_of(run)
    ends = [score[end] for score in scores.values() for end in ("low", "high")]
    most = max(map(abs, ends), default=1.0)
    cell = cells[number]
    return {
        "name": run.folder.name,
        "cells": [f"{model_and_store(one)}, {pair_name(*pair_of(one))}" for one in cells],
        "title": run.task_titles.get(cell["test"], cell["test"]),
        "leaked": cell["leaked"],
        "scale": [0, 1] if all(0 <= end <= 1 for end in ends) else [-most, most],
    }
