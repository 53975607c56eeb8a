"""How a report says things: the names of metrics, models and tasks, the same everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from obygaze_models.evaluation.error_analysis import ALL_FILMS
from obygaze_models.protocols.runner.records import Record, Run
from obygaze_models.report.tables import Number

SHOWN = ("f1_binary", "f1_weighted", "ap", "auc")
NAMES = {
    "f1_binary": "F1 binary",
    "f1_weighted": "F1 weighted",
    "f1_macro": "F1 macro",
    "precision": "precision",
    "recall": "recall",
    "accuracy": "accuracy",
    "ap": "AP",
    "auc": "AUC",
    "brier": "Brier",
    "ece": "ECE",
}


def metric_name(metric: str) -> str:
    """The metric as tables call it."""
    return NAMES.get(metric, metric)


def model_name(record: Record) -> str:
    """The model as tables call it; what is no model says what it is."""
    name = str(record["model"])
    if record.get("expected"):
        return f"{name} (expected)"
    return f"{name} (ceiling)" if record.get("ceiling") else name


def with_store(record: Record, stores: Sequence[str]) -> str:
    """The model, and its store where there are several."""
    name = model_name(record)
    return f"{name} ({record['feature']})" if record["feature"] and len(stores) > 1 else name


def pair_name(train: str, test: str) -> str:
    """A cell's tasks; where one task does both, it is named once."""
    return train if train == test else f"{train} → {test}"


def stores_of(run: Run) -> list[str]:
    """The stores that some model stands on, in the order of the tables."""
    return list(dict.fromkeys(cell["feature"] for cell in run.cells if cell["feature"]))


def pairs_of(run: Run) -> list[tuple[str, str]]:
    """Train task and test task of every cell, in the order of the tables."""
    return list(dict.fromkeys((cell["train"], cell["test"]) for cell in run.cells))


def are_own_tests(run: Run) -> bool:
    """Whether there are many tasks and each is only tested on itself, as concepts are."""
    pairs = pairs_of(run)
    return len(pairs) > 2 and all(train == test for train, test in pairs)


def is_one_film(record: Record) -> bool:
    """Whether an analysis is of one film, not of all."""
    return record["film"] not in ("", ALL_FILMS)


def number_of(record: Record, metric: str) -> Number | None:
    """A metric of a cell with its interval over films."""
    found = record.get(metric)
    if not isinstance(found, Mapping):
        return None
    low, high = found.get("ci") or (None, None)
    value = found.get("value")
    return Number(found.get("mean") if value is None else value, low, high)


def value_of(record: Record, metric: str) -> float | None:
    """The metric alone."""
    number = number_of(record, metric)
    return None if number is None else number.value


def primary(run: Run) -> str:
    """The metric that a protocol puts first."""
    return str(run.protocol.get("report", {}).get("primary") or "ap")


def level_of(run: Run) -> str:
    """How sure the intervals of cells are, as in "95 %"."""
    return f"{100 * run.protocol.get('report', {}).get('confidence', 0.95):g} %"


def chance_of(record: Record, metric: str) -> float:
    """What a random order scores: for AP the mean over folds, for AUC one half."""
    if metric != "ap":
        return 0.5
    from obygaze_models.models.baselines import random_average_precision  # late: it is slow to load

    tests = {fold["fold"]: (fold["n_positive"], fold["n_test"]) for fold in record["folds"]}
    found = [random_average_precision(*sizes) for sizes in tests.values() if sizes[0]]
    return sum(found) / len(found) if found else float(record["prevalence"])


def _unlearned(record: Record) -> Record:
    """What learns from no clip cannot have seen one of the test."""
    return {**record, "leaked": 0} if record["model"] in ("random", "all_positive") else record


def merged_baselines(records: Sequence[Record]) -> list[tuple[str, str, Record]]:
    """Baselines that say the same are one row: their names, the tasks that trained them, one."""
    rows: dict[Any, list[Record]] = {}
    for record in map(_unlearned, records):
        shown = [str(number_of(record, metric)) for metric in SHOWN]
        key = (record["feature"], bool(record.get("ceiling")), record["leaked"], *shown)
        rows.setdefault(key, []).append(record)
    every = {record["train"] for record in records}
    found = []
    for same in rows.values():
        trains: dict[str, list[str]] = {}
        for record in same:
            trains.setdefault(model_name(record), []).append(record["train"])
        for own in dict.fromkeys(tuple(tasks) for tasks in trains.values()):
            names = ", ".join(name for name, tasks in trains.items() if tuple(tasks) == own)
            one = next(r for r in same if model_name(r) in names.split(", "))
            found.append((names, "any task" if set(own) == every else ", ".join(own), one))
    return sorted(found, key=lambda row: bool(row[2].get("ceiling")))
