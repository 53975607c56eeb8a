"""Check the cells of a run plainly, against its predictions and the drawn experiment.

`differences` returns what is different, in words; an empty list is a run without a finding. The
values of results.csv are computed again by `recompute.py`, what is fitted by `plain_fits.py`.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from obygaze_models.evaluation.cells import Cell
from obygaze_models.runner.files import Run
from support import recompute
from support.plain_fits import fits_differ, plain_folds, rows_by_fold, sizes_differ
from support.random_protocols import Experiment
from support.tables import fit_of, names_of, predictions_of, rows_of

Facts = dict[str, Any]
Rows = list[Facts]


def differences(one: Experiment, run: Run) -> list[str]:
    wrong = recompute.compare(run.folder)["wrong"]
    found = [f"results.csv: {value}" for value in wrong]
    cells = []
    checks = (_labels, _decisions, _spread, _test_sets, _leaks)
    checks += (sizes_differ, fits_differ)
    for cell in run.cells:
        record = as_record(run, cell)
        cells.append(record)
        if cell.model == "random":
            continue  # half decisions: test_values_of_cells.py
        rows = predictions_of(run, cell)
        for check in checks:
            for text in check(one, run, record, rows):
                found.append(f"{cell.tasks}, {cell.model}: {text}")
    found += list(_missing_cells(one, cells))
    return found


def as_record(run: Run, cell: Cell) -> dict[str, Any]:
    facts = fit_of(run, cell)
    of_cell = rows_of(run.results, **names_of(cell), against_model="")
    return {
        "kind": "cell" if cell.is_model else "baseline",
        **names_of(cell),
        "folds": facts["folds"],
        "skipped": [{"fold": name} for name in facts["skipped"]],
        "values": {row["metric"]: row for row in of_cell if not row["film"]},
        "films": {row["film"] for row in of_cell} - {""},
    }


def _missing_cells(one: Experiment, cells: Rows) -> Iterator[str]:
    grid, tasks = one.protocol["grid"], list(one.protocol["tasks"])
    pairs = [
        (train, test)
        for test in grid.get("test") or tasks
        for train in grid.get("train") or tasks
        if grid.get("pairs") != "same" or train == test
    ]
    wanted = [(*pair, name) for pair in pairs for name in one.protocol["models"]]
    got = [
        (cell["train"], cell["test"], cell["model"])
        for cell in cells
        if cell["kind"] == "cell"
    ]
    if sorted(wanted) != sorted(got):
        yield f"cells {sorted(got)}, expected {sorted(wanted)}"


def _labels(one: Experiment, run: Run, cell: Facts, rows: Rows) -> Iterator[str]:
    """Each row has the film and the class of its clip; each film has its values."""
    clip_of = {clip.clip_id: clip for clip in one.clips}
    for row in rows:
        clip = clip_of[row["clip_id"]]
        expected = one.class_of(cell["test"], clip), clip.movie_id, clip.movie_id
        if (row["y"], row["movie_id"], row["group"]) != expected:
            yield f"{row['clip_id']} has y {row['y']} in {row['movie_id']}"
    films = {row["movie_id"] for row in rows}
    if films != cell["films"]:
        yield f"values of the films {sorted(cell['films'])}, expected {sorted(films)}"


def _decisions(one: Experiment, run: Run, cell: Facts, rows: Rows) -> Iterator[str]:
    """Decisions are those of the scores, at one half or zero."""
    border = 0.5 if "brier" in cell["values"] else 0.0
    recorded = {(fold["fold"], fold["seed"]) for fold in cell["folds"]}
    found = {(row["fold"], row["seed"]) for row in rows}
    if found != recorded:
        yield f"folds {sorted(found)}, recorded {sorted(recorded)}"
        return
    for row in rows:
        if row["decision"] != (row["score"] > border):
            yield f"decision {row['decision']} at the score {row['score']}"


def _spread(one: Experiment, run: Run, cell: Facts, rows: Rows) -> Iterator[str]:
    """The standard deviation of a value over folds, of each the mean over its seeds."""
    for metric, value in cell["values"].items():
        of_folds: dict[str, list[float]] = {}
        for (fold, _), own in rows_by_fold(rows).items():
            of_folds.setdefault(fold, []).append(recompute.of_rows(metric, own))
        means = [float(np.mean(values)) for values in of_folds.values()]
        finite = [mean for mean in means if math.isfinite(mean)]
        expected = float(np.std(finite, ddof=1)) if len(finite) > 1 else math.nan
        found = math.nan if value["sd"] is None else value["sd"]
        both_lack = math.isnan(expected) and math.isnan(found)
        if not both_lack and not math.isclose(found, expected, abs_tol=1e-9):
            yield f"{metric} over folds: sd is {found}, expected {expected}"


def _test_sets(one: Experiment, run: Run, cell: Facts, rows: Rows) -> Iterator[str]:
    splits, clips = one.protocol["splits"], one.clips
    has_vector = one.vectors()
    usable = [clip for clip in clips if clip.clip_id in has_vector]
    tested = [clip for clip in usable if one.class_of(cell["test"], clip) is not None]
    by_fold = {
        key[0]: {r["clip_id"] for r in own} for key, own in rows_by_fold(rows).items()
    }
    skipped = {skip["fold"] for skip in cell["skipped"]}
    never, kind = splits.get("never", []), splits["kind"]
    expected: dict[str, set[str]] = {}
    if kind == "nested" and not splits.get("folds"):
        names = sorted({clip.movie_id for clip in clips})
        inside = {n: {c.clip_id for c in tested if c.movie_id == n} for n in names}
        testing = [(i, name) for i, name in enumerate(names) if name not in never]
        for i, name in testing:
            if splits["validation"] != "each":
                expected[f"fold {i}"] = inside[name]
                continue
            for j, _ in testing:
                if i != j:
                    expected[f"test {i}, validate {j}"] = inside[name]
        if cell["kind"] == "baseline" and splits["validation"] == "each":
            # Folds that are one to a baseline.
            expected = {key: expected[key] for key in by_fold}
    elif kind == "fixed":
        expected["fixed"] = {c.clip_id for c in tested if c.extra["part"] == "test"}
    else:
        yield from _partition(one, cell, by_fold, tested, skipped)
    for fold, names in expected.items():
        if fold not in by_fold and names and fold not in skipped:
            yield f"{fold} is neither tested nor skipped"
        if fold in by_fold and by_fold[fold] != names:
            yield f"{fold} tests {sorted(by_fold[fold])}, expected {sorted(names)}"
    if set(by_fold) - set(expected) and expected:
        yield f"unexpected folds {sorted(set(by_fold) - set(expected))}"


def _partition(one, cell, by_fold: Any, tested: Any, skipped: Any) -> Iterator[str]:
    """Folds of clips or of groups: each clip in one test set, no group in two."""
    splits = one.protocol["splits"]
    sets = list({frozenset(names) for names in by_fold.values()})
    for first in range(len(sets)):
        for second in range(first):
            if sets[first] & sets[second]:
                yield "a clip is in two test sets"
    never = splits.get("never", [])
    whole = {clip.clip_id for clip in tested if clip.movie_id not in never}
    got = set().union(*sets)
    if not got <= whole or (got != whole and not skipped):
        yield f"tested {len(got)} of {len(whole)} clips"
    if splits["kind"] == "kfold":
        return
    group = {clip.clip_id: clip.movie_id for clip in one.clips}
    groups = [{group[name] for name in names} for names in sets]
    if sum(map(len, groups)) > len(set().union(*groups)):
        yield "a group is in two test sets"


def _leaks(one: Experiment, run: Run, cell: Facts, rows: Rows) -> Iterator[str]:
    folds = plain_folds(one, cell, rows)
    seen = set()
    for (fold, _), own in rows_by_fold(rows).items():
        if fold not in folds:
            return
        used = {clip.clip_id for clip in folds[fold].both}
        names = {row["clip_id"] for row in own if row["clip_id"] in used}
        leaked = {row["clip_id"] for row in own if row["leaked"]}
        if leaked != names:
            yield f"{fold} leaked {sorted(leaked)}, expected {sorted(names)}"
        seen |= {row["clip_id"] for row in own if row["seen"] == "clip"}
        if not leaked <= seen:
            yield f"{fold} leaked clips that it has not seen"
    if cell["values"]["prevalence"]["leaked"] != len(seen):
        leaked = cell["values"]["prevalence"]["leaked"]
        yield f"leaked {leaked}, expected {len(seen)}"
