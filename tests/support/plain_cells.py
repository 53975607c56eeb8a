"""Recompute the cells of a run plainly, from its predictions and from the drawn experiment.

`differences` returns what is different, in words; an empty list is a run without a finding.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

from obygaze_models.evaluation.cells import Cell
from obygaze_models.runner.files import Run
from support.plain_fits import fits_differ, plain_folds, rows_by_fold, sizes_differ
from support.random_protocols import Experiment
from support.tables import fit_of, names_of, predictions_of, result_of, rows_of
from support.ties import ap_by_places

Rows = list[dict[str, Any]]
Floats = NDArray[np.float64]
PLAIN = ("ridge", "logistic", "svm", "mlp")  # kinds that read no concepts


def differences(one: Experiment, run: Run) -> list[str]:
    """Return everything in which a run differs from the plain computation."""
    found = []
    cells = []
    checks = (
        *(_labels, _values, _by_group, _test_sets, _leaks),
        *(sizes_differ, fits_differ),
    )
    for cell in run.cells:
        record = as_record(run, cell)
        cells.append(record)
        if cell.model == "random":
            continue  # half decisions: tests/obygaze_models/evaluation/test_cells.py
        rows = predictions_of(run, cell)
        for check in checks:
            for text in check(one, run, record, rows):
                found.append(f"{cell.tasks}, {cell.model}: {text}")
    found += list(_missing_cells(one, cells))
    return found


def as_record(run: Run, cell: Cell) -> dict[str, Any]:
    """The numbers of a cell in results.csv, and what run.json says of its fits."""
    facts = fit_of(run, cell)
    of_all = result_of(run, cell, "prevalence")
    record: dict[str, Any] = {
        "kind": "cell" if cell.is_model else "baseline",
        **names_of(cell),
        "n_test": of_all["clips"],
        "n_positive": cell.n_positive,
        "n_films": of_all["films"],
        "n_runs": of_all["fits"],
        "prevalence": cell.share_positive,
        "repeated": list(cell.pair) in run.about["averaged"],
        "leaked": of_all["leaked"],
        "folds": facts["folds"],
        "skipped": [{"fold": name} for name in facts["skipped"]],
        "tuned": {},
        "by_film": {},
    }
    for row in rows_of(run.results, **names_of(cell), against_model=""):
        name = row["metric"]
        if row["film"]:
            of_film = record["by_film"].setdefault(row["film"], {"n": row["clips"]})
            of_film[name] = row["value"]
        elif name.endswith("_tuned"):
            record["tuned"][name.removesuffix("_tuned")] = row
        elif name not in record:
            record[name] = row
    for of_film in record["by_film"].values():
        of_film["n_positive"] = round(of_film["prevalence"] * of_film["n"])
    return record


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


def _labels(
    one: Experiment, run: Run, cell: dict[str, Any], rows: Rows
) -> Iterator[str]:
    """Each row has the film and the class of its clip; numbers of clips are right."""
    clip_of = {clip.clip_id: clip for clip in one.clips}
    for row in rows:
        clip = clip_of[row["clip_id"]]
        if (
            one.class_of(cell["test"], clip) != row["y"]
            or clip.movie_id != row["movie_id"]
        ):
            yield f"{row['clip_id']} has y {row['y']} in {row['movie_id']}"
    y = {row["clip_id"]: row["y"] for row in rows}
    groups = {clip_of[name].movie_id for name in y}
    expected = {
        "n_test": len(y),
        "n_positive": sum(y.values()),
        "n_films": len(groups),
    }
    expected["n_runs"] = len({(row["fold"], row["seed"]) for row in rows})
    yield from _unequal("", expected, cell)
    share = sum(y.values()) / len(y)
    if not math.isclose(cell["prevalence"], share):
        yield f"prevalence {cell['prevalence']}, expected {share}"


def _values(
    one: Experiment, run: Run, cell: dict[str, Any], rows: Rows
) -> Iterator[str]:
    """The metrics of folds, of the cell, and at the tuned thresholds."""
    is_margin = "brier" not in cell
    folds = rows_by_fold(rows)
    records = {(fold["fold"], fold["seed"]): fold for fold in cell["folds"]}
    if folds.keys() != records.keys():
        yield f"folds {sorted(folds)}, recorded {sorted(records)}"
        return
    for row in rows:
        if row["decision"] != (row["score"] > (0.0 if is_margin else 0.5)):
            yield f"decision {row['decision']} at the score {row['score']}"
    by_fold = {
        key: plain_metrics(own, is_margin=is_margin) for key, own in folds.items()
    }
    is_repeated = cell["repeated"]
    splits = one.protocol["splits"]
    may_repeat = (
        splits["validation"] == "each" or splits.get("scheme", "none") != "none"
    )
    if is_repeated != _is_repeated(rows) and not (is_repeated and may_repeat):
        yield f"repeated {cell['repeated']}"
        return
    expected = cell_values(folds, is_repeated=is_repeated, is_margin=is_margin)
    got = {name: cell[name]["value"] for name in expected}
    yield from _unequal("value of ", expected, got)
    names = list(dict.fromkeys(fold for fold, _ in by_fold))
    for name in expected:
        means = [
            np.mean([by_fold[k][name] for k in by_fold if k[0] == fold])
            for fold in names
        ]
        finite = [float(mean) for mean in means if np.isfinite(mean)]
        sd = float(np.std(finite, ddof=1)) if len(finite) > 1 else math.nan
        yield from _unequal(f"{name} over folds: ", {"sd": sd}, cell[name])
    if cell["tuned"]:
        tuned = {}
        for key, own in folds.items():
            at = records[key]["threshold"]
            tuned[key] = own
            if at is not None:
                tuned[key] = [{**row, "decision": row["score"] > at} for row in own]
        expected = cell_values(tuned, is_repeated=is_repeated, is_margin=True)
        names = ["f1_binary", "f1_weighted", "f1_macro"]
        got = {name: cell["tuned"][name]["value"] for name in names}
        yield from _unequal("tuned ", {name: expected[name] for name in names}, got)


def _is_repeated(rows: Rows) -> bool:
    """Whether a clip is tested by several folds, in one seed."""
    first = [row["clip_id"] for row in rows if row["seed"] == rows[0]["seed"]]
    return len(first) > len(set(first))


def film_metrics(rows: Rows, *, is_margin: bool) -> dict[str, float]:
    """The metrics of some tests, by their formulas."""
    y = np.array([bool(row["y"]) for row in rows])
    score = np.array([row["score"] for row in rows])
    called = np.array([bool(row["decision"]) for row in rows])
    tp, fp = int((y & called).sum()), int((~y & called).sum())
    fn, tn = int((y & ~called).sum()), int((~y & ~called).sum())
    ones = 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0
    zeros = 2 * tn / (2 * tn + fp + fn) if tn + fp + fn else 0.0
    found = {
        "f1_binary": ones,
        "f1_weighted": (y.sum() * ones + (~y).sum() * zeros) / len(y),
        "f1_macro": (ones + zeros) / 2,
        "precision": tp / (tp + fp) if tp + fp else 0.0,
        "recall": tp / (tp + fn) if tp + fn else 0.0,
        "accuracy": (tp + tn) / len(y),
        "ap": math.nan,
        "auc": _auc_within([rows]),
    }
    if y.any():
        found["ap"] = ap_by_places(y, score)
    if not is_margin:
        found["brier"] = float(np.mean((score - y) ** 2))
    return {name: float(value) for name, value in found.items()}


def plain_metrics(rows: Rows, *, is_margin: bool) -> dict[str, float]:
    """The metrics of some tests, by scikit-learn."""
    y = np.array([row["y"] for row in rows])
    score = np.array([row["score"] for row in rows])
    called = np.array([int(row["decision"]) for row in rows])
    options: dict[str, Any] = {"labels": [0, 1], "zero_division": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {
            "f1_binary": metrics.f1_score(y, called, zero_division=0),
            "f1_weighted": metrics.f1_score(y, called, average="weighted", **options),
            "f1_macro": metrics.f1_score(y, called, average="macro", **options),
            "precision": metrics.precision_score(y, called, zero_division=0),
            "recall": metrics.recall_score(y, called, zero_division=0),
            "accuracy": metrics.accuracy_score(y, called),
            "ap": ap_by_places(y, score) if y.any() else math.nan,
            "auc": metrics.roc_auc_score(y, score)
            if 0 < y.sum() < len(y)
            else math.nan,
        }
    if not is_margin:
        found["brier"] = float(np.mean((score - y) ** 2))
    return {name: float(value) for name, value in found.items()}


def cell_values(
    folds: Mapping[tuple[str, int], Rows], *, is_repeated: bool, is_margin: bool
) -> dict[str, float]:
    """The value of a cell: pooled decisions, ranks within folds, the mean over seeds."""
    if is_repeated:
        return _weighted(
            [plain_metrics(own, is_margin=is_margin) for own in folds.values()]
        )
    by_seed = []
    for seed in dict.fromkeys(seed for _, seed in folds):
        own = [rows for key, rows in folds.items() if key[1] == seed]
        values = plain_metrics(
            [row for rows in own for row in rows], is_margin=is_margin
        )
        alone = [plain_metrics(rows, is_margin=True) for rows in own]
        values["ap"] = _weighted(alone)["ap"]
        values["auc"] = _auc_within(own)
        by_seed.append(values)
    return {name: float(np.mean([one[name] for one in by_seed])) for name in by_seed[0]}


def _weighted(
    values: Sequence[Mapping[str, float]], weights: Sequence[float] | None = None
) -> dict[str, float]:
    found = {}
    for name in values[0]:
        own = [
            (one[name], 1.0 if weights is None else weights[i])
            for i, one in enumerate(values)
        ]
        own = [
            (value, weight) for value, weight in own if math.isfinite(value) and weight
        ]
        total = sum(weight for _, weight in own)
        found[name] = sum(v * w for v, w in own) / total if own else math.nan
    return found


def _auc_within(folds: Sequence[Rows]) -> float:
    """Pairs of one fold in order, each fold's share weighted by its number of clips."""
    won = pairs = 0.0
    for rows in folds:
        ones = [row["score"] for row in rows if row["y"]]
        zeros = [row["score"] for row in rows if not row["y"]]
        for score in ones:
            won += sum(
                1.0 if score > z else 0.5 if score == z else 0.0 for z in zeros
            ) / len(rows)
        pairs += len(ones) * len(zeros) / len(rows)
    return won / pairs if pairs else math.nan


