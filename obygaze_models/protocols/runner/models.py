"""Trains one fold of one model: the scores of any clips, and what they were learned from.

Perceptrons are not here: all of them are trained in one call (`perceptrons`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from obygaze_models.models import registry
from obygaze_models.models.baselines import BASELINES, oracle, places
from obygaze_models.models.common import FixTraining
from obygaze_models.protocols.clips import ClipTable
from obygaze_models.protocols.kinds import candidates, for_task
from obygaze_models.protocols.runner.banks import Banks
from obygaze_models.protocols.runner.features import Features
from obygaze_models.protocols.schema import Model
from obygaze_models.protocols.splits import Split

Floats = NDArray[np.float64]
INNER_FOLDS = 3


Score = Callable[[NDArray[np.intp]], Floats]
NO_ROWS = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Learned:
    """A fitted estimator, and the function from clips to scores that is evaluated.

    `threshold` is what a score must exceed to be positive. `found_on` are the clips that concept
    vectors were found on, in the fit itself and in those that chose its settings.
    """

    estimator: Any
    score: Score
    threshold: float = 0.5
    chosen: Mapping[str, Any] = field(default_factory=dict)
    found_on: NDArray[np.intp] = field(default_factory=NO_ROWS.copy)


@dataclass(frozen=True, eq=False)
class Case:
    """What one fold of a cell gives to a model: rows are rows of the clip table."""

    task: str
    split: Split
    labels: NDArray[np.int8]
    table: ClipTable
    groups: NDArray[np.str_]
    seed: int
    join_validation: bool

    @property
    def learn(self) -> NDArray[np.intp]:
        """The rows to learn from; those that would choose join in where nothing is chosen."""
        if self.join_validation:
            return np.union1d(self.split.train, self.split.validation)
        return self.split.train

    @property
    def films(self) -> NDArray[np.str_] | None:
        """The film of each row to learn from; None where there is one only."""
        return several(self.groups[self.learn])

    @property
    def y(self) -> NDArray[np.int64]:
        """The classes of the rows to learn from."""
        return self.labels[self.learn].astype(np.int64)


def several(groups: NDArray[np.str_]) -> NDArray[np.str_] | None:
    """Groups that one can be left out of; None where there is one only."""
    return groups if len(np.unique(groups)) > 1 else None


def train_model(model: Model, case: Case, features: Features, banks: Banks) -> Learned:
    """Fit one model on one fold, choosing among its candidates on rows that do not test."""
    options = [for_task(model.kind, s, case.task) for s in candidates(model.settings)]
    if len(options) == 1:
        return _train(model.kind, options[0], case, features, banks)
    tried = [_inner_score(model.kind, o, case, features, banks) for o in options]
    scored = [(value, -i) for i, (value, _) in enumerate(tried)]
    best = options[-max(scored)[1]]
    offered = {k: best[k] for k, v in model.settings.items() if best.get(k) != v}
    done = _train(model.kind, best, case, features, banks)
    found_on = reduce(np.union1d, [own for _, own in tried], done.found_on)
    return replace(done, chosen={**done.chosen, **offered}, found_on=found_on)


def train_baseline(name: str, case: Case) -> Learned:
    """Fit one baseline: it sees film and scene, or the true concepts, never a feature."""
    table = case.table
    if name == "oracle":
        X = table.has_concept.astype(np.float64)
        if not X.shape[1]:
            raise FixTraining("an oracle needs visual concepts, and this manifest has none")
        fitted = oracle().fit(X[case.learn], case.y)
    else:
        X = places(table.movies, np.zeros(len(table)) if table.scenes is None else table.scenes)
        kind: Any = BASELINES[name]
        fitted = (kind(random_state=case.seed) if name == "random" else kind()).fit(
            X[case.learn], case.y
        )
    return Learned(fitted, lambda clips: fitted.predict_proba(X[clips])[:, 1])


def _train(
    kind: str, settings: Mapping[str, Any], case: Case, features: Features, banks: Banks
) -> Learned:
    if registry.find_kind(kind).head:
        return _train_bottleneck(kind, settings, case, features, banks)
    if kind == "svm":
        return _train_machine(settings, case, features, banks)
    probe = registry.build(kind, settings)
    probe.fit(features.of(case.learn), case.y, case.films)
    if kind == "ridge":
        chosen = {"alpha": probe.alpha_}
        return Learned(probe, lambda c: probe.decision_function(features.of(c)), 0.0, chosen)
    return Learned(probe, lambda clips: probe.predict_proba(features.of(clips))[:, 1])


def _train_machine(
    settings: Mapping[str, Any], case: Case, features: Features, banks: Banks
) -> Learned:
    """Fit a support vector machine on the Gram matrix that all fits of a store share."""
    from obygaze_models.models.common import balanced_weights
    from obygaze_models.models.linear_solvers import settled_bias

    positive = case.y == 1
    weights = balanced_weights(case.y, 2)[case.y]
    weight = weights if settings["class_weight"] == "balanced" else None
    rows = features.row_of[case.learn]
    normal, bias = banks.gram.machine(rows, positive, settings["C"], weight)
    along = features.of(case.learn).astype(np.float64) @ normal
    facts = {
        "length": float(np.linalg.norm(normal)),
        "bias_shift": settled_bias(along, positive, weight, bias) - bias,
    }
    probe = registry.build("svm", settings)
    probe.classes_, probe.n_features_in_ = np.array([0, 1]), len(normal)
    probe.coef_, probe.intercept_ = normal[None, :], np.array([bias])
    return Learned(
        probe, lambda clips: features.of(clips).astype(np.float64) @ normal + bias, 0.0, facts
    )


def _train_bottleneck(
    kind: str, settings: Mapping[str, Any], case: Case, features: Features, banks: Banks
) -> Learned:
    """Fit the head on margins of shared concept vectors, and put both in one estimator."""
    from sklearn.base import clone

    margins = banks.margins(settings, case)
    model = registry.build(kind, settings, concepts=margins.bank.concepts, seed=banks.seed)
    model.bank_, model.n_features_in_ = margins.bank, margins.bank.n_features_in_
    groups = case.groups[case.learn]
    if kind == "ordinal":  # learns the levels, whatever the task
        levels = np.array(case.table.levels)[case.learn]
        model.head_ = clone(model.head).fit(margins.learn, levels, groups=groups)
        positive = np.isin(model.head_.classes_, sorted(set(levels[case.y == 1])))
    else:
        model.head_ = clone(model.head).fit(margins.learn, case.y, groups=groups)
        positive = model.head_.classes_ == 1
    model.classes_, facts = model.head_.classes_, {}
    if model.residual is not None:
        offset = model.head_.decision_function(margins.learn)
        model.residual_ = clone(model.residual).fit(banks.rows(case.learn), case.y, offset=offset)
        facts = {"residual_share": model.residual_.share_}

    def score(clips: NDArray[np.intp]) -> Floats:
        found = model.predict_proba(features.of(clips))[:, positive]
        return np.asarray(np.clip(found.sum(axis=1), 0.0, 1.0))

    return Learned(model, score, 0.5, facts, margins.found_on)


def _inner_score(
    kind: str, settings: Mapping[str, Any], case: Case, features: Features, banks: Banks
) -> tuple[float, NDArray[np.intp]]:
    """Mean average precision over inner folds of whole films, or on the rows that choose.

    What the cell tests is held out here too. The second value is where concept vectors were found.
    """
    from sklearn.metrics import average_precision_score

    found, found_on = [], NO_ROWS
    for train, choose in _inner_splits(case):
        split = Split("inner", train, choose, case.split.test, case.split.provenance)
        inner = replace(case, split=split, join_validation=False)
        learned = _train(kind, settings, inner, features, banks)
        truth = case.labels[choose] == 1
        found.append(float(average_precision_score(truth, learned.score(choose))))
        found_on = np.union1d(found_on, learned.found_on)
    return (float(np.mean(found)) if found else 0.0), found_on


def _inner_splits(case: Case) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    from obygaze_models.models.concepts import inner_folds

    if not case.join_validation and len(np.unique(case.labels[case.split.validation])) == 2:
        return [(case.split.train, case.split.validation)]
    folds = inner_folds(case.y == 1, case.films, INNER_FOLDS)
    return [(case.learn[~fold], case.learn[fold]) for fold in folds]
