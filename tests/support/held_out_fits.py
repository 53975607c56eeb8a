"""Fits with what is held out replaced: does anything learn from it?"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.manifest.model import Clip, Manifest
from obygaze_features.store import Recipe
from obygaze_models.evaluation.tables import Pair
from obygaze_models.models import fitting as models_fitting
from obygaze_models.models.common import FixTraining
from obygaze_models.models.fold_data import FoldData
from obygaze_models.models.registry import build
from obygaze_models.protocols.kinds import candidates, for_task
from obygaze_models.runner.heldout import HeldOut
from obygaze_models.runner.inputs import Inputs, gather
from obygaze_models.runner.processes import fitting
from obygaze_models.runner.store_run import (
    Fitted,
    StoreRun,
    fit_baseline,
    fit_model,
    store_runs,
)
from support.experiments import VISUAL, films, planted, quick, store_of, with_folds
from support.joined_stores import joined_stores
from support.sentences import recipe_of_words, write_sentences

OWN_CLASS = """
import numpy as np

class Nearest:
    # The mean of each class; `shrinks` moves both towards the mean of all rows.
    def __init__(self, shrinks=0.0):
        self.shrinks = shrinks
    def get_params(self, deep=True):
        return {"shrinks": self.shrinks}
    def fit(self, X, y):
        means = np.array([X[y == code].mean(axis=0) for code in (0, 1)])
        self.means = means + self.shrinks * (X.mean(axis=0) - means)
        self.classes_ = np.array([0, 1])
        return self
    def decision_function(self, X):
        far = ((X[:, None] - self.means) ** 2).sum(axis=2)
        return far[:, 0] - far[:, 1]
    def predict(self, X):
        return (self.decision_function(X) > 0).astype(int)
