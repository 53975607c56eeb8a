"""Several runs side by side: what differs in their settings, and how their cells differ."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import numpy as np

from obygaze_features.core.console import MISSING, table, with_interval
from obygaze_features.core.errors import FixUsage, ObygazeError
from obygaze_features.core.outside import safe_text
from obygaze_features.core.parts import find_part, is_own_code
from obygaze_features.core.schema_rules import near
from obygaze_features.core.written_tables import Columns, Listing
from obygaze_models.evaluation.bootstrap import interval_of
from obygaze_models.evaluation.families import DrawnDifference, family_p_values
from obygaze_models.evaluation.metrics import (
    METRICS,
    RANKING_METRICS,
    own_metric,
    ranking_metric,
)
from obygaze_models.evaluation.permutation import p_text
from obygaze_models.protocols.results.cells import CellRecord
from obygaze_models.protocols.runner.cells import Cell
from obygaze_models.protocols.runner.comparisons import (
    as_sure_as,
    drawn_over_films,
    p_values,
)
from obygaze_models.protocols.runner.records import Run
from obygaze_models.protocols.runner.table import short_metric, shown_metrics
from obygaze_models.protocols.runner.tested_cells import (
    CellName,
    ClipNumbers,
    cells_of_run,
    is_trained,
    same_clips,
)
from obygaze_models.report.compared_clips import warnings_of_clips

REPLICATES = 1000
Key = TypeVar("Key", bound=Hashable)
# What says nothing beside the other facts of a run: times, names, and hashes of what is listed.
NO_SETTINGS = (
    "created",
    "created_by",
    "identity",
    "machine",
    "n_cells",
    "name",
    "predictions_sha256",
    "protocol_sha256",
    "results_sha256",
    "seconds",
    "seeds",
    "splits_sha256",
)
HASH_LETTERS = 12


@dataclass(frozen=True)
class RunValue:
    """The value of a cell in one run, with its interval over films."""

    value: float | None
    low: float | None
    high: float | None
    n_clips: int


@dataclass(frozen=True)
class RunDifference:
    """A run minus the first one, on the clips that both tested.

    `p` is corrected for all differences of the comparison.
    """

    value: float
    low: float | None
    high: float | None
    p: float | None
    n_clips: int
    n_films: int


@dataclass(frozen=True)
class CellOfRuns:
    """A cell in each of the runs: None where a run lacks it; differences to the first run."""

    train: str
    test: str
    model: str
    store: str
    values: Sequence[RunValue | None]
    differences: Sequence[RunDifference | None]

    @property
    def is_the_same(self) -> bool:
        """Whether all runs have the cell, with the same value, interval and number of clips."""
        return all(value == self.values[0] for value in self.values)


@dataclass(frozen=True)
class ComparedRuns(Listing):
    """Runs side by side.

    Attributes:
        runs: Their names; the first is what the others are compared with.
        metric: The metric of values and differences.
        settings: Each setting or input that is not the same in all runs, with its value in each.
        cells: The cells and baselines.
        warnings: Why there are no differences, where an own metric cannot be computed, or
            where runs have other stores, or do not test the same clips in the
            same folds.
    """

    runs: Sequence[str]
    metric: str
    settings: Mapping[str, Sequence[str]]
    cells: Sequence[CellOfRuns]
    warnings: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the output of `obygaze compare --json`."""
        return asdict(self)

    def __str__(self) -> str:
        return comparison_text(self)

    def table(self) -> Columns:
        """Return a row for each cell and run, with the difference to the first run."""
        rows: list[dict[str, Any]] = []
        for cell in self.cells:
            of_runs = zip(self.runs, cell.values, cell.differences, strict=True)
            for run, value, difference in of_runs:
                row: dict[str, Any] = {
                    "train": cell.train,
                    "test": cell.test,
                    "model": cell.model,
                    "store": cell.store,
                    "run": run,
                    "metric": self.metric,
                }
                for name in ("value", "low", "high", "n_clips"):
                    row[name] = getattr(value, name, None)
                row["difference"] = getattr(difference, "value", None)
                for name in ("low", "high", "p", "n_clips", "n_films"):
                    row[f"difference_{name}"] = getattr(difference, name, None)
                rows.append(row)
        names = rows[0] if rows else ()
        columns: dict[str, list[Any]] = {}
        for name in names:
            columns[name] = [row[name] for row in rows]
        return columns


