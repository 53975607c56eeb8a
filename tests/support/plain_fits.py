"""Fit the models of a run again, plainly: which clips train, what is chosen, scores, thresholds.

Each function yields what is different, in words. Training sets and validation sets are computed
from the drawn words of an experiment, not with functions of the program.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from obygaze_features.manifest.model import Clip
from support.random_protocols import VISUAL, Experiment

Facts = dict[str, Any]
Rows = list[Facts]
Floats = NDArray[np.float64]
LINEAR = ("ridge", "logistic")  # kinds that are fitted again
SIMPLE = ("prevalence", "all_positive", "film_prior", "oracle", "neighbour")
INNER_FOLDS = 3


@dataclass(frozen=True)
class PlainFold:
    """The clips of a fold that train or validate; `validation` is None where it is drawn."""

    both: list[Clip]
    validation: list[Clip] | None

    @property
    def train(self) -> list[Clip]:
        """The clips that train and do not validate."""
        validating = {clip.clip_id for clip in self.validation or ()}
        return [clip for clip in self.both if clip.clip_id not in validating]


@dataclass(frozen=True)
class Numbered:
    """The fold of each clip that may train, and the number of folds."""

    fold_of: Mapping[str, int]
    n_folds: int


def rows_by_fold(rows: Rows) -> dict[tuple[str, int], Rows]:
    folds: dict[tuple[str, int], Rows] = defaultdict(list)
    for row in rows:
        folds[row["fold"], row["seed"]].append(row)
    return folds


def clips_of_task(one: Experiment, task: str) -> list[Clip]:
    has_vector = one.vectors()
    return [
        clip
        for clip in one.clips
        if clip.clip_id in has_vector and one.class_of(task, clip) is not None
    ]


def plain_folds(one: Experiment, cell: Facts, rows: Rows) -> dict[str, PlainFold]:
    """The clips that train and validate in each fold, where the drawn words alone say so."""
    splits, task = one.protocol["splits"], cell["train"]
    clips = clips_of_task(one, task)
    names = list(dict.fromkeys(row["fold"] for row in rows))
    if splits["kind"] == "fixed":
        both = [clip for clip in clips if clip.extra["part"] in ("train", "dev")]
        return {"fixed": PlainFold(both, None)}
    numbered = _numbered(one, cell, rows, clips)
    if numbered is None:
        return {}
    return {name: _generated(one, task, clips, name, numbered) for name in names}


def _numbered(one, cell: Facts, rows: Rows, clips: list[Clip]) -> Numbered | None:
    splits = one.protocol["splits"]
    if not splits.get("folds"):
        names = sorted({clip.movie_id for clip in one.clips})
        numbers = {clip.clip_id: names.index(clip.movie_id) for clip in one.clips}
        return Numbered(numbers, len(names))
    if cell["train"] != cell["test"] or cell["skipped"]:
        return None  # clips of other folds are not known by what was tested
    tested = {}
    for row in rows:
        number = row["fold"].split(",")[0].split()[1]
        tested[row["clip_id"]] = int(number)
    n_folds = splits["folds"]
    never = splits.get("never", [])
    if any(clip.movie_id in never for clip in one.clips):
        n_folds += 1
    for clip in clips:
        tested.setdefault(clip.clip_id, splits["folds"])
    return Numbered(tested, n_folds)


def _generated(one, task: str, clips, name: str, numbered: Numbered) -> PlainFold:
    """One fold tests; one validates that has both classes, the next one or the one of the name."""
    splits = one.protocol["splits"]
    fold_of = numbered.fold_of
    of_fold: dict[int, list[Clip]] = defaultdict(list)
    for clip in clips:
        if clip.clip_id in fold_of:
            of_fold[fold_of[clip.clip_id]].append(clip)
    test = int(name.split(",")[0].split()[1])
    both = [clip for fold in of_fold if fold != test for clip in of_fold[fold]]
    chosen: int | None = None
    if name.startswith("test "):
        chosen = int(name.rpartition(" ")[2])
    elif splits["validation"] != "none":
        others = [
            (test + step) % numbered.n_folds for step in range(1, numbered.n_folds)
        ]
        able = []
        for fold in others:
            if {one.class_of(task, clip) for clip in of_fold[fold]} == {0, 1}:
                able.append(fold)
        if len(able) > 1:
            chosen = able[0]
    validation = [] if chosen is None else of_fold[chosen]
    return PlainFold(both, validation)


def sizes_differ(one: Experiment, run: Any, cell: Facts, rows: Rows) -> Iterator[str]:
    folds = plain_folds(one, cell, rows)
    for record in cell["folds"]:
        fold = folds.get(record["fold"])
        if fold is None:
            continue
        got = record["n_train"], record["n_validation"]
        if fold.validation is None and sum(got) != len(fold.both):
            yield f"{record['fold']} has {got} clips, expected {len(fold.both)} together"
        if fold.validation is not None:
            expected = len(fold.train), len(fold.validation)
            if got != expected:
                yield f"{record['fold']} has {got} clips, expected {expected}"


def fits_differ(one: Experiment, run: Any, cell: Facts, rows: Rows) -> Iterator[str]:
    """Scores, choices and thresholds of linear models and of baselines, fitted again."""
    model = one.protocol["models"].get(cell["model"])
    if model is None and cell["model"] in SIMPLE:
        yield from _baseline_differs(one, cell, rows)
    if model is not None and model["kind"] in LINEAR:
        yield from _linear_differs(one, model, cell, rows)


def _baseline_differs(one: Experiment, cell: Facts, rows: Rows) -> Iterator[str]:
    folds = plain_folds(one, cell, rows)
    clip_of = {clip.clip_id: clip for clip in one.clips}
    for (name, _), tests in rows_by_fold(rows).items():
        if name not in folds:
            continue
        used = folds[name].both
        y = np.array([one.class_of(cell["train"], clip) for clip in used])
        tested = [clip_of[row["clip_id"]] for row in tests]
        if cell["model"] == "all_positive":
            expected = np.ones(len(tests))
        elif cell["model"] == "prevalence":
            expected = np.full(len(tests), y.mean())
        elif cell["model"] == "film_prior":
            shares = [_film_share(used, y, clip.movie_id) for clip in tested]
            expected = np.array(shares)
        elif cell["model"] == "neighbour":
            scene_of = _scenes(one)
            votes = [_neighbours(used, y, clip, scene_of) for clip in tested]
            expected = np.array(votes)
        else:
            expected = _oracle(one, used, y, tested)
        yield from _scores_differ(name, tests, expected)


def _scores_differ(name: str, tests: Rows, expected: Floats) -> Iterator[str]:
    got = np.array([row["score"] for row in tests])
    scale = max(1.0, float(np.abs(expected).max()))
    worst = int(np.abs(got - expected).argmax())
    if not np.allclose(got, expected, rtol=0, atol=2e-4 * scale):
        clip_id = tests[worst]["clip_id"]
        yield f"{name}: score {got[worst]} of {clip_id}, a refit has {expected[worst]}"


def _film_share(used: list[Clip], y: NDArray[Any], film: str) -> float:
    here = [label for clip, label in zip(used, y, strict=True) if clip.movie_id == film]
    return float((sum(here) + y.mean()) / (len(here) + 1))


def _scenes(one: Experiment) -> dict[str, float]:
    """The scene of each clip, or its rank by time among all clips, film after film."""
    clips = one.clips
    if all(clip.scene is not None for clip in clips):
        return {clip.clip_id: float(clip.scene or 0) for clip in clips}
    if any(clip.start_s is None for clip in clips):
        return {clip.clip_id: 0.0 for clip in clips}
    ordered = sorted(clips, key=lambda clip: (clip.movie_id, clip.start_s))
    return {clip.clip_id: float(rank) for rank, clip in enumerate(ordered)}


def _neighbours(
    used: list[Clip], y: NDArray[Any], clip: Clip, scene_of: Mapping[str, float]
) -> float:
    """The mean of the labels of the film, of which near scenes count more."""
    here = [(own, label) for own, label in zip(used, y, strict=True)]
    here = [(own, label) for own, label in here if own.movie_id == clip.movie_id]
    if not here:
        return float(y.mean())
    won = total = 0.0
    for own, label in here:
        weight = math.exp(-abs(scene_of[own.clip_id] - scene_of[clip.clip_id]) / 2)
        won += weight * label
        total += weight
    return won / total


def _oracle(one, used: list[Clip], y: NDArray[Any], tested: list[Clip]) -> Floats:
    def marks(clips: list[Clip]) -> Floats:
        return np.array([[float(n in c.concepts) for n in VISUAL] for c in clips])

    fit = LogisticRegression(class_weight="balanced", max_iter=1000)
    fit.fit(marks(used), y)
    return np.asarray(fit.predict_proba(marks(tested))[:, 1])


def _linear_differs(one, model: Facts, cell: Facts, rows: Rows) -> Iterator[str]:
    splits, task = one.protocol["splits"], cell["train"]
    folds = plain_folds(one, cell, rows)
    vectors = one.vectors()
    clip_of = {clip.clip_id: clip for clip in one.clips}
    records = {fold["fold"]: fold for fold in cell["folds"]}
    strengths = offered_strengths(model)
    is_grouped = splits["kind"] not in ("kfold", "fixed")
    has_validation = splits["validation"] != "none"
    chooses = len(strengths) > 1 and not is_grouped and has_validation
    is_joined = not chooses

    def matrix(clips: Sequence[Clip]) -> Floats:
        return np.array([vectors[clip.clip_id] for clip in clips])

    def classes(clips: Sequence[Clip]) -> NDArray[Any]:
        return np.array([one.class_of(task, clip) for clip in clips])

    for (name, _), tests in rows_by_fold(rows).items():
        fold = folds.get(name)
        if fold is None or (fold.validation is None and not is_joined):
            continue
        # In the order of the manifest, by which inner folds are made.
        place_of = {clip.clip_id: place for place, clip in enumerate(one.clips)}
        used = fold.both if is_joined else fold.train
        used = sorted(used, key=lambda clip: place_of[clip.clip_id])
        validation = [] if is_joined else fold.validation or []
        unscaled = matrix(used)
        mean, spread = _scale_of(one, unscaled)
        X, y = (unscaled - mean) / spread, classes(used)
        groups = np.array([clip.movie_id for clip in used])
        record = records[name]
        # Scaling learns, too: in an inner fold, from the clips that train there.
        parts = []
        for a, b in _inner_splits(y, groups):
            mean_inside, spread_inside = _scale_of(one, unscaled[a])
            A = (unscaled[a] - mean_inside) / spread_inside
            B = (unscaled[b] - mean_inside) / spread_inside
            parts.append((A, y[a], B, y[b]))
        if validation and set(classes(validation).tolist()) == {0, 1}:
            V = (matrix(validation) - mean) / spread
            parts = [(X, y, V, classes(validation))]
        strength: float | None = None
        if model["kind"] == "ridge":
            # How it is chosen: tests/obygaze_models/models/test_linear.py.
            strength = record["chosen"]["alpha"]
        elif len(strengths) > 1:
            strength = record["chosen"]["C"]
            yield from _choice_differs(name, model, strengths, parts, strength)
        else:
            strength = strengths[0]
        tested = [clip_of[row["clip_id"]] for row in tests]
        T = (matrix(tested) - mean) / spread
        expected = refit(model, X, y, T, strength)
        yield from _scores_differ(name, tests, expected)


def _scale_of(one: Experiment, X: Floats) -> tuple[Floats, Floats]:
    """The mean and the spread that training clips give to the features of a fold."""
    width = X.shape[1]
    if one.protocol["data"].get("scale", "none") != "standard":
        return np.zeros(width), np.ones(width)
    spread = X.std(axis=0)
    spread[spread == 0] = 1
    return X.mean(axis=0), spread


def offered_strengths(model: Facts) -> list[Any]:
    strength = model.get("C")
    if isinstance(strength, dict):
        return list(strength["grid"])
    return [strength]


def _inner_splits(
    y: NDArray[Any], groups: NDArray[Any]
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Three inner folds of whole groups (of one group: of clips) that have both classes."""
    names = set(groups.tolist())
    n_fewest = min(int((y == label).sum()) for label in (0, 1))
    n_parts = len(names) if len(names) > 1 else len(y)
    if min(n_parts, n_fewest) < INNER_FOLDS:
        return []
    splitter: Any = StratifiedKFold(INNER_FOLDS)
    if len(names) > 1:
        splitter = StratifiedGroupKFold(INNER_FOLDS)
    found = []
    for train, rows in splitter.split(y, y, groups):
        if 0 < y[train].mean() < 1 and len(rows) and 0 < y[rows].mean() < 1:
            found.append((train, rows))
    return found