def _by_group(
    one: Experiment, run: Run, cell: dict[str, Any], rows: Rows
) -> Iterator[str]:
    """The values within each film (or group)."""
    clip_of = {clip.clip_id: clip for clip in one.clips}
    is_margin = "brier" not in cell
    group = {name: clip.movie_id for name, clip in clip_of.items()}
    whole = rows_by_fold(rows)
    sizes = {key: len(own) for key, own in whole.items()}
    names = {group[row["clip_id"]] for row in rows}
    if names != set(cell["by_film"]):
        yield f"by_film has {sorted(cell['by_film'])}, expected {sorted(names)}"
        return
    for name in sorted(names):
        inside = [row for row in rows if group[row["clip_id"]] == name]
        folds = rows_by_fold(inside)
        values = [film_metrics(own, is_margin=is_margin) for own in folds.values()]
        shares = [len(own) / sizes[key] for key, own in folds.items()]
        expected = _weighted(values, shares)
        if not cell["repeated"]:
            by_seed = []
            for seed in dict.fromkeys(seed for _, seed in folds):
                keys = [key for key in folds if key[1] == seed]
                pooled = [row for key in keys for row in folds[key]]
                found = film_metrics(pooled, is_margin=is_margin)
                alone = [film_metrics(folds[key], is_margin=True) for key in keys]
                weights = [len(folds[key]) / sizes[key] for key in keys]
                found["ap"] = _weighted(alone, weights)["ap"]
                found["auc"] = _auc_within([folds[key] for key in keys])
                by_seed.append(found)
            expected = {
                k: float(np.mean([own[k] for own in by_seed])) for k in by_seed[0]
            }
        y = {row["clip_id"]: row["y"] for row in inside}
        if not any(y.values()):
            expected |= {"f1_binary": math.nan, "recall": math.nan}
        expected |= {"n": len(y), "n_positive": sum(y.values())}
        yield from _unequal(f"film {name}: ", expected, cell["by_film"][name])