def compare_runs(runs: Sequence[Run], metric: str | None = None) -> ComparedRuns:
    """Return runs side by side, with the differences of each to the first.

    Differences are paired: both sides are computed on the clips that both runs tested, and films
    are drawn together. A difference of AP or AUC has an interval over films, under the same rules
    as within a run.

    Args:
        runs: Two or more runs.
        metric: A metric; the default is the primary one of the first run.
    """
    if len(runs) < 2:
        raise FixUsage("a comparison needs two runs or more")
    chosen = _chosen_metric(runs, metric)
    clips = ClipNumbers.of_runs(runs)
    by_store = not _have_one_store_each(runs)
    records = [_records_by_name(run, by_store=by_store) for run in runs]
    warnings = _warnings_of_stores(runs) if by_store else []
    reason = _why_without_differences(runs, chosen)
    if reason:
        warnings.append(f"no differences of {chosen}: {reason}")
    further = (chosen,) if chosen not in METRICS and not reason else ()
    tested = [_tested_by_name(run, clips, further, by_store=by_store) for run in runs]
    warnings += warnings_of_clips(names_of(runs), records, tested, chosen)
    cells = []
    drawn: list[DrawnDifference] = []
    for name in _in_order(records):
        values = [_value(of_run.get(name), chosen) for of_run in records]
        differences: list[RunDifference | None] = [None]
        first = tested[0].get(name)
        for of_run in tested[1:]:
            to_first = _difference(of_run.get(name), first, chosen, clips, runs[0])
            if to_first is None:
                differences.append(None)
                continue
            difference, with_draws = to_first
            differences.append(difference)
            drawn.append(with_draws)
        cells.append(CellOfRuns(*name, values=values, differences=differences))
    if not any(_is_of_several_runs(cell) for cell in cells):
        warnings.append(
            "no cell (train, test and model) is in two of these runs, so nothing is compared;"
            f" their test tasks: {_tasks_of(runs)}"
        )
    return ComparedRuns(
        runs=names_of(runs),
        metric=chosen,
        settings=differing_settings(runs),
        cells=_with_p(cells, drawn),
        warnings=warnings,
    )


def _is_of_several_runs(cell: CellOfRuns) -> bool:
    """Return whether two runs have a value of a cell."""
    return sum(value is not None for value in cell.values) > 1


def _tasks_of(runs: Sequence[Run]) -> str:
    """Return the test tasks of each run in words."""
    texts = []
    for name, run in zip(names_of(runs), runs, strict=True):
        tasks = dict.fromkeys(cell.test for cell in run.cells)
        texts.append(f"{', '.join(tasks) or 'none'} in {name}")
    return "; ".join(texts)


def _chosen_metric(runs: Sequence[Run], metric: str | None) -> str:
    """Return the metric to compare by; the default is the primary one of the first run."""
    if metric is None:
        primary = str(runs[0].protocol.get("report", {}).get("primary") or "ap")
        records = (*runs[0].cells, *runs[0].baselines)
        has_values = any(primary in record.metrics for record in records)
        # The code of a file does not run because a finished run names it.
        is_not_trusted = is_own_code(primary) and _why_without_differences(
            runs, primary
        )
        if has_values and not is_not_trusted:
            return primary
        return ranking_metric(primary)
    known = dict.fromkeys(METRICS)
    for run in runs:
        known |= dict.fromkeys(shown_metrics(run.protocol))
    if metric not in known:
        meant = near(metric, [*known])
        raise FixUsage(
            f"unknown metric {metric!r}{meant}", hint=f"one of {', '.join(known)}"
        )
    return metric


def _why_without_differences(runs: Sequence[Run], metric: str) -> str:
    """Return why differences of an own metric cannot be computed; "" if they can.

    The values of a run are in its records; a difference needs the function, on the clips that both
    runs tested.
    """
    if metric in METRICS:
        return ""
    used = [run.about.get("parts", {}).get("metrics", {}).get(metric) for run in runs]
    try:
        package = find_part(metric).package
        own_metric(metric)
    except ObygazeError as error:
        return error.message
    for name, package_of_run in zip(names_of(runs), used, strict=True):
        if package_of_run not in (None, package):
            return f"{name} is by {package_of_run}, the code here is {package}"
    return ""