def _weights(model: Facts, y: NDArray[Any]) -> Floats:
    if model["class_weight"] != "balanced":
        return np.ones(len(y))
    return np.array([len(y) / (2 * (y == label).sum()) for label in y])


def refit(model: Facts, X: Floats, y: NDArray[Any], T: Floats, strength: Any) -> Floats:
    weights = _weights(model, y)
    if model["kind"] == "ridge":
        fit = Ridge(alpha=strength).fit(X, 2 * y - 1, sample_weight=weights)
        return np.asarray(fit.predict(T))
    shift, scale = X.mean(axis=0), X.std() or 1.0
    # The same problem around 0 and of length 1, so that lbfgs comes near enough.
    own = LogisticRegression(C=strength * scale**2, tol=1e-10, max_iter=20_000)
    own.fit((X - shift) / scale, y, sample_weight=weights)
    return np.asarray(own.predict_proba((T - shift) / scale)[:, 1])


def _choice_differs(
    name: str,
    model: Facts,
    strengths: Sequence[float],
    parts: Sequence[tuple[Floats, Any, Floats, Any]],
    chosen: Any,
) -> Iterator[str]:
    if not parts:
        if chosen != strengths[0]:
            yield f"{name}: C {chosen} without an inner split, expected the first"
        return
    precisions = {}
    for strength in strengths:
        found = []
        for A, a, B, b in parts:
            found.append(average_precision_score(b, refit(model, A, a, B, strength)))
        precisions[strength] = float(np.mean(found))
    best = max(precisions.values())
    if precisions[chosen] < best - 1e-6:
        yield f"{name}: C {chosen} is not the best: {precisions}"