def _unequal(
    where: str, expected: Mapping[str, float], got: Mapping[str, float | None]
) -> Iterator[str]:
    for name, value in expected.items():
        other = got.get(name)
        other = math.nan if other is None else other
        if not math.isclose(value, other, abs_tol=1e-9) and not (
            value != value and other != other
        ):
            yield f"{where}{name} is {other}, expected {value}"


def _test_sets(
    one: Experiment, run: Run, cell: dict[str, Any], rows: Rows
) -> Iterator[str]:
    """Which clips are tested, and by how many others they are tested."""
    splits, clips = one.protocol["splits"], one.clips
    has_vector = one.vectors()
    usable = [clip for clip in clips if clip.clip_id in has_vector]
    tested = [clip for clip in usable if one.class_of(cell["test"], clip) is not None]
    trains = [clip for clip in usable if one.class_of(cell["train"], clip) is not None]
    by_fold = {
        key[0]: {r["clip_id"] for r in own} for key, own in rows_by_fold(rows).items()
    }
    skipped = {skip["fold"] for skip in cell["skipped"]}
    n_of = {
        fold["fold"]: (fold["n_train"], fold["n_validation"]) for fold in cell["folds"]
    }
    never, kind = splits.get("never", []), splits["kind"]
    expected: dict[str, set[str]] = {}
    if kind == "nested" and not splits.get("folds"):
        names = sorted({clip.movie_id for clip in clips})
        inside = {n: {c.clip_id for c in tested if c.movie_id == n} for n in names}
        fit = {n: sum(c.movie_id == n for c in trains) for n in names}
        testing = [(i, name) for i, name in enumerate(names) if name not in never]
        for i, name in testing:
            if splits["validation"] != "each":
                expected[f"fold {i}"] = inside[name]
                n_fit = len(trains) - fit[name]
                if f"fold {i}" in n_of and sum(n_of[f"fold {i}"]) != n_fit:
                    yield f"fold {i} trains on {n_of[f'fold {i}']}, expected {n_fit} together"
                continue
            for j, other in testing:
                if i != j:
                    key = f"test {i}, validate {j}"
                    expected[key] = inside[name]
                    pair = (len(trains) - fit[name] - fit[other], fit[other])
                    if key in n_of and n_of[key] != pair:
                        yield f"{key} trains on {n_of[key]}, expected {pair}"
        if cell["kind"] == "baseline" and splits["validation"] == "each":
            # Folds that are one to a baseline.
            expected = {key: expected[key] for key in by_fold}
    elif kind == "fixed":
        expected["fixed"] = {c.clip_id for c in tested if c.extra["part"] == "test"}
        learned = [c.extra["part"] for c in trains]
        n_train = learned.count("train")
        n_dev = learned.count("dev")
        given = n_of.get("fixed", (n_train, n_dev))
        if "choose" in splits and given != (n_train, n_dev):
            yield f"fixed trains on {given}, expected {(n_train, n_dev)}"
        if sum(given) != n_train + n_dev:
            yield f"fixed trains on {given}, expected {n_train + n_dev} together"
    elif kind == "published":
        column = "fold:" + one.protocol["tasks"][cell["test"]]["folds"]
        own = "fold:" + one.protocol["tasks"][cell["train"]]["folds"]
        k = 1 + max(int(clip.extra[own]) for clip in clips if clip.extra[own])
        for fold in by_fold:
            number = (
                k - 1 if splits["scheme"] != "none" else int(fold.removeprefix("fold "))
            )
            expected[fold] = {
                c.clip_id for c in tested if c.extra[column] == str(number)
            }
            n_fit = sum(c.extra[own] not in ("", str(number)) for c in trains)
            if splits["scheme"] == "none" and sum(n_of[fold]) != n_fit:
                yield f"{fold} trains on {n_of[fold]}, expected {n_fit} together"
    else:
        yield from _partition(one, cell, by_fold, tested, skipped)
        if cell["train"] == cell["test"] and splits["validation"] != "each":
            for fold, names in by_fold.items():
                n_fit = len(trains) - len(names)
                if sum(n_of[fold]) != n_fit:
                    yield f"{fold} trains on {n_of[fold]}, expected {n_fit} together"
    for fold, names in expected.items():
        if fold not in by_fold and names and fold not in skipped:
            yield f"{fold} is neither tested nor skipped"
        if fold in by_fold and by_fold[fold] != names:
            yield f"{fold} tests {sorted(by_fold[fold])}, expected {sorted(names)}"
    if kind != "published" and set(by_fold) - set(expected) and expected:
        yield f"unexpected folds {sorted(set(by_fold) - set(expected))}"


def _partition(
    one: Experiment, cell: Mapping[str, Any], by_fold: Any, tested: Any, skipped: Any
) -> Iterator[str]:
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


def _leaks(
    one: Experiment, run: Run, cell: dict[str, Any], rows: Rows
) -> Iterator[str]:
    """Test clips that trained or validated."""
    kinds = {name: model["kind"] for name, model in one.protocol["models"].items()}
    if kinds.get(cell["model"], "ridge") not in PLAIN:
        return
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
    if cell["leaked"] != len(seen):
        yield f"leaked {cell['leaked']}, expected {len(seen)}"