def _in_order(mappings: Iterable[Mapping[Key, Any]]) -> list[Key]:
    """Return the keys of all mappings, each once, in the order in which they first appear."""
    keys: dict[Key, None] = {}
    for mapping in mappings:
        keys |= dict.fromkeys(mapping)
    return list(keys)


def names_of(runs: Sequence[Run]) -> list[str]:
    """Return the names of the folders; the whole paths, where two have one name."""
    names = [run.folder.name for run in runs]
    if len(set(names)) == len(names):
        return names
    return [str(run.folder) for run in runs]


def _have_one_store_each(runs: Sequence[Run]) -> bool:
    """Return whether no run has several stores: then the names of stores do not matter."""
    return all(len(run.about["stores"]) <= 1 for run in runs)


def _warnings_of_stores(runs: Sequence[Run]) -> list[str]:
    """Return a warning for each run that has no store of the name of one in the first run."""
    in_first = set(runs[0].about["stores"])
    names = names_of(runs)
    warnings = []
    for name, run in zip(names[1:], runs[1:], strict=True):
        in_run = set(run.about["stores"])
        if in_run and in_first and not in_run & in_first:
            warnings.append(
                f"no differences of {name} to {names[0]}: where a run has several stores, cells "
                f"are compared by the names of stores, {', '.join(sorted(in_run))} and "
                f"{', '.join(sorted(in_first))}"
            )
    return warnings


def _name_of(record: CellRecord | Cell, *, by_store: bool) -> CellName:
    """Return the name under which runs share a cell, with the name of the store or without."""
    store = record.feature if by_store else ""
    return record.train, record.test, record.model, store


def _records_by_name(run: Run, *, by_store: bool) -> dict[CellName, CellRecord]:
    records = (*run.cells, *run.baselines)
    return {_name_of(record, by_store=by_store): record for record in records}


def _tested_by_name(
    run: Run, clips: ClipNumbers, further: Sequence[str], *, by_store: bool
) -> dict[CellName, Cell]:
    cells = cells_of_run(run, clips, further).values()
    return {_name_of(cell, by_store=by_store): cell for cell in cells}


def _value(record: CellRecord | None, metric: str) -> RunValue | None:
    """Return the value of a metric in a record of a run."""
    if record is None or metric not in record.metrics:
        return None
    estimate = record.metrics[metric]
    low, high = estimate.ends
    return RunValue(estimate.value, low, high, record.n_test)


def _difference(
    other: Cell | None, first: Cell | None, metric: str, clips: ClipNumbers, run: Run
) -> tuple[RunDifference, DrawnDifference] | None:
    """Return a difference with its interval, by the settings of a run.

    None where a run lacks the cell, or no clip is in both, or the metric is not defined.
    """
    if other is None or first is None:
        return None
    pair = same_clips(other, first)
    if pair is None:
        return None
    other, first = pair
    if metric not in other.value or metric not in first.value:
        return None
    settings = run.protocol.get("report", {})
    inflation = max(other.inflation, first.inflation)
    trained = is_trained(other) or is_trained(first)
    # At a threshold, another training could call many other clips positive.
    if trained and metric not in RANKING_METRICS:
        inflation = np.inf
    n_replicates = int(settings.get("replicates", REPLICATES))
    drawn = drawn_over_films(
        other, first, metric, clips.films, n_replicates, (0, 2), inflation
    )
    if not np.isfinite(drawn.value):
        return None
    confidence = float(settings.get("confidence", 0.95))
    interval, _ = interval_of(
        drawn.draws,
        drawn.value,
        drawn.n_films,
        confidence,
        inflation=drawn.inflation,
    )
    interval = interval.of_difference()
    low, high = interval.ends
    if low is not None:
        p = p_values(other, first, metric, clips.films).p_sign_flip
        low, high = as_sure_as(p, interval, confidence).ends
    difference = RunDifference(
        value=drawn.value,
        low=low,
        high=high,
        p=None,
        n_clips=len(first.universe),
        n_films=drawn.n_films,
    )
    return difference, drawn


