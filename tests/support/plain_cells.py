"""Check the cells of a run plainly, against its predictions and the drawn experiment.

`differences` returns what is different, in words; an empty list is a run without a finding. What
trains and validates, fits and choices are computed from the drawn words of an experiment, not with
functions of the program; the values of results.csv by `recompute.py`.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from obygaze_features.manifest.model import Clip
from obygaze_models.evaluation.cells import Cell
from obygaze_models.runner.files import Run
from support import recompute
from support.random_protocols import VISUAL, Experiment
from support.tables import cells_of, fit_of, names_of, predictions_of, rows_of

Facts = dict[str, Any]
Rows = list[Facts]
Floats = NDArray[np.float64]
INNER_FOLDS = 3


def differences(one: Experiment, run: Run) -> list[str]:
    wrong = recompute.compare(run.folder)["wrong"]
    found = [f"results.csv: {value}" for value in wrong]
    found += _missing_cells(one, run)
    checks = (_labels, _decisions, _spread, _test_sets, _leaks, _sizes, _fits)
    for cell in cells_of(run):
        if cell.model == "random":
            continue  # half decisions: test_values_of_cells.py
        plain = PlainCell(one, run, cell)
        for check in checks:
            found += [f"{cell.tasks}, {cell.model}: {text}" for text in check(plain)]
    return found


def _missing_cells(one: Experiment, run: Run) -> Iterator[str]:
    grid, tasks = one.protocol["grid"], list(one.protocol["tasks"])
    wanted = [
        (train, test, name)
        for test in grid.get("test") or tasks
        for train in grid.get("train") or tasks
        for name in one.protocol["models"]
        if grid.get("pairs") != "same" or train == test
    ]
    got = [(cell.train, cell.test, cell.model) for cell in run.cells if cell.is_model]
    if sorted(wanted) != sorted(got):
        yield f"cells {sorted(got)}, expected {sorted(wanted)}"


@dataclass(frozen=True)
class PlainFold:
    """The clips of a fold that train or validate; `validation` is None where it is drawn."""

    both: list[Clip]
    validation: list[Clip] | None

    @property
    def train(self) -> list[Clip]:
        """The clips that train and do not validate, in the order of the manifest."""
        validating = {clip.clip_id for clip in self.validation or ()}
        return [clip for clip in self.both if clip.clip_id not in validating]


class PlainCell:
    """A cell of a run with its tests by fold and seed, and the clips that each fold should have."""

    def __init__(self, one: Experiment, run: Run, cell: Cell) -> None:
        self.one = one
        self.splits = one.protocol["splits"]
        self.train, self.test, self.model = cell.train, cell.test, cell.model
        self.is_model = cell.is_model
        self.record = fit_of(run, cell)
        of_cell = rows_of(run.results, **names_of(cell), against_model="")
        self.values = {row["metric"]: row for row in of_cell if not row["film"]}
        self.films = {row["film"] for row in of_cell} - {""}
        self.rows: Rows = predictions_of(run, cell)
        self.by_fold: dict[tuple[str, int], Rows] = defaultdict(list)
        for row in self.rows:
            self.by_fold[row["fold"], row["seed"]].append(row)
        self.vectors = one.vectors()
        self.clip_of = {clip.clip_id: clip for clip in one.clips}
        self.folds = plain_folds(self)

    def usable(self, task: str) -> list[Clip]:
        """The clips of a task that have a vector."""
        clips = [clip for clip in self.one.clips if clip.clip_id in self.vectors]
        return [clip for clip in clips if self.one.class_of(task, clip) is not None]

    def classes(self, clips: Sequence[Clip]) -> NDArray[Any]:
        return np.array([self.one.class_of(self.train, clip) for clip in clips])

    def matrix(self, clips: Sequence[Clip]) -> Floats:
        return np.array([self.vectors[clip.clip_id] for clip in clips])


# ---- which clips train, validate and test ----


def plain_folds(cell: PlainCell) -> dict[str, PlainFold]:
    """The clips that train and validate in each fold, where the drawn words alone say so."""
    clips = cell.usable(cell.train)
    if cell.splits["kind"] == "fixed":
        both = [clip for clip in clips if clip.extra["part"] in ("train", "dev")]
        return {"fixed": PlainFold(both, None)}
    numbered = _numbered(cell, clips)
    if numbered is None:
        return {}
    names = dict.fromkeys(name for name, _ in cell.by_fold)
    return {name: _generated(cell, clips, name, *numbered) for name in names}


def _numbered(cell: PlainCell, clips) -> tuple[Mapping[str, int], int] | None:
    """The fold of each clip that may train, and the number of folds."""
    if not cell.splits.get("folds"):
        names = sorted({clip.movie_id for clip in cell.one.clips})
        films = {clip.clip_id: names.index(clip.movie_id) for clip in cell.one.clips}
        return films, len(names)
    if cell.train != cell.test or cell.record["skipped"]:
        return None  # clips of other folds are not known by what was tested
    tested = {row["clip_id"]: _tested_by(row["fold"]) for row in cell.rows}
    n_folds = cell.splits["folds"]
    for clip in clips:
        tested.setdefault(clip.clip_id, n_folds)
    never = cell.splits.get("never", [])
    return tested, n_folds + any(clip.movie_id in never for clip in cell.one.clips)


def _tested_by(name: str) -> int:
    """The number in a name such as `fold 2` or `test 2, validate 0`."""
    return int(name.split(",")[0].split()[1])


def _generated(cell: PlainCell, clips, name: str, fold_of, n_folds: int) -> PlainFold:
    """One fold tests; one validates that has both classes, the next one or the one of the name."""
    of_fold: dict[int, list[Clip]] = defaultdict(list)
    for clip in clips:
        if clip.clip_id in fold_of:
            of_fold[fold_of[clip.clip_id]].append(clip)
    test = _tested_by(name)
    both = [
        clip
        for clip in clips
        if clip.clip_id in fold_of and fold_of[clip.clip_id] != test
    ]
    chosen: int | None = None
    if name.startswith("test "):
        chosen = int(name.rpartition(" ")[2])
    elif cell.splits["validation"] != "none":
        others = [(test + step) % n_folds for step in range(1, n_folds)]
        able = [n for n in others if {*cell.classes(of_fold[n]).tolist()} == {0, 1}]
        chosen = able[0] if len(able) > 1 else None
    return PlainFold(both, [] if chosen is None else of_fold[chosen])


def _sizes(cell: PlainCell) -> Iterator[str]:
    for record in cell.record["folds"]:
        if record["fold"] not in cell.folds:
            continue
        fold = cell.folds[record["fold"]]
        got = record["n_train"], record["n_validation"]
        expected = len(fold.train), len(fold.validation or ())
        if fold.validation is None:
            got = sum(got), 0
        if got != expected:
            yield f"{record['fold']} has {got} clips, expected {expected}"


def _test_sets(cell: PlainCell) -> Iterator[str]:
    kind, never = cell.splits["kind"], cell.splits.get("never", [])
    tested = cell.usable(cell.test)
    by_fold = {
        name: {row["clip_id"] for row in own} for (name, _), own in cell.by_fold.items()
    }
    expected: dict[str, set[str]] = {}
    if kind == "nested" and not cell.splits.get("folds"):
        films = sorted({clip.movie_id for clip in cell.one.clips})
        testing = [i for i, film in enumerate(films) if film not in never]
        for i in testing:
            inside = {clip.clip_id for clip in tested if clip.movie_id == films[i]}
            names = [f"fold {i}"]
            if cell.splits["validation"] == "each":
                can = {clip.movie_id for clip in cell.usable(cell.train)}
                others = [j for j in testing if i != j and films[j] in can]
                names = [f"test {i}, validate {j}" for j in others]
            expected |= dict.fromkeys(names, inside)
        if not cell.is_model and cell.splits["validation"] == "each":
            # Folds that are one to a baseline.
            expected = {key: expected[key] for key in by_fold}
    elif kind == "fixed":
        own = {clip.clip_id for clip in tested if clip.extra["part"] == "test"}
        expected["fixed"] = own
    else:
        yield from _partition(cell, by_fold, tested)
    for fold, names in expected.items():
        if fold not in by_fold and names and fold not in cell.record["skipped"]:
            yield f"{fold} is neither tested nor skipped"
        if fold in by_fold and by_fold[fold] != names:
            yield f"{fold} tests {sorted(by_fold[fold])}, expected {sorted(names)}"
    if set(by_fold) - set(expected) and expected:
        yield f"unexpected folds {sorted(set(by_fold) - set(expected))}"


def _partition(cell: PlainCell, by_fold, tested: Sequence[Clip]) -> Iterator[str]:
    """Folds of clips or of groups: each clip in one test set, no group in two."""
    sets = {frozenset(names) for names in by_fold.values()}
    if any(first & second for first, second in combinations(sets, 2)):
        yield "a clip is in two test sets"
    never = cell.splits.get("never", [])
    whole = {clip.clip_id for clip in tested if clip.movie_id not in never}
    got = set().union(*sets)
    if not got <= whole or (got != whole and not cell.record["skipped"]):
        yield f"tested {len(got)} of {len(whole)} clips"
    groups = [{cell.clip_of[name].movie_id for name in names} for names in sets]
    shares = sum(map(len, groups)) > len(set().union(*groups))
    if cell.splits["kind"] != "kfold" and shares:
        yield "a group is in two test sets"


# ---- what stands in the rows of tests ----


def _labels(cell: PlainCell) -> Iterator[str]:
    """Each row has the film and the class of its clip; each film has its values."""
    for row in cell.rows:
        clip = cell.clip_of[row["clip_id"]]
        y = cell.one.class_of(cell.test, clip)
        if (row["y"], row["movie_id"], row["group"]) != (y, *2 * [clip.movie_id]):
            yield f"{row['clip_id']} has y {row['y']} in {row['movie_id']}"
    films = {row["movie_id"] for row in cell.rows}
    if films != cell.films:
        yield f"values of the films {sorted(cell.films)}, expected {sorted(films)}"


def _decisions(cell: PlainCell) -> Iterator[str]:
    """Decisions are those of the scores, at one half or zero."""
    border = 0.5 if "brier" in cell.values else 0.0
    recorded = {(fold["fold"], fold["seed"]) for fold in cell.record["folds"]}
    if set(cell.by_fold) != recorded:
        yield f"folds {sorted(cell.by_fold)}, recorded {sorted(recorded)}"
    for row in cell.rows:
        if row["decision"] != (row["score"] > border):
            yield f"decision {row['decision']} at the score {row['score']}"


def _spread(cell: PlainCell) -> Iterator[str]:
    """The standard deviation of a value over folds, of each the mean over its seeds."""
    for metric, value in cell.values.items():
        of_folds: dict[str, list[float]] = defaultdict(list)
        for (fold, _), own in cell.by_fold.items():
            of_folds[fold].append(recompute.of_rows(metric, own))
        means = [float(np.mean(values)) for values in of_folds.values()]
        finite = [mean for mean in means if math.isfinite(mean)]
        expected = float(np.std(finite, ddof=1)) if len(finite) > 1 else math.nan
        found = math.nan if value["sd"] is None else value["sd"]
        if not np.isclose(found, expected, rtol=1e-9, atol=1e-9, equal_nan=True):
            yield f"{metric} over folds: sd is {found}, expected {expected}"


def _leaks(cell: PlainCell) -> Iterator[str]:
    seen = set()
    for (fold, _), own in cell.by_fold.items():
        if fold not in cell.folds:
            return
        used = {clip.clip_id for clip in cell.folds[fold].both}
        names = {row["clip_id"] for row in own} & used
        leaked = {row["clip_id"] for row in own if row["leaked"]}
        if leaked != names:
            yield f"{fold} leaked {sorted(leaked)}, expected {sorted(names)}"
        seen |= {row["clip_id"] for row in own if row["seen"] == "clip"}
        if not leaked <= seen:
            yield f"{fold} leaked clips that it has not seen"
    counted = cell.values["prevalence"]["leaked"]
    if counted != len(seen):
        yield f"leaked {counted}, expected {len(seen)}"


# ---- scores and choices, fitted again ----


def _fits(cell: PlainCell) -> Iterator[str]:
    """Scores and choices of linear models and of baselines, fitted again."""
    model = cell.one.protocol["models"].get(cell.model)
    for (name, _), tests in cell.by_fold.items():
        if name not in cell.folds:
            continue
        fold = cell.folds[name]
        tested = [cell.clip_of[row["clip_id"]] for row in tests]
        if model is None:
            expected = _baseline(cell, fold.both, tested)
        else:
            yield from _linear(cell, model, name, fold, tests)
            continue
        yield from _scores_differ(name, tests, expected)


def _scores_differ(name: str, tests: Rows, expected: Floats) -> Iterator[str]:
    got = np.array([row["score"] for row in tests])
    scale = max(1.0, float(np.abs(expected).max()))
    worst = int(np.abs(got - expected).argmax())
    if not np.allclose(got, expected, rtol=0, atol=2e-4 * scale):
        clip_id = tests[worst]["clip_id"]
        yield f"{name}: score {got[worst]} of {clip_id}, a refit has {expected[worst]}"


def _baseline(cell: PlainCell, used: list[Clip], tested: list[Clip]) -> Floats:
    y = cell.classes(used)
    if cell.model == "all_positive":
        return np.ones(len(tested))
    if cell.model == "prevalence":
        return np.full(len(tested), y.mean())
    if cell.model == "oracle":
        fit = LogisticRegression(class_weight="balanced", max_iter=1000)
        fit.fit(_marks(used), y)
        return np.asarray(fit.predict_proba(_marks(tested))[:, 1])
    scene_of = _scenes(cell.one)
    scores = []
    for clip in tested:
        is_here = np.array([own.movie_id == clip.movie_id for own in used])
        here = y[is_here]
        score = (here.sum() + y.mean()) / (len(here) + 1)
        if cell.model == "neighbour":
            # The mean of the labels of the film, of which near scenes count more.
            scenes = np.array([scene_of[own.clip_id] for own in used])[is_here]
            weights = np.exp(-np.abs(scenes - scene_of[clip.clip_id]) / 2)
            score = np.average(here, weights=weights) if len(here) else y.mean()
        scores.append(score)
    return np.array(scores)


def _marks(clips: list[Clip]) -> Floats:
    return np.array([[float(n in c.concepts) for n in VISUAL] for c in clips])


def _scenes(one: Experiment) -> dict[str, float]:
    """The scene of each clip, or its rank by time among all clips, film after film."""
    clips = one.clips
    if all(clip.scene is not None for clip in clips):
        return {clip.clip_id: float(clip.scene or 0) for clip in clips}
    if any(clip.start_s is None for clip in clips):
        return {clip.clip_id: 0.0 for clip in clips}
    ordered = sorted(clips, key=lambda clip: (clip.movie_id, clip.start_s))
    return {clip.clip_id: float(rank) for rank, clip in enumerate(ordered)}


def _linear(cell, model: Facts, name: str, fold: PlainFold, tests) -> Iterator[str]:
    offered = model.get("C")
    strengths = offered["grid"] if isinstance(offered, dict) else [offered]
    is_grouped = cell.splits["kind"] not in ("kfold", "fixed")
    chooses = len(strengths) > 1 and not is_grouped
    chooses &= cell.splits["validation"] != "none"
    if chooses and fold.validation is None:
        return
    validation = fold.validation or [] if chooses else []
    used = fold.train if chooses else fold.both
    scale = _scaling(cell, used)
    X, y = scale(used), cell.classes(used)
    (record,) = [one for one in cell.record["folds"] if one["fold"] == name][:1]
    # How it is chosen for a ridge: tests/obygaze_models/models/test_linear.py.
    strength = strengths[0]
    if model["kind"] == "ridge":
        strength = record["chosen"]["alpha"]
    elif len(strengths) > 1:
        strength = record["chosen"]["C"]
        parts = []
        groups = np.array([clip.movie_id for clip in used])
        # Scaling learns, too: in an inner fold, from the clips that train there.
        for a, b in _inner_splits(y, groups):
            inside = [used[row] for row in a]
            scale_inside = _scaling(cell, inside)
            B = scale_inside([used[row] for row in b])
            parts.append((scale_inside(inside), y[a], B, y[b]))
        if {*cell.classes(validation).tolist()} == {0, 1}:
            parts = [(X, y, scale(validation), cell.classes(validation))]
        yield from _choice_differs(name, model, strengths, parts, strength)
    T = scale([cell.clip_of[row["clip_id"]] for row in tests])
    yield from _scores_differ(name, tests, refit(model, X, y, T, strength))


def _scaling(cell: PlainCell, clips: Sequence[Clip]) -> Any:
    """What scales the vectors of clips as these training clips say."""
    mean, spread = 0.0, 1.0
    if cell.one.protocol["data"].get("scale", "none") == "standard":
        X = cell.matrix(clips)
        mean, spread = X.mean(axis=0), X.std(axis=0)
        spread[spread == 0] = 1
    return lambda others: (cell.matrix(others) - mean) / spread


def _inner_splits(y: NDArray[Any], groups: NDArray[Any]) -> list[tuple[Any, Any]]:
    """Three inner folds of whole groups (of one group: of clips) that have both classes."""
    names = set(groups.tolist())
    n_fewest = min(int((y == label).sum()) for label in (0, 1))
    n_parts = len(names) if len(names) > 1 else len(y)
    if min(n_parts, n_fewest) < INNER_FOLDS:
        return []
    splitter: Any = StratifiedKFold(INNER_FOLDS)
    if len(names) > 1:
        splitter = StratifiedGroupKFold(INNER_FOLDS)
    found = splitter.split(y, y, groups)
    return [(a, b) for a, b in found if 0 < y[a].mean() < 1 and 0 < y[b].mean() < 1]


def refit(model: Facts, X: Floats, y: NDArray[Any], T: Floats, strength: Any) -> Floats:
    weights = np.ones(len(y))
    if model["class_weight"] == "balanced":
        weights = len(y) / (2 * np.bincount(y, minlength=2)[y])
    if model["kind"] == "ridge":
        fit = Ridge(alpha=strength).fit(X, 2 * y - 1, sample_weight=weights)
        return np.asarray(fit.predict(T))
    shift, scale = X.mean(axis=0), X.std() or 1.0
    # The same problem around 0 and of length 1, so that lbfgs comes near enough.
    own = LogisticRegression(C=strength * scale**2, tol=1e-10, max_iter=20_000)
    own.fit((X - shift) / scale, y, sample_weight=weights)
    return np.asarray(own.predict_proba((T - shift) / scale)[:, 1])


def _choice_differs(name, model: Facts, strengths, parts, chosen) -> Iterator[str]:
    precisions = {}
    for strength in strengths:
        found = []
        for A, a, B, b in parts:
            found.append(average_precision_score(b, refit(model, A, a, B, strength)))
        precisions[strength] = float(np.mean(found)) if found else math.nan
    if not parts and chosen != strengths[0]:
        yield f"{name}: C {chosen} without an inner split, expected the first"
    if parts and precisions[chosen] < max(precisions.values()) - 1e-6:
        yield f"{name}: C {chosen} is not the best: {precisions}"
