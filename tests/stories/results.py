"""What a user reads of a run: its table of results, and the predictions of its unseen clips."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

import obygaze as og
from stories.workspace import Workspace

Row = dict[str, Any]


def results_of(ws: Workspace, run: str) -> list[Row]:
    """Return a row for each model and each baseline of a run, with all values in columns.

    A metric is a column, as `ap`, and the ends of its interval are two, as `ap_low` and `ap_high`.
    """
    table = og.read_run(run, workspace=ws.folder).results
    is_value = (table["film"] == "") & (table["against_model"] == "")
    found: dict[tuple[str, ...], Row] = {}
    for row in table[is_value].to_dict("records"):
        cell = {name: row[name] for name in ("train", "test", "store", "model")}
        counts = {name: row[name] for name in ("clips", "films", "fits", "leaked")}
        values = found.setdefault(tuple(cell.values()), {**cell, **counts})
        values[row["metric"]] = row["value"]
        values[f"{row['metric']}_low"] = row["low"]
        values[f"{row['metric']}_high"] = row["high"]
    return list(found.values())


def the_result(ws: Workspace, run: str, **values: str) -> Row:
    """Return the one row of a run that has these values, such as `model="ridge"`."""
    found = []
    for row in results_of(ws, run):
        if all(row[name] == value for name, value in values.items()):
            found.append(row)
    assert len(found) == 1, f"{len(found)} results of {run} with {values}"
    return found[0]


def scores_of(ws: Workspace, run: str, **values: str) -> dict[str, float]:
    scores: dict[str, float] = {}
    for row in ws.read_table(f"runs/{run}/predictions.csv"):
        if all(row[name] == value for name, value in values.items()):
            assert row["clip_id"] not in scores, f"{row['clip_id']} has two scores"
            scores[row["clip_id"]] = float(row["score"])
    assert scores, f"no prediction of {run} has {values}"
    return scores


def in_order(scores: dict[str, float], clip_ids: list[str]) -> npt.NDArray[Any]:
    assert sorted(scores) == sorted(clip_ids)
    return np.array([scores[clip_id] for clip_id in clip_ids])


def logistic(X: npt.NDArray[Any], y: npt.NDArray[Any]) -> LogisticRegression:
    """Return the model of scikit-learn that `train logistic --set model.C=0.5` should be."""
    model = LogisticRegression(C=0.5, class_weight="balanced", tol=1e-9, max_iter=10**5)
    return model.fit(X.astype(float), y)
