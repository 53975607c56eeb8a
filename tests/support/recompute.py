"""Recompute the values of a run from its predictions.csv, with plain loops.

    python tests/support/recompute.py runs/NAME

Nothing of obygaze is imported, and no package. It compares every value of results.csv: those of all
films, those of each film, differences, and the counts of clips, films, fits and
leaked clips. Intervals and p are not recomputed.
"""

import csv
import json
import math
import sys
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Fit = tuple[list[Row], float]  # its rows, and how much it counts in a mean over fits
NAME = ("train", "test", "store", "model")
NUMBERS = ("y", "score", "decision")
ONLY_WITH_POSITIVES = ("f1_binary", "recall")
LARGEST = 1e-9


def read_table(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read_tests(folder: Path) -> list[Row]:
    tests = read_table(folder / "predictions.csv")
    for row in tests:
        for column in NUMBERS:
            row[column] = float(row[column] or "nan")
    return tests


# ---- metrics of some rows ----


def ratio(top: float, bottom: float, empty: float = math.nan) -> float:
    return top / bottom if bottom else empty


def average_precision(rows: list[Row]) -> float:
    """The mean of the precision at each positive clip, over all orders of clips of one score."""
    n_positive = sum(row["y"] for row in rows)
    area = above = positive_above = 0.0
    for score in sorted({row["score"] for row in rows}, reverse=True):
        classes = [row["y"] for row in rows if row["score"] == score]
        n = len(classes)
        positive = sum(classes)
        for place in range(n):
            # Of the clips of this score that stand before a positive one.
            before = place * (positive - 1) / (n - 1) if n > 1 else 0
            precision = (positive_above + before + 1) / (above + place + 1)
            area += positive / n * precision
        above += n
        positive_above += positive
    return ratio(area, n_positive)


def pairs(rows: list[Row]) -> tuple[float, int]:
    """Pairs of a positive and a negative clip: how many are in order, and all."""
    in_order = 0.0
    n_pairs = 0
    for first in rows:
        for second in rows:
            if first["y"] and not second["y"]:
                n_pairs += 1
                in_order += (first["score"] > second["score"]) / 2
                in_order += (first["score"] >= second["score"]) / 2
    return in_order, n_pairs


def of_decisions(rows: list[Row]) -> dict[str, float]:
    tp = sum(row["decision"] for row in rows if row["y"])
    fp = sum(row["decision"] for row in rows if not row["y"])
    positive = sum(row["y"] for row in rows)
    n = len(rows)
    fn = positive - tp
    tn = n - positive - fp
    f1 = ratio(2 * tp, 2 * tp + fp + fn, 0.0)
    f1_of_negatives = ratio(2 * tn, 2 * tn + fp + fn, 0.0)
    weighted = positive * f1 + (n - positive) * f1_of_negatives
    return {
        "f1_binary": f1,
        "f1_weighted": ratio(weighted, n),
        "f1_macro": (f1 + f1_of_negatives) / 2,
        "precision": ratio(tp, tp + fp, 0.0),
        "recall": ratio(tp, tp + fn, 0.0),
        "accuracy": ratio(tp + tn, n),
        "prevalence": ratio(positive, n),
        "share_positive": ratio(tp + fp, n),
    }


def brier(rows: list[Row]) -> float:
    return ratio(sum((row["score"] - row["y"]) ** 2 for row in rows), len(rows))


def of_rows(metric: str, rows: list[Row]) -> float:
    if metric == "ap":
        return average_precision(rows)
    if metric == "auc":
        return ratio(*pairs(rows))
    return brier(rows) if metric == "brier" else of_decisions(rows)[metric]


# ---- over fits ----


def mean(values: list[tuple[float, float]]) -> float:
    """The mean of the values that are defined, each with its weight."""
    defined = [(value, weight) for value, weight in values if not math.isnan(value)]
    total = sum(value * weight for value, weight in defined)
    return ratio(total, sum(weight for _, weight in defined))


def over_folds(metric: str, folds: list[Fit]) -> float:
    """A value of the folds of one seed, each clip of which is tested once."""
    if metric == "ap":
        return mean([(average_precision(rows), weight) for rows, weight in folds])
    if metric == "auc":
        in_order = n_pairs = 0.0
        for rows, _ in folds:
            ordered, all_pairs = pairs(rows)
            in_order += ratio(ordered, len(rows), 0.0)
            n_pairs += ratio(all_pairs, len(rows), 0.0)
        return ratio(in_order, n_pairs)
    return of_rows(metric, [row for rows, _ in folds for row in rows])


def value_of(metric: str, rows: list[Row], is_averaged: bool, film: str = "") -> float:
    fits: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        fits.setdefault((row["seed"], row["fold"]), []).append(row)
    by_seed: dict[str, list[Fit]] = {}
    for (seed, _), of_fit in fits.items():
        of_film = [row for row in of_fit if film in ("", row["group"])]
        by_seed.setdefault(seed, []).append((of_film, len(of_film) / len(of_fit)))
    if film:
        class_of = {row["clip_id"]: row["y"] for row in rows if row["group"] == film}
        if metric == "prevalence":
            return sum(class_of.values()) / len(class_of)
        if metric in ONLY_WITH_POSITIVES and not any(class_of.values()):
            return math.nan
    if is_averaged:
        every_fit = [fit for folds in by_seed.values() for fit in folds if fit[0]]
        return mean([(of_rows(metric, fit), weight) for fit, weight in every_fit])
    of_seeds = [over_folds(metric, folds) for folds in by_seed.values()]
    return sum(of_seeds) / len(of_seeds)


def on_shared_clips(cells: list[list[Row]]) -> list[list[Row]]:
    """The rows of each cell of the clips that all cells tested with one class."""
    classes = [{(row["clip_id"], row["y"]) for row in rows} for rows in cells]
    shared = {clip_id for clip_id, _ in set.intersection(*classes)}
    return [[row for row in rows if row["clip_id"] in shared] for rows in cells]


def is_constant_in_films(rows: list[Row]) -> bool:
    scores: dict[tuple[str, str, str], set[float]] = {}
    for row in rows:
        fit = (row["seed"], row["fold"], row["group"])
        scores.setdefault(fit, set()).add(row["score"])
    return all(len(of_fit) == 1 for of_fit in scores.values())


def by_film(
    metric: str, sides: list[list[Row]], of_pairs: list[bool]
) -> dict[str, float]:
    """By how much the first side is better, in each film with clips of both classes.

    Beside a side that gives all clips of a film one score in each fit, it is half of the order
    minus the reversed order.
    """
    first, second = sides
    is_constant = is_constant_in_films(second)
    if is_constant_in_films(first) and not is_constant:
        exchanged = by_film(metric, [second, first], of_pairs[::-1])
        return {film: -apart for film, apart in exchanged.items()}
    if is_constant:
        second = [{**row, "score": -row["score"]} for row in first]
    apart = {}
    for film in sorted({row["group"] for row in first} - {""}):
        if len({row["y"] for row in first if row["group"] == film}) == 2:
            ours = value_of(metric, first, of_pairs[0], film)
            theirs = value_of(metric, second, of_pairs[1], film)
            apart[film] = (ours - theirs) / (1 + is_constant)
    return apart


def n_distinct(rows: list[Row], column: str) -> int:
    return len({row[column] for row in rows} - {""})


class Tests:
    """The table of tests, and what each row of results.csv should say."""

    def __init__(self, tests: list[Row]) -> None:
        self.cells: dict[tuple[str, ...], list[Row]] = {}
        for row in tests:
            name = tuple(row[column] for column in NAME)
            self.cells.setdefault(name, []).append(row)
        # The pairs of tasks of which some model tests a clip several times with one seed.
        self.averaged = {
            name[:2]
            for name, rows in self.cells.items()
            if len({(row["seed"], row["clip_id"]) for row in rows}) < len(rows)
        }

    def expected(self, result: Row) -> dict[str, float]:
        train, test, store, model = (result[column] for column in NAME)
        rows = self.cells[train, test, store, model]
        is_averaged = (train, test) in self.averaged
        metric = result["metric"]
        film = result["film"]
        of_films = math.nan
        if result["against_model"]:
            against = (
                *(result["against_train"], test),
                *(result["against_store"], result["against_model"]),
            )
            both = [rows, self.cells[against]]
            of_pairs = [is_averaged, (result["against_train"], test) in self.averaged]
            rows, others = on_shared_clips(both)
            sides = [
                value_of(metric, side, of)
                for side, of in zip((rows, others), of_pairs, strict=True)
            ]
            leaked = [row for row in rows + others if row["seen"] == "clip"]
            # Two training tasks have no interval where films train each other's models.
            if result["basis"] == "unseen" and (train == against[0] or result["low"]):
                apart = by_film(metric, [rows, others], of_pairs)
                of_films = mean([(value, 1.0) for value in apart.values()])
                is_half = any(map(is_constant_in_films, (rows, others)))
                sides = [math.nan, math.nan]
                value = math.nan if is_half else of_films
                if not is_half:
                    value = float(result["first"] or "nan") - float(
                        result["second"] or "nan"
                    )
                    if abs(value - of_films) > LARGEST:
                        value = math.inf
            else:
                of_films = value = sides[0] - sides[1]
        else:
            value = value_of(metric, rows, is_averaged, film)
            leaked = [row for row in rows if row["seen"] == "clip"]
        if film:
            rows = [row for row in rows if row["group"] == film]
        if not result["against_model"]:
            of_films = float(result["tested"] or "nan")
        counts = {
            "value": value,
            "tested": of_films,
            "clips": n_distinct(rows, "clip_id"),
            "films": n_distinct(rows, "group"),
            "fits": len({(row["fold"], row["seed"]) for row in rows}),
        }
        # A row of a film does not count leaked clips.
        return counts if film else {**counts, "leaked": n_distinct(leaked, "clip_id")}


def compare(folder: Path) -> dict[str, Any]:
    tests = Tests(read_tests(folder))
    n_numbers = 0
    largest = 0.0
    wrong = []
    for number, result in enumerate(read_table(folder / "results.csv")):
        for column, expected in tests.expected(result).items():
            found = float(result[column] or "nan")
            n_numbers += 1
            if math.isnan(found) and math.isnan(expected):
                continue
            difference = abs(found - expected)
            if not difference <= LARGEST:
                wrong.append({"row": number, column: found, "expected": expected})
            else:
                largest = max(largest, difference)
    return {"numbers": n_numbers, "largest_difference": largest, "wrong": wrong}


if __name__ == "__main__":
    compared = compare(Path(sys.argv[1]))
    print(json.dumps(compared))
    sys.exit(1 if compared["wrong"] else 0)