def _with_p(
    cells: Sequence[CellOfRuns], drawn: Sequence[DrawnDifference]
) -> list[CellOfRuns]:
    """Return the cells with the p of each difference among all of them."""
    p_values = iter(family_p_values(drawn))
    completed = []
    for cell in cells:
        differences: list[RunDifference | None] = []
        for difference in cell.differences:
            if difference is None:
                differences.append(None)
                continue
            p = next(p_values)
            known_p = p if np.isfinite(p) else None
            differences.append(replace(difference, p=known_p))
        completed.append(replace(cell, differences=differences))
    return completed


def differing_settings(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Return each setting or input that is not the same in all runs, with its value in each.

    Of a model, a task or a store that a run lacks there is one line, without its settings.
    """
    settings_of_runs = []
    have_one_store_each = _have_one_store_each(runs)
    for run in runs:
        known = {key: run.about[key] for key in run.about if key not in NO_SETTINGS}
        if have_one_store_each and known["stores"]:
            ((name, store),) = known.pop("stores").items()
            known["store"] = {"name": name, **store}
        settings_of_runs.append(dict(_leaves(known)))
    parts_of_runs = [_parts(run) for run in runs]
    parts = sorted(_in_order(parts_of_runs), key=len, reverse=True)
    differing: dict[str, list[str]] = {}
    for key in _in_order(settings_of_runs):
        if ".drawn[" in key:
            continue  # it follows from the seed and the ranges
        part = next((name for name in parts if key.startswith(f"{name}.")), None)
        if part and not all(part in of_run for of_run in parts_of_runs):
            differing[part] = [of_run.get(part, MISSING) for of_run in parts_of_runs]
            continue
        values = [settings.get(key, MISSING) for settings in settings_of_runs]
        if len(set(values)) > 1:
            differing[key] = values
    return differing


def _parts(run: Run) -> dict[str, str]:
    """Return the models, with their kind, the tasks and the stores of a run, by their keys."""
    protocol = run.protocol
    parts = {}
    for name, model in protocol.get("models", {}).items():
        parts[f"protocol.models.{name}"] = str(model.get("kind", "yes"))
    for name in protocol.get("tasks", {}):
        parts[f"protocol.tasks.{name}"] = "yes"
    for name in run.about["stores"]:
        parts[f"stores.{name}"] = "yes"
    return parts


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of nested tables, each with its keys joined by dots."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{key}[{number}]")
    else:
        yield key, _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "none"
    text = str(value)
    if re.fullmatch("[0-9a-f]{64}", text):
        return f"{text[:HASH_LETTERS]}..."
    return text


def comparison_text(compared: ComparedRuns) -> str:
    """Return the output of `obygaze compare`: runs, what differs in them, and their cells."""
    lines = [
        f"{number}: {safe_text(name, 'terminal')}"
        for number, name in enumerate(compared.runs, start=1)
    ]
    numbers = [str(number) for number in range(1, len(compared.runs) + 1)]
    lines.append("")
    if compared.settings:
        rows = [(key, *values) for key, values in compared.settings.items()]
        lines.append(table(("what differs", *numbers), rows))
    else:
        lines.append("the settings and inputs are the same")
    metric = short_metric(compared.metric)
    headers = ["store", "train", "test", "model"]
    headers += [f"{metric}, {number}" for number in numbers]
    for number in numbers[1:]:
        headers += [f"{number} - 1", "clips", "films", "p (all)"]
    rows = [_row_of(cell) for cell in compared.cells if not cell.is_the_same]
    if rows:
        lines += ["", table(headers, rows)]
    n_same = len(compared.cells) - len(rows)
    if n_same:
        lines.append(f"{n_same} cells have the same value and interval in all runs")
    lines.append(
        "Differences are on the clips that both runs tested. "
        "p (all) is corrected for all differences that are shown."
    )
    return "\n".join(lines)


def _row_of(cell: CellOfRuns) -> tuple[str, ...]:
    values = [cell.store or MISSING, cell.train, cell.test, cell.model]
    for value in cell.values:
        values.append(_with_interval(value))
    for difference in cell.differences[1:]:
        values.append(_with_interval(difference))
        if difference is None:
            values += [MISSING] * 3
            continue
        p = MISSING if difference.p is None else p_text(difference.p)
        values += [str(difference.n_clips), str(difference.n_films), p]
    return tuple(values)


def _with_interval(value: RunValue | RunDifference | None) -> str:
    if value is None:
        return MISSING
    return with_interval(value.value, value.low, value.high)