"""
# Models of each kind that reads one vector of a clip.
QUICK_MODELS = (
    "models.mlp.max_epochs=3",
    "models.mlp.min_epochs=1",
    "models.logistic.kind=logistic",
    "models.svm.kind=svm",
    "models.nb.kind=sklearn.naive_bayes.GaussianNB",
    "models.pcbm-h.kind=pcbm-h",
)
MODELS_OF_FRAMES = (
    *(f"models.{pooling}.kind=frames" for pooling in ("max", "mean", "last")),
    *(f"models.{pooling}.pooling={pooling}" for pooling in ("max", "mean", "last")),
    "models.chosen.kind=frames",
    "models.chosen.C.grid=[0.001, 1.0]",
    'grid.models=["max", "mean", "last", "chosen"]',
)
ONE_TASK = (
    'grid.train=["EN_S"]',
    'grid.test=["ENHN_S"]',
    "report.contrast=[]",
    "report.concepts=false",
    "leakage=warn",
)


def some_clips() -> Manifest:
    """Films with folds of every kind; some clips have no level, and some are in no fold."""
    manifest = with_folds(films(5, 24, seed=4, runs_on=0.2), 6)
    names = sorted({clip.movie_id for clip in manifest})
    columns: dict[str, dict[str, str]] = defaultdict(dict)
    for clip in manifest:
        film = names.index(clip.movie_id)
        columns["whole"][clip.clip_id] = "train" if film else "test"
        columns["fold:grouped"][clip.clip_id] = str(film)
        columns["fold:pairs"][clip.clip_id] = str(film // 2)
        columns["scenes"][clip.clip_id] = "train" if clip.scene % 4 else "test"
    for name, cells in columns.items():
        manifest = manifest.with_column(name, cells)
    return manifest


@dataclass(frozen=True)
class Way:
    inputs: Inputs
    run: StoreRun
    pair: Pair

    @property
    def folds(self) -> Sequence[HeldOut]:
        return self.run.folds[self.pair]


def way_of(
    folder: Path,
    *changes: str,
    name: str = "honest-negatives",
    frames: int = 0,
    joined: bool = False,
    recipe: Recipe | None = None,
) -> Way:
    """The inputs of a protocol with these changes, on the features of one store or of two."""
    folder.mkdir(parents=True, exist_ok=True)
    manifest = some_clips()
    X = planted(manifest, width=14, strength=0.7)
    # Clips of two films have the features of clips of the first one.
    X[30] = X[2]
    X[60] = X[3]
    X[31] = X[61]
    if frames:
        rng = np.random.default_rng(7)
        noise = rng.normal(size=(len(X), frames, X.shape[1]))
        X = (X[:, None] + noise).astype(np.float32)
    if joined:
        parts = {"heard": 30 * X[:, :5], "seen": X[:, 5:]}
        store = joined_stores(folder / "stores", manifest, parts)["joined"]
    else:
        store = store_of(folder / "store", manifest, X, recipe=recipe)
    protocol = quick(name, *ONE_TASK, *changes)
    inputs = gather(protocol, manifest, "made-up", {"x": store})
    (run,) = store_runs(inputs)
    (pair,) = protocol.pairs
    return Way(inputs, run, pair)


def way_of_sentences(folder: Path, *changes: str) -> Way:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    vectors = {"sure": rng.normal(size=(3, 14)), "plain": rng.normal(size=(2, 14))}
    texts = write_sentences(folder / "texts.npz", vectors)
    models = ["models.said.kind=zero-shot", f"models.said.texts={texts}"]
    models += ["models.said.positive=sure", "models.said.negative=plain"]
    models += [f"models.pcbm-lr.texts={texts}", "models.pcbm-lr.C.grid=[0.001, 1.0]"]
    models += ['grid.models=["said", "pcbm-lr"]']
    return way_of(folder, *models, *changes, recipe=recipe_of_words())


def replaced(way: Way, rows: NDArray[np.bool_], seed: int = 1) -> StoreRun:
    """The same store with other features, classes, levels and concepts of some clips."""
    rng = np.random.default_rng(seed)
    run = way.run
    features = run.features
    assert features is not None
    X = np.array(features.X)
    changed = features.row_of[rows & features.present]
    X[changed] = 9 + 5 * rng.normal(size=(len(changed), *X.shape[1:]))
    labels = {}
    for task, of_task in run.labels.items():
        others = of_task.copy()
        others[rows] = rng.integers(0, 2, rows.sum())
        labels[task] = others
    clips: list[Clip] = []
    for is_replaced, clip in zip(rows, run.table.clips, strict=True):
        if is_replaced:
            level = str(rng.choice(["EN", "HN", "S"]))
            concepts = tuple(np.array(VISUAL)[rng.random(len(VISUAL)) < 0.5].tolist())
            clip = replace(clip, level=level, concepts=concepts)
        clips.append(clip)
    equal = np.full(len(run.table), -1, dtype=np.intp)
    values = X.reshape(len(X), -1)
    equal[features.present] = np.unique(values, axis=0, return_inverse=True)[1].ravel()
    return replace(
        run,
        table=replace(run.table, clips=clips),
        labels=labels,
        features=replace(features, X=X, equal=equal),
    )


Inside = tuple[NDArray[np.intp], NDArray[np.intp]]


def fit(
    run: StoreRun, model: str, held: HeldOut, task: str, inside: Inside | None = None
) -> Fitted | str:
    """The fit of a model in a fold; why there is none, where classes are missing.

    With `inside`, the training and the hidden clips of a fit in the fold, as those that choose.
    """
    chosen = run.models[model]
    try:
        with fitting():
            if inside is None:
                (fitted,) = fit_model(run, chosen, task, [held], 3)
                return fitted
            row_of = run.of_store.row_of
            train, hidden = (row_of[clips] for clips in inside)
            data = run.fold_data(task, held).inside(train, hidden)
            return fit_of(run, model, task, data)
    except FixTraining as error:
        return error.reason


def fit_of(run: StoreRun, model: str, task: str, data: FoldData) -> Fitted:
    """The fit of the first settings that a model offers."""
    chosen = run.models[model]
    settings = for_task(candidates(chosen)[0], task)
    unfitted = run.preprocess(build(chosen.kind, settings, seed=3))
    fitted = models_fitting.fit(unfitted, data)
    clips = np.flatnonzero(run.of_store.present)
    return Fitted(fitted, data, models_fitting.facts_of(fitted), clips)


def answers(fitted: Fitted | str, X: Any) -> dict[str, Any]:
    if isinstance(fitted, str):
        return {"problem": fitted}
    with fitting():
        scores = models_fitting.score_features(fitted.estimator, X)
    return {
        "scores": scores.tobytes(),
        "chosen": repr(dict(fitted.chosen)),
        "found_on": fitted.found_on.tobytes(),
    }


def learns(
    way: Way,
    model: str,
    held: HeldOut,
    rows: NDArray[np.bool_],
    inside: Inside | None = None,
) -> list[str]:
    """What of a fit changes when these clips are replaced; the fit is asked for the originals."""
    X = way.run.of_store.X
    task = way.pair[0]
    # Each of them finds what fits share anew.
    first = replace(way.run)
    other = replaced(way, rows)
    before = answers(fit(first, model, held, task, inside), X)
    now = answers(fit(other, model, held, task, inside), X)
    assert "scores" in before, before
    return [name for name in before if before[name] != now.get(name)]


def baseline_learns(way: Way, name, held: HeldOut, rows: NDArray[np.bool_]) -> bool:
    other = replaced(way, rows)
    task = way.pair[0]
    table = way.run.table
    before = fit_baseline(name, held, way.run.labels[task], table)
    now = fit_baseline(name, held, other.labels[task], other.table)
    # An oracle reads the concepts of the clips that it is asked for.
    asked = np.flatnonzero(~rows)
    return before(asked).tobytes() != now(asked).tobytes()


def must_not_be_learned(way: Way, held: HeldOut, *, by_film: bool) -> NDArray[np.bool_]:
    """What the rule says, worked out without `HeldOut`: films or clips that are tested."""
    table = way.run.table
    kept = np.zeros(len(table), dtype=np.bool_)
    if by_film:
        tested = {table.films[row] for row in held.test.tolist()}
        kept[:] = [film in tested for film in table.films]
        return kept
    kept[held.test] = True
    # A scheme finds concept vectors in the training folds of its file only.
    if held.file_folds is not None:
        last = max(held.file_folds)
        kept |= held.file_folds == last
    # What the paper's own training sets let through is counted as leaked.
    if way.inputs.protocol.splits.kind == "published":
        kept[held.train] = kept[held.validation] = False
    return kept
