"""Turns cells into records: values with intervals, films, folds, comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from obygaze_models.evaluation.bootstrap import resample, reuse_inflation
from obygaze_models.evaluation.compare import nadeau_bengio, sign_flip
from obygaze_models.protocols.runner.cells import TUNED, Cell, TestedFold
from obygaze_models.protocols.runner.records import Record
from obygaze_models.protocols.schema import PaperValue, Protocol

Floats = NDArray[np.float64]
COUNTS = ("prevalence", "share_positive")
# Of other metrics a p-value has no known level (`benchmarks.type_one_error`).
TESTABLE = ("ap", "auc")
BINS = 10


@dataclass(frozen=True, eq=False)
class Judge:
    """What intervals and comparisons are made with."""

    protocol: Protocol
    groups: NDArray[np.str_]

    def record(self, cell: Cell, kind: str = "cell") -> Record:
        """Everything about one cell."""
        value = cell.value
        names = [name for name in value if name not in COUNTS]
        record: Record = {
            "kind": kind,
            **{key: getattr(cell, key) for key in ("task", "train", "test", "model", "feature")},
            **_sizes(cell, self.groups),
            **_leaks(cell),
        }
        intervals = self._intervals(cell, names)
        for name in names:
            record[name] = {**_over_folds(cell, name), "value": value[name], **intervals[name]}
        record["tuned"] = _tuned(cell)
        record["seeds"] = _seeds(cell, names)
        record["by_movie"] = self._by_movie(cell)
        record["confusion"] = _confusion(cell)
        record["calibration"] = _calibration(cell)
        record["folds"] = [_fold(t, cell) for t in cell.tested]
        record["skipped"] = [dict(item) for item in cell.skipped]
        record["paper"] = [_printed(one) for one in self.protocol.paper if _is_about(one, cell)]
        if kind == "baseline":
            record["expected"] = cell.share is not None
            record["ceiling"] = cell.model == "oracle"
        return record

    def comparisons(self, cells: Sequence[Cell]) -> list[Record]:
        """Models and baselines on the same cell, and one model on two stores."""
        records = []
        for first, second in combinations(cells, 2):
            same_cell = (first.train, first.test) == (second.train, second.test)
            one_model = first.model == second.model and first.feature != second.feature
            one_store = first.feature == second.feature or not second.feature
            if same_cell and (one_model or one_store) and first.feature:
                found = self._compare(first, second)
                if found is not None:
                    records.append(found)
        return records

    def _intervals(self, cell: Cell, names: Sequence[str]) -> dict[str, Record]:
        report = self.protocol.report
        both = []
        for part, units in enumerate((self.groups[cell.universe], np.arange(len(cell.universe)))):
            drawn = resample(
                cell.statistics(units),
                np.unique(units),
                n_replicates=report.replicates if part == 0 else max(report.replicates // 4, 2),
                level=report.confidence,
                seed=(self.protocol.fit.seed, part),
                within_unit=True,
                inflation=_inflation(cell),
            )
            both.append(drawn)
        movies, clips = both
        found = {}
        for name in names:
            (by_movie, se_movie), (by_clip, se_clip) = movies[name], clips[name]
            found[name] = {
                "ci": [by_movie.low, by_movie.high],
                "ci_clips": [by_clip.low, by_clip.high],
                "design_effect": (se_movie / se_clip) ** 2 if se_clip > 0 else np.nan,
            }
        return found

    def _by_movie(self, cell: Cell) -> Record:
        names, values = cell.by_group(self.groups)
        movies = self.groups[cell.universe]
        return {
            movie: {
                "n": int((movies == movie).sum()),
                "n_positive": int(cell.y[movies == movie].sum()),
                **{name: float(found[i]) for name, found in values.items()},
            }
            for i, movie in enumerate(names)
        }

    def _compare(self, first: Cell, second: Cell) -> Record | None:
        metric = self.protocol.report.primary
        if not np.array_equal(first.universe, second.universe) or metric not in second.value:
            return None
        if metric not in first.value:
            return None
        record: Record = {
            "kind": "comparison",
            **{key: getattr(first, key) for key in ("task", "train", "test")},
            "metric": metric,
            "first": {"model": first.model, "feature": first.feature},
            "second": {"model": second.model, "feature": second.feature},
            "difference": first.value[metric] - second.value[metric],
            "ci": self._difference_interval(first, second, metric),
        }
        return record | self._p_values(first, second, metric)

    def _p_values(self, first: Cell, second: Cell, metric: str) -> Record:
        """By film where one set of clips is tested, else over test sets of whole films.

        Flipping the signs of films would take them for independent, but each film also trains the
        models that are tested on the others. Runs that share their test clips are averaged first.
        Test sets that share films are not independent either, and have no p.
        """
        both = [cell.by_group(self.groups, [metric])[1][metric] for cell in (first, second)]
        by_movie = both[0] - both[1]
        by_movie = by_movie[np.isfinite(by_movie)]
        one, other = first.by_test_set(metric), second.by_test_set(metric)
        by_set = np.array([one[rows] - other[rows] for rows in one if rows in other])
        by_set = by_set[np.isfinite(by_set)]
        found: Record = {"p_sign_flip": np.nan, "n_movies": len(by_movie), "exact": False}
        found |= {"p_corrected_t": np.nan, "n_test_sets": len(by_set)}
        found["repeated"] = first.averaged or second.averaged
        if metric not in TESTABLE:
            return found
        if first.n_test_sets == 1 and len(by_movie):
            flip = sign_flip(by_movie)
            found |= {"p_sign_flip": flip.p, "exact": flip.exact}
        elif len(by_set) > 1 and self._are_apart(first):
            train = float(np.mean([t.n_train + t.n_validation for t in first.tested]))
            test = float(np.mean([len(t.rows) for t in first.tested]))
            found["p_corrected_t"] = nadeau_bengio(by_set, n_train=train, n_test=test).p
        return found

    def _are_apart(self, cell: Cell) -> bool:
        """Whether no film is in two sets of test clips."""
        sets = {t.rows.tobytes(): t.rows for t in cell.tested}.values()
        films = [film for rows in sets for film in np.unique(self.groups[rows])]
        return len(films) == len(set(films))

    def _difference_interval(self, first: Cell, second: Cell, metric: str) -> list[float]:
        films = self.groups[first.universe]
        ours, theirs = (cell.statistics(films, only=[metric]) for cell in (first, second))
        drawn = resample(
            lambda weights: {metric: ours(weights)[metric] - theirs(weights)[metric]},
            np.unique(films),
            n_replicates=self.protocol.report.replicates,
            level=self.protocol.report.confidence,
            seed=(self.protocol.fit.seed, 2),
            inflation=_inflation(first),
        )
        interval = drawn[metric][0]
        return [interval.low, interval.high]


def _inflation(cell: Cell) -> float:
    """What the interval of a cell is widened by: clips of one test set trained for the others."""
    return reuse_inflation(cell.n_test_sets if cell.n_test_sets > 1 else None)


def _sizes(cell: Cell, groups: NDArray[np.str_]) -> Record:
    return {
        "n_test": len(cell.universe),
        "n_positive": int(cell.y.sum()),
        "n_movies": len(np.unique(groups[cell.universe])),
        "prevalence": float(cell.y.mean()),
        "n_runs": len(cell.tested),
        "repeated": cell.averaged,
    }


def _leaks(cell: Cell) -> Record:
    """A test clip counts as leaked where it leaked in any fold."""
    leaked = {clip for t in cell.tested for clip in t.leak.clips}
    near = [t.leak.neighbours for t in cell.tested]
    same = [t.leak.same_movie for t in cell.tested]
    total = sum if not cell.averaged else max
    known = all(n is not None for n in near) and cell.seeds
    one_seed = [t for t in cell.tested if t.seed == cell.seeds[0]]
    return {
        "leaked": len(leaked),
        "neighbours": total([t.leak.neighbours or 0 for t in one_seed]) if known else None,
        "same_movie": total([t.leak.same_movie or 0 for t in one_seed])
        if all(n is not None for n in same)
        else None,
        "leak_share": len(leaked) / len(cell.universe),
    }


def _over_folds(cell: Cell, name: str) -> Record:
    values = np.array(list(cell.fold_values(name).values()))
    defined = values[np.isfinite(values)]
    return {
        "mean": float(defined.mean()) if len(defined) else np.nan,
        "sd": float(defined.std(ddof=1)) if len(defined) > 1 else np.nan,
    }


def _tuned(cell: Cell) -> Record | None:
    if cell.share is not None or all(t.tuned is None for t in cell.tested):
        return None
    one_unit = np.zeros(len(cell.universe))
    found = cell.statistics(one_unit, tuned=True)(np.ones((1, 1)))
    return {name: {"value": float(found[name][0])} for name in TUNED}


def _seeds(cell: Cell, names: Sequence[str]) -> Record | None:
    if len(cell.seeds) < 2:
        return None
    one_unit = np.zeros(len(cell.universe))
    runs = [cell.statistics(one_unit, [seed])(np.ones((1, 1))) for seed in cell.seeds]
    spread: Record = {"n": len(runs)}
    for name in names:
        values = np.array([run[name][0] for run in runs])
        spread[name] = {"mean": float(values.mean()), "sd": float(values.std(ddof=1))}
    return spread


def _confusion(cell: Cell) -> Record | None:
    """Counts of the four outcomes over all test clips, averaged over seeds and runs."""
    if cell.share is not None:
        return None
    y = np.concatenate([t.predictions.y for t in cell.tested])
    said = np.concatenate([t.predictions.decision for t in cell.tested])
    times = len(y) / len(cell.universe)
    outcomes = {"tp": y & said, "fp": ~y & said, "fn": y & ~said, "tn": ~y & ~said}
    return {name: float(outcome.sum() / times) for name, outcome in outcomes.items()}


def _calibration(cell: Cell) -> list[Record] | None:
    if cell.share is not None or not all(t.are_probabilities for t in cell.tested):
        return None
    y = np.concatenate([t.predictions.y for t in cell.tested])
    score = np.concatenate([t.predictions.score for t in cell.tested])
    bins = np.clip(np.ceil(score * BINS).astype(int) - 1, 0, BINS - 1)
    rows = []
    for number in range(BINS):
        own = bins == number
        rows.append(
            {
                "low": number / BINS,
                "high": (number + 1) / BINS,
                "n": int(own.sum()),
                "score": float(score[own].mean()) if own.any() else np.nan,
                "share": float(y[own].mean()) if own.any() else np.nan,
            }
        )
    return rows


def _fold(t: TestedFold, cell: Cell) -> Record:
    return {
        "fold": t.fold,
        "seed": t.seed,
        "n_train": t.n_train,
        "n_validation": t.n_validation,
        "n_test": len(t.rows),
        "n_positive": int(t.predictions.y.sum()),
        "leaked": t.leak.leaked,
        **{name: value for name, value in cell.values_of(t).items() if name not in COUNTS},
        "threshold": t.tuned,
        "chosen": dict(t.facts),
    }


def _is_about(printed: PaperValue, cell: Cell) -> bool:
    wanted = {key: getattr(printed, key) for key in ("model", "feature", "train", "test")}
    return all(not value or value == getattr(cell, key) for key, value in wanted.items())


def _printed(printed: PaperValue) -> Record:
    return {
        "metric": printed.metric,
        "mean": printed.mean,
        "sd": printed.sd if printed.sd >= 0 else None,
        "movie": printed.movie or None,
        "source": printed.source or None,
    }
